//! Tools with a small language of their own, in whose text commands stand: awk, sed, editors, make, git, tmux.

// Each handler has the type that the tables keep, also where it always knows the output.
#![allow(clippy::unnecessary_wraps)]

use std::sync::LazyLock;

use super::git_runs::git;
use super::options::{split, Options};
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
pattern!(
    EDITOR_SYSTEM,
    r#"(?:system|execute)\(\s*(?:'(.*?)'|"(.*?)")"#
);
pattern!(ED, r"(?:^|\n)[^\S\n]*!([^\n]+)");
pattern!(
    EMACS,
    r#"\((?:async-)?shell-command(?:-to-string)?\s+"((?:[^"\\]|\\.)*)""#,
);
pattern!(LESS, r"^\+!(.+)");
pattern!(
    EXPECT,
    r"(?:^|[;\n{])[^\S\n]*(?:spawn|exec|system)\s+\{?([^\n;}]+)"
);
pattern!(GDB, r"^\s*(?:shell|!)\s*(.+)");
pattern!(
    RECIPE,
    r"(?:\n\t|(?:^|\n)[^\s:=#][^:=#\n]*:[^=;\n]*;)[ \t]*[@-]*([^\n]+)"
);
pattern!(MAKE_RUNS, r"\$[({]shell\s+([^\n)}]+)");
pattern!(
    MAKE_SHELL,
    r"(?:^|\n)[ \t]*SHELL[ \t]*[:?+]*=[ \t]*([^\n]+)"
);
pattern!(
    TAR,
    r"^--(?:checkpoint-action=exec|to-command|use-compress-program|rsh-command|info-script|new-volume-script)",
    r"=((?s:.+))",
);
pattern!(
    SQL_SHELL,
    r"(?:^|\n)[^\S\n]*(?:\\!|\.shell|\.system|system)\s+([^\n]+)"
);
static SQL_PROGRAM: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::ignoring_case(r"\b(?:to|from)\s+program\s+'([^']+)'"));
static SOCAT: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::ignoring_case(r"^(?:exec|system):([^,]+)"));
const MAX_AWK: usize = 8 * 1024; // characters of a program, as in Python
#[rustfmt::skip]
const TMUX: &[&str] = &[
    "new", "new-session", "neww", "new-window", "splitw", "split-window", "run", "run-shell", "send", "send-keys",
    "respawn-pane", "pipe-pane", "if-shell",
];
#[rustfmt::skip]
const TAR_COMMANDS: &[&str] = &[
    "--to-command", "--use-compress-program", "--rsh-command", "--info-script", "--new-volume-script",
    "--checkpoint-action",
];
const MAX_LINES: usize = 200; // of what an editor or a tool reads from its input

