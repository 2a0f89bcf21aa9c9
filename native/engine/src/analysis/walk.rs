//! A walk over a parsed command that follows literal values and hands each command that would run to the tables.
//!
//! Nothing is executed. Branches are all taken, loop bodies run once an item (or once with all items), functions run
//! when called and once more at the end if never called. Bounds: see [`MAX_STEPS`], [`MAX_NESTED`]; a walk that hits
//! one keeps what it found and is partial: `exhaust` is Python's `raise Exhausted`, and every step after it does
//! nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::effects::{Finding, Intent};
use super::environment::{one, Environment, Variables, VARIABLE_COST};
use super::findings::Found;
use super::paths::Place;
use super::tree::{Case, Loop, Node, Redirect, Script};
use super::values::{joined, length, Arg, WORK_TEXT};
use super::words::{graver, LIMITS};

/// Commands and loop turns of one walk.
pub const MAX_STEPS: i64 = 4000;
/// Commands inside commands: substitutions, `sh -c`, wrappers.
pub const MAX_NESTED: u32 = 50;
pub(crate) const ARG_COST: usize = 8; // of an argument beside its characters
const MAX_TURNS: usize = 8; // a loop over more items runs once with all of them

/// One command that would run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its name without directory, as the tables know it.
    pub program: String,
    /// Its arguments.
    pub args: Vec<Arg>,
    /// The text on its standard input.
    pub stdin: Option<Arg>,
    /// Its name as given.
    pub path: String,
}

/// A builtin, wrapper or interpreter; gives the output where it is known.
pub type Handler = fn(&mut Walk, &Call) -> Option<Arg>;
/// What a program would do, said by [`Walk::give`].
pub type Program = fn(&mut Walk, &Call);

/// What is known of programs, by name, and of files, by where they lie.
#[derive(Debug)]
pub struct Tables {
    /// How a program runs other commands.
    pub handler: fn(&str) -> Option<Handler>,
    /// What a program would do.
    pub programs: fn(&str) -> &'static [Program],
    /// The findings of a write (`append` or not).
    pub write: fn(&Place, bool) -> Vec<Finding>,
    /// The findings of a read.
    pub read: fn(&Place) -> Vec<Finding>,
}

/// Who gets what a program's table entry says.
#[derive(Debug)]
pub(crate) enum Receiver {
    /// The walk, under this program's name.
    Emit(String),
    /// Somebody who will look at it first.
    Collect(Vec<Finding>),
}

/// One analysis of one command.
#[derive(Debug)]
pub struct Walk {
    pub(crate) tables: &'static Tables,
    /// Variables, positional parameters, directory.
    pub env: Environment,
    /// The directory that the agent works in, or its mark.
    pub work: String,
    pub(crate) attributed_to: String,
    pub(crate) found: Found,
    /// What files hold that were written, by their path.
    pub files: BTreeMap<String, Arg>,
    /// Files of credentials that were read so far.
    pub secrets: u32,
    /// Why the view may be incomplete, "" where it is not.
    pub partial: &'static str,
    /// Functions in the order of their first definition.
    pub functions: Vec<(String, Rc<Node>)>,
    pub(crate) called: BTreeSet<String>,
    /// Aliases in the order of their first definition.
    pub aliases: Vec<(String, String)>,
    pub(crate) steps: i64,
    pub(crate) depth: u32,
    /// The file last read by a redirection.
    pub input: String,
    /// How many pipelines and background commands are around.
    pub parallel: u32,
    /// How many loops are around.
    pub looping: u32,
    pub(crate) supposed: u32, // suppositions around
    pub(crate) stack: Vec<(Rc<Node>, u32)>,
    pub(crate) receivers: Vec<Receiver>,
    exhausted: &'static str,
}

impl Walk {
    /// A walk that starts in a directory, whose intents are attributed to an argument's path.
    #[must_use]
    pub fn new(tables: &'static Tables, cwd: Option<&str>, attributed_to: &str) -> Self {
        let work = match cwd {
            None | Some("") => WORK_TEXT,
            Some(cwd) => match cwd.trim_end_matches('/') {
                "" => "/",
                trimmed => trimmed,
            },
        };
        Self {
            tables,
            env: Environment::new(work.to_owned()),
            work: work.to_owned(),
            attributed_to: attributed_to.to_owned(),
            found: Found::default(),
            files: BTreeMap::new(),
            secrets: 0,
            partial: "",
            functions: Vec::new(),
            called: BTreeSet::new(),
            aliases: Vec::new(),
            steps: MAX_STEPS,
            depth: 0,
            input: String::new(),
            parallel: 0,
            looping: 0,
            supposed: 0,
            stack: Vec::new(),
            receivers: Vec::new(),
            exhausted: "",
        }
    }

