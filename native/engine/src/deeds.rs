//! Conditions on what a call does: its intents, the hosts it leads to, where its values came from. As
//! `engine/policy/conditions_call.py`, in the form that the planner writes.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::analysis::effects::Intent;
use crate::context::Context;
use crate::detectors::addresses::{is_public, CLOUD_METADATA};
use crate::detectors::hosts::NoHost;
use crate::matching::{Test, Unjudged};
use crate::rx::Rx;
use crate::value::{Event, Origin, Value};

const UNKNOWN: &str = "unknown"; // a source that passes for every other

static STEP: LazyLock<Rx> =
    LazyLock::new(|| Rx::new(r#"\.?([^.\[\]"]+)|\[(\*|[0-9]{1,9})\]|\[("(?:[^"\\]|\\.)*")\]"#));

/// What one intent has to be.
#[derive(Clone, Debug)]
pub enum IntentTest {
    /// Of this name, or of one below it.
    Named(String),
    /// Of fields that pass.
    Fields(Vec<(Field, Test)>),
}

/// A field of an intent.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Field {
    /// Its name.
    Name,
    /// Its effect.
    Effect,
    /// What it is about.
    Target,
    /// Where that lies.
    Scope,
    /// Whose effect it is.
    Program,
    /// Whether it can be undone.
    Reversible,
}

impl IntentTest {
    /// Compile `{"named": NAME}` or `{"fields": [[FIELD, TEST], ...]}`.
    ///
    /// # Errors
    /// One line, for what is neither.
    pub fn new(json: &Json) -> Result<Self, String> {
        let pairs = json.as_object().filter(|pairs| pairs.len() == 1);
        let (key, value) = pairs
            .and_then(|pairs| pairs.iter().next())
            .ok_or("is no intent")?;
        match (key.as_str(), value) {
            ("named", Json::String(name)) => Ok(Self::Named(name.clone())),
            ("fields", Json::Array(rows)) => rows
                .iter()
                .map(field)
                .collect::<Result<_, _>>()
                .map(Self::Fields),
            _ => Err("is no intent".to_owned()),
        }
    }

    /// Whether one of the intents of a call passes.
    ///
    /// # Errors
    /// Where a test cannot judge one.
    pub fn holds(&self, context: &Context<'_, '_>) -> Result<bool, Unjudged> {
        for intent in context.intents() {
            if self.passes(intent)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn passes(&self, intent: &Intent) -> Result<bool, Unjudged> {
        match self {
            Self::Named(name) => {
                let below = intent.name.strip_prefix(name.as_str());
                Ok(below.is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
            }
            Self::Fields(tests) => {
                for (field, test) in tests {
                    if !test_field(*field, test, intent)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

fn field(row: &Json) -> Result<(Field, Test), String> {
    match row.as_array().map(Vec::as_slice) {
        Some([name, test]) => {
            let field = Field::deserialize(name).map_err(|_| "unknown field of an intent")?;
            Ok((field, Test::new(test)?))
        }
        _ => Err("is no field and its test".to_owned()),
    }
}

fn test_field(field: Field, test: &Test, intent: &Intent) -> Result<bool, Unjudged> {
    match field {
        Field::Name => test.holds_of_text(intent.name),
        Field::Effect => test.holds_of_text(intent.effect),
        Field::Target => test.holds_of_text(&intent.target),
        Field::Scope => test.holds_of_text(intent.scope),
        Field::Program => test.holds_of_text(&intent.program),
        Field::Reversible => test.holds(&Value::Bool(intent.reversible)),
    }
}

/// What one host has to be.
#[derive(Clone, Debug)]
pub struct HostTest {
    classes: Option<Vec<String>>,
    /// The test of its name.
    pub test: Option<Test>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostDoc {
    classes: Option<Vec<String>>,
    test: Option<Json>,
}

impl HostTest {
    /// Compile `{"classes": [NAME, ...] or null, "test": TEST or null}`.
    ///
    /// # Errors
    /// One line, for what is none.
    pub fn new(json: &Json) -> Result<Self, String> {
        let doc = HostDoc::deserialize(json).map_err(|_| "is no test of hosts")?;
        let known = |class: &String| {
            ["loopback", "metadata", "private", "public"].contains(&class.as_str())
        };
        if doc.classes.iter().flatten().any(|class| !known(class)) {
            return Err("unknown class of hosts".to_owned());
        }
        let test = doc.test.as_ref().map(Test::new).transpose()?;
        Ok(Self {
            classes: doc.classes,
            test,
        })
    }

    /// Whether one of the hosts that a call leads to passes.
    ///
    /// # Errors
    /// Where a host cannot be read before one passes.
    pub fn holds(&self, context: &Context<'_, '_>) -> Result<bool, Unjudged> {
        let hosts = context.hosts();
        for host in &hosts.names {
            if self.passes(host)? {
                return Ok(true);
            }
        }
        match hosts.trouble {
            None => Ok(false),
            Some(NoHost::Unable) => Err(Unjudged::Unable),
            Some(NoHost::Bad(what)) => {
                let what = format!("the call leads to a host that cannot be read: {what}");
                Err(Unjudged::Cannot(what))
            }
        }
    }

    fn passes(&self, host: &str) -> Result<bool, Unjudged> {
        if let Some(classes) = &self.classes {
            if !classes.iter().any(|class| is_of(class, host)) {
                return Ok(false);
            }
        }
        self.test
            .as_ref()
            .map_or(Ok(true), |test| test.holds_of_text(host))
    }
}

fn is_of(class: &str, host: &str) -> bool {
    let metadata = CLOUD_METADATA.contains(&host);
    match class {
        "loopback" => {
            let below = host.strip_suffix("localhost");
            host.starts_with("127.")
                || host == "::1"
                || below.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        }
        "metadata" => metadata,
        "private" => !is_public(host) || metadata,
        _ => is_public(host) && !metadata,
    }
}

/// Where a value has to come from, and where it must stand.
#[derive(Clone, Debug)]
pub struct Flow {
    source: Test,
    sink: Option<Vec<(Option<Test>, Vec<Step>)>>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Step {
    Index(u64),
    Key(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlowDoc {
    source: Json,
    sink: Option<Vec<(Json, Vec<Step>)>>,
}

impl Flow {
    /// Compile `{"source": TEST, "sink": [[TEST of the action or null, [STEP, ...]], ...] or null}`.
    ///
    /// # Errors
    /// One line, for what is none.
    pub fn new(json: &Json) -> Result<Self, String> {
        let doc = FlowDoc::deserialize(json).map_err(|_| "is no flow")?;
        let reading = |(action, steps): (Json, Vec<Step>)| match action {
            Json::Null => Ok((None, steps)),
            test => Test::new(&test).map(|test| (Some(test), steps)),
        };
        let sink = doc
            .sink
            .map(|rows| rows.into_iter().map(reading).collect::<Result<_, String>>());
        Ok(Self {
            source: Test::new(&doc.source)?,
            sink: sink.transpose()?,
        })
    }

    /// The first origin of an event that matches and stands at the sink.
    ///
    /// # Errors
    /// Where a test cannot judge one.
    pub fn first<'e, 'a>(&self, event: &'e Event<'a>) -> Result<Option<&'e Origin<'a>>, Unjudged> {
        for origin in &event.origins {
            let of_source =
                origin.source == UNKNOWN || self.source.holds_of_text(&origin.source)?;
            if of_source && self.is_at_sink(event, &origin.path)? {
                return Ok(Some(origin));
            }
        }
        Ok(None)
    }

    fn is_at_sink(&self, event: &Event<'_>, path: &str) -> Result<bool, Unjudged> {
        let Some(readings) = &self.sink else {
            return Ok(true);
        };
        let steps = steps_of(path);
        for (action, wanted) in readings {
            let of_action = action
                .as_ref()
                .map_or(Ok(true), |test| test.holds_of_text(&event.action))?;
            if of_action && steps.as_ref().is_none_or(|steps| meet(steps, wanted)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The steps of a path; none where it is no path.
fn steps_of(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut at = 0;
    while at < path.len() {
        let found = STEP.match_at(path, at)?;
        if found.group(1).is_some() && found.whole().starts_with('.') == steps.is_empty() {
            return None;
        }
        at = found.end();
        let any = || Step::Key("*".to_owned());
        steps.push(match (found.group(1), found.group(2), found.group(3)) {
            (Some(name), ..) => Step::Key(name.to_owned()),
            (_, Some(index), _) => index.parse().map_or_else(|_| any(), Step::Index),
            (_, _, quoted) => quoted
                .and_then(|text| serde_json::from_str(text).ok())
                .map_or_else(any, Step::Key),
        });
    }
    Some(steps)
}

/// Whether one path is the other or leads to it; a star is any step.
fn meet(a: &[Step], b: &[Step]) -> bool {
    let any = |step: &Step| matches!(step, Step::Key(name) if name == "*");
    a.iter().zip(b).all(|(x, y)| x == y || any(x) || any(y))
}

#[cfg(test)]
mod tests {
    use super::{is_of, meet, steps_of};

    #[test]
    fn a_host_has_its_classes() {
        assert!(
            is_of("loopback", "a.localhost")
                && is_of("loopback", "127.1.2.3")
                && is_of("private", "10.0.0.1")
        );
        assert!(
            is_of("metadata", "metadata")
                && is_of("private", "169.254.169.254")
                && is_of("public", "a.example")
        );
        assert!(!is_of("public", "100.100.100.200") && !is_of("loopback", "notlocalhost"));
    }

    #[test]
    fn paths_meet_where_one_leads_to_the_other() {
        let met = |a: &str, b: &str| steps_of(a).zip(steps_of(b)).map(|(a, b)| meet(&a, &b));
        assert_eq!(met("body", "body.text"), Some(true));
        assert_eq!(met("to[1].name", "to[*]"), Some(true));
        assert_eq!(met("a[\"x.y\"]", "a.z"), Some(false));
        assert_eq!(met("", "a"), Some(true));
        assert_eq!(steps_of(".a"), None);
        assert_eq!(steps_of("a b[x]"), None);
    }
}
