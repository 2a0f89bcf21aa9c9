//! What the shell's own commands change in a walk: directory, variables, functions, and text that they run.

// Each handler has the type that the tables keep, also where it always knows the output.
#![allow(clippy::unnecessary_wraps)]

use std::sync::LazyLock;

use super::effects::Finding;
use super::environment::{one, Elements};
use super::options::split;
use super::paths::join;
use super::patterns::{is_identifier, lines, Pattern};
use super::tree::{Part, Word};
use super::values::{first_taint, length, partition, quoted, spaced, Arg, HOME_TEXT, UNKNOWN_TEXT};
use super::walk::{Call, Handler, Walk};

const MAX_LINES: usize = 32;
const MAX_ALIASES: usize = 200;
#[rustfmt::skip]
const COMMAND_VARIABLES: &[&str] = &[
    "GIT_SSH_COMMAND", "GIT_PAGER", "PAGER", "MANPAGER", "EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR",
    "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND", "GIT_ASKPASS", "SSH_ASKPASS", "SUDO_ASKPASS", "LESSOPEN", "LESSCLOSE",
    "PROMPT_COMMAND", "BROWSER", "RSYNC_RSH", "TAR_OPTIONS",
];
const SHELL_FILES: &[&str] = &["BASH_ENV", "ENV"];
#[rustfmt::skip]
const FILE_VARIABLES: &[&str] = &[
    "BASH_ENV", "ENV", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONPATH", "PERL5LIB", "RUBYLIB", "NODE_PATH", "ZDOTDIR",
    "LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH", "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR", "OPENSSL_CONF",
];
const LOADING_VARIABLES: &[&str] = &["PERL5OPT", "RUBYOPT", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS"];
static LOADED: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(concat!(
        r"(?:^|[ \t\n])(?:--(?:require|import|loader|experimental-loader)[= ]|-javaagent:|-agentpath:|-[rMmI] ?)",
        r"([^ \t\n]+)"
    ))
});
const OWN_VARIABLES: &[&str] = &[
    "INTERLOCK_CONFIG",
    "INTERLOCK_POLICY",
    "INTERLOCK_DISABLE",
    "INTERLOCK_HOME",
];

/// The handler of a command of the shell's own, or of `=NAME`: a variable that is set.
#[must_use]
pub fn handler(name: &str) -> Option<Handler> {
    if let Some(variable) = name.strip_prefix('=') {
        return if COMMAND_VARIABLES.contains(&variable) {
            Some(runs_value)
        } else if FILE_VARIABLES.contains(&variable) {
            Some(runs_file)
        } else if LOADING_VARIABLES.contains(&variable) {
            Some(runs_loaded)
        } else {
            OWN_VARIABLES
                .contains(&variable)
                .then_some(own_setting as Handler)
        };
    }
    Some(match name {
        "." | "source" => source,
        "alias" => alias,
        "builtin" | "command" => command,
        "cd" | "chdir" | "popd" | "pushd" => cd,
        "declare" | "export" | "local" | "readonly" | "typeset" => declare,
        "eval" => eval,
        "exec" => exec,
        "mapfile" | "readarray" => mapfile,
        "printf" => printf,
        "read" => read,
        "set" => set,
        "setenv" | "unalias" => |_, _| Some(Arg::empty()),
        "shift" => shift,
        "trap" => trap,
        "unset" => unset,
        _ => return None,
    })
}

fn cd(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let skipped = |a: &&Arg| !matches!(a.text.as_str(), "--" | "-L" | "-P" | "-e");
    let target = call
        .args
        .iter()
        .find(skipped)
        .map_or(HOME_TEXT, |a| a.text.as_str());
    let lost = call.program == "popd" || matches!(target, "-" | "") || target.starts_with('+');
    walk.env.cwd = if lost {
        UNKNOWN_TEXT.to_owned()
    } else {
        walk.spend(length(&walk.env.cwd) / 2);
        join(&walk.env.cwd, target)
    };
    Some(Arg::empty())
}

/// export, local, declare, readonly, typeset: `name=value` arguments.
fn declare(walk: &mut Walk, call: &Call) -> Option<Arg> {
    for arg in &call.args {
        let (name, equals, value) = partition(&arg.text, '=');
        let plain = name.trim_end_matches('+');
        if equals && is_identifier(plain) && walk.spend(8) {
            let value = one(arg.with_text(value));
            walk.env.set(plain, value.clone());
            walk.sensitive(name, &value);
        }
    }
    Some(Arg::empty())
}

