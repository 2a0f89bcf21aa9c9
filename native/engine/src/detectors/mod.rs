//! Detectors, one module a family; the same as `interlock/engine/detectors`, mask by mask and reason by reason.

pub mod addresses;
pub mod cards;
pub mod commands;
mod digits;
pub mod egress;
mod finds;
mod forms;
pub mod hosts;
mod ibans;
pub mod indicator;
mod installs;
mod jwt;
mod marked;
mod named;
pub mod outgoing;
pub mod pii;
mod places;
pub(crate) mod reading;
pub mod secrets;
pub mod texts;
pub mod together;
pub mod urls;
mod values;
pub mod walk;

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use crate::context::Context;
use crate::detectors::finds::MOST;
use crate::edits::Edit;
use crate::matching::Unjudged;
use crate::plan::Verdict;
use crate::value::Value;

/// What a detector says of an event.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Block, or modify where there are edits.
    pub verdict: Verdict,
    /// One line.
    pub reason: String,
    /// The detector's name.
    pub policy_id: &'static str,
    /// The path of the first argument that it is about.
    pub attributed_to: Option<String>,
    /// What it changes in the call's arguments, or in the whole result.
    pub edit: Option<Edit>,
}

/// A detector with its parameters.
#[derive(Clone, Debug)]
pub enum Detector {
    /// A call may reach only the hosts on a list.
    Egress(egress::Allowlist),
    /// Fires where a call names something whose digest is listed.
    Indicator(Arc<indicator::Digests>),
    /// Masks numbers that name a person or an account.
    Pii {
        /// E-mail addresses too.
        emails: bool,
        /// Finds of one text that are masked one by one.
        finds: usize,
    },
    /// Masks keys, tokens and passwords.
    Secrets {
        /// Finds of one text that are masked one by one.
        finds: usize,
    },
    /// Fires where a call leads inwards.
    PrivateNetwork {
        /// To cloud metadata only.
        metadata_only: bool,
        /// Hosts that it may lead to.
        allowed: HashSet<String>,
    },
    /// Fires at the first text that a test holds of.
    Text(TextTest),
}

/// Tests of one text.
#[derive(Clone, Debug)]
pub enum TextTest {
    /// Characters that nobody sees.
    Hidden,
    /// Control sequences of terminals.
    Escapes,
    /// Marks of roles.
    Marks,
    /// Phrases that speak to a model.
    Phrases,
    /// Letters of other alphabets in a host.
    Lookalike,
    /// A password in a URL.
    Password,
    /// A query of so many characters.
    Query(usize),
    /// An encoded run of so many characters.
    Encoded(usize),
    /// So many characters.
    Long(usize),
    /// Shell syntax in arguments of these names.
    Shell(HashSet<String>),
}

const SCANNED: usize = 1 << 20; // characters of one text that are looked at for what it hides

impl Detector {
    /// Compile a detector by its name.
    ///
    /// # Errors
    /// One line, for a detector that is not native, or for bad parameters.
    pub fn new(name: &str, params: &Map<String, Json>) -> Result<Self, String> {
        match name {
            "network_egress" => {
                let hosts = strings(params, "allowed_hosts")?;
                Ok(Self::Egress(egress::Allowlist::new(&hosts)?))
            }
            "indicator" => {
                indicator::Digests::new(params).map(|digests| Self::Indicator(Arc::new(digests)))
            }
            "pii_redaction" => {
                let (finds, own) = finds_of(params)?;
                pii::emails(&own).map(|emails| Self::Pii { emails, finds })
            }
            "secrets" => match finds_of(params)? {
                (finds, own) if own.is_empty() => Ok(Self::Secrets { finds }),
                _ => Err("takes no parameters".to_owned()),
            },
            "private_network" => private_network(params),
            _ => TextTest::new(name, params).map(Self::Text),
        }
    }

    /// The indicators of which an event that it says something of names one; none where it looks for other things.
    #[must_use]
    pub fn listed(&self) -> Option<Arc<indicator::Digests>> {
        match self {
            Self::Indicator(digests) => Some(Arc::clone(digests)),
            _ => None,
        }
    }

    /// What the detector says of an event.
    ///
    /// # Errors
    /// Where it needs what this engine has not.
    pub fn judge(&self, context: &Context<'_, '_>) -> Result<Option<Said>, Unjudged> {
        match self {
            Self::Egress(allowed) => egress::judge(allowed, context.event),
            Self::Indicator(digests) => indicator::judge(digests, context),
            Self::Pii { emails, finds } => {
                let find = |value: &Value<'_>, most| pii::mask(value, *emails, most);
                Ok(walk::mask(context, "pii_redaction", *finds, &find))
            }
            Self::Secrets { finds } => Ok(walk::mask(context, "secrets", *finds, &secrets::mask)),
            Self::PrivateNetwork {
                metadata_only,
                allowed,
            } => outgoing::private_network(context, *metadata_only, &|host| allowed.contains(host)),
            Self::Text(test) => Ok(test.judge(context)),
        }
    }
}

