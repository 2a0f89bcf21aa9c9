//! The forms that issuers give their keys, and where one of each may stand in a text.
//!
//! They stand in `forms.txt`, which is written from the Python table (`secret_forms.py`); a test holds them together. A
//! key begins where a word does, and its first bytes are known: one pass over a text finds where each form may match.

use std::borrow::Cow;
use std::iter::Peekable;
use std::sync::LazyLock;
use std::vec::IntoIter;

use crate::detectors::jwt::next_jwt;
use crate::detectors::marked::HEADER_PARTS;
use crate::detectors::named::NAME_PARTS;
use crate::prints::{Bytes, Prints};
use crate::rx::parse::{parse, Node};
use crate::rx::{head, last, reach, Flags, Found, Rx, HEAD};

const FORMS: &str = include_str!("forms.txt");
const JWT: &str = "JWT";
const KINDS: usize = 64 - NAME_PARTS.len() - HEADER_PARTS.len(); // of prints, each of one or two forms
const NAMES: u64 = ((1 << NAME_PARTS.len()) - 1) << KINDS; // the others are parts of names and of headers
const HEADERS: u64 = u64::MAX << (64 - HEADER_PARTS.len());
const SEEN: usize = 3; // bytes that prints know
const LOOKED: usize = 6; // bytes after them that all forms are asked for together
const ANCHOR: usize = 3; // bytes of a literal within a match that are looked for

/// The forms.
pub static ISSUERS: LazyLock<Vec<Form>> =
    LazyLock::new(|| FORMS.lines().enumerate().filter_map(Form::read).collect());
static STARTS: LazyLock<Starts> = LazyLock::new(Starts::new);

/// How it is found where a form may match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
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
    how: How,
    /// Which bytes may stand in it, from its beginning on, or from the literal within it.
    head: Head,
    /// The same from its beginning on.
    begin: Head,
    /// How many bytes stand before that literal, at least and at most: in any text, and in one of ASCII.
    reach: [(usize, usize); 2],
    /// Which bytes may stand right before what is known of it.
    before: Bytes,
    pattern: LazyLock<Rx, Box<dyn FnOnce() -> Rx + Send>>,
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
    fn next_leading(&self, text: &str, from: usize, places: &mut Ahead) -> Option<usize> {
        let fits = |at: usize| at >= from && self.head.fits(text.as_bytes(), at);
        while places.next_if(|at| !fits(*at)).is_some() {}
        places.peek().copied()
    }

    /// The next place from one on where a match may begin around one of the literals.
    fn next_around(
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
struct Head {
    any: [Bytes; HEAD],
    /// Where all of them are ASCII.
    plain: [Bytes; HEAD],
}

impl Head {
    fn of(node: &Node) -> Self {
        let (any, plain) = (head(node, true), head(node, false));
        Self { any, plain }
    }

    /// Whether the bytes from a place on may be its own.
    fn fits(&self, text: &[u8], at: usize) -> bool {
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

/// Where keys may begin, by what stands there.
struct Starts {
    prints: Prints,
    /// A bit for each form that may have a byte at one of the places after its print.
    after: Vec<[u128; 256]>,
}

impl Starts {
    fn new() -> Self {
        let mut prints = Prints::default();
        let mut after = vec![[0; 256]; LOOKED];
        for form in ISSUERS.iter().filter(|form| form.how != How::Parts) {
            let [first, second, third, rest @ ..] = &form.head.any;
            prints.add(form.place % KINDS, [form.before, *first, *second, *third]);
            for (rows, set) in after.iter_mut().zip(rest) {
                for (byte, row) in (0..=255).zip(rows) {
                    *row |= u128::from(set.has(byte)) << form.place;
                }
            }
        }
        for (kind, part) in NAME_PARTS.iter().chain(&HEADER_PARTS).enumerate() {
            prints.add_word(KINDS + kind, part.as_bytes());
        }
        Self { prints, after }
    }

    /// The forms of some kinds of print of which one may begin at a place, a bit each.
    fn forms(&self, text: &[u8], place: usize, kinds: u64) -> u128 {
        let kinds = u128::from(kinds);
        let mut forms = kinds | kinds << KINDS;
        let rest = text.get(place + SEEN..).unwrap_or_default();
        for (rows, byte) in self.after.iter().zip(rest) {
            forms &= rows.get(usize::from(*byte)).copied().unwrap_or(0);
            if forms == 0 {
                break;
            }
        }
        forms
    }
}

/// Whether a key, a literal or a part of a name may begin with a byte: true of no digit, and of few beyond ASCII.
#[allow(clippy::needless_bitwise_bool)] // nothing is left out: so that many bytes are read together
fn begins(byte: u8) -> bool {
    byte.is_ascii_alphabetic()
        | (byte == b'.')
        | (byte == b':')
        | (byte == b'-')
        | (byte == 0xc5)
        | (byte == 0xe2)
}

/// A text that was replaced by a label: where it stood, and how long the label is.
type Change = (usize, usize, usize);

/// Where keys may stand in a text, form by form: what changes in the text is followed.
pub struct Places {
    /// Where one of a form may begin, or the literal stands that is within one.
    held: Vec<Vec<usize>>,
    /// Whether a part of a name that says "secret" stands there too.
    pub named: bool,
    /// Whether a header may begin there.
    pub headed: bool,
}

impl Places {
    /// Those of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut held = vec![Vec::new(); ISSUERS.len()];
        let (mut others, bytes) = (0, text.as_bytes());
        STARTS.prints.each(bytes, u64::MAX, begins, |place, kinds| {
            for group in [NAMES, HEADERS] {
                others |= if kinds & group == 0 { 0 } else { group };
            }
            look(&mut held, bytes, place, kinds & !(NAMES | HEADERS));
            !others
        });
        Self {
            held,
            named: others & NAMES != 0,
            headed: others & HEADERS != 0,
        }
    }

    /// Whether a key of a form may be there.
    #[must_use]
    pub fn may_hold(&self, form: &Form) -> bool {
        let held = self.held.get(form.place);
        form.how == How::Parts || held.is_some_and(|held| !held.is_empty())
    }

    /// The text with the keys of a form replaced, where `with` has another text for one.
    ///
    /// # Errors
    /// That of `with`.
    pub fn replaced<'t, E>(
        &mut self,
        form: &Form,
        text: Cow<'t, str>,
        mut with: impl FnMut(&str) -> Result<Option<String>, E>,
    ) -> Result<Cow<'t, str>, E> {
        let held = self.held.get_mut(form.place).map(std::mem::take);
        let mut places = held.unwrap_or_default().into_iter().peekable();
        let mut changes: Vec<Change> = Vec::new();
        let mut seen = |text: &str, start: usize, end: usize| {
            let label = with(text.get(start..end).unwrap_or(""))?;
            let size = label.as_ref().map(String::len);
            changes.extend(size.map(|size| (start, end, size)));
            Ok(label)
        };
        let text = if form.how == How::Parts {
            by_hand(text, next_jwt, seen)?
        } else {
            let [any, plain] = form.reach;
            let reach = if text.is_ascii() { plain } else { any };
            let mut next = |text: &str, from: usize| match form.how {
                How::Within => form.next_around(text, reach, from, &mut places),
                _ => form.next_leading(text, from, &mut places),
            };
            if next(&text, 0).is_none() {
                return Ok(text); // its pattern is not even compiled
            }
            let seen = |found: &Found<'_>| seen(found.text(), found.start(), found.end());
            form.pattern.try_replaced_at(text, next, seen)?
        };
        if !changes.is_empty() {
            self.follow(form, &changes, &text);
        }
        Ok(text)
    }

    /// What changed in the text moves what stands after it, and may lay open a key behind each label; no label lays
    /// a literal open that stands within a key, for neither has a sign of the other.
    fn follow(&mut self, after: &Form, changes: &[Change], text: &str) {
        let (mut added, mut removed) = (0, 0);
        let ends = changes.iter().map(|(start, end, size)| {
            (added, removed) = (added + size, removed + end - start);
            end + added - removed
        });
        let ends: Vec<usize> = ends.collect();
        for (form, held) in ISSUERS.iter().zip(&mut self.held).skip(after.place + 1) {
            *held = moved(held, changes);
            if form.how == How::Leads {
                let open = |at: &&usize| form.head.fits(text.as_bytes(), **at);
                held.extend(ends.iter().filter(open));
                held.sort_unstable();
                held.dedup();
            }
        }
    }
}

