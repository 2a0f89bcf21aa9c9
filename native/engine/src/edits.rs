//! What a mask changes in a value: a sparse tree that keeps everything it does not name.

use std::borrow::Cow;

use crate::value::Value;

/// A change of one value, or of values within it, which are named by their place.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// The value is replaced by a text.
    Text(String),
    /// Some of a container's values change; the places rise.
    Within(Vec<(usize, Edit)>),
}

impl Edit {
    /// The edit that leaves an empty text of each value that this one changes.
    #[must_use]
    pub fn emptied(self) -> Self {
        match self {
            Edit::Text(_) => Edit::Text(String::new()),
            Edit::Within(edits) => {
                let emptied = edits.into_iter().map(|(at, edit)| (at, edit.emptied()));
                Edit::Within(emptied.collect())
            }
        }
    }

    /// The changed copy of a value; the nesting of an edit is that of the value it was made of.
    #[must_use]
    pub fn applied<'a>(&self, value: &Value<'a>) -> Value<'a> {
        match (self, value) {
            (Edit::Text(text), _) => Value::Str(Cow::Owned(text.clone())),
            (Edit::Within(edits), Value::List(items)) => {
                let mut items = items.clone();
                for (at, edit) in edits {
                    if let Some(item) = items.get_mut(*at) {
                        *item = edit.applied(item);
                    }
                }
                Value::List(items)
            }
            (Edit::Within(edits), Value::Map(pairs)) => {
                let mut pairs = pairs.clone();
                for (at, edit) in edits {
                    if let Some((_, item)) = pairs.get_mut(*at) {
                        *item = edit.applied(item);
                    }
                }
                Value::Map(pairs)
            }
            (Edit::Within(_), _) => value.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Edit;
    use crate::value::Value;

    #[test]
    fn what_an_edit_does_not_name_stays() {
        let value = Value::Map(vec![
            ("a".into(), Value::List(vec![Value::Int(1), Value::Int(2)])),
            ("b".into(), Value::Null),
        ]);
        let edit = Edit::Within(vec![(0, Edit::Within(vec![(1, Edit::Text("x".into()))]))]);
        let expected = Value::Map(vec![
            (
                "a".into(),
                Value::List(vec![Value::Int(1), Value::Str("x".into())]),
            ),
            ("b".into(), Value::Null),
        ]);
        assert_eq!(edit.applied(&value), expected);
        let nothing = Edit::Within(vec![(
            0,
            Edit::Within(vec![(1, Edit::Text(String::new()))]),
        )]);
        assert_eq!(edit.emptied(), nothing);
    }
}
