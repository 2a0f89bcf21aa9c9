//! What `secrets` found in a text.

use aho_corasick::AhoCorasick;
use memchr::memmem;

const MAX_COPIED: usize = 64; // values of one reading that are looked for elsewhere
const TOGETHER: usize = 4; // values that are looked for one by one
const LEAST_COPIED: usize = 8; // characters of such a value

/// What was found: how much, the kinds, each once, in their order, and values that are masked wherever they stand.
#[derive(Default)]
pub struct Kinds {
    /// How much.
    pub count: usize,
    /// The kinds.
    pub names: Vec<&'static str>,
    values: Vec<(String, String)>,
}

impl Kinds {
    /// The label of a secret found; `value` where only its place told that it is one.
    pub fn put(&mut self, kind: &'static str, value: &str) -> String {
        let mut label = String::new();
        self.write(kind, value, &mut label);
        label
    }

    /// The same, written to the end of a text.
    pub fn write(&mut self, kind: &'static str, value: &str, out: &mut String) {
        self.count += 1;
        if !self.names.contains(&kind) {
            self.names.push(kind);
        }
        let begun = out.len();
        for part in ["[REDACTED ", kind, "]"] {
            out.push_str(part);
        }
        let known = |values: &[(String, String)]| values.iter().any(|(one, _)| one == value);
        if self.values.len() < MAX_COPIED && !known(&self.values) && stands_out(value) {
            let label = out.get(begun..).unwrap_or("").to_owned();
            self.values.push((value.to_owned(), label));
        }
    }

    /// The text with each value of this reading masked wherever it stands.
    pub fn spread(&mut self, given: String) -> String {
        let mut text = given;
        let values = std::mem::take(&mut self.values);
        if !holds_one(&text, &values) {
            return text;
        }
        for (value, label) in values {
            if memmem::find(text.as_bytes(), value.as_bytes()).is_some() {
                text = text.replace(&value, &label);
            }
        }
        text
    }
}

/// Whether one of the values stands in a text: many are looked for together.
fn holds_one(text: &str, values: &[(String, String)]) -> bool {
    let all = values.iter().map(|(value, _)| value);
    let together = (values.len() > TOGETHER).then(|| AhoCorasick::new(all).ok());
    together
        .flatten()
        .is_none_or(|automaton| automaton.is_match(text))
}

/// True of a value that is nothing else where it stands once more: no word, no number, no part of a label.
fn stands_out(value: &str) -> bool {
    value.chars().nth(LEAST_COPIED - 1).is_some()
        && value.bytes().any(|b| b.is_ascii_digit())
        && value.bytes().any(|b| b.is_ascii_alphabetic())
        && !"[REDACTED INTRA42_SECRET]".contains(value)
}
