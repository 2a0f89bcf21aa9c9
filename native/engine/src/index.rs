//! Which rules an event can concern, found by its action and arguments instead of by asking each rule.

use std::collections::BTreeMap;

use crate::context::Context;
use crate::fast::Table;
use crate::matching::MAX_TEXT;

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
}

impl Key {
    /// How few events a key of this kind concerns; of two, the higher one is used.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match self {
            Key::ActionPrefix(_) => 0,
            Key::Action(_) => 1,
            Key::HostBelow(_) => 2,
            Key::Arg(..) | Key::Host(_) => 3,
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
}

impl Index {
    /// Add the next rule, with its keys; `None` where every event concerns it.
    pub fn add(&mut self, place: usize, keys: Option<&[Key]>) {
        self.all.push(place);
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
                Key::Host(host) => self.hosts.entry(host.clone()).or_default(),
                Key::HostBelow(host) => self.above.entry(host.clone()).or_default(),
            };
            if places.last() != Some(&place) {
                places.push(place);
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
        let found = self.found(context);
        let parts: Vec<&[usize]> = found
            .iter()
            .map(|places| between(places, lo, hi))
            .filter(|places| !places.is_empty())
            .collect();
        if let [only] = parts.as_slice() {
            only.iter().all(|place| ask(*place));
            return;
        }
        let mut merged: Vec<usize> = parts.concat();
        merged.sort_unstable();
        merged.dedup();
        merged.iter().all(|place| ask(*place));
    }

    fn found(&self, context: &Context<'_, '_>) -> Vec<&Places> {
        let event = context.event;
        let action = event.action.as_ref();
        // Keys are normal forms, as ASCII always is; and of a long action a glob may have to say that it cannot judge.
        let texts = self
            .args
            .keys()
            .filter_map(|name| event.arg(name)?.as_str());
        if action.len() > MAX_TEXT || !texts.chain([action]).all(str::is_ascii) {
            return vec![&self.all];
        }
        let mut found = vec![&self.any];
        found.extend(self.actions.get(action));
        for length in &self.lengths {
            found.extend(
                action
                    .get(..*length)
                    .and_then(|start| self.prefixes.get(start)),
            );
        }
        for (name, table) in &self.args {
            let text = event.arg(name).and_then(|value| value.as_str());
            found.extend(text.and_then(|text| table.get(text)));
        }
        if self.hosts.is_empty() && self.above.is_empty() {
            return found;
        }
        let hosts = context.hosts();
        if hosts.trouble.is_some() {
            return vec![&self.all]; // a rule that asks for hosts has to say that it cannot judge
        }
        for host in &hosts.names {
            found.extend(self.hosts.get(host));
            let ends = host
                .match_indices('.')
                .filter_map(|(dot, _)| host.get(dot + 1..));
            found.extend(ends.filter_map(|end| self.above.get(end)));
        }
        found
    }
}

fn between(places: &[usize], lo: usize, hi: usize) -> &[usize] {
    let from = places.partition_point(|place| *place < lo);
    let to = places.partition_point(|place| *place < hi);
    places.get(from..to).unwrap_or_default()
}
