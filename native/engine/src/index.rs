//! Which rules an event can concern, found by its action and arguments instead of by asking each rule.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use crate::conditions::Condition;
use crate::context::Context;
use crate::detectors::indicator::{Digests, Kind, Mark};
use crate::fast::{Fast, Table};
use crate::literals::{Literals, Need};
use crate::matching::MAX_TEXT;
use crate::normalise::normal;

const FEW: usize = 8; // lists of places that are merged as they are read
const MANY: usize = 16; // rules that need literals, from which on a pass over the texts costs less than they

/// What an event must have for a rule to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// The action is this one.
    Action(String),
    /// The action begins so.
    ActionPrefix(String),
    /// The argument of this name is this text.
    Arg(String, String),
    /// The call leads to this host.
    Host(String),
    /// The call leads to a host below this one.
    HostBelow(String),
    /// The call names one of some indicators.
    Listed(Arc<Digests>),
    /// A text holds one of some literals.
    Literal(Need),
}

impl Key {
    /// How few events a key of this kind concerns; of two, the higher one is used.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match self {
            Key::ActionPrefix(_) => 0,
            Key::Action(_) => 1,
            Key::HostBelow(_) | Key::Literal(_) => 2,
            Key::Arg(..) | Key::Host(_) | Key::Listed(_) => 3,
        }
    }
}

type Places = Vec<usize>; // of rules, rising

/// The places of rules by what they need.
#[derive(Clone, Debug, Default)]
pub struct Index {
    all: Places,
    any: Places,
    actions: Table<Places>,
    prefixes: Table<Places>,
    lengths: Vec<usize>, // of the prefixes, rising
    args: BTreeMap<String, Table<Places>>,
    hosts: Table<Places>,
    above: Table<Places>,
    leading: Places, // those that ask where a call leads
    marks: HashMap<Mark, Places, BuildHasherDefault<Fast>>,
    kinds: Vec<Kind>, // of the marks, each once
    listing: Places,  // those that ask for marks
    literals: Literals,
}

impl Index {
    /// The index over the rules at some places that rise, by their conditions.
    #[must_use]
    pub fn of(rules: &[(usize, Option<&Condition>)]) -> Self {
        let mut keyed: Vec<_> = rules
            .iter()
            .map(|(place, when)| (*place, when.and_then(|when| when.keys(true))))
            .collect();
        let literal = |key: &Key| matches!(key, Key::Literal(_));
        let needy = keyed.iter().filter_map(|(_, keys)| keys.as_ref());
        if needy.filter(|keys| keys.iter().any(literal)).count() < MANY {
            for ((_, keys), (_, when)) in keyed.iter_mut().zip(rules) {
                *keys = when.and_then(|when| when.keys(false));
            }
        }
        let mut index = Self::default();
        for (place, keys) in &keyed {
            index.add(*place, keys.as_deref());
        }
        index.literals.close();
        index
    }

    /// Add the next rule, with its keys; `None` where every event concerns it.
    fn add(&mut self, place: usize, keys: Option<&[Key]>) {
        let Some(keys) = keys else {
            self.any.push(place);
            return;
        };
        for key in keys {
            let places = match key {
                Key::Action(name) => self.actions.entry(name.clone()).or_default(),
                Key::ActionPrefix(start) => {
                    if let Err(at) = self.lengths.binary_search(&start.len()) {
                        self.lengths.insert(at, start.len());
                    }
                    self.prefixes.entry(start.clone()).or_default()
                }
                Key::Arg(name, text) => {
                    let table = self.args.entry(name.clone()).or_default();
                    table.entry(text.clone()).or_default()
                }
                Key::Host(host) => {
                    put(&mut self.leading, place);
                    self.hosts.entry(host.clone()).or_default()
                }
                Key::HostBelow(host) => {
                    put(&mut self.leading, place);
                    self.above.entry(host.clone()).or_default()
                }
                Key::Listed(digests) => {
                    self.list(place, digests);
                    continue;
                }
                Key::Literal(need) => {
                    self.literals.add(place, need);
                    continue;
                }
            };
            put(places, place);
        }
    }

