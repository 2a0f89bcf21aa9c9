//! Variables, positional parameters, and what a walk may still use.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::values::{Arg, HOME_TEXT};

/// What one analysis may touch: a character of a value is 1, other work as it is charged.
pub const MAX_CHARS: i64 = 256 * 1024;
/// What a variable costs in a copy of all of them.
pub(crate) const VARIABLE_COST: usize = 4;
const MAX_WORDS: usize = 100_000; // arguments of all commands of one analysis
const MAX_VARIABLES: usize = 500;
const MAX_INDEX: usize = 9; // digits of a number that may name an element

/// A variable's elements, one for a plain variable.
pub type Elements = Rc<[Arg]>;
/// All variables; a copy is cheap and stays as it was.
pub type Variables = Rc<BTreeMap<String, Elements>>;

/// Variables, positional parameters, and what the walk may still use.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The variables that the text has set so far.
    pub values: Variables,
    /// `$1`, `$2` ...
    pub positional: Elements,
    /// The directory, with marks.
    pub cwd: String,
    /// Characters that may still be spent.
    pub(crate) chars: i64,
    /// Arguments that commands may still have.
    pub(crate) words: usize,
}

impl Environment {
    /// A fresh shell in a directory.
    #[must_use]
    pub fn new(cwd: String) -> Self {
        Self {
            values: Rc::default(),
            positional: Rc::from([]),
            cwd,
            chars: MAX_CHARS,
            words: MAX_WORDS,
        }
    }

    /// The value's elements (one for a plain variable), None where nothing is known.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Elements> {
        if name == "@" || name == "*" {
            return Some(self.positional.clone());
        }
        if name == "PWD" {
            return Some(one(Arg::new(self.cwd.as_str())));
        }
        if let Some(found) = self.values.get(name) {
            return Some(found.clone());
        }
        if is_number(name) {
            match index(name) {
                Some(0) => {}
                Some(place) => return self.positional.get(place - 1).map(|arg| one(arg.clone())),
                None => return None,
            }
        }
        if let Some(default) = default(name) {
            return Some(one(default));
        }
        let (base, subscript) = name.split_once('[')?;
        let mut subscript = subscript.chars();
        subscript.next_back();
        self.element(base, subscript.as_str())
    }

    fn element(&self, base: &str, subscript: &str) -> Option<Elements> {
        if base.is_empty() {
            return None;
        }
        let elements = self.get(base)?;
        if subscript == "@" || subscript == "*" {
            return Some(elements);
        }
        index(subscript)
            .and_then(|place| elements.get(place))
            .map(|arg| one(arg.clone()))
    }

    /// Give a variable its elements; past 500 variables, only known ones change.
    pub fn set(&mut self, name: &str, value: impl Into<Elements>) {
        if self.values.len() < MAX_VARIABLES || self.values.contains_key(name) {
            self.put(name, value.into());
        }
    }

    /// Give a variable its elements whatever the number of variables, as assignments before a command do.
    pub(crate) fn put(&mut self, name: &str, value: Elements) {
        Rc::make_mut(&mut self.values).insert(name.to_owned(), value);
    }

    /// Forget a variable.
    pub fn unset(&mut self, name: &str) {
        if self.values.contains_key(name) {
            Rc::make_mut(&mut self.values).remove(name);
        }
    }
}

/// One element.
#[must_use]
pub fn one(arg: Arg) -> Elements {
    Rc::from([arg])
}

fn is_number(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit())
}

/// A number that may name an element, None for other texts and for numbers that no element can have.
fn index(text: &str) -> Option<usize> {
    if !is_number(text) {
        return None;
    }
    let digits = text.trim_start_matches('0');
    match digits.len() {
        0 => Some(0),
        n if n <= MAX_INDEX => digits.parse().ok(),
        _ => None,
    }
}

fn default(name: &str) -> Option<Arg> {
    let text = match name {
        "HOME" => HOME_TEXT,
        "IFS" => " \t\n",
        "PATH" => "/usr/local/bin:/usr/bin:/bin",
        "SHELL" | "BASH" => "/bin/bash",
        "TMPDIR" => "/tmp",
        _ if index(name) == Some(0) => "\u{2}",
        _ => return None,
    };
    Some(Arg::new(text))
}

#[cfg(test)]
mod tests {
    use super::{one, Environment};
    use crate::analysis::values::Arg;

    fn text(env: &Environment, name: &str) -> Option<String> {
        env.get(name)
            .map(|found| found.iter().map(|a| a.text.as_str()).collect())
    }

    #[test]
    fn values_defaults_and_positions_are_found_by_name() {
        let mut env = Environment::new("/w".to_owned());
        env.positional = [Arg::new("a"), Arg::new("b")].into();
        env.set("x", one(Arg::new("1")));
        env.set("list", [Arg::new("p"), Arg::new("q")]);
        assert_eq!(text(&env, "x").as_deref(), Some("1"));
        assert_eq!(text(&env, "2").as_deref(), Some("b"));
        assert_eq!(text(&env, "3"), None);
        assert_eq!(text(&env, "00").as_deref(), Some("\u{2}"));
        assert_eq!(text(&env, &"9".repeat(5000)), None);
        assert_eq!(text(&env, "@").as_deref(), Some("ab"));
        assert_eq!(text(&env, "PWD").as_deref(), Some("/w"));
        assert_eq!(text(&env, "list[1]").as_deref(), Some("q"));
        assert_eq!(text(&env, "list[@]").as_deref(), Some("pq"));
        assert_eq!(text(&env, "list[7]"), None);
        env.unset("x");
        assert_eq!(text(&env, "x"), None);
    }

    #[test]
    fn a_copy_of_the_variables_stays_as_it_was() {
        let mut env = Environment::new(String::new());
        env.set("x", one(Arg::new("1")));
        let before = env.values.clone();
        env.set("x", one(Arg::new("2")));
        env.values = before;
        assert_eq!(text(&env, "x").as_deref(), Some("1"));
    }
}
