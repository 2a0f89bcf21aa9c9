//! Many short texts as one: what is found in one of them is found in their part of it, so that a hundred thousand texts
//! in which nothing is found are read as quickly as a long one.

use crate::value::Value;

const APART: &str = "\n\n\n\n\n\n\n\n"; // more blanks than any pattern of a detector reads over
const FEW: usize = 64; // texts that are looked at one by one
const PART: usize = 8192; // bytes; a text that is longer is a part by itself
const NUMBER: i64 = 100_000_000_000; // the least that may be found in a text

/// The texts of a value, in the order of the walk, and the numbers that may be found in one.
#[derive(Debug, Default)]
pub struct Together {
    all: String,
    parts: Vec<Part>, // the last one is not closed yet while texts are added
}

/// Where a part begins in all texts, and how many texts stand up to its end.
#[derive(Debug, Default)]
struct Part {
    start: usize,
    texts: usize,
}

impl Together {
    /// The texts of a value; nothing where there are few.
    #[must_use]
    pub fn of(value: &Value<'_>) -> Option<Self> {
        let mut left = FEW;
        if !has_more(value, &mut left) {
            return None;
        }
        let mut together = Self::default();
        together.gather(value);
        Some(together)
    }

    fn gather(&mut self, value: &Value<'_>) {
        match value {
            Value::Str(text) => self.add(text, 1),
            Value::Int(whole) if *whole >= NUMBER => self.add(&whole.to_string(), 0),
            Value::Map(pairs) => pairs.iter().for_each(|(_, item)| self.gather(item)),
            Value::List(items) => items.iter().for_each(|item| self.gather(item)),
            _ => {}
        }
    }

    fn add(&mut self, text: &str, count: usize) {
        let (begun, before) = self
            .parts
            .last()
            .map_or((0, 0), |part| (part.start, part.texts));
        let size = self.all.len() - begun;
        if size + text.len() > PART || self.parts.is_empty() {
            self.parts.push(Part {
                start: self.all.len(),
                texts: before,
            });
        } else {
            self.all.push_str(APART);
        }
        self.all.push_str(text);
        if let Some(part) = self.parts.last_mut() {
            part.texts += count;
        }
    }

    /// In which parts a test holds; nothing where it holds in none.
    pub fn loud(&self, holds: &dyn Fn(&str) -> bool) -> Option<Loud> {
        let ends = self.parts.iter().skip(1).map(|part| part.start);
        let ends = ends.chain([self.all.len()]);
        let parts = self.parts.iter().zip(ends).map(|(part, end)| {
            let text = self.all.get(part.start..end).unwrap_or("");
            (part.texts, holds(text))
        });
        let parts: Vec<_> = parts.collect();
        let any = parts.iter().any(|(_, loud)| *loud);
        any.then_some(Loud {
            parts,
            at: 0,
            seen: 0,
        })
    }
}

/// Parts in which a test holds, asked text by text.
pub struct Loud {
    parts: Vec<(usize, bool)>, // how many texts stand up to the end, and whether it holds
    at: usize,
    seen: usize,
}

impl Loud {
    /// Whether the test may hold of the next text, in the order of the walk.
    pub fn next_may(&mut self) -> bool {
        self.seen += 1;
        while let Some((texts, loud)) = self.parts.get(self.at) {
            if self.seen <= *texts {
                return *loud;
            }
            self.at += 1;
        }
        true
    }
}

/// Whether a value holds more texts than are left.
fn has_more(value: &Value<'_>, left: &mut usize) -> bool {
    match value {
        Value::Str(_) if *left == 0 => true,
        Value::Str(_) => {
            *left -= 1;
            false
        }
        Value::Map(pairs) => pairs.iter().any(|(_, item)| has_more(item, left)),
        Value::List(items) => items.iter().any(|item| has_more(item, left)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Together, PART};
    use crate::value::Value;

    fn list(texts: &[String]) -> Value<'_> {
        let items = texts.iter().map(|text| Value::Str(text.as_str().into()));
        Value::List(items.collect())
    }

    #[test]
    fn few_texts_are_looked_at_one_by_one() {
        let texts = vec!["x".repeat(PART); 64];
        assert!(Together::of(&list(&texts)).is_none());
    }

    #[test]
    fn a_text_of_which_a_test_holds_stands_in_a_part_of_which_it_holds() {
        let text = |at: usize| match at {
            0 | 7 | 1_500 | 2_999 => format!("a needle{}", "y".repeat(at * 4)),
            _ => String::from("abc"),
        };
        let texts: Vec<String> = (0..3_000).map(text).collect();
        let pairs = vec![
            ("few".into(), Value::Int(3)),
            ("many".into(), list(&texts)),
            ("card".into(), Value::Int(4_111_111_111_111_111)),
        ];
        let value = Value::Map(pairs);
        let together = Together::of(&value);
        let loud = |word: &str| {
            together
                .as_ref()
                .and_then(|many| many.loud(&|text| text.contains(word)))
        };
        assert!(loud("other").is_none() && loud("4111111111111111").is_some());
        let mut may = loud("needle")
            .map(|mut loud| texts.iter().map(|_| loud.next_may()).collect::<Vec<_>>())
            .unwrap_or_default();
        assert!(texts
            .iter()
            .zip(&may)
            .all(|(text, may)| *may || !text.contains("needle")));
        may.retain(|may| !may);
        assert!(may.len() > 1_000, "{}", may.len());
    }
}
