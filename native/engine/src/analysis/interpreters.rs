//! Programs that run code: shells and scripting languages.

// Each handler has the type that the tables keep, also where it always knows the output.
#![allow(clippy::unnecessary_wraps)]

use std::sync::LazyLock;

use super::acts_net::{host, scope_of};
use super::code_scan::{scan, scan_cost, Act, Deed};
use super::effects::Finding;
use super::environment::one;
use super::options::split;
use super::outputs::rewritten;
use super::patterns::{is_alpha, starts, stripped, Pattern};
use super::programs::data::losses;
use super::small_languages;
use super::values::{partition, Arg, SELF, UNKNOWN};
use super::walk::{Call, Handler, Walk};

static OWN_FILES: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(concat!(
        r"(?s)\.claude\b.{0,40}settings|\.codex\b.{0,20}hooks|\.gemini\b.{0,20}settings|interlock\.toml",
        r"|\.config\b.{0,20}interlock",
    ))
});
static CHANGES: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(concat!(
        r#"write|unlink|remove|rename|dump\(|['"][wax]\+?b?['"]|truncate|rmtree|copy|move"#,
        r"|symlink|rmSync",
    ))
});
static SOCKETS: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(concat!(
        r"[sS]ocket\b|fsockopen|TCPSocket|createServer|net\.connect|/inet/tcp/|/dev/tcp/",
        r"|stream_socket_client",
    ))
});
static SHELLS_IN_CODE: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(concat!(
        r#"['"`](?:/usr)?(?:/bin/)?(?:ba|z|da|k)?sh(?:\s+-i[^'"]{0,40})?['"`]"#,
        r"|io\.popen|pty\.spawn|ProcessBuilder|cmd\.exe",
    ))
});

/// The handler of a program that runs code.
#[must_use]
pub fn handler(name: &str) -> Option<Handler> {
    match name {
        "sh" | "bash" | "zsh" | "dash" | "ksh" | "ash" | "fish" | "mksh" | "rbash" | "csh"
        | "tcsh" | "pwsh" => Some(shell),
        "iex" | "invoke-expression" => Some(iex),
        _ => small_languages::handler(name)
            .or_else(|| code_options(name).map(|_| language as Handler)),
    }
}

/// The options of a scripting language whose value is code.
fn code_options(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "python" | "python2" | "python3" | "pypy" | "pypy3" | "guile" | "ipython" => &["-c"],
        "perl" => &["-e", "-E"],
        "ruby" | "lua" | "luajit" | "osascript" | "Rscript" | "groovy" | "scala" | "jrunscript"
        | "R" | "irb" | "pry" | "ghc" | "clj" | "bb" => &["-e"],
        "elixir" => &["-e", "--eval"],
        "julia" => &["-e", "-E", "--eval", "--print"],
        "octave" => &["--eval"],
        "zx" => &["--eval", "-e"],
        "node" | "nodejs" | "tsx" | "bun" => &["-e", "-p", "--eval", "--print"],
        "deno" => &["eval"],
        "php" => &["-r", "-B", "-E", "-R", "--run"],
        "erl" => &["-eval"],
        _ => return None,
    })
}

/// Letters of a scripting language's options with another value: glued to it, or the next argument.
fn valued(name: &str) -> &'static str {
    match name {
        "python" | "python2" | "python3" | "pypy" | "pypy3" => "WXm",
        "perl" => "IMmiFCDdx",
        "ruby" => "rIEFKWxCiT",
        "node" | "nodejs" => "rC",
        "tsx" | "bun" => "r",
        "php" => "dcztFfS",
        "lua" => "l",
        "luajit" => "lj",
        "julia" => "LJCpt",
        "osascript" => "ls",
        _ => "",
    }
}

/// Letters among these whose value is never the next argument.
fn never_apart(name: &str) -> &'static str {
    match name {
        "perl" => "MmiFCDdx",
        "ruby" => "FKWxiT",
        _ => "",
    }
}

#[rustfmt::skip]
const LONG_VALUED: &[&str] =
    &["--require", "--import", "--loader", "--experimental-loader", "--input-type", "--conditions"];
const PYTHONS: &[&str] = &["python", "pypy"];
/// Languages that read `-e'code'`.
#[rustfmt::skip]
const GLUED: &[&str] = &[
    "python", "python2", "python3", "pypy", "pypy3", "perl", "ruby", "php", "lua", "luajit", "julia", "osascript",
    "ghc",
];

