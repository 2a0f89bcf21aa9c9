//! What a detector that masks found in a text.

use std::borrow::Cow;

use aho_corasick::AhoCorasick;
use memchr::memmem;

use crate::detectors::walk::Found;

/// Finds of one text that are masked one by one, where a policy's `limits.finds` does not say otherwise.
pub const MOST: usize = 1024;
const MAX_COPIED: usize = 64; // values of one reading that are looked for elsewhere
const TOGETHER: usize = 4; // values that are looked for one by one
const LEAST_COPIED: usize = 8; // characters of such a value

/// More was found than is masked find by find: the text is read no further.
#[derive(Clone, Copy, Debug)]
pub struct TooMany;

/// What was found: how much, the kinds, each once, in their order, and values that are masked wherever they stand.
pub struct Kinds {
    /// How much.
    pub count: usize,
    most: usize,
    /// The kinds.
    pub names: Vec<&'static str>,
    values: Vec<(String, String)>,
}

impl Kinds {
    /// Nothing yet, and at most so much.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            count: 0,
            most,
            names: Vec::new(),
            values: Vec::new(),
        }
    }

    /// What replaces the text that was read, where anything was found in it, and the kinds.
    #[must_use]
    pub fn found(&self, read: Result<Cow<'_, str>, TooMany>) -> Option<Found> {
        let kinds = self.names.join(", ");
        match read {
            Ok(_) if self.count == 0 => None,
            Ok(text) => Some((text.into_owned(), kinds)),
            Err(TooMany) => {
                let whole = format!("{kinds}, a whole text of more than {} finds", self.most);
                Some(("[REDACTED TEXT]".to_owned(), whole))
            }
        }
    }

    /// The label of a secret found; `value` where only its place told that it is one.
    ///
    /// # Errors
    /// Where it is one too many.
    pub fn put(&mut self, kind: &'static str, value: &str) -> Result<String, TooMany> {
        let mut label = String::new();
        self.write(kind, value, &mut label)?;
        Ok(label)
    }

    /// The same, written to the end of a text.
    ///
    /// # Errors
    /// Where it is one too many.
    pub fn write(
        &mut self,
        kind: &'static str,
        value: &str,
        out: &mut String,
    ) -> Result<(), TooMany> {
        self.count += 1;
        if !self.names.contains(&kind) {
            self.names.push(kind);
        }
        if self.count > self.most {
            return Err(TooMany);
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
        Ok(())
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
