//! Regexes as Python's `re` runs them: look-around, back references, greedy and lazy repetition, leftmost first.
//!
//! The detectors' patterns stand in Python and here letter by letter, so the same engine has to read both. It
//! backtracks as `re` does; a detector's pattern is bounded by construction (no repetition without a bound that
//! another could take over). Policies' own patterns never come here: they are linear (`crate::pattern`).

mod ahead;
pub mod parse;
pub mod program;
mod run;
pub mod sets;

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::OnceLock;

use memchr::memmem::{self, Finder};
use regex::Regex;

use ahead::{after, begin, prefix, whole};
pub use ahead::{head, last, reach, HEAD};
use parse::parse;
use program::{first_bytes, Program};
use run::Run;
use sets::Set;

pub use parse::Flags;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Rx {
    program: Program,
    slots: usize,
    first: Option<Vec<bool>>,
    words: Set,
    after: Option<String>,
    prefix: Option<Box<Finder<'static>>>,
    begin: Automaton,
    whole: Automaton,
}

/// A pattern for the linear engine, compiled when it is first asked for.
#[derive(Clone, Debug, Default)]
struct Automaton {
    source: Option<String>,
    compiled: OnceLock<Option<Regex>>,
}

impl Automaton {
    fn of(source: Option<String>) -> Self {
        Self {
            source,
            compiled: OnceLock::new(),
        }
    }

    fn get(&self) -> Option<&Regex> {
        let source = self.source.as_deref()?;
        self.compiled
            .get_or_init(|| Regex::new(source).ok())
            .as_ref()
    }
}

/// One match.
#[derive(Clone, Debug)]
pub struct Found<'t> {
    text: &'t str,
    slots: Vec<usize>,
}

const UNSET: usize = usize::MAX;

impl<'t> Found<'t> {
    /// The text in which it was found.
    #[must_use]
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// Where it begins, in bytes.
    #[must_use]
    pub fn start(&self) -> usize {
        self.slots.first().copied().unwrap_or(0)
    }

    /// Where it ends.
    #[must_use]
    pub fn end(&self) -> usize {
        self.slots.get(1).copied().unwrap_or(0)
    }

    /// The whole match.
    #[must_use]
    pub fn whole(&self) -> &'t str {
        self.text.get(self.start()..self.end()).unwrap_or("")
    }

    /// A group that took part in the match.
    #[must_use]
    pub fn group(&self, number: usize) -> Option<&'t str> {
        let (start, end) = (
            *self.slots.get(2 * number)?,
            *self.slots.get(2 * number + 1)?,
        );
        self.text.get(start..end)
    }
}

