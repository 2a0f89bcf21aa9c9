//! Conditions: the `when` of a rule, as `engine/policy/conditions.py`.

use serde_json::{Map, Value as Json};

use crate::argpath::ArgPath;
use crate::context::Context;
use crate::deeds::{Flow, HostTest, IntentTest};
use crate::detectors::Detector;
use crate::index::Key;
use crate::literals::Need;
use crate::matching::{one_holds, Test, Unjudged};
use crate::touched::PathTest;
use crate::value::Phase;

const MAX_NESTING: usize = 64; // conditions within each other; a policy document allows fewer

/// A compiled condition.
#[derive(Clone, Debug)]
pub enum Condition {
    /// Each holds; asked in order, up to the first that does not.
    All(Vec<Condition>),
    /// One holds; asked in order, up to the first that does.
    Any(Vec<Condition>),
    /// It does not hold.
    Not(Box<Condition>),
    /// The tool's name passes.
    Action(Test),
    /// The principal is known and passes.
    Principal(Test),
    /// The event is of this phase.
    Phase(Phase),
    /// Any value at the path passes.
    Arg(ArgPath, Test),
    /// One intent of the call passes.
    Intent(IntentTest),
    /// One host that it leads to passes.
    Host(HostTest),
    /// One path that it touches passes.
    Path(PathTest),
    /// One of its values came from there.
    Flow(Flow),
    /// The detector objects.
    Detector(Detector),
}

impl Condition {
    /// Compile a condition from its document form.
    ///
    /// # Errors
    /// One line, for what this engine does not know.
    pub fn new(json: &Json) -> Result<Self, String> {
        Self::nested(json, 0)
    }

    fn nested(json: &Json, depth: usize) -> Result<Self, String> {
        if depth > MAX_NESTING {
            return Err(format!("is nested deeper than {MAX_NESTING} levels"));
        }
        let body = json.as_object().ok_or("is not a condition")?;
        if let Some(path) = body.get("arg") {
            return arg(path, body);
        }
        if let Some(name) = body.get("detector") {
            return detector(name, body);
        }
        let mut pairs = body.iter();
        let (Some((kind, value)), None) = (pairs.next(), pairs.next()) else {
            return Err("is not a condition of one kind".to_owned());
        };
        match kind.as_str() {
            "all" => parts(value, depth).map(Self::All),
            "any" => parts(value, depth).map(Self::Any),
            "not" => Ok(Self::Not(Box::new(Self::nested(value, depth + 1)?))),
            "action" => Test::new(value).map(Self::Action),
            "principal" => Test::new(value).map(Self::Principal),
            "phase" => phase_of(value).map(Self::Phase),
            "intent" => IntentTest::new(value).map(Self::Intent),
            "host" => HostTest::new(value).map(Self::Host),
            "path" => PathTest::new(value).map(Self::Path),
            "flow" => Flow::new(value).map(Self::Flow),
            _ => Err("unknown condition".to_owned()),
        }
    }

