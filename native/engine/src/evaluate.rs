//! The opinions of rules on one event, and their fold to one decision: the semantics of `engine/evaluate.py`.

use crate::context::Context;
use crate::detectors::Said;
use crate::edits::Edit;
use crate::matching::Unjudged;
use crate::plan::{Act, Plan, Rule, Verdict};
use crate::value::{Event, Phase, Value};

/// The policy id of a block by a rule that could not judge.
pub const LIMITS_POLICY_ID: &str = "interlock.limits";
/// The policy id of a block because this engine could not judge an event, and nobody else is there to.
pub const UNABLE_POLICY_ID: &str = "interlock.native-unable";
const UNABLE_REASON: &str = "the native engine cannot judge this, so the action is refused";

/// What one rule says, and all rules together.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The answer.
    pub verdict: Verdict,
    /// One line; empty where nobody objects.
    pub reason: String,
    /// The policy that says it.
    pub policy_id: Option<String>,
    /// The argument that it is about.
    pub attributed_to: Option<String>,
    /// What it changes in the call's arguments, or in the whole result.
    pub edit: Option<Edit>,
}

/// An opinion, by the place of its rule in the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Opinion {
    /// The place.
    pub place: usize,
    /// What is said.
    pub said: Saying,
}

/// What one rule says.
#[derive(Clone, Debug, PartialEq)]
pub enum Saying {
    /// The rule's own decision, always the same.
    Fixed,
    /// A decision about this event.
    This(Decision),
}

impl Saying {
    /// The decision, for the rule that says it.
    #[must_use]
    pub fn decision(self, rule: &Rule) -> Decision {
        match self {
            Saying::Fixed => rule.fixed_decision(),
            Saying::This(decision) => decision,
        }
    }
}

/// Everything said of one event together.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<'a> {
    /// The decision.
    pub decision: Decision,
    /// The arguments as the rules left them.
    pub args: Value<'a>,
    /// The names of the arguments that rules set, in the order of the arguments; of a result, "result".
    pub rewritten: Vec<String>,
    /// What shadow rules said: their names, and what.
    pub shadows: Vec<(String, Decision)>,
    /// Paths of which it has to be known where they lead, before the event can be judged; it blocks until then.
    pub leading: Vec<String>,
}

impl Plan {
    /// The opinions of the rules with positions from `lo` up to `hi`, in order, up to the first that blocks; with
    /// `stop_at_rewrite` up to the first that rewrites, too, for the event is another one from there on.
    ///
    /// # Errors
    /// `Unable`, where the event has to be judged by the Python engine; `Leads`, where it lacks in `links`.
    pub fn opinions(
        &self,
        context: &Context<'_, '_>,
        (lo, hi): (usize, usize),
        stop_at_rewrite: bool,
    ) -> Result<Vec<Opinion>, Unjudged> {
        let place = |at: usize| self.rules.partition_point(|rule| rule.at < at);
        let mut found = Vec::new();
        let mut failed = None;
        self.index_of(context.event.phase)
            .each(context, (place(lo), place(hi)), &mut |place| {
                let Some(rule) = self.rules.get(place) else {
                    return false;
                };
                match rule.opinion(context) {
                    Ok(None) => true,
                    Ok(Some(said)) => {
                        let verdict = match &said {
                            Saying::Fixed => rule.fixed(),
                            Saying::This(decision) => decision.verdict,
                        };
                        found.push(Opinion { place, said });
                        let ends = verdict == Verdict::Block
                            || (stop_at_rewrite && verdict == Verdict::Modify);
                        rule.shadow || !ends
                    }
                    Err(unjudged) => {
                        failed = Some(unjudged);
                        false
                    }
                }
            });
        failed.map_or(Ok(found), Err)
    }

    /// All rules over one event, without Python.
    #[must_use]
    pub fn evaluate<'a>(&self, event: Event<'a>, wrapped: bool) -> Outcome<'a> {
        let mut fold = Fold::new(self, event, wrapped);
        if let Err(why) = fold.run() {
            fold.blocked = Some(Decision::block(UNABLE_REASON, UNABLE_POLICY_ID));
            if why == Unjudged::Leads {
                fold.leading = Context::new(&fold.event, wrapped).leading();
            }
        }
        fold.outcome()
    }
}

impl Decision {
    /// No objection.
    #[must_use]
    pub fn allow() -> Self {
        Self {
            verdict: Verdict::Allow,
            reason: String::new(),
            policy_id: None,
            attributed_to: None,
            edit: None,
        }
    }

