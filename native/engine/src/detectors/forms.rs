//! The forms that issuers give their keys.
//!
//! They stand in `forms.txt`, which is written from the Python table (`secret_forms.py`); a test holds them together.
//! What every match of a form begins with, or holds, is read from its source: where that stands (`places.rs`), its
//! pattern is tried.

use std::iter::Peekable;
use std::sync::LazyLock;
use std::vec::IntoIter;

use crate::prints::Bytes;
use crate::rx::parse::{parse, Node};
use crate::rx::{head, last, reach, Flags, Rx, HEAD};

const FORMS: &str = include_str!("forms.txt");
const JWT: &str = "JWT";
const ANCHOR: usize = 3; // bytes of a literal within a match that are looked for

/// The forms.
pub static ISSUERS: LazyLock<Vec<Form>> =
    LazyLock::new(|| FORMS.lines().enumerate().filter_map(Form::read).collect());
/// How it is found where a form may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Every match begins with one of the literals.
    Leads,
    /// A literal stands within a match.
    Within,
    /// Its parts are read by hand.
    Parts,
}

/// One issuer's form.
pub struct Form {
    /// Its place among the forms.
    pub place: usize,
    /// Whose key it is.
    pub kind: &'static str,
    pub(super) how: How,
    /// Which bytes may stand in it, from its beginning on, or from the literal within it.
    pub(super) head: Head,
    /// The same from its beginning on.
    begin: Head,
    /// How many bytes stand before that literal, at least and at most: in any text, and in one of ASCII.
    pub(super) reach: [(usize, usize); 2],
    /// Which bytes may stand right before what is known of it.
    pub(super) before: Bytes,
    pub(super) pattern: LazyLock<Rx, Box<dyn FnOnce() -> Rx + Send>>,
}

impl Form {
    fn read((place, line): (usize, &'static str)) -> Option<Self> {
        let mut fields = line.split('\t');
        let (kind, literals, source) = (fields.next()?, fields.next()?, fields.next()?);
        let compile = move || Rx::new(&format!("(?<![A-Za-z0-9_]){source}(?![A-Za-z0-9])"));
        let how = match () {
            () if kind == JWT => How::Parts,
            () if leads(source, literals) => How::Leads,
            () => How::Within,
        };
        let anchor = literals.get(literals.len().saturating_sub(ANCHOR)..)?;
        let begins = if how == How::Within {
            source.find(&anchor.replace('.', "\\."))
        } else {
            Some(0)
        };
        let of = |source: &str| Some(parse(source, Flags::default())?.0);
        let (before, known) = source.split_at_checked(begins?)?;
        let before = of(before)?;
        Some(Self {
            place,
            kind,
            how,
            head: Head::of(&of(known)?),
            begin: Head::of(&of(source)?),
            reach: [reach(&before, true), reach(&before, false)],
            before: if how == How::Within {
                last(&before)
            } else {
                Bytes::of(|byte| !byte.is_ascii_alphanumeric() && byte != b'_')
            },
            pattern: LazyLock::new(Box::new(compile)),
        })
    }

    /// The next of some places, from one on, where a match may begin.
    pub(super) fn next_leading(
        &self,
        text: &str,
        from: usize,
        places: &mut Ahead,
    ) -> Option<usize> {
        let fits = |at: usize| at >= from && self.head.fits(text.as_bytes(), at);
        while places.next_if(|at| !fits(*at)).is_some() {}
        places.peek().copied()
    }

    /// The next place from one on where a match may begin around one of the literals.
    pub(super) fn next_around(
        &self,
        text: &str,
        (least, most): (usize, usize),
        from: usize,
        literals: &mut Ahead,
    ) -> Option<usize> {
        let mut at = from;
        loop {
            while literals.next_if(|place| *place < at + least).is_some() {}
            let literal = *literals.peek()?;
            let until = literal.checked_sub(least)?;
            let mut places = at.max(literal.saturating_sub(most))..=until;
            if let Some(start) = places.find(|start| self.may_begin(text, *start)) {
                return Some(start);
            }
            at = until + 1;
        }
    }

    fn may_begin(&self, text: &str, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|at| text.as_bytes().get(at));
        !before.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
            && self.begin.fits(text.as_bytes(), at)
            && text.is_char_boundary(at)
    }
}