    fn list(&mut self, place: usize, digests: &Digests) {
        put(&mut self.listing, place);
        for mark in &digests.marks {
            put(self.marks.entry(*mark).or_default(), place);
        }
        for kind in &digests.kinds {
            if !self.kinds.contains(kind) {
                self.kinds.push(*kind);
            }
        }
    }

    /// Call `ask` with the place of each rule between two places that the event can concern, in order, until it
    /// returns false.
    pub fn each(
        &self,
        context: &Context<'_, '_>,
        (lo, hi): (usize, usize),
        ask: &mut dyn FnMut(usize) -> bool,
    ) {
        let found = self.found(context, (lo, hi));
        let mut parts: Vec<&[usize]> = found
            .iter()
            .map(|places| between(places, lo, hi))
            .filter(|places| !places.is_empty())
            .collect();
        if parts.len() > FEW {
            let mut merged: Vec<usize> = parts.concat();
            merged.sort_unstable();
            merged.dedup();
            merged.iter().all(|place| ask(*place));
            return;
        }
        while let Some(next) = parts.iter().filter_map(|part| part.first()).min().copied() {
            if !ask(next) {
                return;
            }
            for part in &mut parts {
                if let Some((first, rest)) = part.split_first() {
                    *part = if *first == next { rest } else { part };
                }
            }
        }
    }

    fn found<'i>(
        &'i self,
        context: &Context<'_, '_>,
        (lo, hi): (usize, usize),
    ) -> Vec<&'i [usize]> {
        let event = context.event;
        let mut found = vec![self.any.as_slice()];
        if event.action.len() > MAX_TEXT {
            return vec![&self.all]; // a glob may have to say that it cannot judge it
        }
        for_each_form(&event.action, |action| {
            found.extend(self.actions.get(action).map(Vec::as_slice));
            for length in &self.lengths {
                let start = action.get(..*length);
                let places = start.and_then(|start| self.prefixes.get(start));
                found.extend(places.map(Vec::as_slice));
            }
        });
        for (name, table) in &self.args {
            if let Some(text) = event.arg(name).and_then(|value| value.as_str()) {
                for_each_form(text, |text| {
                    found.extend(table.get(text).map(Vec::as_slice));
                });
            }
        }
        if !between(self.literals.all(), lo, hi).is_empty() {
            self.literals.places(event, &mut found);
        }
        if !between(&self.leading, lo, hi).is_empty() {
            self.leading(context, &mut found);
        }
        if !between(&self.listing, lo, hi).is_empty() {
            self.listed(context, &mut found);
        }
        found
    }

    fn listed<'i>(&'i self, context: &Context<'_, '_>, found: &mut Vec<&'i [usize]>) {
        for kind in &self.kinds {
            let named = context.named(*kind);
            let places = named.marks.iter().filter_map(|mark| self.marks.get(mark));
            found.extend(places.map(Vec::as_slice));
            if named.unable {
                found.push(&self.listing); // one of them may be for the Python engine
            }
        }
    }

    fn leading<'i>(&'i self, context: &Context<'_, '_>, found: &mut Vec<&'i [usize]>) {
        let hosts = context.hosts();
        if hosts.trouble.is_some() {
            found.push(&self.leading); // each has to say that it cannot judge
            return;
        }
        for host in &hosts.names {
            found.extend(self.hosts.get(host).map(Vec::as_slice));
            let ends = host
                .match_indices('.')
                .filter_map(|(dot, _)| host.get(dot + 1..));
            let places = ends.filter_map(|end| self.above.get(end));
            found.extend(places.map(Vec::as_slice));
        }
    }
}

/// A text as it stands, which some tests read, and in its normal form, which the others read.
fn for_each_form(text: &str, mut see: impl FnMut(&str)) {
    see(text);
    if !text.is_ascii() {
        let form = normal(text);
        if form != text {
            see(&form);
        }
    }
}

fn put(places: &mut Places, place: usize) {
    if places.last() != Some(&place) {
        places.push(place);
    }
}

fn between(places: &[usize], lo: usize, hi: usize) -> &[usize] {
    let from = places.partition_point(|place| *place < lo);
    let to = places.partition_point(|place| *place < hi);
    places.get(from..to).unwrap_or_default()
}
