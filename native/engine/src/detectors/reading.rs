//! Reading bytes of a text at a glance: characters as `re` folds them, blanks, digits, and words that are long.

use std::sync::LazyLock;

use memchr::memchr2_iter;

use crate::prints::{Bytes, Prints};

const NEAR: usize = 8; // bytes that are looked at one by one first
const CHUNK: usize = 64; // bytes that are looked at together

/// How many characters stand in whole UTF-8.
#[must_use]
pub fn counted(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// The character at a place as `re.I` folds it, and its bytes; none for one that folds to no ASCII character.
#[must_use]
pub fn folded(text: &[u8], at: usize) -> Option<(u8, usize)> {
    let byte = *text.get(at)?;
    if byte < 128 {
        return Some((byte.to_ascii_lowercase(), 1));
    }
    match text.get(at..)? {
        [0xc5, 0xbf, ..] => Some((b's', 2)),
        [0xc4, 0xb0 | 0xb1, ..] => Some((b'i', 2)),
        [0xe2, 0x84, 0xaa, ..] => Some((b'k', 3)),
        _ => None,
    }
}

/// The bytes of the character that ends at a place, where it folds to an ASCII character that `is` holds of; else 0.
#[must_use]
pub fn folded_before(text: &[u8], end: usize, is: impl Fn(u8) -> bool) -> usize {
    let size = match text.get(..end).unwrap_or_default() {
        [.., 0xc5, 0xbf] | [.., 0xc4, 0xb0 | 0xb1] => 2,
        [.., 0xe2, 0x84, 0xaa] => 3,
        [.., byte] if *byte < 128 => 1,
        _ => return 0,
    };
    let is_one = folded(text, end - size).is_some_and(|(byte, _)| is(byte));
    if is_one {
        size
    } else {
        0
    }
}

/// Past a word in lower case, where it stands at a place in any case.
#[must_use]
pub fn past_word(text: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    let mut at = at;
    for wanted in word {
        let (found, size) = folded(text, at)?;
        if found != *wanted {
            return None;
        }
        at += size;
    }
    Some(at)
}

/// The bytes of the blank at a place, as `\s` of Python; 0 where there is none.
#[must_use]
pub fn blank(text: &[u8], at: usize) -> usize {
    if let Some(byte) = text.get(at).filter(|byte| byte.is_ascii()) {
        return usize::from(matches!(byte, 0x09..=0x0d | 0x1c..=0x20));
    }
    match text.get(at..).unwrap_or_default() {
        [0xc2, 0x85 | 0xa0, ..] => 2,
        [0xe1, 0x9a, 0x80, ..]
        | [0xe2, 0x80, 0x80..=0x8a | 0xa8 | 0xa9 | 0xaf, ..]
        | [0xe2, 0x81, 0x9f, ..]
        | [0xe3, 0x80, 0x80, ..] => 3,
        _ => 0,
    }
}

/// The bytes of the blank that ends at a place.
#[must_use]
pub fn blank_before(text: &[u8], end: usize) -> usize {
    let last = end.checked_sub(1).and_then(|at| text.get(at));
    if last.is_none_or(u8::is_ascii) {
        return usize::from(matches!(last, Some(0x09..=0x0d | 0x1c..=0x20)));
    }
    (2..=3)
        .find(|size| end >= *size && blank(text, end - size) == *size)
        .unwrap_or(0)
}

/// The bytes of a character that begins with this byte.
#[must_use]
pub fn width(first: u8) -> usize {
    match first {
        0..=0xbf => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    }
}

/// Whether an ASCII word in lower case stands anywhere, the case of ASCII letters aside; `rare` is the place of a
/// letter of it that is looked for.
#[must_use]
pub fn holds_word(text: &[u8], word: &[u8], rare: usize) -> bool {
    let Some(letter) = word.get(rare) else {
        return false;
    };
    memchr2_iter(*letter, letter.to_ascii_uppercase(), text).any(|at| {
        let here = at
            .checked_sub(rare)
            .and_then(|start| text.get(start..start + word.len()));
        here.is_some_and(|here| here.eq_ignore_ascii_case(word))
    })
}

/// The next byte from a place on of which `is` holds; whole chunks are passed over together.
#[must_use]
pub fn next_byte(text: &[u8], from: usize, is: impl Fn(u8) -> bool) -> Option<usize> {
    let rest = text.get(from..)?;
    let (near, far) = rest.split_at_checked(NEAR).unwrap_or((rest, &[]));
    if let Some(ahead) = near.iter().position(|byte| is(*byte)) {
        return Some(from + ahead);
    }
    let mut at = from + near.len();
    for chunk in far.chunks(CHUNK) {
        if chunk.iter().fold(false, |any, byte| any | is(*byte)) {
            let ahead = chunk.iter().position(|byte| is(*byte))?;
            return Some(at + ahead);
        }
        at += chunk.len();
    }
    None
}

/// The next byte from a place on of which `is` holds with the byte after it, 0 after the last one; whole chunks are
/// passed over together.
#[must_use]
pub fn next_pair(text: &[u8], from: usize, is: impl Fn(u8, u8) -> bool) -> Option<usize> {
    let two = |at: usize| text.get(at).copied().unwrap_or(0);
    let near = text.len().min(from.saturating_add(NEAR));
    for (ahead, one) in text.get(from..near)?.iter().enumerate() {
        if is(*one, two(from + ahead + 1)) {
            return Some(from + ahead);
        }
    }
    let mut at = near;
    let pairs = |at: usize| {
        let (firsts, seconds) = (text.get(at..)?, text.get(at + 1..)?);
        Some((
            firsts.first_chunk::<CHUNK>()?,
            seconds.first_chunk::<CHUNK>()?,
        ))
    };
    while let Some((firsts, seconds)) = pairs(at) {
        let both = || firsts.iter().zip(seconds);
        if both().fold(false, |any, (one, other)| any | is(*one, *other)) {
            let ahead = both().position(|(one, other)| is(*one, *other))?;
            return Some(at + ahead);
        }
        at += CHUNK;
    }
    let rest = text.get(at..)?.iter().enumerate();
    let mut ends = rest.filter(|(ahead, one)| is(**one, two(at + ahead + 1)));
    ends.next().map(|(ahead, _)| at + ahead)
}

/// Bytes of a window before its own, and after them.
pub const AHEAD: usize = 8;
/// Bytes of a text that a window is about; as many of it stand before and after them as fit.
pub const OWN: usize = CHUNK - 2 * AHEAD;

/// The bytes around a place: those from it on are the window's own. Zeros stand where the text has none.
#[must_use]
pub fn window(text: &[u8], at: usize) -> [u8; CHUNK] {
    let whole = at
        .checked_sub(AHEAD)
        .and_then(|start| text.get(start..)?.first_chunk::<CHUNK>());
    whole.copied().unwrap_or_else(|| {
        let mut window = [0; CHUNK];
        let skipped = AHEAD.saturating_sub(at);
        let rest = text.get(at.saturating_sub(AHEAD)..).unwrap_or_default();
        for (to, from) in window.iter_mut().skip(skipped).zip(rest) {
            *to = *from;
        }
        window
    })
}

/// A bit for each byte of which something holds; all of them are read together.
#[must_use]
pub fn bits_of(window: &[u8; CHUNK], is: impl Fn(u8) -> bool) -> u64 {
    const GATHERED: u64 = 0x0102_0408_1020_4080; // brings the last bits of eight bytes together in the highest byte
    let marks = window.map(|byte| u8::from(is(byte)));
    let rows = marks.chunks_exact(8).filter_map(<[u8]>::first_chunk);
    let rows = rows.map(|row| u64::from_le_bytes(*row).wrapping_mul(GATHERED) >> 56);
    rows.enumerate()
        .fold(0, |all, (at, row)| all | row << (8 * at))
}

/// Whether a character stands in the text that nobody sees and that would split a number or a key.
#[must_use]
#[allow(clippy::needless_bitwise_bool)] // nothing is left out: so that many bytes are read together
pub fn hides_within(text: &[u8]) -> bool {
    let begins = |one: u8, two: u8| {
        (one == 0xe2) & (two | 1 == 0x81)
            | (one == 0xef) & (two == 0xbb)
            | (one == 0xc2) & (two == 0xad)
    };
    UNSEEN.next_rare(text, 0, begins).is_some()
}

/// The characters that nobody sees and that would split a number or a key.
static UNSEEN: LazyLock<Prints> = LazyLock::new(|| {
    let mut prints = Prints::default();
    let mut add = |kind: usize, bytes: [(u8, u8); 3]| {
        let [first, second, third] =
            bytes.map(|(low, high)| Bytes::of(|byte| (low..=high).contains(&byte)));
        prints.add(kind, [Bytes::ANY, first, second, third]);
    };
    add(0, [(0xc2, 0xc2), (0xad, 0xad), (0, 0xff)]);
    add(1, [(0xe2, 0xe2), (0x80, 0x80), (0x8b, 0x8f)]);
    add(2, [(0xe2, 0xe2), (0x81, 0x81), (0xa0, 0xa4)]);
    add(3, [(0xef, 0xef), (0xbb, 0xbb), (0xbf, 0xbf)]);
    prints
});

/// A text of so many pieces, drawn by a number; the same each time.
#[cfg(test)]
pub fn mixed(pieces: &[&str], seed: u64, most: u64) -> String {
    let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: u64| {
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % below
    };
    let size = 2 + next(most);
    let picked = (0..size).filter_map(|_| {
        let at = usize::try_from(next(u64::try_from(pieces.len()).ok()?)).ok()?;
        pieces.get(at).copied()
    });
    picked.collect()
}

/// What is read by hand is what a pattern finds first in texts of some pieces; how often it finds something.
#[cfg(test)]
pub fn agreed<T: PartialEq + std::fmt::Debug>(
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

#[cfg(test)]
mod tests {
    use super::{blank, blank_before, folded_before, holds_word, next_byte, next_pair, past_word};
    use crate::rx::sets::Set;

    #[test]
    fn blanks_are_those_of_python_from_both_sides() {
        let set = Set::class('s', false).unwrap_or_default();
        for c in (0..0x1_0000).filter_map(char::from_u32) {
            let text = c.to_string();
            let size = if set.has(c) { text.len() } else { 0 };
            assert_eq!(blank(text.as_bytes(), 0), size, "{c:?}");
            assert_eq!(blank_before(text.as_bytes(), text.len()), size, "{c:?}");
        }
    }

    #[test]
    fn words_are_read_in_any_case_and_with_the_cousins_of_letters() {
        let text = "xTO\u{212a}EN\u{17f}".as_bytes();
        assert_eq!(past_word(text, 1, b"tokens"), Some(text.len()));
        assert_eq!(past_word(text, 1, b"tokenz"), None);
        assert_eq!(folded_before(text, text.len(), |b| b == b's'), 2);
        assert_eq!(folded_before(text, 6, |b| b == b'k'), 3);
        assert!(holds_word(b"a BeaRer", b"bearer", 0) && !holds_word(b"bear", b"bearer", 3));
        assert_eq!(next_byte(&[b'a'; 200], 3, |b| b == b'b'), None);
        assert_eq!(next_byte(b"aab", 1, |b| b == b'b'), Some(2));
        for far in 0..150 {
            let text = format!("{}bc", "b".repeat(far));
            let next = |two: u8| next_pair(text.as_bytes(), 0, |b, c| (b, c) == (b'b', two));
            assert_eq!((next(b'c'), next(0)), (Some(far), None));
            let last = next_pair(text.as_bytes(), 0, |b, c| (b, c) == (b'c', 0));
            assert_eq!(last, Some(far + 1));
        }
    }
}
