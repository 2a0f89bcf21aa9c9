//! IBANs (ISO 13616) in a text: a country, two digits, and as many letters and digits as the country says, perhaps in
//! groups; they begin and end where a word does. As `engine/detectors/pii.py` finds them.

use std::sync::LazyLock;

use crate::detectors::reading::next_byte;

const HEAD: usize = 4; // the country and two digits, which stand together
const LONGEST: usize = 32; // letters and digits of an IBAN
const HEAD_POWER: u64 = 27; // of ten, for the head's six figures: 1,000,000 after a division by 97
const PASSED: usize = 4096; // words of a row that are held after they were passed, at most
const MANY: u64 = 1 << 56; // two more digits go into 64 bits
/// Country codes by the length of their IBANs.
const IBANS: [(usize, &str); 17] = [
    (15, "NO"),
    (16, "BE"),
    (18, "DK FI FO GL NL"),
    (19, "MK SI"),
    (20, "AT BA EE KZ LT LU XK"),
    (21, "CH HR LI LV"),
    (22, "BG BH CR DE GB GE IE ME RS VA"),
    (23, "AE GI IL IQ TL"),
    (24, "AD CZ ES MD PK RO SA SE SK TN VG"),
    (25, "LY PT ST"),
    (26, "IS TR"),
    (27, "FR GR IT MC MR SM"),
    (28, "AL AZ BY CY DO GT HU LB PL SV"),
    (29, "BR EG PS QA UA"),
    (30, "JO KW MU"),
    (31, "MT SC"),
    (32, "LC"),
];

/// The lengths of IBANs by country, at 26 times the first letter plus the second.
static SIZES: LazyLock<Vec<usize>> = LazyLock::new(|| {
    let mut sizes = vec![0; 26 * 26];
    for (size, countries) in IBANS {
        for country in countries.split(' ') {
            let at = country
                .bytes()
                .fold(0, |at, b| 26 * at + usize::from(b - b'A'));
            if let Some(held) = sizes.get_mut(at) {
                *held = size;
            }
        }
    }
    sizes
});
/// The powers of ten after a division by 97, for as many figures as a row's words may have that are an IBAN.
static POWERS: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let powers = std::iter::successors(Some(1), |power| Some(power * 10 % 97));
    powers.take(2 * LONGEST + 1).collect()
});

/// IBANs, one after the other. Words of letters and digits that stand in a row, a sign between two of them, are read
/// once, however many IBANs may begin among them; an IBAN is some of these words.
#[derive(Default)]
pub struct Ibans {
    /// The words of the row that was read last.
    row: Vec<Word>,
    /// The one of them that was asked for last.
    asked: usize,
    /// The row as a number, up to the end of each word: read as far as somebody asked for it.
    numbers: Vec<Number>,
    /// How many words stood between the first and the last of the one before.
    words: usize,
}

/// Letters and digits that stand together.
struct Word {
    start: usize,
    end: usize,
    /// How many letters and digits stand in the row up to its end.
    count: usize,
}

/// Letters and digits as a number: what is left of it after a division by 97, and its figures.
#[derive(Clone, Copy, Default)]
struct Number {
    left: u64,
    figures: usize,
}

impl Ibans {
    /// The next IBAN from a position on, which only rises: where it begins and ends. `see` is told of all digits on the
    /// way that stand together and are not part of one: where they begin, and how many they are.
    pub fn next(
        &mut self,
        text: &[u8],
        from: usize,
        mut see: impl FnMut(usize, usize),
    ) -> Option<(usize, usize)> {
        let mut at = from;
        loop {
            at = next_byte(text, at, |b| b.is_ascii_digit())?;
            let rest = text.get(at..)?;
            let size = rest.iter().position(|b| !b.is_ascii_digit());
            let size = size.unwrap_or(rest.len());
            if size > 1 && at >= from + 2 && names_country(text, at) {
                if let Some(end) = self.end_of(text, at - 2) {
                    return Some((at - 2, end));
                }
            }
            see(at, size);
            at += size;
        }
    }

    /// Where the IBAN ends that begins at a place, if one does.
    fn end_of(&mut self, text: &[u8], start: usize) -> Option<usize> {
        let country = text.get(start..start + 2)?;
        let at = country.iter().fold(0, |at, b| {
            26 * at + usize::from(b.to_ascii_uppercase() - b'A')
        });
        let size = *SIZES.get(at).filter(|size| **size > 0)?;
        let first = self.begin(start);
        let before = first.checked_sub(1).and_then(|at| self.row.get(at));
        let count = size + before.map_or(0, |word| word.count);
        // most have as many words as the one before
        let is_before = |word: &Word| word.count < count;
        let near = first + self.words;
        let mut last = if self.row.get(near).is_some_and(is_before) {
            near
        } else {
            first
        };
        loop {
            if last == self.row.len() {
                self.read(text, start)?;
            }
            let word = self.row.get(last)?;
            if word.count >= count {
                self.words = (last - first).saturating_sub(1);
                let (end, is_whole) = (word.end, word.count == count);
                return (is_whole && self.number(text, first, last) == Some(1)).then_some(end);
            }
            last += 1;
        }
    }

    /// The place in the row of the word that stands at `start`; in a new row where it is not in this one.
    fn begin(&mut self, start: usize) -> usize {
        let here = self.row.get(self.asked..).unwrap_or_default();
        let ahead = here.iter().position(|word| word.start >= start);
        self.asked += ahead.unwrap_or(0);
        if ahead.is_none() || self.asked > PASSED {
            self.row.clear();
            self.numbers.clear();
            self.asked = 0;
        }
        self.asked
    }