/// `sh -c code`, `sh file`, `sh -s`, and code on standard input.
fn shell(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let args = &call.args;
    let (mut k, mut wants_code, mut from_stdin) = (0, false, false);
    while let Some(text) = args.get(k).map(|a| a.text.as_str()) {
        let mut letters = text.chars();
        if !matches!(letters.next(), Some('-' | '+')) || letters.as_str().is_empty() {
            break;
        }
        k += 1;
        if text == "--" {
            break;
        }
        if text.starts_with("--") {
            if matches!(text, "--rcfile" | "--init-file") {
                if let Some(file) = args.get(k) {
                    walk.ran(file, &call.program);
                }
                k += 1;
            }
            wants_code |= text == "--command";
            continue;
        }
        wants_code |= letters.as_str().contains('c');
        from_stdin |= letters.as_str().contains('s');
        k += usize::from(text.ends_with(['o', 'O']));
    }
    let rest: Vec<Arg> = args.iter().skip(k + 1).cloned().collect();
    match args.get(k) {
        Some(code) if wants_code => return Some(with_positional(walk, call, code.clone(), rest)),
        None if wants_code => return None,
        Some(path) if !from_stdin => return Some(script(walk, call, path, rest)),
        _ => {}
    }
    let Some(stdin) = call.stdin.clone() else {
        return Some(Arg::unknown_from("shell"));
    };
    let known = stdin.known();
    let out = walk.code(stdin, &call.program, None);
    Some(if known {
        out
    } else {
        Arg::unknown_from("shell")
    })
}

/// Run code with `$0`, `$1` ... set; the first of `rest` is `$0`.
fn with_positional(walk: &mut Walk, call: &Call, code: Arg, rest: Vec<Arg>) -> Arg {
    let values = walk.copied();
    let mut rest = rest.into_iter();
    if let Some(first) = rest.next() {
        walk.env.put("0", one(first));
    }
    let saved = std::mem::replace(&mut walk.env.positional, rest.collect());
    let out = walk.code(code, &call.program, call.stdin.clone());
    walk.env.positional = saved;
    walk.env.values = values;
    out
}

fn script(walk: &mut Walk, call: &Call, path: &Arg, mut rest: Vec<Arg>) -> Arg {
    let mut content = walk.file(&path.text).cloned();
    if matches!(path.text.as_str(), "/dev/stdin" | "-" | "/proc/self/fd/0") {
        content.clone_from(&call.stdin);
    }
    if path.text.contains(SELF) && (walk.parallel > 0 || walk.looping > 0) {
        walk.emit(
            Finding::new("exec.fork_bomb", "$0", "unknown"),
            &call.program,
        );
    }
    if let Some(content) = content {
        rest.insert(0, path.clone());
        return with_positional(walk, call, content, rest);
    }
    if matches!(path.taint, "net" | "decoded") {
        walk.unreadable(path, &call.program);
    }
    walk.ran(path, &call.program);
    Arg::unknown()
}

/// What an argument of a language is, and what is glued to it.
enum Given<'a> {
    Code(&'a str),
    Module(&'a str),
    Valued,
    Flag,
    Operand,
}

fn language(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let name = call.program.as_str();
    let options = code_options(name)?;
    let (mut ran, mut value) = (false, None);
    for (k, arg) in call.args.iter().enumerate() {
        if value == Some(k) {
            continue;
        }
        let next = |glued: &str| match glued {
            "" => call.args.get(k + 1).cloned(),
            _ => Some(arg.with_text(glued)),
        };
        value = None;
        match option(name, options, &arg.text) {
            Given::Code(glued) => {
                if let Some(code) = next(glued) {
                    inline(walk, &code, name);
                    ran = true;
                }
                value = Some(k + 1).filter(|_| glued.is_empty());
            }
            Given::Module(glued) => {
                if let Some(module) = next(glued) {
                    let behind = call.args.iter().skip(k + 1 + usize::from(glued.is_empty()));
                    let argv = std::iter::once(module).chain(behind.cloned()).collect();
                    return Some(walk.execute(argv, call.stdin.clone(), false));
                }
            }
            Given::Valued => value = Some(k + 1),
            Given::Operand if !ran => break,
            Given::Flag | Given::Operand => {}
        }
    }
    if !ran {
        file_or_stdin(walk, call, name);
        return Some(Arg::unknown());
    }
    Some(rewritten(call.stdin.as_ref()))
}

fn option<'a>(name: &str, options: &[&str], text: &'a str) -> Given<'a> {
    let (head, _, long) = partition(text, '=');
    if options.contains(&text) {
        return Given::Code("");
    }
    if options.contains(&head) {
        return Given::Code(long);
    }
    if text.starts_with("--") {
        return if LONG_VALUED.contains(&text) {
            Given::Valued
        } else {
            Given::Flag
        };
    }
    let Some(letters) = text.strip_prefix('-') else {
        return Given::Operand;
    };
    let python = starts(name, PYTHONS);
    if !python && ends_in_code(letters, options) {
        return Given::Code("");
    }
    let is_code = |letter: char| {
        options
            .iter()
            .any(|o| o.strip_prefix('-').is_some_and(|o| o.chars().eq([letter])))
    };
    let mut rest = letters.chars();
    while let Some(letter) = rest.next() {
        if is_code(letter) && GLUED.contains(&name) {
            return Given::Code(rest.as_str());
        }
        if letter == 'm' && python {
            return Given::Module(rest.as_str());
        }
        if valued(name).contains(letter) {
            let apart = rest.as_str().is_empty() && !never_apart(name).contains(letter);
            return if apart { Given::Valued } else { Given::Flag };
        }
    }
    Given::Flag
}

