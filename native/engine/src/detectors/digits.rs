//! Decimal digits of any script: their values, and where they stand in a text.
//!
//! Few texts have one beyond ASCII: the first bytes of a character say where one may be, and only there its value is
//! looked up.

use std::sync::LazyLock;

use crate::detectors::reading::next_pair;

const FIRST_DIGIT: u32 = 0x660; // outside ASCII
const ROW: u32 = 16; // characters
const FIRST_PLANE: usize = 0x1000; // rows
/// Below it no character outside ASCII begins that is a digit.
pub(super) const FIRST_WIDE: u8 = 0xd9;

/// The value of the digit at a place, and its bytes.
pub(super) fn digit_at(text: &str, bytes: &[u8], at: usize) -> Option<(u8, usize)> {
    let byte = *bytes.get(at)?;
    if byte < FIRST_WIDE {
        let value = byte.wrapping_sub(b'0');
        return (value < 10).then_some((value, 1));
    }
    let c = text.get(at..)?.chars().next()?;
    Some((value_of(c)?, c.len_utf8()))
}

/// The digits that stand together from a place on.
pub(super) fn digits_at(text: &str, start: usize) -> impl Iterator<Item = u8> + '_ {
    let mut at = start;
    std::iter::from_fn(move || {
        let (digit, size) = digit_at(text, text.as_bytes(), at)?;
        at += size;
        Some(digit)
    })
}

/// The next digit of any script from a place on.
pub(super) fn next_digit(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut seek = from;
    loop {
        let found = next_pair(bytes, seek, begins_digit)?;
        let at = match bytes.get(found)? {
            b'0'..=b'9' => return Some(found),
            0x9f => found - 1,
            _ => found,
        };
        let c = text.get(at..).and_then(|rest| rest.chars().next());
        if at >= from && c.is_some_and(|c| value_of(c).is_some()) {
            return Some(at);
        }
        seek = found + 1;
    }
}

/// Whether a digit beyond ASCII stands in a text.
#[must_use]
#[allow(clippy::needless_bitwise_bool)] // nothing is left out: so that many bytes are read together
pub(super) fn has_wide_digit(text: &str) -> bool {
    let is_wide = |one: u8, two: u8| (one > b'9') & begins_digit(one, two);
    let mut seek = 0;
    while let Some(found) = next_pair(text.as_bytes(), seek, is_wide) {
        let starts = [found, found.saturating_sub(1)];
        let mut here = starts
            .iter()
            .filter_map(|at| text.get(*at..)?.chars().next());
        if here.any(|c| !c.is_ascii() && value_of(c).is_some()) {
            return true;
        }
        seek = found + 1;
    }
    false
}

/// Whether a digit may begin with two bytes, or before them where they are 9F AF; few other characters do.
#[allow(clippy::needless_bitwise_bool)] // nothing is left out: so that many bytes are read together
fn begins_digit(one: u8, two: u8) -> bool {
    one.is_ascii_digit()
        | (one == 0xd9)
        | (one == 0xdb)
        | (one == 0xdf)
        | (one == 0xe0) & (two >= 0xa5)
        | (one == 0xe1) & (two != 0x83)
        | (one == 0xea) & (0x98..0xb0).contains(&two)
        | (one == 0xef) & (two == 0xbc)
        | (one == 0xf0) & (two != 0x9f)
        | (one == 0x9f) & (two == 0xaf)
}

/// The value of a decimal digit of any script: they stand in runs of ten that begin with zero.
pub(super) fn value_of(c: char) -> Option<u8> {
    if let Some(value) = c.to_digit(10) {
        return u8::try_from(value).ok();
    }
    let code = u32::from(c);
    let first = usize::try_from(code / ROW)
        .ok()
        .and_then(|row| ROWS.get(row));
    let digit = if let Some(first) = first {
        (code % ROW).checked_sub(u32::from(*first))?
    } else {
        let after = wide_digits().partition_point(|(low, _)| *low <= code);
        let (low, _) = wide_digits().get(after.checked_sub(1)?)?;
        code - low
    };
    u8::try_from(digit).ok().filter(|digit| *digit < 10)
}

/// The decimal digits beyond ASCII: runs of ten from zero on, the first and the last.
fn wide_digits() -> &'static [(u32, u32)] {
    &DECIMALS
}

static DECIMALS: LazyLock<Vec<(u32, u32)>> = LazyLock::new(|| {
    let set = crate::rx::sets::Set::class('d', false);
    let spans = set.map(|set| set.all_spans()).unwrap_or_default();
    let wide = spans.into_iter().filter(|(low, _)| *low >= FIRST_DIGIT);
    wide.flat_map(|(low, high)| (low..=high).step_by(10).map(|zero| (zero, zero + 9)))
        .collect()
});

/// Of each sixteen characters of the first plane the one that is a zero, 16 where none is.
static ROWS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut rows = vec![16; FIRST_PLANE];
    for (zero, _) in wide_digits() {
        let row = usize::try_from(zero / ROW)
            .ok()
            .and_then(|row| rows.get_mut(row));
        if let Some(held) = row {
            *held = u8::try_from(zero % ROW).unwrap_or(16);
        }
    }
    rows
});

#[cfg(test)]
mod tests {
    use super::{has_wide_digit, next_digit, value_of};
    use crate::rx::sets::Set;

    #[test]
    fn digits_of_all_scripts_have_their_value() {
        let digits = Set::class('d', false).unwrap_or_default();
        let mut last = None;
        for c in '\0'..=char::MAX {
            let value = value_of(c);
            assert_eq!(value.is_some(), digits.has(c), "{c:?}");
            let next = last.map_or(0, |last| (last + 1) % 10);
            assert!(value.is_none_or(|value| value == next), "{c:?}");
            let text = format!("-{c}");
            assert_eq!(next_digit(&text, 0), value.map(|_| 1), "{c:?}");
            assert_eq!(has_wide_digit(&text), value.is_some() && !c.is_ascii());
            last = value;
        }
    }
}
