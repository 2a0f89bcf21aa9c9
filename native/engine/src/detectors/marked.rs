//! Secrets whose place says what they are, read by hand: private keys between their marks, headers, and the users of
//! URLs and of `curl`.
//! What is found is what the patterns of `secrets.py` find; the tests hold this to them.

use std::sync::LazyLock;

use memchr::memmem::{self, Finder};

use crate::detectors::reading::{blank, blank_before, past_word, width};
use crate::prints::Prints;

const BEGIN: &[u8] = b"-----BEGIN ";
const KEY: &[u8] = b"PRIVATE KEY";
const BLOCK: &[u8] = b" BLOCK";
const DASHES: &[u8] = b"-----";
const KIND: usize = 40; // characters of a mark before what it says
const BODY: (usize, usize) = (40, 20_000); // characters of a key
const MARK: &[u8] = b"://";
const OPTION: &[u8] = b"-u";
const LONG_OPTION: &[u8] = b"--user";
const USER: usize = 100; // characters of a user's name
const PASSWORD: (usize, usize) = (3, 200); // characters of a password

const SCHEMES: [&[u8]; 4] = [b"bearer", b"basic", b"token", b"bot"]; // before a header's value
const VALUE: usize = 8; // characters of a header's value, at least

/// With which the name of a header begins.
pub const HEADER_PARTS: [&str; 2] = ["aut", "bea"];
static HEADERS: LazyLock<Prints> = LazyLock::new(|| {
    let mut prints = Prints::default();
    for (kind, part) in HEADER_PARTS.iter().enumerate() {
        prints.add_word(kind, part.as_bytes());
    }
    prints
});

/// Where the next header may begin from a position on: its name, and a value that is long enough after a blank.
#[must_use]
pub fn next_header(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        let (place, _) = HEADERS.next(bytes, at)?;
        if let Some(after) = past_word(bytes, place, b"authorization") {
            if says_value(bytes, after) {
                return Some(place);
            }
        } else if past_word(bytes, place, b"bearer").is_some_and(|after| gives_value(bytes, after))
        {
            return Some(place);
        }
        at = place + 1;
    }
}

fn says_value(bytes: &[u8], after: usize) -> bool {
    let mut at = after + usize::from(matches!(bytes.get(after), Some(b'"' | b'\'')));
    for _ in 0..3 {
        at += blank(bytes, at);
    }
    if !matches!(bytes.get(at), Some(b':' | b'=')) {
        return false;
    }
    at += 1;
    if gives_value(bytes, at) {
        return true;
    }
    while blank(bytes, at) > 0 {
        at += blank(bytes, at);
    }
    let is_quote = matches!(bytes.get(at), Some(b'"' | b'\''));
    at += usize::from(is_quote);
    let mut ends = SCHEMES.iter().filter_map(|word| past_word(bytes, at, word));
    (is_quote && gives_value(bytes, at)) || ends.any(|after| gives_value(bytes, after))
}

/// Whether blanks stand at a place and then a value.
fn gives_value(bytes: &[u8], after: usize) -> bool {
    let mut start = after;
    while blank(bytes, start) > 0 {
        start += blank(bytes, start);
    }
    let (mut at, mut count) = (start, 0);
    while let Some(byte) = bytes.get(at).filter(|_| start > after && count < VALUE) {
        if matches!(byte, b'"' | b'\'' | b',' | b';') || blank(bytes, at) > 0 {
            break;
        }
        at += width(*byte);
        count += 1;
    }
    count == VALUE
}

/// A user's password in a URL: where the user begins, and where the password begins and ends.
#[must_use]
pub fn next_url_user(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut at = from.saturating_sub(MARK.len());
    loop {
        let start = at + memmem::find(text.get(at..)?, MARK)? + MARK.len();
        let (colon, _) = past_user(text, start, USER, |byte| byte != b':');
        if start >= from && text.get(colon) == Some(&b':') {
            let (end, count) = past_user(text, colon + 1, PASSWORD.1, |_| true);
            if count >= PASSWORD.0 && text.get(end) == Some(&b'@') {
                return Some((colon + 1, end));
            }
        }
        at = start;
    }
}

