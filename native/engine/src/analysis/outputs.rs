//! What a command would print, where its text already says so.

use super::values::Arg;

/// What a program prints, as far as its text says.
#[must_use]
pub fn printed(_program: &str, _args: &[Arg], stdin: Option<&Arg>) -> Arg {
    Arg::unknown_from(stdin.map_or("", |arg| arg.taint))
}
