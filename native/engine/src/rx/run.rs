//! Running a pattern's program: what is read, and what is tried next where that leads nowhere.

use super::{Found, Rx, UNSET};
use crate::rx::parse::Place;
use crate::rx::program::Step;

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

/// One try after the other to match a text.
pub(super) struct Run<'r, 't> {
    rx: &'r Rx,
    text: &'t str,
    slots: Vec<usize>,
    waiting: Vec<Other>,
}

impl<'r, 't> Run<'r, 't> {
    pub(super) fn new(rx: &'r Rx, text: &'t str) -> Self {
        Self {
            rx,
            text,
            slots: vec![UNSET; rx.slots],
            waiting: Vec::new(),
        }
    }

    /// The end of the match that begins at a position.
    pub(super) fn begin(&mut self, at: usize) -> Option<usize> {
        self.slots.fill(UNSET);
        self.waiting.clear();
        self.from(0, at)
    }

    /// What was matched last.
    pub(super) fn seen(&self, at: usize, end: usize) -> Found<'t> {
        let (slots, waiting) = (self.slots.clone(), Vec::new());
        Self {
            slots,
            waiting,
            ..*self
        }
        .found(at, end)
    }

    pub(super) fn found(self, at: usize, end: usize) -> Found<'t> {
        let mut slots = self.slots;
        if let Some([whole_start, whole_end]) = slots.get_mut(..2) {
            (*whole_start, *whole_end) = (at, end);
        }
        Found {
            text: self.text,
            slots,
        }
    }
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

    /// Read characters of a set, so many at most: where they end, and how many they are.
    fn run(&self, set: usize, from: usize, most: usize) -> (usize, usize) {
        let (mut at, mut count) = (from, 0);
        let Some(one) = self.rx.program.sets.get(set) else {
            return (at, count);
        };
        let bytes = self.text.as_bytes();
        while count < most {
            let plain = bytes.get(at).is_some_and(|byte| one.has_ascii(*byte));
            let next = plain.then_some(at + 1);
            let Some(next) = next.or_else(|| self.read(set, at)) else {
                break;
            };
            at = next;
            count += 1;
        }
        (at, count)
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
        let (low, count) = self.run(set, at, least);
        if count < least {
            return None;
        }
        if !greedy {
            self.waiting.push(Other::More {
                step: step + 1,
                set,
                left: most - least,
                at: low,
            });
            return Some((step + 1, low));
        }
        let (end, _) = self.run(set, low, most - least);
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
