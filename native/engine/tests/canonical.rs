//! Replays the vectors that both engines share.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::format_collect
)]

use interlock_engine::canonical::{digest, encode, Text, Value};

const VECTORS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/conformance/canonical.json"
);

/// Just enough of a JSON parser to read what serde will not: lone surrogates, and integers of any size.
struct Parser<'a> {
    rest: &'a [u8],
}

impl Parser<'_> {
    fn space(&mut self) {
        while self.rest.first().is_some_and(u8::is_ascii_whitespace) {
            self.rest = &self.rest[1..];
        }
    }

    fn eat(&mut self, token: &str) -> bool {
        self.space();
        let found = self.rest.starts_with(token.as_bytes());
        if found {
            self.rest = &self.rest[token.len()..];
        }
        found
    }

    fn value(&mut self) -> Value {
        self.space();
        if self.eat("null") {
            return Value::Null;
        }
        for truth in [true, false] {
            if self.eat(&truth.to_string()) {
                return Value::Bool(truth);
            }
        }
        match self.rest[0] {
            b'"' => Value::Text(self.text()),
            b'[' => self.list(),
            b'{' => self.map(),
            _ => self.number(),
        }
    }

    fn list(&mut self) -> Value {
        assert!(self.eat("["));
        let mut values = Vec::new();
        while !self.eat("]") {
            values.push(self.value());
            self.eat(",");
        }
        Value::List(values)
    }

    fn map(&mut self) -> Value {
        assert!(self.eat("{"));
        let mut pairs = Vec::new();
        while !self.eat("}") {
            self.space();
            let key = self.text();
            assert!(self.eat(":"));
            pairs.push((key, self.value()));
            self.eat(",");
        }
        Value::Map(pairs)
    }

    fn number(&mut self) -> Value {
        let end = self
            .rest
            .iter()
            .position(|b| !b"+-.eE0123456789".contains(b));
        let (number, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        let text = std::str::from_utf8(number).unwrap();
        if text.contains(['.', 'e', 'E']) {
            return Value::Float(text.parse().unwrap());
        }
        Value::Integer(text.to_owned())
    }

    fn text(&mut self) -> Text {
        let mut units = Text::new();
        self.rest = &self.rest[1..];
        loop {
            let whole = std::str::from_utf8(self.rest).unwrap();
            let c = whole.chars().next().unwrap();
            self.rest = &self.rest[c.len_utf8()..];
            match c {
                '"' => return units,
                '\\' => units.push(self.escape()),
                c => units.extend(c.encode_utf16(&mut [0; 2]).iter()),
            }
        }
    }

    fn escape(&mut self) -> u16 {
        let kind = self.rest[0];
        self.rest = &self.rest[1..];
        match kind {
            b'u' => {
                let (hex, rest) = self.rest.split_at(4);
                self.rest = rest;
                u16::from_str_radix(std::str::from_utf8(hex).unwrap(), 16).unwrap()
            }
            b'b' => 8,
            b't' => 9,
            b'n' => 10,
            b'f' => 12,
            b'r' => 13,
            other => u16::from(other),
        }
    }
}

fn parsed(text: &str) -> Value {
    let mut parser = Parser {
        rest: text.as_bytes(),
    };
    let value = parser.value();
    parser.space();
    assert!(parser.rest.is_empty(), "{text}");
    value
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn the_shared_vectors_hold() {
    let file = std::fs::read_to_string(VECTORS).unwrap();
    let vectors: serde_json::Value = serde_json::from_str(&file).unwrap();
    let domain = vectors["domain"].as_str().unwrap();
    let rows = vectors["rows"].as_array().unwrap();
    assert!(rows.len() >= 20);
    for row in rows {
        let value = parsed(row["json"].as_str().unwrap());
        assert_eq!(encode(&value), row["canonical"].as_str().unwrap());
        assert_eq!(
            hex(&digest(domain, &value).unwrap()),
            row["digest"].as_str().unwrap()
        );
    }
}

#[test]
fn numbers_that_json_lacks_have_spellings_of_their_own() {
    assert_eq!(
        encode(&Value::Float(f64::NAN)),
        r#"{"$il":["float","NaN"]}"#
    );
    assert_eq!(
        encode(&Value::Float(f64::NEG_INFINITY)),
        r#"{"$il":["float","-Infinity"]}"#
    );
}

#[test]
fn a_domain_that_does_not_fit_its_length_has_no_digest() {
    assert_eq!(digest(&"x".repeat(1 << 16), &Value::Null), None);
}
