//! `pii_redaction`: payment card numbers, US social security numbers, IBANs and, on demand, e-mail addresses, as
//! `engine/detectors/pii.py`.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::{Map, Value as Json};

use crate::detectors::cards::{cards, is_card, FIRST_WIDE};
use crate::detectors::reading::next_byte;
use crate::detectors::walk::{visible, Found};
use crate::rx::Rx;
use crate::value::Value;

const ROUNDS: usize = 8; // readings of a text: each but the last finds what a label of the one before laid open
const SSN: usize = 11; // characters
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
static IBAN_SIZES: LazyLock<Vec<usize>> = LazyLock::new(|| {
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
static EMAIL: LazyLock<Rx> = LazyLock::new(|| {
    Rx::new(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])")
});

/// The parameter `emails`.
///
/// # Errors
/// One line, for any other parameter.
pub fn emails(params: &Map<String, Json>) -> Result<bool, String> {
    match (params.get("emails"), params.len()) {
        (None, 0) => Ok(false),
        (Some(Json::Bool(emails)), 1) => Ok(*emails),
        _ => Err("takes emails only, true or false".to_owned()),
    }
}

/// What replaces a value, where a number or an address was found in it.
#[must_use]
pub fn mask(value: &Value<'_>, emails: bool) -> Option<Found> {
    match value {
        Value::Int(whole) if *whole > 0 && is_card(&whole.to_string()) => Some((
            "[REDACTED CREDIT_CARD]".to_owned(),
            "CREDIT_CARD".to_owned(),
        )),
        Value::Str(text) => redacted(text, emails),
        _ => None,
    }
}

fn redacted(given: &str, emails: bool) -> Option<Found> {
    let mut kinds: Vec<&'static str> = Vec::new();
    let mut text: Cow<'_, str> = visible(given);
    for _ in 0..ROUNDS {
        let before = kinds.len();
        if next_byte(text.as_bytes(), 0, |b| {
            b.is_ascii_digit() || b >= FIRST_WIDE
        })
        .is_some()
        {
            text = replaced(text, "IBAN", &mut kinds, iban_from);
            text = cards(text, &mut || put("CREDIT_CARD", &mut kinds));
            text = replaced(text, "SSN", &mut kinds, ssn_from);
        }
        if emails && text.contains('@') {
            text = EMAIL.replaced(text, |_| put("EMAIL", &mut kinds));
        }
        if kinds.len() == before {
            break;
        }
    }
    let mut names: Vec<&str> = Vec::new();
    for kind in kinds {
        if !names.contains(&kind) {
            names.push(kind);
        }
    }
    (!names.is_empty()).then(|| (text.into_owned(), names.join(", ")))
}

fn put(kind: &'static str, kinds: &mut Vec<&'static str>) -> String {
    kinds.push(kind);
    format!("[REDACTED {kind}]")
}

/// Finds the next number from a position on: where it begins and ends.
type Next = fn(&[u8], usize) -> Option<(usize, usize)>;

/// The text with its numbers of a kind masked; `next` finds the one after a position.
fn replaced<'t>(
    text: Cow<'t, str>,
    kind: &'static str,
    kinds: &mut Vec<&'static str>,
    next: Next,
) -> Cow<'t, str> {
    let mut out = String::new();
    let mut copied = 0;
    while let Some((start, end)) = next(text.as_bytes(), copied) {
        out.push_str(text.get(copied..start).unwrap_or(""));
        out.push_str(&put(kind, kinds));
        copied = end;
    }
    if copied == 0 {
        return text;
    }
    out.push_str(text.get(copied..).unwrap_or(""));
    out.into()
}