/// A cluster that ends in an option for code (`-ne`).
fn ends_in_code(letters: &str, options: &[&str]) -> bool {
    let last = letters.chars().next_back();
    let ends = |option: &&str| {
        option
            .strip_prefix('-')
            .map(|o| (o.chars().next(), o.chars().nth(1)))
            == Some((last, None))
    };
    letters.chars().nth(1).is_some() && is_alpha(letters) && options.iter().any(ends)
}

fn file_or_stdin(walk: &mut Walk, call: &Call, name: &str) {
    let operands = split(&call.args, valued(name), &[], false).operands;
    let content = match operands.first() {
        Some(path) if path.text != "-" => {
            let content = match path.text.as_str() {
                "/dev/stdin" | "/proc/self/fd/0" => call.stdin.clone(),
                text => walk.file(text).cloned(),
            };
            if content.is_none() {
                walk.ran(path, &call.program);
            }
            content
        }
        _ => call.stdin.clone(),
    };
    if let Some(content) = content {
        inline(walk, &content, &call.program);
    }
}

/// Code of a scripting language.
fn inline(walk: &mut Walk, code: &Arg, program: &str) {
    if code
        .text
        .trim_matches([UNKNOWN, ' ', '\n', '\t'])
        .is_empty()
    {
        if !stripped(&code.text).is_empty() && matches!(code.taint, "net" | "decoded" | "text") {
            walk.unreadable(code, program);
        }
        return;
    }
    walk.emit(Finding::new("exec.inline", "", "unknown"), program);
    if !walk.spend(scan_cost(&code.text)) {
        return;
    }
    own_files(walk, &code.text, program);
    if SOCKETS.is_match(&code.text) && SHELLS_IN_CODE.is_match(&code.text) {
        walk.emit(Finding::new("net.reverse_shell", "", "remote"), program);
    }
    let in_memory = code.text.contains(":memory:");
    for act in scan(&code.text) {
        if !(in_memory && matches!(act.deed, Deed::Sql | Deed::Emptied)) {
            done(walk, act, program);
        }
    }
}

/// What an act of a scripting language's code does.
fn done(walk: &mut Walk, act: Act, program: &str) {
    let mut args: Vec<Arg> = act
        .texts
        .into_iter()
        .map(|text| Arg {
            glob: text.contains('*'),
            text,
            taint: "",
        })
        .collect();
    let first = args.first().cloned().unwrap_or_default();
    match act.deed {
        Deed::Inline => inline(walk, &Arg::new(first.text), program),
        Deed::Code => {
            walk.code(first, program, None);
        }
        Deed::Argv => {
            walk.execute(args, None, false);
        }
        Deed::Delete | Deed::DeleteTree => {
            let mut command = vec![Arg::new("rm")];
            if act.deed == Deed::DeleteTree {
                command.push(Arg::new("-r"));
            }
            command.push(Arg::new("--"));
            command.append(&mut args);
            walk.execute(command, None, false);
        }
        Deed::DeleteUrl => walk.emit(
            Finding::new("net.delete", host(&first.text), scope_of(&first.text)),
            program,
        ),
        Deed::Emptied => walk.emit(Finding::new("db.drop", first.text, "unknown"), program),
        Deed::Sql => {
            for finding in losses(walk, &first.text) {
                walk.emit(finding, program);
            }
        }
        Deed::Write => walk.written(&first, program, false),
        Deed::Read => walk.read(&first, program),
        Deed::Fetched => walk.emit(Finding::new("net.fetch_exec", "", "remote"), program),
        Deed::Hidden => walk.emit(Finding::new("exec.obfuscated", "", "unknown"), program),
        Deed::Fork => walk.emit(Finding::new("exec.fork_bomb", program, "unknown"), program),
    }
}

/// A path put together inside the code, beside a call that changes files.
fn own_files(walk: &mut Walk, code: &str, program: &str) {
    if let Some(found) = OWN_FILES.find(code) {
        if CHANGES.is_match(code) {
            walk.emit(
                Finding::new("self.protect.config", found, "unknown"),
                program,
            );
        }
    }
}

/// `PowerShell`'s Invoke-Expression: what it is given runs.
fn iex(walk: &mut Walk, call: &Call) -> Option<Arg> {
    for code in call.stdin.iter().chain(&call.args) {
        if matches!(code.taint, "net" | "decoded") {
            walk.unreadable(code, &call.program);
        }
    }
    Some(Arg::unknown())
}
