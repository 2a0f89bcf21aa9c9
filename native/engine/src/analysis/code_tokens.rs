//! The tokens of a scripting language's text: strings, names, and every other character by itself.

use std::sync::LazyLock;

use super::patterns::Pattern;
use super::values::is_space;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string literal with its quotes.
    Str,
    /// A text in backticks.
    Tick,
    /// `q{...}`, `qq(...)`, `qx[...]`, `%x/.../`.
    Quoted,
    /// A name with its parts: `os.path.join`.
    Name,
    /// One other character.
    Other,
}

/// One token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'t> {
    /// What it is.
    pub kind: Kind,
    /// Its text.
    pub text: &'t str,
}

static WORD: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r"^\w$"));

/// The tokens from left to right, comments left out.
#[must_use]
pub fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let reader = Reader::new(code);
    let mut at = 0;
    while let Some(c) = reader.char(at) {
        let next = if let Some(end) = reader.string(at) {
            Some((Kind::Str, end))
        } else if let Some(end) = (c == '`').then(|| reader.closed(at, '`', true)).flatten() {
            Some((Kind::Tick, end))
        } else if let Some(end) = reader.quoted(at) {
            Some((Kind::Quoted, end))
        } else if let Some(end) = reader.comment(at) {
            at = end;
            continue;
        } else if let Some(end) = reader.name(at) {
            Some((Kind::Name, end))
        } else {
            (!is_space(c)).then_some((Kind::Other, at + 1))
        };
        if let Some((kind, end)) = next {
            found.push(Token {
                kind,
                text: reader.text(at, end),
            });
            at = end;
        } else {
            at += 1;
        }
    }
    found
}

/// The text's characters with where each one starts.
struct Reader<'t> {
    text: &'t str,
    chars: Vec<(usize, char)>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        Reader {
            text,
            chars: text.char_indices().collect(),
        }
    }

    fn char(&self, at: usize) -> Option<char> {
        self.chars.get(at).map(|(_, c)| *c)
    }

    fn is(&self, at: usize, wanted: &str) -> bool {
        wanted
            .chars()
            .enumerate()
            .all(|(k, c)| self.char(at + k) == Some(c))
    }

    fn text(&self, start: usize, end: usize) -> &'t str {
        let offset = |at: usize| self.chars.get(at).map_or(self.text.len(), |(o, _)| *o);
        self.text.get(offset(start)..offset(end)).unwrap_or("")
    }

    /// The first index from `at` on whose character fails the test.
    fn past(&self, mut at: usize, test: impl Fn(char) -> bool) -> usize {
        while self.char(at).is_some_and(&test) {
            at += 1;
        }
        at
    }

    fn string(&self, at: usize) -> Option<usize> {
        let prefix = self.past(at, |c| "rbfuRBFU".contains(c)).min(at + 2);
        let quote = self.char(prefix).filter(|c| matches!(c, '\'' | '"'))?;
        let triple: String = [quote; 3].iter().collect();
        if self.is(prefix, &triple) {
            if let Some(end) = self.tripled(prefix + 3, &triple) {
                return Some(end);
            }
        }
        self.closed(prefix, quote, false)
    }

    fn tripled(&self, mut at: usize, triple: &str) -> Option<usize> {
        loop {
            if self.is(at, triple) {
                return Some(at + 3);
            }
            let escape = self.char(at)? == '\\';
            if escape {
                self.char(at + 1)?;
            }
            at += 1 + usize::from(escape);
        }
    }

    /// The end of a text that starts with `quote` at `at` and ends with the next one that no backslash hides.
    fn closed(&self, at: usize, quote: char, lines: bool) -> Option<usize> {
        let mut at = at + 1;
        loop {
            match self.char(at)? {
                c if c == quote => return Some(at + 1),
                '\\' => {
                    self.char(at + 1)?;
                    at += 2;
                }
                '\n' if !lines => return None,
                _ => at += 1,
            }
        }
    }

    fn quoted(&self, at: usize) -> Option<usize> {
        let fresh = at == 0 || !self.char(at - 1).is_some_and(is_word);
        let marks: &[&str] = if fresh {
            &["qx", "q", "qq", "%x"]
        } else {
            &["%x"]
        };
        marks
            .iter()
            .filter(|mark| self.is(at, mark))
            .find_map(|mark| self.bracketed(self.past(at + mark.len(), is_space)))
    }

    fn bracketed(&self, at: usize) -> Option<usize> {
        let open = self.char(at)?;
        let close = match open {
            '{' => '}',
            '(' => ')',
            '[' => ']',
            '/' => '/',
            _ => return None,
        };
        let end = self.past(at + 1, |c| c != open && c != close);
        (self.char(end) == Some(close)).then_some(end + 1)
    }

    fn comment(&self, at: usize) -> Option<usize> {
        let before = if at == 0 { None } else { self.char(at - 1) };
        let hash =
            self.is(at, "#") && !before.is_some_and(|c| is_word(c) || matches!(c, '$' | '&'));
        (hash || self.is(at, "//")).then(|| self.past(at, |c| c != '\n'))
    }

    fn name(&self, at: usize) -> Option<usize> {
        let first = self.char(at)?;
        if !first.is_ascii_alphabetic() && !matches!(first, '_' | '$' | '@') {
            return None;
        }
        let mut end = self.past(at + 1, |c| c == '$' || is_word(c));
        loop {
            let mark = if self.is(end, ".") {
                1
            } else if self.is(end, "::") || self.is(end, "->") {
                2
            } else {
                return Some(end);
            };
            match self.char(end + mark) {
                Some(c) if c.is_ascii_alphabetic() || c == '_' => {}
                _ => return Some(end),
            }
            end = self.past(end + mark + 1, is_word);
            end += usize::from(self.is(end, "!") || self.is(end, "?"));
        }
    }
}

/// What `\w` is to Python.
fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    WORD.is_match(c.encode_utf8(&mut [0; 4]))
}
