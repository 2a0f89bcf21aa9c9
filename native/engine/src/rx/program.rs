//! From a tree to a program for a backtracking machine.

use crate::rx::parse::{Node, Place};
use crate::rx::sets::Set;

const MAX_STEPS: usize = 20_000; // instructions of one program

/// One instruction.
#[derive(Clone, Debug)]
pub enum Step {
    /// Read one character of a set.
    One(usize),
    /// Read characters of a set, as many or as few as lead to a match.
    Many {
        /// The set.
        set: usize,
        /// At least.
        least: usize,
        /// At most.
        most: usize,
        /// As many as it can first.
        greedy: bool,
    },
    /// Go on at the first place, and at the second where that leads nowhere.
    Split(usize, usize),
    /// Go on there.
    Jump(usize),
    /// Keep the position: 2n where group n begins, 2n+1 where it ends.
    Keep(usize),
    /// The group's text again.
    Again(usize),
    /// Be at a place.
    At(Place),
    /// Look at what the steps up to `end` match, from here or from `back` characters before.
    Look {
        /// Where the steps after it begin.
        end: usize,
        /// Characters to step back.
        back: usize,
        /// Must not match.
        negative: bool,
    },
    /// The end of a match, or of what is looked at.
    Match,
}

/// A compiled pattern.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its steps.
    pub steps: Vec<Step>,
    /// The sets that they read.
    pub sets: Vec<Set>,
}

impl Program {
    /// The program of a tree; `None` where it is too large or loops without reading.
    #[must_use]
    pub fn new(node: &Node) -> Option<Self> {
        let mut program = Self::default();
        program.add(node)?;
        program.push(Step::Match)?;
        Some(program)
    }

    fn push(&mut self, step: Step) -> Option<usize> {
        self.steps.push(step);
        (self.steps.len() <= MAX_STEPS).then(|| self.steps.len() - 1)
    }

    fn set(&mut self, set: &Set) -> usize {
        self.sets
            .iter()
            .position(|known| known == set)
            .unwrap_or_else(|| {
                self.sets.push(set.clone());
                self.sets.len() - 1
            })
    }

    fn patch(&mut self, at: usize, step: Step) -> Option<()> {
        *self.steps.get_mut(at)? = step;
        Some(())
    }

    /// The nesting of a tree is bounded by its parser.
    fn add(&mut self, node: &Node) -> Option<()> {
        match node {
            Node::One(set) => {
                let set = self.set(set);
                self.push(Step::One(set))?;
            }
            Node::Seq(items) => items.iter().try_for_each(|item| self.add(item))?,
            Node::Choice(items) => self.choice(items)?,
            Node::Repeat {
                item,
                least,
                most,
                greedy,
            } => self.repeat(item, *least, *most, *greedy)?,
            Node::Group(number, item) => {
                self.push(Step::Keep(2 * number))?;
                self.add(item)?;
                self.push(Step::Keep(2 * number + 1))?;
            }
            Node::Look {
                item,
                behind,
                negative,
            } => {
                let back = if *behind { width(item)? } else { 0 };
                let at = self.push(Step::Match)?;
                self.add(item)?;
                let end = self.push(Step::Match)? + 1;
                self.patch(
                    at,
                    Step::Look {
                        end,
                        back,
                        negative: *negative,
                    },
                )?;
            }
            Node::Again(number) => {
                self.push(Step::Again(*number))?;
            }
            Node::At(place) => {
                self.push(Step::At(*place))?;
            }
        }
        Some(())
    }

    fn choice(&mut self, items: &[Node]) -> Option<()> {
        let (last, others) = items.split_last()?;
        let mut ends = Vec::new();
        for item in others {
            let split = self.push(Step::Match)?;
            self.add(item)?;
            ends.push(self.push(Step::Match)?);
            self.patch(split, Step::Split(split + 1, self.steps.len()))?;
        }
        self.add(last)?;
        let after = self.steps.len();
        ends.into_iter()
            .try_for_each(|end| self.patch(end, Step::Jump(after)))
    }

    fn repeat(&mut self, item: &Node, least: usize, most: usize, greedy: bool) -> Option<()> {
        if let Node::One(set) = item {
            let set = self.set(set);
            self.push(Step::Many {
                set,
                least,
                most,
                greedy,
            })?;
            return Some(());
        }
        let order = |inside: usize, after: usize| {
            if greedy {
                Step::Split(inside, after)
            } else {
                Step::Split(after, inside)
            }
        };
        for _ in 0..least {
            self.add(item)?;
        }
        if most == usize::MAX {
            if least_width(item) == 0 {
                return None;
            }
            let split = self.push(Step::Match)?;
            self.add(item)?;
            self.push(Step::Jump(split))?;
            return self.patch(split, order(split + 1, self.steps.len()));
        }
        let mut splits = Vec::new();
        for _ in least..most {
            splits.push(self.push(Step::Match)?);
            self.add(item)?;
        }
        let after = self.steps.len();
        splits
            .into_iter()
            .try_for_each(|split| self.patch(split, order(split + 1, after)))
    }
}

/// How many characters every match of a tree has; `None` where they differ.
fn width(node: &Node) -> Option<usize> {
    match node {
        Node::One(_) => Some(1),
        Node::Seq(items) => items.iter().map(width).sum(),
        Node::Choice(items) => {
            let mut widths = items.iter().map(width);
            let first = widths.next()??;
            widths.all(|other| other == Some(first)).then_some(first)
        }
        Node::Repeat {
            item, least, most, ..
        } => (least == most).then(|| width(item).map(|one| one * least))?,
        Node::Group(_, item) => width(item),
        Node::Look { .. } | Node::At(_) => Some(0),
        Node::Again(_) => None,
    }
}

fn least_width(node: &Node) -> usize {
    match node {
        Node::One(_) => 1,
        Node::Seq(items) => items.iter().map(least_width).sum(),
        Node::Choice(items) => items.iter().map(least_width).min().unwrap_or(0),
        Node::Repeat { item, least, .. } => least_width(item).saturating_mul(*least),
        Node::Group(_, item) => least_width(item),
        Node::Look { .. } | Node::At(_) | Node::Again(_) => 0,
    }
}

/// The first bytes with which a match can begin; `None` where it can begin with any, or be empty.
#[must_use]
pub fn first_bytes(node: &Node) -> Option<Vec<bool>> {
    let mut found = vec![false; 256];
    fill(node, &mut found).then_some(found)
}

/// Add the first bytes of a tree; false where it can match without reading.
fn fill(node: &Node, found: &mut [bool]) -> bool {
    match node {
        Node::One(set) => {
            for (byte, held) in (0u8..=255).zip(found.iter_mut()) {
                *held |= set.has_ascii(byte) || (byte >= 128 && set.is_wide());
            }
            true
        }
        Node::Seq(items) => items.iter().any(|item| fill(item, found)),
        Node::Choice(items) => {
            let mut reads = true;
            for item in items {
                reads &= fill(item, found); // each of them, also after one that reads nothing
            }
            reads
        }
        Node::Repeat { item, least, .. } => fill(item, found) && *least > 0,
        Node::Group(_, item) => fill(item, found),
        Node::Look { .. } | Node::At(_) | Node::Again(_) => false,
    }
}