/// See of which forms one may begin at a place, of some kinds of print. Few places are looked at: the loop over all of
/// them is quicker without this in it.
#[inline(never)]
fn look(held: &mut [Vec<usize>], text: &[u8], place: usize, kinds: u64) {
    let mut forms = STARTS.forms(text, place, kinds);
    while forms != 0 {
        let form = usize::try_from(forms.trailing_zeros()).ok();
        if let Some(held) = form.and_then(|form| held.get_mut(form)) {
            held.push(place);
        }
        forms &= forms - 1;
    }
}

/// The text with what `next` finds replaced, where `with` has another text for it.
fn by_hand<E>(
    text: Cow<'_, str>,
    next: impl Fn(&str, usize) -> Option<(usize, usize)>,
    mut with: impl FnMut(&str, usize, usize) -> Result<Option<String>, E>,
) -> Result<Cow<'_, str>, E> {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some((start, end)) = next(&text, at) {
        if let Some(other) = with(&text, start, end)? {
            out.push_str(text.get(copied..start).unwrap_or(""));
            out.push_str(&other);
            copied = end;
        }
        at = end;
    }
    if copied == 0 {
        return Ok(text);
    }
    out.push_str(text.get(copied..).unwrap_or(""));
    Ok(out.into())
}

/// Places in a text after it changed, without those that are gone.
fn moved(places: &[usize], changes: &[Change]) -> Vec<usize> {
    let mut changes = changes.iter().peekable();
    let (mut added, mut removed) = (0, 0);
    let still = places.iter().filter_map(|place| {
        while let Some((start, end, size)) = changes.next_if(|(_, end, _)| end <= place) {
            (added, removed) = (added + size, removed + end - start);
        }
        let is_gone = changes.peek().is_some_and(|(start, ..)| start <= place);
        (!is_gone).then(|| place + added - removed)
    });
    still.collect()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{moved, Places, FORMS, ISSUERS};
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

    #[test]
    fn nothing_else_begins_a_key_or_a_name() {
        let forms = ISSUERS.iter().filter(|form| form.how != super::How::Parts);
        for first in forms.filter_map(|form| form.head.any.first()) {
            assert!((0..=255).all(|byte| super::begins(byte) || !first.has(byte)));
        }
        let mut parts = super::NAME_PARTS
            .iter()
            .filter_map(|part| part.bytes().next());
        assert!(parts.all(super::begins));
    }

    #[test]
    fn places_go_with_the_text() {
        let changes = [(2, 4, 5), (6, 7, 0)];
        assert_eq!(moved(&[0, 2, 3, 4, 5, 6, 7, 9], &changes), [0, 7, 8, 9, 11]);
    }
}