impl Rx {
    /// Compile a pattern; each one is a constant of ours, and the tests compile them all.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        Self::with(pattern, Flags::default())
    }

    /// Compile a pattern with flags.
    #[must_use]
    pub fn with(pattern: &str, flags: Flags) -> Self {
        let parsed = parse(pattern, flags);
        let compiled = parsed
            .as_ref()
            .and_then(|(node, groups)| Some((Program::new(node)?, *groups, first_bytes(node))));
        debug_assert!(compiled.is_some(), "a pattern does not compile: {pattern}");
        let (program, groups, first) = compiled.unwrap_or_default();
        let words = Set::class('w', flags.ascii).unwrap_or_default();
        let node = parsed.as_ref().map(|(node, _)| node);
        Self {
            program,
            slots: 2 * groups + 2,
            first,
            words,
            after: node.and_then(after),
            prefix: node
                .and_then(prefix)
                .map(|text| Box::new(Finder::new(&text).into_owned())),
            begin: Automaton::of(node.and_then(begin)),
            whole: Automaton::of(node.and_then(whole)),
        }
    }

    /// The leftmost match from a position on.
    #[must_use]
    pub fn find_from<'t>(&self, text: &'t str, from: usize) -> Option<Found<'t>> {
        let mut run = Run::new(self, text);
        let (start, end) = self.next(&mut run, text, from)?;
        Some(run.found(start, end))
    }

    /// Where the leftmost match from a position on begins and ends.
    fn next(&self, run: &mut Run<'_, '_>, text: &str, from: usize) -> Option<(usize, usize)> {
        let mut at = self.candidate(text, from)?;
        loop {
            if let Some(end) = run.begin(at) {
                return Some((at, end));
            }
            at = self.candidate(text, at + 1)?;
        }
    }

    /// The next place where a match could begin.
    fn candidate(&self, text: &str, from: usize) -> Option<usize> {
        let bytes = text.as_bytes();
        let mut at = from;
        while at <= bytes.len() && !text.is_char_boundary(at) {
            at += 1;
        }
        if let Some(before) = &self.after {
            let back = at.saturating_sub(before.len());
            let found = memmem::find(bytes.get(back..)?, before.as_bytes())?;
            return Some(back + found + before.len());
        }
        if let Some(prefix) = &self.prefix {
            return Some(at + prefix.find(bytes.get(at..)?)?);
        }
        if let Some(begin) = self.begin.get() {
            let within = at <= bytes.len();
            return within
                .then(|| begin.find_at(text, at))
                .flatten()
                .map(|m| m.start());
        }
        let Some(first) = &self.first else {
            return (at <= bytes.len()).then_some(at);
        };
        let mut rest = bytes.get(at..)?.iter().enumerate();
        rest.find(|(ahead, byte)| {
            first.get(usize::from(**byte)) == Some(&true) && text.is_char_boundary(at + ahead)
        })
        .map(|(ahead, _)| at + ahead)
    }

    /// The match that begins at a position, as `re`'s `match`.
    #[must_use]
    pub fn match_at<'t>(&self, text: &'t str, at: usize) -> Option<Found<'t>> {
        let mut run = Run::new(self, text);
        let end = run.begin(at)?;
        Some(run.found(at, end))
    }

    /// Whether the text holds a match.
    #[must_use]
    pub fn is_in(&self, text: &str) -> bool {
        match self.whole.get() {
            Some(whole) => whole.is_match(text),
            None => self.find_from(text, 0).is_some(),
        }
    }

    /// Whether the text begins with a match.
    #[must_use]
    pub fn begins(&self, text: &str) -> bool {
        self.match_at(text, 0).is_some()
    }

    /// The matches from left to right that do not overlap; none of our patterns matches the empty text.
    pub fn all<'r, 't: 'r>(&'r self, text: &'t str) -> impl Iterator<Item = Found<'t>> + 'r {
        let mut at = 0;
        std::iter::from_fn(move || {
            let found = self.find_from(text, at)?;
            at = if found.end() > found.start() {
                found.end()
            } else {
                found.end() + 1
            };
            Some(found)
        })
    }

    /// The text with matches replaced, as `re`'s `sub`, where `with` has another text for them; else the text itself.
    pub fn replaced<'t>(
        &self,
        text: Cow<'t, str>,
        mut with: impl FnMut(&Found<'_>) -> Option<String>,
    ) -> Cow<'t, str> {
        match self.try_replaced(text, |found| Ok::<_, Infallible>(with(found))) {
            Ok(replaced) => replaced,
            Err(never) => match never {},
        }
    }

    /// The same, until `with` has an error.
    ///
    /// # Errors
    /// That of `with`.
    pub fn try_replaced<'t, E>(
        &self,
        text: Cow<'t, str>,
        with: impl FnMut(&Found<'_>) -> Result<Option<String>, E>,
    ) -> Result<Cow<'t, str>, E> {
        self.try_replaced_at(text, |text, from| self.candidate(text, from), with)
    }

    /// The same; `next` knows the next place from one on where a match could begin.
    ///
    /// # Errors
    /// That of `with`.
    pub fn try_replaced_at<'t, E>(
        &self,
        text: Cow<'t, str>,
        mut next: impl FnMut(&str, usize) -> Option<usize>,
        mut with: impl FnMut(&Found<'_>) -> Result<Option<String>, E>,
    ) -> Result<Cow<'t, str>, E> {
        let mut out = String::new();
        let (mut copied, mut at) = (0, 0);
        let mut run = Run::new(self, &text);
        while let Some(start) = next(&text, at) {
            let Some(end) = run.begin(start) else {
                at = start + 1;
                continue;
            };
            let found = run.seen(start, end);
            if let Some(other) = with(&found)? {
                out.push_str(text.get(copied..found.start()).unwrap_or(""));
                out.push_str(&other);
                copied = found.end();
            }
            at = found.end().max(found.start() + 1); // none of our patterns matches the empty text
        }
        if copied == 0 {
            return Ok(text);
        }
        out.push_str(text.get(copied..).unwrap_or(""));
        Ok(out.into())
    }
}

#[cfg(test)]
mod tests {
    use super::{Flags, Rx};

    fn spans(rx: &Rx, text: &str) -> Vec<(usize, usize)> {
        rx.all(text)
            .map(|found| (found.start(), found.end()))
            .collect()
    }

    #[test]
    fn repetition_gives_back_what_the_rest_needs() {
        assert_eq!(spans(&Rx::new(r"a{1,3}(?![a])"), "aaaa"), [(1, 4)]);
        assert_eq!(spans(&Rx::new(r"\w{2,9}-x"), "ab-c-x a-x bc-x"), [(11, 15)]);
        assert_eq!(spans(&Rx::new(r"(?:ab?){2,3}c"), "abaabc"), [(0, 6)]);
        assert_eq!(spans(&Rx::new(r"<.{0,9}?>"), "<a><b>"), [(0, 3), (3, 6)]);
    }

    #[test]
    fn looks_read_nothing_and_groups_come_back() {
        assert_eq!(
            spans(&Rx::new(r"(?<=://)\w{1,9}(?=@)"), "x://me@y"),
            [(4, 6)]
        );
        assert_eq!(
            spans(
                &Rx::new(r"(?<![\w-])\d{3}([- ])\d{2}\1\d{4}"),
                "123-45-6789 123-45 6789"
            ),
            [(0, 11)]
        );
        let found = Rx::new(r"(?:(a)|(b))c").match_at("bc", 0);
        let groups = found.map(|f| (f.group(1).map(str::to_owned), f.group(2).map(str::to_owned)));
        assert_eq!(groups, Some((None, Some("b".to_owned()))));
    }

    #[test]
    fn case_and_classes_are_those_of_python() {
        let fold = Flags {
            fold: true,
            ..Flags::default()
        };
        assert!(Rx::with("token", fold).is_in("TO\u{212a}EN"));
        assert!(!Rx::with(
            "token",
            Flags {
                ascii: true,
                ..fold
            }
        )
        .is_in("TO\u{212a}EN"));
        assert!(Rx::new(r"\A\w\w\Z").is_in("ßé"));
        assert!(!Rx::new(r"\w").is_in("\u{301}")); // a mark alone is no letter for Python
        assert!(Rx::new(r"\bé\b").is_in("(é)"));
        assert!(Rx::new(r"a$").is_in("a\n"));
    }
}
