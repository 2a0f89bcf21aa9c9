//! The normal form in which string tests read a text, as `engine/policy/normalise.py`: NFKC of one pinned Unicode
//! version, without invisible characters. Both engines read the same table.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;

/// Characters, and bytes, that one character becomes at most.
pub const LONGEST: usize = 18;
const MARKED: u32 = 0x1_0000; // characters that have a bit
const TABLE: &str = include_str!("../../../interlock/engine/policy/nfkc.txt");
const SYLLABLES: (u32, u32) = (0xac00, 11_172); // of Hangul: the first, and how many; Unicode Standard 3.12
const LEADS: (u32, u32) = (0x1100, 19);
const VOWELS: (u32, u32) = (0x1161, 21);
const TAILS: (u32, u32) = (0x11a7, 28);

static NORMAL: LazyLock<Table> = LazyLock::new(Table::read);

#[derive(Default)]
struct Table {
    stripped: HashSet<u32>,
    classes: HashMap<u32, u8>,
    decomposed: HashMap<u32, Vec<u32>>,
    composed: HashMap<(u32, u32), u32>,
    changing: Vec<(u32, u32)>, // spans that rise, of characters that may change
    marks: Vec<u64>,           // a bit for each of the first characters: whether it may change
}

/// The normal form of a text.
#[must_use]
pub fn normal(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !NORMAL.may_change_in(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut held: Vec<u32> = Vec::new(); // the character before, or a run of those that may change
    let mut changes = false; // whether such a run has begun
    for c in text.chars() {
        let may_change = NORMAL.may_change(c);
        if !may_change {
            NORMAL.flush(&mut held, changes, &mut out);
        }
        changes = may_change;
        held.push(u32::from(c));
    }
    NORMAL.flush(&mut held, changes, &mut out);
    Cow::Owned(out)
}

impl Table {
    fn read() -> Self {
        let mut table = Self::default();
        for line in TABLE.lines().skip(1) {
            table.add(line);
        }
        let joins = table.composed.keys().map(|(_, second)| *second);
        let jamo = (VOWELS.0..VOWELS.0 + VOWELS.1).chain(TAILS.0 + 1..TAILS.0 + TAILS.1);
        let mut all: BTreeSet<u32> = joins.chain(jamo).collect();
        all.extend(&table.stripped);
        all.extend(table.classes.keys());
        all.extend(table.decomposed.keys());
        for code in all {
            match table.changing.last_mut() {
                Some((_, end)) if *end + 1 == code => *end = code,
                _ => table.changing.push((code, code)),
            }
        }
        table.marks = (0..MARKED / 64)
            .map(|row| {
                let bits = (0..64).filter(|bit| table.is_changing(64 * row + bit));
                bits.fold(0, |marks, bit| marks | 1 << bit)
            })
            .collect();
        table
    }

    fn add(&mut self, line: &str) {
        let mut words = line.split(' ');
        let (Some(kind), Some(first)) = (words.next(), words.next()) else {
            return;
        };
        let (low, high) = first.split_once('-').unwrap_or((first, first));
        let (Some(low), Some(high)) = (hex(low), hex(high)) else {
            return;
        };
        match kind {
            "S" => self.stripped.extend(low..=high),
            "C" => {
                let class = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
                self.classes.extend((low..=high).map(|code| (code, class)));
            }
            "D" => {
                self.decomposed.insert(low, words.filter_map(hex).collect());
            }
            "R" => {
                let to = words.next().and_then(hex).unwrap_or(low);
                self.decomposed
                    .extend((low..=high).map(|code| (code, vec![to + code - low])));
            }
            _ => {
                if let (Some(second), Some(both)) =
                    (words.next().and_then(hex), words.next().and_then(hex))
                {
                    self.composed.insert((low, second), both);
                }
            }
        }
    }

    fn may_change_in(&self, text: &str) -> bool {
        let pairs = text.as_bytes();
        let mut at = 0;
        while let Some(first) = pairs.get(at) {
            match (*first, pairs.get(at + 1)) {
                (0..=0x7f, _) => at += 1,
                (0xc2..=0xdf, Some(second)) => {
                    let code = u32::from(*first & 0x1f) << 6 | u32::from(*second & 0x3f);
                    let marks = self.marks.get(usize::from(*first & 0x1f)).copied();
                    if marks.is_none_or(|marks| marks >> (code % 64) & 1 == 1) {
                        return true;
                    }
                    at += 2;
                }
                _ => {
                    let here = text.get(at..).and_then(|rest| rest.chars().next());
                    let Some(c) = here.filter(|c| !self.may_change(*c)) else {
                        return true;
                    };
                    at += c.len_utf8();
                }
            }
        }
        false
    }

    fn may_change(&self, c: char) -> bool {
        let code = u32::from(c);
        match usize::try_from(code / 64)
            .ok()
            .and_then(|row| self.marks.get(row))
        {
            Some(marks) => marks >> (code % 64) & 1 == 1,
            None => self.is_changing(code),
        }
    }

    fn is_changing(&self, code: u32) -> bool {
        let after = self.changing.partition_point(|(low, _)| *low <= code);
        after
            .checked_sub(1)
            .and_then(|at| self.changing.get(at))
            .is_some_and(|(_, high)| code <= *high)
    }

    /// Write what is held: as it stands, or in its normal form where it may change.
    fn flush(&self, held: &mut Vec<u32>, changes: bool, out: &mut String) {
        let codes = std::mem::take(held);
        let codes = if changes {
            self.composed(self.ordered(self.decomposed(&codes)))
        } else {
            codes
        };
        out.extend(codes.into_iter().filter_map(char::from_u32));
    }

    fn decomposed(&self, codes: &[u32]) -> Vec<u32> {
        let mut out = Vec::new();
        for code in codes.iter().filter(|code| !self.stripped.contains(code)) {
            if let Some(index) = within(*code, SYLLABLES) {
                out.push(LEADS.0 + index / (VOWELS.1 * TAILS.1));
                out.push(VOWELS.0 + index % (VOWELS.1 * TAILS.1) / TAILS.1);
                out.extend((index % TAILS.1 > 0).then_some(TAILS.0 + index % TAILS.1));
            } else if let Some(parts) = self.decomposed.get(code) {
                out.extend(parts);
            } else {
                out.push(*code);
            }
        }
        out.retain(|code| !self.stripped.contains(code));
        out
    }

    fn class(&self, code: u32) -> u8 {
        self.classes.get(&code).copied().unwrap_or(0)
    }

    /// Canonical ordering: each run of combining characters by its class, otherwise as it stood.
    fn ordered(&self, codes: Vec<u32>) -> Vec<u32> {
        let mut out: Vec<u32> = Vec::with_capacity(codes.len());
        let mut run: Vec<u32> = Vec::new();
        for code in codes {
            if self.class(code) == 0 {
                run.sort_by_key(|code| self.class(*code));
                out.append(&mut run);
                out.push(code);
            } else {
                run.push(code);
            }
        }
        run.sort_by_key(|code| self.class(*code));
        out.append(&mut run);
        out
    }

    fn composed(&self, codes: Vec<u32>) -> Vec<u32> {
        let mut out: Vec<u32> = Vec::new();
        let mut starter: Option<usize> = None;
        let mut last_class: Option<u8> = None; // of what was kept after the starter
        for code in codes {
            let own = self.class(code);
            let held = starter.and_then(|at| out.get_mut(at));
            if let Some(first) = held.filter(|_| last_class.is_none_or(|last| last < own)) {
                if let Some(both) = self.pair(*first, code) {
                    *first = both;
                    continue;
                }
            }
            if own == 0 {
                (starter, last_class) = (Some(out.len()), None);
            } else {
                last_class = Some(own);
            }
            out.push(code);
        }
        out
    }

    fn pair(&self, first: u32, second: u32) -> Option<u32> {
        if let Some((lead, vowel)) = within(first, LEADS).zip(within(second, VOWELS)) {
            return Some(SYLLABLES.0 + (lead * VOWELS.1 + vowel) * TAILS.1);
        }
        let open = within(first, SYLLABLES).filter(|index| index % TAILS.1 == 0);
        if let Some((_, tail)) = open.zip(within(second, TAILS).filter(|tail| *tail > 0)) {
            return Some(first + tail);
        }
        self.composed.get(&(first, second)).copied()
    }
}

fn within(code: u32, (first, count): (u32, u32)) -> Option<u32> {
    code.checked_sub(first).filter(|index| *index < count)
}

fn hex(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn letters_come_in_one_form_and_what_nobody_sees_is_gone() {
        for (text, form) in [
            ("plain", "plain"),
            ("ｒｍ　ﬁ", "rm fi"),
            ("r\u{200b}m\u{202e}", "rm"),
            ("e\u{301}", "é"),
            ("a\u{323}\u{307}", "ạ\u{307}"),
            ("a\u{307}\u{323}", "ạ\u{307}"),
            ("\u{1100}\u{1161}\u{11a8}", "각"),
            ("각", "각"),
            ("½ ①", "1\u{2044}2 1"),
            ("日本語 ж", "日本語 ж"),
        ] {
            assert_eq!(normal(text), form);
        }
    }
}
