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
const ASCII: usize = 128;
const SHORT: u32 = 64; // characters of a value
const END: usize = 24; // characters of a key that are to be varied
const CALLED: usize = 80; // characters of a name after its first
const REFERRED: [&str; 9] = [
    "os.",
    "process.",
    "config.",
    "settings.",
    "self.",
    "this.",
    "env.",
    "http:",
    "https:",
];
const FEW: usize = 4; // different characters: they carry two bits each

static PLACEHOLDER: LazyLock<Rx> = LazyLock::new(|| {
    Rx::with(
        concat!(
            r"example|placeholder|change.?me|your|insert|redacted|dummy|sample|fake|xxxx|\*\*\*|\.\.\.|<[^>]{1,60}>",
            r"|\$\{|\$\(|\{\{|%\(|put_|abcdefghijkl|#####"
        ),
        FOLD,
    )
});
/// Those of its words that it spells out.
const PLACEHOLDERS: [&[u8]; 18] = [
    b"example",
    b"placeholder",
    b"your",
    b"insert",
    b"redacted",
    b"dummy",
    b"sample",
    b"fake",
    b"xxxx",
    b"***",
    b"...",
    b"${",
    b"$(",
    b"{{",
    b"%(",
    b"put_",
    b"abcdefghijkl",
    b"#####",
];
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
    let ends = [value.bytes().next(), value.bytes().next_back()];
    let is_around = |byte: u8| AROUND.contains(&char::from(byte));
    let plain = if ends.into_iter().flatten().any(is_around) {
        value.trim_matches(AROUND)
    } else {
        value
    };
    plain.len() <= 8 && WORDS.iter().any(|word| word.eq_ignore_ascii_case(plain))
}

fn is_placeholder(value: &str) -> bool {
    if !value.is_ascii() {
        return PLACEHOLDER.is_in(value);
    }
    let mark = |table: &[u16; 256], byte: u8| table.get(usize::from(byte)).copied().unwrap_or(0);
    let [firsts, seconds] = &*STARTS;
    let bytes = value.as_bytes();
    let pairs = bytes.iter().zip(bytes.iter().skip(1)).enumerate();
    let mut begun = pairs.filter(|(_, (one, two))| mark(firsts, **one) & mark(seconds, **two) != 0);
    begun.any(|(at, _)| bytes.get(at..).is_some_and(begins_placeholder))
}

/// Whether ASCII text begins as the pattern of placeholders says.
fn begins_placeholder(text: &[u8]) -> bool {
    let after = |word: &[u8]| {
        let (start, rest) = text.split_at_checked(word.len())?;
        start.eq_ignore_ascii_case(word).then_some(rest)
    };
    let changed = |rest: &[u8]| match rest {
        [b'm' | b'M', b'e' | b'E', ..] => true,
        [sign, b'm' | b'M', b'e' | b'E', ..] => *sign != b'\n',
        _ => false,
    };
    let closed = |rest: &[u8]| (1..=60).contains(&memchr::memchr(b'>', rest).unwrap_or(0));
    PLACEHOLDERS.iter().any(|word| after(word).is_some())
        || after(b"change").is_some_and(changed)
        || after(b"<").is_some_and(closed)
}

