//! The small steps of reading a shell text: where a run of plain characters, a name or an operator ends, and escapes.

use std::borrow::Cow;

use super::values::is_space;

/// The end of the run of blanks and continued lines from `at` on.
pub(crate) fn blanks_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = at;
    loop {
        let rest = bytes.get(at..).unwrap_or(&[]);
        at += match rest {
            [b' ' | b'\t' | b'\r' | 0x0c | 0x0b, ..] => 1,
            [b'\\', b'\n', ..] => 2,
            [b'\\', b'\r', b'\n', ..] => 3,
            _ => return at,
        };
    }
}

/// The end of the run of characters from `at` on for which `stops` does not hold.
fn run_end(text: &str, at: usize, stops: impl Fn(u8) -> bool) -> usize {
    let rest = text.as_bytes().get(at..).unwrap_or(&[]);
    rest.iter()
        .position(|b| stops(*b))
        .map_or(text.len().max(at), |found| at + found)
}

/// The end of unquoted text without blanks, operators, quotes and dollars.
pub(crate) fn plain_end(text: &str, at: usize) -> usize {
    let mut from = at;
    loop {
        let end = run_end(text, from, |b| b >= 0x80 || is_special(b));
        match text.get(end..).and_then(|rest| rest.chars().next()) {
            Some(c) if !c.is_ascii() && !is_space(c) => from = end + c.len_utf8(),
            _ => return end,
        }
    }
}

/// Whether a byte of ASCII ends unquoted plain text.
fn is_special(b: u8) -> bool {
    matches!(
        b,
        b'\t'..=b'\r' | 0x1c..=0x20 | b'|' | b'&' | b';' | b'(' | b')' | b'<' | b'>' | b'\'' | b'"' | b'\\' | b'$' | b'`'
    )
}

/// The end of text without a sign that means something in double quotes, or in a here-document.
pub(crate) fn quoted_plain_end(text: &str, at: usize, in_quotes: bool) -> usize {
    run_end(text, at, |b| {
        matches!(b, b'\\' | b'$' | b'`') || (in_quotes && b == b'"')
    })
}

/// The end of text without a sign that means something in `${name op word}`.
pub(crate) fn brace_plain_end(text: &str, at: usize) -> usize {
    run_end(text, at, |b| {
        matches!(b, b'"' | b'\'' | b'\\' | b'$' | b'`' | b'{' | b'}')
    })
}

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// The end of a variable's name, `at` where there is none.
pub(crate) fn variable_end(text: &str, at: usize) -> usize {
    match text.as_bytes().get(at) {
        Some(b) if b.is_ascii_alphabetic() || *b == b'_' => run_end(text, at, |b| !is_name_byte(b)),
        _ => at,
    }
}

/// The end of the name after a bare `$`: a variable, one digit, or a special parameter.
pub(crate) fn name_end(text: &str, at: usize) -> usize {
    match text.as_bytes().get(at) {
        Some(b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'$' | b'!' | b'-') => at + 1,
        _ => variable_end(text, at),
    }
}

/// The same inside braces, where a number may have several digits.
pub(crate) fn braced_name_end(text: &str, at: usize) -> usize {
    match text.as_bytes().get(at) {
        Some(b) if b.is_ascii_digit() => run_end(text, at, |b| !b.is_ascii_digit()),
        _ => name_end(text, at),
    }
}

/// `#` or `!` before a name in braces.
pub(crate) fn prefix(text: &str, at: usize) -> Option<char> {
    let bytes = text.as_bytes();
    let following = bytes.get(at + 1).copied()?;
    let named = is_name_byte(following) || matches!(following, b'@' | b'*' | b'$' | b'!');
    match bytes.get(at) {
        Some(b'#') if named => Some('#'),
        Some(b'!') if named || matches!(following, b'#' | b'?' | b'-') => Some('!'),
        _ => None,
    }
}

/// The operator that a text in braces starts with, "" for none.
pub(crate) fn operator(rest: &str) -> &'static str {
    const OPERATORS: &[&str] = &[
        ":-", ":=", ":?", ":+", "-", "=", "?", "+", "##", "#", "%%", "%", "//", "/", "^^", "^",
        ",,", ",", "@", ":",
    ];
    OPERATORS
        .iter()
        .find(|op| rest.starts_with(**op))
        .copied()
        .unwrap_or("")
}

