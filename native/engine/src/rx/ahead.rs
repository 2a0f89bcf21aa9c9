//! What the linear engine can say of a pattern: where a match can begin, or, of a simple one, whether there is any.

use std::fmt::Write;

use crate::prints::Bytes;
use crate::rx::parse::{Node, Place};
use crate::rx::sets::Set;

const AHEAD: usize = 8; // characters of a beginning: enough to be rare, few enough to be quick
const SPANS: usize = 160; // of a set that is quick to look for
const MOST: usize = 100; // repetitions that the linear engine counts

/// The text that stands before every match.
pub fn after(node: &Node) -> Option<String> {
    let Node::Seq(items) = node else {
        return None;
    };
    match items.first()? {
        Node::Look {
            item,
            behind: true,
            negative: false,
        } => literal(item),
        _ => None,
    }
}

fn literal(node: &Node) -> Option<String> {
    match node {
        Node::One(set) => match *set.all_spans().as_slice() {
            [(low, high)] if low == high => char::from_u32(low).map(String::from),
            _ => None,
        },
        Node::Seq(items) => items.iter().map(literal).collect(),
        _ => None,
    }
}

/// The text with which every match begins, where that is longer than a character.
pub fn prefix(node: &Node) -> Option<String> {
    let Node::Seq(items) = node else {
        return None;
    };
    let read = items
        .iter()
        .skip_while(|item| matches!(item, Node::Look { .. } | Node::At(_)));
    let begins: String = read
        .map_while(|item| match item {
            Node::One(_) => literal(item),
            _ => None,
        })
        .collect();
    (begins.chars().nth(1).is_some()).then_some(begins)
}

/// How many bytes a tree reads, at least and at most; `wide` where characters beyond ASCII may stand among them.
#[must_use]
pub fn reach(node: &Node, wide: bool) -> (usize, usize) {
    let reach = |node: &Node| reach(node, wide);
    match node {
        Node::One(set) => (1, if wide && set.is_wide() { WIDEST } else { 1 }),
        Node::Seq(items) => items
            .iter()
            .map(reach)
            .fold((0, 0), |(least, most), (one, other)| {
                (least + one, most.saturating_add(other))
            }),
        Node::Choice(items) => {
            let all = || items.iter().map(reach);
            let least = all().map(|(least, _)| least).min();
            let most = all().map(|(_, most)| most).max();
            (least.unwrap_or(0), most.unwrap_or(0))
        }
        Node::Repeat {
            item, least, most, ..
        } => {
            let (one, other) = reach(item);
            (one.saturating_mul(*least), other.saturating_mul(*most))
        }
        Node::Group(_, item) => reach(item),
        Node::Look { .. } | Node::At(_) => (0, 0),
        Node::Again(_) => (0, usize::MAX),
    }
}

/// Which bytes may end what a tree reads; any where it may read nothing.
#[must_use]
pub fn last(node: &Node) -> Bytes {
    match node {
        Node::One(set) => Bytes::of(|byte| {
            if byte.is_ascii() {
                set.has_ascii(byte)
            } else {
                set.is_wide()
            }
        }),
        Node::Seq(items) => items.last().map_or(Bytes::ANY, last),
        Node::Repeat { item, least, .. } if *least > 0 => last(item),
        _ => Bytes::ANY,
    }
}

/// Bytes of a beginning of which is known which they may be.
pub const HEAD: usize = 32;
const WIDEST: usize = 4; // bytes of a character
const WITHIN: u64 = (1 << HEAD) - 1;

/// Which bytes may stand at each of the first places of a match, where it has so many; `wide` where characters beyond
/// ASCII may stand among them.
#[must_use]
pub fn head(node: &Node, wide: bool) -> [Bytes; HEAD] {
    let mut sets = [Bytes::default(); HEAD];
    let ends = headed(node, 1, wide, &mut sets);
    for (place, set) in sets.iter_mut().enumerate() {
        if ends & ((2 << place) - 1) != 0 {
            *set = Bytes::ANY; // after a match
        }
    }
    sets
}

/// Put a tree's bytes where it may begin, a bit each; where it may end.
fn headed(node: &Node, starts: u64, wide: bool, sets: &mut [Bytes; HEAD]) -> u64 {
    match node {
        Node::One(set) => {
            put(set, starts, sets);
            past(set, starts, wide)
        }
        Node::Seq(items) => items
            .iter()
            .fold(starts, |starts, item| headed(item, starts, wide, sets)),
        Node::Choice(items) => items
            .iter()
            .fold(0, |ends, item| ends | headed(item, starts, wide, sets)),
        Node::Repeat {
            item, least, most, ..
        } => {
            let (mut all, mut at) = (0, starts);
            let mut ends = if *least == 0 { starts } else { 0 };
            for count in 1..=HEAD.min(*most) {
                all |= at;
                at = match &**item {
                    Node::One(set) => past(set, at, wide),
                    item => headed(item, at, wide, sets),
                };
                ends |= if count >= *least { at } else { 0 };
            }
            if let Node::One(set) = &**item {
                put(set, all, sets);
            }
            ends
        }
        Node::Group(_, item) => headed(item, starts, wide, sets),
        Node::Look { .. } | Node::At(_) => starts,
        Node::Again(_) => {
            sets.fill(Bytes::ANY);
            WITHIN
        }
    }
}

