//! What a walk does with one command: code that a shell would run, simple commands, and the tables' word on them.

use super::effects::Finding;
use super::environment::{one, Elements};
use super::outputs::printed;
use super::parser::parse_marked;
use super::supposed::suppose;
use super::tree::{Assign, Node, Part, Script, Simple, Word};
use super::values::{
    base_name, is_space, length, without_version, Arg, SELF, UNKNOWN, UNKNOWN_TEXT,
};
use super::walk::{Call, Handler, Program, Receiver, Walk, ARG_COST, MAX_NESTED};
use super::words::graver;
use std::borrow::Cow;

const PARSE_COST: usize = 2; // of a character that is read as code
/// What the tables know of a program, and the name they know it by.
struct Known<'a> {
    key: Cow<'a, str>,
    handler: Option<Handler>,
    programs: &'static [Program],
}

/// Whether a whole line of the code is not known.
fn has_unseen_line(code: &str) -> bool {
    code.split('\n')
        .any(|line| line.trim_matches([' ', '\t']) == UNKNOWN_TEXT)
}

impl Walk {
    // -- words that run ---------------------------------------------------------------------------------------------

    pub(crate) fn nested(&mut self, script: &Script, stdin: Option<&Arg>) -> Arg {
        if self.depth >= MAX_NESTED * 2 {
            self.exhaust("too deep");
        }
        if self.is_exhausted() {
            return Arg::unknown();
        }
        self.depth += 1;
        let out = self.run(script, stdin);
        self.depth -= 1;
        out
    }

    /// Text that a shell would run.
    // A caller has no further use for what it hands over, most of all where it made the text.
    #[allow(clippy::needless_pass_by_value)]
    pub fn code(&mut self, code: Arg, program: &str, stdin: Option<Arg>) -> Arg {
        if self.is_exhausted() {
            return Arg::unknown();
        }
        if code
            .text
            .chars()
            .all(|c| matches!(c, UNKNOWN | ' ' | '\t' | '\n'))
        {
            if !code.text.chars().all(is_space) {
                self.unreadable(&code, program);
            }
            return Arg::unknown();
        }
        if matches!(code.taint, "net" | "decoded")
            || (code.taint == "text" && has_unseen_line(&code.text))
        {
            self.unreadable(&code, program);
        }
        if !self.spend(PARSE_COST * length(&code.text)) {
            return Arg::unknown();
        }
        let script = parse_marked(&code.text);
        drop(code);
        self.partial = graver(self.partial, script.partial);
        self.nested(&script, stdin.as_ref())
    }

    /// Code that only the shell will know: what it came from decides how grave that is.
    pub fn unreadable(&mut self, code: &Arg, program: &str) {
        let (name, scope) = match code.taint {
            "net" => ("net.fetch_exec", "remote"),
            "decoded" | "text" => ("exec.obfuscated", "unknown"),
            _ => ("exec.dynamic", "unknown"),
        };
        self.emit(Finding::new(name, "", scope), program);
    }

    // -- simple commands --------------------------------------------------------------------------------------------

    pub(crate) fn simple(&mut self, node: &Simple, stdin: Option<&Arg>) -> Arg {
        let prefix = self.assignments(node);
        let alias = self.alias(&node.words);
        let argv = self.words(&node.words);
        let (stdin, writes) = self.redirected(&node.redirects, stdin);
        if argv.is_empty() {
            return self.wrote(&writes, Arg::empty());
        }
        for (name, value) in &prefix {
            self.sensitive(name, value);
        }
        let saved = (!prefix.is_empty()).then(|| self.copied());
        for (name, value) in prefix {
            self.env.put(&name, value);
        }
        let out = match alias {
            Some((name, alias)) => self.aliased(&name, alias, &argv, stdin),
            None => self.execute(argv, stdin, true),
        };
        if let Some(values) = saved {
            self.env.values = values;
        }
        self.wrote(&writes, out)
    }

    /// Make the assignments that stand alone; those before a program are given back, each name once.
    fn assignments(&mut self, node: &Simple) -> Vec<(String, Elements)> {
        let mut prefix: Vec<(String, Elements)> = Vec::new();
        for assign in &node.assigns {
            let value = self.assigned(assign);
            if self.is_exhausted() {
                break;
            }
            if node.words.is_empty() {
                self.env.set(&assign.name, value.clone());
                self.sensitive(&assign.name, &value);
                continue;
            }
            match prefix.iter_mut().find(|(name, _)| *name == assign.name) {
                Some((_, old)) => *old = value,
                None => prefix.push((assign.name.clone(), value)),
            }
        }
        prefix
    }

