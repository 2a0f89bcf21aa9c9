//! Walking arguments: every text in them with its path, and the edits that a mask makes.

use std::borrow::Cow;

use crate::context::Context;
use crate::detectors::reading::hides_within;
use crate::detectors::together::Loud;
use crate::detectors::Said;
use crate::edits::Edit;
use crate::plan::Verdict;
use crate::value::{Phase, Value};

const RESULT: &str = "result"; // where a result that is no mapping stands
const MAX_PLAIN: usize = 64; // characters of a key that stands in a path

/// What replaces a value, and the kinds of what was found in it.
pub type Found = (String, String);

/// Whoever is shown texts: where each stands, the nearest key above it, and the text; false to see no more.
pub type See<'s, 'v> = &'s mut dyn FnMut(&Place<'_>, &'v str, &'v str) -> bool;

/// Call `see` with each text, in the order of the arguments, until it returns false.
///
/// The nesting of a value is bounded by whoever made it (`value::MAX_DEPTH`).
pub fn texts<'v>(args: &'v Value<'_>, see: See<'_, 'v>) {
    let root = Place {
        above: None,
        step: Step::Root,
    };
    walk(args, &root, "", see);
}

/// Where a value stands, on the stack of the walk: its path is written out only where somebody asks.
pub struct Place<'p> {
    above: Option<&'p Place<'p>>,
    step: Step<'p>,
}

enum Step<'p> {
    Root,
    Key(&'p str),
    Index(usize),
}

impl Place<'_> {
    /// The path, as policies write it.
    #[must_use]
    pub fn path(&self) -> String {
        let mut steps = Vec::new();
        let mut at = Some(self);
        while let Some(place) = at {
            steps.push(&place.step);
            at = place.above;
        }
        let mut path = String::new();
        for step in steps.iter().rev() {
            match step {
                Step::Root => {}
                Step::Key(key) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(if is_plain(key) { key } else { "*" });
                }
                Step::Index(at) => {
                    path.push('[');
                    path.push_str(&at.to_string());
                    path.push(']');
                }
            }
        }
        path
    }
}

fn is_plain(key: &str) -> bool {
    let mut bytes = key.bytes();
    key.len() <= MAX_PLAIN
        && bytes
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn walk<'v>(value: &'v Value<'_>, place: &Place<'_>, key: &'v str, see: See<'_, 'v>) -> bool {
    match value {
        Value::Str(text) => see(place, key, text),
        Value::Map(pairs) => pairs.iter().all(|(name, item)| {
            let below = Place {
                above: Some(place),
                step: Step::Key(name),
            };
            walk(item, &below, name, see)
        }),
        Value::List(items) => items.iter().enumerate().all(|(at, item)| {
            let below = Place {
                above: Some(place),
                step: Step::Index(at),
            };
            walk(item, &below, key, see)
        }),
        _ => true,
    }
}

/// The text without characters that nobody sees and that would split a number or a key.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}');
    if text.is_ascii() || !hides_within(text.as_bytes()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().filter(|c| !hidden(*c)).collect())
}

/// What replaces a value, where something is found in it; it is told up to how many finds are masked one by one.
pub type Find<'f> = &'f dyn Fn(&Value<'_>, usize) -> Option<Found>;

/// The rewrite that masks what `find` finds in an event's values, or nothing where it finds nothing.
pub fn mask(
    context: &Context<'_, '_>,
    policy_id: &'static str,
    most: usize,
    find: Find<'_>,
) -> Option<Said> {
    let loud = match context.together() {
        Some(many) => Some(many.loud(&|text| find(&Value::Str(text.into()), 0).is_some())?),
        None => None,
    };
    let event = context.event;
    let wrapped = event.phase == Phase::Result && context.wrapped;
    let step = if wrapped {
        Step::Key(RESULT)
    } else {
        Step::Root
    };
    let root = Place { above: None, step };
    let whole = event
        .args
        .get(RESULT)
        .filter(|_| wrapped)
        .unwrap_or(&event.args);
    let mut mask = Mask {
        find,
        most,
        loud,
        seen: Vec::new(),
    };
    let edit = mask.masked(whole, &root)?;
    let mut kinds: Vec<&str> = Vec::new();
    for (_, kind) in &mask.seen {
        if !kinds.contains(&kind.as_str()) {
            kinds.push(kind);
        }
    }
    Some(Said {
        verdict: Verdict::Modify,
        reason: format!("masked {}", kinds.join(", ")),
        policy_id,
        attributed_to: mask.seen.into_iter().next().map(|(path, _)| path),
        edit: Some(edit),
    })
}

/// A mask at work: where it found something, and the kinds.
struct Mask<'m> {
    find: Find<'m>,
    most: usize,
    loud: Option<Loud>,
    seen: Vec<(String, String)>,
}

impl Mask<'_> {
    fn masked(&mut self, value: &Value<'_>, place: &Place<'_>) -> Option<Edit> {
        let mut edits = Vec::new();
        match value {
            Value::Map(pairs) => {
                for (at, (name, item)) in pairs.iter().enumerate() {
                    let below = Place {
                        above: Some(place),
                        step: Step::Key(name),
                    };
                    edits.extend(self.masked(item, &below).map(|edit| (at, edit)));
                }
            }
            Value::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    let below = Place {
                        above: Some(place),
                        step: Step::Index(at),
                    };
                    edits.extend(self.masked(item, &below).map(|edit| (at, edit)));
                }
            }
            _ => {
                let loud = self.loud.as_mut().filter(|_| value.as_str().is_some());
                if loud.is_some_and(|loud| !loud.next_may()) {
                    return None;
                }
                let (text, kinds) = (self.find)(value, self.most)?;
                self.seen.push((place.path(), kinds));
                return Some(Edit::Text(text));
            }
        }
        (!edits.is_empty()).then_some(Edit::Within(edits))
    }
}

#[cfg(test)]
mod tests {
    use super::texts;
    use crate::value::Value;

    #[test]
    fn a_key_that_is_no_plain_name_stands_as_a_star() {
        let inner = Value::Map(vec![("a b".into(), Value::Str("y".into()))]);
        let value = Value::Map(vec![(
            "to".into(),
            Value::List(vec![Value::Str("x".into()), inner]),
        )]);
        let mut found = Vec::new();
        texts(&value, &mut |place, key, text| {
            found.push((place.path(), key.to_owned(), text.to_owned()));
            true
        });
        let row =
            |path: &str, key: &str, text: &str| (path.to_owned(), key.to_owned(), text.to_owned());
        assert_eq!(found, [row("to[0]", "to", "x"), row("to[1].*", "a b", "y")]);
    }
}
