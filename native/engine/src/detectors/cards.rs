//! Payment card numbers in runs of digit groups, as `engine/detectors/pii.py` finds them.

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::detectors::reading::next_byte;

const MAX_GROUPS: usize = 401; // of digits in one run
const LEAST_GROUP: usize = 4; // digits of a run's first group
const SHORTEST: usize = 13; // digits of a card
const LONGEST: usize = 19;
const FIRST_DIGIT: u32 = 0x660; // outside ASCII
/// Below it no character outside ASCII begins that is a digit.
pub const FIRST_WIDE: u8 = 0xd9;

/// One group of digits: where it begins and ends in the text, and how many digits stand up to its end in its run.
#[derive(Clone, Copy)]
struct Group {
    start: usize,
    end: usize,
    digits: usize,
}

/// Digits in groups of four and more (the last may be shorter), so that tables of small numbers are no cards.
#[derive(Default)]
struct Run {
    groups: Vec<Group>,
    digits: Vec<u8>,
    /// For each count of leading digits their sum with every second one doubled: those at even, at odd places.
    sums: Vec<[u32; 2]>,
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
        self.digits.clear();
        self.sums.clear();
        self.sums.push([0, 0]);
        let (end, count) = self.group(text, start);
        if !(LEAST_GROUP..=LONGEST).contains(&count) {
            return (false, end);
        }
        while self.groups.len() < MAX_GROUPS {
            let Some(last) = self.groups.last() else {
                break;
            };
            let end = last.end;
            let Some(next) = past_signs(text, end) else {
                break;
            };
            let (_, count) = self.group(text, next);
            if !(1..=LONGEST).contains(&count) {
                self.groups.pop();
                break;
            }
        }
        let end = self.groups.last().map_or(end, |last| last.end);
        (true, end)
    }

    fn group(&mut self, text: &str, start: usize) -> (usize, usize) {
        let before = self.digits.len();
        let mut end = start;
        loop {
            let rest = text.as_bytes().get(end..).unwrap_or_default();
            let plain = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            self.extend(rest.iter().take(plain).map(|b| b - b'0'));
            end += plain;
            let wide = rest.get(plain).is_some_and(|b| *b >= FIRST_WIDE);
            let next = wide.then(|| text.get(end..)?.chars().next()).flatten();
            let Some((c, value)) = next.and_then(|c| Some((c, value_of(c)?))) else {
                break;
            };
            self.extend(std::iter::once(value));
            end += c.len_utf8();
        }
        let digits = self.digits.len();
        self.groups.push(Group { start, end, digits });
        (end, digits - before)
    }

    fn extend(&mut self, digits: impl ExactSizeIterator<Item = u8> + Clone) {
        let mut sums = self.sums.last().copied().unwrap_or_default();
        let mut at_even = self.digits.len() % 2 == 0;
        self.digits.extend(digits.clone());
        self.sums.extend(digits.map(|digit| {
            let [even, odd] = &mut sums;
            let (doubled, plain) = if at_even { (even, odd) } else { (odd, even) };
            *doubled += u32::from(twice(digit));
            *plain += u32::from(digit);
            at_even = !at_even;
            sums
        }));
    }

    /// The group with which a card that begins at group `first` ends; the longest wins.
    fn card_end(&self, first: usize) -> Option<usize> {
        let before = first
            .checked_sub(1)
            .and_then(|before| self.groups.get(before));
        let begin = before.map_or(0, |group| group.digits);
        if !matches!(self.digits.get(begin), Some(2..=6)) {
            return None; // no brand's
        }
        let (mut at, mut found) = (begin, None);
        for (last, group) in self.groups.iter().enumerate().skip(first).take(6) {
            let size = group.digits - begin;
            if size > LONGEST {
                break;
            }
            if size >= SHORTEST && self.is_card(begin, group.digits) {
                found = Some(last);
            }
            if group.digits - at < 4 {
                break; // only the last group of a card may be shorter
            }
            at = group.digits;
        }
        found
    }

    fn is_card(&self, begin: usize, end: usize) -> bool {
        // of a card's digits the last stands as it is, and the one before it is doubled
        let sum = |at: usize| {
            self.sums
                .get(at)
                .map(|[even, odd]| if end % 2 == 0 { even } else { odd })
        };
        let checks = sum(end)
            .zip(sum(begin))
            .is_some_and(|(all, before)| (all - before) % 10 == 0);
        checks && self.digits.get(begin..end).is_some_and(has_length)
    }
}

/// The text with its cards masked; a card begins and ends where a group of digits does.
pub fn cards<'t>(text: Cow<'t, str>, label: &mut dyn FnMut() -> String) -> Cow<'t, str> {
    let mut out = String::new();
    let mut run = Run::default();
    let (mut copied, mut at) = (0, 0);
    while let Some(start) = next_digit(&text, at) {
        let (whole, end) = run.read(&text, start);
        at = end;
        if !whole || run.digits.len() < SHORTEST {
            continue;
        }
        let mut first = 0;
        while let Some(group) = run.groups.get(first) {
            let last = run.card_end(first);
            if let Some(ending) = last.and_then(|last| run.groups.get(last)) {
                out.push_str(text.get(copied..group.start).unwrap_or(""));
                out.push_str(&label());
                copied = ending.end;
            }
            first = last.unwrap_or(first) + 1;
        }
    }
    if copied == 0 {
        return text;
    }
    out.push_str(text.get(copied..).unwrap_or(""));
    out.into()
}

fn next_digit(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        at = next_byte(bytes, at, |b| b.is_ascii_digit() || b >= FIRST_WIDE)?;
        let here = || text.get(at..).and_then(|rest| rest.chars().next());
        let is_digit = bytes.get(at).is_some_and(u8::is_ascii_digit);
        if is_digit || here().is_some_and(|c| value_of(c).is_some()) {
            return Some(at);
        }
        at += 1;
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
    plain.is_some_and(|plain| has_length(&plain) && luhn(&plain))
}

/// The value of a decimal digit of any script: they stand in runs of ten that begin with zero.
fn value_of(c: char) -> Option<u8> {
    if let Some(value) = c.to_digit(10) {
        return u8::try_from(value).ok();
    }
    let code = u32::from(c);
    if code < FIRST_DIGIT {
        return None;
    }
    let after = DECIMALS.partition_point(|(low, _)| *low <= code);
    let (low, high) = DECIMALS.get(after.checked_sub(1)?)?;
    u8::try_from((code - low) % 10)
        .ok()
        .filter(|_| code <= *high)
}

static DECIMALS: LazyLock<Vec<(u32, u32)>> = LazyLock::new(|| {
    crate::rx::sets::Set::class('d', false)
        .map(|set| set.all_spans())
        .unwrap_or_default()
});

/// Whether a number has a length of the brand that its prefix belongs to.
fn has_length(plain: &[u8]) -> bool {
    let size = plain.len();
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
fn twice(digit: u8) -> u8 {
    if digit > 4 {
        2 * digit - 9
    } else {
        2 * digit
    }
}

fn luhn(plain: &[u8]) -> bool {
    let figures = plain.iter().rev().enumerate();
    let sum: u32 = figures
        .map(|(at, digit)| u32::from(if at % 2 == 0 { *digit } else { twice(*digit) }))
        .sum();
    sum % 10 == 0
}
