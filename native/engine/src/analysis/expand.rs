//! From words to arguments: braces, parameters, substitutions, splitting, tildes; unknown parts are marked, not guessed.
//!
//! The values come from the walk's `Environment`: the assignments seen so far in the same text and a few that every
//! shell has.

use std::collections::HashSet;

use super::braces::{braces, has_braces};
use super::change::{change_cost, changed};
use super::environment::{one, Elements};
use super::tree::{Part, Var, Word};
use super::values::{first_taint, has_glob, length, spaced, truncated, Arg, HOME, UNKNOWN};
use super::walk::{Walk, MAX_NESTED};

/// Characters of one value.
pub const MAX_VALUE: usize = 64 * 1024;
const FEW_SIGNS: usize = 8; // up to here a look through the signs is faster than a set
const PART_COST: usize = 8; // of a parameter or substitution in a word
const FIELD_COST: usize = 8; // what a field costs beside its characters

impl Walk {
    /// All fields of all words, as the arguments of a command.
    pub(crate) fn words(&mut self, words: &[Word]) -> Vec<Arg> {
        let mut found = Vec::with_capacity(words.len());
        for word in words {
            if self.is_exhausted() {
                break;
            }
            match word.as_slice() {
                [Part::Lit { text, quoted }]
                    if *quoted || !(text.starts_with('~') || text.contains('{')) =>
                {
                    found.push(Arg {
                        text: text.clone(),
                        glob: !quoted && has_glob(text),
                        taint: "",
                    });
                }
                [Part::Var(var)] if var.quoted && var.op.is_empty() => {
                    self.quoted_parameter(var, word, &mut found);
                }
                _ if has_braces(word) => {
                    for one in braces(word) {
                        found.extend(self.fields(&one, true));
                    }
                }
                _ => found.extend(self.fields(word, true)),
            }
        }
        match self.env.words.checked_sub(found.len()) {
            Some(left) => self.env.words = left,
            None => self.exhaust("too long"),
        }
        found
    }

    /// `"$name"`, which is one field where it has one value.
    fn quoted_parameter(&mut self, var: &Var, word: &Word, found: &mut Vec<Arg>) {
        let values = self.parameter(var);
        if let [only] = &*values {
            self.spend(length(&only.text) + FIELD_COST);
            found.push(Arg::tainted(only.text.as_str(), only.taint));
        } else {
            found.extend(self.fields(word, true));
        }
    }

    /// A word's value without splitting, as in an assignment or a redirection.
    pub(crate) fn single(&mut self, word: &Word) -> Arg {
        self.fields(word, false)
            .into_iter()
            .next()
            .unwrap_or_default()
    }

    fn fields(&mut self, word: &Word, split: bool) -> Vec<Arg> {
        let mut builder = Builder::default();
        for (index, part) in word.iter().enumerate() {
            match part {
                Part::Lit { text, quoted } => {
                    let home = (index == 0 && !quoted).then(|| tilde(text)).flatten();
                    builder.add(home.as_deref().unwrap_or(text), !quoted, *quoted, "");
                }
                Part::Array(words) => {
                    for arg in self.deeper(|walk| walk.words(words)) {
                        builder.add_field(arg);
                    }
                }
                other => {
                    self.spend(PART_COST);
                    self.expanded(&mut builder, other, split);
                }
            }
            if !self.spend(std::mem::take(&mut builder.cost)) {
                return Vec::new();
            }
        }
        builder.break_field();
        self.spend(builder.cost);
        builder.fields
    }

    /// What a step one level deeper gives, nothing where that is too deep.
    fn deeper<T: Default>(&mut self, step: impl FnOnce(&mut Self) -> T) -> T {
        if self.depth >= MAX_NESTED * 2 {
            self.exhaust("too deep");
        }
        if self.is_exhausted() {
            return T::default();
        }
        self.depth += 1;
        let found = step(self);
        self.depth -= 1;
        found
    }

    fn expanded(&mut self, builder: &mut Builder, part: &Part, split: bool) {
        let (values, quoted) = self.value(part);
        let Some(first) = values.first() else {
            return;
        };
        if values.len() > 1 && (split || !quoted) {
            for (k, arg) in values.iter().enumerate() {
                if k > 0 {
                    builder.break_field();
                }
                builder.add(&arg.text, !quoted, true, arg.taint);
            }
            return;
        }
        let joined = (values.len() > 1).then(|| spaced(values.iter()));
        let text = joined.as_deref().unwrap_or(&first.text);
        let taint = first_taint(values.iter());
        if quoted || !split {
            builder.add(text, false, true, taint);
        } else {
            let separators = self.env.get("IFS").filter(|found| !found.is_empty());
            let separators = separators.as_deref().and_then(<[Arg]>::first);
            let signs = separators.map_or(0, |arg| length(&arg.text));
            self.spend(signs + length(text) / 8);
            builder.add_split(text, separators.map_or("", |arg| arg.text.as_str()), taint);
        }
    }