/// Put the bytes of a set's characters where one may begin.
fn put(set: &Set, starts: u64, sets: &mut [Bytes; HEAD]) {
    let plain = Bytes::of(|byte| set.has_ascii(byte));
    let wide = Bytes::of(|byte| byte >= 0x80 && set.is_wide());
    for (place, held) in sets.iter_mut().enumerate() {
        let up_to = starts & ((2 << place) - 1);
        if up_to >> place == 1 {
            *held = held.with(plain);
        }
        if up_to >> place.saturating_sub(WIDEST - 1) != 0 {
            *held = held.with(wide);
        }
    }
}

/// Where characters of a set end that begin at some places.
fn past(set: &Set, starts: u64, wide: bool) -> u64 {
    let wide = if wide && set.is_wide() {
        starts << 2 | starts << 3 | starts << 4
    } else {
        0
    };
    (starts << 1 | wide) & WITHIN
}

/// A pattern of which every match has one at its beginning; places and looks are left out of it.
pub fn begin(node: &Node) -> Option<String> {
    let mut out = String::new();
    let mut left = AHEAD;
    begun(node, &mut out, &mut left);
    (left < AHEAD && !out.is_empty()).then_some(out)
}

/// Write the beginning of a tree; false where something that may follow was left out.
fn begun(node: &Node, out: &mut String, left: &mut usize) -> bool {
    match node {
        Node::One(set) => repeated(set, 1, 1, out, left),
        Node::Seq(items) => items.iter().all(|item| begun(item, out, left)),
        Node::Choice(items) => {
            let (mut complete, mut least) = (true, *left);
            let before = out.len();
            out.push_str("(?:");
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push('|');
                }
                let (mut own, length) = (*left, out.len());
                complete &= begun(item, out, &mut own);
                if out.len() == length {
                    out.truncate(before); // it may begin with anything
                    return false;
                }
                least = least.min(own);
            }
            out.push(')');
            *left = least;
            complete
        }
        Node::Repeat {
            item, least, most, ..
        } => match &**item {
            Node::One(set) => repeated(set, *least, *most, out, left),
            item if least == most => (0..*least).all(|_| begun(item, out, left)),
            item => {
                let _ = (0..*least).all(|_| begun(item, out, left));
                false
            }
        },
        Node::Group(_, item) => begun(item, out, left),
        Node::Look { .. } | Node::At(_) => true,
        Node::Again(_) => false,
    }
}

fn repeated(set: &Set, least: usize, most: usize, out: &mut String, left: &mut usize) -> bool {
    if set.all_spans().len() > SPANS {
        return false;
    }
    let (low, high) = (least.min(*left), most.min(*left));
    if high < most && low == 0 {
        return false;
    }
    class(set, out);
    let high = if high < most { low } else { high };
    let _ = write!(out, "{{{low},{high}}}");
    *left -= high;
    high == most
}

/// The tree as a pattern of the linear engine, for one that holds no looks and counts not far.
pub fn whole(node: &Node) -> Option<String> {
    let mut out = String::new();
    write_all(node, &mut out)?;
    Some(out)
}

fn write_all(node: &Node, out: &mut String) -> Option<()> {
    match node {
        Node::One(set) => class(set, out),
        Node::Seq(items) => items.iter().try_for_each(|item| write_all(item, out))?,
        Node::Choice(items) => {
            out.push_str("(?:");
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push('|');
                }
                write_all(item, out)?;
            }
            out.push(')');
        }
        Node::Repeat {
            item, least, most, ..
        } => {
            out.push_str("(?:");
            write_all(item, out)?;
            out.push(')');
            let done = match (*least, *most) {
                (least, usize::MAX) if least <= MOST => write!(out, "{{{least},}}"),
                (least, most) if most <= MOST => write!(out, "{{{least},{most}}}"),
                _ => return None,
            };
            done.ok()?;
        }
        Node::Group(_, item) => write_all(item, out)?,
        Node::At(Place::End) => out.push_str(r"\z"),
        Node::At(Place::Start) => out.push_str(r"\A"),
        Node::Look { .. } | Node::At(_) | Node::Again(_) => return None,
    }
    Some(())
}

fn class(set: &Set, out: &mut String) {
    out.push('[');
    for (low, high) in set.all_spans() {
        let _ = write!(out, "\\x{{{low:x}}}-\\x{{{high:x}}}");
    }
    out.push(']');
}
