//! What `${x#p}`, `${x%p}`, `${x/p/r}`, `${x:o:l}`, `${x^^}` and `${x,,}` make of a value.

use super::expand::MAX_VALUE;
use super::fnmatch::Pattern;
use super::parser::literal;
use super::tree::Word;
use super::values::{
    has_glob, is_space, length, partition, truncated, Arg, HOME, UNKNOWN, UNKNOWN_TEXT,
};

const REAL_HOME: &str = "/home/user"; // stands for the home directory where a part of its text is taken
const MAX_TRIMMED: usize = 512; // characters of a text from which a glob is taken off

/// What a change costs; a glob is tried at each end of the text.
pub(crate) fn change_cost(text: &str, op: &str, operand: &str) -> usize {
    let total = length(text);
    let tries = op.starts_with(['#', '%']) && total <= MAX_TRIMMED && has_glob(operand);
    let trying = if tries {
        total * (length(operand) + 2) / 2
    } else {
        0
    };
    8 + total / 8 + trying
}

/// The value after an operator with an operand; `word` is the operand before its expansion.
pub(crate) fn changed(arg: &Arg, op: &str, operand: &str, word: &Word) -> Arg {
    if arg.text.contains(UNKNOWN) || operand.contains(UNKNOWN) {
        return arg.with_text(UNKNOWN_TEXT);
    }
    let text = arg.text.replace(HOME, REAL_HOME);
    let new = match op {
        ":" => match slice_bounds(&literal(word)) {
            Some((start, end)) => sliced(&text, start, end),
            None => UNKNOWN_TEXT.to_owned(),
        },
        "^^" => text.to_uppercase(),
        ",," => text.to_lowercase(),
        "^" => first_changed(&text, str::to_uppercase),
        "," => first_changed(&text, str::to_lowercase),
        "/" | "//" => match partition(operand, '/') {
            (pattern, _, _) if pattern.is_empty() || has_glob(pattern) => UNKNOWN_TEXT.to_owned(),
            (pattern, _, new) => replaced(&text, pattern, new, op == "/"),
        },
        "#" | "##" | "%" | "%%" => trimmed(&text, op, operand).to_owned(),
        _ => return arg.clone(),
    };
    arg.with_text(new)
}

fn first_changed(text: &str, change: fn(&str) -> String) -> String {
    let first = truncated(text, 1);
    let rest = text.get(first.len()..).unwrap_or("");
    change(first) + rest
}

/// The text with `pattern` replaced, no longer than a value may be.
fn replaced(text: &str, pattern: &str, new: &str, once: bool) -> String {
    let most = if once {
        1
    } else {
        MAX_VALUE / length(new).max(1) + 1 // more would all be cut off
    };
    let most = if new.is_empty() && !once {
        usize::MAX
    } else {
        most
    };
    let mut out = text.replacen(pattern, new, most);
    let end = truncated(&out, MAX_VALUE).len();
    out.truncate(end);
    out
}

/// `offset` or `offset:length` of up to nine digits, with blanks around.
fn slice_bounds(text: &str) -> Option<(i64, Option<i64>)> {
    let (start, rest) = number(text.trim_start_matches(is_space))?;
    let rest = rest.trim_start_matches(is_space);
    if rest.is_empty() {
        return Some((start, None));
    }
    let (length, rest) = number(rest.strip_prefix(':')?.trim_start_matches(is_space))?;
    rest.chars().all(is_space).then_some((start, Some(length)))
}

fn number(text: &str) -> Option<(i64, &str)> {
    let sign = usize::from(text.starts_with('-'));
    let digits = text
        .bytes()
        .skip(sign)
        .take_while(u8::is_ascii_digit)
        .count();
    if digits == 0 || digits > 9 {
        return None;
    }
    let (value, rest) = text.split_at(sign + digits);
    Some((value.parse().ok()?, rest))
}

