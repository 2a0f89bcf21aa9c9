//! A plan: the rules of a policy that this engine runs, compiled from JSON that `interlock/native/planner.py` writes.
//!
//! ```json
//! {"format": "interlock-plan", "v": 4, "abi": 4, "rules": [
//!   {"at": 0, "id": "fs.destroy", "phase": "call", "shadow": false, "when": CONDITION,
//!    "verdict": "block", "reason": "one line", "policy_id": "fs.destroy", "attributed_to": "command", "mask": null,
//!    "flow": null, "oversize": "escalate", "unjudged": "block"}]}
//! ```
//!
//! `at` is the rule's position in its policy and rises. With a `mask` the verdict is modify, or, where the detector's
//! own decision stands, `detector` or `detector-escalate`; then `reason` and `policy_id` are null, and `when` may be null.
//! A mask with `"removes": true` empties the values that it finds something in.
//! Nothing unknown is skipped: a plan with one bad rule is refused whole.

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::argpath::ArgPath;
use crate::conditions::{detector_of, phase_of, Condition};
use crate::deeds::Flow;
use crate::detectors::Detector;
use crate::index::Index;
use crate::value::Phase;
use crate::ABI_VERSION;

/// What this engine calls a plan.
pub const FORMAT: &str = "interlock-plan";
/// The version of that format.
pub const VERSION: u64 = 4;
/// Bytes of a plan.
pub const MAX_BYTES: usize = 256 << 20;

/// The four answers; the numbers are part of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody objects.
    Allow = 0,
    /// The action is refused.
    Block = 1,
    /// The action goes on, rewritten.
    Modify = 2,
    /// A person is asked.
    Escalate = 3,
}

impl Verdict {
    /// The verdict's name, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Block => "block",
            Verdict::Modify => "modify",
            Verdict::Escalate => "escalate",
        }
    }
}

/// What a rule says where its condition holds.
#[derive(Clone, Debug)]
pub enum Act {
    /// Always the same.
    Fixed(Verdict),
    /// The rewrite of a detector, with the rule's own reason.
    Mask(Detector),
    /// The same, and nothing is left of each value that it finds something in.
    Remove(Detector),
    /// What a detector says, as it says it, or with another verdict.
    Detector(Detector, Option<Verdict>),
}

/// One compiled rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its position in the policy.
    pub at: usize,
    /// Its name.
    pub id: String,
    /// Which events it sees.
    pub phase: Phase,
    /// Whether it only says what it would do.
    pub shadow: bool,
    /// When it speaks.
    pub when: Option<Condition>,
    /// What it says then.
    pub act: Act,
    /// Why.
    pub reason: String,
    /// The policy that says it.
    pub policy_id: String,
    /// The path that it is about.
    pub attributed_to: Option<String>,
    /// The argument in which that path lies; nothing for any.
    pub about: Option<String>,
    /// The flow that its decision is about, where it names no argument that the event has.
    pub flow: Option<Flow>,
    /// What it says where a text is longer than its patterns read: block or escalate.
    pub oversize: Verdict,
    /// What it says where it cannot judge for another reason: block or escalate.
    pub unjudged: Verdict,
}

/// The rules of a policy that run here, in order.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The rules; their positions in the policy rise.
    pub rules: Vec<Rule>,
    calls: Index,
    results: Index,
}

