//! Tools with a small language of their own, in whose text commands stand: awk, sed, editors, make, git, tmux.

// Each handler has the type that the tables keep, also where it always knows the output.
#![allow(clippy::unnecessary_wraps)]

use std::sync::LazyLock;

use super::options::split;
use super::patterns::Pattern;
use super::sed_scripts;
use super::values::{after_last, length, spaced, Arg, HOME, UNKNOWN};
use super::walk::{Call, Handler, Walk};

macro_rules! pattern {
    ($name:ident, $($text:expr),+ $(,)?) => {
        static $name: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(concat!($($text),+)));
    };
}

pattern!(APPLE, r#"do shell script\s+"((?:[^"\\]|\\.)*)""#);
pattern!(
    AWK_RUNS,
    r#"system\s*\(\s*"((?:[^"\\]|\\.)*)"(\s*\))?|\|\s*"((?:[^"\\]|\\.)*)""#,
    r#"|"((?:[^"\\]|\\.)*)"\s*\|\s*getline"#,
);
pattern!(
    AWK_PIPES,
    r#"print\s*\(?\s*"((?:[^"\\]|\\.)*)"\s*\)?\s*\|\s*"(?:/bin/)?(?:ba|da|z|k)?sh""#,
);
pattern!(AWK_WRITES, r#"print[^;\n]*?>>?\s*"([^"]+)""#);
pattern!(
    EDITOR_RUNS,
    r#"^:?\s*(?:silent!?\s+|exe(?:cute)?\s+['"])?(?:r(?:ead)?\s*)?!((?s:.+))"#,
);
pattern!(
    EDITOR_WRITES,
    r"^:?\s*(?:silent!?\s+)?w(?:rite|q)?!?\s+([^\s!]\S*)"
);
pattern!(EDITOR_SYSTEM, r#"system\(\s*(?:'(.*?)'|"(.*?)")"#);
pattern!(ED, r"(?:^|\n)[^\S\n]*!([^\n]+)");
pattern!(
    EMACS,
    r#"\((?:async-)?shell-command(?:-to-string)?\s+"((?:[^"\\]|\\.)*)""#,
);
pattern!(LESS, r"^\+!(.+)");
pattern!(EXPECT, r"(?:^|[;\n{])[^\S\n]*(?:spawn|exec)\s+([^\n;}]+)");
pattern!(GDB, r"^\s*(?:shell|!)\s*(.+)");
pattern!(MAKE, r"\n\t[@-]*([^\n]+)");
pattern!(
    TAR,
    r"^--(?:checkpoint-action=exec|to-command|use-compress-program|rsh-command|info-script|new-volume-script)",
    r"=((?s:.+))",
);
pattern!(
    SQL_SHELL,
    r"(?:^|\n)[^\S\n]*(?:\\!|\.shell|\.system|system)\s+([^\n]+)"
);
static SOCAT: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::ignoring_case(r"^(?:exec|system):([^,]+)"));
static GIT: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::ignoring_case(concat!(
        r"^(?:core\.(?:pager|editor|sshcommand|fsmonitor|askpass|gitproxy)|pager\.\w+|sequence\.editor|diff\.external",
        r"|(?:diff|merge|filter|difftool|mergetool)\.[\w-]+\.(?:command|driver|textconv|smudge|clean|process|cmd)",
        r"|credential\.helper|gpg\.program|alias\.([\w-]+))=((?s:.*))",
    ))
});
const MAX_AWK: usize = 8 * 1024; // characters of a program, as in Python
#[rustfmt::skip]
const TMUX: &[&str] = &[
    "new", "new-session", "neww", "new-window", "splitw", "split-window", "run", "run-shell", "send", "send-keys",
    "respawn-pane",
];

/// The handler of a tool with a small language of its own.
#[must_use]
pub fn handler(name: &str) -> Option<Handler> {
    Some(match name {
        "ansible" => ansible,
        "awk" | "gawk" | "mawk" | "nawk" => awk,
        "ed" => |walk, call| lines_of_code(walk, call, &ED),
        "emacs" => |walk, call| lines_of_code(walk, call, &EMACS),
        "less" => |walk, call| lines_of_code(walk, call, &LESS),
        "expect" | "tclsh" => |walk, call| lines_of_code(walk, call, &EXPECT),
        "gdb" => |walk, call| lines_of_code(walk, call, &GDB),
        "git" => git,
        "gmake" | "make" => |walk, call| lines_of_code(walk, call, &MAKE),
        "gsed" | "sed" => sed,
        "gtar" | "tar" => tar,
        "man" => man,
        "osascript" => osascript,
        "psql" | "sqlite3" | "mysql" | "mariadb" => {
            |walk, call| lines_of_code(walk, call, &SQL_SHELL)
        }
        "rsync" => rsync,
        "socat" => socat,
        "tmux" => tmux,
        "vim" | "vi" | "nvim" | "ex" | "view" | "rvim" => editor,
        _ => return None,
    })
}

