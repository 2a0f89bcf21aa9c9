//! URLs that stand in a text, and what they say before anybody follows them: as `engine/detectors/hosts.py` and
//! `engine/detectors/outgoing.py`. A text may hold as many as it has room for, so each is read once, not to its end.

use memchr::{memchr, memchr_iter};

use crate::ascii::AsciiSet;
use crate::detectors::hosts::{host_of_clean, is_scheme_byte, NoHost, MAX_SCHEME};
use crate::detectors::reading::{blank, counted, holds_word, next_byte, width};

const MAX_SHOWN: usize = 2000; // characters of one URL in a text
const MARK: &[u8] = b"://";
const USER: usize = 100; // characters of a user's name
const PASSWORD: usize = 200; // characters of a password
const AUTHORITY: usize = 300; // characters of a host with its user and port
const ENDS: AsciiSet = AsciiSet::of(b"\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \"'`<>|;(){},"); // a URL in a text
const NO_USER: AsciiSet = AsciiSet::of(b"\t\n\x0b\x0c\r /@:\"'<>$");
const NO_PASSWORD: AsciiSet = AsciiSet::of(b"\t\n\x0b\x0c\r /@\"'<>$");
const NO_AUTHORITY: AsciiSet = AsciiSet::of(b"\t\n\x0b\x0c\r /?#\"'<>\\");
const HEAD_ENDS: AsciiSet = AsciiSet::of(b"/?#\\");

/// A URL in a text: up to the next blank or quote, or 2,000 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Url<'t> {
    /// The URL.
    pub text: &'t str,
    /// Where it begins.
    pub start: usize,
    mark: usize,
}

impl<'t> Url<'t> {
    /// The URL up to the sign that ends its host; nothing after it changes the host. None where there is no such sign.
    #[must_use]
    pub fn head(&self) -> Option<&'t str> {
        let authority = self.mark + MARK.len();
        let end = next_byte(self.text.as_bytes(), authority, |b| HEAD_ENDS.has(b))?;
        let ends = end > authority && self.text.as_bytes().get(end) != Some(&b'\\');
        ends.then(|| self.text.get(..=end)).flatten()
    }

    /// The normal form of the host that it leads to.
    ///
    /// # Errors
    /// Where it cannot be read in one way only.
    pub fn host(&self) -> Result<Option<String>, NoHost> {
        let text = self.head().unwrap_or(self.text);
        host_of_clean(text.trim_end_matches(|c| c <= ' '), false)
    }
}

/// Everything that looks like SCHEME://... in a text.
pub fn urls_in_text(text: &str) -> impl Iterator<Item = Url<'_>> {
    let bytes = text.as_bytes();
    let mut reach = Reach::default();
    let mut next_end = 0; // from the last URL to there nothing ends one, and it is not read again for the next
    marks(bytes).filter_map(move |at| {
        let start = scheme_start(bytes, at)?;
        if next_end < at + MARK.len() {
            next_end = end_of_url(bytes, at + MARK.len());
        }
        let end = if next_end - at > MAX_SHOWN {
            next_end.min(reach.of(bytes, at))
        } else {
            next_end
        };
        Some(Url {
            text: text.get(start..end)?,
            start,
            mark: at - start,
        })
    })
}

/// Where `://` stands in a text.
fn marks(bytes: &[u8]) -> impl Iterator<Item = usize> + '_ {
    memchr_iter(b':', bytes)
        .filter(|at| bytes.get(*at..).is_some_and(|rest| rest.starts_with(MARK)))
}

/// Where the next sign or blank stands that ends a URL in a text.
fn end_of_url(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(found) = next_byte(bytes, at, |b| ENDS.has(b) || b >= 0x80) {
        if bytes.get(found).is_some_and(u8::is_ascii) || blank(bytes, found) > 0 {
            return found;
        }
        at = found + bytes.get(found).map_or(1, |first| width(*first));
    }
    bytes.len()
}

/// How far one URL may go: a place that rises with the place where it begins, so that no text is counted twice.
#[derive(Default)]
struct Reach {
    from: usize,
    to: usize,
    characters: usize, // between them
}

