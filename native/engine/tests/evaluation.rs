//! Replays `tests/conformance/evaluation.json`, which Python and C replay too.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use interlock_engine::json::{json_of_outcome, EventDoc};
use interlock_engine::plan::Plan;
use serde_json::{json, Value};

const VECTORS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/conformance/evaluation.json"
);

fn cases() -> Vec<Value> {
    let file = std::fs::read_to_string(VECTORS).unwrap();
    let vectors: Value = serde_json::from_str(&file).unwrap();
    assert_eq!(vectors["format"], "interlock-evaluation-vectors");
    vectors["cases"].as_array().unwrap().clone()
}

#[test]
fn every_case_is_decided_as_the_vectors_say() {
    for case in cases() {
        let plan = Plan::new(case["plan"].to_string().as_bytes()).unwrap();
        for row in case["events"].as_array().unwrap() {
            let doc = EventDoc::new(row["event"].to_string().as_bytes()).unwrap();
            let outcome = plan.evaluate(doc.event().unwrap(), doc.wrapped);
            assert_eq!(
                json_of_outcome(&outcome),
                row["decision"],
                "{}: {}",
                case["name"],
                row["event"]
            );
        }
    }
}

#[test]
fn a_plan_with_a_bad_rule_is_refused_whole() {
    for case in cases() {
        let mut plan = case["plan"].clone();
        let rules = plan["rules"].as_array().unwrap().len();
        for at in 0..rules {
            let mut bad = plan.clone();
            bad["rules"][at]["extra"] = json!(1);
            assert!(Plan::new(bad.to_string().as_bytes()).is_err());
            let mut bad = plan.clone();
            bad["rules"][at]["when"] = json!({"asks": "what nobody knows"});
            let places: Vec<_> = Plan::new(bad.to_string().as_bytes())
                .unwrap_err()
                .iter()
                .map(|bad| bad.at)
                .collect();
            assert_eq!(places, [Some(at)]);
        }
        plan["abi"] = json!(1);
        assert!(Plan::new(plan.to_string().as_bytes()).is_err());
    }
}

#[test]
fn an_event_with_what_it_cannot_hold_is_none() {
    for event in [
        "[]",
        r#"{"action": "x"}"#,
        r#"{"action": "x", "args": {}, "more": 1}"#,
        r#"{"action": "x", "args": {"n": 18446744073709551616}}"#,
        r#"{"action": "x", "args": {}, "phase": "later"}"#,
    ] {
        let read = EventDoc::new(event.as_bytes());
        assert!(read.is_err() || read.unwrap().event().is_err(), "{event}");
    }
}
