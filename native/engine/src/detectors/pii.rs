//! `pii_redaction`: payment card numbers, US social security numbers, IBANs and, on demand, e-mail addresses, as
//! `engine/detectors/pii.py`.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::{Map, Value as Json};

use crate::detectors::walk::{visible, Found};
use crate::rx::{Flags, Rx};
use crate::value::Value;

const ASCII: Flags = Flags {
    ascii: true,
    fold: false,
    dotall: false,
};
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

static DIGITS: LazyLock<Rx> = LazyLock::new(|| {
    Rx::new(
        r"(?<!\d)\d{4,19}(?!\d)(?:[ \u00a0\u2009\u202f\u2010-\u2015-]{1,2}\d{1,19}(?!\d)){0,400}",
    )
});
static TWO_DIGITS: LazyLock<Rx> = LazyLock::new(|| Rx::new(r"\d\d"));
static GROUP: LazyLock<Rx> = LazyLock::new(|| Rx::new(r"\d+"));
static SSN: LazyLock<Rx> = LazyLock::new(|| {
    Rx::with(
        r"(?<![\w-])(?!000|666|9\d\d)\d{3}([- ])(?!00)\d{2}\1(?!0000)\d{4}(?![\w-])",
        ASCII,
    )
});
static IBAN: LazyLock<Rx> = LazyLock::new(|| {
    Rx::with(
        r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]){11,30}(?![A-Za-z0-9])",
        ASCII,
    )
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
    if TWO_DIGITS.is_in(&text) {
        text = ibans(&text, &mut kinds).into();
        text = DIGITS
            .replaced(&text, |run| cards(run.whole(), &mut kinds))
            .into();
        text = SSN.replaced(&text, |_| put("SSN", &mut kinds)).into();
    }
    if emails && text.contains('@') {
        text = EMAIL.replaced(&text, |_| put("EMAIL", &mut kinds)).into();
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

fn ibans(text: &str, kinds: &mut Vec<&'static str>) -> String {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(found) = IBAN.find_from(text, at) {
        let end = iban_end(found.whole());
        at = found.start() + end.unwrap_or(4);
        if end.is_some() {
            out.push_str(text.get(copied..found.start()).unwrap_or(""));
            out.push_str(&put("IBAN", kinds));
            copied = at;
        }
    }
    out.push_str(text.get(copied..).unwrap_or(""));
    out
}

/// Where the IBAN ends with which a text begins, if it begins with one. The text is ASCII.
fn iban_end(text: &str) -> Option<usize> {
    let country = text.get(..2)?.to_ascii_uppercase();
    let of = |(_, countries): &&(usize, &str)| countries.split(' ').any(|code| code == country);
    let size = IBANS.iter().find(of)?.0;
    let mut plain = String::new();
    for (at, c) in text.char_indices() {
        if c != ' ' && c != '-' {
            plain.push(c.to_ascii_uppercase());
        }
        if plain.len() == size {
            let goes_on = text
                .get(at + 1..)?
                .starts_with(|c: char| c.is_ascii_alphanumeric());
            return (!goes_on && mod97(&plain) == Some(1)).then_some(at + 1);
        }
    }
    None
}

fn mod97(iban: &str) -> Option<u32> {
    let (head, rest) = (iban.get(..4)?, iban.get(4..)?);
    let mut left = 0;
    for c in rest.chars().chain(head.chars()) {
        let value = c.to_digit(36)?;
        left = (left * if value > 9 { 100 } else { 10 } + value) % 97;
    }
    Some(left)
}

/// A run of digit groups with the cards in it masked; a card begins and ends where a group does.
fn cards(run: &str, kinds: &mut Vec<&'static str>) -> String {
    let groups: Vec<(usize, usize)> = GROUP
        .all(run)
        .map(|group| (group.start(), group.end()))
        .collect();
    let mut out = String::new();
    let (mut copied, mut first) = (0, 0);
    while let Some((start, _)) = groups.get(first) {
        match card_end(run, groups.get(first..).unwrap_or_default()) {
            None => first += 1,
            Some((count, end)) => {
                out.push_str(run.get(copied..*start).unwrap_or(""));
                out.push_str(&put("CREDIT_CARD", kinds));
                copied = end;
                first += count;
            }
        }
    }
    out.push_str(run.get(copied..).unwrap_or(""));
    out
}

/// How many groups make up the card that begins with the first, and where it ends; the longest wins.
fn card_end(run: &str, groups: &[(usize, usize)]) -> Option<(usize, usize)> {
    let mut digits = String::new();
    let mut found = None;
    for (count, (start, end)) in groups.iter().take(6).enumerate() {
        let group = run.get(*start..*end)?;
        digits.push_str(group);
        if digits.chars().count() > 19 {
            break;
        }
        if is_card(&digits) {
            found = Some((count + 1, *end));
        }
        if group.chars().count() < 4 {
            break; // only the last group of a card may be shorter
        }
    }
    found
}

fn is_card(digits: &str) -> bool {
    if digits.chars().count() < 13 {
        return false;
    }
    let plain: Option<Vec<u32>> = digits.chars().map(value_of).collect();
    plain.is_some_and(|plain| has_length(&plain) && luhn(&plain))
}

/// The value of a decimal digit of any script: they stand in runs of ten that begin with zero.
fn value_of(c: char) -> Option<u32> {
    if let Some(value) = c.to_digit(10) {
        return Some(value);
    }
    let code = u32::from(c);
    let spans = DECIMALS
        .iter()
        .find(|(low, high)| (*low..=*high).contains(&code));
    spans.map(|(low, _)| (code - low) % 10)
}

static DECIMALS: LazyLock<Vec<(u32, u32)>> = LazyLock::new(|| {
    crate::rx::sets::Set::class('d', false)
        .map(|set| set.all_spans())
        .unwrap_or_default()
});

/// Whether a number has a length of the brand that its prefix belongs to.
fn has_length(plain: &[u32]) -> bool {
    let size = plain.len();
    let start = |count: usize| {
        plain
            .iter()
            .take(count)
            .fold(0, |all, digit| all * 10 + digit)
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

fn luhn(plain: &[u32]) -> bool {
    let doubled = |digit: &u32| (2 * digit) / 10 + (2 * digit) % 10;
    let odd: u32 = plain.iter().rev().step_by(2).sum();
    let even: u32 = plain.iter().rev().skip(1).step_by(2).map(doubled).sum();
    (odd + even) % 10 == 0
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
