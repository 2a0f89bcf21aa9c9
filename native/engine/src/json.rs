//! Events and outcomes as JSON, for callers that have no values of their own: C, and the conformance vectors.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{json, Map, Value as Json};

use crate::evaluate::{Decision, Outcome};
use crate::value::{Event, Origin, Phase, Value};

/// The parser reads a larger whole number as the nearest double, so that no larger one is taken at its word.
const EDGE: f64 = 9_223_372_036_854_775_808.0; // 2^63
/// Bytes of one event.
pub const MAX_BYTES: usize = 64 << 20;

/// An event, read; it lends its texts to `event`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventDoc {
    action: String,
    args: Map<String, Json>,
    #[serde(default)]
    phase: Phases,
    principal: Option<String>,
    cwd: Option<String>,
    /// Whether a result that was no object stands under the key "result".
    #[serde(default)]
    pub wrapped: bool,
    #[serde(default)]
    origins: Vec<OriginDoc>,
    server_pin: Option<String>,
    #[serde(default)]
    links: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Phases {
    #[default]
    Call,
    Result,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OriginDoc {
    source: String,
    #[serde(default)]
    path: String,
}

impl EventDoc {
    /// Read an event.
    ///
    /// # Errors
    /// One line, for what is none.
    pub fn new(json: &[u8]) -> Result<Self, String> {
        if json.len() > MAX_BYTES {
            return Err("the event is too large".to_owned());
        }
        serde_json::from_slice(json)
            .map_err(|e| format!("is no event (line {}, column {})", e.line(), e.column()))
    }

    /// The event.
    ///
    /// # Errors
    /// One line, for a number that is neither whole in 64 bits nor finite.
    pub fn event(&self) -> Result<Event<'_>, String> {
        let text = |text: &'_ Option<String>| text.clone().map(Cow::Owned);
        let origin = |doc: &OriginDoc| Origin {
            source: Cow::Owned(doc.source.clone()),
            path: Cow::Owned(doc.path.clone()),
        };
        Ok(Event {
            action: Cow::Borrowed(&self.action),
            args: map(&self.args)?,
            phase: match self.phase {
                Phases::Call => Phase::Call,
                Phases::Result => Phase::Result,
            },
            principal: text(&self.principal),
            cwd: text(&self.cwd),
            origins: self.origins.iter().map(origin).collect(),
            server_pin: text(&self.server_pin),
            links: links_of(&self.links),
        })
    }
}

/// Where paths lead, as an event holds it.
#[must_use]
pub fn links_of(links: &BTreeMap<String, String>) -> BTreeMap<Cow<'_, str>, Cow<'_, str>> {
    let pairs = links.iter();
    pairs
        .map(|(path, place)| (Cow::from(path), Cow::from(place)))
        .collect()
}

fn map(pairs: &Map<String, Json>) -> Result<Value<'_>, String> {
    let pairs = pairs
        .iter()
        .map(|(key, value)| Ok((Cow::Borrowed(key.as_str()), value_of(value)?)));
    pairs.collect::<Result<_, String>>().map(Value::Map)
}

/// The nesting of JSON is bounded by its parser.
fn value_of(json: &Json) -> Result<Value<'_>, String> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::String(text) => Value::Str(Cow::Borrowed(text)),
        Json::Array(items) => Value::List(items.iter().map(value_of).collect::<Result<_, _>>()?),
        Json::Object(pairs) => map(pairs)?,
        Json::Number(number) => match (number.as_i64(), number.is_f64(), number.as_f64()) {
            (Some(whole), ..) => Value::Int(whole),
            (None, true, Some(real)) if real.abs() < EDGE => Value::Float(real),
            _ => return Err("holds a number of more than 64 bits".to_owned()),
        },
    })
}

/// A value as JSON.
#[must_use]
pub fn json_of(value: &Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(truth) => json!(truth),
        Value::Int(whole) => json!(whole),
        Value::Float(real) => json!(real),
        Value::Str(text) => json!(text),
        Value::List(items) => Json::Array(items.iter().map(json_of).collect()),
        Value::Map(pairs) => Json::Object(
            pairs
                .iter()
                .map(|(k, v)| (k.to_string(), json_of(v)))
                .collect(),
        ),
    }
}

/// An outcome as JSON; `args` only where something was rewritten, and `leads` only where that is asked.
#[must_use]
pub fn json_of_outcome(outcome: &Outcome<'_>) -> Json {
    let rewritten = !outcome.rewritten.is_empty();
    let mut body = json_of_decision(&outcome.decision);
    if let Json::Object(fields) = &mut body {
        let args = if rewritten {
            json_of(&outcome.args)
        } else {
            Json::Null
        };
        let shadows = outcome
            .shadows
            .iter()
            .map(|(id, said)| json!([id, json_of_decision(said)]));
        fields.insert("args".to_owned(), args);
        fields.insert("rewritten".to_owned(), json!(outcome.rewritten));
        fields.insert("shadows".to_owned(), shadows.collect());
        if !outcome.leading.is_empty() {
            fields.insert("leads".to_owned(), json!(outcome.leading));
        }
    }
    body
}

fn json_of_decision(decision: &Decision) -> Json {
    json!({
        "verdict": decision.verdict.name(),
        "reason": decision.reason,
        "policy_id": decision.policy_id,
        "attributed_to": decision.attributed_to,
    })
}
