//! Events and plans of somebody hostile, as the C ABI hands them on: each is read or refused, and nothing panics.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use interlock_engine::caught::caught;
use interlock_engine::json::{json_of_outcome, EventDoc};
use interlock_engine::plan::{Plan, Verdict};
use serde_json::{json, Value};

const VECTORS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/conformance/evaluation.json"
);
const ROUNDS: usize = 30; // of each event

/// A number below another, the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end.max(1)
    }
}

fn cases() -> Vec<Value> {
    let file = std::fs::read_to_string(VECTORS).unwrap();
    let vectors: Value = serde_json::from_str(&file).unwrap();
    vectors["cases"].as_array().unwrap().clone()
}

/// What the engine makes of an event, or that it is none; a panic fails the test.
fn judged(plan: &Plan, event: &[u8]) -> Option<Verdict> {
    let run = || {
        let doc = EventDoc::new(event).ok()?;
        let outcome = plan.evaluate(doc.event().ok()?, doc.wrapped);
        assert!(!json_of_outcome(&outcome).to_string().contains('\0'));
        Some(outcome.decision.verdict)
    };
    let shown = String::from_utf8_lossy(event);
    caught(run).unwrap_or_else(|_| panic!("the engine panics: {shown:.2000}"))
}

/// What stands in place of a value.
fn odd(dice: &mut Dice) -> Value {
    let texts = [
        "",
        "\0",
        "\u{ffff}",
        "é\u{301}",
        "$(",
        "[[",
        "://",
        "rm -rf /",
        "\\",
        "\u{202e}x",
    ];
    let long = |dice: &mut Dice| texts[dice.below(texts.len())].repeat(1 << dice.below(13));
    let deep =
        |dice: &mut Dice| (0..dice.below(90)).fold(json!("x"), |inner, _| json!([{"a": inner}]));
    match dice.below(9) {
        0 => Value::Null,
        1 => json!(i64::MIN),
        2 => json!(u64::MAX),
        3 => json!(1e308),
        4 => json!(true),
        5 => json!([]),
        6 => deep(dice),
        _ => json!(long(dice)),
    }
}

/// Put something else in place of one value in a tree, or beside it.
fn change(value: &mut Value, dice: &mut Dice) {
    match value {
        Value::Object(pairs) if !pairs.is_empty() && dice.below(6) > 0 => {
            let at = dice.below(pairs.len());
            let (_, inner) = pairs.iter_mut().nth(at).unwrap();
            change(inner, dice);
        }
        Value::Object(pairs) => {
            pairs.insert(odd(dice).as_str().unwrap_or("x").to_owned(), odd(dice));
        }
        Value::Array(items) if !items.is_empty() && dice.below(6) > 0 => {
            let at = dice.below(items.len());
            change(&mut items[at], dice);
        }
        Value::Array(items) => items.push(odd(dice)),
        Value::String(text) if dice.below(2) > 0 => {
            let more = odd(dice);
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let at = places.get(dice.below(places.len())).copied().unwrap_or(0);
            text.insert_str(at, more.as_str().unwrap_or("'"));
        }
        other => *other = odd(dice),
    }
}

/// Change some bytes of a text, or cut it off.
fn garble(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let at = dice.below(bytes.len());
        match dice.below(4) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at.min(bytes.len()), b"\"{}[],:\\\0\xff"[dice.below(10)]),
            _ if at < bytes.len() => bytes[at] = u8::try_from(dice.below(256)).unwrap(),
            _ => {}
        }
    }
}

#[test]
fn an_event_that_somebody_changed_is_judged_or_refused() {
    let mut dice = Dice(1);
    let mut known = 0;
    for case in cases() {
        let plan = Plan::new(case["plan"].to_string().as_bytes()).unwrap();
        for row in case["events"].as_array().unwrap() {
            for _ in 0..ROUNDS {
                let mut event = row["event"].clone();
                (0..=dice.below(3)).for_each(|_| change(&mut event, &mut dice));
                let mut bytes = event.to_string().into_bytes();
                known += usize::from(judged(&plan, &bytes).is_some());
                garble(&mut bytes, &mut dice);
                judged(&plan, &bytes);
            }
        }
    }
    assert!(known > 500, "{known}");
}

#[test]
fn a_plan_that_somebody_changed_is_a_plan_or_refused() {
    let mut dice = Dice(2);
    for case in cases() {
        let text = case["plan"].to_string();
        let events: Vec<_> = case["events"].as_array().unwrap().iter().collect();
        for _ in 0..ROUNDS {
            let mut tree = case["plan"].clone();
            change(&mut tree["rules"], &mut dice);
            let mut bytes = text.clone().into_bytes();
            garble(&mut bytes, &mut dice);
            for plan in [tree.to_string().into_bytes(), bytes] {
                let made = caught(|| Plan::new(&plan));
                let made = made.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&plan)));
                for row in events.iter().filter(|_| made.is_ok()).take(2) {
                    judged(made.as_ref().unwrap(), row["event"].to_string().as_bytes());
                }
            }
        }
    }
}

#[test]
fn what_is_nested_without_end_or_holds_what_json_has_not_is_refused() {
    let plan = Plan::new(cases()[0]["plan"].to_string().as_bytes()).unwrap();
    let args = |value: &str| format!(r#"{{"action": "x", "args": {{"a": {value}}}}}"#);
    for value in [
        "[".repeat(1_000_000),
        r#"{"a":"#.repeat(1_000_000),
        "NaN".to_owned(),
        "1e999".to_owned(),
        "9".repeat(400),
        r#""\ud800""#.to_owned(),
        "\"\u{0}\"".to_owned(),
    ] {
        assert_eq!(judged(&plan, args(&value).as_bytes()), None, "{value:.40}");
    }
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    assert_eq!(judged(&plan, args(&deep).as_bytes()), Some(Verdict::Allow));
    let twice = br#"{"action": "x", "action": "y", "args": {}}"#;
    assert_eq!(judged(&plan, twice), None);
}

#[test]
fn a_path_that_nobody_followed_is_asked_for_and_blocks_until_then() {
    let case = cases().into_iter().find(|case| case["name"] == "links");
    let case = case.unwrap();
    let plan = Plan::new(case["plan"].to_string().as_bytes()).unwrap();
    let row = &case["events"][0];
    let told = |event: &Value| {
        let doc = EventDoc::new(event.to_string().as_bytes()).unwrap();
        json_of_outcome(&plan.evaluate(doc.event().unwrap(), doc.wrapped))
    };
    let mut event = row["event"].clone();
    let links = event.as_object_mut().unwrap().remove("links").unwrap();
    let asked = told(&event);
    assert_eq!(asked["leads"], json!(["/home/dev/app/out"]));
    assert_eq!(asked["policy_id"], "interlock.native-unable");
    assert_eq!(asked["verdict"], "block");
    event["links"] = json!({"/home/dev/app/out": links["/home/dev/app/out"]});
    assert_eq!(told(&event), row["decision"]);
}
