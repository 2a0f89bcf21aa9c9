//! Texts of which one must stand in an event for a rule to hold, all found in one pass before any pattern runs.

use std::collections::{BTreeMap, BTreeSet};

use aho_corasick::{AhoCorasick, MatchKind};
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, HirKind};

use crate::fast::Words;
use crate::normalise::{normal, LONGEST};
use crate::value::{Event, Value};

/// Bytes that a literal has at least: a shorter one stands nearly everywhere.
const SHORTEST: usize = 3;
const KEPT: usize = 32; // bytes of a literal that are looked for; so many can end at one place
const MOST: usize = 64; // literals of one test
const GOOD: usize = 6; // bytes from which on fewer literals are better than longer ones
const MAX_PARTS: usize = 16; // of a sequence, at which a match is tried to be known
const MAX_DEPTH: usize = 32;

/// What one test needs: one of some literals in the texts under an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The argument; `None` for any of them.
    pub arg: Option<String>,
    /// The literals, in lower case where they are ASCII.
    pub literals: Vec<Vec<u8>>,
    /// Up to so many bytes of each text of the event the test judges for sure.
    pub text: usize,
    /// Up to so many values of the event it judges for sure.
    pub values: usize,
}

/// A literal as it is looked for. `None` where it is too short to say much.
#[must_use]
pub fn literal(text: &[u8]) -> Option<Vec<u8>> {
    let kept = text.get(..text.len().min(KEPT))?;
    (kept.len() >= SHORTEST).then(|| kept.to_ascii_lowercase())
}

/// Literals of which one stands in every text in which a pattern finds a match.
#[must_use]
pub fn literals_of(spelling: &str) -> Option<Vec<Vec<u8>>> {
    let tree = regex_syntax::parse(spelling).ok()?;
    needed(&tree, 0)
}

fn needed(tree: &Hir, depth: usize) -> Option<Vec<Vec<u8>>> {
    if depth > MAX_DEPTH {
        return None;
    }
    let own = begins(tree);
    let inner = match tree.kind() {
        HirKind::Capture(group) => needed(&group.sub, depth + 1),
        HirKind::Repetition(many) if many.min > 0 => needed(&many.sub, depth + 1),
        HirKind::Alternation(ways) => {
            let each: Option<Vec<_>> = ways.iter().map(|way| needed(way, depth + 1)).collect();
            each.and_then(|found| usable(&found.concat()))
        }
        HirKind::Concat(parts) => (0..parts.len().min(MAX_PARTS))
            .filter_map(|at| {
                let rest = Hir::concat(parts.get(at + 1..)?.to_vec());
                let part = needed(parts.get(at)?, depth + 1);
                better(part, begins(&rest))
            })
            .reduce(|one, other| {
                if worth(&other) > worth(&one) {
                    other
                } else {
                    one
                }
            }),
        _ => None,
    };
    better(own, inner)
}

/// With what a match begins, where that is known.
fn begins(tree: &Hir) -> Option<Vec<Vec<u8>>> {
    let found = Extractor::new().extract(tree);
    let texts = found
        .literals()?
        .iter()
        .map(|text| text.as_bytes().to_vec());
    usable(&texts.collect::<Vec<_>>())
}

/// The literals, each once; nothing where one is too short, or where they are too many.
fn usable(texts: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let kept: Option<BTreeSet<Vec<u8>>> = texts.iter().map(|text| literal(text)).collect();
    let kept: Vec<Vec<u8>> = kept?.into_iter().collect();
    (!kept.is_empty() && kept.len() <= MOST).then_some(kept)
}

fn better(one: Option<Vec<Vec<u8>>>, other: Option<Vec<Vec<u8>>>) -> Option<Vec<Vec<u8>>> {
    match (one, other) {
        (Some(one), Some(other)) if worth(&other) > worth(&one) => Some(other),
        (None, other) => other,
        (one, _) => one,
    }
}

/// How few events some literals let through: by the shortest, then by how few they are.
fn worth(texts: &[Vec<u8>]) -> (usize, usize, usize) {
    let shortest = texts.iter().map(Vec::len).min().unwrap_or(0);
    (
        shortest.min(GOOD),
        MOST.saturating_sub(texts.len()),
        shortest,
    )
}

type Places = Vec<usize>; // of rules, rising

/// The places of rules by the literals that they need.
#[derive(Clone, Debug, Default)]
pub struct Literals {
    held: BTreeMap<Vec<u8>, Places>,
    args: Words,
    any: bool, // whether every argument is read
    texts: BTreeMap<usize, Places>,
    values: BTreeMap<usize, Places>,
    all: Places,
    automaton: Option<AhoCorasick>,
    found: Vec<Places>, // by the number of the literal in the automaton
}

