//! Secrets whose place says what they are, read by hand: private keys between their marks, tokens in parts, headers, and
//! the users of URLs and of `curl`.
//! What is found is what the patterns of `secrets.py` find; the tests hold this to them.

use std::sync::LazyLock;

use memchr::memmem::{self, Finder};

use crate::ascii::AsciiSet;
use crate::detectors::reading::{blank, blank_before, counted, past_word, width};
use crate::prints::Prints;
use crate::rx::sets::Set;
use crate::rx::Rx;

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

const TOKEN: &str = "eyJ"; // with which the parts of a JWT begin
const SECOND: &[u8] = b".eyJ";
const FIRST_PART: (usize, usize) = (13, 2003); // characters
const LEAST_PART: usize = 4; // characters of another one after its beginning
const SECOND_PART: usize = 4000;
const THIRD_PART: usize = 2000;
const SCHEMES: [&[u8]; 4] = [b"bearer", b"basic", b"token", b"bot"]; // before a header's value
const VALUE: usize = 8; // characters of a header's value, at least

const OF_PART: AsciiSet =
    AsciiSet::of(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");
static SECONDS: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(SECOND));
static OF_WORD: LazyLock<Set> = LazyLock::new(|| Set::class('w', false).unwrap_or_default());
/// A JWT from its second part on.
static PARTS: LazyLock<Rx> =
    LazyLock::new(|| Rx::new(r"\.eyJ[\w-]{4,4000}(?:\.[\w-]{4,2000})?(?![A-Za-z0-9])"));
static HEADERS: LazyLock<Prints> = LazyLock::new(|| {
    let mut prints = Prints::default();
    prints.add_word(0, b"aut");
    prints.add_word(0, b"bea");
    prints
});

/// The next JWT from a position on: where it begins and ends. Many may begin within one part that no second part follows: so it is
/// from the second part that the first is looked for.
#[must_use]
pub fn next_jwt(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    loop {
        let second = at + SECONDS.find(text.as_bytes().get(at..)?)?;
        let start = jwt_start(text, from, second);
        if let Some(start) = start {
            if let Some(end) = parts_end(text, second) {
                return Some((start, end));
            }
        }
        at = second + 1;
    }
}

/// Where the JWT ends whose second part begins at a place.
fn parts_end(text: &str, second: usize) -> Option<usize> {
    let part = |from: usize, most: usize| {
        let mut end = from;
        while let Some(size) = of_part(text, end) {
            end += size;
        }
        (end, end - from >= most)
    };
    let (end, is_long) = part(second + SECOND.len(), SECOND_PART);
    let third = if text.get(end..).is_some_and(|rest| rest.starts_with('.')) {
        part(end + 1, THIRD_PART)
    } else {
        (end, false)
    };
    if is_long || third.1 {
        return PARTS.match_at(text, second).map(|whole| whole.end());
    }
    let size = |from: usize, end: usize| text.as_bytes().get(from..end).map_or(0, counted);
    let ends = if size(end + 1, third.0) < LEAST_PART {
        end
    } else {
        third.0
    };
    (size(second + SECOND.len(), end) >= LEAST_PART).then_some(ends)
}

/// The bytes of a part's character at a place.
fn of_part(text: &str, at: usize) -> Option<usize> {
    let byte = *text.as_bytes().get(at)?;
    if byte.is_ascii() {
        return OF_PART.has(byte).then_some(1);
    }
    let c = text.get(at..)?.chars().next()?;
    OF_WORD.has(c).then(|| c.len_utf8())
}

/// Where the first JWT may begin whose second part begins at a place.
fn jwt_start(text: &str, from: usize, second: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let starts = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let within = before.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        !within
            && text
                .get(at..second)
                .is_some_and(|here| here.starts_with(TOKEN))
    };
    let (mut at, mut begun) = (second, None);
    for count in 1..=FIRST_PART.1 {
        let last = bytes.get(from..at).and_then(<[u8]>::last);
        let size = match last {
            Some(byte) if byte.is_ascii() => usize::from(OF_PART.has(*byte)),
            Some(_) => {
                let c = text.get(from..at)?.chars().next_back();
                c.filter(|c| OF_WORD.has(*c)).map_or(0, char::len_utf8)
            }
            None => 0,
        };
        if size == 0 {
            break;
        }
        at -= size;
        if count >= FIRST_PART.0 && bytes.get(at) == Some(&b'e') && starts(at) {
            begun = Some(at);
        }
    }
    begun
}

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
    use super::{next_header, next_jwt, next_key, next_url_user, next_user, User};
    use crate::detectors::reading::mixed;
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

    /// What is read by hand is what a pattern finds first in texts of some pieces; how often it finds something.
    fn agreed<T: PartialEq + std::fmt::Debug>(
        pieces: &[&str],
        rounds: u64,
        by_hand: impl Fn(&str) -> Option<T>,
        by_pattern: impl Fn(&str) -> Option<T>,
    ) -> usize {
        let texts = (0..rounds).map(|seed| mixed(pieces, seed, 12));
        let found = texts.filter(|text| {
            let wanted = by_pattern(text);
            assert_eq!(by_hand(text), wanted, "{text:?}");
            wanted.is_some()
        });
        found.count()
    }

    #[test]
    fn tokens_in_parts_are_those_that_the_pattern_finds() {
        let rx = Rx::new(concat!(
            r"(?<![A-Za-z0-9_])eyJ[\w-]{10,2000}\.eyJ[\w-]{4,4000}",
            r"(?:\.[\w-]{4,2000})?(?![A-Za-z0-9])"
        ));
        let (many, wide, long) = ("-eyJ".repeat(500), "é-".repeat(990), "a".repeat(3990));
        let short = ["eyJ", ".eyJ", "abcdefghij", "a1_b", "-", ".", " ", "é"];
        let mut all = short.to_vec();
        all.extend([&*many, &*wide, &*long]);
        let wanted = |text: &str| rx.find_from(text, 0).map(|m| (m.start(), m.end()));
        let by_hand = |text: &str| next_jwt(text, 0);
        let found = agreed(&short, 3_000, by_hand, wanted) + agreed(&all, 150, by_hand, wanted);
        assert!(found > 60, "{found}");
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
