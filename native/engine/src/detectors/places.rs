//! Where keys of the issuers' forms may stand in a text.
//!
//! A key begins where a word does, and its first bytes are known: one pass over a text finds where each form may match.

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::detectors::forms::{Form, How, ISSUERS};
use crate::detectors::jwt::next_jwt;
use crate::detectors::marked::HEADER_PARTS;
use crate::detectors::named::NAME_PARTS;
use crate::prints::Prints;
use crate::rx::Found;

const KINDS: usize = 64 - NAME_PARTS.len() - HEADER_PARTS.len(); // of prints, each of one or two forms
const NAMES: u64 = ((1 << NAME_PARTS.len()) - 1) << KINDS; // the others are parts of names and of headers
const HEADERS: u64 = u64::MAX << (64 - HEADER_PARTS.len());
const SEEN: usize = 3; // bytes that prints know
const LOOKED: usize = 6; // bytes after them that all forms are asked for together

static STARTS: LazyLock<Starts> = LazyLock::new(Starts::new);

/// Where keys may begin, by what stands there.
struct Starts {
    prints: Prints,
    /// A bit for each form that may have a byte at one of the places after its print.
    after: Vec<[u128; 256]>,
}

impl Starts {
    fn new() -> Self {
        let mut prints = Prints::default();
        let mut after = vec![[0; 256]; LOOKED];
        for form in ISSUERS.iter().filter(|form| form.how != How::Parts) {
            let [first, second, third, rest @ ..] = &form.head.any;
            prints.add(form.place % KINDS, [form.before, *first, *second, *third]);
            for (rows, set) in after.iter_mut().zip(rest) {
                for (byte, row) in (0..=255).zip(rows) {
                    *row |= u128::from(set.has(byte)) << form.place;
                }
            }
        }
        for (kind, part) in NAME_PARTS.iter().chain(&HEADER_PARTS).enumerate() {
            prints.add_word(KINDS + kind, part.as_bytes());
        }
        Self { prints, after }
    }

    /// The forms of some kinds of print of which one may begin at a place, a bit each.
    fn forms(&self, text: &[u8], place: usize, kinds: u64) -> u128 {
        let kinds = u128::from(kinds);
        let mut forms = kinds | kinds << KINDS;
        let rest = text.get(place + SEEN..).unwrap_or_default();
        for (rows, byte) in self.after.iter().zip(rest) {
            forms &= rows.get(usize::from(*byte)).copied().unwrap_or(0);
            if forms == 0 {
                break;
            }
        }
        forms
    }
}

/// Whether a key, a literal or a part of a name may begin with a byte: true of no digit, and of few beyond ASCII.
#[allow(clippy::needless_bitwise_bool)] // nothing is left out: so that many bytes are read together
fn begins(byte: u8) -> bool {
    byte.is_ascii_alphabetic()
        | (byte == b'.')
        | (byte == b':')
        | (byte == b'-')
        | (byte == 0xc5)
        | (byte == 0xe2)
}

/// A text that was replaced by a label: where it stood, and how long the label is.
type Change = (usize, usize, usize);

/// Where keys may stand in a text, form by form: what changes in the text is followed.
pub struct Places {
    /// Where one of a form may begin, or the literal stands that is within one.
    held: Vec<Vec<usize>>,
    /// Whether a part of a name that says "secret" stands there too.
    pub named: bool,
    /// Whether a header may begin there.
    pub headed: bool,
}

