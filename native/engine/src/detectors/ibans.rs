//! IBANs (ISO 13616) in a text: a country, two digits, and as many letters and digits as the country says, perhaps in
//! groups; they begin and end where a word does. As `engine/detectors/pii.py` finds them.

use std::sync::LazyLock;

use crate::detectors::reading::next_byte;

const HEAD: usize = 4; // the country and two digits, which stand together
const PASSED: usize = 4096; // places of a row that are held after they were passed, at most
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
/// IBANs, one after the other. Letters and digits that stand in a row, no more than a sign between two of them, are read
/// once, however many IBANs may begin among them.
#[derive(Default)]
pub struct Ibans {
    /// Where the letters and digits of the row stand that was read last.
    row: Vec<usize>,
    /// The one of them that was asked for last.
    asked: usize,
    /// Where the row goes on, if it does.
    end: usize,
}

impl Ibans {
    /// The next IBAN from a position on, which only rises: where it begins and ends.
    pub fn next(&mut self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        let mut at = from + 2;
        loop {
            at = next_byte(text, at, |b| b.is_ascii_digit())?;
            let start = at - 2;
            if names_country(text, at) && text.get(at + 1).is_some_and(u8::is_ascii_digit) {
                if let Some(end) = self.end_of(text, start) {
                    return Some((start, end));
                }
            }
            let rest = text.get(at..)?;
            at += rest.iter().position(|b| !b.is_ascii_digit())?;
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
        let last = self.read(text, first + size)?;
        let goes_on = text.get(last + 1).is_some_and(u8::is_ascii_alphanumeric);
        let checks = || mod97(text, self.row.get(first..first + size)?);
        (!goes_on && checks() == Some(1)).then_some(last + 1)
    }

    /// The place in the row of the letter that stands at `start`; in a new row where it is not in this one.
    fn begin(&mut self, start: usize) -> usize {
        let here = self.row.get(self.asked..).unwrap_or_default();
        if let Some(ahead) = here.iter().position(|place| *place >= start) {
            self.asked += ahead;
            if self.asked > PASSED {
                self.row.drain(..self.asked);
                self.asked = 0;
            }
        } else {
            self.row.clear();
            (self.asked, self.end) = (0, start);
        }
        self.asked
    }

    /// Read the row up to so many letters and digits; where the last of them stands, if there are so many.
    fn read(&mut self, text: &[u8], count: usize) -> Option<usize> {
        while self.row.len() < count {
            let is_sign = !self.row.is_empty() && matches!(text.get(self.end), Some(b' ' | b'-'));
            let at = self.end + usize::from(is_sign);
            text.get(at).filter(|b| b.is_ascii_alphanumeric())?;
            self.row.push(at);
            self.end = at + 1;
        }
        self.row.get(count - 1).copied()
    }
}

/// Whether two letters stand before a place, with which a word begins.
#[must_use]
pub fn names_country(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(3).and_then(|before| text.get(before));
    let letters = at.checked_sub(2).and_then(|start| text.get(start..at));
    letters.is_some_and(|letters| letters.iter().all(u8::is_ascii_alphabetic))
        && !before.is_some_and(u8::is_ascii_alphanumeric)
}

/// The letters and digits at some places as a number: the first four of them stand at its end.
fn mod97(text: &[u8], places: &[usize]) -> Option<u64> {
    let (head, rest) = places.split_at_checked(HEAD)?;
    let mut left: u64 = 0;
    for place in rest.iter().chain(head) {
        let value = u64::from(char::from(*text.get(*place)?).to_digit(36)?);
        left = left * if value > 9 { 100 } else { 10 } + value;
        if left > MANY {
            left %= 97;
        }
    }
    Some(left % 97)
}

#[cfg(test)]
mod tests {
    use super::{mod97, Ibans, HEAD, SIZES};
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
        (ends && mod97(text, &places) == Some(1)).then_some(at)
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
