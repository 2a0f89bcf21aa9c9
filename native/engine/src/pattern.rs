//! Regexes in the spelling that the planner derives from the policy language's syntax tree: explicit classes only.

use regex::{Regex, RegexBuilder};

use crate::literals::literals_of;

const MAX_COMPILED: usize = 16 << 20; // bytes of one compiled program
const MAX_DFA: usize = 4 << 20; // bytes that one search may keep

/// A compiled pattern; matching is linear in the text.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compile a pattern.
    ///
    /// # Errors
    /// One line, where it is no pattern or needs too much memory; the rule then stays with Python.
    pub fn new(spelling: &str) -> Result<Self, String> {
        RegexBuilder::new(spelling)
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_DFA)
            .build()
            .map(Self)
            .map_err(|_| "is no pattern, or one that needs too much memory".to_owned())
    }

    /// Literals of which one stands in every text that holds a match, where that is known.
    #[must_use]
    pub fn literals(&self) -> Option<Vec<Vec<u8>>> {
        literals_of(self.0.as_str())
    }

    /// Whether the text holds a match anywhere.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}