/// The handler of a tool with a small language of its own.
#[must_use]
pub fn handler(name: &str) -> Option<Handler> {
    Some(match name {
        "ansible" => ansible,
        "awk" | "gawk" | "mawk" | "nawk" => awk,
        "ed" => |walk, call| lines_of_code(walk, call, &ED),
        "emacs" | "emacsclient" => |walk, call| lines_of_code(walk, call, &EMACS),
        "less" | "more" => |walk, call| lines_of_code(walk, call, &LESS),
        "expect" | "tclsh" => |walk, call| lines_of_code(walk, call, &EXPECT),
        "gdb" => |walk, call| lines_of_code(walk, call, &GDB),
        "git" => git,
        "gmake" | "make" => make,
        "gsed" | "sed" => sed,
        "gtar" | "tar" => tar,
        "man" => man,
        "osascript" => osascript,
        "psql" | "sqlite3" | "mysql" | "mariadb" | "duckdb" => database,
        "rsync" => rsync,
        "socat" => socat,
        "byobu" | "tmux" => tmux,
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
    for arg in call.args.iter().chain(&call.stdin) {
        for found in APPLE.all(&arg.text) {
            walk.code(Arg::new(unescaped(found.text(1))), "osascript", None);
        }
    }
    Some(Arg::unknown())
}

fn awk(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let long = ["--field-separator", "--assign", "--file"];
    let opts = split(&call.args, "Fvf", &long, false);
    let program = scripted(walk, call, &opts, &["-f", "--file"])
        .or_else(|| opts.operands.first().cloned())
        .filter(Arg::known)?;
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

/// A program in a file that an option names: standard input, or one whose content is known.
fn scripted(walk: &Walk, call: &Call, opts: &Options, names: &[&str]) -> Option<Arg> {
    let path = names.iter().find_map(|name| opts.value(name))?;
    match path.text.as_str() {
        "-" | "/dev/stdin" | "/proc/self/fd/0" => call.stdin.clone(),
        text => walk.file(text).cloned(),
    }
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
    let file = scripted(walk, call, &opts, &["-f", "--file"]);
    scripts.extend(&file);
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
    let pairs = args.iter().zip(args.iter().skip(1));
    let clusters = pairs.filter(|(a, _)| is_letters(&a.text, 2, "c"));
    values.extend(clusters.map(|(_, b)| b.text.as_str()));
    values.extend(args.iter().filter_map(|a| a.text.strip_prefix('+')));
    if call.program == "ex" || args.iter().any(|a| is_letters(&a.text, 1, "eEs")) {
        let lines = call
            .stdin
            .iter()
            .flat_map(|text| text.text.split('\n').take(MAX_LINES));
        values.extend(lines);
    }
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

/// A cluster of so many letters or up to three more, of which the last is one of `ends`.
fn is_letters(text: &str, least: usize, ends: &str) -> bool {
    let letters = text.strip_prefix('-').unwrap_or("");
    (least..=least + 3).contains(&letters.len())
        && letters.bytes().all(|b| b.is_ascii_alphabetic())
        && letters.ends_with(|c| ends.contains(c))
}

const MAKEFILES: &[&str] = &["GNUmakefile", "makefile", "Makefile"];

/// Recipes and `$(shell ...)` of a makefile that is given or known, and a SHELL that is a command.
fn make(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let long = ["--eval", "--file", "--makefile", "--directory"];
    let opts = split(&call.args, "fCIEjlWo", &long, false);
    let given = ["-f", "--file", "--makefile"];
    let mut file = scripted(walk, call, &opts, &given);
    if file.is_none() && !opts.has(&given) {
        let named = MAKEFILES.iter().find_map(|name| walk.file(name));
        file = named.cloned();
    }
    for text in call.args.iter().chain(&file) {
        if !walk.spend(length(&text.text) / 2) {
            return None;
        }
        for (pattern, blank) in [(&RECIPE, false), (&MAKE_RUNS, false), (&MAKE_SHELL, true)] {
            for found in pattern.all(&text.text).iter().take(MAX_LINES) {
                if !blank || found.text(1).contains(' ') {
                    walk.code(Arg::new(found.text(1)), &call.program, None);
                }
            }
        }
    }
    None
}

/// Shell escapes of database shells: `\! cmd`, `.shell cmd`, `.system cmd`, and `COPY ... TO PROGRAM 'cmd'`.
fn database(walk: &mut Walk, call: &Call) -> Option<Arg> {
    for arg in call.args.iter().chain(&call.stdin) {
        for pattern in [&SQL_SHELL, &SQL_PROGRAM] {
            for found in pattern.all(&arg.text) {
                walk.code(Arg::new(found.text(1)), &call.program, None);
            }
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
        let text = code.text.strip_prefix("cmd=").unwrap_or(&code.text);
        walk.code(code.with_text(text), "ansible", None);
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
    let opts = split(&call.args, "fCIXTbgF", TAR_COMMANDS, false);
    let given = |option: &str| call.args.iter().any(|a| a.text == option);
    let checkpoint = opts.value("--checkpoint-action");
    if let Some(code) = checkpoint.and_then(|value| value.text.strip_prefix("exec=")) {
        if given("--checkpoint-action") {
            walk.code(Arg::new(code), "tar", None);
        }
    }
    for option in ["-I", "-F"] {
        spaced_value(walk, opts.value(option), "tar");
    }
    for option in TAR_COMMANDS.iter().take(5).filter(|option| given(option)) {
        spaced_value(walk, opts.value(option), "tar");
    }
    None
}

/// An option's value that is a command where it has a blank.
pub fn spaced_value(walk: &mut Walk, value: Option<&Arg>, program: &str) {
    if let Some(value) = value.filter(|value| value.text.contains(' ')) {
        walk.code(value.clone(), program, None);
    }
}

fn rsync(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let opts = split(&call.args, "ef", &["--rsh", "--rsync-path"], false);
    for option in ["-e", "--rsh", "--rsync-path"] {
        spaced_value(walk, opts.value(option), "rsync");
    }
    None
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
