//! Whether a value that is said to be secret looks like one, as `secrets.py` does.

use std::sync::LazyLock;

use memchr::memmem;

use crate::rx::sets::{is_alpha, is_digit};
use crate::rx::{Flags, Rx};

const FOLD: Flags = Flags {
    fold: true,
    ascii: false,
    dotall: false,
};
const WORDS: [&str; 11] = [
    "pass", "password", "passwd", "pwd", "secret", "token", "none", "null", "true", "false",
    "string",
];
const PARTS: usize = 11; // of a name in code, at most

static PLACEHOLDER: LazyLock<Rx> = LazyLock::new(|| {
    Rx::with(
        concat!(
            r"example|placeholder|change.?me|your|insert|redacted|dummy|sample|fake|xxxx|\*\*\*|\.\.\.|<[^>]{1,60}>",
            r"|\$\{|\$\(|\{\{|%\(|put_|abcdefghijkl|#####"
        ),
        FOLD,
    )
});
static REFERENCE: LazyLock<Rx> = LazyLock::new(|| {
    Rx::new(concat!(
        r"\$[A-Za-z_{(0-9]|[%@&<{(\[]|[A-Za-z_][\w.]{0,80}[(\[]",
        r"|(?:os|process|config|settings|self|this|env)\.|/|\./|https?:"
    ))
});
static DIGIT: LazyLock<Rx> = LazyLock::new(|| Rx::new(r"\d"));

/// The first two characters of placeholders.
const PAIRS: [(&[u8], &[u8]); 15] = [
    (b"ex", b"x"),
    (b"p", b"lu"),
    (b"c", b"h"),
    (b"y", b"o"),
    (b"i", b"n"),
    (b"r", b"e"),
    (b"d", b"u"),
    (b"sf", b"a"),
    (b"a", b"b"),
    (b"*", b"*"),
    (b".", b"."),
    (b"$", b"{("),
    (b"{", b"{"),
    (b"%", b"("),
    (b"#", b"#"),
];
const ANY: u16 = 0x8000; // the pair of a sign with anything

/// A bit of each pair: whether a byte is a first one of it, and whether a second one.
static STARTS: LazyLock<[[u16; 256]; 2]> = LazyLock::new(|| {
    let marks = |second: bool| {
        std::array::from_fn(|at| {
            let byte = u8::try_from(at).unwrap_or(0).to_ascii_lowercase();
            let own = if second || byte == b'<' { ANY } else { 0 };
            let pairs = PAIRS.iter().enumerate();
            pairs.fold(own, |all, (row, (one, other))| {
                let is_one = if second { other } else { one }.contains(&byte);
                all | u16::from(is_one) << row
            })
        })
    };
    [marks(false), marks(true)]
});

/// Whether a mask has been put into a value.
#[must_use]
pub fn is_masked(value: &str) -> bool {
    memchr::memchr(b'[', value.as_bytes()).is_some_and(|at| {
        let rest = value.as_bytes().get(at..).unwrap_or_default();
        memmem::find(rest, b"[REDACTED").is_some()
    })
}

/// True of a value that stands for itself, and not for a variable or a placeholder.
#[must_use]
pub fn is_written_out(value: &str) -> bool {
    !is_word(value) && !is_masked(value) && !is_placeholder(value) && !is_reference(value)
}

fn is_word(value: &str) -> bool {
    const AROUND: [char; 4] = ['<', '>', '"', '\''];
    if !value.is_ascii() {
        let low = value.to_lowercase();
        return WORDS.contains(&low.trim_matches(AROUND));
    }
    let plain = value.trim_matches(AROUND);
    plain.len() <= 8 && WORDS.iter().any(|word| word.eq_ignore_ascii_case(plain))
}

fn is_placeholder(value: &str) -> bool {
    let mark = |table: &[u16; 256], byte: u8| table.get(usize::from(byte)).copied().unwrap_or(0);
    let [firsts, seconds] = &*STARTS;
    let bytes = value.as_bytes();
    let pairs = bytes.iter().zip(bytes.iter().skip(1));
    let mut begins = pairs.map(|(first, second)| mark(firsts, *first) & mark(seconds, *second));
    let may_hold = !value.is_ascii() || begins.any(|both| both != 0);
    may_hold && PLACEHOLDER.is_in(value)
}

fn is_reference(value: &str) -> bool {
    if !value.is_ascii() {
        return REFERENCE.begins(value);
    }
    let first = value.bytes().next();
    match first {
        Some(b'%' | b'@' | b'&' | b'<' | b'{' | b'(' | b'[' | b'/' | b'$' | b'.') => {
            REFERENCE.begins(value)
        }
        Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
            let of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
            let ends = value.bytes().find(|byte| !of_name(byte));
            let may_begin = matches!(ends, Some(b'(' | b'[' | b':')) || value.contains('.');
            may_begin && REFERENCE.begins(value)
        }
        _ => false,
    }
}