impl Places {
    /// Those of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut held = vec![Vec::new(); ISSUERS.len()];
        let (mut others, bytes) = (0, text.as_bytes());
        STARTS.prints.each(bytes, u64::MAX, begins, |place, kinds| {
            for group in [NAMES, HEADERS] {
                others |= if kinds & group == 0 { 0 } else { group };
            }
            look(&mut held, bytes, place, kinds & !(NAMES | HEADERS));
            !others
        });
        Self {
            held,
            named: others & NAMES != 0,
            headed: others & HEADERS != 0,
        }
    }

    /// Whether a key of a form may be there.
    #[must_use]
    pub fn may_hold(&self, form: &Form) -> bool {
        let held = self.held.get(form.place);
        form.how == How::Parts || held.is_some_and(|held| !held.is_empty())
    }

    /// The text with the keys of a form replaced, where `with` has another text for one.
    ///
    /// # Errors
    /// That of `with`.
    pub fn replaced<'t, E>(
        &mut self,
        form: &Form,
        text: Cow<'t, str>,
        mut with: impl FnMut(&str) -> Result<Option<String>, E>,
    ) -> Result<Cow<'t, str>, E> {
        let held = self.held.get_mut(form.place).map(std::mem::take);
        let mut places = held.unwrap_or_default().into_iter().peekable();
        let mut changes: Vec<Change> = Vec::new();
        let mut seen = |text: &str, start: usize, end: usize| {
            let label = with(text.get(start..end).unwrap_or(""))?;
            let size = label.as_ref().map(String::len);
            changes.extend(size.map(|size| (start, end, size)));
            Ok(label)
        };
        let text = if form.how == How::Parts {
            by_hand(text, next_jwt, seen)?
        } else {
            let [any, plain] = form.reach;
            let reach = if text.is_ascii() { plain } else { any };
            let mut next = |text: &str, from: usize| match form.how {
                How::Within => form.next_around(text, reach, from, &mut places),
                _ => form.next_leading(text, from, &mut places),
            };
            if next(&text, 0).is_none() {
                return Ok(text); // its pattern is not even compiled
            }
            let seen = |found: &Found<'_>| seen(found.text(), found.start(), found.end());
            form.pattern.try_replaced_at(text, next, seen)?
        };
        if !changes.is_empty() {
            self.follow(form, &changes, &text);
        }
        Ok(text)
    }

    /// What changed in the text moves what stands after it, and may lay open a key behind each label; no label lays
    /// a literal open that stands within a key, for neither has a sign of the other.
    fn follow(&mut self, after: &Form, changes: &[Change], text: &str) {
        let (mut added, mut removed) = (0, 0);
        let ends = changes.iter().map(|(start, end, size)| {
            (added, removed) = (added + size, removed + end - start);
            end + added - removed
        });
        let ends: Vec<usize> = ends.collect();
        for (form, held) in ISSUERS.iter().zip(&mut self.held).skip(after.place + 1) {
            *held = moved(held, changes);
            if form.how == How::Leads {
                let open = |at: &&usize| form.head.fits(text.as_bytes(), **at);
                held.extend(ends.iter().filter(open));
                held.sort_unstable();
                held.dedup();
            }
        }
    }
}

/// See of which forms one may begin at a place, of some kinds of print. Few places are looked at: the loop over all of
/// them is quicker without this in it.
#[inline(never)]
fn look(held: &mut [Vec<usize>], text: &[u8], place: usize, kinds: u64) {
    let mut forms = STARTS.forms(text, place, kinds);
    while forms != 0 {
        let form = usize::try_from(forms.trailing_zeros()).ok();
        if let Some(held) = form.and_then(|form| held.get_mut(form)) {
            held.push(place);
        }
        forms &= forms - 1;
    }
}

/// The text with what `next` finds replaced, where `with` has another text for it.
fn by_hand<E>(
    text: Cow<'_, str>,
    next: impl Fn(&str, usize) -> Option<(usize, usize)>,
    mut with: impl FnMut(&str, usize, usize) -> Result<Option<String>, E>,
) -> Result<Cow<'_, str>, E> {
    let mut out = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some((start, end)) = next(&text, at) {
        if let Some(other) = with(&text, start, end)? {
            out.push_str(text.get(copied..start).unwrap_or(""));
            out.push_str(&other);
            copied = end;
        }
        at = end;
    }
    if copied == 0 {
        return Ok(text);
    }
    out.push_str(text.get(copied..).unwrap_or(""));
    Ok(out.into())
}

/// Places in a text after it changed, without those that are gone.
fn moved(places: &[usize], changes: &[Change]) -> Vec<usize> {
    let mut changes = changes.iter().peekable();
    let (mut added, mut removed) = (0, 0);
    let still = places.iter().filter_map(|place| {
        while let Some((start, end, size)) = changes.next_if(|(_, end, _)| end <= place) {
            (added, removed) = (added + size, removed + end - start);
        }
        let is_gone = changes.peek().is_some_and(|(start, ..)| start <= place);
        (!is_gone).then(|| place + added - removed)
    });
    still.collect()
}

#[cfg(test)]
mod tests {
    use super::{begins, moved, How, ISSUERS, NAME_PARTS};

    #[test]
    fn nothing_else_begins_a_key_or_a_name() {
        let forms = ISSUERS.iter().filter(|form| form.how != How::Parts);
        for first in forms.filter_map(|form| form.head.any.first()) {
            assert!((0..=255).all(|byte| begins(byte) || !first.has(byte)));
        }
        let mut parts = NAME_PARTS.iter().filter_map(|part| part.bytes().next());
        assert!(parts.all(begins));
    }

    #[test]
    fn places_go_with_the_text() {
        let changes = [(2, 4, 5), (6, 7, 0)];
        assert_eq!(moved(&[0, 2, 3, 4, 5, 6, 7, 9], &changes), [0, 7, 8, 9, 11]);
    }
}
