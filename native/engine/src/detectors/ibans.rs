//! IBANs (ISO 13616) in a text: a country, two digits, and as many letters and digits as the country says, perhaps in
//! groups; they begin and end where a word does. As `engine/detectors/pii.py` finds them.

use crate::detectors::cards::cards_of;
use crate::detectors::reading::{bits_of, window, AHEAD, OWN};

const HEAD: usize = 4; // the country and two digits, which stand together
const LONGEST: usize = 32; // letters and digits of an IBAN
const HEAD_FIGURES: usize = 6; // of the head: a letter has two
const PASSED: usize = 4096; // words of a row that are held after they were passed, at most
const MANY: u64 = 1 << 49; // a hundred times a hundred times that fits into 64 bits
const CYCLE: usize = 96; // 10 to the power of 96 is 1, after a division by 97
/// Country codes by the length of their IBANs.
const IBANS: [(u8, &str); 17] = [
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

/// The lengths of IBANs by country, at 26 times the first letter plus the second; 0 for what is none.
static SIZES: [u8; 26 * 26] = sizes();
/// What is left of the powers of ten after a division by 97.
static POWERS: [u8; 2 * CYCLE + HEAD_FIGURES] = powers();
/// What letters and digits are worth, 255 for what is neither.
static VALUES: [u8; 256] = values();

#[allow(clippy::indexing_slicing)] // worked out by the compiler, which refuses what is outside
const fn sizes() -> [u8; 26 * 26] {
    let mut sizes = [0; 26 * 26];
    let mut row = 0;
    while row < IBANS.len() {
        let (size, countries) = (IBANS[row].0, IBANS[row].1.as_bytes());
        let mut at = 0;
        while at < countries.len() {
            let (one, two) = (countries[at] - b'A', countries[at + 1] - b'A');
            sizes[26 * one as usize + two as usize] = size;
            at += 3;
        }
        row += 1;
    }
    sizes
}

#[allow(clippy::indexing_slicing)]
const fn powers() -> [u8; 2 * CYCLE + HEAD_FIGURES] {
    let mut powers = [1; 2 * CYCLE + HEAD_FIGURES];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = (powers[at - 1] as u32 * 10 % 97) as u8;
        at += 1;
    }
    powers
}

#[allow(clippy::indexing_slicing)]
const fn values() -> [u8; 256] {
    let mut values = [255; 256];
    let mut value = 0;
    while value < 36 {
        if value < 10 {
            values[(b'0' + value) as usize] = value;
        } else {
            values[(b'a' - 10 + value) as usize] = value;
            values[(b'A' - 10 + value) as usize] = value;
        }
        value += 1;
    }
    values
}

fn value_of(byte: u8) -> u8 {
    VALUES.get(usize::from(byte)).copied().unwrap_or(255)
}

/// Ten to a power, after a division by 97.
fn power(of: usize) -> u32 {
    POWERS.get(of).copied().map_or(1, u32::from)
}

/// IBANs, one after the other. Words of letters and digits that stand in a row, a sign between two of them, are read
/// once, however many IBANs may begin among them; an IBAN is some of these words.
#[derive(Default)]
pub struct Ibans {
    /// Whether a payment card may stand on the way.
    pub card: bool,
    /// Whether three digits stand together on the way, and a blank or a dash after them.
    pub three: bool,
    /// The words of the row that was read last.
    row: Vec<Word>,
    /// The one of them that was asked for last.
    asked: usize,
    /// How many of them are known as numbers.
    known: usize,
    /// How many words stood between the first and the last of the one before.
    words: usize,
}

/// Letters and digits that stand together.
#[derive(Clone, Copy, Default)]
struct Word {
    start: usize,
    end: usize,
    /// How many letters and digits stand in the row up to its end.
    count: usize,
    /// How many figures they are as a number, without whole cycles.
    figures: usize,
    /// That number with a point before its first figure: what is left of it after a division by 97.
    left: u32,
}

impl Ibans {
    /// The next IBAN from a position on, which only rises: where it begins and ends.
    pub fn next(&mut self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        let is_digit = |byte: u8| byte.is_ascii_digit();
        let mut at = from;
        while at < text.len() {
            let window = window(text, at);
            if !window.iter().fold(false, |any, byte| any | is_digit(*byte)) {
                at += OWN;
                continue;
            }
            let digits = bits_of(&window, is_digit);
            let letters = bits_of(&window, |byte| byte.is_ascii_alphabetic());
            let firsts = digits & !(digits << 1);
            let threes = digits & digits >> 1 & digits >> 2;
            self.card = self.card || cards_of(&window) != 0;
            if !self.three && threes & firsts != 0 {
                let signs = bits_of(&window, |byte| matches!(byte, b'-' | b' '));
                self.three = threes & firsts & signs >> 3 != 0;
            }
            let words = digits | letters;
            let mut heads = firsts & digits >> 1 & letters << 1 & letters << 2 & !(words << 3);
            heads &= !0 >> (64 - OWN) << AHEAD;
            while heads != 0 {
                let ahead = usize::try_from(heads.trailing_zeros()).ok()?;
                let start = (at + ahead).checked_sub(AHEAD + 2)?;
                if start >= from {
                    if let Some(end) = self.end_of(text, start) {
                        return Some((start, end));
                    }
                }
                heads &= heads - 1;
            }
            at += OWN;
        }
        None
    }

