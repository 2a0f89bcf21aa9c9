//! Names that say "secret" and the values given to them, read by hand. What is found is what this pattern finds, which
//! Python runs (`secrets.py`, `_NAMED`) and the tests hold this to:
//!
//! a name (password, token, api key, ...), more of a word, quotes or brackets that close, blanks, a sign (`:` `=` `=>`
//! `,` `||` or a blank before a quote), blanks, perhaps `new`, and a value: quoted, or up to the next blank.
//!
//! So each word is looked at in which a part of a name stands, and the one sign that may follow it; then its value, and
//! then the name, so that of one sign there is one match at most. What is read twice is bounded by the longest name and
//! value.

use std::sync::LazyLock;

use memchr::memchr2;

use crate::ascii::AsciiSet;
use crate::detectors::reading::{
    blank, blank_before, counted, folded, folded_before, next_byte, past_word, width,
};
use crate::prints::Prints;

const REST: usize = 30; // characters of a word after the name
const REACH: usize = 41; // characters of the longest name and the rest of its word
const CLOSERS: usize = 3;
const BLANKS: usize = 4;
const QUOTED: usize = 3; // characters of a quoted value, at least
const PLAIN: usize = 6; // characters of another value, at least
const LONGEST: usize = 500; // characters of a value
const CLOSING: AsciiSet = AsciiSet::of(b"\"'`)]");
const OF_WORD: AsciiSet =
    AsciiSet::of(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-");
const OF_EACH_NAME: AsciiSet = AsciiSet::of(b"wsynWSYN"); // one of them stands in each name
const FIRST_OF_NAMES: AsciiSet = AsciiSet::of(b"pstckaPSTCKA");
const ENDS_PLAIN: AsciiSet = AsciiSet::of(b"\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \"'`,;)}]>");

/// A name with its value; places are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'t> {
    /// Where it begins.
    pub start: usize,
    /// The name.
    pub name: &'t str,
    /// The rest of the name's word.
    pub rest: &'t str,
    /// Where the value stands.
    pub value: (usize, usize),
    /// Where the match ends.
    pub end: usize,
    /// Whether the value is quoted.
    pub quoted: bool,
}

fn is_sign(byte: u8) -> bool {
    matches!(byte, b':' | b'=' | b',' | b'|' | b'"' | b'\'')
}

/// Of each name a part, or a cousin of one of its letters.
pub const NAME_PARTS: [&str; 8] = [
    "pas", "pw", "sec", "tok", "cre", "key", "\u{17f}", "\u{212a}",
];

/// Where such a part may stand.
static PARTS: LazyLock<Prints> = LazyLock::new(|| {
    let mut prints = Prints::default();
    for (kind, part) in NAME_PARTS.iter().enumerate() {
        prints.add_word(kind, part.as_bytes());
    }
    prints
});

/// The leftmost from a position on.
#[must_use]
pub fn next_named(text: &str, from: usize) -> Option<Named<'_>> {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        let (part, _) = PARTS.next(bytes, at)?;
        at = end_of_word(bytes, part).max(part + 1);
        let found = sign_after(bytes, at).and_then(|sign| before_sign(text, from, sign));
        if found.is_some() {
            return found;
        }
    }
}

/// Where the word ends that goes on at a place.
fn end_of_word(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(byte) = bytes.get(at) {
        at += match folded(bytes, at) {
            _ if OF_WORD.has(*byte) => 1,
            Some((letter, size)) if OF_WORD.has(letter) => size,
            _ => break,
        };
    }
    at
}

/// The sign that may stand after a word, which is the only one: past what closes, and blanks.
fn sign_after(bytes: &[u8], word: usize) -> Option<usize> {
    let mut at = word;
    while bytes.get(at).is_some_and(|byte| CLOSING.has(*byte)) {
        at += 1;
        if at - word > CLOSERS {
            return None;
        }
    }
    for _ in 0..=BLANKS {
        match blank(bytes, at) {
            0 => break,
            size => at += size,
        }
    }
    bytes
        .get(at)
        .is_some_and(|byte| is_sign(*byte))
        .then_some(at)
}

/// The name whose sign stands at a place.
fn before_sign(text: &str, from: usize, sign: usize) -> Option<Named<'_>> {
    let bytes = text.as_bytes();
    let is_quote = matches!(bytes.get(sign)?, b'"' | b'\'');
    let end = word_end(bytes, from, sign, is_quote)?;
    let (value, match_end, quoted) = if is_quote {
        value_at(bytes, sign)?
    } else {
        value_after(bytes, sign)?
    };
    let (start, name_end) = name_before(bytes, from, end)?;
    Some(Named {
        start,
        name: text.get(start..name_end)?,
        rest: text.get(name_end..end)?,
        value,
        end: match_end,
        quoted,
    })
}