fn read(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let opts = split(&call.args, "adinNptu", &[], false);
    let names: Vec<&str> = match opts.value("-a") {
        Some(name) => vec![&name.text],
        None if opts.operands.is_empty() => vec!["REPLY"],
        None => opts.operands.iter().map(|a| a.text.as_str()).collect(),
    };
    let (text, taint) = call
        .stdin
        .as_ref()
        .map_or(("", ""), |stdin| (stdin.text.as_str(), stdin.taint));
    let filled = text
        .split('\n')
        .filter(|line| !line.is_empty())
        .take(MAX_LINES);
    let mut value: Vec<Arg> = filled.map(|line| Arg::tainted(line, taint)).collect();
    if value.is_empty() {
        value.push(Arg::unknown_from(taint));
    }
    let value: Elements = value.into();
    for name in names {
        walk.env.set(name, value.clone());
    }
    Some(Arg::empty())
}

fn unset(walk: &mut Walk, call: &Call) -> Option<Arg> {
    for arg in &call.args {
        walk.env.unset(&arg.text);
        walk.functions.retain(|(name, _)| *name != arg.text);
    }
    Some(Arg::empty())
}

impl Walk {
    /// The alias that a command's first word is, and its text.
    pub(crate) fn alias(&self, words: &[Word]) -> Option<(String, String)> {
        if self.aliases.is_empty() {
            return None;
        }
        match words.first().map(Vec::as_slice) {
            Some(
                [Part::Lit {
                    text,
                    quoted: false,
                }],
            ) => self
                .aliases
                .iter()
                .find(|(name, value)| name == text && !value.is_empty())
                .cloned(),
            _ => None,
        }
    }

    /// What an alias stands for; in its own text it is the command of that name.
    pub(crate) fn aliased(
        &mut self,
        name: &str,
        alias: String,
        argv: &[Arg],
        stdin: Option<Arg>,
    ) -> Arg {
        let mut text = alias.clone();
        for arg in argv.iter().skip(1) {
            text.push(' ');
            text.push_str(&quoted(arg));
        }
        let program = argv.first().map_or("", |arg| arg.text.as_str());
        self.set_alias(name, String::new());
        let out = self.code(Arg::new(text), program, stdin);
        self.set_alias(name, alias);
        out
    }

    /// Give an alias a text, or take it away for a while; one that was given another text meanwhile keeps that.
    fn set_alias(&mut self, name: &str, text: String) {
        let held = self.aliases.iter_mut().find(|(known, _)| known == name);
        if let Some((_, old)) = held.filter(|(_, old)| text.is_empty() || old.is_empty()) {
            *old = text;
        }
    }
}

fn alias(walk: &mut Walk, call: &Call) -> Option<Arg> {
    for arg in &call.args {
        let (name, equals, value) = partition(&arg.text, '=');
        if equals && walk.aliases.len() < MAX_ALIASES {
            match walk.aliases.iter_mut().find(|(known, _)| known == name) {
                Some((_, old)) => value.clone_into(old),
                None => walk.aliases.push((name.to_owned(), value.to_owned())),
            }
        }
    }
    (!call.args.is_empty()).then(Arg::empty)
}

/// The arguments without `--`.
fn without_dashes(call: &Call) -> Vec<&Arg> {
    call.args.iter().filter(|a| a.text != "--").collect()
}

fn eval(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let args = without_dashes(call);
    let taint = first_taint(args.iter().copied());
    let code = Arg::tainted(spaced(args), taint);
    Some(walk.code(code, "eval", call.stdin.clone()))
}

fn source(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let path = call.args.first()?;
    let mut content = walk.file(&path.text).cloned();
    if content.is_none() && matches!(path.text.as_str(), "/dev/stdin" | "-") {
        content.clone_from(&call.stdin);
    }
    Some(match content {
        Some(content) => walk.code(content, "source", None),
        None => Arg::unknown(),
    })
}

