//! A rule that is looked up by its action, arguments or literals says what it says when it is asked every time.

use std::borrow::Cow;
use std::collections::BTreeMap;

use interlock_engine::context::Context;
use interlock_engine::evaluate::Saying;
use interlock_engine::plan::{Plan, VERSION};
use interlock_engine::value::{Event, Phase, Value};
use interlock_engine::ABI_VERSION;
use serde_json::{json, Value as Json};

const RULES: usize = 60;
const ROUNDS: u64 = 40;
const EVENTS: usize = 20;
const WORDS: [&str; 16] = [
    "rm -rf",
    "RM -RF",
    "curl",
    "wget ",
    "\u{ff43}url", // a wide c
    "\u{212a}ill", // the sign of Kelvin
    "kill",
    "be\u{200b}arer",
    "bearer",
    "caf\u{e9}",
    "cafe\u{301}",
    "a",
    "\u{fdfa}", // becomes 18 characters
    " ",
    "\n",
    "drop table",
];
const PATTERNS: [&str; 12] = [
    r"rm\s+-rf",
    r"(?:curl|wget)",
    r"(?:curl|.)x",
    r"[kK\x{212a}][iI][lL][lL]",
    r"(?i)drop\s+table",
    r"\Abearer\z",
    r"caf\x{e9}",
    r"caf(?:e\x{301}|\x{e9})",
    r"(?:abc)*",
    r"(?:wget ){2,3}",
    r"[a-c]{3}",
    r"(?-u:\b)rm(?-u:\b).*curl",
];

/// Numbers that look random and are the same on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap_or(0)
    }

    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of.get(self.roll(of.len())).copied().unwrap_or("")
    }

    fn text(&mut self, most: usize) -> String {
        (0..self.roll(most)).map(|_| self.one(&WORDS)).collect()
    }
}

fn test(dice: &mut Dice) -> Json {
    let ops = (0..=dice.roll(1)).map(|_| match dice.roll(9) {
        0 => json!(["equals", dice.one(&WORDS)]),
        1 => json!(["in", [dice.one(&WORDS), dice.one(&WORDS)]]),
        2 => json!(["prefix", dice.one(&WORDS)]),
        3 => json!(["suffix", dice.one(&WORDS)]),
        4 => json!(["contains", dice.one(&WORDS)]),
        5 => json!([
            "glob",
            format!("{}*{}*", dice.one(&["", "rm", "curl"]), dice.one(&WORDS))
        ]),
        6 if dice.roll(40) == 0 => json!(["pattern", [dice.one(&PATTERNS), 5 + dice.roll(60)]]),
        _ => json!(["pattern", dice.one(&PATTERNS)]),
    });
    let ops: Vec<Json> = ops.collect();
    let limit = 10 + dice.roll(60);
    json!({"ops": ops, "raw": dice.roll(3) == 0, "limit": limit, "partial": dice.roll(2) == 0})
}

fn condition(dice: &mut Dice, depth: usize) -> Json {
    let parts = |dice: &mut Dice| -> Vec<Json> {
        (0..=dice.roll(2))
            .map(|_| condition(dice, depth + 1))
            .collect()
    };
    match dice.roll(if depth > 2 { 6 } else { 9 }) {
        0 => {
            json!({"action": {"ops": [["equals", dice.one(&["Bash", "web"])]], "raw": false, "limit": 1 << 20, "partial": false}})
        }
        1 => json!({"principal": test(dice)}),
        2..=5 => {
            let path = dice.one(&["command", "note", "a.b", "items[*]", "*", "a.*", "items[0]"]);
            json!({"arg": path, "values": 1 + dice.roll(6), "test": test(dice)})
        }
        6 => json!({"all": parts(dice)}),
        7 => json!({"any": parts(dice)}),
        _ => json!({"not": condition(dice, depth + 1)}),
    }
}

fn event(dice: &mut Dice) -> Event<'static> {
    let text = |dice: &mut Dice| Value::Str(Cow::Owned(dice.text(8)));
    let items = (0..dice.roll(5)).map(|_| text(dice)).collect();
    let inner = (0..dice.roll(5))
        .map(|k| (Cow::Borrowed(if k == 0 { "b" } else { "c" }), text(dice)))
        .collect();
    Event {
        action: Cow::Borrowed(dice.one(&["Bash", "web", "curl"])),
        args: Value::Map(vec![
            (Cow::Borrowed("command"), text(dice)),
            (Cow::Borrowed("note"), text(dice)),
            (Cow::Borrowed("items"), Value::List(items)),
            (Cow::Borrowed("a"), Value::Map(inner)),
        ]),
        phase: Phase::Call,
        principal: (dice.roll(2) == 0).then(|| Cow::Owned(dice.text(6))),
        server_pin: None,
        links: BTreeMap::new(),
        cwd: None,
        origins: Vec::new(),
    }
}

fn plan(conditions: &[Json]) -> Plan {
    let rules: Vec<Json> = conditions
        .iter()
        .enumerate()
        .map(|(at, when)| {
            json!({"at": at, "id": format!("r{at}"), "phase": "call", "shadow": false, "when": when,
                "verdict": "escalate", "reason": "said", "policy_id": "p", "attributed_to": null, "mask": null,
                "flow": null, "oversize": "escalate", "unjudged": "escalate"})
        })
        .collect();
    let doc = json!({"format": "interlock-plan", "v": VERSION, "abi": ABI_VERSION, "rules": rules});
    match Plan::new(doc.to_string().as_bytes()) {
        Ok(plan) => plan,
        Err(bad) => unreachable!("{bad:?} in {doc}"),
    }
}

fn said(plan: &Plan, event: &Event<'_>) -> Option<Vec<(usize, Saying)>> {
    let context = Context::new(event, false);
    let found = plan.opinions(&context, (0, usize::MAX), true).ok()?;
    Some(
        found
            .into_iter()
            .map(|opinion| (opinion.place, opinion.said))
            .collect(),
    )
}

#[test]
fn what_is_looked_up_and_what_is_asked_every_time_agree() {
    let mut spoken = 0;
    for round in 1..=ROUNDS {
        let mut dice = Dice(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let conditions: Vec<Json> = (0..RULES).map(|_| condition(&mut dice, 0)).collect();
        let always: Vec<Json> = conditions
            .iter()
            .map(|when| json!({"not": {"not": when}}))
            .collect();
        let (looked_up, asked) = (plan(&conditions), plan(&always));
        for _ in 0..EVENTS {
            let event = event(&mut dice);
            let found = said(&looked_up, &event);
            assert_eq!(found, said(&asked, &event), "round {round}: {event:?}");
            spoken += found.map_or(0, |found| found.len());
        }
    }
    assert!(spoken > 1000, "{spoken}");
}
