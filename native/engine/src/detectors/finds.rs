//! What `secrets` found in a text.

use memchr::memmem;

const MAX_COPIED: usize = 64; // values of one reading that are looked for elsewhere
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
        self.count += 1;
        if !self.names.contains(&kind) {
            self.names.push(kind);
        }
        let label = format!("[REDACTED {kind}]");
        let known = |values: &[(String, String)]| values.iter().any(|(one, _)| one == value);
        if self.values.len() < MAX_COPIED && stands_out(value) && !known(&self.values) {
            self.values.push((value.to_owned(), label.clone()));
        }
        label
    }

    /// The text with each value of this reading masked wherever it stands.
    pub fn spread(&mut self, given: String) -> String {
        let mut text = given;
        for (value, label) in self.values.drain(..) {
            if memmem::find(text.as_bytes(), value.as_bytes()).is_some() {
                text = text.replace(&value, &label);
            }
        }
        text
    }
}

/// True of a value that is nothing else where it stands once more: no word, no number, no part of a label.
fn stands_out(value: &str) -> bool {
    value.chars().nth(LEAST_COPIED - 1).is_some()
        && value.bytes().any(|b| b.is_ascii_digit())
        && value.bytes().any(|b| b.is_ascii_alphabetic())
        && !"[REDACTED INTRA42_SECRET]".contains(value)
}