    // -- the door ---------------------------------------------------------------------------------------------------

    /// Walk a whole command.
    pub fn start(&mut self, script: &Script) {
        self.partial = script.partial;
        self.run(script, None);
        let aliases: Vec<String> = self.aliases.iter().map(|(_, text)| text.clone()).collect();
        for alias in aliases {
            // a definition only, but what it would run is in the text
            self.code(Arg::new(alias), "alias", None);
        }
        self.uncalled();
        self.finish();
    }

    /// Walk the functions that nothing called; one that stands in the body of another is met in the next round.
    fn uncalled(&mut self) {
        let mut met: BTreeSet<String> = BTreeSet::new();
        while !self.is_exhausted() {
            let names = self.functions.iter().map(|(name, _)| name);
            let new = names.filter(|name| !self.called.contains(*name) && !met.contains(*name));
            let new: Vec<String> = new.cloned().collect();
            if new.is_empty() {
                break;
            }
            for name in new {
                let known = self.functions.iter().find(|(known, _)| *known == name);
                if let Some(body) = known.map(|(_, body)| body.clone()) {
                    self.node(&body, None);
                }
                met.insert(name);
            }
        }
    }

    /// Walk a command given as an argument list.
    pub fn start_argv(&mut self, argv: Vec<Arg>) {
        self.execute(argv, None, true);
        self.finish();
    }

    fn finish(&mut self) {
        self.partial = graver(self.partial, self.exhausted);
        self.exhausted = "";
        if LIMITS.contains(&self.partial) {
            self.emit(Finding::new("exec.partial", self.partial, "unknown"), "sh");
        }
    }

    /// The intents, in the order they were found.
    #[must_use]
    pub fn into_found(self) -> Vec<Intent> {
        self.found.into_list()
    }

    /// Give up: the bounds of this analysis are used up.
    pub(crate) fn exhaust(&mut self, why: &'static str) {
        if self.exhausted.is_empty() {
            self.exhausted = why;
        }
    }

