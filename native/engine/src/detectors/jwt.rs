//! JSON Web Tokens, read by hand. Many may begin within one part that no second part follows: so it is from the second part
//! that the first is looked for.
//! What is found is what the pattern of `secrets.py` finds; the test holds this to it.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::ascii::AsciiSet;
use crate::detectors::reading::counted;
use crate::rx::sets::Set;
use crate::rx::Rx;

const TOKEN: &str = "eyJ"; // with which the parts of a JWT begin
const SECOND: &[u8] = b".eyJ";
const FIRST_PART: (usize, usize) = (13, 2003); // characters
const LEAST_PART: usize = 4; // characters of another one after its beginning
const SECOND_PART: usize = 4000;
const THIRD_PART: usize = 2000;

const OF_PART: AsciiSet =
    AsciiSet::of(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");
static SECONDS: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(SECOND));
static OF_WORD: LazyLock<Set> = LazyLock::new(|| Set::class('w', false).unwrap_or_default());
/// A JWT from its second part on.
static PARTS: LazyLock<Rx> =
    LazyLock::new(|| Rx::new(r"\.eyJ[\w-]{4,4000}(?:\.[\w-]{4,2000})?(?![A-Za-z0-9])"));

/// The next JWT from a position on: where it begins and ends.
#[must_use]
pub fn next_jwt(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    loop {
        let second = at + SECONDS.find(text.as_bytes().get(at..)?)?;
        let start = jwt_start(text, from, second);
        if let Some(start) = start {
            if let Some(end) = parts_end(text, second) {
                return Some((start, end));
            }
        }
        at = second + 1;
    }
}

/// Where the JWT ends whose second part begins at a place.
fn parts_end(text: &str, second: usize) -> Option<usize> {
    let part = |from: usize, most: usize| {
        let mut end = from;
        while let Some(size) = of_part(text, end) {
            end += size;
        }
        (end, end - from >= most)
    };
    let (end, is_long) = part(second + SECOND.len(), SECOND_PART);
    let third = if text.get(end..).is_some_and(|rest| rest.starts_with('.')) {
        part(end + 1, THIRD_PART)
    } else {
        (end, false)
    };
    if is_long || third.1 {
        return PARTS.match_at(text, second).map(|whole| whole.end());
    }
    let size = |from: usize, end: usize| text.as_bytes().get(from..end).map_or(0, counted);
    let ends = if size(end + 1, third.0) < LEAST_PART {
        end
    } else {
        third.0
    };
    (size(second + SECOND.len(), end) >= LEAST_PART).then_some(ends)
}

/// The bytes of a part's character at a place.
fn of_part(text: &str, at: usize) -> Option<usize> {
    let byte = *text.as_bytes().get(at)?;
    if byte.is_ascii() {
        return OF_PART.has(byte).then_some(1);
    }
    let c = text.get(at..)?.chars().next()?;
    OF_WORD.has(c).then(|| c.len_utf8())
}

/// Where the first JWT may begin whose second part begins at a place.
fn jwt_start(text: &str, from: usize, second: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let starts = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        let within = before.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        !within
            && text
                .get(at..second)
                .is_some_and(|here| here.starts_with(TOKEN))
    };
    let (mut at, mut begun) = (second, None);
    for count in 1..=FIRST_PART.1 {
        let last = bytes.get(from..at).and_then(<[u8]>::last);
        let size = match last {
            Some(byte) if byte.is_ascii() => usize::from(OF_PART.has(*byte)),
            Some(_) => {
                let c = text.get(from..at)?.chars().next_back();
                c.filter(|c| OF_WORD.has(*c)).map_or(0, char::len_utf8)
            }
            None => 0,
        };
        if size == 0 {
            break;
        }
        at -= size;
        if count >= FIRST_PART.0 && bytes.get(at) == Some(&b'e') && starts(at) {
            begun = Some(at);
        }
    }
    begun
}

#[cfg(test)]
mod tests {
    use super::next_jwt;
    use crate::detectors::reading::agreed;
    use crate::rx::Rx;

    #[test]
    fn tokens_in_parts_are_those_that_the_pattern_finds() {
        let rx = Rx::new(concat!(
            r"(?<![A-Za-z0-9_])eyJ[\w-]{10,2000}\.eyJ[\w-]{4,4000}",
            r"(?:\.[\w-]{4,2000})?(?![A-Za-z0-9])"
        ));
        let (many, wide, long) = ("-eyJ".repeat(500), "é-".repeat(990), "a".repeat(3990));
        let short = ["eyJ", ".eyJ", "abcdefghij", "a1_b", "-", ".", " ", "é"];
        let mut all = short.to_vec();
        all.extend([&*many, &*wide, &*long]);
        let wanted = |text: &str| rx.find_from(text, 0).map(|m| (m.start(), m.end()));
        let by_hand = |text: &str| next_jwt(text, 0);
        let found = agreed(&short, 3_000, by_hand, wanted) + agreed(&all, 150, by_hand, wanted);
        assert!(found > 60, "{found}");
    }
}
