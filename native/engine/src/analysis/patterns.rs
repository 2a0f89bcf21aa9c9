//! Regular expressions and text helpers that see a text exactly as Python's `re` and `str` see it.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::values::is_space;

/// Characters that the two languages class differently: words for one of them only, and Python's extra blanks.
static APART: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"([\w--[\p{L}\p{N}_]])|([[\p{L}\p{N}_]--\w])|[\x1c-\x1f]").ok());

/// A compiled pattern in the common part of both languages (no look-around, no back references).
///
/// `$` means the end of the text alone; a pattern that Python writes with `$` has `\n?$` here.
pub struct Pattern {
    regex: Option<Regex>,
}

/// The texts of one match's groups, the whole match first.
pub struct Groups<'t> {
    texts: Vec<Option<&'t str>>,
}

impl<'t> Groups<'t> {
    /// A group that took part in the match.
    #[must_use]
    pub fn group(&self, number: usize) -> Option<&'t str> {
        self.texts.get(number).copied().flatten()
    }

    /// A group's text, empty where it took no part.
    #[must_use]
    pub fn text(&self, number: usize) -> &'t str {
        self.group(number).unwrap_or("")
    }
}

impl Pattern {
    /// The pattern as it stands.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        let regex = Regex::new(pattern).ok();
        debug_assert!(regex.is_some(), "a pattern does not compile: {pattern}");
        Pattern { regex }
    }

    /// The pattern without regard to case, with the two other letters that Python takes for an `i`.
    #[must_use]
    pub fn ignoring_case(pattern: &str) -> Self {
        Pattern::new(&format!("(?i){}", with_other_i(pattern)))
    }

    /// Whether the pattern could be read at all.
    #[cfg(test)]
    pub fn compiles(&self) -> bool {
        self.regex.is_some()
    }

    /// Whether the pattern stands somewhere in the text.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.regex
            .as_ref()
            .is_some_and(|regex| regex.is_match(&levelled(text)))
    }

    /// The first match's text.
    #[must_use]
    pub fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        let found = self.regex.as_ref()?.find(&levelled(text))?.range();
        text.get(found)
    }

    /// The first match with its groups.
    #[must_use]
    pub fn captures<'t>(&self, text: &'t str) -> Option<Groups<'t>> {
        let level = levelled(text);
        let found = self.regex.as_ref()?.captures(&level)?;
        Some(groups(&found, text))
    }

    /// Every match from left to right, none over another.
    #[must_use]
    pub fn all<'t>(&self, text: &'t str) -> Vec<Groups<'t>> {
        let level = levelled(text);
        match &self.regex {
            Some(regex) => regex
                .captures_iter(&level)
                .map(|found| groups(&found, text))
                .collect(),
            None => Vec::new(),
        }
    }
}

fn groups<'t>(found: &Captures<'_>, text: &'t str) -> Groups<'t> {
    let texts = found
        .iter()
        .map(|group| group.and_then(|group| text.get(group.range())))
        .collect();
    Groups { texts }
}

/// The text with each character of [`APART`] replaced by one of the same length that both languages class alike.
fn levelled(text: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte < 0x80 && !(0x1c..=0x1f).contains(&byte);
    let Some(apart) = APART.as_ref() else {
        return Cow::Borrowed(text);
    };
    if text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    apart.replace_all(text, |found: &Captures<'_>| {
        let length = found.get(0).map_or(1, |whole| whole.len());
        let word = found.get(2).is_some();
        match (length, word) {
            (2, true) => "\u{e9}",
            (2, false) => "\u{a1}",
            (3, true) => "\u{4e00}",
            (3, false) => "\u{203c}",
            (4, true) => "\u{20000}",
            (4, false) => "\u{1f600}",
            _ => "\u{b}",
        }
    })
}

/// The pattern with the dotless and the dotted `i` beside each literal `i` (Python ignores case that far).
fn with_other_i(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let (mut in_class, mut escaped) = (false, false);
    for c in pattern.chars() {
        let literal = !escaped && matches!(c, 'i' | 'I');
        if literal && in_class {
            out.push_str("i\u{131}\u{130}");
        } else if literal {
            out.push_str("[i\u{131}\u{130}]");
        } else {
            out.push(c);
        }
        in_class = if escaped {
            in_class
        } else {
            (in_class || c == '[') && c != ']'
        };
        escaped = !escaped && c == '\\';
    }
    out
}

fn matches_whole(regex: &LazyLock<Option<Regex>>, text: &str) -> bool {
    regex.as_ref().is_some_and(|regex| regex.is_match(text))
}

/// Whether the text is letters only (Python's `str.isalpha`).
#[must_use]
pub fn is_alpha(text: &str) -> bool {
    static ALPHA: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}+$").ok());
    matches_whole(&ALPHA, text)
}

/// Whether the text is a name (Python's `str.isidentifier`).
#[must_use]
pub fn is_identifier(text: &str) -> bool {
    static NAME: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"^[\p{XID_Start}_]\p{XID_Continue}*$").ok());
    matches_whole(&NAME, text)
}

/// Python's `str.split()`.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// Python's `str.splitlines()`.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    let breaks = |c: char| {
        matches!(
            c,
            '\n' | '\u{b}' | '\u{c}' | '\r' | '\u{1c}'
                ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(at) = rest.find(breaks) else {
            return Some(std::mem::take(&mut rest));
        };
        let (line, after) = rest.split_at_checked(at)?;
        let mut chars = after.chars();
        if chars.next() == Some('\r') && chars.as_str().starts_with('\n') {
            chars.next();
        }
        rest = chars.as_str();
        Some(line)
    })
}

/// Python's `str.strip()`.
#[must_use]
pub fn stripped(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Whether the text starts with one of `prefixes`.
#[must_use]
pub fn starts(text: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| text.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::{words, Pattern};

    #[test]
    fn words_are_what_python_takes_for_words() {
        assert!(Pattern::new(r"^\w$").is_match("\u{b2}"));
        assert!(!Pattern::new(r"^\w$").is_match("\u{301}"));
        assert!(!Pattern::new(r"^\w$").is_match("\u{203f}"));
        assert!(Pattern::new(r"^a\sb$").is_match("a\u{1c}b"));
        assert_eq!(words("a\u{1d}b  c").collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn a_match_shows_the_text_itself() {
        let found = Pattern::new(r"(\w+)=(.*)")
            .captures("\u{b2}=\u{301}x")
            .map(|m| (m.text(1).to_owned(), m.text(2).to_owned()));
        assert_eq!(found, Some(("\u{b2}".to_owned(), "\u{301}x".to_owned())));
    }

    #[test]
    fn case_is_ignored_as_far_as_python_does() {
        assert!(Pattern::ignoring_case("^limit[ix]$").is_match("L\u{131}M\u{130}T\u{131}"));
        assert!(Pattern::ignoring_case("^disk$").is_match("di\u{17f}\u{212a}"));
    }
}