/// The text with each backslash taken from the character that it hides.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let hides = c == '\\' && chars.peek().is_some_and(|next| *next != '\n');
        out.extend(if hides { chars.next() } else { Some(c) });
    }
    out
}

fn osascript(walk: &mut Walk, call: &Call) -> Option<Arg> {
    for arg in &call.args {
        for found in APPLE.all(&arg.text) {
            walk.code(Arg::new(unescaped(found.text(1))), "osascript", None);
        }
    }
    Some(Arg::unknown())
}

fn awk(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let operands = split(
        &call.args,
        "Fvf",
        &["--field-separator", "--assign", "--file"],
        false,
    )
    .operands;
    let program = operands.first().filter(|program| program.known())?;
    if length(&program.text) > MAX_AWK {
        walk.exhaust("too long");
        return None;
    }
    if !walk.spend(length(&program.text).pow(2) / 256) {
        return None;
    }
    for found in AWK_RUNS.all(&program.text) {
        let code = found.group(1).or(found.group(3)).unwrap_or(found.text(4));
        let mut code = unescaped(code);
        if found.group(1).is_some() && found.text(2).is_empty() {
            code.push(UNKNOWN);
        }
        walk.code(Arg::new(code), "awk", None);
    }
    for found in AWK_PIPES.all(&program.text) {
        walk.code(Arg::new(unescaped(found.text(1))), "awk", None);
    }
    for found in AWK_WRITES.all(&program.text) {
        walk.written(&Arg::new(found.text(1)), "awk", false);
    }
    None
}

/// sed's `e` command and `w` file.
fn sed(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let opts = split(&call.args, "efl", &["--expression", "--file"], false);
    let mut scripts: Vec<&Arg> = ["-e", "--expression"]
        .iter()
        .filter_map(|o| opts.value(o))
        .collect();
    if scripts.is_empty() {
        scripts.extend(opts.operands.first());
    }
    for script in scripts {
        let separates = |b: &u8| matches!(b, b';' | b'\n' | b'{' | b'}');
        let starts = 1 + script.text.bytes().filter(|b| separates(b)).count();
        if !walk.spend(starts * length(&script.text).min(1000) / 4) {
            return None;
        }
        for code in sed_scripts::commands(&script.text) {
            walk.code(Arg::new(code), "sed", None);
        }
        for code in sed_scripts::substitutions(&script.text) {
            walk.code(Arg::new(unescaped(code)), "sed", None);
        }
        for path in sed_scripts::writes(&script.text) {
            walk.written(&Arg::new(path), "sed", false);
        }
    }
    None
}

/// `vim -c ':!cmd'`, `+'!cmd'`.
fn editor(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let args = &call.args;
    let takes = |a: &Arg| matches!(a.text.as_str(), "-c" | "--cmd" | "-S" | "-s");
    let mut values: Vec<&str> = args
        .iter()
        .zip(args.iter().skip(1))
        .filter(|(a, _)| takes(a))
        .map(|(_, b)| b.text.as_str())
        .collect();
    values.extend(args.iter().filter_map(|a| a.text.strip_prefix('+')));
    for value in values {
        if let Some(found) = EDITOR_RUNS.captures(value) {
            walk.code(Arg::new(found.text(1)), &call.program, None);
        }
        if let Some(found) = EDITOR_WRITES.captures(value) {
            walk.written(&home(found.text(1)), &call.program, false);
        }
        for found in EDITOR_SYSTEM.all(value) {
            let code = found.group(1).unwrap_or(found.text(2));
            walk.code(Arg::new(code), &call.program, None);
        }
    }
    None
}

fn home(text: &str) -> Arg {
    match text.strip_prefix("~/") {
        Some(rest) => Arg::new(format!("{HOME}/{rest}")),
        None => Arg::new(text),
    }
}

/// A tool that runs the shell commands that `pattern` finds in its arguments and input.
fn lines_of_code(walk: &mut Walk, call: &Call, pattern: &Pattern) -> Option<Arg> {
    for arg in call.args.iter().chain(&call.stdin) {
        for found in pattern.all(&arg.text) {
            walk.code(Arg::new(found.text(1)), &call.program, None);
        }
    }
    None
}

fn ansible(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let opts = split(&call.args, "amiulf", &["--args", "--module-name"], false);
    let code = opts.value("-a").or_else(|| opts.value("--args"))?;
    let module = opts.value("-m").or_else(|| opts.value("--module-name"));
    let runs = |module: &Arg| matches!(after_last(&module.text, '.'), "shell" | "command" | "raw");
    if module.is_none_or(runs) {
        walk.code(code.clone(), "ansible", None);
    }
    None
}