impl Reach {
    /// The place so many characters after another one.
    fn of(&mut self, bytes: &[u8], from: usize) -> usize {
        if from >= self.to {
            (self.to, self.characters) = (from, 0);
        } else {
            self.characters -= counted(bytes.get(self.from..from).unwrap_or_default());
        }
        self.from = from;
        while self.characters < MAX_SHOWN {
            let missing = MAX_SHOWN - self.characters;
            let most = bytes.len().min(self.to + missing);
            let ahead = bytes.get(self.to..most).unwrap_or_default();
            if ahead.is_ascii() {
                (self.to, self.characters) = (most, MAX_SHOWN);
                break; // or the text ends here, and nothing more is counted
            }
            let plain = ahead.iter().position(|b| !b.is_ascii()).unwrap_or(0);
            self.to += plain + ahead.get(plain).map_or(1, |first| width(*first));
            self.characters += plain + 1;
        }
        self.to
    }
}

/// Where the scheme begins that ends at a position: the first letter of its characters, 32 of them at most.
fn scheme_start(bytes: &[u8], at: usize) -> Option<usize> {
    let before = bytes.get(at.saturating_sub(MAX_SCHEME)..at)?;
    let run = before.iter().rev();
    let run = run.take_while(|b| is_scheme_byte(**b)).count();
    let scheme = before.get(before.len() - run..)?;
    let letter = scheme.iter().position(u8::is_ascii_alphabetic)?;
    Some(at - run + letter)
}

/// Past the characters from a place on that are not of a set, so many at most; how many they are.
fn past(bytes: &[u8], from: usize, ends: AsciiSet, most: usize) -> (usize, usize) {
    let (mut at, mut count) = (from, 0);
    while let Some(byte) = bytes
        .get(at)
        .filter(|byte| count < most && !ends.has(**byte))
    {
        at += width(*byte);
        count += 1;
    }
    (at, count)
}

/// Whether a password stands inside a URL, as
/// `[A-Za-z][A-Za-z0-9+.-]{1,31}://[^\s/@:\"'<>$]{1,100}:[^\s/@\"'<>$]{1,200}@` of ASCII finds it.
#[must_use]
pub fn holds_password(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr(b'@', bytes).is_some() && marks(bytes).any(|at| has_password(bytes, at))
}

fn has_password(bytes: &[u8], at: usize) -> bool {
    let (colon, user) = past(bytes, at + MARK.len(), NO_USER, USER);
    if user == 0 || bytes.get(colon) != Some(&b':') {
        return false;
    }
    let (end, password) = past(bytes, colon + 1, NO_PASSWORD, PASSWORD);
    let long = |start: usize| at - start > 1; // a scheme of one letter is a drive
    password > 0 && bytes.get(end) == Some(&b'@') && scheme_start(bytes, at).is_some_and(long)
}

/// Whether a host, as `://([^\s/?#\"'<>\\]{1,300})` finds it, has letters of other alphabets, written out or as `xn--`.
#[must_use]
pub fn is_lookalike(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.is_ascii() && !holds_word(bytes, b"xn--", 0) {
        return false;
    }
    let mut from = 0; // what one host holds is no beginning of another
    marks(bytes).any(|at| {
        let start = at + MARK.len();
        if at < from {
            return false;
        }
        let (end, count) = past(bytes, start, NO_AUTHORITY, AUTHORITY);
        from = if count > 0 { end } else { from };
        let host = bytes.get(start..end).unwrap_or_default();
        !host.is_ascii() || holds_word(host, b"xn--", 0)
    })
}

