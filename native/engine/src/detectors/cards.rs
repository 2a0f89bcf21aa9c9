//! Payment card numbers in runs of digit groups, as `engine/detectors/pii.py` finds them.

use std::borrow::Cow;

use crate::detectors::digits::{digit_at, digits_at, next_digit, value_of, FIRST_WIDE};
use crate::detectors::finds::{Kinds, TooMany};
use crate::detectors::reading::{bits_of, next_byte, window, AHEAD, OWN};

const MAX_GROUPS: usize = 401; // of digits in one run
const LEAST_GROUP: usize = 4; // digits of a run's first group
const SHORTEST: usize = 13; // digits of a card
const LONGEST: usize = 19;

/// One group of digits: where it begins and ends in the text, and what is known at its end of the run it stands in.
#[derive(Clone, Copy, Default)]
struct Group {
    start: usize,
    end: usize,
    /// How many digits stand up to its end.
    digits: usize,
    /// The sum of these with every second one doubled: those at even, at odd places.
    sums: [u32; 2],
}

/// Digits in groups of four and more (the last may be shorter), so that tables of small numbers are no cards.
#[derive(Default)]
struct Run {
    groups: Vec<Group>,
}

impl Run {
    /// Read the run that begins at a group; false where its first group is too short or too long.
    fn read(&mut self, text: &str, start: usize) -> (bool, usize) {
        let plain = text.as_bytes().get(start..).unwrap_or_default();
        let size = plain
            .iter()
            .take(LEAST_GROUP)
            .take_while(|b| b.is_ascii_digit())
            .count();
        if size < LEAST_GROUP && plain.get(size).is_none_or(|b| *b < FIRST_WIDE) {
            return (false, start + size);
        }
        self.groups.clear();
        let mut sums = Sums::default();
        let mut next = Some(start);
        while let Some(at) = next.filter(|_| self.groups.len() < MAX_GROUPS) {
            let group = sums.group(text, at);
            let least = if at == start { LEAST_GROUP } else { 1 };
            let count = group.digits - self.groups.last().map_or(0, |last| last.digits);
            if !(least..=LONGEST).contains(&count) {
                if at == start {
                    return (false, group.end);
                }
                break;
            }
            self.groups.push(group);
            next = past_signs(text, group.end);
        }
        let end = self.groups.last().map_or(start, |last| last.end);
        (true, end)
    }

    /// Whether a run has a card's digits.
    fn is_long(&self) -> bool {
        let last = self.groups.last();
        last.is_some_and(|last| last.digits >= SHORTEST)
    }

    /// The group with which a card that begins at group `first` ends; the longest wins.
    fn card_end(&self, text: &str, first: usize) -> Option<usize> {
        let head = || digits_at(text, self.groups.get(first)?.start).next();
        if !head().is_some_and(|head| (2..=6).contains(&head)) {
            return None; // no brand's
        }
        let before = first.checked_sub(1).and_then(|at| self.groups.get(at));
        let before = before.copied().unwrap_or_default();
        let (mut at, mut found) = (before.digits, None);
        for (last, group) in self.groups.iter().enumerate().skip(first).take(6) {
            let size = group.digits - before.digits;
            if size > LONGEST {
                break;
            }
            if size >= SHORTEST && self.is_card(text, first, &before, group) {
                found = Some(last);
            }
            if group.digits - at < LEAST_GROUP {
                break; // only the last group of a card may be shorter
            }
            at = group.digits;
        }
        found
    }

    fn is_card(&self, text: &str, first: usize, before: &Group, last: &Group) -> bool {
        // of a card's digits the last stands as it is, and the one before it is doubled
        let sum = |group: &Group| {
            let [even, odd] = group.sums;
            if last.digits % 2 == 0 {
                even
            } else {
                odd
            }
        };
        let has_length = |group: &Group| {
            let mut digits = digits_at(text, group.start);
            let head: [u8; LEAST_GROUP] = std::array::from_fn(|_| digits.next().unwrap_or(0));
            has_length(&head, last.digits - before.digits)
        };
        (sum(last) - sum(before)) % 10 == 0 && self.groups.get(first).is_some_and(has_length)
    }
}

