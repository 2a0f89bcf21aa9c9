//! Numbers of plans and events, and when two values are the same.

use std::cmp::Ordering;

use serde_json::Value as Json;

use crate::normalise::normal;
use crate::value::Value;

/// How a number is compared with a limit.
#[derive(Clone, Copy, Debug)]
pub enum Comparison {
    /// Less than it.
    Lt,
    /// At most it.
    Le,
    /// More than it.
    Gt,
    /// At least it.
    Ge,
}

/// A number of a plan or of an event; two of different kinds compare exactly.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// A whole one.
    Int(i64),
    /// Any other.
    Float(f64),
}

impl Comparison {
    /// Whether it holds of a number.
    #[must_use]
    pub fn holds(self, given: Number, limit: Number) -> bool {
        let Some(order) = compare(given, limit) else {
            return false;
        };
        match self {
            Comparison::Lt => order == Ordering::Less,
            Comparison::Le => order != Ordering::Greater,
            Comparison::Gt => order == Ordering::Greater,
            Comparison::Ge => order != Ordering::Less,
        }
    }
}

/// A number of a plan.
///
/// # Errors
/// One line, where it is none of 64 bits.
pub fn limit(wanted: &Json) -> Result<Number, String> {
    number_of_json(wanted).ok_or_else(|| "is not a number of 64 bits".to_owned())
}

fn number_of_json(json: &Json) -> Option<Number> {
    let Json::Number(number) = json else {
        return None;
    };
    if let Some(whole) = number.as_i64() {
        return Some(Number::Int(whole));
    }
    number
        .is_f64()
        .then(|| number.as_f64().map(Number::Float))?
}

/// The value itself, where each number in it is one of ours. A plan's nesting is bounded by its parser.
///
/// # Errors
/// As `limit`.
pub fn representable(json: &Json) -> Result<&Json, String> {
    let mut open = vec![json];
    while let Some(value) = open.pop() {
        match value {
            Json::Number(_) => {
                limit(value)?;
            }
            Json::Array(items) => open.extend(items),
            Json::Object(pairs) => open.extend(pairs.values()),
            _ => {}
        }
    }
    Ok(json)
}

/// The number that a value is.
#[must_use]
pub fn number_of(value: &Value<'_>) -> Option<Number> {
    match value {
        Value::Int(whole) => Some(Number::Int(*whole)),
        Value::Float(number) => Some(Number::Float(*number)),
        _ => None,
    }
}

/// Whether two values are the same JSON value: 1 and 1.0 are, 1 and true are not; texts that are given are read in
/// their normal form, unless `raw`.
#[must_use]
pub fn same(wanted: &Json, given: &Value<'_>, raw: bool) -> bool {
    let mut open = vec![(wanted, given)];
    while let Some(pair) = open.pop() {
        let equal = match pair {
            (Json::Null, Value::Null) => true,
            (Json::Bool(a), Value::Bool(b)) => a == b,
            (Json::String(a), Value::Str(b)) => {
                if raw {
                    a == b
                } else {
                    *a == normal(b)
                }
            }
            (Json::Number(_), Value::Int(_) | Value::Float(_)) => {
                let both = number_of_json(pair.0).zip(number_of(pair.1));
                both.and_then(|(a, b)| compare(a, b)) == Some(Ordering::Equal)
            }
            (Json::Array(a), Value::List(b)) => {
                open.extend(a.iter().zip(b));
                a.len() == b.len()
            }
            (Json::Object(a), Value::Map(b)) => {
                let held = a
                    .iter()
                    .filter_map(|(key, value)| Some((value, pair.1.get(key)?)));
                let before = open.len();
                open.extend(held);
                a.len() == b.len() && open.len() - before == a.len()
            }
            _ => false,
        };
        if !equal {
            return false;
        }
    }
    true
}

/// The order of two numbers, exact where one is whole and one is not.
fn compare(a: Number, b: Number) -> Option<Ordering> {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
        (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b),
        (Number::Int(a), Number::Float(b)) => compare_mixed(a, b),
        (Number::Float(a), Number::Int(b)) => compare_mixed(b, a).map(Ordering::reverse),
    }
}

#[allow(clippy::cast_possible_truncation)] // guarded: within the range of i64, and the whole part only
fn compare_mixed(whole: i64, number: f64) -> Option<Ordering> {
    const EDGE: f64 = 9_223_372_036_854_775_808.0; // 2^63
    if number.is_nan() {
        return None;
    }
    if number >= EDGE {
        return Some(Ordering::Less);
    }
    if number < -EDGE {
        return Some(Ordering::Greater);
    }
    let floor = number.floor();
    let order = whole.cmp(&(floor as i64));
    Some(if order == Ordering::Equal && number > floor {
        Ordering::Less
    } else {
        order
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::same;
    use crate::value::Value;

    #[test]
    fn one_and_one_point_zero_are_the_same_and_one_and_true_are_not() {
        assert!(same(&json!(1), &Value::Float(1.0), false));
        assert!(same(&json!(1.0), &Value::Int(1), false));
        assert!(!same(&json!(1), &Value::Bool(true), false));
        assert!(!same(&json!(null), &Value::Bool(false), false));
        let list = Value::List(vec![Value::Int(1), Value::Str("x".into())]);
        assert!(same(&json!([1, "x"]), &list, false));
        assert!(!same(&json!([1]), &list, false));
        let map = Value::Map(vec![("a".into(), Value::Null)]);
        assert!(same(&json!({"a": null}), &map, false));
        assert!(!same(&json!({"b": null}), &map, false));
        assert!(!same(&json!({"a": null, "b": null}), &map, false));
    }
}