/// Where the word ends that stands before a sign; before a quote one blank is the sign.
fn word_end(bytes: &[u8], from: usize, sign: usize, is_quote: bool) -> Option<usize> {
    let mut end = sign;
    let mut blanks = 0;
    loop {
        let size = blank_before(bytes, end);
        if size == 0 || end - size < from {
            break;
        }
        blanks += 1;
        if blanks > BLANKS + usize::from(is_quote) {
            return None;
        }
        end -= size;
    }
    if is_quote && blanks == 0 {
        return None;
    }
    let mut closers = 0;
    while end > from && bytes.get(end - 1).is_some_and(|byte| CLOSING.has(*byte)) {
        closers += 1;
        if closers > CLOSERS {
            return None;
        }
        end -= 1;
    }
    Some(end)
}

/// The leftmost name in the word that ends at a place: where it begins and ends.
fn name_before(bytes: &[u8], from: usize, end: usize) -> Option<(usize, usize)> {
    let mut start = end;
    let mut count = 0;
    let mut may = false;
    while start > from && count < REACH {
        let byte = *bytes.get(start - 1)?;
        let size = if byte.is_ascii() {
            usize::from(OF_WORD.has(byte))
        } else {
            folded_before(bytes, start, |byte| OF_WORD.has(byte))
        };
        if size == 0 || start - size < from {
            break;
        }
        may |= !byte.is_ascii() || OF_EACH_NAME.has(byte);
        start -= size;
        count += 1;
    }
    if !may || count < 2 {
        return None;
    }
    loop {
        start = next_byte(bytes.get(..end)?, start, |byte| {
            FIRST_OF_NAMES.has(byte) || byte >= 0xc0
        })?;
        if let Some(after) = past_name(bytes, start) {
            if is_rest(bytes.get(after..end)?) {
                return Some((start, after));
            }
        }
        start += width(*bytes.get(start)?);
    }
}

fn is_rest(bytes: &[u8]) -> bool {
    let starts = || bytes.iter().filter(|byte| **byte & 0xc0 != 0x80);
    bytes.len() <= REST || starts().count() <= REST
}

/// Past the name that begins at a place.
fn past_name(bytes: &[u8], at: usize) -> Option<usize> {
    let word = |word: &[u8]| past_word(bytes, at, word);
    let plural = |end: usize| past_word(bytes, end, b"s").unwrap_or(end);
    match folded(bytes, at)?.0 {
        b'p' => {
            let long = word(b"password").or_else(|| word(b"passwort"));
            let long = long
                .or_else(|| word(b"passwd"))
                .or_else(|| word(b"passphrase"));
            long.or_else(|| word(b"pwd"))
                .or_else(|| word(b"pass"))
                .or_else(|| word(b"pw"))
        }
        b's' => word(b"secret").map(plural),
        b't' => word(b"token").map(plural),
        b'c' => word(b"credential").map(plural),
        b'k' => word(b"key").map(plural),
        b'a' => {
            let kind = word(b"api")
                .or_else(|| word(b"access"))
                .or_else(|| word(b"auth"))?;
            let joined = usize::from(matches!(bytes.get(kind), Some(b'_' | b'.' | b'-')));
            past_word(bytes, kind + joined, b"key").map(plural)
        }
        _ => None,
    }
}

/// A value: where it stands, where the match ends, and whether it is quoted.
type Held = ((usize, usize), usize, bool);

/// The value after a sign, read as the longest sign first.
fn value_after(bytes: &[u8], sign: usize) -> Option<Held> {
    let rest = bytes.get(sign..)?;
    let lengths: &[usize] = match rest {
        [b':' | b'=', b'=', ..] if !rest.starts_with(b"===") => &[2, 1],
        [b'=', b'=', ..] => &[3, 2, 1],
        [b'=', b'>', ..] => &[1, 2],
        [b'|', b'|', b':', ..] => &[3, 2],
        [b'|', b'|', ..] => &[2],
        [b'|', ..] => return None,
        _ => &[1],
    };
    lengths
        .iter()
        .find_map(|length| value_from(bytes, sign + length))
}

fn value_from(bytes: &[u8], from: usize) -> Option<Held> {
    let mut at = from;
    for _ in 0..BLANKS {
        match blank(bytes, at) {
            0 => break,
            size => at += size,
        }
    }
    if let Some(after) = past_word(bytes, at, b"new") {
        let size = blank(bytes, after);
        if size > 0 {
            at = after + size; // as a value it would be too short
        }
    }
    value_at(bytes, at)
}

