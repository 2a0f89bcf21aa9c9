//! Globs of stars and literals; the planner hands every other glob over as a pattern.

/// A compiled glob: `*` is any text, all else stands for itself.
#[derive(Clone, Debug)]
pub struct Glob {
    first: String,
    middle: Vec<String>,
    last: Option<String>,
}

impl Glob {
    /// Compile a glob; `?` and `[` in it would be literals, so the caller has made sure that there are none.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        let mut pieces = pattern.split('*').map(str::to_owned);
        let first = pieces.next().unwrap_or_default();
        let mut middle: Vec<String> = pieces.collect();
        let last = middle.pop();
        middle.retain(|piece| !piece.is_empty());
        Self {
            first,
            middle,
            last,
        }
    }

    /// The one text that matches, where there is no star.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        self.last.is_none().then_some(self.first.as_str())
    }

    /// What every match begins with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.first
    }

    /// The longest text that stands in every match.
    #[must_use]
    pub fn longest_piece(&self) -> &str {
        let pieces = [&self.first]
            .into_iter()
            .chain(&self.middle)
            .chain(&self.last);
        pieces
            .max_by_key(|piece| piece.len())
            .map_or("", String::as_str)
    }

    /// What stands after the star, where the glob is a star and a text.
    #[must_use]
    pub fn suffix(&self) -> Option<&str> {
        let last = self.last.as_deref().filter(|_| self.first.is_empty());
        last.filter(|_| self.middle.is_empty())
    }

    /// Whether the whole text matches. Taking each piece at its first place is enough: it leaves the most for the rest.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        let Some(last) = &self.last else {
            return text == self.first;
        };
        let Some(rest) = text.strip_prefix(self.first.as_str()) else {
            return false;
        };
        let Some(mut rest) = rest.strip_suffix(last.as_str()) else {
            return false;
        };
        for piece in &self.middle {
            let Some((_, after)) = rest.split_once(piece.as_str()) else {
                return false;
            };
            rest = after;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn stars_take_any_text_and_all_else_stands_for_itself() {
        let cases = [
            ("Bash", "Bash", true),
            ("Bash", "bash", false),
            ("*", "", true),
            ("mcp__*", "mcp__git", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("a**b", "a\nb", true),
            ("*x*x*", "x", false),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(
                Glob::new(pattern).matches(text),
                expected,
                "{pattern} {text}"
            );
        }
    }
}