/// The text of backticks without the backslashes that only they need.
pub(crate) fn without_escapes(raw: &str, quoted: bool) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let following = after.chars().nth(1);
        match following {
            Some(c) if matches!(c, '`' | '$' | '\\') || (quoted && c == '"') => {
                out.push(c);
                rest = after.get(2..).unwrap_or("");
            }
            _ => {
                out.push('\\');
                rest = after.get(1..).unwrap_or("");
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The value of `$'...'`, `echo -e` and printf escapes: \n, \x41, \101, \u0041. Unknown escapes stay.
#[must_use]
pub fn ansi_c(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        rest = escape(after, &mut out);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Write what an escape says, of which `after` follows the backslash; returns what follows the escape.
fn escape<'t>(after: &'t str, out: &mut String) -> &'t str {
    let mut chars = after.chars();
    let Some(kind) = chars.next() else {
        out.push('\\');
        return "";
    };
    let (skipped, radix, most) = match kind {
        'x' => (1, 16, 2),
        'u' => (1, 16, 4),
        'U' => (1, 16, 8),
        '0' if after
            .as_bytes()
            .get(1)
            .is_some_and(|b| matches!(b, b'0'..=b'7')) =>
        {
            (1, 8, 3)
        }
        '0'..='7' => (0, 8, 3),
        _ => (0, 0, 0),
    };
    let number = after.get(skipped..).unwrap_or("");
    let digits = number
        .chars()
        .take(most)
        .take_while(|c| c.is_digit(radix.max(2)))
        .count();
    if digits > 0 {
        let (code, rest) = number.split_at(digits);
        out.extend(coded(u32::from_str_radix(code, radix).unwrap_or(0)));
        return rest;
    }
    if kind == 'c' {
        if let Some(control) = chars.next() {
            out.extend(coded(u32::from(control) & 0x1f));
            return chars.as_str();
        }
    }
    simple_escape(kind, out);
    chars.as_str()
}

/// The character of a code; none for our marks and for what is no character.
fn coded(code: u32) -> Option<char> {
    char::from_u32(code).filter(|_| code > 3)
}

fn simple_escape(kind: char, out: &mut String) {
    match kind {
        'n' => out.push('\n'),
        't' => out.push('\t'),
        'r' => out.push('\r'),
        'a' => out.push('\u{7}'),
        'b' => out.push('\u{8}'),
        'e' | 'E' => out.push('\u{1b}'),
        'f' => out.push('\u{c}'),
        'v' => out.push('\u{b}'),
        '\\' | '\'' | '"' | '?' => out.push(kind),
        other => {
            out.push('\\');
            out.push(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ansi_c, operator, plain_end, without_escapes};

    #[test]
    fn escapes_have_the_value_that_bash_gives_them() {
        assert_eq!(
            ansi_c(r"\x72\155 a\tb \u0041 \0101 \1012"),
            "rm a\tb A A A2"
        );
        assert_eq!(ansi_c(r"\q \x \c"), r"\q \x \c");
        assert_eq!(ansi_c(r"\cA\x01\0\ud800\U110000-\cG\\"), "-\u{7}\\");
        assert_eq!(ansi_c("a\\"), "a\\");
    }

    #[test]
    fn plain_text_ends_at_blanks_of_any_kind_and_at_signs() {
        assert_eq!(plain_end("aé\u{a0}b", 0), 3);
        assert_eq!(plain_end("a\u{1c}", 0), 1);
        assert_eq!(plain_end("日本;", 0), 6);
        assert_eq!(plain_end("a{b}=~#", 0), 7);
    }

    #[test]
    fn operators_and_backtick_escapes_are_read() {
        assert_eq!(operator(":-x"), ":-");
        assert_eq!(operator("##*/"), "##");
        assert_eq!(operator("}"), "");
        assert_eq!(without_escapes(r#"a\`b\$\"c\d"#, false), r#"a`b$\"c\d"#);
        assert_eq!(without_escapes(r#"\""#, true), "\"");
    }
}