    /// The elements that an assignment gives.
    fn assigned(&mut self, assign: &Assign) -> Elements {
        let value = self.elements(&assign.value);
        if !assign.append {
            return value.into();
        }
        let old = self.env.get(&assign.name).filter(|old| !old.is_empty());
        let old: &[Arg] = old.as_deref().unwrap_or(&[]);
        let first = old.first().map_or(0, |arg| length(&arg.text));
        self.spend(ARG_COST * old.len().max(1) + first / 8);
        if let [only] = value.as_slice() {
            let before = old.first().map_or("", |arg| arg.text.as_str());
            return one(Arg::tainted(format!("{before}{}", only.text), only.taint));
        }
        let blank = if old.is_empty() {
            vec![Arg::empty()]
        } else {
            Vec::new()
        };
        old.iter().cloned().chain(blank).chain(value).collect()
    }

    fn elements(&mut self, word: &Word) -> Vec<Arg> {
        if let [Part::Array(words)] = word.as_slice() {
            return self.words(words);
        }
        vec![self.single(word)]
    }

    pub(crate) fn sensitive(&mut self, name: &str, value: &Elements) {
        if let Some(handler) = (self.tables.handler)(&format!("={name}")) {
            let call = Call {
                program: name.to_owned(),
                args: value.to_vec(),
                stdin: None,
                path: name.to_owned(),
            };
            handler(self, &call);
        }
    }

    /// One command with its arguments, as the tables know it.
    pub fn execute(&mut self, argv: Vec<Arg>, stdin: Option<Arg>, functions: bool) -> Arg {
        if self.is_exhausted() || argv.is_empty() {
            return Arg::unknown();
        }
        self.steps -= 1;
        if self.steps < 0 {
            self.exhaust("too many commands");
            return Arg::unknown();
        }
        if self.depth + 1 >= MAX_NESTED * 2 {
            self.exhaust("too deep");
            return Arg::unknown();
        }
        if !self.hand_over(&argv, stdin.as_ref()) {
            return Arg::unknown();
        }
        self.depth += 1;
        let out = self.known_command(argv, stdin, functions);
        self.depth -= 1;
        out
    }

    fn known_command(&mut self, command: Vec<Arg>, stdin: Option<Arg>, functions: bool) -> Arg {
        let mut words = command.into_iter();
        let first = words.next().unwrap_or_default();
        let args: Vec<Arg> = words.collect();
        let path = if first.known() {
            // zsh: `=rm` is the path of rm
            match first.text.strip_prefix('=') {
                Some(name) => name.to_owned(),
                None => first.text,
            }
        } else {
            match self.guessed(&first, &args) {
                Some(path) => path,
                None => return Arg::unknown(),
            }
        };
        let name = base_name(&path);
        if functions && !self.functions.is_empty() && !path.contains('/') {
            if let Some(place) = self.functions.iter().position(|(known, _)| known == name) {
                return self.called(place, args, stdin.as_ref());
            }
        }
        if path.contains(SELF) && (self.parallel > 0 || self.looping > 0) {
            self.emit(Finding::new("exec.fork_bomb", "$0", "unknown"), "sh");
        }
        let name = name.to_owned();
        let Some(known) = self.lookup(&name) else {
            let call = Call {
                program: name,
                args,
                stdin,
                path,
            };
            self.unknown_program(&call);
            return printed(&call.program, &call.args, call.stdin.as_ref());
        };
        let call = Call {
            program: known.key.into_owned(),
            args,
            stdin,
            path,
        };
        self.known_program(known.handler, known.programs, &name, &call)
    }

    fn known_program(
        &mut self,
        handler: Option<Handler>,
        programs: &[Program],
        name: &str,
        call: &Call,
    ) -> Arg {
        let secrets = self.secrets;
        let out = handler.and_then(|handler| handler(self, call));
        if !programs.is_empty() && !self.is_exhausted() {
            self.receivers.push(Receiver::Emit(name.to_owned()));
            for program in programs {
                program(self, call);
            }
            self.receivers.pop();
        }
        if handler.is_none() {
            suppose(self, call, true);
        }
        let mut out =
            out.unwrap_or_else(|| printed(&call.program, &call.args, call.stdin.as_ref()));
        if self.secrets != secrets {
            out.taint = "secret";
        }
        out
    }