/// Places in a text that are still ahead.
type Ahead = Peekable<IntoIter<usize>>;

/// Which bytes may stand at the first places of what a pattern finds.
pub(super) struct Head {
    pub(super) any: [Bytes; HEAD],
    /// Where all of them are ASCII.
    plain: [Bytes; HEAD],
}

impl Head {
    fn of(node: &Node) -> Self {
        let (any, plain) = (head(node, true), head(node, false));
        Self { any, plain }
    }

    /// Whether the bytes from a place on may be its own.
    pub(super) fn fits(&self, text: &[u8], at: usize) -> bool {
        let here = text.get(at..).unwrap_or_default();
        let here = here.get(..HEAD).unwrap_or(here);
        let sets = if here.is_ascii() {
            &self.plain
        } else {
            &self.any
        };
        here.iter().zip(sets).all(|(byte, set)| set.has(*byte))
    }
}

/// Whether every match of a source begins with one of the literals.
fn leads(source: &str, literals: &str) -> bool {
    let class = source
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'));
    if let Some((_, after)) = class {
        let after = after.replace("\\.", ".");
        let mut rests = literals
            .split(' ')
            .map(|literal| literal.get(1..).unwrap_or(""));
        return rests.all(|rest| !rest.is_empty() && after.starts_with(rest));
    }
    let group = source
        .strip_prefix("(?:")
        .and_then(|rest| rest.split_once(')'));
    let is_optional = group.is_some_and(|(_, after)| after.starts_with('?'));
    !source.starts_with('\\') && !is_optional
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{FORMS, ISSUERS};
    use crate::detectors::places::Places;
    use crate::detectors::reading::mixed;

    #[test]
    fn every_form_compiles() {
        assert!(ISSUERS.len() > 50);
        assert!(ISSUERS.iter().all(|form| !form.pattern.is_in("nothing")));
    }

    #[test]
    fn a_form_that_stands_in_a_text_is_seen() {
        let fields = FORMS.lines().filter_map(|line| line.split('\t').nth(1));
        let literals: Vec<&str> = fields.flat_map(|field| field.split(' ')).collect();
        let fillers = [
            "x",
            "_",
            "-",
            ".",
            " ",
            "é",
            "/",
            "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAx",
            "0123456789abcdef0123456789abcdef",
            ",",
            "\"",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdef",
            "AKIAQ7DGH5JKLQWE7T2M",
            "12345678:AAbcdefghijklmnopqrstuvwxyz0123456",
            "abcdef0123456789abcdef0123456789-us12",
            "key-0123456789abcdef0123456789abcdef",
            "]",
            "sk-proj-abcdefghijklmnopqrst",
            "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
            "abc1Q~abcdefghijklmnopqrstuvwxyz0123456",
            "abcdefghijklmn.atlasv1.",
            "hf_abcdefghijklmnopqrstuvwxyzabcdefgh",
        ];
        let mut found = 0;
        for seed in 0..2_000_u64 {
            let literal = literals
                .get(usize::try_from(seed).unwrap_or(0) % literals.len())
                .copied()
                .unwrap_or("");
            let pieces: Vec<&str> = fillers.iter().copied().chain([literal, literal]).collect();
            let text = mixed(&pieces, seed, 9);
            let (mut one, mut other) = (text.clone(), text.clone());
            let mut places = Places::of(&text);
            for form in ISSUERS.iter() {
                let label = || Some("[REDACTED X]".to_owned());
                let plainly = form.pattern.replaced(one.as_str().into(), |_| label());
                found += usize::from(plainly != one);
                one = plainly.into_owned();
                if places.may_hold(form) {
                    let seen = places.replaced(form, other.into(), |_| Ok::<_, ()>(label()));
                    other = seen.map(Cow::into_owned).unwrap_or_default();
                }
                assert_eq!(other, one, "{} {text:?}", form.kind);
            }
        }
        assert!(found > 500, "{found}");
    }
}
