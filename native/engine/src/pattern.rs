//! Regexes in the spelling that the planner derives from the policy language's syntax tree: explicit classes only.

use memchr::memmem::Finder;
use regex::{Regex, RegexBuilder};
use regex_syntax::hir::{Hir, HirKind};

use crate::literals::literals_of;

const MAX_COMPILED: usize = 16 << 20; // bytes of one compiled program
const MAX_DEPTH: usize = 64; // of a pattern that is looked into
const MAX_DFA: usize = 4 << 20; // bytes that one search may keep

/// A compiled pattern; matching is linear in the text. A text without what stands in every match is not read by it.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    needed: Option<Box<Finder<'static>>>,
}

/// The longest text that stands in every match, as far as it is written out.
fn stands_in(tree: &Hir, depth: usize) -> Option<&[u8]> {
    if depth > MAX_DEPTH {
        return None;
    }
    match tree.kind() {
        HirKind::Literal(text) => Some(&text.0),
        HirKind::Capture(group) => stands_in(&group.sub, depth + 1),
        HirKind::Repetition(many) if many.min > 0 => stands_in(&many.sub, depth + 1),
        HirKind::Concat(parts) => parts
            .iter()
            .filter_map(|part| stands_in(part, depth + 1))
            .max_by_key(|text| text.len()),
        _ => None,
    }
}

impl Pattern {
    /// Compile a pattern.
    ///
    /// # Errors
    /// One line, where it is no pattern or needs too much memory; the rule then stays with Python.
    pub fn new(spelling: &str) -> Result<Self, String> {
        let regex = RegexBuilder::new(spelling)
            .size_limit(MAX_COMPILED)
            .dfa_size_limit(MAX_DFA)
            .build()
            .map_err(|_| "is no pattern, or one that needs too much memory".to_owned())?;
        let tree = regex_syntax::parse(spelling).ok();
        let needed = tree.as_ref().and_then(|tree| stands_in(tree, 0));
        let needed = needed.map(|text| Box::new(Finder::new(text).into_owned()));
        Ok(Self { regex, needed })
    }

    /// Literals of which one stands in every text that holds a match, where that is known.
    #[must_use]
    pub fn literals(&self) -> Option<Vec<Vec<u8>>> {
        literals_of(self.regex.as_str())
    }

    /// Whether the text holds a match anywhere.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let may = self
            .needed
            .as_ref()
            .is_none_or(|needed| needed.find(text.as_bytes()).is_some());
        may && self.regex.is_match(text)
    }
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    #[test]
    fn a_text_without_what_a_match_needs_does_not_match_and_others_are_read() {
        for (spelling, text, expected) in [
            (r"[A][B]+[c]", "xABBc", true),
            (r"[A][B]+[c]", "xabbc", false),
            (r"(?:[n][p][m]) +[r]", "NPM r npm  r", true),
            (r"[a]{0,3}[b]", "b", true),
            (r"(?:[a]|[b])", "b", true),
            (r"", "", true),
            (r"[é]{2}", "éé", true),
        ] {
            let found = Pattern::new(spelling).map(|pattern| pattern.matches(text));
            assert_eq!(found, Ok(expected), "{spelling} {text}");
        }
    }
}
