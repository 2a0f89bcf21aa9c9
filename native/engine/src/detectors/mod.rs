//! Detectors, one module a family; the same as `interlock/engine/detectors`, mask by mask and reason by reason.

pub mod commands;
pub mod egress;
pub mod hosts;
pub mod indicator;
pub mod pii;
pub mod walk;

use serde_json::{Map, Value as Json};

use crate::context::Context;
use crate::edits::Edit;
use crate::matching::Unjudged;
use crate::plan::Verdict;

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
    /// Fires where a call names a host whose digest is listed.
    Indicator(indicator::Digests),
    /// Masks numbers that name a person or an account.
    Pii {
        /// E-mail addresses too.
        emails: bool,
    },
}

impl Detector {
    /// Compile a detector by its name.
    ///
    /// # Errors
    /// One line, for a detector that is not native, or for bad parameters.
    pub fn new(name: &str, params: &Map<String, Json>) -> Result<Self, String> {
        match name {
            "network_egress" => Ok(Self::Egress(egress::Allowlist::new(&strings(
                params,
                "allowed_hosts",
            )?)?)),
            "indicator" => indicator::Digests::new(params).map(Self::Indicator),
            "pii_redaction" => pii::emails(params).map(|emails| Self::Pii { emails }),
            _ => Err("the detector is not native".to_owned()),
        }
    }

    /// What the detector says of an event.
    ///
    /// # Errors
    /// Where it needs what this engine has not.
    pub fn judge(&self, context: &Context<'_, '_>) -> Result<Option<Said>, Unjudged> {
        match self {
            Self::Egress(allowed) => egress::judge(allowed, context.event),
            Self::Indicator(digests) => indicator::judge(digests, context.event),
            Self::Pii { emails } => Ok(walk::mask(context, "pii_redaction", &|value| {
                pii::mask(value, *emails)
            })),
        }
    }
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
