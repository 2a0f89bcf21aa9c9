//! What the linear engine can say of a pattern: where a match can begin, or, of a simple one, whether there is any.

use std::fmt::Write;

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
