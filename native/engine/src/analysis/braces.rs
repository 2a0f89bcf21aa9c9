//! The words that `{a,b}` and `{1..3}` give.

use super::tree::{Part, Word};

/// Words that one brace expansion may give.
pub const MAX_FIELDS: usize = 256;
const MAX_WORK: usize = 16 * 1024; // parts that are put together on the way there

/// Whether a word may hold a brace expansion.
pub(crate) fn has_braces(word: &Word) -> bool {
    word.iter()
        .any(|part| matches!(part, Part::Lit { text, quoted: false } if text.contains('{')))
}

/// The words that the braces of a word give; a word with more than [`MAX_FIELDS`] results stays as it is.
pub(crate) fn braces(word: &Word) -> Vec<Word> {
    if !has_braces(word) {
        return vec![word.clone()];
    }
    expanded(pieces(word)).unwrap_or_else(|| vec![word.clone()])
}

/// A part of a word, or an unquoted `{`, `,` or `}`.
enum Piece {
    Part(Part),
    Sign(char),
}

fn pieces(word: &Word) -> impl Iterator<Item = Piece> + '_ {
    word.iter().flat_map(|part| match part {
        Part::Lit {
            text,
            quoted: false,
        } => split(text),
        other => vec![Piece::Part(other.clone())],
    })
}

fn split(text: &str) -> Vec<Piece> {
    let mut found = Vec::new();
    for piece in text.split_inclusive(['{', ',', '}']) {
        let sign = piece
            .chars()
            .next_back()
            .filter(|c| matches!(c, '{' | ',' | '}'));
        let plain = sign.map_or(piece, |sign| piece.strip_suffix(sign).unwrap_or(piece));
        if !plain.is_empty() {
            found.push(Piece::Part(Part::lit(plain, false)));
        }
        found.extend(sign.map(Piece::Sign));
    }
    found
}

/// Expand from the left with an explicit stack: each open brace holds what stood before it and its finished
/// alternatives.
///
/// None where that gives too many words, takes too much work, or a brace is left that nothing closed.
fn expanded(pieces: impl Iterator<Item = Piece>) -> Option<Vec<Word>> {
    let mut stack: Vec<(Vec<Word>, Vec<Word>)> = Vec::new();
    let mut current: Vec<Word> = vec![Word::new()];
    let mut waiting = 0; // alternatives in the stack
    let mut work = 0;
    for piece in pieces {
        work += current.len();
        match (piece, stack.last_mut()) {
            (Piece::Sign('{'), _) => {
                stack.push((
                    std::mem::replace(&mut current, vec![Word::new()]),
                    Vec::new(),
                ));
            }
            (Piece::Sign(','), Some((_, alternatives))) => {
                waiting += current.len();
                alternatives.append(&mut current);
                current.push(Word::new());
            }
            (Piece::Sign('}'), Some(_)) => {
                let (before, alternatives) = stack.pop()?;
                waiting -= alternatives.len();
                current = product(&before, &inner(alternatives, current), &mut work)?;
            }
            (Piece::Sign(sign), _) => add(&mut current, &Part::lit(sign, true)),
            (Piece::Part(part), _) => add(&mut current, &part),
        }
        if current.len() > MAX_FIELDS || waiting > MAX_FIELDS || work > MAX_WORK {
            return None;
        }
    }
    stack.is_empty().then_some(current)
}

fn add(words: &mut [Word], part: &Part) {
    for word in words {
        word.push(part.clone());
    }
}

/// What one pair of braces stands for; braces without alternatives are text.
fn inner(mut alternatives: Vec<Word>, last: Vec<Word>) -> Vec<Word> {
    if !alternatives.is_empty() {
        alternatives.extend(last);
        return alternatives;
    }
    if let Some(members) = sequence(&last) {
        return members;
    }
    last.into_iter()
        .map(|mut word| {
            word.insert(0, Part::lit("{", true));
            word.push(Part::lit("}", true));
            word
        })
        .collect()
}

