//! Tests of one value, as `engine/policy/matching.py`: a test says yes or no of any value and never fails on its type.

use std::borrow::Cow;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::fast::Words;
use crate::glob::Glob;
use crate::literals::literal;
use crate::normalise::normal;
use crate::numbers::{limit, number_of, representable, same, Comparison, Number};
use crate::pattern::Pattern;
use crate::value::Value;

/// Bytes of an action that a pattern or a glob reads.
pub const MAX_TEXT: usize = 1 << 20;

/// Why an event was not judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unjudged {
    /// A rule cannot judge it, as one line says: the rule blocks.
    Cannot(String),
    /// A text is longer than patterns read, as one line says: the policy says what becomes of it.
    Oversized(String),
    /// It needs what this engine has not; the Python engine judges it, whole.
    Unable,
    /// It needs to know where the paths lead that the event touches (`Context::leading`); whoever asked finds out.
    Leads,
}

/// Whether one of several holds; what cannot be judged counts only where no other holds.
///
/// # Errors
/// The first that cannot be judged.
pub fn one_holds<T>(
    many: impl IntoIterator<Item = T>,
    mut holds: impl FnMut(T) -> Result<bool, Unjudged>,
) -> Result<bool, Unjudged> {
    let mut unjudged = None;
    for one in many {
        match holds(one) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(why @ (Unjudged::Unable | Unjudged::Leads)) => return Err(why),
            Err(why) => unjudged = unjudged.or(Some(why)),
        }
    }
    unjudged.map_or(Ok(false), Err)
}

