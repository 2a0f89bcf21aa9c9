//! What is known of programs, by name: handlers (builtins, wrappers, interpreters) and what programs do.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::programs::{archives, cloud, data, files, net, system, vcs};
use super::walk::{Handler, Program, Tables};
use super::{builtins, grammar, grammar_run, interpreters, places, wrappers};

/// The tables of this crate.
pub static TABLES: Tables = Tables {
    handler,
    programs,
    write: places::write,
    read: places::read,
};

/// What each program does: its grammar's word first, then what only code can say.
static PROGRAMS: LazyLock<HashMap<&'static str, Vec<Program>>> = LazyLock::new(|| {
    let mut found: HashMap<&'static str, Vec<Program>> = HashMap::new();
    for name in grammar::names() {
        found.entry(name).or_default().push(grammar_run::program);
    }
    let plain = [
        files::PROGRAMS,
        archives::PROGRAMS,
        vcs::PROGRAMS,
        net::PROGRAMS,
        system::PROGRAMS,
    ];
    let all = plain.into_iter().flatten().copied();
    for (name, program) in all.chain(cloud::programs()).chain(data::programs()) {
        found.entry(name).or_default().push(program);
    }
    found
});

/// How a program of this name runs other commands or changes the shell.
#[must_use]
pub fn handler(name: &str) -> Option<Handler> {
    builtins::handler(name)
        .or_else(|| interpreters::handler(name))
        .or_else(|| wrappers::handler(name))
}

/// What a program of this name would do.
#[must_use]
pub fn programs(name: &str) -> &'static [Program] {
    PROGRAMS.get(name).map_or(&[], Vec::as_slice)
}
