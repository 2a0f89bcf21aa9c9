//! Sets of characters, as Python's `re` has them.

use std::sync::LazyLock;

use crate::ascii::AsciiSet;

/// Code points beyond ASCII that Python calls alphanumeric (W), decimal (D), digits that are not decimal (G) and
/// letters (A), one span a line; `tests/unit/test_native_tables.py` holds it to Python.
const TABLE: &str = include_str!("words.txt");
const SPACES: &[(u32, u32)] = &[
    (0x09, 0x0d),
    (0x1c, 0x20),
    (0x85, 0x85),
    (0xa0, 0xa0),
    (0x1680, 0x1680),
    (0x2000, 0x200a),
    (0x2028, 0x2029),
    (0x202f, 0x202f),
    (0x205f, 0x205f),
    (0x3000, 0x3000),
];
const LAST: u32 = 0x0010_ffff;
/// Letters outside ASCII that Python takes for an ASCII letter where case does not matter.
const COUSINS: &[(char, u32)] = &[('i', 0x130), ('i', 0x131), ('k', 0x212a), ('s', 0x17f)];

static WORDS: LazyLock<Vec<(u32, u32)>> = LazyLock::new(|| table('W'));
static DIGITS: LazyLock<Vec<(u32, u32)>> = LazyLock::new(|| table('D'));

static LETTERS: LazyLock<Set> = LazyLock::new(|| Set::of(&table('A')));
static SIGNS: LazyLock<Set> = LazyLock::new(|| Set::of(&[table('D'), table('G')].concat()));

/// `str.isalpha` of Python, of one character.
#[must_use]
pub fn is_alpha(c: char) -> bool {
    c.is_ascii_alphabetic() || (!c.is_ascii() && LETTERS.has(c))
}

/// `str.isdigit` of Python, of one character.
#[must_use]
pub fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || (!c.is_ascii() && SIGNS.has(c))
}

/// A set of characters: the ASCII ones as bits, the others as spans that rise and stay apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    ascii: AsciiSet,
    spans: Vec<(u32, u32)>,
}

impl Set {
    /// The characters of spans, both ends included, in any order.
    #[must_use]
    pub fn of(spans: &[(u32, u32)]) -> Self {
        let mut sorted = spans.to_vec();
        sorted.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::new();
        for (low, high) in sorted {
            match joined.last_mut() {
                Some((_, end)) if low <= end.saturating_add(1) => *end = high.max(*end),
                _ => joined.push((low, high)),
            }
        }
        let mut set = Self::default();
        for (low, high) in joined {
            for byte in (low..=high.min(127)).filter_map(|code| u8::try_from(code).ok()) {
                set.ascii = set.ascii.with(byte);
            }
            if high > 127 {
                set.spans.push((low.max(128), high));
            }
        }
        set
    }

    /// A class by its letter: d, w or s, or one of their complements.
    #[must_use]
    pub fn class(letter: char, ascii: bool) -> Option<Self> {
        let plain: &[(u32, u32)] = match letter.to_ascii_lowercase() {
            'd' => &[(0x30, 0x39)],
            'w' => &[(0x30, 0x39), (0x41, 0x5a), (0x5f, 0x5f), (0x61, 0x7a)],
            's' => &[(0x09, 0x0d), (0x20, 0x20)],
            _ => return None,
        };
        let more: &[(u32, u32)] = match letter.to_ascii_lowercase() {
            _ if ascii => &[],
            'd' => &DIGITS,
            'w' => &WORDS,
            _ => SPACES,
        };
        let set = Self::of(&[plain, more].concat());
        Some(if letter.is_ascii_uppercase() {
            set.complement()
        } else {
            set
        })
    }

    /// All characters but these.
    #[must_use]
    pub fn complement(&self) -> Self {
        let mut out = Vec::new();
        let mut start = 0;
        for (low, high) in self.all_spans() {
            if start < low {
                out.push((start, low - 1));
            }
            start = high + 1;
        }
        if start <= LAST {
            out.push((start, LAST));
        }
        Self::of(&out)
    }

    /// The set with the other case of each ASCII letter in it.
    #[must_use]
    pub fn folded(&self, ascii: bool) -> Self {
        let mut spans = self.all_spans();
        for letter in 'a'..='z' {
            let upper = letter.to_ascii_uppercase();
            if self.has(letter) || self.has(upper) {
                spans.push((u32::from(letter), u32::from(letter)));
                spans.push((u32::from(upper), u32::from(upper)));
                if !ascii {
                    let cousins = COUSINS.iter().filter(|(of, _)| *of == letter);
                    spans.extend(cousins.map(|(_, code)| (*code, *code)));
                }
            }
        }
        Self::of(&spans)
    }

    /// Whether the set has a character.
    #[must_use]
    pub fn has(&self, c: char) -> bool {
        let code = u32::from(c);
        if let Some(byte) = u8::try_from(code).ok().filter(u8::is_ascii) {
            return self.ascii.has(byte);
        }
        let after = self.spans.partition_point(|(low, _)| *low <= code);
        after
            .checked_sub(1)
            .and_then(|at| self.spans.get(at))
            .is_some_and(|(_, high)| code <= *high)
    }

    /// Whether the set has an ASCII character.
    #[must_use]
    pub fn has_ascii(&self, byte: u8) -> bool {
        self.ascii.has(byte)
    }

    /// Whether the set has any character beyond ASCII.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        !self.spans.is_empty()
    }

    /// The spans of the set, ASCII included; they rise.
    #[must_use]
    pub fn all_spans(&self) -> Vec<(u32, u32)> {
        let ascii = (0..128).filter(|byte| self.ascii.has(*byte));
        let ascii = ascii.map(|byte| (u32::from(byte), u32::from(byte)));
        ascii.chain(self.spans.iter().copied()).collect()
    }
}

fn table(kind: char) -> Vec<(u32, u32)> {
    let rows = TABLE
        .lines()
        .filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' '));
    rows.filter_map(|row| {
        let (low, high) = row.split_once('-').unwrap_or((row, row));
        u32::from_str_radix(low, 16)
            .ok()
            .zip(u32::from_str_radix(high, 16).ok())
    })
    .collect()
}
