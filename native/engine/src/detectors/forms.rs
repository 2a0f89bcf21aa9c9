//! The forms that issuers give their keys, and which of them may stand in a text.
//!
//! They stand in `forms.txt`, which is written from the Python table (`secret_forms.py`); a test holds them together. A
//! key begins where a word does, so that a text is read word by word, and not for each literal of each form.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::detectors::reading::long_words;
use crate::rx::Rx;

const FORMS: &str = include_str!("forms.txt");
const LEAST_KEY: usize = 15; // bytes of a key in an issuer's form: none holds a blank, a quote or a comma before that
const LOOKS: usize = 64; // at places where a form may be
const LONG: usize = 512; // bytes of a word that is not looked at for each literal in it

/// The forms.
pub static ISSUERS: LazyLock<Vec<Form>> =
    LazyLock::new(|| FORMS.lines().enumerate().filter_map(Form::read).collect());
static LITERALS: LazyLock<(Option<AhoCorasick>, Vec<usize>)> = LazyLock::new(literals);
static STARTS: LazyLock<Starts> = LazyLock::new(Starts::new);

/// One issuer's form; `leads` where every match begins with one of its literals.
pub struct Form {
    /// Its place among the forms.
    pub place: usize,
    /// Whose key it is.
    pub kind: &'static str,
    literals: &'static str,
    leads: bool,
    /// The pattern.
    pub pattern: LazyLock<Rx, Box<dyn FnOnce() -> Rx + Send>>,
}

