//! Shell patterns as Python's `fnmatch.fnmatchcase` reads them: `*`, `?`, `[...]`, `[!...]`.

/// One sign of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Sign {
    /// Any text.
    Star,
    /// Any one character.
    Any,
    /// This character.
    Char(char),
    /// A character of these ranges, or none of them.
    Set(bool, Vec<(char, char)>),
}

impl Sign {
    fn takes(&self, c: char) -> bool {
        match self {
            Sign::Star => false,
            Sign::Any => true,
            Sign::Char(own) => *own == c,
            Sign::Set(negated, ranges) => {
                ranges.iter().any(|(lo, hi)| *lo <= c && c <= *hi) != *negated
            }
        }
    }
}

/// A pattern, read once.
#[derive(Clone, Debug)]
pub struct Pattern(Vec<Sign>);

impl Pattern {
    /// Read a pattern; every text is one.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut signs = Vec::with_capacity(chars.len());
        let mut rest = chars.as_slice();
        while let Some((c, after)) = rest.split_first() {
            rest = after;
            match c {
                '*' if signs.last() == Some(&Sign::Star) => {}
                '*' => signs.push(Sign::Star),
                '?' => signs.push(Sign::Any),
                '[' => match set_end(after) {
                    Some(end) => {
                        signs.push(set(after.get(..end).unwrap_or(&[])));
                        rest = after.get(end + 1..).unwrap_or(&[]);
                    }
                    None => signs.push(Sign::Char('[')),
                },
                other => signs.push(Sign::Char(*other)),
            }
        }
        Self(signs)
    }

    /// Whether the pattern takes the whole text.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let mut signs = self.0.as_slice();
        let mut rest = text.chars();
        let mut star = None; // what follows the last star, and the text that it has not taken
        loop {
            match signs.split_first() {
                Some((Sign::Star, after)) => {
                    signs = after;
                    star = Some((after, rest.clone()));
                    continue;
                }
                Some((sign, after)) => {
                    let mut ahead = rest.clone();
                    if ahead.next().is_some_and(|c| sign.takes(c)) {
                        signs = after;
                        rest = ahead;
                        continue;
                    }
                }
                None if rest.as_str().is_empty() => return true,
                None => {}
            }
            let Some((after, mut left)) = star.take() else {
                return false;
            };
            if left.next().is_none() {
                return false;
            }
            signs = after;
            rest = left.clone();
            star = Some((after, left));
        }
    }

    /// For each length in characters from 0 to the whole: whether the pattern takes that much of the text's beginning
    /// (or, with `backward`, of its end, where `text` gives the characters from the end).
    #[must_use]
    pub fn prefixes(&self, text: impl Iterator<Item = char>, backward: bool) -> Vec<bool> {
        let signs: Vec<&Sign> = if backward {
            self.0.iter().rev().collect()
        } else {
            self.0.iter().collect()
        };
        let mut state = vec![false; signs.len() + 1];
        if let Some(first) = state.first_mut() {
            *first = true;
        }
        pass_stars(&signs, &mut state);
        let mut found = vec![state.last() == Some(&true)];
        for c in text {
            state = step(&signs, &state, c);
            found.push(state.last() == Some(&true));
        }
        found
    }
}

/// The places in the pattern that can be reached by one more character.
fn step(signs: &[&Sign], state: &[bool], c: char) -> Vec<bool> {
    let mut next = vec![false; state.len()];
    for (k, sign) in signs.iter().enumerate() {
        if state.get(k) != Some(&true) {
            continue;
        }
        let to = match sign {
            Sign::Star => k,
            other if other.takes(c) => k + 1,
            _ => continue,
        };
        if let Some(slot) = next.get_mut(to) {
            *slot = true;
        }
    }
    pass_stars(signs, &mut next);
    next
}

/// A star may take nothing.
fn pass_stars(signs: &[&Sign], state: &mut [bool]) {
    for (k, sign) in signs.iter().enumerate() {
        if **sign == Sign::Star && state.get(k) == Some(&true) {
            if let Some(slot) = state.get_mut(k + 1) {
                *slot = true;
            }
        }
    }
}