fn value_at(bytes: &[u8], at: usize) -> Option<Held> {
    let quote = *bytes.get(at)?;
    if !matches!(quote, b'"' | b'\'' | b'`') {
        let end = plain_end(bytes, at)?;
        return Some(((at, end), end, false));
    }
    let start = at + 1;
    let reach = bytes.len().min(start + 4 * LONGEST + 1);
    let inside = bytes.get(start..reach)?;
    let size = memchr2(quote, b'\n', inside)?;
    let count = counted(inside.get(..size)?);
    let is_whole = inside.get(size) == Some(&quote) && (QUOTED..=LONGEST).contains(&count);
    is_whole.then_some(((start, start + size), start + size + 1, true))
}

/// Where a value ends that is not quoted.
fn plain_end(bytes: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut count) = (start, 0);
    while count < LONGEST {
        let Some(byte) = bytes.get(at) else {
            break;
        };
        if ENDS_PLAIN.has(*byte) || (!byte.is_ascii() && blank(bytes, at) > 0) {
            break;
        }
        at += width(*byte);
        count += 1;
    }
    (count >= PLAIN).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::next_named;
    use crate::rx::{Flags, Rx};

    const PATTERN: &str = concat!(
        r"((passwor[dt]|passwd|passphrase|pwd|pass|pw|secrets?|tokens?|credentials?|api[_.-]?keys?",
        r"|access[_.-]?keys?|auth[_.-]?keys?|keys?)",
        r#"([A-Za-z0-9_.-]{0,30})[\"'`\])]{0,3}\s{0,4}(?::=|={1,3}|=>|:|,|\|\|:?|\s(?=[\"']))\s{0,4}(?:new\s)?)"#,
        r#"(?:\"([^\"\n]{3,500})\"|'([^'\n]{3,500})'|`([^`\n]{3,500})`|([^\s\"'`,;)}\]>]{6,500}))"#
    );
    const PIECES: [&str; 60] = [
        "password",
        "passwort",
        "PASSWD",
        "passphrase",
        "pwd",
        "pass",
        "pw",
        "secret",
        "secrets",
        "token",
        "tokens",
        "credential",
        "api",
        "access",
        "auth",
        "key",
        "keys",
        "to\u{212a}en",
        "\u{17f}ecret",
        "api\u{131}",
        "_",
        ".",
        "-",
        "x",
        "9",
        "abcdefghij",
        "_abcdefghijklmno",
        "\"",
        "'",
        "`",
        ")",
        "]",
        " ",
        " ",
        "\t",
        "\u{a0}",
        "\u{2003}",
        "\n",
        "\u{1c}",
        ":",
        "=",
        "=",
        ">",
        ",",
        "|",
        "||",
        ":=",
        "=>",
        "new ",
        "new",
        "NEW\u{a0}",
        "value1",
        "abc",
        "é",
        "d\u{130}",
        "hunter2hunter2",
        ";",
        "}",
        "\u{1f600}",
        "\u{17f}",
    ];

    /// Numbers that look random and are the same each time.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, most: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(self.0 >> 33).unwrap_or(0) % most
        }
    }

    #[test]
    fn what_is_read_is_what_the_pattern_finds() {
        let flags = Flags {
            fold: true,
            ..Flags::default()
        };
        let pattern = Rx::with(PATTERN, flags);
        let mut dice = Dice(7);
        let mut found_some = 0;
        for round in 0..60_000 {
            let size = 2 + dice.below(14);
            let mut text: String = (0..size)
                .filter_map(|_| PIECES.get(dice.below(60)).copied())
                .collect();
            if round % 500 == 0 {
                text = format!("{text}key='{}'", "é".repeat(490 + dice.below(20)));
            }
            let mut at = 0;
            loop {
                let wanted = pattern.find_from(&text, at);
                let found = next_named(&text, at);
                let wanted_parts = wanted.as_ref().map(|m| {
                    let value = (4..=7).find_map(|n| m.group(n)).unwrap_or("");
                    (
                        m.start(),
                        m.end(),
                        m.group(2),
                        m.group(3),
                        value,
                        m.group(7).is_none(),
                    )
                });
                let found_parts = found.map(|m| {
                    let value = text.get(m.value.0..m.value.1).unwrap_or("");
                    (m.start, m.end, Some(m.name), Some(m.rest), value, m.quoted)
                });
                assert_eq!(found_parts, wanted_parts, "{text:?} from {at}");
                let Some(m) = wanted else {
                    break;
                };
                found_some += 1;
                at = m.end();
            }
        }
        assert!(found_some > 5_000, "{found_some}");
    }
}
