//! The normal form in which string tests read a text, as `engine/policy/normalise.py`: NFKC of one pinned Unicode
//! version, without invisible characters. Both engines read the same table.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use crate::detectors::reading::next_byte;

/// Characters, and bytes, that one character becomes at most.
pub const LONGEST: usize = 18;
const MARKED: u32 = 0x3_0000; // characters that have a bit
const TABLE: &str = include_str!("../../../interlock/engine/policy/nfkc.txt");
const SYLLABLES: (u32, u32) = (0xac00, 11_172); // of Hangul: the first, and how many; Unicode Standard 3.12
const LEADS: (u32, u32) = (0x1100, 19);
const VOWELS: (u32, u32) = (0x1161, 21);
const TAILS: (u32, u32) = (0x11a7, 28);

const ROW: usize = 256; // characters whose entries stand together

static NORMAL: LazyLock<Table> = LazyLock::new(Table::read);

#[derive(Default)]
struct Table {
    stripped: Spans,
    classes: Rows<u8>,
    parts: Vec<u32>,
    decomposed: Rows<(u32, u32)>, // where the parts stand that a character is taken apart into, and how many
    composed: HashMap<(u32, u32), u32>,
    joined: Spans,   // characters that are put together with one before them
    changing: Spans, // of characters that may change
}

/// An entry for each character; rows without any are not kept.
#[derive(Default)]
struct Rows<T> {
    places: Vec<usize>, // of rows, and one further on; 0 for one that is not kept
    rows: Vec<Vec<T>>,
}

impl<T: Copy + Default> Rows<T> {
    fn of(entries: impl IntoIterator<Item = (u32, T)>) -> Self {
        let mut all = Self::default();
        for (code, entry) in entries {
            let (row, at) = Self::place(code);
            let rows = all.places.len().max(row + 1);
            all.places.resize(rows, 0);
            let Some(place) = all.places.get_mut(row) else {
                continue;
            };
            if *place == 0 {
                all.rows.push(vec![T::default(); ROW]);
                *place = all.rows.len();
            }
            let entries = all.rows.get_mut(*place - 1);
            if let Some(held) = entries.and_then(|row| row.get_mut(at)) {
                *held = entry;
            }
        }
        all
    }

    fn get(&self, code: u32) -> T {
        let (row, at) = Self::place(code);
        let place = self.places.get(row).and_then(|place| place.checked_sub(1));
        let entries = place.and_then(|place| self.rows.get(place));
        entries
            .and_then(|row| row.get(at))
            .copied()
            .unwrap_or_default()
    }

    fn place(code: u32) -> (usize, usize) {
        let code = usize::try_from(code).unwrap_or(usize::MAX);
        (code / ROW, code % ROW)
    }
}

/// A character on its way to the normal form, with its class.
type Part = (u8, u32);

/// Characters: spans that rise, and a bit for each of the first characters.
#[derive(Default)]
struct Spans {
    spans: Vec<(u32, u32)>,
    marks: Vec<u64>,
}

impl Spans {
    fn of(codes: BTreeSet<u32>) -> Self {
        let mut all = Self::default();
        for code in codes {
            match all.spans.last_mut() {
                Some((_, end)) if *end + 1 == code => *end = code,
                _ => all.spans.push((code, code)),
            }
        }
        let marks = (0..MARKED / 64).map(|row| {
            let bits = (0..64).filter(|bit| all.spans_have(64 * row + bit));
            bits.fold(0, |marks, bit| marks | 1 << bit)
        });
        all.marks = marks.collect();
        all
    }

    fn has(&self, code: u32) -> bool {
        match usize::try_from(code / 64)
            .ok()
            .and_then(|row| self.marks.get(row))
        {
            Some(marks) => marks >> (code % 64) & 1 == 1,
            None => self.spans_have(code),
        }
    }

    fn spans_have(&self, code: u32) -> bool {
        let after = self.spans.partition_point(|(low, _)| *low <= code);
        let span = after.checked_sub(1).and_then(|at| self.spans.get(at));
        span.is_some_and(|(_, high)| code <= *high)
    }
}