    /// Whether the condition holds of an event.
    ///
    /// # Errors
    /// Where it cannot judge the event.
    pub fn holds(&self, context: &Context<'_, '_>) -> Result<bool, Unjudged> {
        let event = context.event;
        match self {
            Self::All(parts) => {
                for part in parts {
                    if !part.holds(context)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(parts) => one_holds(parts, |part| part.holds(context)),
            Self::Not(part) => Ok(!part.holds(context)?),
            Self::Action(test) => test.holds_of_text(&event.action),
            Self::Principal(test) => match &event.principal {
                Some(name) => test.holds_of_text(name),
                None => Ok(false),
            },
            Self::Phase(phase) => Ok(*phase == event.phase),
            Self::Arg(path, test) => path.any_value(&event.args, &mut |value| test.holds(value)),
            Self::Intent(test) => test.holds(context),
            Self::Host(test) => test.holds(context),
            Self::Path(test) => test.holds(context),
            Self::Flow(flow) => Ok(flow.first(event)?.is_some()),
            Self::Detector(detector) => Ok(detector.judge(context)?.is_some()),
        }
    }

    /// Keys of which each event meets one that the condition holds of, or cannot judge. `None`: any event may.
    ///
    /// An action too long for a glob is left to whoever looks keys up. With `literals`, keys may be literals that a
    /// text has to hold.
    #[must_use]
    pub fn keys(&self, literals: bool) -> Option<Vec<Key>> {
        match self {
            Self::All(parts) => {
                let mut best: Option<Vec<Key>> = None;
                for part in parts {
                    if let Some(found) = part.keys(literals) {
                        let rank = |keys: &Vec<Key>| keys.iter().map(Key::rank).min();
                        if best.as_ref().is_none_or(|known| rank(&found) > rank(known)) {
                            best = Some(found);
                        }
                    }
                    if !part.is_total() {
                        break; // what stands behind it is not always asked first
                    }
                }
                best
            }
            Self::Any(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    all.extend(part.keys(literals)?);
                }
                Some(all)
            }
            Self::Action(test) => match (test.only_texts(), test.prefix()) {
                (Some(texts), _) => Some(
                    texts
                        .into_iter()
                        .map(|t| Key::Action(t.to_owned()))
                        .collect(),
                ),
                (None, Some(prefix)) => Some(vec![Key::ActionPrefix(prefix.to_owned())]),
                (None, None) => None,
            },
            Self::Arg(path, test) => {
                let only = path.name().zip(test.only_texts());
                if let Some((name, texts)) = only.filter(|_| test.is_total()) {
                    let key = |text: &str| Key::Arg(name.to_owned(), text.to_owned());
                    return Some(texts.into_iter().map(key).collect());
                }
                let found = test.literals().filter(|_| literals)?;
                Some(vec![Key::Literal(Need {
                    arg: path.argument().map(str::to_owned),
                    literals: found,
                    text: test.sure_length(),
                    values: path.sure_values(),
                })])
            }
            Self::Host(host) => host_keys(host.test.as_ref()?),
            Self::Detector(detector) => Some(vec![Key::Listed(detector.listed()?)]),
            _ => None,
        }
    }

    /// Whether the condition judges every event (with an action of ordinary length).
    fn is_total(&self) -> bool {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().all(Self::is_total),
            Self::Not(part) => part.is_total(),
            Self::Principal(test) => test.is_total(),
            Self::Arg(path, test) => path.is_plain() && test.is_total(),
            Self::Action(_)
            | Self::Phase(_)
            | Self::Detector(_)
            | Self::Intent(IntentTest::Named(_)) => true,
            Self::Intent(_) | Self::Host(_) | Self::Path(_) | Self::Flow(_) => false,
        }
    }
}

/// The keys of a test of hosts; where a host cannot be read, whoever looks keys up asks every rule.
fn host_keys(test: &Test) -> Option<Vec<Key>> {
    if let Some(texts) = test.only_texts() {
        return Some(
            texts
                .into_iter()
                .map(|text| Key::Host(text.to_owned()))
                .collect(),
        );
    }
    let below = test.glob_suffix()?.strip_prefix('.')?;
    Some(vec![Key::HostBelow(below.to_owned())])
}

fn parts(value: &Json, depth: usize) -> Result<Vec<Condition>, String> {
    let items = value.as_array().filter(|items| !items.is_empty());
    let items = items.ok_or("is not a list of conditions")?;
    items
        .iter()
        .map(|item| Condition::nested(item, depth + 1))
        .collect()
}

fn arg(path: &Json, body: &Map<String, Json>) -> Result<Condition, String> {
    let most = body
        .get("values")
        .and_then(Json::as_u64)
        .and_then(|most| usize::try_from(most).ok());
    let path = path.as_str().ok_or("arg: is not a path")?;
    match (body.get("test"), most, body.len()) {
        (Some(test), Some(most), 3) => {
            Ok(Condition::Arg(ArgPath::new(path, most)?, Test::new(test)?))
        }
        _ => Err("arg: stands with other than its test and values".to_owned()),
    }
}

fn detector(name: &Json, body: &Map<String, Json>) -> Result<Condition, String> {
    detector_of(name, body).map(Condition::Detector)
}

/// A detector of `{"detector": NAME, "params": {...}}`.
///
/// # Errors
/// One line, for a detector that is not native, or for bad parameters.
pub fn detector_of(name: &Json, body: &Map<String, Json>) -> Result<Detector, String> {
    if let Some(other) = body
        .keys()
        .find(|key| *key != "detector" && *key != "params")
    {
        return Err(format!("unknown field {other:?}"));
    }
    let name = name.as_str().ok_or("detector: is not a name")?;
    let none = Map::new();
    let params = match body.get("params") {
        None => &none,
        Some(given) => given.as_object().ok_or("params: is not an object")?,
    };
    Detector::new(name, params)
}

/// A phase by its name.
///
/// # Errors
/// One line, for another word.
pub fn phase_of(value: &Json) -> Result<Phase, String> {
    match value.as_str() {
        Some("call") => Ok(Phase::Call),
        Some("result") => Ok(Phase::Result),
        _ => Err("is not a phase".to_owned()),
    }
}