fn sliced(text: &str, start: i64, count: Option<i64>) -> String {
    let total = i64::try_from(length(text)).unwrap_or(i64::MAX);
    let from_end = |at: i64| if at < 0 { (total + at).max(0) } else { at };
    let start = from_end(start);
    let end = match count {
        None => total,
        Some(count) if count >= 0 => start.saturating_add(count),
        Some(count) => from_end(total + count),
    };
    let skip = usize::try_from(start).unwrap_or(usize::MAX);
    let take = usize::try_from(end.saturating_sub(start)).unwrap_or(0);
    text.chars().skip(skip).take(take).collect()
}

/// Remove the shortest (`#`, `%`) or longest match of a glob from one end; long texts are only tried literally.
fn trimmed<'t>(text: &'t str, op: &str, pattern: &str) -> &'t str {
    let front = op.starts_with('#');
    let total = length(text);
    if !has_glob(pattern) || total > MAX_TRIMMED {
        let cut = if front {
            text.strip_prefix(pattern)
        } else {
            text.strip_suffix(pattern)
        };
        return cut.unwrap_or(text);
    }
    let pattern = Pattern::new(pattern);
    let takes = if front {
        pattern.prefixes(text.chars(), false)
    } else {
        pattern.prefixes(text.chars().rev(), true)
    };
    let longest = op.len() == 2;
    let found = if longest {
        takes.iter().rposition(|takes| *takes)
    } else {
        takes.iter().position(|takes| *takes)
    };
    let Some(count) = found else {
        return text;
    };
    let kept = if front { count } else { total - count };
    let at = text
        .char_indices()
        .nth(kept)
        .map_or(text.len(), |(at, _)| at);
    let (before, after) = text.split_at(at);
    if front {
        after
    } else {
        before
    }
}

#[cfg(test)]
mod tests {
    use super::changed;
    use crate::analysis::tree::Part;
    use crate::analysis::values::Arg;

    fn after(text: &str, op: &str, operand: &str) -> String {
        let word = vec![Part::lit(operand, false)];
        changed(&Arg::new(text), op, operand, &word).text
    }

    #[test]
    fn globs_are_taken_off_either_end() {
        assert_eq!(after("a/b/c.txt", "##", "*/"), "c.txt");
        assert_eq!(after("a/b/c.txt", "#", "*/"), "b/c.txt");
        assert_eq!(after("a.b.c", "%", ".*"), "a.b");
        assert_eq!(after("a.b.c", "%%", ".*"), "a");
        assert_eq!(after("abc", "#", "a"), "bc");
        assert_eq!(after("abc", "%", "x"), "abc");
        assert_eq!(after("äöü", "%", "?"), "äö");
    }

    #[test]
    fn parts_are_taken_by_characters_and_from_the_end() {
        assert_eq!(after("hello", ":", "1:3"), "ell");
        assert_eq!(after("hello", ":", " -3"), "llo");
        assert_eq!(after("hello", ":", "1:-1"), "ell");
        assert_eq!(after("äöü", ":", "1"), "öü");
        assert_eq!(after("hi", ":", "9"), "");
        assert_eq!(after("hi", ":", "x"), "\u{0}");
    }

    #[test]
    fn texts_are_replaced_and_changed_in_case() {
        assert_eq!(after("a-b-c", "/", "-/+"), "a+b-c");
        assert_eq!(after("a-b-c", "//", "-/+"), "a+b+c");
        assert_eq!(after("a-b-c", "//", "-"), "abc");
        assert_eq!(after("abc", "//", "[a]/x"), "\u{0}");
        assert_eq!(after("straße", "^^", ""), "STRASSE");
        assert_eq!(after("RM", ",,", ""), "rm");
        assert_eq!(after("rm", "^", ""), "Rm");
        assert_eq!(after("\u{1}/x", "#", "/home"), "/user/x");
        assert_eq!(after("a\u{0}", "^^", ""), "\u{0}");
    }

    #[test]
    fn a_replacement_that_grows_is_cut_before_it_fills_the_memory() {
        let text = "a".repeat(30_000);
        assert_eq!(
            after(&text, "//", &format!("a/{}", "b".repeat(30_000))).len(),
            65_536
        );
    }
}
