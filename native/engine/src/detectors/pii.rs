//! `pii_redaction`: payment card numbers, US social security numbers, IBANs and, on demand, e-mail addresses, as
//! `engine/detectors/pii.py`.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::{Map, Value as Json};

use crate::detectors::cards::{cards, is_card};
use crate::detectors::digits::has_wide_digit;
use crate::detectors::finds::{Kinds, TooMany};
use crate::detectors::ibans::Ibans;
use crate::detectors::reading::next_byte;
use crate::detectors::walk::{visible, Found};
use crate::rx::Rx;
use crate::value::Value;

const ROUNDS: usize = 8; // readings of a text: each but the last finds what a label of the one before laid open
const SSN: usize = 11; // characters
const AREA: usize = 3; // digits of the first group of such a number
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
pub fn mask(value: &Value<'_>, emails: bool, most: usize) -> Option<Found> {
    match value {
        Value::Int(whole) if *whole > 0 && is_card(&whole.to_string()) => Some((
            "[REDACTED CREDIT_CARD]".to_owned(),
            "CREDIT_CARD".to_owned(),
        )),
        Value::Str(text) => {
            let mut kinds = Kinds::new(most);
            let read = redacted(text, emails, &mut kinds);
            kinds.found(read)
        }
        _ => None,
    }
}

fn redacted<'t>(given: &'t str, emails: bool, kinds: &mut Kinds) -> Result<Cow<'t, str>, TooMany> {
    let mut text = visible(given);
    let wide = !text.is_ascii() && has_wide_digit(&text);
    for _ in 0..ROUNDS {
        let before = kinds.count;
        let mut ibans = Ibans::default();
        text = replaced(text, "IBAN", kinds, |text, from| ibans.next(text, from))?;
        // whether the shape stands there; no label lays one open
        if wide || ibans.card {
            text = cards(text, wide, kinds)?;
        }
        if ibans.three {
            text = replaced(text, "SSN", kinds, ssn_from)?;
        }
        if emails && text.contains('@') {
            text = EMAIL.try_replaced(text, |_| kinds.put("EMAIL", "").map(Some))?;
        }
        if kinds.count == before {
            break;
        }
    }
    Ok(text)
}

/// The text with its numbers of a kind masked; `next` finds the one after a position: where it begins and ends.
fn replaced<'t>(
    text: Cow<'t, str>,
    kind: &'static str,
    kinds: &mut Kinds,
    mut next: impl FnMut(&[u8], usize) -> Option<(usize, usize)>,
) -> Result<Cow<'t, str>, TooMany> {
    let mut out = String::new();
    let mut copied = 0;
    while let Some((start, end)) = next(text.as_bytes(), copied) {
        out.push_str(text.get(copied..start).unwrap_or(""));
        kinds.write(kind, "", &mut out)?;
        copied = end;
    }
    if copied == 0 {
        return Ok(text);
    }
    out.push_str(text.get(copied..).unwrap_or(""));
    Ok(out.into())
}

fn is_word(before: Option<&u8>) -> bool {
    before.is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// The next social security number: `(?<![\w-])(?!000|666|9\d\d)\d{3}([- ])(?!00)\d{2}\1(?!0000)\d{4}(?![\w-])`.
fn ssn_from(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    loop {
        let (start, end) = next_run(text, at)?;
        if end - start == AREA
            && text.get(start..start + SSN).is_some_and(is_ssn)
            && !is_word(start.checked_sub(1).and_then(|before| text.get(before)))
            && !is_word(text.get(start + SSN))
        {
            return Some((start, start + SSN));
        }
        at = end;
    }
}

/// The next digits from a position on, all that stand together: where they begin and end.
fn next_run(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let start = next_byte(text, from, |b| b.is_ascii_digit())?;
    let rest = text.get(start..)?;
    let size = rest.iter().position(|b| !b.is_ascii_digit());
    Some((start, size.map_or(text.len(), |size| start + size)))
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

#[cfg(test)]
mod tests {
    use super::mask;
    use crate::value::Value;

    #[test]
    fn numbers_that_check_are_masked_and_others_are_not() {
        let masked = |text: &str| {
            let found = mask(&Value::Str(text.into()), true, 9);
            found.map(|(text, kinds)| format!("{text} | {kinds}"))
        };
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

    #[test]
    fn a_text_with_too_many_is_withheld_whole() {
        let text = Value::Str("4111 1111 1111 1111, ".repeat(4).into());
        let found = |most| mask(&text, false, most);
        let told = "CREDIT_CARD, a whole text of more than 3 finds";
        assert_eq!(found(3), Some(("[REDACTED TEXT]".into(), told.into())));
        assert_eq!(found(4).map(|(_, kinds)| kinds), Some("CREDIT_CARD".into()));
    }
}