fn is_word(before: Option<&u8>) -> bool {
    before.is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// The next social security number: `(?<![\w-])(?!000|666|9\d\d)\d{3}([- ])(?!00)\d{2}\1(?!0000)\d{4}(?![\w-])`.
fn ssn_from(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    loop {
        at = next_byte(text, at, |b| b.is_ascii_digit())?;
        if is_ssn(text.get(at..at + SSN)?)
            && !is_word(at.checked_sub(1).and_then(|before| text.get(before)))
            && !is_word(text.get(at + SSN))
        {
            return Some((at, at + SSN));
        }
        at += 1;
    }
}

fn is_ssn(window: &[u8]) -> bool {
    let [area @ .., sign, tens, ones, again, n1, n2, n3, n4] = window else {
        return false;
    };
    let (group, serial) = ([*tens, *ones], [*n1, *n2, *n3, *n4]);
    sign == again
        && matches!(sign, b'-' | b' ')
        && area
            .iter()
            .chain(&group)
            .chain(&serial)
            .all(u8::is_ascii_digit)
        && !matches!(area, b"000" | b"666" | [b'9', ..])
        && group != *b"00"
        && serial != *b"0000"
}

/// The next IBAN: it begins and ends where a word does, and has its country's length.
fn iban_from(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut at = from + 2;
    loop {
        at = next_byte(text, at, |b| b.is_ascii_digit())?;
        let start = at - 2;
        if let [a, b, _, d, ..] = text.get(start..)? {
            let begins = d.is_ascii_digit() && a.is_ascii_alphabetic() && b.is_ascii_alphabetic();
            let before = start.checked_sub(1).and_then(|before| text.get(before));
            if begins && !before.is_some_and(u8::is_ascii_alphanumeric) {
                if let Some(end) = iban_end(text.get(start..)?) {
                    return Some((start, start + end));
                }
            }
        }
        at += 1;
    }
}

/// Where the IBAN ends with which a text begins, if it begins with one.
fn iban_end(text: &[u8]) -> Option<usize> {
    let (country, _) = text.split_at_checked(2)?;
    let at = country.iter().fold(0, |at, b| {
        26 * at + usize::from(b.to_ascii_uppercase() - b'A')
    });
    let size = *IBAN_SIZES.get(at).filter(|size| **size > 0)?;
    let mut plain = [0u8; 34];
    let mut at = 0;
    for (count, held) in plain.iter_mut().take(size).enumerate() {
        if count >= 4 && matches!(text.get(at), Some(b' ' | b'-')) {
            at += 1;
        }
        *held = *text.get(at).filter(|b| b.is_ascii_alphanumeric())?;
        at += 1;
    }
    let goes_on = text.get(at).is_some_and(u8::is_ascii_alphanumeric);
    (!goes_on && mod97(plain.get(..size)?) == Some(1)).then_some(at)
}

fn mod97(iban: &[u8]) -> Option<u64> {
    let (head, rest) = iban.split_at_checked(4)?;
    let mut left: u64 = 0;
    for c in rest.iter().chain(head) {
        let value = u64::from(char::from(*c).to_digit(36)?);
        left = left * if value > 9 { 100 } else { 10 } + value;
        if left > MANY {
            left %= 97;
        }
    }
    Some(left % 97)
}

#[cfg(test)]
mod tests {
    use super::redacted;

    #[test]
    fn numbers_that_check_are_masked_and_others_are_not() {
        let masked =
            |text: &str| redacted(text, true).map(|(text, kinds)| format!("{text} | {kinds}"));
        for (text, expected) in [
            (
                "card 4111 1111 1111 1111.",
                "card [REDACTED CREDIT_CARD]. | CREDIT_CARD",
            ),
            ("DE89 3704 0044 0532 0130 00!", "[REDACTED IBAN]! | IBAN"),
            ("ssn 123-45-6789", "ssn [REDACTED SSN] | SSN"),
            ("to a.b@c.example, x", "to [REDACTED EMAIL], x | EMAIL"),
            (
                "4111\u{200b}111111111111",
                "[REDACTED CREDIT_CARD] | CREDIT_CARD",
            ),
        ] {
            assert_eq!(masked(text).as_deref(), Some(expected));
        }
        for text in [
            "4111 1111 1111 1112",
            "DE89 3704 0044 0532 0130 01",
            "000-12-3456",
            "a@b",
        ] {
            assert_eq!(masked(text), None, "{text}");
        }
    }
}