    /// Read the next word of the row, which begins at `start`.
    fn read(&mut self, text: &[u8], start: usize) -> Option<()> {
        let (start, count) = match self.row.last() {
            None => (start, 0),
            Some(last) => {
                text.get(last.end).filter(|b| matches!(b, b' ' | b'-'))?;
                (last.end + 1, last.count)
            }
        };
        let rest = text.get(start..)?.iter().take(LONGEST + 1); // a longer word is no part of one
        let size = rest.take_while(|b| b.is_ascii_alphanumeric()).count();
        let word = Word {
            start,
            end: start + size,
            count: count + size,
        };
        (size > 0).then(|| self.row.push(word))
    }

    /// What is left of the number that some words make, after a division by 97; their head stands at its end.
    fn number(&mut self, text: &[u8], first: usize, last: usize) -> Option<u64> {
        while self.numbers.len() <= last {
            let word = self.row.get(self.numbers.len())?;
            let before = self.numbers.last().copied().unwrap_or_default();
            let number = before.with(text.get(word.start..word.end)?)?;
            self.numbers.push(number);
        }
        let before = first.checked_sub(1).and_then(|at| self.numbers.get(at));
        let before = before.copied().unwrap_or_default();
        let start = self.row.get(first)?.start;
        let head = Number::default().with(text.get(start..start + HEAD)?)?;
        let whole = self.numbers.get(last)?;
        // (whole - before * power - head * power / HEAD_POWER) * HEAD_POWER + head
        let power = POWERS.get(whole.figures.checked_sub(before.figures)?)?;
        let left = (whole.left + 97 * 97 - before.left * power) * HEAD_POWER;
        Some((left + head.left * (98 - power)) % 97)
    }
}

impl Number {
    /// The number that goes on by some letters and digits.
    fn with(self, more: &[u8]) -> Option<Self> {
        let Self {
            mut left,
            mut figures,
        } = self;
        for byte in more {
            let value = match byte {
                b'0'..=b'9' => byte - b'0',
                _ => (byte | 32).checked_sub(b'a').filter(|place| *place < 26)? + 10,
            };
            let value = u64::from(value);
            let (factor, size) = if value > 9 { (100, 2) } else { (10, 1) };
            left = left * factor + value;
            figures += size;
            if left > MANY {
                left %= 97;
            }
        }
        left %= 97;
        Some(Self { left, figures })
    }
}

/// Whether two letters stand before a place, with which a word begins.
fn names_country(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(3).and_then(|before| text.get(before));
    let letters = at.checked_sub(2).and_then(|start| text.get(start..at));
    letters.is_some_and(|letters| letters.iter().all(u8::is_ascii_alphabetic))
        && !before.is_some_and(u8::is_ascii_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::{Ibans, Number, HEAD, SIZES};
    use crate::detectors::reading::mixed;

    /// Each place by itself, as a person would look for one.
    fn plainly(text: &[u8], from: usize) -> Option<(usize, usize)> {
        (from..text.len()).find_map(|start| end_of(text, start).map(|end| (start, end)))
    }

    fn end_of(text: &[u8], start: usize) -> Option<usize> {
        let [a, b, c, d] = text.get(start..start + HEAD)? else {
            return None;
        };
        let begins = a.is_ascii_alphabetic()
            && b.is_ascii_alphabetic()
            && c.is_ascii_digit()
            && d.is_ascii_digit();
        let before = start.checked_sub(1).and_then(|before| text.get(before));
        if !begins || before.is_some_and(u8::is_ascii_alphanumeric) {
            return None;
        }
        let letter = |b: &u8| usize::from(b.to_ascii_uppercase() - b'A');
        let size = *SIZES
            .get(26 * letter(a) + letter(b))
            .filter(|size| **size > 0)?;
        let mut places = Vec::new();
        let mut at = start;
        for count in 0..size {
            at += usize::from(count >= HEAD && matches!(text.get(at), Some(b' ' | b'-')));
            text.get(at).filter(|b| b.is_ascii_alphanumeric())?;
            places.push(at);
            at += 1;
        }
        let ends = !text.get(at).is_some_and(u8::is_ascii_alphanumeric);
        let (head, rest) = places.split_at_checked(HEAD)?;
        let turned = rest.iter().chain(head).filter_map(|place| text.get(*place));
        let number = Number::default().with(&turned.copied().collect::<Vec<u8>>());
        (ends && number?.left == 1).then_some(at)
    }

    #[test]
    fn ibans_are_those_that_are_found_place_by_place() {
        let pieces = [
            "DE89",
            "DE89 3704 0044 0532 0130 00",
            "NO93 8601 1117 947",
            "no9386011117947",
            "BE68 5390 0754 7034",
            " ",
            "-",
            "DE89 ",
            "3704",
            " 0044 ",
            "x",
            "  ",
            "é",
            "GB29NWBK60161331926819",
            "NWBK",
            "BE68 ",
            "11",
            "\n",
            "LC55HEMM000100010012001200023015",
            "XX12",
            "AT61 1904 3002 3457 3201",
            "AT61 ",
            "1904",
            "123456789012345678901234567890123",
        ];
        let mut found = 0;
        for seed in 0..6_000 {
            let text = mixed(&pieces, seed, 14);
            let (mut ibans, mut from) = (Ibans::default(), 0);
            loop {
                let next = ibans.next(text.as_bytes(), from, |_, _| ());
                assert_eq!(next, plainly(text.as_bytes(), from), "{text:?} from {from}");
                let Some((_, end)) = next else {
                    break;
                };
                found += 1;
                from = end;
            }
        }
        assert!(found > 1_500, "{found}");
    }
}