/// tmux new, run-shell, send-keys, split-window: the words after the options are a command.
fn tmux(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let opts = split(&call.args, "fLSTctsnexyF", &[], true);
    let (first, rest) = opts.operands.split_first()?;
    if !TMUX.contains(&first.text.as_str()) {
        return None;
    }
    let mut keys = split(rest, "ctsnexyFlpR", &[], true).operands;
    keys.retain(|a| !matches!(a.text.as_str(), "Enter" | "C-m"));
    if !keys.is_empty() {
        walk.code(Arg::new(spaced(&keys)), "tmux", None);
    }
    None
}

fn tar(walk: &mut Walk, call: &Call) -> Option<Arg> {
    for arg in &call.args {
        if let Some(found) = TAR.captures(&arg.text) {
            walk.code(Arg::new(found.text(1)), "tar", None);
        }
    }
    let opts = split(&call.args, "fCIXTbgF", &[], false);
    for option in ["-I", "-F"] {
        spaced_value(walk, opts.value(option), "tar");
    }
    None
}

/// An option's value that is a command where it has a blank.
fn spaced_value(walk: &mut Walk, value: Option<&Arg>, program: &str) {
    if let Some(value) = value.filter(|value| value.text.contains(' ')) {
        walk.code(value.clone(), program, None);
    }
}

fn rsync(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let opts = split(&call.args, "ef", &["--rsh", "--rsync-path"], false);
    for option in ["-e", "--rsh"] {
        spaced_value(walk, opts.value(option), "rsync");
    }
    None
}

/// Commands that git itself would run: `-c core.pager=...`, an alias with `!`, `submodule foreach`, `bisect run`.
fn git(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let args = &call.args;
    if !walk.spend(8 * args.len()) {
        return None;
    }
    for (a, b) in args.iter().zip(args.iter().skip(1)) {
        if !matches!(a.text.as_str(), "-c" | "--config-env") {
            continue;
        }
        if let Some(found) = GIT.captures(&b.text) {
            if !walk.spend(args.len() / 4) {
                return None;
            }
            let mut value = found.text(2).to_owned();
            for word in after_alias(args, found.text(1)) {
                value.push(' ');
                value.push_str(&word.text);
            }
            git_command(walk, &value, !found.text(1).is_empty());
        }
    }
    for arg in args {
        if let Some(code) = arg.text.strip_prefix("ext::") {
            walk.code(arg.with_text(code), "git", None);
        }
    }
    for words in [
        ["submodule", "foreach"],
        ["bisect", "run"],
        ["rebase", "--exec"],
        ["rebase", "-x"],
    ] {
        git_words(walk, args, words);
    }
    if let Some(at) = position(args, "config") {
        let rest = args.iter().skip(at + 1).map(|a| a.text.as_str());
        let pair: Vec<&str> = rest.filter(|text| !text.starts_with('-')).take(2).collect();
        if let [_, _] = pair.as_slice() {
            if let Some(found) = GIT.captures(&pair.join("=")) {
                git_command(walk, found.text(2), !found.text(1).is_empty());
            }
        }
    }
    for flag in ["--upload-pack", "--receive-pack", "--exec", "-u"] {
        spaced_value(walk, split(args, "", &[flag], false).value(flag), "git");
    }
    None
}

fn position(args: &[Arg], word: &str) -> Option<usize> {
    args.iter().position(|a| a.text == word)
}

/// The words after a subcommand that runs a command.
fn git_words(walk: &mut Walk, args: &[Arg], [first, second]: [&str; 2]) {
    let (Some(_), Some(at)) = (position(args, first), position(args, second)) else {
        return;
    };
    let most = if first == "rebase" { 1 } else { args.len() };
    let rest: Vec<&Arg> = args
        .iter()
        .skip(at + 1)
        .filter(|a| !matches!(a.text.as_str(), "--recursive" | "-q" | "--quiet"))
        .take(most)
        .collect();
    if !rest.is_empty() {
        walk.code(Arg::new(spaced(rest)), "git", None);
    }
}

/// What follows the alias where the same command line uses it.
fn after_alias<'a>(args: &'a [Arg], alias: &str) -> &'a [Arg] {
    if alias.is_empty() {
        return &[];
    }
    position(args, alias)
        .and_then(|at| args.get(at + 1..))
        .unwrap_or(&[])
}

fn git_command(walk: &mut Walk, value: &str, alias: bool) {
    let code = match value.strip_prefix('!') {
        Some(code) if alias => code.to_owned(),
        None if alias => format!("git {value}"),
        _ => value.to_owned(),
    };
    walk.code(Arg::new(code), "git", None);
}

fn socat(walk: &mut Walk, call: &Call) -> Option<Arg> {
    for arg in &call.args {
        if let Some(found) = SOCAT.captures(&arg.text) {
            walk.code(
                Arg::new(found.text(1).trim_matches(['\'', '"'])),
                "socat",
                None,
            );
        }
    }
    None
}

fn man(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let opts = split(&call.args, "P", &["--pager"], false);
    for option in ["-P", "--pager"] {
        if let Some(value) = opts.value(option) {
            walk.code(value.clone(), "man", None);
        }
    }
    None
}