/// True of a name in code: `[A-Za-z_]+(?:[._-][A-Za-z_]+){0,10}`.
fn is_code_name(value: &str) -> bool {
    let mut parts = value.split(['.', '-']);
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphabetic() || byte == b'_')
    };
    parts.by_ref().take(PARTS).all(is_part) && parts.next().is_none()
}

/// True of what may be a password: written out, and neither a word, a type nor a name in code.
#[must_use]
pub fn is_password(value: &str, quoted: bool) -> bool {
    if !has_four(value) || !is_written_out(value) {
        return false;
    }
    let size = value.chars().count();
    if quoted && size >= 6 {
        return !is_code_name(value) || is_random(value, 3.0);
    }
    size >= 8
        && !value.contains(' ')
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
        && DIGIT.is_in(value)
}

/// True of a long value with letters and digits whose characters carry at least `bits` bits each.
#[must_use]
pub fn is_random(value: &str, bits: f64) -> bool {
    let plain = value.trim_matches(['"', '\'']);
    plain.len() >= 16
        && plain.chars().count() >= 16
        && plain.chars().any(is_digit)
        && plain.chars().any(is_alpha)
        && is_written_out(plain)
        && entropy(plain) >= bits
}

/// False of a placeholder in a key's form.
#[must_use]
pub fn is_varied(key: &str) -> bool {
    let start = key.char_indices().rev().take(24).last();
    let end = start.and_then(|(at, _)| key.get(at..)).unwrap_or("");
    entropy(end) >= 2.2 && !is_placeholder(key)
}

/// Whether a text has four different characters.
fn has_four(text: &str) -> bool {
    let mut seen = ['\0'; 4];
    let mut count = 0;
    for c in text.chars() {
        if seen.iter().take(count).any(|known| *known == c) {
            continue;
        }
        if let Some(held) = seen.get_mut(count) {
            *held = c;
        }
        count += 1;
        if count == 4 {
            return true;
        }
    }
    false
}

/// How often each character stands in a text, in the order in which they come first: sums of floats have an order.
fn counted(text: &str) -> Vec<u32> {
    if !text.is_ascii() {
        return counted_wide(text);
    }
    let mut places = [0_u8; 128]; // from 1
    let mut counts: Vec<u32> = Vec::with_capacity(text.len().min(96));
    for byte in text.bytes() {
        let Some(place) = places.get_mut(usize::from(byte)) else {
            continue;
        };
        if *place == 0 {
            counts.push(0);
            *place = u8::try_from(counts.len()).unwrap_or(u8::MAX);
        }
        if let Some(count) = counts.get_mut(usize::from(*place) - 1) {
            *count += 1;
        }
    }
    counts
}

fn counted_wide(text: &str) -> Vec<u32> {
    let mut counts: Vec<(char, u32)> = Vec::new();
    for c in text.chars() {
        match counts.iter_mut().find(|(known, _)| *known == c) {
            Some((_, count)) => *count += 1,
            None => counts.push((c, 1)),
        }
    }
    counts.into_iter().map(|(_, count)| count).collect()
}

/// Bits a character (Shannon).
fn entropy(text: &str) -> f64 {
    let counts = counted(text);
    let size: u32 = counts.iter().sum();
    let parts = counts
        .iter()
        .map(|count| f64::from(*count) / f64::from(size));
    -parts.map(|part| part * part.log2()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::{
        counted, counted_wide, is_code_name, is_placeholder, is_reference, PLACEHOLDER, REFERENCE,
    };
    use crate::rx::Rx;

    #[test]
    fn what_is_read_at_a_glance_is_what_the_patterns_say() {
        let code_name = Rx::new(r"[A-Za-z_]+(?:[._-][A-Za-z_]+){0,10}\Z");
        let pieces = [
            "example",
            "Change_me",
            "put_",
            "xx",
            "xX",
            "***",
            "..",
            "<a>",
            "$",
            "{",
            "(",
            "{{",
            "%(",
            "#####",
            "a.b",
            "os.",
            "https:",
            "http",
            ":",
            "/",
            "./",
            "fn(",
            "x[",
            "é",
            "K\u{212a}",
            "a",
            "-",
            "_",
            ".",
            "9",
            "abcdefghijkl",
            "INSERT",
            "dummy",
            "\n",
            " ",
            "self",
            "env",
            "a-b-c-d-e-f",
            "a.b.c.d.e",
        ];
        let mut texts: Vec<String> = pieces.iter().map(|one| (*one).to_owned()).collect();
        for one in pieces {
            for two in pieces {
                texts.push(format!("{one}{two}"));
                texts.push(format!("w{one}{two}z"));
                texts.push(format!("{one}{two}{one}"));
            }
        }
        for text in &texts {
            assert_eq!(is_placeholder(text), PLACEHOLDER.is_in(text), "{text:?}");
            assert_eq!(is_reference(text), REFERENCE.begins(text), "{text:?}");
            assert_eq!(is_code_name(text), code_name.begins(text), "{text:?}");
            if text.is_ascii() {
                assert_eq!(counted(text), counted_wide(text), "{text:?}");
            }
        }
    }
}