impl TextTest {
    fn new(name: &str, params: &Map<String, Json>) -> Result<Self, String> {
        let least = |default: usize| match (params.get("at_least"), params.len()) {
            (None, 0) => Ok(default),
            (Some(given), 1) => {
                let least = given.as_u64().filter(|least| *least > 0);
                least
                    .and_then(|least| usize::try_from(least).ok())
                    .ok_or("at_least: is no number of characters")
            }
            _ => Err("takes at_least only"),
        };
        Ok(match name {
            "url_data" => Self::Query(least(512)?),
            "encoded_payload" => Self::Encoded(least(1024)?),
            "oversized_text" => Self::Long(least(100_000)?),
            "shell_metacharacters" => Self::Shell(strings(params, "args")?.into_iter().collect()),
            _ if !params.is_empty() => {
                return Err("the detector is not native with parameters".to_owned())
            }
            "hidden_text" => Self::Hidden,
            "terminal_escapes" => Self::Escapes,
            "chat_markup" => Self::Marks,
            "injection_wording" => Self::Phrases,
            "lookalike_host" => Self::Lookalike,
            "url_credentials" => Self::Password,
            _ => return Err("the detector is not native".to_owned()),
        })
    }

    fn judge(&self, context: &Context<'_, '_>) -> Option<Said> {
        let long;
        let (name, reason): (&'static str, &str) = match self {
            Self::Hidden => ("hidden_text", "the text holds characters that nobody sees"),
            Self::Escapes => (
                "terminal_escapes",
                "the text holds control sequences that a terminal would obey",
            ),
            Self::Marks => (
                "chat_markup",
                "the text holds marks that separate roles in a model's prompt",
            ),
            Self::Phrases => (
                "injection_wording",
                "the text speaks to a model over its user's head",
            ),
            Self::Lookalike => (
                "lookalike_host",
                "the call names a host with letters of another alphabet",
            ),
            Self::Password => ("url_credentials", "a URL holds a password"),
            Self::Query(_) => ("url_data", "a URL carries data in its query"),
            Self::Encoded(_) => ("encoded_payload", "an argument holds a long encoded text"),
            Self::Long(least) => {
                long = format!("an argument has {least} characters or more");
                ("oversized_text", &long)
            }
            Self::Shell(_) => (
                "shell_metacharacters",
                "an argument that is to hold a plain name holds shell syntax",
            ),
        };
        outgoing::first(context, name, reason, self.reads_many(), &|key, text| {
            self.holds(key, text)
        })
    }

    /// Whether it holds of many texts together where it holds of one of them, and hardly elsewhere.
    fn reads_many(&self) -> bool {
        matches!(
            self,
            Self::Hidden | Self::Escapes | Self::Marks | Self::Phrases
        )
    }

    fn holds(&self, key: &str, text: &str) -> bool {
        match self {
            Self::Hidden => texts::hides(hosts::head(text, SCANNED)),
            Self::Escapes => texts::escapes(hosts::head(text, SCANNED)),
            Self::Marks => texts::marks(hosts::head(text, SCANNED)),
            Self::Phrases => texts::speaks_to_a_model(hosts::head(text, SCANNED)),
            Self::Lookalike => outgoing::is_lookalike(text),
            Self::Password => outgoing::holds_password(text),
            Self::Query(least) => outgoing::carries_query(text, *least),
            Self::Encoded(least) => outgoing::carries_encoded(text, *least),
            Self::Long(least) => outgoing::is_long(text, *least),
            Self::Shell(args) => args.contains(key) && outgoing::holds_shell(text),
        }
    }
}

/// How many finds of one text are masked one by one, and the parameters beside that.
fn finds_of(params: &Map<String, Json>) -> Result<(usize, Map<String, Json>), String> {
    let mut own = params.clone();
    let finds = match own.remove("finds") {
        None => MOST,
        Some(given) => given
            .as_u64()
            .and_then(|finds| usize::try_from(finds).ok())
            .ok_or("finds: is no number")?,
    };
    Ok((finds, own))
}

fn private_network(params: &Map<String, Json>) -> Result<Detector, String> {
    let known = |key: &String| key == "metadata_only" || key == "allowed_hosts";
    if !params.keys().all(known) {
        return Err("unknown parameter".to_owned());
    }
    let metadata_only = match params.get("metadata_only") {
        None => false,
        Some(given) => given
            .as_bool()
            .ok_or("metadata_only: is neither true nor false")?,
    };
    let given = params
        .get("allowed_hosts")
        .cloned()
        .unwrap_or_else(|| Json::Array(Vec::new()));
    let only = Map::from_iter([("allowed_hosts".to_owned(), given)]);
    let allowed = strings(&only, "allowed_hosts")?.into_iter().collect();
    Ok(Detector::PrivateNetwork {
        metadata_only,
        allowed,
    })
}

/// A parameter that is a list of texts, and the only parameter.
fn strings(params: &Map<String, Json>, name: &str) -> Result<Vec<String>, String> {
    let list = params.get(name).and_then(Json::as_array);
    let texts: Option<Vec<String>> = list.and_then(|items| {
        items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect()
    });
    match texts {
        Some(texts) if params.len() == 1 => Ok(texts),
        _ => Err(format!("needs {name}, a list of texts")),
    }
}