/// The normal form of a text.
#[must_use]
pub fn normal(text: &str) -> Cow<'_, str> {
    let Some(mut next) = (!text.is_ascii())
        .then(|| NORMAL.next_changing(text, 0))
        .flatten()
    else {
        return Cow::Borrowed(text);
    };
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    let mut parts = Vec::new();
    loop {
        // those that may change stand behind one that does not by itself
        let head = text.get(copied..next).unwrap_or("");
        let last = head.chars().next_back();
        let start = next - last.map_or(0, char::len_utf8);
        out.push_str(text.get(copied..start).unwrap_or(""));
        let rest = text.get(next..).unwrap_or("");
        let size = rest.find(|c| !NORMAL.changing.has(u32::from(c)));
        let end = size.map_or(text.len(), |size| next + size);
        let changing = text.get(next..end).unwrap_or("");
        NORMAL.write(last, changing, &mut parts, &mut out);
        copied = end;
        let Some(found) = NORMAL.next_changing(text, end) else {
            break;
        };
        next = found;
    }
    out.push_str(text.get(copied..).unwrap_or(""));
    Cow::Owned(out)
}

impl Table {
    fn read() -> Self {
        let mut table = Self::default();
        let mut lines = Lines::default();
        for line in TABLE.lines().skip(1) {
            lines.add(line);
        }
        table.stripped = Spans::of(lines.stripped.clone());
        let seconds = lines.composed.keys().map(|(_, second)| *second);
        let jamo = (VOWELS.0..VOWELS.0 + VOWELS.1).chain(TAILS.0 + 1..TAILS.0 + TAILS.1);
        let joined: BTreeSet<u32> = seconds.chain(jamo).collect();
        let mut all = lines.stripped;
        all.extend(&joined);
        all.extend(lines.classes.iter().map(|(code, _)| code));
        table.joined = Spans::of(joined);
        table.classes = Rows::of(lines.classes);
        table.composed = lines.composed;
        table.parts = lines.parts;
        let split: Vec<u32> = lines.decomposed.iter().map(|(code, _)| *code).collect();
        table.decomposed = Rows::of(lines.decomposed);
        let changes: Vec<u32> = split
            .into_iter()
            .filter(|code| !table.stays(*code, &all))
            .collect();
        all.extend(changes);
        table.changing = Spans::of(all);
        table
    }

    /// Whether a character is put together again that is taken apart, whatever stands before it.
    fn stays(&self, code: u32, joined: &BTreeSet<u32>) -> bool {
        let mut parts = Vec::new();
        self.decompose(code, &mut parts);
        let is_joined = parts
            .first()
            .is_none_or(|(_, first)| joined.contains(first));
        ordered(&mut parts);
        self.compose(&mut parts);
        !is_joined && matches!(parts.as_slice(), [(_, whole)] if *whole == code)
    }

    /// The next character from a place on that may change.
    fn next_changing(&self, text: &str, from: usize) -> Option<usize> {
        let bytes = text.as_bytes();
        let mut at = from;
        loop {
            at = next_byte(bytes, at, |byte| !byte.is_ascii())?;
            while let Some((code, size)) = wide_at(bytes, at) {
                if self.changing.has(code) {
                    return Some(at);
                }
                at += size;
            }
        }
    }

    /// Write the normal form of a character and of those after it that may change; `parts` is what is written upon.
    fn write(&self, first: Option<char>, changing: &str, parts: &mut Vec<Part>, out: &mut String) {
        let is_seen = |c: char| !self.stripped.has(u32::from(c));
        if !changing.contains(is_seen) {
            out.extend(first);
            return;
        }
        parts.clear();
        for c in first.into_iter().chain(changing.chars()) {
            self.decompose(u32::from(c), parts);
        }
        ordered(parts);
        self.compose(parts);
        out.extend(parts.iter().filter_map(|(_, code)| char::from_u32(*code)));
    }

    /// Add what a character is taken apart into.
    fn decompose(&self, code: u32, out: &mut Vec<Part>) {
        if self.stripped.has(code) {
            return;
        }
        if let Some(index) = within(code, SYLLABLES) {
            out.push((0, LEADS.0 + index / (VOWELS.1 * TAILS.1)));
            out.push((0, VOWELS.0 + index % (VOWELS.1 * TAILS.1) / TAILS.1));
            out.extend((index % TAILS.1 > 0).then_some((0, TAILS.0 + index % TAILS.1)));
            return;
        }
        let (start, count) = self.decomposed.get(code);
        if count == 0 {
            out.push((self.classes.get(code), code));
            return;
        }
        let range = usize::try_from(start).ok().zip(usize::try_from(count).ok());
        let parts = range.and_then(|(start, count)| self.parts.get(start..start + count));
        let seen = parts
            .unwrap_or_default()
            .iter()
            .filter(|code| !self.stripped.has(**code));
        out.extend(seen.map(|code| (self.classes.get(*code), *code)));
    }