/// The digits of a run that were read, and their sums: first the one in which the next digit is doubled.
#[derive(Default)]
struct Sums {
    digits: usize,
    next: u32,
    other: u32,
}

impl Sums {
    /// Read the digits that stand together from a place on.
    #[inline]
    fn group(&mut self, text: &str, start: usize) -> Group {
        let bytes = text.as_bytes();
        let mut end = start;
        loop {
            match bytes.get(end) {
                Some(byte @ b'0'..=b'9') => {
                    self.add(byte - b'0');
                    end += 1;
                }
                Some(FIRST_WIDE..) => match digit_at(text, bytes, end) {
                    Some((digit, size)) => {
                        self.add(digit);
                        end += size;
                    }
                    None => break,
                },
                _ => break,
            }
        }
        let sums = if self.digits % 2 == 0 {
            [self.next, self.other]
        } else {
            [self.other, self.next]
        };
        Group {
            start,
            end,
            digits: self.digits,
            sums,
        }
    }

    fn add(&mut self, digit: u8) {
        let next = self.next + twice(u32::from(digit));
        (self.next, self.other) = (self.other + u32::from(digit), next);
        self.digits += 1;
    }
}

/// The text with its cards masked; a card begins and ends where a group of digits does. `wide` where digits beyond
/// ASCII may stand in it.
///
/// # Errors
/// Where there are too many.
pub fn cards<'t>(
    text: Cow<'t, str>,
    wide: bool,
    kinds: &mut Kinds,
) -> Result<Cow<'t, str>, TooMany> {
    let mut out = String::new();
    let mut run = Run::default();
    let (mut copied, mut at, mut part) = (0, 0, 0);
    while let Some(start) = next_start(&text, at, &mut part, wide) {
        let (whole, end) = run.read(&text, start);
        at = end;
        if !whole || !run.is_long() {
            continue;
        }
        let mut first = 0;
        while let Some(group) = run.groups.get(first) {
            let last = run.card_end(&text, first);
            if let Some(ending) = last.and_then(|last| run.groups.get(last)) {
                out.push_str(text.get(copied..group.start).unwrap_or(""));
                kinds.write("CREDIT_CARD", "", &mut out)?;
                copied = ending.end;
            }
            first = last.unwrap_or(first) + 1;
        }
    }
    if copied == 0 {
        return Ok(text);
    }
    out.push_str(text.get(copied..).unwrap_or(""));
    Ok(out.into())
}

/// The places in a window from which on so many digits and signs between them stand together as a card has at least,
/// a bit each. What is not ASCII counts as a sign.
#[must_use]
pub fn cards_of(window: &[u8; 64]) -> u64 {
    let ones = bits_of(window, may_stand);
    let twos = ones & ones >> 1;
    let fours = twos & twos >> 2;
    let eights = fours & fours >> 4;
    eights & fours >> 8 & ones >> 12
}

/// Whether a byte may stand in a card.
#[allow(clippy::needless_bitwise_bool)] // nothing is left out: so that many bytes are read together
fn may_stand(byte: u8) -> bool {
    byte.is_ascii_digit() | (byte == b' ') | (byte == b'-') | !byte.is_ascii()
}

/// The next part of a text from a place on in which a card may stand, as long as no digit beyond ASCII is there.
fn next_part(bytes: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    while at < bytes.len() {
        let window = window(bytes, at);
        let has_digits = window
            .iter()
            .fold(false, |any, byte| any | byte.is_ascii_digit());
        let cards = if has_digits { cards_of(&window) } else { 0 };
        if cards != 0 {
            let ahead = usize::try_from(cards.trailing_zeros()).ok()?;
            let start = from.max((at + ahead).saturating_sub(AHEAD));
            let end = next_byte(bytes, start, |byte| !may_stand(byte));
            return Some((start, end.unwrap_or(bytes.len())));
        }
        at += OWN;
    }
    None
}