    /// The action is refused.
    #[must_use]
    pub fn block(reason: &str, policy_id: &str) -> Self {
        Self {
            verdict: Verdict::Block,
            reason: reason.to_owned(),
            policy_id: Some(policy_id.to_owned()),
            attributed_to: None,
            edit: None,
        }
    }
}

impl Rule {
    /// The verdict of a rule that always says the same.
    fn fixed(&self) -> Verdict {
        match self.act {
            Act::Fixed(verdict) => verdict,
            Act::Mask(_) | Act::Remove(_) | Act::Detector(..) => Verdict::Modify,
        }
    }

    /// The decision of a rule that always says the same.
    #[must_use]
    pub fn fixed_decision(&self) -> Decision {
        Decision {
            verdict: self.fixed(),
            reason: self.reason.clone(),
            policy_id: Some(self.policy_id.clone()),
            attributed_to: self.attributed_to.clone(),
            edit: None,
        }
    }

    /// What the rule says of an event: nothing where it has none.
    fn opinion(&self, context: &Context<'_, '_>) -> Result<Option<Saying>, Unjudged> {
        let holds = match &self.when {
            None => true,
            Some(condition) => match condition.holds(context) {
                Ok(holds) => holds,
                Err(Unjudged::Cannot(what)) => {
                    return Ok(Some(self.cannot(&what, self.unjudged, context.event)))
                }
                Err(Unjudged::Oversized(what)) => {
                    return Ok(Some(self.cannot(&what, self.oversize, context.event)))
                }
                Err(why @ (Unjudged::Unable | Unjudged::Leads)) => return Err(why),
            },
        };
        if !holds {
            return Ok(None);
        }
        match &self.act {
            Act::Fixed(_) => self.said_of(context.event).map(Some),
            Act::Mask(mask) => Ok(mask
                .judge(context)?
                .map(|said| Saying::This(self.with_own_words(said, context.event)))),
            Act::Remove(mask) => Ok(mask.judge(context)?.map(|said| {
                let decision = self.with_own_words(said, context.event);
                let edit = decision.edit.map(Edit::emptied);
                Saying::This(Decision { edit, ..decision })
            })),
            Act::Detector(detector, verdict) => Ok(detector
                .judge(context)?
                .map(|said| Saying::This(as_it_is(said, *verdict)))),
        }
    }

    /// The path that the rule names, where the event has that argument: tools call theirs by many names.
    fn named(&self, event: &Event<'_>) -> Option<&String> {
        let there = |name: &String| event.arg(name).is_some();
        self.attributed_to
            .as_ref()
            .filter(|_| self.about.as_ref().is_none_or(there))
    }

    /// The rule's decision; about the argument that a flow leads to, where it names none that there is.
    fn said_of(&self, event: &Event<'_>) -> Result<Saying, Unjudged> {
        let named = self.named(event);
        let attributed_to = match self.flow.as_ref().filter(|_| named.is_none()) {
            Some(flow) => {
                let path = flow.first(event)?.map(|origin| origin.path.to_string());
                path.filter(|path| !path.is_empty())
            }
            None if named == self.attributed_to.as_ref() => return Ok(Saying::Fixed),
            None => None,
        };
        Ok(Saying::This(Decision {
            attributed_to,
            ..self.fixed_decision()
        }))
    }

    fn cannot(&self, what: &str, verdict: Verdict, event: &Event<'_>) -> Saying {
        Saying::This(Decision {
            verdict,
            reason: format!("rule {} cannot judge this: {what}", self.id),
            policy_id: Some(LIMITS_POLICY_ID.to_owned()),
            attributed_to: self.named(event).cloned(),
            edit: None,
        })
    }

    fn with_own_words(&self, said: Said, event: &Event<'_>) -> Decision {
        Decision {
            reason: self.reason.clone(),
            policy_id: Some(self.policy_id.clone()),
            attributed_to: self.named(event).cloned().or(said.attributed_to),
            verdict: said.verdict,
            edit: said.edit,
        }
    }
}

fn as_it_is(said: Said, verdict: Option<Verdict>) -> Decision {
    Decision {
        verdict: verdict.unwrap_or(said.verdict),
        reason: said.reason,
        policy_id: Some(said.policy_id.to_owned()),
        attributed_to: said.attributed_to,
        edit: said.edit,
    }
}

/// What has been said so far of one event, and the event as it stands now.
struct Fold<'p, 'a> {
    plan: &'p Plan,
    event: Event<'a>,
    wrapped: bool,
    rewrites: Vec<Decision>,
    escalations: Vec<(usize, Decision)>,
    shadows: Vec<(String, Decision)>,
    rewritten: Vec<String>,
    last: usize, // the position of the last rule that rewrote; those before it have not seen what it made
    blocked: Option<Decision>,
    leading: Vec<String>,
}

