//! What is judged, as borrowed values: an event and the JSON-like values of its arguments.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// One value of an argument. Maps keep the order they were given in.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Nothing.
    Null,
    /// A truth value, which is never a number.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other finite number.
    Float(f64),
    /// A text.
    Str(Cow<'a, str>),
    /// A list.
    List(Vec<Value<'a>>),
    /// A mapping with texts as keys.
    Map(Vec<(Cow<'a, str>, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// The text, where it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The value under a key of a mapping.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        match self {
            Value::Map(pairs) => pairs
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }
}

/// Before an action takes effect, or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The call, with its arguments.
    Call,
    /// What the tool returned.
    Result,
}

/// Where a value came from: a tool or a principal, and the argument's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin<'a> {
    /// `tool:NAME` or `principal:NAME`.
    pub source: Cow<'a, str>,
    /// The argument's path; empty for the whole event.
    pub path: Cow<'a, str>,
}

/// One action of an agent, as `SensorEvent` in Python.
#[derive(Clone, Debug, PartialEq)]
pub struct Event<'a> {
    /// The tool's name.
    pub action: Cow<'a, str>,
    /// Its arguments, a `Value::Map`; of a result, what the tool returned.
    pub args: Value<'a>,
    /// Call or result.
    pub phase: Phase,
    /// Who acts.
    pub principal: Option<Cow<'a, str>>,
    /// Where a command would run.
    pub cwd: Option<Cow<'a, str>>,
    /// Which tools or principals its values came from.
    pub origins: Vec<Origin<'a>>,
    /// The pinned listing of the MCP server's tool.
    pub server_pin: Option<Cow<'a, str>>,
    /// Where absolute paths and those below `~` lead once each symbolic link is followed, as far as that is known.
    pub links: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
}

impl<'a> Event<'a> {
    /// An argument by its name.
    #[must_use]
    pub fn arg(&self, name: &str) -> Option<&Value<'a>> {
        self.args.get(name)
    }
}