/// The next digit from a place on that may be part of a card; `part` ends the part of the text that was looked at last.
fn next_start(text: &str, from: usize, part: &mut usize, wide: bool) -> Option<usize> {
    if wide {
        return next_digit(text, from);
    }
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        let here = bytes.get(..*part)?;
        let next = next_byte(here, at, |byte| byte.is_ascii_digit());
        if next.is_some() {
            return next;
        }
        (at, *part) = next_part(bytes, at.max(*part))?;
    }
}

/// Past the one or two signs that may stand between groups of digits.
fn past_signs(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = from;
    for _ in 0..2 {
        at += match bytes.get(at..)? {
            [b' ' | b'-', ..] => 1,
            [0xc2, 0xa0, ..] => 2,
            [0xe2, 0x80, 0x89 | 0x90..=0x95 | 0xaf, ..] => 3,
            _ => break,
        };
    }
    (at > from).then_some(at)
}

/// Whether digits are a card number.
#[must_use]
pub fn is_card(digits: &str) -> bool {
    if digits.chars().count() < SHORTEST {
        return false;
    }
    let plain: Option<Vec<u8>> = digits.chars().map(value_of).collect();
    plain.is_some_and(|plain| has_length(&plain, plain.len()) && luhn(&plain))
}

/// Whether a number that begins so has a length of the brand that its prefix belongs to.
fn has_length(plain: &[u8], size: usize) -> bool {
    let start = |count: usize| {
        plain
            .iter()
            .take(count)
            .fold(0, |all, digit| all * 10 + u32::from(*digit))
    };
    let (two, three, four) = (start(2), start(3), start(4));
    match () {
        () if start(1) == 4 => matches!(size, 13 | 16 | 19), // Visa
        () if (51..=55).contains(&two) || (2221..=2720).contains(&four) => size == 16, // Mastercard
        () if two == 34 || two == 37 => size == 15,          // American Express
        () if four == 6011 || (644..=649).contains(&three) || two == 65 => matches!(size, 16 | 19), // Discover
        () if (300..=305).contains(&three) || matches!(two, 36 | 38 | 39) => {
            matches!(size, 14 | 16)
        } // Diners Club
        () if (3528..=3589).contains(&four) => matches!(size, 16 | 19), // JCB
        () => two == 62 && (16..=19).contains(&size),                   // UnionPay
    }
}

/// Twice a digit, its digits added up.
fn twice(digit: u32) -> u32 {
    2 * digit - 9 * u32::from(digit > 4)
}

fn luhn(plain: &[u8]) -> bool {
    let figures = plain.iter().rev().enumerate();
    let sum: u32 = figures
        .map(|(at, digit)| (at, u32::from(*digit)))
        .map(|(at, digit)| if at % 2 == 0 { digit } else { twice(digit) })
        .sum();
    sum % 10 == 0
}

#[cfg(test)]
mod tests {
    use super::cards;
    use crate::detectors::finds::Kinds;
    use crate::detectors::reading::mixed;

    #[test]
    fn cards_stand_only_in_the_parts_that_are_looked_at() {
        let (far, near) = ("-".repeat(45), " ".repeat(9));
        let pieces = [
            "4111",
            " ",
            "-",
            "1111 1111 1111",
            "a",
            "\u{a0}",
            "4111111111111111",
            ", 12",
            "41 ",
            "é",
            &far,
            &near,
            "3782-822463-10005",
            "\n",
            "00000 ",
        ];
        let mut found = 0;
        for seed in 0..6_000 {
            let text = mixed(&pieces, seed, 14);
            let all = |wide| {
                let mut kinds = Kinds::new(99);
                cards(text.as_str().into(), wide, &mut kinds)
                    .map(|masked| (masked.into_owned(), kinds.count))
            };
            let (parts, whole) = (
                all(false).unwrap_or_default(),
                all(true).unwrap_or_default(),
            );
            assert_eq!(parts, whole, "{text:?}");
            found += parts.1;
        }
        assert!(found > 1_000, "{found}");
    }
}
