//! Regexes as Python's `re` runs them: look-around, back references, greedy and lazy repetition, leftmost first.
//!
//! The detectors' patterns stand in Python and here letter by letter, so the same engine has to read both. It
//! backtracks as `re` does; a detector's pattern is bounded by construction (no repetition without a bound that
//! another could take over). Policies' own patterns never come here: they are linear (`crate::pattern`).

pub mod parse;
pub mod program;
pub mod sets;

use parse::{parse, Place};
use program::{first_bytes, Program, Step};
use sets::Set;

pub use parse::Flags;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Rx {
    program: Program,
    slots: usize,
    first: Option<Vec<bool>>,
    words: Set,
}

/// One match.
#[derive(Clone, Debug)]
pub struct Found<'t> {
    text: &'t str,
    slots: Vec<usize>,
}

const UNSET: usize = usize::MAX;

impl<'t> Found<'t> {
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
        let compiled = parse(pattern, flags)
            .and_then(|(node, groups)| Some((Program::new(&node)?, groups, first_bytes(&node))));
        debug_assert!(compiled.is_some(), "a pattern does not compile: {pattern}");
        let (program, groups, first) = compiled.unwrap_or_default();
        let words = Set::class('w', flags.ascii).unwrap_or_default();
        Self {
            program,
            slots: 2 * groups + 2,
            first,
            words,
        }
    }

    /// The leftmost match from a position on.
    #[must_use]
    pub fn find_from<'t>(&self, text: &'t str, from: usize) -> Option<Found<'t>> {
        let bytes = text.as_bytes();
        let mut at = from;
        while at <= bytes.len() {
            if let Some(first) = &self.first {
                let ahead = bytes.get(at..)?;
                at += ahead
                    .iter()
                    .position(|byte| first.get(usize::from(*byte)) == Some(&true))?;
            }
            if text.is_char_boundary(at) {
                if let Some(found) = self.match_at(text, at) {
                    return Some(found);
                }
            }
            at += 1;
        }
        None
    }

    /// The match that begins at a position, as `re`'s `match`.
    #[must_use]
    pub fn match_at<'t>(&self, text: &'t str, at: usize) -> Option<Found<'t>> {
        let mut run = Run {
            rx: self,
            text,
            slots: vec![UNSET; self.slots],
            waiting: Vec::new(),
        };
        let end = run.from(0, at)?;
        let mut slots = run.slots;
        if let Some([whole_start, whole_end]) = slots.get_mut(..2) {
            (*whole_start, *whole_end) = (at, end);
        }
        Some(Found { text, slots })
    }

    /// Whether the text holds a match.
    #[must_use]
    pub fn is_in(&self, text: &str) -> bool {
        self.find_from(text, 0).is_some()
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

    /// The text with each match replaced, as `re`'s `sub`.
    pub fn replaced(&self, text: &str, mut with: impl FnMut(&Found<'_>) -> String) -> String {
        let mut out = String::new();
        let mut copied = 0;
        for found in self.all(text) {
            out.push_str(text.get(copied..found.start()).unwrap_or(""));
            out.push_str(&with(&found));
            copied = found.end();
        }
        out.push_str(text.get(copied..).unwrap_or(""));
        out
    }
}

/// What is tried next where the present way leads nowhere.
enum Other {
    /// Another branch.
    Way { step: usize, at: usize },
    /// One character less, down to `low`.
    Less { step: usize, low: usize, at: usize },
    /// One character more of a set.
    More {
        step: usize,
        set: usize,
        left: usize,
        at: usize,
    },
    /// The old value of a slot.
    Slot { slot: usize, old: usize },
}

struct Run<'r, 't> {
    rx: &'r Rx,
    text: &'t str,
    slots: Vec<usize>,
    waiting: Vec<Other>,
}

impl Run<'_, '_> {
    /// Run from a step and a position; the position where the match ends. Nested only as deep as looks are.
    fn from(&mut self, step: usize, at: usize) -> Option<usize> {
        let base = self.waiting.len();
        let (mut step, mut at) = (step, at);
        loop {
            if matches!(self.rx.program.steps.get(step), Some(Step::Match) | None) {
                self.waiting.truncate(base);
                return Some(at);
            }
            (step, at) = match self.advance(step, at) {
                Some(next) => next,
                None => self.other(base)?,
            };
        }
    }

    fn advance(&mut self, step: usize, at: usize) -> Option<(usize, usize)> {
        match self.rx.program.steps.get(step)? {
            Step::One(set) => Some((step + 1, self.read(*set, at)?)),
            Step::Many {
                set,
                least,
                most,
                greedy,
            } => self.many(step, *set, (*least, *most), *greedy, at),
            Step::Split(one, other) => {
                self.waiting.push(Other::Way { step: *other, at });
                Some((*one, at))
            }
            Step::Jump(to) => Some((*to, at)),
            Step::Keep(slot) => {
                let held = self.slots.get_mut(*slot)?;
                self.waiting.push(Other::Slot {
                    slot: *slot,
                    old: *held,
                });
                *held = at;
                Some((step + 1, at))
            }
            Step::Again(number) => {
                let (start, end) = (
                    *self.slots.get(2 * number)?,
                    *self.slots.get(2 * number + 1)?,
                );
                let again = self.text.get(start..end)?;
                self.text
                    .get(at..)?
                    .starts_with(again)
                    .then(|| (step + 1, at + again.len()))
            }
            Step::At(place) => self.is_at(*place, at).then_some((step + 1, at)),
            Step::Look {
                end,
                back,
                negative,
            } => {
                let (end, back, negative) = (*end, *back, *negative);
                let seen = self
                    .back(at, back)
                    .is_some_and(|from| self.from(step + 1, from).is_some());
                (seen != negative).then_some((end, at))
            }
            Step::Match => None,
        }
    }

    fn read(&self, set: usize, at: usize) -> Option<usize> {
        let set = self.rx.program.sets.get(set)?;
        let byte = *self.text.as_bytes().get(at)?;
        if byte < 128 {
            return set.has_ascii(byte).then_some(at + 1);
        }
        let c = self.text.get(at..)?.chars().next()?;
        set.has(c).then(|| at + c.len_utf8())
    }

    fn many(
        &mut self,
        step: usize,
        set: usize,
        bounds: (usize, usize),
        greedy: bool,
        at: usize,
    ) -> Option<(usize, usize)> {
        let (least, most) = bounds;
        let mut end = at;
        for _ in 0..least {
            end = self.read(set, end)?;
        }
        let low = end;
        if !greedy {
            self.waiting.push(Other::More {
                step: step + 1,
                set,
                left: most - least,
                at: end,
            });
            return Some((step + 1, end));
        }
        let mut count = least;
        while count < most {
            let Some(next) = self.read(set, end) else {
                break;
            };
            end = next;
            count += 1;
        }
        if end > low {
            self.waiting.push(Other::Less {
                step: step + 1,
                low,
                at: end,
            });
        }
        Some((step + 1, end))
    }

    fn back(&self, at: usize, characters: usize) -> Option<usize> {
        let mut at = at;
        for _ in 0..characters {
            at = at.checked_sub(self.text.get(..at)?.chars().next_back()?.len_utf8())?;
        }
        Some(at)
    }

    /// The next way that is left to try.
    fn other(&mut self, base: usize) -> Option<(usize, usize)> {
        while self.waiting.len() > base {
            match self.waiting.pop()? {
                Other::Way { step, at } => return Some((step, at)),
                Other::Slot { slot, old } => {
                    if let Some(held) = self.slots.get_mut(slot) {
                        *held = old;
                    }
                }
                Other::Less { step, low, at } => {
                    let less = self.back(at, 1)?;
                    if less > low {
                        self.waiting.push(Other::Less {
                            step,
                            low,
                            at: less,
                        });
                    }
                    return Some((step, less));
                }
                Other::More {
                    step,
                    set,
                    left,
                    at,
                } => {
                    let Some(more) = (left > 0).then(|| self.read(set, at)).flatten() else {
                        continue;
                    };
                    self.waiting.push(Other::More {
                        step,
                        set,
                        left: left - 1,
                        at: more,
                    });
                    return Some((step, more));
                }
            }
        }
        None
    }

    fn is_at(&self, place: Place, at: usize) -> bool {
        let rest = self.text.get(at..).unwrap_or("");
        match place {
            Place::Start => at == 0,
            Place::End => rest.is_empty(),
            Place::LastLine => rest.is_empty() || rest == "\n",
            Place::Word { negative } => {
                let is_word = |c: Option<char>| c.is_some_and(|c| self.rx.words.has(c));
                let before = self
                    .text
                    .get(..at)
                    .and_then(|text| text.chars().next_back());
                (is_word(before) != is_word(rest.chars().next())) != negative
            }
        }
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
