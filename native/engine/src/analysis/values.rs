//! What is known of a word's value before anything runs: its text, with marks where it is unknown.

use std::borrow::Cow;

/// Some text that only the shell will know.
pub const UNKNOWN: char = '\u{0}';
/// The user's home directory.
pub const HOME: char = '\u{1}';
/// `$0`: the running shell or script.
pub const SELF: char = '\u{2}';
/// The directory the agent works in, where the event does not say which.
pub const WORK: char = '\u{3}';
/// [`UNKNOWN`] as a text.
pub const UNKNOWN_TEXT: &str = "\u{0}";
/// [`HOME`] as a text.
pub const HOME_TEXT: &str = "\u{1}";
/// [`WORK`] as a text.
pub const WORK_TEXT: &str = "\u{3}";
const MAX_JOINED: usize = 65_536; // characters of what two commands print

/// One word after expansion.
///
/// Taints: "net" (downloaded), "decoded" (base64 and the like), "secret" (read from a secret's place), "found" (file
/// names found by a search), "filtered" (found by a narrowed search), "text" (rewritten by a filter), "shell" (a
/// shell's), "file" (a file's content), "guard" (our processes), "" (none).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arg {
    /// The text, with marks.
    pub text: String,
    /// Whether `*?[` in the text are live.
    pub glob: bool,
    /// Where unknown text came from.
    pub taint: &'static str,
}

impl Arg {
    /// A plain text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            glob: false,
            taint: "",
        }
    }

    /// A text with a taint.
    #[must_use]
    pub fn tainted(text: impl Into<String>, taint: &'static str) -> Self {
        Self {
            text: text.into(),
            glob: false,
            taint,
        }
    }

    /// No text.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// A text that only the shell will know.
    #[must_use]
    pub fn unknown() -> Self {
        Self::new(UNKNOWN_TEXT)
    }

    /// An unknown text with a taint.
    #[must_use]
    pub fn unknown_from(taint: &'static str) -> Self {
        Self::tainted(UNKNOWN_TEXT, taint)
    }

    /// The same with another text (Python's `arg._replace(text=...)`).
    #[must_use]
    pub fn with_text(&self, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            glob: self.glob,
            taint: self.taint,
        }
    }

    /// Whether all of the text is known.
    #[must_use]
    pub fn known(&self) -> bool {
        !self.text.contains(UNKNOWN)
    }
}

/// The text without the characters that we use as marks.
#[must_use]
pub fn without_marks(text: &str) -> Cow<'_, str> {
    if text.bytes().any(|b| b <= 3) {
        Cow::Owned(text.chars().filter(|c| *c > WORK).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// A value as people may see it, cut to `limit` characters.
#[must_use]
pub fn shown(text: String, limit: usize) -> String {
    let mut out = text;
    if out.bytes().any(|b| b <= 3) {
        out = out
            .chars()
            .fold(String::with_capacity(out.len() + 8), with_shown);
    }
    let end = truncated(&out, limit).len();
    out.truncate(end);
    out
}

fn with_shown(mut out: String, c: char) -> String {
    match c {
        UNKNOWN => out.push_str("..."),
        HOME => out.push('~'),
        SELF => out.push_str("$0"),
        WORK => out.push('.'),
        _ => out.push(c),
    }
    out
}

/// A program's name without its directory and `.exe`.
#[must_use]
pub fn base_name(path: &str) -> &str {
    let name = if path.contains('/') {
        after_last(path.trim_end_matches('/'), '/')
    } else {
        path
    };
    name.strip_suffix(".exe").unwrap_or(name)
}

/// A name without the version at its end: `python3.12`, `gcc-13`, `foo.2`.
#[must_use]
pub fn without_version(name: &str) -> &str {
    let body = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let tail = name.get(body.len()..).unwrap_or("");
    let Some(digit) = tail.find(|c: char| c.is_ascii_digit()) else {
        return name;
    };
    let start = body.len() + digit;
    let before = name.get(..start).unwrap_or(name);
    before.strip_suffix(['-', '.']).unwrap_or(before)
}

/// What stands after the last `sign`, the whole text where there is none (Python's `text.rpartition(sign)[2]`).
#[must_use]
pub fn after_last(text: &str, sign: char) -> &str {
    text.rsplit_once(sign).map_or(text, |(_, last)| last)
}

/// What stands before the first `sign`, whether it is there, and what follows (Python's `text.partition(sign)`).
#[must_use]
pub fn partition(text: &str, sign: char) -> (&str, bool, &str) {
    text.split_once(sign)
        .map_or((text, false, ""), |(before, after)| (before, true, after))
}

/// What two commands print after each other.
#[must_use]
pub fn joined(a: Arg, b: Arg) -> Arg {
    if a.text.is_empty() {
        return b;
    }
    if b.text.is_empty() {
        return a;
    }
    let mut text = a.text;
    text.push_str(&b.text);
    let end = truncated(&text, MAX_JOINED).len();
    text.truncate(end);
    Arg {
        text,
        glob: a.glob || b.glob,
        taint: if a.taint.is_empty() { b.taint } else { a.taint },
    }
}

/// The texts of some arguments with a blank between them.
#[must_use]
pub fn spaced<'a>(args: impl IntoIterator<Item = &'a Arg>) -> String {
    let mut out = String::new();
    for (k, arg) in args.into_iter().enumerate() {
        if k > 0 {
            out.push(' ');
        }
        out.push_str(&arg.text);
    }
    out
}

/// The first taint among some arguments, "" where there is none.
#[must_use]
pub fn first_taint<'a>(args: impl IntoIterator<Item = &'a Arg>) -> &'static str {
    args.into_iter()
        .map(|arg| arg.taint)
        .find(|taint| !taint.is_empty())
        .unwrap_or("")
}