    /// Whether the tables have a program of exactly this name.
    pub(crate) fn knows(&self, name: &str) -> bool {
        (self.tables.handler)(name).is_some() || !(self.tables.programs)(name).is_empty()
    }

    /// The tables' name for a program: `python3.12` is python, `mkfs.ext4` is mkfs.
    fn lookup<'a>(&self, name: &'a str) -> Option<Known<'a>> {
        let known = |key: Cow<'a, str>| {
            if key.is_empty() {
                return None;
            }
            let handler = (self.tables.handler)(&key);
            let programs = (self.tables.programs)(&key);
            (handler.is_some() || !programs.is_empty()).then_some(Known {
                key,
                handler,
                programs,
            })
        };
        if let Some(found) = known(Cow::Borrowed(name)) {
            return Some(found);
        }
        let plain = without_version(name);
        let found = (plain.len() < name.len())
            .then(|| known(Cow::Borrowed(plain)))
            .flatten();
        found
            .or_else(|| {
                (name.starts_with("mkfs.") || name.starts_with("newfs_"))
                    .then(|| known(Cow::Borrowed("mkfs")))
                    .flatten()
            })
            .or_else(|| {
                let lower = name.to_lowercase();
                (lower != name).then(|| known(Cow::Owned(lower))).flatten()
            })
    }

    /// A program's name with unknown parts: the name without them if that is a program, else None and a finding.
    fn guessed(&mut self, first: &Arg, args: &[Arg]) -> Option<String> {
        let text = first.text.replace(UNKNOWN, "");
        if !text.is_empty() && self.lookup(base_name(&text)).is_some() {
            return Some(text);
        }
        if matches!(first.taint, "net" | "decoded") {
            self.unreadable(first, "sh");
            return None;
        }
        let before = self.found.list().len();
        let call = Call {
            program: "rm".to_owned(),
            args: args.to_vec(),
            stdin: None,
            path: "rm".to_owned(),
        };
        let root = self
            .collected((self.tables.programs)("rm"), &call)
            .into_iter()
            .find(|finding| finding.name == "fs.delete.root");
        if self.is_exhausted() {
            return None;
        }
        match root {
            Some(root) => {
                self.found.back_to(before);
                self.emit(
                    Finding::new("exec.obfuscated", root.target, root.scope),
                    "sh",
                );
            }
            None => self.emit(Finding::bare("exec.dynamic"), "sh"),
        }
        None
    }

    /// What the programs would say of a call, without saying it.
    pub(crate) fn collected(&mut self, programs: &[Program], call: &Call) -> Vec<Finding> {
        self.receivers.push(Receiver::Collect(Vec::new()));
        for program in programs {
            program(self, call);
        }
        match self.receivers.pop() {
            Some(Receiver::Collect(findings)) => findings,
            _ => Vec::new(),
        }
    }

    /// A file written just now, or a program we do not know that may run the command in its arguments.
    fn unknown_program(&mut self, call: &Call) {
        if call.path.contains('/') {
            if let Some(content) = self.file(&call.path).cloned() {
                self.code(content, &call.program, None);
                return;
            }
            self.ran(&Arg::new(call.path.as_str()), &call.program);
        }
        suppose(self, call, false);
    }

    fn called(&mut self, place: usize, args: Vec<Arg>, stdin: Option<&Arg>) -> Arg {
        let Some((name, body)) = self.functions.get(place).cloned() else {
            return Arg::unknown();
        };
        let running = self
            .stack
            .iter()
            .find(|(running, _)| std::rc::Rc::ptr_eq(running, &body));
        let running = running.map(|(_, parallel)| *parallel);
        if let Some(parallel) = running {
            if self.parallel > parallel {
                self.emit(
                    Finding::new("exec.fork_bomb", name.as_str(), "unknown"),
                    "sh",
                );
            }
            self.called.insert(name);
            return Arg::unknown();
        }
        self.called.insert(name);
        let saved = std::mem::replace(&mut self.env.positional, args.into());
        self.stack.push((body.clone(), self.parallel));
        let body: &Node = &body;
        let out = self.node(body, stdin);
        self.stack.pop();
        self.env.positional = saved;
        out
    }
}
