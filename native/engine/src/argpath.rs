//! Paths to arguments: `command`, `a.b[0].c`, `a.*`, `a[*]`, `a["key with.dots"]`, all also with `args.` before them,
//! as `engine/policy/argpath.py`.

use crate::matching::{one_holds, Unjudged};
use crate::value::Value;

const MAX_STEPS: usize = 32; // steps in a path
const MAX_DIGITS: usize = 9; // of an index

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Key(String),
    Index(usize),
    EveryValue,
    EveryElement,
}

/// A compiled path.
#[derive(Clone, Debug)]
pub struct ArgPath {
    steps: Vec<Step>,
    most: usize,
}

impl ArgPath {
    /// Compile a path that may reach so many values in one event.
    ///
    /// # Errors
    /// One line that says at which character it is none.
    pub fn new(path: &str, most: usize) -> Result<Self, String> {
        let mut steps = Vec::new();
        let mut rest = path;
        while !rest.is_empty() || steps.is_empty() {
            let (step, after) = next_step(rest, steps.is_empty())
                .ok_or_else(|| format!("is not a path (byte {})", path.len() - rest.len() + 1))?;
            steps.push(step);
            rest = after;
        }
        if steps.len() > 1 && (path.starts_with("args.") || path.starts_with("args[\"")) {
            steps.remove(0);
        }
        if steps.len() > MAX_STEPS {
            return Err(format!("path has more than {MAX_STEPS} steps"));
        }
        Ok(Self { steps, most })
    }

    /// The name of the argument, where the path is nothing but a name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self.steps.as_slice() {
            [Step::Key(name)] => Some(name),
            _ => None,
        }
    }

    /// The argument that it leads into; `None` for any of them.
    #[must_use]
    pub fn argument(&self) -> Option<&str> {
        match self.steps.first() {
            Some(Step::Key(name)) => Some(name),
            _ => None,
        }
    }

    /// Up to how many values of an event the path leads to no more than it may.
    #[must_use]
    pub fn sure_values(&self) -> usize {
        if self.is_plain() {
            usize::MAX
        } else {
            self.most
        }
    }

    /// Whether `any_value` always has an answer: without a star at most one value is reached.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        let star = |step: &Step| matches!(step, Step::EveryValue | Step::EveryElement);
        !self.steps.iter().any(star)
    }

    /// Whether a test holds of any value at the path.
    ///
    /// # Errors
    /// Where the path leads to too many values, or where the test cannot judge one.
    pub fn any_value(
        &self,
        args: &Value<'_>,
        test: &mut dyn FnMut(&Value<'_>) -> Result<bool, Unjudged>,
    ) -> Result<bool, Unjudged> {
        if self.is_plain() {
            let found = self
                .steps
                .iter()
                .try_fold(args, |value, step| taken(value, step));
            return found.map_or(Ok(false), test);
        }
        one_holds(self.reached(args)?, test)
    }

    fn reached<'v, 'a>(&self, args: &'v Value<'a>) -> Result<Vec<&'v Value<'a>>, Unjudged> {
        let mut level = vec![args];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in level {
                match (value, step) {
                    (Value::Map(pairs), Step::EveryValue) => {
                        next.extend(pairs.iter().map(|(_, held)| held));
                    }
                    (Value::List(items), Step::EveryElement) => next.extend(items),
                    _ => next.extend(taken(value, step)),
                }
                if next.len() > self.most {
                    let what = format!("path leads to more than {} values", self.most);
                    return Err(Unjudged::Cannot(what));
                }
            }
            level = next;
        }
        Ok(level)
    }
}

fn taken<'v, 'a>(value: &'v Value<'a>, step: &Step) -> Option<&'v Value<'a>> {
    match (value, step) {
        (Value::Map(_), Step::Key(name)) => value.get(name),
        (Value::List(items), Step::Index(at)) => items.get(*at),
        _ => None,
    }
}

fn next_step(rest: &str, first: bool) -> Option<(Step, &str)> {
    if let Some(inner) = rest.strip_prefix('[').filter(|_| !first) {
        return bracket(inner);
    }
    let rest = if first { rest } else { rest.strip_prefix('.')? };
    let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    match name {
        "" => None,
        "*" => Some((Step::EveryValue, after)),
        _ => Some((Step::Key(name.to_owned()), after)),
    }
}

fn bracket(inner: &str) -> Option<(Step, &str)> {
    if let Some(after) = inner.strip_prefix("*]") {
        return Some((Step::EveryElement, after));
    }
    if inner.starts_with('"') {
        let mut stream = serde_json::Deserializer::from_str(inner).into_iter::<String>();
        let name = stream.next()?.ok()?;
        let after = inner.get(stream.byte_offset()..)?.strip_prefix(']')?;
        return Some((Step::Key(name), after));
    }
    let (digits, after) = inner.split_once(']')?;
    let plain = !digits.is_empty()
        && digits.len() <= MAX_DIGITS
        && digits.bytes().all(|b| b.is_ascii_digit());
    let at = plain.then(|| digits.parse().ok())??;
    Some((Step::Index(at), after))
}

#[cfg(test)]
mod tests {
    use super::{ArgPath, Step};

    fn steps(path: &str) -> Vec<Step> {
        ArgPath::new(path, 100).map(|p| p.steps).unwrap_or_default()
    }

    #[test]
    fn a_path_is_read_step_by_step() {
        let key = |name: &str| Step::Key(name.to_owned());
        assert_eq!(
            steps("a.b[0].c"),
            [key("a"), key("b"), Step::Index(0), key("c")]
        );
        assert_eq!(
            steps("a.*[*]"),
            [key("a"), Step::EveryValue, Step::EveryElement]
        );
        assert_eq!(steps("a[\"x.y]\"]"), [key("a"), key("x.y]")]);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for path in [
            "",
            ".",
            "a.",
            "[0]",
            "a[",
            "a[]",
            "a[-1]",
            "a[1234567890]",
            "a]b",
            "a[\"x\"",
            "a b..c",
        ] {
            assert!(ArgPath::new(path, 100).is_err(), "{path}");
        }
    }
}