/// Whether the query of a URL has so many characters.
#[must_use]
pub fn has_long_query(text: &str, least: usize) -> bool {
    let bytes = text.as_bytes();
    let next_query = |from: usize| memchr(b'?', bytes.get(from..)?).map(|ahead| from + ahead);
    let Some(mut query) = next_query(0) else {
        return false;
    };
    let (mut end, mut characters) = (query + 1, 0); // counted up to there, for both places only rise
    for url in urls_in_text(text) {
        let past_url = url.start + url.text.len();
        if query < url.start {
            let Some(next) = next_query(url.start) else {
                return false;
            };
            let skipped = bytes.get(query + 1..(next + 1).min(end));
            characters -= skipped.map_or(0, counted);
            (query, end) = (next, end.max(next + 1));
        }
        if query >= past_url {
            continue;
        }
        characters += bytes.get(end..past_url).map_or(0, counted);
        end = end.max(past_url);
        if characters >= least {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{has_long_query, holds_password, is_lookalike, urls_in_text};
    use crate::detectors::reading::mixed;
    use crate::rx::{Flags, Rx};

    const ASCII: Flags = Flags {
        fold: false,
        ascii: true,
        dotall: false,
    };
    const PIECES: [&str; 30] = [
        "http", "s", "://", "://", "://", ":", "/", "//", "?", "?", "#", "a", "b.c", "xn--",
        "XN--", "u:p@", "@", "é", "\u{430}", " ", "\n", "\u{a0}", "\u{2003}", "\u{1c}", "\"", "$",
        "\\", "9", "+.-", ",",
    ];

    fn texts() -> impl Iterator<Item = String> {
        let long = (0..8).map(|seed| {
            let many = mixed(&["://", "a", "é", "?", "b", "http", "\u{1f600}"], seed, 30);
            format!("{}{}", many.repeat(80), mixed(&PIECES, seed, 30))
        });
        (0..3_000).map(|seed| mixed(&PIECES, seed, 16)).chain(long)
    }

    /// As Python reads them: each up to the next sign or blank, or 2,000 characters.
    fn plainly(text: &str) -> Vec<&str> {
        let ends = Rx::new(r#"[\s\"'`<>|;(){},]"#);
        let scheme = Rx::new(r"[A-Za-z][A-Za-z0-9+.\-]{0,31}\Z");
        let found = text.match_indices("://").filter_map(|(at, _)| {
            let begin = text
                .get(..at)?
                .char_indices()
                .rev()
                .take(32)
                .last()
                .map_or(at, |(begin, _)| begin);
            let start = begin + scheme.find_from(text.get(begin..at)?, 0)?.start();
            let rest = text.get(at..)?;
            let limit = rest
                .char_indices()
                .nth(2000)
                .map_or(text.len(), |(limit, _)| at + limit);
            let end = ends
                .find_from(text.get(..limit)?, at + 3)
                .map_or(limit, |found| found.start());
            text.get(start..end)
        });
        found.collect()
    }

    #[test]
    fn urls_end_where_a_text_goes_on() {
        let found: Vec<&str> = urls_in_text("see <https://a.example/x>, (9ftp://b) 1://c")
            .map(|url| url.text)
            .collect();
        assert_eq!(found, ["https://a.example/x", "ftp://b"]);
    }

    #[test]
    fn urls_are_those_that_are_found_one_by_one() {
        for text in texts() {
            let found: Vec<&str> = urls_in_text(&text).map(|url| url.text).collect();
            assert_eq!(found, plainly(&text), "{text:?}");
        }
    }

    #[test]
    fn the_head_of_a_url_leads_where_it_leads() {
        for text in texts() {
            for url in urls_in_text(&text) {
                let whole = crate::detectors::hosts::host_of_url(url.text, false);
                assert_eq!(url.host(), whole, "{text:?}");
            }
        }
    }

    #[test]
    fn what_urls_say_is_what_the_patterns_find() {
        let user = Rx::with(
            r#"[A-Za-z][A-Za-z0-9+.-]{1,31}://[^\s/@:\"'<>$]{1,100}:[^\s/@\"'<>$]{1,200}@"#,
            ASCII,
        );
        let authority = Rx::with(r#"://([^\s/?#\"'<>\\]{1,300})"#, ASCII);
        let strange = |host: &str| !host.is_ascii() || host.to_ascii_lowercase().contains("xn--");
        let mut seen = [0; 3];
        for text in texts() {
            let password = user.is_in(&text);
            let lookalike = authority
                .all(&text)
                .any(|found| found.group(1).is_some_and(strange));
            let query = |url: &&str| {
                url.split_once('?')
                    .map_or(0, |(_, query)| query.chars().count())
            };
            let longest = plainly(&text).iter().map(query).max().unwrap_or(0);
            assert_eq!(holds_password(&text), password, "{text:?}");
            assert_eq!(is_lookalike(&text), lookalike, "{text:?}");
            for least in [1, 2, 3, 5, 512, 700, 1990] {
                assert_eq!(
                    has_long_query(&text, least),
                    longest >= least,
                    "{least} {text:?}"
                );
            }
            for (count, holds) in seen.iter_mut().zip([password, lookalike, longest > 2]) {
                *count += usize::from(holds);
            }
        }
        assert!(seen.iter().all(|count| *count > 10), "{seen:?}");
    }
}