impl Form {
    fn read((place, line): (usize, &'static str)) -> Option<Self> {
        let mut fields = line.split('\t');
        let (kind, literals, source) = (fields.next()?, fields.next()?, fields.next()?);
        let compile = move || Rx::new(&format!("(?<![A-Za-z0-9_]){source}(?![A-Za-z0-9])"));
        Some(Self {
            place,
            kind,
            literals,
            leads: leads(source, literals),
            pattern: LazyLock::new(Box::new(compile)),
        })
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

/// All literals of all forms in one automaton, and the form of each.
fn literals() -> (Option<AhoCorasick>, Vec<usize>) {
    let rows = ISSUERS.iter().enumerate();
    let pairs = rows.flat_map(|(at, form)| form.literals.split(' ').map(move |text| (text, at)));
    let (texts, forms): (Vec<&str>, Vec<usize>) = pairs.unzip();
    let kind = Some(AhoCorasickKind::DFA); // quick however often a literal is there
    (AhoCorasick::builder().kind(kind).build(texts).ok(), forms)
}

/// Whether a literal of each form stands in the long words of a text; no label holds one of which a match could begin.
#[must_use]
pub fn literals_in(text: &str) -> Vec<bool> {
    let (automaton, forms) = &*LITERALS;
    let mut found = vec![automaton.is_none(); ISSUERS.len()];
    for word in long_words(text, LEAST_KEY) {
        for hit in automaton
            .iter()
            .flat_map(|all| all.find_overlapping_iter(word))
        {
            let form = forms.get(hit.pattern().as_usize());
            if let Some(held) = form.and_then(|at| found.get_mut(*at)) {
                *held = true;
            }
        }
    }
    found
}

/// Whether each form may match in a text as it stands.
#[must_use]
pub fn forms_in(text: &str) -> Vec<bool> {
    let mut seen = vec![Seen::default(); ISSUERS.len()];
    for word in long_words(text, LEAST_KEY) {
        STARTS.look(word, &mut seen);
    }
    seen.into_iter().map(|seen| seen.may_match).collect()
}

/// How often a form was looked for, and whether it may match.
#[derive(Clone, Copy, Default)]
struct Seen {
    looks: usize,
    may_match: bool,
}

/// A literal and its form.
type Literal = (&'static [u8], usize);

/// Where keys begin, by what stands there.
struct Starts {
    /// Of two bytes whether a literal begins with them with which a match begins, a bit each.
    pairs: [u64; 1024],
    /// Those literals, by their first byte.
    leading: Vec<Vec<Literal>>,
    /// By the first sign in them that is of no word: literals that stand within a match, and where that sign does.
    inner: Vec<Vec<(Literal, usize)>>,
    /// What each byte is in a word.
    classes: [Class; 256],
}

/// What a byte is in a word: after one that is not `OfWord` a key may begin, and around a `Sign` a literal may stand.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Class {
    #[default]
    Other,
    OfWord,
    Sign,
}

fn of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl Starts {
    fn new() -> Self {
        let mut starts = Self {
            pairs: [0; 1024],
            leading: vec![Vec::new(); 256],
            inner: vec![Vec::new(); 256],
            classes: std::array::from_fn(|at| {
                if u8::try_from(at).is_ok_and(of_word) {
                    Class::OfWord
                } else {
                    Class::Other
                }
            }),
        };
        for form in ISSUERS.iter() {
            for literal in form.literals.split(' ').map(str::as_bytes) {
                starts.add(literal, form);
            }
        }
        starts
    }

    fn add(&mut self, literal: &'static [u8], form: &Form) {
        let sign = literal.iter().position(|byte| !of_word(*byte));
        match (literal, sign) {
            ([first, second, ..], _) if form.leads && of_word(*first) => {
                let (row, bit) = place_of_pair(*first, *second);
                if let Some(bits) = self.pairs.get_mut(row) {
                    *bits |= bit;
                }
                if let Some(held) = self.leading.get_mut(usize::from(*first)) {
                    held.push((literal, form.place));
                }
            }
            (_, Some(sign)) => {
                let byte = literal.get(sign).copied().unwrap_or(0);
                if let Some(class) = self.classes.get_mut(usize::from(byte)) {
                    *class = Class::Sign;
                }
                if let Some(held) = self.inner.get_mut(usize::from(byte)) {
                    held.push(((literal, form.place), sign));
                }
            }
            _ => debug_assert!(
                false,
                "a form's literal could stand anywhere: {}",
                form.kind
            ),
        }
    }

    /// Look at each place of a word where a key may begin, or a literal of one may stand.
    fn look(&self, word: &str, seen: &mut [Seen]) {
        let bytes = word.as_bytes();
        let class = |byte: u8| {
            self.classes
                .get(usize::from(byte))
                .copied()
                .unwrap_or_default()
        };
        let mut at = 0;
        loop {
            self.look_at_start(word, at, seen);
            let mut rest = bytes.get(at..).unwrap_or_default().iter();
            let Some(ahead) = rest.position(|byte| class(*byte) != Class::OfWord) else {
                return;
            };
            at += ahead;
            if bytes
                .get(at)
                .is_some_and(|byte| class(*byte) == Class::Sign)
            {
                self.look_around(word, at, seen);
            }
            at += 1;
        }
    }

    /// Look for the literals of which a sign stands there.
    fn look_around(&self, word: &str, sign: usize, seen: &mut [Seen]) {
        let bytes = word.as_bytes();
        let byte = bytes.get(sign).copied().unwrap_or(0);
        for ((literal, form), before) in self.inner.get(usize::from(byte)).into_iter().flatten() {
            let start = sign.checked_sub(*before);
            let rest = start.and_then(|start| bytes.get(start..));
            if rest.is_some_and(|rest| stands_first(rest, literal)) {
                look_for(*form, word, sign, seen);
            }
        }
    }

    fn look_at_start(&self, word: &str, at: usize, seen: &mut [Seen]) {
        let rest = word.as_bytes().get(at..).unwrap_or_default();
        let [first, second, ..] = rest else {
            return;
        };
        let (row, bit) = place_of_pair(*first, *second);
        if self.pairs.get(row).is_none_or(|bits| bits & bit == 0) {
            return;
        }
        for (literal, form) in self.leading.get(usize::from(*first)).into_iter().flatten() {
            if stands_first(rest, literal) {
                look_for(*form, word, at, seen);
            }
        }
    }
}

/// Whether a text begins with a literal, which is short, and of which mostly no character is there.
fn stands_first(text: &[u8], literal: &[u8]) -> bool {
    text.len() >= literal.len() && text.iter().zip(literal).all(|(one, other)| one == other)
}

fn place_of_pair(first: u8, second: u8) -> (usize, u64) {
    let pair = usize::from(first) << 8 | usize::from(second);
    (pair >> 6, 1 << (pair & 63))
}

/// Look for a form at one of its literals; after many, a match is looked for everywhere.
fn look_for(form: usize, word: &str, at: usize, seen: &mut [Seen]) {
    let (Some(held), Some(form)) = (seen.get_mut(form), ISSUERS.get(form)) else {
        return;
    };
    if held.may_match {
        return;
    }
    held.looks += 1;
    held.may_match = held.looks > LOOKS
        || (if form.leads {
            form.pattern.match_at(word, at).is_some()
        } else {
            word.len() > LONG || form.pattern.is_in(word)
        });
}

#[cfg(test)]
mod tests {
    use super::{forms_in, literals_in, ISSUERS};
    use crate::detectors::reading::mixed;

    #[test]
    fn every_form_compiles() {
        assert!(ISSUERS.len() > 50);
        assert!(ISSUERS.iter().all(|form| !form.pattern.is_in("nothing")));
    }

    #[test]
    fn a_form_that_stands_in_a_text_is_seen() {
        let literals: Vec<&str> = ISSUERS
            .iter()
            .flat_map(|form| form.literals.split(' '))
            .collect();
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
            let (may, literals) = (forms_in(&text), literals_in(&text));
            for form in ISSUERS.iter().filter(|form| form.pattern.is_in(&text)) {
                assert_eq!(may.get(form.place), Some(&true), "{} {text:?}", form.kind);
                assert_eq!(
                    literals.get(form.place),
                    Some(&true),
                    "{} {text:?}",
                    form.kind
                );
                found += 1;
            }
        }
        assert!(found > 500, "{found}");
    }
}
