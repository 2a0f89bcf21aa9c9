//! What is known of programs, by name: handlers (builtins, wrappers, interpreters) and what programs do.

use super::effects::Finding;
use super::paths::Place;
use super::walk::{Handler, Program, Tables};

/// The tables of this crate.
pub static TABLES: Tables = Tables {
    handler,
    programs,
    write,
    read,
};

/// How a program of this name runs other commands or changes the shell.
#[must_use]
pub fn handler(_name: &str) -> Option<Handler> {
    None
}

/// What a program of this name would do.
#[must_use]
pub fn programs(_name: &str) -> &'static [Program] {
    &[]
}

/// What writing a file there means (`append` or not), beyond the write itself.
#[must_use]
pub fn write(_place: &Place, _append: bool) -> Vec<Finding> {
    Vec::new()
}

/// What reading a file there means.
#[must_use]
pub fn read(_place: &Place) -> Vec<Finding> {
    Vec::new()
}