fn product(left: &[Word], right: &[Word], work: &mut usize) -> Option<Vec<Word>> {
    let parts = |words: &[Word]| words.iter().map(Vec::len).sum::<usize>();
    *work += right.len() * parts(left) + left.len() * parts(right);
    if left.len() * right.len() > MAX_FIELDS || *work > MAX_WORK {
        return None;
    }
    let both = |a: &Word, b: &Word| a.iter().chain(b).cloned().collect();
    let after = |a| right.iter().map(move |b| both(a, b));
    Some(left.iter().flat_map(after).collect())
}

/// The members of `{a..b}`, None where the braces are text.
fn sequence(words: &[Word]) -> Option<Vec<Word>> {
    let [word] = words else {
        return None;
    };
    let [Part::Lit { text, .. }] = word.as_slice() else {
        return None;
    };
    let (first, rest) = text.split_once("..")?;
    let (last, step) = rest
        .split_once("..")
        .map_or((rest, None), |(last, step)| (last, Some(step)));
    let (a, letters) = end_of_sequence(first)?;
    let (b, also) = end_of_sequence(last)?;
    let step = step.map_or(Some(1), |step| number(step, 4))?.abs().max(1);
    if letters != also {
        return None;
    }
    if (b - a).abs() / step > i64::try_from(MAX_FIELDS).unwrap_or(i64::MAX) {
        return Some(vec![
            vec![Part::lit(first, true)],
            vec![Part::lit(last, true)],
        ]);
    }
    let count = (b - a).abs() / step;
    let towards = if a <= b { step } else { -step };
    let member = |k: i64| vec![Part::lit(written(a + k * towards, letters), true)];
    Some((0..=count).map(member).collect())
}

fn written(value: i64, letters: bool) -> String {
    if letters {
        u32::try_from(value)
            .ok()
            .and_then(char::from_u32)
            .map(String::from)
            .unwrap_or_default()
    } else {
        value.to_string()
    }
}

/// A number or one letter, as a number; whether it is a letter.
fn end_of_sequence(text: &str) -> Option<(i64, bool)> {
    match text.as_bytes() {
        [letter] if letter.is_ascii_alphabetic() => Some((i64::from(*letter), true)),
        _ => number(text, 9).map(|value| (value, false)),
    }
}

fn number(text: &str, most: usize) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain =
        !digits.is_empty() && digits.len() <= most && digits.bytes().all(|b| b.is_ascii_digit());
    if plain {
        text.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::braces;
    use crate::analysis::parser::literal;
    use crate::analysis::tree::Part;

    fn of(text: &str) -> Vec<String> {
        braces(&vec![Part::lit(text, false)])
            .iter()
            .map(literal)
            .collect()
    }

    #[test]
    fn alternatives_and_sequences_give_words() {
        assert_eq!(of("a{b,c}d"), ["abd", "acd"]);
        assert_eq!(of("{a,b}{1,2}"), ["a1", "a2", "b1", "b2"]);
        assert_eq!(of("{a,{b,c}}"), ["a", "b", "c"]);
        assert_eq!(of("x{1..3}"), ["x1", "x2", "x3"]);
        assert_eq!(of("{c..a}"), ["c", "b", "a"]);
        assert_eq!(of("{1..9..4}"), ["1", "5", "9"]);
        assert_eq!(of("{,a}"), ["", "a"]);
        assert_eq!(of("{1..1000}"), ["1", "1000"]);
    }

    #[test]
    fn other_braces_are_text() {
        assert_eq!(of("{a}"), ["{a}"]);
        assert_eq!(of("{a..2}"), ["{a..2}"]);
        assert_eq!(of("{a,b"), ["{a,b"]);
        assert_eq!(of("a},{b}"), ["a},{b}"]);
        assert_eq!(of(&"{a,b}".repeat(9)).len(), 1);
        assert_eq!(of(&"{".repeat(60_000)).len(), 1);
    }
}
