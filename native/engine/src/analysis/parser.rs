//! A bounded parser of POSIX sh, bash and zsh commands as agents write them.

use super::tree::Script;

/// The commands of a text that an analysis made itself, in which unknown parts are marked.
#[must_use]
pub fn parse_marked(_command: &str) -> Script {
    Script::default()
}