impl Literals {
    /// Add a rule that needs what is given.
    pub fn add(&mut self, place: usize, need: &Need) {
        match &need.arg {
            Some(name) => {
                self.args.insert(name.clone());
            }
            None => self.any = true,
        }
        for text in &need.literals {
            put(self.held.entry(text.clone()).or_default(), place);
        }
        for (limits, limit) in [
            (&mut self.texts, need.text),
            (&mut self.values, need.values),
        ] {
            if limit < usize::MAX {
                put(limits.entry(limit).or_default(), place);
            }
        }
        put(&mut self.all, place);
    }

    /// Get ready to look literals up, after the last rule.
    pub fn close(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let (texts, found): (Vec<_>, Vec<_>) = std::mem::take(&mut self.held).into_iter().unzip();
        let mut builder = AhoCorasick::builder();
        builder
            .match_kind(MatchKind::Standard)
            .ascii_case_insensitive(true);
        self.automaton = builder.build(texts).ok();
        self.found = found;
    }

    /// The places of the rules that an event can concern, of those that need a literal.
    pub fn places<'l>(&'l self, event: &Event<'_>, to: &mut Vec<&'l [usize]>) {
        let (Some(automaton), Value::Map(pairs)) = (&self.automaton, &event.args) else {
            to.push(&self.all);
            return;
        };
        let mut size = Size::default();
        size.add_text(&event.action);
        size.add_text(event.principal.as_deref().unwrap_or(""));
        size.add(&event.args, &mut |_| {});
        to.extend(
            self.texts
                .range(..size.longest)
                .map(|(_, places)| places.as_slice()),
        );
        to.extend(
            self.values
                .range(..size.values)
                .map(|(_, places)| places.as_slice()),
        );
        let mut hits = Hits::new(self.found.len());
        for (_, value) in pairs
            .iter()
            .filter(|(name, _)| self.any || self.args.contains(name.as_ref()))
        {
            Size::default().add(value, &mut |text| hits.read(automaton, text));
        }
        let hit = hits.ids.iter().filter_map(|id| self.found.get(*id));
        to.extend(hit.map(Vec::as_slice));
    }

    /// The places of all rules here.
    #[must_use]
    pub fn all(&self) -> &[usize] {
        &self.all
    }
}

fn put(places: &mut Places, place: usize) {
    if places.last() != Some(&place) {
        places.push(place);
    }
}

/// How large an event is, as far as rules have limits.
#[derive(Default)]
struct Size {
    longest: usize, // bytes of a text, in whichever form
    values: usize,
}

impl Size {
    /// Add a value and all in it; `see` is called with each text.
    fn add<'v>(&mut self, value: &'v Value<'_>, see: &mut dyn FnMut(&'v str)) {
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            self.values += 1;
            match value {
                Value::Str(text) => {
                    self.add_text(text);
                    see(text);
                }
                Value::List(items) => open.extend(items),
                Value::Map(pairs) => open.extend(pairs.iter().map(|(_, held)| held)),
                _ => {}
            }
        }
    }

    fn add_text(&mut self, text: &str) {
        let most = if text.is_ascii() { 1 } else { LONGEST };
        self.longest = self.longest.max(text.len().saturating_mul(most));
    }
}

/// The literals found so far, each once.
struct Hits {
    seen: Vec<bool>,
    ids: Vec<usize>,
}

impl Hits {
    fn new(literals: usize) -> Self {
        Self {
            seen: vec![false; literals],
            ids: Vec::new(),
        }
    }

    /// Look through a text as it stands, and in its normal form.
    fn read(&mut self, automaton: &AhoCorasick, text: &str) {
        self.search(automaton, text);
        let form = normal(text);
        if form != text {
            self.search(automaton, &form);
        }
    }

    fn search(&mut self, automaton: &AhoCorasick, text: &str) {
        for hit in automaton.find_overlapping_iter(text) {
            let id = hit.pattern().as_usize();
            if let Some(seen) = self.seen.get_mut(id).filter(|seen| !**seen) {
                *seen = true;
                self.ids.push(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::literals_of;

    #[test]
    fn of_a_pattern_what_every_match_holds_is_known() {
        let found = |spelling: &str| {
            let texts = literals_of(spelling)?;
            let texts: Option<Vec<_>> = texts
                .into_iter()
                .map(|text| String::from_utf8(text).ok())
                .collect();
            texts.map(|texts| texts.join(" "))
        };
        for (spelling, expected) in [
            (r"rm\s+-rf", Some("-rf")),
            (r"[\x{72}-\x{72}][\x{6d}-\x{6d}]x", Some("rmx")),
            (r"(?:curl|wget)\s+x", Some("curl wget")),
            (r"(?:curl|.)\s+x", None),
            (r"(?i)Drop\s+Table", Some("table")),
            (r"(?:abc){2,}", Some("abcabc")),
            (r"(?:abc)*", None),
            (r"a.*bcd.*e", Some("bcd")),
            (r"\A\z", None),
            (r"[a-z]{9}", None),
        ] {
            assert_eq!(found(spelling).as_deref(), expected, "{spelling}");
        }
    }
}