    /// Put together what joins, in place.
    fn compose(&self, parts: &mut Vec<Part>) {
        let mut kept = 0;
        let mut starter: Option<usize> = None;
        let mut last_class: Option<u8> = None; // of what was kept after the starter
        for at in 0..parts.len() {
            let Some((own, code)) = parts.get(at).copied() else {
                break;
            };
            let joins = last_class.is_none_or(|last| last < own) && self.joined.has(code);
            let held = starter.and_then(|at| parts.get_mut(at)).filter(|_| joins);
            if let Some((_, first)) = held {
                if let Some(both) = self.pair(*first, code) {
                    *first = both;
                    continue;
                }
            }
            if own == 0 {
                (starter, last_class) = (Some(kept), None);
            } else {
                last_class = Some(own);
            }
            parts.swap(kept, at);
            kept += 1;
        }
        parts.truncate(kept);
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

/// What the lines of the table say.
#[derive(Default)]
struct Lines {
    stripped: BTreeSet<u32>,
    classes: Vec<(u32, u8)>,
    parts: Vec<u32>,
    decomposed: Vec<(u32, (u32, u32))>,
    composed: HashMap<(u32, u32), u32>,
}

impl Lines {
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
            "D" => self.take_apart(low, words.filter_map(hex)),
            "R" => {
                let to = words.next().and_then(hex).unwrap_or(low);
                (low..=high).for_each(|code| self.take_apart(code, [to + code - low].into_iter()));
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

    fn take_apart(&mut self, code: u32, parts: impl Iterator<Item = u32>) {
        let start = self.parts.len();
        self.parts.extend(parts);
        let count = self.parts.len() - start;
        if let Some(range) = u32::try_from(start).ok().zip(u32::try_from(count).ok()) {
            self.decomposed.push((code, range));
        }
    }
}

/// Canonical ordering, in place: each run of combining characters by its class, otherwise as it stood.
fn ordered(parts: &mut [Part]) {
    for run in parts.split_mut(|(class, _)| *class == 0) {
        run.sort_by_key(|(class, _)| *class);
    }
}

/// The character beyond ASCII that begins at a place, and its bytes.
fn wide_at(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    let low = |byte: u8| u32::from(byte & 0x3f);
    match *bytes.get(at..)? {
        [a @ 0xc0..=0xdf, b, ..] => Some((u32::from(a & 0x1f) << 6 | low(b), 2)),
        [a @ 0xe0..=0xef, b, c, ..] => Some((u32::from(a & 0x0f) << 12 | low(b) << 6 | low(c), 3)),
        [a @ 0xf0..=0xff, b, c, d, ..] => {
            let high = u32::from(a & 0x07) << 18 | low(b) << 12;
            Some((high | low(c) << 6 | low(d), 4))
        }
        _ => None,
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
    use super::{normal, NORMAL};
    use crate::detectors::reading::mixed;

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

    #[test]
    fn what_is_left_as_it_stands_is_what_all_of_a_text_taken_together_would_be() {
        let pieces = [
            "a",
            "é",
            "e",
            "\u{301}",
            "\u{323}",
            "\u{1e0d}",
            "\u{307}",
            "ﬁ",
            "각",
            "가",
            "\u{11a8}",
            "\u{1161}",
            "\u{1100}",
            "\u{200b}",
            "\u{e0061}",
            "ж",
            "語",
            "\u{1f600}",
            "\u{fe0f}",
            "½",
            "\u{9c7}",
            "\u{9be}",
            "\u{9cb}",
            "\u{1109a}",
            "\u{110ba}",
            "\u{340}",
            "\u{212b}",
            "ö",
            "\u{f73}",
            "\u{958}",
            "\u{2f800}",
            "\u{ac00}",
        ];
        let whole = |text: &str| {
            let mut out = String::new();
            NORMAL.write(None, text, &mut Vec::new(), &mut out);
            out
        };
        for seed in 0..20_000 {
            let text = mixed(&pieces, seed, 6);
            assert_eq!(normal(&text), whole(&text), "{text:?}");
        }
        let split = (0..=0x3_0000).filter(|code| NORMAL.decomposed.get(*code).1 > 0);
        for c in split.chain(0x300..0x370).filter_map(char::from_u32) {
            let text = format!("{c}a{c}\u{301}각{c}");
            assert_eq!(normal(&text), whole(&text), "{text:?}");
        }
    }
}