/// Past the characters of a user's name or password in a URL, so many at most; how many they are.
fn past_user(text: &[u8], from: usize, most: usize, is: impl Fn(u8) -> bool) -> (usize, usize) {
    let (mut at, mut count) = (from, 0);
    while let Some(byte) = text.get(at).filter(|byte| count < most && is(**byte)) {
        let ends = matches!(byte, b'/' | b'@' | b'"' | b'\'' | b'<' | b'>');
        if ends || blank(text, at) > 0 {
            break;
        }
        at += width(*byte);
        count += 1;
    }
    (at, count)
}

/// The next private key from a position on: where it begins and ends.
#[must_use]
pub fn next_key(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let finder = Finder::new(BEGIN);
    let mut at = from;
    loop {
        let start = at + finder.find(text.get(at..)?)?;
        let body = past_mark(text, start + BEGIN.len());
        if let Some(end) = body.and_then(|body| key_end(text, body)) {
            return Some((start, end));
        }
        at = start + 1;
    }
}

/// Past what a mark says, and its dashes.
fn past_mark(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let of_mark = |byte: &&u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || **byte == b' ';
    let size = rest
        .iter()
        .take(KIND + KEY.len() + BLOCK.len() + 1)
        .take_while(of_mark)
        .count();
    let said = rest.get(..size)?;
    let said = said
        .strip_suffix(BLOCK)
        .filter(|said| said.ends_with(KEY))
        .unwrap_or(said);
    let kind = said.strip_suffix(KEY)?;
    (kind.len() <= KIND && rest.get(size..)?.starts_with(DASHES))
        .then_some(at + size + DASHES.len())
}

/// Where the key ends whose text begins at a place: after the mark of its end, where that is there.
fn key_end(text: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut count) = (start, 0);
    while count < BODY.1 {
        match text.get(at) {
            Some(byte) if *byte != b'-' => at += width(*byte),
            _ => break,
        }
        count += 1;
    }
    if count < BODY.0 {
        return None;
    }
    let rest = text.get(at..)?;
    let dashes = rest
        .iter()
        .take(DASHES.len())
        .take_while(|byte| **byte == b'-')
        .count();
    let says_end = dashes > 0 && rest.get(dashes..)?.starts_with(b"END ");
    let marked = says_end.then(|| past_mark(text, at + dashes + 4)).flatten();
    Some(marked.unwrap_or(at))
}

/// An option that names a user with a password: where it begins, and where its password stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Where the blank before the option begins.
    pub start: usize,
    /// Where the password stands; the match ends with it.
    pub password: (usize, usize),
}

/// The next such option from a position on.
#[must_use]
pub fn next_user(text: &[u8], from: usize) -> Option<User> {
    let finder = Finder::new(OPTION);
    let mut at = from;
    loop {
        let found = at + finder.find(text.get(at..)?)?;
        let is_long = found > from && text.get(found - 1..)?.starts_with(LONG_OPTION);
        let long = is_long.then(|| (found - 1, found - 1 + LONG_OPTION.len()));
        for (option, after) in [Some((found, found + OPTION.len())), long]
            .into_iter()
            .flatten()
        {
            let size = blank_before(text, option);
            if size > 0 && option - size >= from {
                if let Some(password) = password_after(text, after) {
                    let start = option - size;
                    return Some(User { start, password });
                }
            }
        }
        at = found + 1;
    }
}

/// The password after an option that names a user.
fn password_after(text: &[u8], after: usize) -> Option<(usize, usize)> {
    let quote = |at: usize| usize::from(matches!(text.get(at), Some(b'"' | b'\'')));
    let mut name = after;
    if matches!(text.get(after), Some(b' ' | b'=')) {
        name += 1;
    }
    name += quote(name);
    let colon = user_end(text, name)?;
    let is_sign = name == after + 1 && text.get(after) == Some(&b'=');
    if colon == name && !is_sign {
        return None; // no name; but the sign itself may be one
    }
    let start = colon + 1 + quote(colon + 1);
    let (mut end, mut count) = (start, 0);
    while count < PASSWORD.1 {
        match text.get(end) {
            Some(byte) if !matches!(byte, b'"' | b'\'') && blank(text, end) == 0 => {
                end += width(*byte);
            }
            _ => break,
        }
        count += 1;
    }
    (count >= PASSWORD.0).then_some((start, end))
}

