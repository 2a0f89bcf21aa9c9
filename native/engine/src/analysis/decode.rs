//! Decoding of base64, base32, hexadecimal and reversed texts, as Python's functions of those names do it.

use super::values::{is_space, without_marks};

/// The decoded text of a program's input, None where it is not decoded here.
#[must_use]
pub fn decoded(program: &str, text: &str) -> Option<String> {
    if program == "rev" {
        let lines: Vec<String> = text
            .split('\n')
            .map(|line| line.chars().rev().collect())
            .collect();
        return Some(lines.join("\n"));
    }
    let compact: String = text.chars().filter(|c| !is_space(*c)).collect();
    let data = match program {
        "base64" | "openssl" => base64(&compact)?,
        "base32" => base32(&compact)?,
        "xxd" => hexadecimal(&compact)?,
        _ => return None,
    };
    Some(without_marks(&String::from_utf8_lossy(&data)).into_owned())
}

/// The bytes of a base64 text, padded to its length in characters; signs outside the alphabet are passed over.
///
/// None for characters outside ASCII and where the text ends inside a group of four.
#[must_use]
pub fn base64(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() {
        return None;
    }
    let padding = (4 - text.len() % 4) % 4;
    let signs = text.bytes().chain(std::iter::repeat_n(b'=', padding));
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut place, mut left, mut pads) = (0_u8, 0_u8, 0_u8);
    for sign in signs {
        if sign == b'=' {
            pads = pads.saturating_add(u8::from(place >= 2));
            if place >= 2 && place + pads >= 4 {
                return Some(out);
            }
            continue;
        }
        let Some(value) = base64_value(sign) else {
            continue;
        };
        pads = 0;
        match place {
            0 => {}
            1 => out.push((left << 2) | (value >> 4)),
            2 => out.push((left << 4) | (value >> 2)),
            _ => out.push((left << 6) | value),
        }
        left = match place {
            0 => value,
            1 => value & 0x0f,
            2 => value & 0x03,
            _ => 0,
        };
        place = (place + 1) % 4;
    }
    (place == 0).then_some(out)
}

fn base64_value(sign: u8) -> Option<u8> {
    match sign {
        b'A'..=b'Z' => Some(sign - b'A'),
        b'a'..=b'z' => Some(sign - b'a' + 26),
        b'0'..=b'9' => Some(sign - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// The bytes of a base32 text with its padding.
fn base32(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    if text.len() % 8 != 0 || ![0, 1, 3, 4, 6].contains(&padding) {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 8 * 5);
    let (mut held, mut bits) = (0_u32, 0_u32);
    for digit in digits.bytes() {
        held = (held << 5) | u32::from(base32_value(digit)?);
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            out.extend((held >> bits).to_be_bytes().last());
            held &= (1 << bits) - 1;
        }
    }
    Some(out)
}

fn base32_value(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'2'..=b'7' => Some(digit - b'2' + 26),
        _ => None,
    }
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| char::from(b).to_digit(16);
    text.as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{base64, decoded};

    #[test]
    fn base64_is_read_as_leniently_as_python_reads_it() {
        assert_eq!(base64("cm0=").as_deref(), Some(b"rm".as_slice()));
        assert_eq!(base64("cm0").as_deref(), Some(b"rm".as_slice()));
        assert_eq!(base64("c-m0").as_deref(), None);
        assert_eq!(base64("cm0=cm0=").as_deref(), Some(b"rm".as_slice()));
        assert_eq!(base64("c"), None);
        assert_eq!(base64("é"), None);
    }

    #[test]
    fn other_encodings_are_read_and_marks_are_taken_out() {
        assert_eq!(decoded("base32", "OJWQ====").as_deref(), Some("rm"));
        assert_eq!(
            decoded("base32", "OJWQ===="),
            decoded("base32", "OJWQ ====")
        );
        assert_eq!(decoded("base32", "OJWQ"), None);
        assert_eq!(decoded("xxd", "72 6d 00\n").as_deref(), Some("rm"));
        assert_eq!(decoded("xxd", "726"), None);
        assert_eq!(decoded("xxd", "ff").as_deref(), Some("\u{fffd}"));
        assert_eq!(decoded("gunzip", "x"), None);
    }
}