impl<'p, 'a> Fold<'p, 'a> {
    fn new(plan: &'p Plan, event: Event<'a>, wrapped: bool) -> Self {
        Self {
            plan,
            event,
            wrapped,
            rewrites: Vec::new(),
            escalations: Vec::new(),
            shadows: Vec::new(),
            rewritten: Vec::new(),
            last: 0,
            blocked: None,
            leading: Vec::new(),
        }
    }

    fn run(&mut self) -> Result<(), Unjudged> {
        let mut next = Some(0);
        while let Some(lo) = next.take() {
            let context = Context::new(&self.event, self.wrapped);
            let opinions = self.plan.opinions(&context, (lo, usize::MAX), true)?;
            for opinion in opinions {
                next = self.take(opinion);
            }
        }
        if !self.rewrites.is_empty() && self.event.phase == Phase::Call && self.blocked.is_none() {
            self.judge_again()?;
        }
        Ok(())
    }

    /// Add an opinion; the position from which the rewritten event is judged, where it rewrites.
    fn take(&mut self, opinion: Opinion) -> Option<usize> {
        let rule = self.plan.rules.get(opinion.place)?;
        let decision = opinion.said.decision(rule);
        if rule.shadow {
            self.shadows.push((rule.id.clone(), decision));
            return None;
        }
        match decision.verdict {
            Verdict::Allow => None,
            Verdict::Block => {
                self.blocked = Some(decision);
                None
            }
            Verdict::Escalate => {
                self.escalations.push((opinion.place, decision));
                None
            }
            Verdict::Modify => {
                self.rewrite(&decision);
                self.rewrites.push(decision);
                self.last = rule.at;
                Some(rule.at + 1)
            }
        }
    }

    /// The rules before the last rewrite see the final call, to block or to escalate.
    fn judge_again(&mut self) -> Result<(), Unjudged> {
        let context = Context::new(&self.event, self.wrapped);
        for opinion in self.plan.opinions(&context, (0, self.last), false)? {
            let Some(rule) = self
                .plan
                .rules
                .get(opinion.place)
                .filter(|rule| !rule.shadow)
            else {
                continue;
            };
            let decision = opinion.said.decision(rule);
            let again = self
                .escalations
                .iter()
                .any(|(place, _)| *place == opinion.place);
            match decision.verdict {
                Verdict::Escalate if !again => self.escalations.push((opinion.place, decision)),
                Verdict::Block => self.blocked = Some(decision),
                _ => {}
            }
        }
        Ok(())
    }

    fn rewrite(&mut self, decision: &Decision) {
        let Some(edit) = &decision.edit else {
            return;
        };
        if self.event.phase == Phase::Result {
            let edit = if self.wrapped {
                Edit::Within(vec![(0, edit.clone())])
            } else {
                edit.clone()
            };
            self.event.args = edit.applied(&self.event.args);
            self.rewritten = vec!["result".to_owned()];
            return;
        }
        let before = std::mem::take(&mut self.rewritten);
        let now = changed(edit, &self.event.args);
        if let Value::Map(pairs) = &self.event.args {
            let set = |name: &String| before.contains(name) || now.contains(name);
            self.rewritten = pairs
                .iter()
                .map(|(name, _)| name.to_string())
                .filter(set)
                .collect();
        }
        self.event.args = edit.applied(&self.event.args);
    }

    fn outcome(self) -> Outcome<'a> {
        let decision = match self.blocked {
            Some(decision) => decision,
            None => combined(
                self.escalations
                    .into_iter()
                    .map(|(_, said)| said)
                    .chain(self.rewrites)
                    .collect(),
            ),
        };
        Outcome {
            decision,
            args: self.event.args,
            rewritten: self.rewritten,
            shadows: self.shadows,
            leading: self.leading,
        }
    }
}

/// The names of the arguments that an edit of a call changes.
#[must_use]
pub fn changed(edit: &Edit, args: &Value<'_>) -> Vec<String> {
    match (edit, args) {
        (Edit::Within(edits), Value::Map(pairs)) => edits
            .iter()
            .filter_map(|(at, _)| pairs.get(*at))
            .map(|(name, _)| name.to_string())
            .collect(),
        _ => Vec::new(),
    }
}

/// Several opinions as one: the first one's, with the reasons of all.
fn combined(said: Vec<Decision>) -> Decision {
    let reasons: Vec<&str> = said
        .iter()
        .map(|d| d.reason.as_str())
        .filter(|reason| !reason.is_empty())
        .collect();
    let reason = reasons.join("; ");
    match said.into_iter().next() {
        Some(first) => Decision { reason, ..first },
        None => Decision::allow(),
    }
}