/// Where the colon stands that ends a user's name.
fn user_end(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    for _ in 0..=USER {
        match text.get(at)? {
            b':' => return Some(at),
            b'"' | b'\'' => return None,
            _ if blank(text, at) > 0 => return None,
            byte => at += width(*byte),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{next_header, next_key, next_url_user, next_user, User};
    use crate::detectors::reading::{agreed, mixed};
    use crate::rx::{Flags, Rx};

    const KEYS: &str = concat!(
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^-]{40,20000}",
        r"(?:-{1,5}END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
    );
    const USERS: &str = r#"\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,100}:[\"']?([^\s\"']{3,200})"#;

    #[test]
    fn keys_are_those_that_the_pattern_finds() {
        let rx = Rx::new(KEYS);
        let body = "é".repeat(20_010);
        let pieces = [
            "-----BEGIN ",
            "PRIVATE KEY",
            "RSA ",
            " BLOCK",
            "-----",
            "-",
            "MIIabcdefghijklmnopqrstuvwxyz0123456789",
            "\n",
            "abcdé",
            "-----END ",
            "--END ",
            "PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----",
            "A1 B2 C3 D4 E5 F6 G7 H8 ",
            body.as_str(),
        ];
        let mut found = 0;
        for seed in 0..4_000 {
            let text = mixed(&pieces, seed, 14);
            let wanted = rx.find_from(&text, 0).map(|m| (m.start(), m.end()));
            assert_eq!(next_key(text.as_bytes(), 0), wanted, "{seed}");
            found += usize::from(wanted.is_some());
        }
        assert!(found > 100, "{found}");
    }

    #[test]
    fn headers_begin_where_the_pattern_finds_them() {
        let fold = Flags {
            fold: true,
            ..Flags::default()
        };
        let source = concat!(
            r#"((?:authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:bearer|basic|token|bot)?|\bbearer)\s{1,3})"#,
            r#"([^\s\"',;]{8,3000})"#
        );
        let rx = Rx::with(source, fold);
        let pieces = [
            "authorization",
            "AUTHORIZATION",
            "bearer",
            "Bearer ",
            "\"",
            ":",
            "= ",
            ": ",
            "\u{a0}",
            "bas\u{131}c",
            "abcd1234",
            ",",
            "é",
            " ",
        ];
        let by_hand = |text: &str| {
            let places =
                std::iter::successors(next_header(text, 0), |at| next_header(text, at + 1));
            places
                .into_iter()
                .find(|at| rx.match_at(text, *at).is_some())
        };
        let found = agreed(&pieces, 1_500, by_hand, |text| {
            Some(rx.find_from(text, 0)?.start())
        });
        assert!(found > 50, "{found}");
    }

    #[test]
    fn passwords_in_urls_are_those_that_the_pattern_finds() {
        let rx = Rx::new(r#"(?<=://)([^\s:/@\"'<>]{0,100}:)([^\s/@\"'<>]{3,200})(?=@)"#);
        let long = "n".repeat(99);
        let pieces = [
            "://", "://me:", "@", "/", "nn", "p\u{e9}w", ":", "\u{a0}", "'", "x@", &long,
        ];
        let by_pattern = |text: &str| {
            let found = rx.find_from(text, 0)?;
            Some((found.end() - found.group(2)?.len(), found.end()))
        };
        let found = agreed(
            &pieces,
            1_500,
            |text| next_url_user(text.as_bytes(), 0),
            by_pattern,
        );
        assert!(found > 50, "{found}");
    }

    #[test]
    fn users_are_those_that_the_pattern_finds() {
        let rx = Rx::new(USERS);
        let long = "n".repeat(99);
        let pieces = [
            "curl",
            " ",
            "-u",
            "--user",
            "=",
            "\"",
            "'",
            "me",
            ":",
            "s3cr3t",
            "\u{a0}",
            "\n",
            "é",
            "-",
            "--",
            "u",
            "x",
            long.as_str(),
            " -u me:",
            " --user=",
        ];
        let mut found = 0;
        for seed in 0..20_000 {
            let text = mixed(&pieces, seed, 12);
            let wanted = rx.find_from(&text, 0).map(|m| {
                let size = m.group(1).map_or(0, str::len);
                User {
                    start: m.start(),
                    password: (m.end() - size, m.end()),
                }
            });
            assert_eq!(next_user(text.as_bytes(), 0), wanted, "{text:?}");
            found += usize::from(wanted.is_some());
        }
        assert!(found > 500, "{found}");
    }
}