    /// The part's elements and whether it stood in quotes.
    fn value(&mut self, part: &Part) -> (Elements, bool) {
        match part {
            Part::Sub { script, quoted } => {
                let mut out = self.substitute(script);
                let end = out.text.trim_end_matches('\n').len();
                out.text.truncate(end);
                (one(out), *quoted)
            }
            Part::Proc { script, writes } => (one(self.process(script, *writes)), true),
            Part::Arith(inner) => {
                self.deeper(|walk| walk.single(inner));
                (one(Arg::unknown()), true)
            }
            Part::Var(var) => (self.parameter(var), var.quoted),
            Part::Lit { .. } | Part::Array(_) => (Elements::from([]), true), // the caller reads these itself
        }
    }

    fn parameter(&mut self, var: &Var) -> Elements {
        let known = if var.name.is_empty() {
            None
        } else {
            self.env.get(&var.name)
        };
        let unknown = || one(Arg::unknown());
        if var.op.is_empty() {
            return known.unwrap_or_else(unknown);
        }
        let operand = if var.op == ":" || var.arg.is_empty() {
            Arg::empty()
        } else {
            self.deeper(|walk| walk.single(&var.arg))
        };
        match (var.op, known) {
            ("!", known) => {
                let target = known.as_deref().and_then(<[Arg]>::first);
                let target = target.filter(|arg| !arg.text.is_empty());
                target
                    .and_then(|arg| self.env.get(&arg.text))
                    .filter(|found| !found.is_empty())
                    .unwrap_or_else(unknown)
            }
            (":-" | ":=" | ":?" | ":+" | "-" | "=" | "?" | "+", known) => {
                self.default(var, known, operand)
            }
            ("len", _) | (_, None) => unknown(),
            (op, Some(known)) => {
                let costs = known
                    .iter()
                    .map(|arg| change_cost(&arg.text, op, &operand.text));
                if !self.spend(costs.sum()) {
                    return unknown();
                }
                known
                    .iter()
                    .map(|arg| changed(arg, op, &operand.text, &var.arg))
                    .collect()
            }
        }
    }

    fn default(&mut self, var: &Var, known: Option<Elements>, operand: Arg) -> Elements {
        let colon = var.op.starts_with(':');
        let full = known
            .as_deref()
            .is_some_and(|found| !colon || found.iter().any(|arg| !arg.text.is_empty()));
        if var.op.ends_with('+') {
            return one(if full || known.is_none() {
                operand
            } else {
                Arg::empty()
            });
        }
        if let Some(known) = known.filter(|_| full) {
            return known;
        }
        if var.op.ends_with('=') {
            self.env.set(&var.name, one(operand.clone()));
        }
        one(if var.op.ends_with('?') {
            Arg::unknown()
        } else {
            operand
        })
    }
}

/// The text with the home directory for a tilde at its beginning, None where it stays.
fn tilde(text: &str) -> Option<String> {
    let rest = text.strip_prefix('~')?;
    let end = rest.find('/').unwrap_or(rest.len());
    let (name, tail) = rest.split_at(end);
    match name {
        "" => Some(format!("{HOME}{tail}")),
        "+" | "-" => Some(format!("{UNKNOWN}{tail}")),
        "root" => Some(format!("/root{tail}")),
        _ => is_user(name).then(|| format!("/home/{name}{tail}")),
    }
}

fn is_user(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

/// Collects pieces into fields.
#[derive(Default)]
struct Builder {
    fields: Vec<Arg>,
    text: String,
    glob: bool,
    taint: &'static str,
    open: bool,
    length: usize,
    cost: usize,
}

impl Builder {
    fn add(&mut self, text: &str, glob: bool, quoted: bool, taint: &'static str) {
        let added = length(text);
        if self.length < MAX_VALUE {
            self.text.push_str(text);
            self.length += added;
        } else {
            self.cost += added; // what a value holds beyond its bound is dropped, but not for nothing
        }
        self.glob = self.glob || (glob && has_glob(text));
        if self.taint.is_empty() {
            self.taint = taint;
        }
        self.open = self.open || quoted || !text.is_empty();
    }

    fn add_field(&mut self, arg: Arg) {
        self.break_field();
        self.push(arg);
    }

    fn push(&mut self, arg: Arg) {
        self.cost += length(&arg.text) + FIELD_COST;
        self.fields.push(arg);
    }

    fn add_split(&mut self, text: &str, separators: &str, taint: &'static str) {
        if text == separators {
            self.break_field(); // `$IFS` itself
            return;
        }
        let many = separators.len() > FEW_SIGNS;
        let signs: HashSet<char> = separators.chars().take_while(|_| many).collect();
        let separates = |c: char| {
            if many {
                signs.contains(&c)
            } else {
                separators.contains(c)
            }
        };
        for (k, piece) in text.split(separates).enumerate() {
            if k > 0 {
                self.break_field();
            }
            if !piece.is_empty() {
                self.add(piece, true, false, taint);
            }
        }
    }

    fn break_field(&mut self) {
        let mut text = std::mem::take(&mut self.text);
        if self.open {
            let end = truncated(&text, MAX_VALUE).len();
            text.truncate(end);
            let (glob, taint) = (self.glob, self.taint);
            self.push(Arg { text, glob, taint });
        }
        self.length = 0;
        self.glob = false;
        self.taint = "";
        self.open = false;
    }
}
