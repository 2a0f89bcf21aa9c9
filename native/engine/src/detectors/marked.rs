//! Secrets whose place says what they are, read by hand: private keys between their marks, and the users of `curl`.
//! What is found is what the patterns of `secrets.py` find; the tests hold this to them.

use memchr::memmem::Finder;

use crate::detectors::reading::{blank, blank_before, width};

const BEGIN: &[u8] = b"-----BEGIN ";
const KEY: &[u8] = b"PRIVATE KEY";
const BLOCK: &[u8] = b" BLOCK";
const DASHES: &[u8] = b"-----";
const KIND: usize = 40; // characters of a mark before what it says
const BODY: (usize, usize) = (40, 20_000); // characters of a key
const OPTION: &[u8] = b"-u";
const LONG_OPTION: &[u8] = b"--user";
const USER: usize = 100; // characters of a user's name
const PASSWORD: (usize, usize) = (3, 200); // characters of a password

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
    use super::{next_key, next_user, User};
    use crate::detectors::reading::mixed;
    use crate::rx::Rx;

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