    /// Whether the bounds are used up: nothing that runs or is found from here on counts.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        !self.exhausted.is_empty()
    }

    /// The variables as they are now, for a part that may change only its own copy.
    pub(crate) fn copied(&mut self) -> Variables {
        self.spend(VARIABLE_COST * self.env.values.len());
        self.env.values.clone()
    }

    /// Pay for a command's arguments and input, and for finding its file.
    pub(crate) fn hand_over(&mut self, argv: &[Arg], stdin: Option<&Arg>) -> bool {
        let touched = length(&self.env.cwd) + stdin.map_or(0, |stdin| length(&stdin.text));
        let texts: usize = argv.iter().map(|arg| length(&arg.text)).sum();
        self.spend(ARG_COST * argv.len() + texts + touched / 8)
    }

    /// Use up some of what the analysis may touch; false where there was not enough.
    pub fn spend(&mut self, chars: usize) -> bool {
        self.env.chars = self
            .env
            .chars
            .saturating_sub(i64::try_from(chars).unwrap_or(i64::MAX));
        if self.env.chars < 0 {
            self.exhaust("too long");
        }
        !self.is_exhausted()
    }

    // -- scripts and nodes ------------------------------------------------------------------------------------------

    /// Walk a list of commands; what it prints, as far as known.
    pub(crate) fn run(&mut self, script: &Script, stdin: Option<&Arg>) -> Arg {
        let mut out = Arg::empty();
        for item in &script.items {
            if self.is_exhausted() {
                break;
            }
            let background = u32::from(item.op == "&");
            self.parallel += background;
            out = joined(out, self.node(&item.node, stdin));
            self.parallel -= background;
        }
        out
    }

    pub(crate) fn node(&mut self, node: &Node, stdin: Option<&Arg>) -> Arg {
        self.steps -= 1;
        if self.steps < 0 {
            self.exhaust("too many commands");
        } else if self.depth >= MAX_NESTED * 2 {
            self.exhaust("too deep");
        }
        if self.is_exhausted() {
            return Arg::unknown();
        }
        self.depth += 1;
        let out = match node {
            Node::Simple(simple) => self.simple(simple, stdin),
            Node::Pipe(stages) => self.pipe(stages, stdin),
            Node::Group {
                body,
                subshell,
                redirects,
            } => self.group(body, *subshell, redirects, stdin),
            Node::If {
                branches,
                redirects,
            } => self.branches(branches, redirects, stdin),
            Node::Case(case) => self.case(case, stdin),
            Node::Loop(one) => self.turns(one, stdin),
            Node::Function { name, body } => self.define(name, body),
            Node::Condition { words, redirects } => {
                self.redirected(redirects, stdin);
                self.words(words);
                Arg::empty()
            }
        };
        self.depth -= 1;
        out
    }

    fn pipe(&mut self, stages: &[Node], stdin: Option<&Arg>) -> Arg {
        self.parallel += 1;
        let mut out: Option<Arg> = None;
        for stage in stages {
            let next = self.node(stage, out.as_ref().or(stdin));
            out = Some(next);
            if self.is_exhausted() {
                break;
            }
        }
        self.parallel -= 1;
        out.unwrap_or_default()
    }

    fn group(
        &mut self,
        body: &Script,
        subshell: bool,
        redirects: &[Redirect],
        stdin: Option<&Arg>,
    ) -> Arg {
        let (stdin, writes) = self.redirected(redirects, stdin);
        let saved = subshell.then(|| (self.env.cwd.clone(), self.copied()));
        let out = self.run(body, stdin.as_ref());
        if let Some((cwd, values)) = saved {
            self.env.cwd = cwd;
            self.env.values = values;
        }
        self.wrote(&writes, out)
    }

    fn branches(
        &mut self,
        branches: &[Script],
        redirects: &[Redirect],
        stdin: Option<&Arg>,
    ) -> Arg {
        let (stdin, writes) = self.redirected(redirects, stdin);
        let mut out = Arg::empty();
        for branch in branches {
            out = joined(out, self.branch(branch, stdin.as_ref()));
        }
        self.wrote(&writes, out)
    }

    /// A part that may or may not run: what it changes is known only where both ways agree.
    fn branch(&mut self, script: &Script, stdin: Option<&Arg>) -> Arg {
        let before = self.copied();
        let out = self.run(script, stdin);
        if !Rc::ptr_eq(&before, &self.env.values) {
            self.either(&before);
        }
        out
    }

    /// Give each variable that has another value than `before` both values, or none that is known.
    fn either(&mut self, before: &Variables) {
        let now = self.env.values.clone();
        for (name, value) in now.iter() {
            let Some(old) = before.get(name).filter(|old| *old != value) else {
                continue;
            };
            if old.len() + value.len() <= MAX_TURNS {
                let both: Vec<Arg> = old.iter().chain(value.iter()).cloned().collect();
                self.env.put(name, both.into());
            } else {
                self.env.put(name, one(Arg::unknown()));
            }
        }
    }

    fn case(&mut self, case: &Case, stdin: Option<&Arg>) -> Arg {
        let (stdin, writes) = self.redirected(&case.redirects, stdin);
        self.single(&case.subject);
        for pattern in &case.patterns {
            self.single(pattern);
        }
        let mut out = Arg::empty();
        for body in &case.bodies {
            out = joined(out, self.branch(body, stdin.as_ref()));
        }
        self.wrote(&writes, out)
    }

    fn turns(&mut self, node: &Loop, stdin: Option<&Arg>) -> Arg {
        let (stdin, writes) = self.redirected(&node.redirects, stdin);
        let stdin = stdin.as_ref();
        self.run(&node.cond, stdin);
        self.looping += 1;
        let items = match &node.words {
            Some(words) => self.words(words),
            None => self.env.positional.to_vec(),
        };
        self.spend(2 * items.len());
        let mut out = Arg::empty();
        if node.name.is_empty() || items.is_empty() {
            if !node.name.is_empty() {
                self.env.set(&node.name, one(Arg::unknown()));
            }
            out = self.run(&node.body, stdin);
        } else if items.len() > MAX_TURNS || self.looping > 2 {
            self.env.set(&node.name, items);
            out = self.run(&node.body, stdin);
        } else {
            for item in items {
                self.env.set(&node.name, one(item));
                out = joined(out, self.run(&node.body, stdin));
            }
        }
        self.looping -= 1;
        self.wrote(&writes, out)
    }

    fn define(&mut self, name: &str, body: &Rc<Node>) -> Arg {
        match self.functions.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = body.clone(),
            None => self.functions.push((name.to_owned(), body.clone())),
        }
        Arg::empty()
    }
}