fn trap(walk: &mut Walk, call: &Call) -> Option<Arg> {
    if let [code, _, ..] = without_dashes(call).as_slice() {
        if !matches!(code.text.as_str(), "-" | "-l" | "-p" | "") {
            walk.code((*code).clone(), "trap", None);
        }
    }
    Some(Arg::empty())
}

fn exec(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let rest = split(&call.args, "a", &[], true).operands;
    Some(run(walk, rest, call))
}

fn command(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let opts = split(&call.args, "", &[], true);
    if opts.has(&["-v", "-V"]) {
        return Some(Arg::new(
            opts.operands.first().map_or("", |a| a.text.as_str()),
        ));
    }
    Some(run(walk, opts.operands, call))
}

fn run(walk: &mut Walk, argv: Vec<Arg>, call: &Call) -> Arg {
    if argv.is_empty() {
        return Arg::empty();
    }
    walk.execute(argv, call.stdin.clone(), false)
}

fn set(walk: &mut Walk, call: &Call) -> Option<Arg> {
    if let Some(at) = call.args.iter().position(|a| a.text == "--") {
        walk.env.positional = call.args.iter().skip(at + 1).cloned().collect();
    } else if call
        .args
        .first()
        .is_some_and(|a| !a.text.starts_with(['-', '+']))
    {
        walk.env.positional = call.args.clone().into();
    }
    Some(Arg::empty())
}

fn shift(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let text = call.args.first().map_or("", |a| a.text.as_str());
    let count = match text.trim_start_matches('0') {
        _ if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) => 1,
        "" => 0,
        digits => digits.parse().unwrap_or(usize::MAX),
    };
    if walk.spend(2 * walk.env.positional.len()) {
        walk.env.positional = walk.env.positional.iter().skip(count).cloned().collect();
    }
    Some(Arg::empty())
}

/// `printf -v name ...` sets a variable.
fn printf(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let (flag, rest) = call.args.split_first()?;
    let (name, words) = rest.split_first()?;
    if flag.text != "-v" || words.is_empty() {
        return None;
    }
    let mut argv = vec![Arg::new("printf")];
    argv.extend(words.iter().cloned());
    let value = walk.execute(argv, None, false);
    walk.env.set(&name.text, one(value));
    Some(Arg::empty())
}

fn mapfile(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let names = split(&call.args, "dnOsuCc", &[], false).operands;
    let text = call.stdin.as_ref().map_or("", |stdin| stdin.text.as_str());
    let mut value: Vec<Arg> = lines(text).take(MAX_LINES).map(Arg::new).collect();
    if value.is_empty() {
        value.push(Arg::unknown());
    }
    walk.env
        .set(names.last().map_or("MAPFILE", |a| a.text.as_str()), value);
    Some(Arg::empty())
}

/// A variable whose value is a command that some program runs.
fn runs_value(walk: &mut Walk, call: &Call) -> Option<Arg> {
    if call.program == "PROMPT_COMMAND" {
        // of each shell that starts, and not instead of something
        walk.emit(Finding::new("exec.inline", "", "unknown"), &call.program);
    }
    for arg in &call.args {
        walk.code(arg.clone(), &call.program, None);
    }
    None
}

/// A variable whose value is a file, or several, whose code the next program runs.
fn runs_file(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let paths = call
        .args
        .iter()
        .flat_map(|arg| arg.text.split([':', ' ', '\t', '\n']));
    for path in paths.filter(|path| !path.is_empty()).take(MAX_LINES) {
        let content = walk.file(path).cloned();
        if let Some(content) = content.filter(|_| SHELL_FILES.contains(&call.program.as_str())) {
            walk.code(content, &call.program, None);
        }
        walk.ran(&Arg::new(path), &call.program);
    }
    None
}

/// A variable of options, of which some name code that is loaded (`NODE_OPTIONS=--require x.js`).
fn runs_loaded(walk: &mut Walk, call: &Call) -> Option<Arg> {
    for arg in &call.args {
        walk.spend(length(&arg.text) / 4);
        for found in LOADED.all(&arg.text).into_iter().take(MAX_LINES) {
            walk.ran(&Arg::new(found.text(1)), &call.program);
        }
    }
    None
}

fn own_setting(walk: &mut Walk, call: &Call) -> Option<Arg> {
    walk.emit(
        Finding::new("self.protect.command", &call.program, "home"),
        &call.program,
    );
    None
}