#[derive(Clone, Debug)]
enum Op {
    Equals(Json),
    InTexts(Words),
    In(Vec<Json>),
    Prefix(String),
    Suffix(String),
    Contains(Box<Finder<'static>>),
    Glob(Glob),
    Pattern(Pattern, usize), // and up to how many characters no text is too costly for the Python engine
    Compare(Comparison, Number),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TestDoc {
    ops: Vec<Json>,
    raw: bool,
    limit: usize,
    partial: bool,
}

/// Several operators that must all hold of one value, and how they read a text.
#[derive(Clone, Debug)]
pub struct Test {
    ops: Vec<Op>,
    reading: Reading,
}

/// How a text is read: in its normal form or as it stands, and up to how many bytes a pattern reads.
#[derive(Clone, Copy, Debug)]
struct Reading {
    raw: bool,
    limit: usize,
    partial: bool,
}

impl Test {
    /// Compile `{"ops": [[OPERATOR, VALUE], ...], "raw": false, "limit": 1048576, "partial": false}`; the operators
    /// are asked in that order, and their texts stand in the form in which texts are read.
    ///
    /// # Errors
    /// One line, for an unknown operator or field, or where there is none.
    pub fn new(json: &Json) -> Result<Self, String> {
        let doc: TestDoc = serde_json::from_value(json.clone()).map_err(|_| "is not a test")?;
        let reading = Reading {
            raw: doc.raw,
            limit: doc.limit,
            partial: doc.partial,
        };
        Self::of_rows(&doc.ops, reading)
    }

    fn of_rows(rows: &[Json], reading: Reading) -> Result<Self, String> {
        if rows.is_empty() {
            return Err("tests nothing".to_owned());
        }
        let ops = rows
            .iter()
            .map(|row| match row.as_array().map(Vec::as_slice) {
                Some([Json::String(key), wanted]) => operator(key, wanted),
                _ => Err("is not an operator and its value".to_owned()),
            });
        Ok(Self {
            ops: ops.collect::<Result<_, _>>()?,
            reading,
        })
    }

    /// Whether the test holds of a value.
    ///
    /// # Errors
    /// Where the value is a text that is too long for a pattern.
    pub fn holds(&self, given: &Value<'_>) -> Result<bool, Unjudged> {
        for op in &self.ops {
            if !op.holds(given, self.reading)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the test holds of a text.
    ///
    /// # Errors
    /// As `holds`.
    pub fn holds_of_text(&self, given: &str) -> Result<bool, Unjudged> {
        for op in &self.ops {
            if !op.holds_of_text(given, self.reading)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the test has an answer for every value, however long.
    #[must_use]
    pub fn is_total(&self) -> bool {
        let bounded = |op: &Op| matches!(op, Op::Glob(_) | Op::Pattern(..));
        !self.ops.iter().any(bounded)
    }

    /// The texts of which one must be the value, where the first operator says so and can judge every text.
    #[must_use]
    pub fn only_texts(&self) -> Option<Vec<&str>> {
        match self.ops.first()? {
            Op::Equals(Json::String(text)) => Some(vec![text]),
            Op::InTexts(texts) => Some(texts.iter().map(String::as_str).collect()),
            Op::Glob(glob) => glob.literal().map(|text| vec![text]),
            _ => None,
        }
    }

    /// Literals of which one stands in every text that passes, where that is known; no other value passes then.
    #[must_use]
    pub fn literals(&self) -> Option<Vec<Vec<u8>>> {
        self.ops.iter().find_map(Op::literals)
    }

    /// Up to how many bytes of a text, in its normal form, the test has an answer.
    #[must_use]
    pub fn sure_length(&self) -> usize {
        let limits = self.ops.iter().filter_map(|op| match op {
            Op::Glob(_) => Some(self.reading.limit),
            Op::Pattern(_, most) => Some(self.reading.limit.min(*most)),
            _ => None,
        });
        limits.min().unwrap_or(usize::MAX)
    }

    /// What stands after the one star with which the first operator, a glob, begins.
    #[must_use]
    pub fn glob_suffix(&self) -> Option<&str> {
        match self.ops.first()? {
            Op::Glob(glob) => glob.suffix(),
            _ => None,
        }
    }

    /// What every value that passes begins with, where the first operator says so.
    #[must_use]
    pub fn prefix(&self) -> Option<&str> {
        match self.ops.first()? {
            Op::Prefix(text) => Some(text),
            Op::Glob(glob) if !glob.prefix().is_empty() => Some(glob.prefix()),
            _ => None,
        }
    }
}

impl Op {
    fn holds(&self, given: &Value<'_>, reading: Reading) -> Result<bool, Unjudged> {
        match (self, given) {
            (Op::Equals(wanted), _) => Ok(same(wanted, given, reading.raw)),
            (Op::In(choices), _) => Ok(choices
                .iter()
                .any(|choice| same(choice, given, reading.raw))),
            (Op::Compare(kind, limit), _) => {
                Ok(number_of(given).is_some_and(|n| kind.holds(n, *limit)))
            }
            (_, Value::Str(text)) => self.holds_of_text(text, reading),
            _ => Ok(false),
        }
    }

    fn literals(&self) -> Option<Vec<Vec<u8>>> {
        let one = |text: &str| literal(text.as_bytes()).map(|found| vec![found]);
        match self {
            Op::Equals(wanted) => one(wanted.as_str()?),
            Op::InTexts(texts) => texts.iter().map(|text| literal(text.as_bytes())).collect(),
            Op::Prefix(wanted) | Op::Suffix(wanted) => one(wanted),
            Op::Contains(wanted) => literal(wanted.needle()).map(|found| vec![found]),
            Op::Glob(glob) => one(glob.longest_piece()),
            Op::Pattern(pattern, _) => pattern.literals(),
            Op::In(_) | Op::Compare(..) => None,
        }
    }

    fn holds_of_text(&self, given: &str, reading: Reading) -> Result<bool, Unjudged> {
        let seen = match self {
            Op::Compare(..) => return Ok(false),
            Op::Glob(_) | Op::Pattern(..) => reading.seen(given)?,
            _ => Cow::Borrowed(given),
        };
        let text = reading.form(&seen);
        Ok(match self {
            Op::Equals(wanted) => wanted.as_str() == Some(&text),
            Op::In(choices) => choices.iter().any(|choice| choice.as_str() == Some(&text)),
            Op::Compare(..) => false,
            Op::InTexts(texts) => texts.contains(text.as_ref()),
            Op::Prefix(wanted) => text.starts_with(wanted.as_str()),
            Op::Suffix(wanted) => text.ends_with(wanted.as_str()),
            Op::Contains(wanted) => wanted.find(text.as_bytes()).is_some(),
            Op::Glob(glob) => glob.matches(&text),
            Op::Pattern(_, most) if text.len() > *most && text.chars().count() > *most => {
                return Err(Unjudged::Unable);
            }
            Op::Pattern(pattern, _) => pattern.matches(&text),
        })
    }
}

impl Reading {
    fn form(self, text: &str) -> Cow<'_, str> {
        if self.raw {
            Cow::Borrowed(text)
        } else {
            normal(text)
        }
    }

    /// What a pattern reads of a text: all, or of one that is too long the head and the tail.
    fn seen(self, text: &str) -> Result<Cow<'_, str>, Unjudged> {
        if text.len() <= self.limit {
            return Ok(Cow::Borrowed(text));
        }
        let half = self.limit / 2;
        if !self.partial || half == 0 {
            let what = format!(
                "a text is longer than the {} bytes that a pattern reads",
                self.limit
            );
            return Err(Unjudged::Oversized(what));
        }
        Ok(Cow::Owned(format!(
            "{}\n{}",
            beginning(text, half),
            ending(text, half)
        )))
    }
}

/// The longest beginning of a text that has at most so many bytes.
fn beginning(text: &str, most: usize) -> &str {
    let mut ends = (0..=most.min(text.len())).rev();
    ends.find_map(|end| text.get(..end)).unwrap_or("")
}

/// The longest end of a text that has at most so many bytes.
fn ending(text: &str, most: usize) -> &str {
    let mut starts = text.len().saturating_sub(most)..=text.len();
    starts.find_map(|start| text.get(start..)).unwrap_or("")
}

fn operator(key: &str, wanted: &Json) -> Result<Op, String> {
    let text = || match wanted.as_str() {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(format!("{key}: is not a text")),
    };
    Ok(match key {
        "equals" => Op::Equals(representable(wanted)?.clone()),
        "in" => choices(wanted)?,
        "prefix" => Op::Prefix(text()?),
        "suffix" => Op::Suffix(text()?),
        "contains" => Op::Contains(Box::new(Finder::new(text()?.as_bytes()).into_owned())),
        "glob" => Op::Glob(Glob::new(&text()?)),
        "pattern" => match wanted.as_array().map(Vec::as_slice) {
            Some([Json::String(spelling), most]) => {
                let most = most.as_u64().and_then(|most| usize::try_from(most).ok());
                let most = most.ok_or("pattern: has no number of characters")?;
                Op::Pattern(Pattern::new(spelling)?, most)
            }
            _ => Op::Pattern(Pattern::new(&text()?)?, usize::MAX),
        },
        "lt" => Op::Compare(Comparison::Lt, limit(wanted)?),
        "le" => Op::Compare(Comparison::Le, limit(wanted)?),
        "gt" => Op::Compare(Comparison::Gt, limit(wanted)?),
        "ge" => Op::Compare(Comparison::Ge, limit(wanted)?),
        _ => return Err("unknown operator".to_owned()),
    })
}

fn choices(wanted: &Json) -> Result<Op, String> {
    let items = wanted.as_array().filter(|items| !items.is_empty());
    let items = items.ok_or("in: is not a list of values")?;
    let texts: Option<Words> = items
        .iter()
        .map(|item| item.as_str().map(str::to_owned))
        .collect();
    match texts {
        Some(texts) => Ok(Op::InTexts(texts)),
        None => Ok(Op::In(
            representable(wanted)?
                .as_array()
                .cloned()
                .unwrap_or_default(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Test, MAX_TEXT};
    use crate::value::Value;

    fn holds(ops: &serde_json::Value, given: &Value<'_>) -> Option<bool> {
        let test = json!({"ops": ops, "raw": false, "limit": MAX_TEXT, "partial": false});
        Test::new(&test).ok()?.holds(given).ok()
    }

    #[test]
    fn whole_numbers_and_others_compare_exactly() {
        let big = 9_007_199_254_740_993; // 2^53 + 1, which no double is
        assert_eq!(
            holds(&json!([["gt", 9_007_199_254_740_992.0]]), &Value::Int(big)),
            Some(true)
        );
        assert_eq!(
            holds(
                &json!([["equals", 9_007_199_254_740_992.0]]),
                &Value::Int(big)
            ),
            Some(false)
        );
        assert_eq!(
            holds(&json!([["lt", 1e300]]), &Value::Int(i64::MAX)),
            Some(true)
        );
        assert_eq!(holds(&json!([["ge", -0.5]]), &Value::Int(0)), Some(true));
        assert_eq!(holds(&json!([["lt", 5]]), &Value::Bool(true)), Some(false));
    }

    #[test]
    fn of_a_text_that_is_too_long_a_pattern_reads_head_and_tail_or_nothing() {
        let holds_in = |pattern: &str, text: &str, partial: bool| {
            let ops = json!([["pattern", pattern]]);
            let test = json!({"ops": ops, "raw": true, "limit": 7, "partial": partial});
            Test::new(&test).map(|test| test.holds_of_text(text))
        };
        for (text, seen) in [
            ("éa12z", "éa12z"),              // six bytes
            ("éab12z", "éab12z"),            // seven
            ("éab123z", "éa\n23z"),          // three bytes each, of whole characters
            ("aéé12éé", "aé\né"),            // the tail begins within a character
            ("a\u{1f600}b\u{1f600}", "a\n"), // one that is too long for its half
        ] {
            let exactly = format!(r"\A{seen}\z");
            assert_eq!(holds_in(&exactly, text, true), Ok(Ok(true)), "{text}");
            let whole = holds_in(&exactly, text, false);
            assert_eq!(matches!(whole, Ok(Ok(true))), text.len() < 8, "{text}");
        }
        let wide = Value::Str("é".repeat(MAX_TEXT / 2).into());
        assert_eq!(holds(&json!([["glob", "é*"]]), &wide), Some(true));
        let wide = Value::Str("é".repeat(MAX_TEXT / 2 + 1).into()); // counted in bytes, not in characters
        assert_eq!(holds(&json!([["glob", "é*"]]), &wide), None);
        let long = Value::Str("x".repeat(MAX_TEXT + 1).into());
        assert_eq!(holds(&json!([["prefix", "x"]]), &long), Some(true));
    }
}