/// Whether a value begins as the pattern of references says.
fn is_reference(value: &str) -> bool {
    if !value.is_ascii() {
        return REFERENCE.begins(value);
    }
    match value.as_bytes() {
        [b'%' | b'@' | b'&' | b'<' | b'{' | b'(' | b'[' | b'/', ..] | [b'.', b'/', ..] => true,
        [b'$', next, ..] => next.is_ascii_alphanumeric() || matches!(next, b'_' | b'{' | b'('),
        [b'A'..=b'Z' | b'a'..=b'z' | b'_', rest @ ..] => {
            let of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
            let size = rest.iter().position(|byte| !of_name(byte));
            let calls = |size: usize| size <= CALLED && matches!(rest.get(size), Some(b'(' | b'['));
            size.is_some_and(calls) || REFERRED.iter().any(|start| value.starts_with(start))
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
    let size = value.chars().count();
    let is_quoted = quoted && size >= 6;
    let is_one = is_quoted || (size >= 8 && !value.contains(' ') && has_letters_and_digits(value));
    if !is_one || !has_different(value, FEW) || !is_written_out(value) {
        return false;
    }
    !is_quoted || !is_code_name(value) || is_random(value, 3.0)
}

/// Whether a letter of ASCII stands in a value, and a digit of any script.
fn has_letters_and_digits(value: &str) -> bool {
    value.bytes().any(|byte| byte.is_ascii_alphabetic())
        && (value.bytes().any(|byte| byte.is_ascii_digit())
            || (!value.is_ascii() && DIGIT.is_in(value)))
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
    if key.is_ascii() {
        let end = key.get(key.len().saturating_sub(END)..).unwrap_or("");
        let mut counts = [0; ASCII];
        let kinds = counted(end, &mut counts);
        let counts = counts.get(..kinds).unwrap_or_default();
        return kinds > FEW && entropy_of(counts) >= 2.2 && !is_placeholder(key);
    }
    let start = key.char_indices().rev().take(END).last();
    let end = start.and_then(|(at, _)| key.get(at..)).unwrap_or("");
    !has_few(end) && entropy(end) >= 2.2 && !is_placeholder(key)
}

/// Whether a text has so many different characters, up to eight.
fn has_different(text: &str, least: usize) -> bool {
    let mut seen = ['\0'; 8];
    let mut count = 0;
    for c in text.chars() {
        if seen.iter().take(count).any(|known| *known == c) {
            continue;
        }
        if let Some(held) = seen.get_mut(count) {
            *held = c;
        }
        count += 1;
        if count == least {
            return true;
        }
    }
    false
}

/// How often each character stands in a text, in the order in which they come first: sums of floats have an order.
fn counted(text: &str, counts: &mut [u32; ASCII]) -> usize {
    let mut places = [0_u8; ASCII]; // from 1
    let mut kinds = 0;
    for byte in text.bytes() {
        let Some(place) = places.get_mut(usize::from(byte)) else {
            continue;
        };
        if *place == 0 {
            kinds += 1;
            *place = u8::try_from(kinds).unwrap_or(u8::MAX);
        }
        if let Some(count) = counts.get_mut(usize::from(*place) - 1) {
            *count += 1;
        }
    }
    kinds
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
    if !text.is_ascii() {
        return entropy_of(&counted_wide(text));
    }
    let mut counts = [0; ASCII];
    let kinds = counted(text, &mut counts);
    entropy_of(counts.get(..kinds).unwrap_or_default())
}

fn entropy_of(counts: &[u32]) -> f64 {
    let size: u32 = counts.iter().sum();
    let row = usize::try_from(size)
        .ok()
        .and_then(|size| PARTS_OF.get(size));
    let parts = counts.iter().map(|count| {
        let known = row
            .zip(usize::try_from(*count).ok())
            .and_then(|(row, count)| row.get(count));
        known.copied().unwrap_or_else(|| part_of(*count, size))
    });
    -parts.sum::<f64>()
}

/// What a character adds that stands so often in a text of that size.
fn part_of(count: u32, size: u32) -> f64 {
    let part = f64::from(count) / f64::from(size);
    part * part.log2()
}

/// The same of all counts in short texts, since a logarithm takes a while.
static PARTS_OF: LazyLock<Vec<Vec<f64>>> = LazyLock::new(|| {
    let row = |size| (0..=size).map(|count| part_of(count, size)).collect();
    (0..=SHORT).map(row).collect()
});

/// Whether a text has so few different characters that each carries two bits at most.
fn has_few(text: &str) -> bool {
    !has_different(text, FEW + 1)
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
            "me",
            "nge",
            "CHANGE",
            "<",
            ">",
            "1234567890123456789012345678901234567890123456789012345678",
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
                let mut counts = [0; super::ASCII];
                let kinds = counted(text, &mut counts);
                assert_eq!(counts.get(..kinds), Some(&*counted_wide(text)), "{text:?}");
            }
        }
    }
}