/// Why a plan is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPlan {
    /// One line.
    pub what: String,
    /// The position in the policy of the rule that is wrong, where one is.
    pub at: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanDoc {
    format: String,
    v: u64,
    abi: u32,
    rules: Vec<RuleDoc>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleDoc {
    at: usize,
    id: String,
    phase: Json,
    shadow: bool,
    when: Json,
    verdict: String,
    reason: Option<String>,
    policy_id: Option<String>,
    attributed_to: Option<String>,
    mask: Option<Map<String, Json>>,
    flow: Json,
    oversize: String,
    unjudged: String,
}

impl Plan {
    /// Compile a plan.
    ///
    /// # Errors
    /// Where it is none, or for each of its rules that needs what this engine has not.
    pub fn new(json: &[u8]) -> Result<Self, Vec<BadPlan>> {
        let bad = |what: &str| {
            vec![BadPlan {
                what: what.to_owned(),
                at: None,
            }]
        };
        if json.len() > MAX_BYTES {
            return Err(bad("is larger than a plan may be"));
        }
        let doc: PlanDoc = serde_json::from_slice(json).map_err(|e| {
            bad(&format!(
                "is no plan (line {}, column {})",
                e.line(),
                e.column()
            ))
        })?;
        if doc.format != FORMAT || doc.v != VERSION || doc.abi != ABI_VERSION {
            return Err(bad("is no plan of this version"));
        }
        if !doc.rules.is_sorted_by(|one, other| one.at < other.at) {
            return Err(bad("has rules out of order"));
        }
        let mut rules = Vec::with_capacity(doc.rules.len());
        let mut wrong = Vec::new();
        for rule in doc.rules {
            let at = Some(rule.at);
            match Rule::new(rule) {
                Ok(rule) => rules.push(rule),
                Err(what) => wrong.push(BadPlan { what, at }),
            }
        }
        if wrong.is_empty() {
            Ok(Self::of(rules))
        } else {
            Err(wrong)
        }
    }

    /// The index over the rules of a phase; its places are those in `rules`.
    #[must_use]
    pub fn index_of(&self, phase: Phase) -> &Index {
        match phase {
            Phase::Call => &self.calls,
            Phase::Result => &self.results,
        }
    }

    fn of(rules: Vec<Rule>) -> Self {
        let index = |phase: Phase| {
            let seen = rules.iter().enumerate();
            let seen = seen.filter(|(_, rule)| rule.phase == phase);
            Index::of(
                &seen
                    .map(|(place, rule)| (place, rule.when.as_ref()))
                    .collect::<Vec<_>>(),
            )
        };
        Self {
            calls: index(Phase::Call),
            results: index(Phase::Result),
            rules,
        }
    }
}

impl Rule {
    fn new(doc: RuleDoc) -> Result<Self, String> {
        let act = act(&doc)?;
        let own = matches!(act, Act::Detector(..));
        let when = match &doc.when {
            Json::Null if own => None,
            given => Some(Condition::new(given)?),
        };
        if own != doc.reason.is_none() || own != doc.policy_id.is_none() {
            return Err("has a reason and a policy_id, or neither".to_owned());
        }
        Ok(Self {
            at: doc.at,
            id: doc.id,
            phase: phase_of(&doc.phase)?,
            shadow: doc.shadow,
            when,
            act,
            reason: doc.reason.unwrap_or_default(),
            policy_id: doc.policy_id.unwrap_or_default(),
            about: argument(doc.attributed_to.as_deref())?,
            attributed_to: doc.attributed_to,
            flow: if doc.flow.is_null() {
                None
            } else {
                Some(Flow::new(&doc.flow)?)
            },
            oversize: objection(&doc.oversize, "oversize")?,
            unjudged: objection(&doc.unjudged, "unjudged")?,
        })
    }
}

/// The argument in which a path lies; nothing where there is no path, or one that leads into any.
fn argument(path: Option<&str>) -> Result<Option<String>, String> {
    let Some(path) = path else {
        return Ok(None);
    };
    let steps = ArgPath::new(path, 0).map_err(|what| format!("attributed_to: {what}"))?;
    Ok(steps.argument().map(str::to_owned))
}

/// A verdict that objects, by its word.
fn objection(word: &str, field: &str) -> Result<Verdict, String> {
    match word {
        "block" => Ok(Verdict::Block),
        "escalate" => Ok(Verdict::Escalate),
        _ => Err(format!("{field}: is neither block nor escalate")),
    }
}

fn act(doc: &RuleDoc) -> Result<Act, String> {
    let mut mask = doc.mask.clone();
    let removes = match mask.as_mut().and_then(|body| body.remove("removes")) {
        None => false,
        Some(Json::Bool(removes)) => removes,
        Some(_) => return Err("mask: removes is neither true nor false".to_owned()),
    };
    let detector = match &mask {
        None => None,
        Some(body) => {
            let name = body.get("detector").ok_or("mask: has no detector")?;
            Some(detector_of(name, body)?)
        }
    };
    match (doc.verdict.as_str(), detector) {
        ("block", None) => Ok(Act::Fixed(Verdict::Block)),
        ("escalate", None) => Ok(Act::Fixed(Verdict::Escalate)),
        ("modify", Some(mask)) if removes => Ok(Act::Remove(mask)),
        ("modify", Some(mask)) => Ok(Act::Mask(mask)),
        ("detector", Some(own)) => Ok(Act::Detector(own, None)),
        ("detector-escalate", Some(own)) => Ok(Act::Detector(own, Some(Verdict::Escalate))),
        _ => Err("has no such verdict, or one that does not go with its mask".to_owned()),
    }
}