/// The word as a shell would read it back.
#[must_use]
pub fn quoted(arg: &Arg) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_./:=@%+,-".contains(&b);
    if arg.glob || (!arg.text.is_empty() && arg.text.bytes().all(plain)) {
        return arg.text.clone();
    }
    format!("'{}'", arg.text.replace('\'', "'\\''"))
}

/// The first `limit` characters.
#[must_use]
pub fn truncated(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    match text.char_indices().nth(limit) {
        Some((at, _)) => text.get(..at).unwrap_or(text),
        None => text,
    }
}

/// How many characters a text has.
#[must_use]
pub fn length(text: &str) -> usize {
    text.chars().count()
}

/// Whether Python's `str.isspace` and `\s` hold for a character: Unicode's blanks and four separators of ASCII.
#[must_use]
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Whether a text holds a sign of a glob.
#[must_use]
pub fn has_glob(text: &str) -> bool {
    text.bytes().any(|b| matches!(b, b'*' | b'?' | b'['))
}

#[cfg(test)]
mod tests {
    use super::{
        base_name, is_space, joined, length, quoted, shown, truncated, without_marks, Arg,
    };

    #[test]
    fn a_text_from_outside_loses_the_characters_that_are_marks() {
        assert_eq!(
            without_marks("a\u{0}b\u{1}c\u{2}d\u{3}e\u{4}"),
            "abcde\u{4}"
        );
        assert_eq!(without_marks("plain"), "plain");
    }

    #[test]
    fn people_see_words_for_marks_and_characters_are_counted() {
        assert_eq!(shown("\u{1}/x\u{0}".to_owned(), 256), "~/x...");
        assert_eq!(shown("äöü".to_owned(), 2), "äö");
        assert_eq!(shown("ä\u{0}".to_owned(), 3), "ä..");
        assert_eq!(truncated("äb", 1), "ä");
        assert_eq!(length("äb"), 2);
    }

    #[test]
    fn a_programs_name_has_no_directory_and_no_exe() {
        assert_eq!(base_name("/bin/rm"), "rm");
        assert_eq!(base_name("/bin/rm/"), "rm");
        assert_eq!(base_name("rm.exe"), "rm");
        assert_eq!(base_name("/"), "");
    }

    #[test]
    fn outputs_join_with_the_first_taint() {
        let both = joined(Arg::tainted("a", "net"), Arg::tainted("b", "found"));
        assert_eq!(both, Arg::tainted("ab", "net"));
        assert_eq!(
            joined(Arg::tainted("", "net"), Arg::new("b")),
            Arg::new("b")
        );
    }

    #[test]
    fn a_word_is_quoted_where_a_shell_would_split_it() {
        assert_eq!(quoted(&Arg::new("a b'c")), r"'a b'\''c'");
        assert_eq!(quoted(&Arg::new("a/b.c")), "a/b.c");
        assert_eq!(quoted(&Arg::new("")), "''");
    }

    #[test]
    fn blanks_are_those_of_python() {
        assert!(
            ['\u{1c}', '\u{1f}', '\u{85}', '\u{a0}', '\u{3000}', ' ', '\n']
                .into_iter()
                .all(is_space)
        );
        assert!(!is_space('\u{200b}') && !is_space('\u{1b}'));
    }
}