    /// Where the IBAN ends that begins at a place, if one does.
    fn end_of(&mut self, text: &[u8], start: usize) -> Option<usize> {
        let [a, b, c, d] = *text.get(start..)?.first_chunk::<HEAD>()?;
        let letter = |b: u8| usize::from((b | 32) - b'a');
        let size = *SIZES.get(26 * letter(a) + letter(b))?;
        if size == 0 {
            return None;
        }
        let first = self.begin(start);
        let above = first.checked_sub(1).and_then(|at| self.row.get(at));
        let count = usize::from(size) + above.map_or(0, |word| word.count);
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
                let figures = [a, b, c, d].map(|byte| u32::from(value_of(byte)));
                let [a, b, c, d] = figures;
                let head = a * 10_000 + b * 100 + c * 10 + d;
                return (is_whole && self.is_one(text, first, last, head)?).then_some(end);
            }
            last += 1;
        }
    }

    /// Whether some words of the row are 1 after a division by 97, with their head at their end.
    fn is_one(&mut self, text: &[u8], first: usize, last: usize, head: u32) -> Option<bool> {
        let before = self.known.checked_sub(1).and_then(|at| self.row.get(at));
        let mut before = before.copied().unwrap_or_default();
        for word in self.row.get_mut(self.known..=last).into_iter().flatten() {
            word.follow(&before, text.get(word.start..word.end)?);
            before = *word;
        }
        self.known = self.known.max(last + 1);
        let above = first.checked_sub(1).and_then(|at| self.row.get(at));
        let above = above.copied().unwrap_or_default();
        let (figures, left) = (above.figures, above.left);
        let whole = self.row.get(last)?;
        let all = (97 + whole.left - left) * power(whole.figures + HEAD_FIGURES);
        let figures = CYCLE + whole.figures - figures;
        Some((all + head * (98 - power(figures))) % 97 == 1)
    }

    /// The place in the row of the word that stands at `start`; in a new row where it is not in this one.
    fn begin(&mut self, start: usize) -> usize {
        let here = self.row.get(self.asked..).unwrap_or_default();
        let ahead = here.iter().position(|word| word.start >= start);
        self.asked += ahead.unwrap_or(0);
        if ahead.is_none() || self.asked > PASSED {
            self.row.clear();
            (self.asked, self.known) = (0, 0);
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
            ..Word::default()
        };
        (size > 0).then(|| self.row.push(word))
    }
}

impl Word {
    /// Become known as a number, behind the word before.
    fn follow(&mut self, before: &Self, bytes: &[u8]) {
        let (mut number, mut figures) = (0_u64, before.figures);
        let four: Option<[u8; HEAD]> = bytes.try_into().ok();
        if let Some([a, b, c, d]) = four.map(|four| four.map(value_of)) {
            // as most words are: without a step that waits for the one before
            let [of_b, of_c, of_d] = [b, c, d].map(|value| if value > 9 { 100 } else { 10 });
            let [a, b, c, d] = [a, b, c, d].map(u64::from);
            number = (a * of_b + b) * (of_c * of_d) + c * of_d + d;
            figures += 4 + [a, b, c, d].iter().filter(|value| **value > 9).count();
        }
        for byte in bytes.iter().filter(|_| four.is_none()) {
            let value = value_of(*byte);
            let (factor, more) = if value > 9 { (100, 2) } else { (10, 1) };
            if number > MANY {
                number %= 97;
            }
            number = number * factor + u64::from(value);
            figures += more;
        }
        while figures >= CYCLE {
            figures -= CYCLE;
        }
        let left = u64::from(before.left) + number * u64::from(power(CYCLE - figures));
        self.left = u32::try_from(left % 97).unwrap_or(0);
        self.figures = figures;
    }
}

#[cfg(test)]
mod tests {
    use super::{value_of, Ibans, HEAD, SIZES};
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
        let size = usize::from(size);
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
        let left = turned.fold(0, |left, byte| match u32::from(value_of(*byte)) {
            digit @ 0..=9 => (10 * left + digit) % 97,
            letter => (100 * left + letter) % 97,
        });
        (ends && left == 1).then_some(at)
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
                let next = ibans.next(text.as_bytes(), from);
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
