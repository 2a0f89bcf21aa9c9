//! The one canonical JSON encoding (RFC 8785) with interlock's tagged values, and domain-tagged SHA-256 digests.
//!
//! The same as `interlock.base.canonical` in Python, where the table of tags stands; both replay
//! `tests/conformance/canonical.json`.

// `write!` into a String cannot fail, and would only ask for an error to be ignored.
#![allow(clippy::format_push_string, clippy::format_collect)]

use sha2::{Digest, Sha256};

const TAG: &str = "$il";
const SHORTEST_AS_INTEGER: i32 = 21; // ECMA-262 Number::toString: up to 21 digits stand without an exponent
const SMALLEST_AS_FRACTION: i32 = -6;

/// A text as UTF-16 code units, which may hold lone surrogates.
pub type Text = Vec<u16>;

/// A value as JSON has it, with integers of any size and texts of any code units.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` and `false`
    Bool(bool),
    /// An integer in decimal, with an optional sign and no leading zero.
    Integer(String),
    /// A double; NaN and the infinities too.
    Float(f64),
    /// A text.
    Text(Text),
    /// An array.
    List(Vec<Value>),
    /// An object, in any order; a key stands once.
    Map(Vec<(Text, Value)>),
}

/// The canonical encoding of a value.
#[must_use]
pub fn encode(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// SHA-256 over a domain tag and a canonical encoding. `None` for a domain longer than 65,535 bytes.
#[must_use]
pub fn digest(domain: &str, value: &Value) -> Option<[u8; 32]> {
    let size = u16::try_from(domain.len()).ok()?;
    let mut hash = Sha256::new();
    hash.update(size.to_be_bytes());
    hash.update(domain.as_bytes());
    hash.update(encode(value).as_bytes());
    Some(hash.finalize().into())
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Integer(digits) if digits == "-0" => out.push('0'),
        Value::Integer(digits) => out.push_str(digits),
        Value::Float(number) => write_float(*number, out),
        Value::Text(text) => write_text(text, out),
        Value::List(values) => {
            out.push('[');
            joined(values, out, write);
            out.push(']');
        }
        Value::Map(pairs) => write_map(pairs, out),
    }
}

fn joined<T>(items: &[T], out: &mut String, write: impl Fn(&T, &mut String)) {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        write(item, out);
    }
}

fn write_text(text: &[u16], out: &mut String) {
    let Ok(plain) = String::from_utf16(text) else {
        let hex: String = text.iter().map(|unit| format!("{unit:04x}")).collect();
        write_tagged("utf16", &hex, out);
        return;
    };
    out.push('"');
    for c in plain.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn write_tagged(tag: &str, text: &str, out: &mut String) {
    out.push_str(&format!("{{\"{TAG}\":[\"{tag}\",\"{text}\"]}}"));
}

fn write_map(pairs: &[(Text, Value)], out: &mut String) {
    let tag: Text = TAG.encode_utf16().collect();
    let plain = |key: &Text| *key != tag && String::from_utf16(key).is_ok();
    if pairs.iter().all(|(key, _)| plain(key)) {
        // RFC 8785, 3.2.3: keys in the order of their UTF-16 code units.
        let mut sorted: Vec<&(Text, Value)> = pairs.iter().collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        out.push('{');
        joined(&sorted, out, |(key, value), out| {
            write_text(key, out);
            out.push(':');
            write(value, out);
        });
        out.push('}');
        return;
    }
    let mut rows: Vec<(String, &Value)> = pairs
        .iter()
        .map(|(key, value)| (encode(&Value::Text(key.clone())), value))
        .collect();
    rows.sort_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
    out.push_str(&format!("{{\"{TAG}\":[\"map\",["));
    joined(&rows, out, |(key, value), out| {
        out.push('[');
        out.push_str(key);
        out.push(',');
        write(value, out);
        out.push(']');
    });
    out.push_str("]]}");
}

/// ECMA-262 `Number::toString`, which RFC 8785, 3.2.2.3 demands.
fn write_float(number: f64, out: &mut String) {
    if number.is_nan() {
        return write_tagged("float", "NaN", out);
    }
    if number.is_infinite() {
        let name = if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        };
        return write_tagged("float", name, out);
    }
    if number == 0.0 {
        return out.push('0');
    }
    if number < 0.0 {
        out.push('-');
    }
    // The shortest digits that read back as this number, as D.DDDeX.
    let shortest = format!("{:e}", number.abs());
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let point = exponent.parse::<i32>().unwrap_or(0) + 1;
    place_point(&digits, point, out);
}

/// Write digits whose decimal point stands after the first `point` of them.
fn place_point(digits: &str, point: i32, out: &mut String) {
    let size = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    if size <= point && point <= SHORTEST_AS_INTEGER {
        out.push_str(digits);
        out.push_str(&zeros(point - size));
    } else if 0 < point && point <= SHORTEST_AS_INTEGER {
        let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
        out.push_str(&format!("{whole}.{fraction}"));
    } else if SMALLEST_AS_FRACTION < point && point <= 0 {
        out.push_str(&format!("0.{}{digits}", zeros(-point)));
    } else {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        let sign = if point > 0 { '+' } else { '-' };
        out.push_str(&format!("{first}{dot}{rest}e{sign}{}", (point - 1).abs()));
    }
}