/// The place of the `]` that ends a set, None where nothing closes it; a `]` that stands first is a member.
fn set_end(after: &[char]) -> Option<usize> {
    let mut from = usize::from(after.first() == Some(&'!'));
    from += usize::from(after.get(from) == Some(&']'));
    let found = after.iter().skip(from).position(|c| *c == ']')?;
    Some(from + found)
}

/// A set's members: a `-` makes a range but where it stands first or last; a range that runs backward is nothing.
fn set(inner: &[char]) -> Sign {
    let negated = inner.first() == Some(&'!');
    let members = inner.get(usize::from(negated)..).unwrap_or(&[]);
    let chunks = without_empty_ranges(chunks(members));
    let mut ranges = Vec::new();
    for chunk in &chunks {
        ranges.extend(chunk.iter().map(|c| (*c, *c)));
    }
    for (left, right) in chunks.iter().zip(chunks.iter().skip(1)) {
        if let (Some(lo), Some(hi)) = (left.last(), right.first()) {
            ranges.push((*lo, *hi));
        }
    }
    Sign::Set(negated, ranges)
}

/// The members split at each `-` that joins a range.
fn chunks(members: &[char]) -> Vec<Vec<char>> {
    let mut found: Vec<Vec<char>> = Vec::new();
    let (mut start, mut from) = (0, 1);
    while let Some(at) = members.iter().skip(from).position(|c| *c == '-') {
        let at = from + at;
        found.push(members.get(start..at).unwrap_or(&[]).to_vec());
        start = at + 1;
        from = at + 3;
    }
    let last = members.get(start..).unwrap_or(&[]);
    match found.last_mut() {
        Some(before) if last.is_empty() => before.push('-'),
        _ => found.push(last.to_vec()),
    }
    found
}

fn without_empty_ranges(mut chunks: Vec<Vec<char>>) -> Vec<Vec<char>> {
    for k in (1..chunks.len()).rev() {
        let (left, right) = (chunks.get(k - 1), chunks.get(k));
        let backward = match (left.and_then(|c| c.last()), right.and_then(|c| c.first())) {
            (Some(lo), Some(hi)) => lo > hi,
            _ => false,
        };
        if backward {
            let right = chunks.remove(k);
            if let Some(left) = chunks.get_mut(k - 1) {
                left.pop();
                left.extend(right.into_iter().skip(1));
            }
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::Pattern;

    fn takes(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).matches(text)
    }

    #[test]
    fn signs_take_what_python_says() {
        assert!(
            takes("e*", "etc") && takes("*", "") && takes("?tc", "etc") && takes("e**c", "etc")
        );
        assert!(!takes("?", "") && !takes("e", "etc") && !takes("tc", "etc"));
        assert!(takes("[a-f]tc", "etc") && !takes("[!a-f]tc", "etc") && takes("[!x]tc", "etc"));
        assert!(takes("[", "[") && takes("[a", "[a") && takes("[]]", "]") && takes("[!]]", "a"));
        assert!(takes("[^e]", "^") && takes("[^e]", "e"));
        assert!(takes("*a*b", "xaabab") && !takes("*a*b", "xaaba") && takes("*[!a]*", "aab"));
        assert!(takes("[a-]", "-") && takes("[-a]", "-") && !takes("[a-]", "b"));
    }

    #[test]
    fn a_range_that_runs_backward_is_empty() {
        assert!(!takes("[f-a]", "b") && !takes("[f-a]", "f"));
        assert!(takes("[!f-a]", "b"));
        assert!(takes("[f-ab]", "b"));
    }

    #[test]
    fn the_lengths_that_a_pattern_takes_are_found_in_one_pass_from_either_end() {
        let pattern = Pattern::new("*.");
        assert_eq!(
            pattern.prefixes("a.b.".chars(), false),
            [false, false, true, false, true]
        );
        let pattern = Pattern::new(".*");
        assert_eq!(
            pattern.prefixes("a.b".chars().rev(), true),
            [false, false, true, false]
        );
    }
}
