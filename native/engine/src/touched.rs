//! Conditions on the paths that a call touches, as `engine/policy/conditions_call.py`, in the form that the planner
//! writes. Where a path leads is a fact of the event (`Event::links`): nothing here asks a file system.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::analysis::effects::Intent;
use crate::context::Context;
use crate::matching::{Test, Unjudged};
use crate::normalise::normal;
use crate::rx::Rx;

const ACCESSES: [&str; 3] = ["read", "write", "delete"];
const NO_PATH: [&str; 3] = ["remote", "cloud", "unknown"]; // scopes whose targets are no paths

static HOMES: LazyLock<Rx> = LazyLock::new(|| Rx::new(r"/(?:home|Users)/[^/]+|/root"));

/// The path that an intent is about; none where its effect is no access, or its target no path.
fn path_of(intent: &Intent) -> Option<&str> {
    let touches = ACCESSES.contains(&intent.effect) && !NO_PATH.contains(&intent.scope);
    (touches && !intent.target.is_empty()).then_some(&intent.target)
}

/// Whether a file system knows where a path leads.
fn may_lead(path: &str) -> bool {
    path.starts_with(['/', '~'])
}

/// The paths of some intents of which a rule may ask where they lead, each once.
#[must_use]
pub fn leading(intents: &[Intent]) -> Vec<String> {
    let mut paths: Vec<String> = Vec::new();
    let touched = intents.iter().filter_map(path_of);
    for path in touched.filter(|path| may_lead(path)) {
        if !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }
    paths
}

/// What one path that a call touches has to be.
#[derive(Clone, Debug)]
pub struct PathTest {
    accesses: Vec<String>,
    under: Option<Vec<String>>,
    test: Option<Test>,
    links: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathDoc {
    accesses: Vec<String>,
    under: Option<Vec<String>>,
    test: Option<Json>,
    links: bool,
}

impl PathTest {
    /// Compile `{"accesses": ["write", ...], "under": [DIRECTORY, ...] or null, "test": TEST or null,
    /// "links": false}`; a directory is in its normal form, without a slash at its end. With `links`, the path that
    /// symbolic links lead to is tried too.
    ///
    /// # Errors
    /// One line, for what is none.
    pub fn new(json: &Json) -> Result<Self, String> {
        let doc = PathDoc::deserialize(json).map_err(|_| "is no test of paths")?;
        let test = doc.test.as_ref().map(Test::new).transpose()?;
        Ok(Self {
            accesses: doc.accesses,
            under: doc.under,
            test,
            links: doc.links,
        })
    }

    /// Whether one of the paths that a call touches passes.
    ///
    /// # Errors
    /// Where a test cannot judge one, or where it is not known where one leads.
    pub fn holds(&self, context: &Context<'_, '_>) -> Result<bool, Unjudged> {
        let event = context.event;
        let asked = |intent: &&Intent| self.accesses.iter().any(|access| access == intent.effect);
        let touched = || context.intents().iter().filter(asked).filter_map(path_of);
        for path in touched() {
            let here = seen_from(event.cwd.as_deref().unwrap_or(""), path);
            if self.passes(path)? || here.map_or(Ok(false), |path| self.passes(&path))? {
                return Ok(true);
            }
        }
        for path in touched().filter(|path| self.links && may_lead(path)) {
            let place = event.links.get(path).ok_or(Unjudged::Leads)?;
            if self.passes(place)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn passes(&self, path: &str) -> Result<bool, Unjudged> {
        if let Some(tops) = &self.under {
            if !tops.iter().any(|top| is_below(path, top)) {
                return Ok(false);
            }
        }
        self.test
            .as_ref()
            .map_or(Ok(true), |test| test.holds_of_text(path))
    }
}

/// A path in the directory that the agent works in, as seen from there.
fn seen_from(cwd: &str, path: &str) -> Option<String> {
    let rest = path.strip_prefix(cwd.trim_end_matches('/'))?;
    let inside = cwd.starts_with('/') && (rest.is_empty() || rest.starts_with('/'));
    inside.then(|| format!(".{}", rest.trim_end_matches('/')))
}

fn is_below(path: &str, top: &str) -> bool {
    let text = normal(path);
    let home = HOMES.match_at(&text, 0).filter(|_| top.starts_with('~'));
    let inside = home
        .and_then(|home| text.get(home.end()..))
        .map(|rest| format!("~{rest}"));
    let text = inside.as_deref().unwrap_or(&text);
    text.strip_prefix(top)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::{is_below, seen_from};

    #[test]
    fn a_path_lies_below_a_directory_and_a_home_is_a_home() {
        for (path, top, expected) in [
            ("/etc", "/etc", true),
            ("/etc/passwd", "/etc", true),
            ("/etcetera", "/etc", false),
            ("/home/dev/.ssh/id", "~/.ssh", true),
            ("/root/.ssh", "~/.ssh", true),
            ("/srv/.ssh", "~/.ssh", false),
            ("/anything", "", true),
            ("relative", "", false),
            ("./build/x", "./build", true),
        ] {
            assert_eq!(is_below(path, top), expected, "{path} {top}");
        }
    }

    #[test]
    fn what_lies_in_the_working_directory_is_also_seen_from_there() {
        for (cwd, path, expected) in [
            ("/w/p", "/w/p/x/y", Some("./x/y")),
            ("/w/p/", "/w/p", Some(".")),
            ("/w/p", "/w/px", None),
            ("/", "/etc", Some("./etc")),
            ("/", "/", Some(".")),
            ("", "/etc", None),
            ("w", "w/x", None),
        ] {
            assert_eq!(seen_from(cwd, path).as_deref(), expected, "{cwd} {path}");
        }
    }
}
