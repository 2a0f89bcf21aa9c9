//! What a program that we do not know would do, if it runs the command that its arguments seem to hold.
//!
//! Nothing says that it does, so this only serves objections: of what such a command would do, just what policies
//! object to is told, what it would set or write for later commands is forgotten, and no proof is made of it.

use std::sync::LazyLock;

use super::effects::{effect_of, Finding, Intent};
use super::fnmatch;
use super::grammar::grammar;
use super::ordinary::is_ordinary;
use super::patterns::{stripped, Pattern};
use super::values::{base_name, length, partition, Arg};
use super::walk::{Call, Walk};

const MAX_SUPPOSED: u32 = 2; // suppositions inside each other
const TRACE_COST: usize = 4; // of what is kept aside of the walk, a name
const LOOK_COST: usize = 6; // of an argument that is looked at
const MAX_HEADS: usize = 3; // programs among the arguments that are tried
/// Programs whose name among the arguments is enough, of which only what is told by a whole disk or directory counts.
const HIDDEN: &[&str] = &[
    "rm",
    "dd",
    "shred",
    "mkfs",
    "wipefs",
    "mkfs.ext4",
    "chmod",
    "chown",
];
const GRAVE: &[&str] = &[
    "fs.delete.root",
    "disk.overwrite",
    "disk.format",
    "fs.permission.root",
];
/// Words in the names of options and settings whose value is code.
#[rustfmt::skip]
const CODE_WORDS: &[&str] = &[
    "alias", "askpass", "batch", "chroot", "cmd", "cmds", "command", "commands", "editor", "eval", "exec", "execute",
    "expr", "hook", "hooks", "invoke", "pager", "preview", "prog", "program", "proxycommand", "rsh", "run", "runner",
    "script", "scripts", "shell", "ssh", "tunnels", "wrap", "wrapper",
];
#[rustfmt::skip]
const VERBS: &[&str] = &[
    "cmd", "command", "console", "do", "exec", "execute", "invoke", "run", "runner", "sh", "shell", "spawn", "ssh",
    "start",
];
const MAX_NAME: usize = 40; // characters of an option's name
/// Words by which nothing else is meant.
static DESTROYS: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::ignoring_case(concat!(
        r"^(?:(?:[a-z]+[:_-])?(?:destroy|obliterate|decommission|factory-?reset|flush-?all|drop-?(?:db|database|all)",
        r"|(?:delete|remove|erase|wipe|destroy|purge)-?all)(?:[:_-][a-z]+)?",
        r"|(?:db|database|schema)[:_-](?:drop|reset|wipe|purge|flush))$",
    ))
});
/// Words that tools have for what they made themselves, too: they count with another.
static ERASES: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::ignoring_case(r"^(?:[a-z]+[:_-])?(?:wipe|erase|nuke)(?:[:_-][a-z]+)?$")
});
#[rustfmt::skip]
const DESTROYING: &[&str] = &[
    "--destroy", "--wipe-all", "--wipe-data", "--erase-all", "--eraseall", "--nuke", "--factory-reset", "--purge-all",
    "--delete-all-data", "--destroy-all",
];
const ONLY_TELLS: &[&str] = &["--dry-run", "--dryrun", "--help", "--what-if", "--noop"];
const MAY_TELL: &[&str] = &["-n", "-h"]; // of a name that follows, they are a namespace and a host
const DENIED: &[&str] = &["false", "no", "none", "off", "0"];
/// With these, a word is a topic, a search or a new thing's name; or what is lost is made again.
#[rustfmt::skip]
const MILD: &[&str] = &[
    "add", "after", "before", "build", "cache", "caches", "check", "completion", "coverage", "create", "describe",
    "docs", "dry", "edit", "explain", "find", "generate", "get", "grep", "help", "info", "init", "lint", "list", "log",
    "logs", "ls", "man", "new", "no", "on", "open", "post", "pre", "preview", "search", "show", "status", "temp",
    "test", "tests", "tmp", "undo", "view", "which",
];
const FLAGS: &[&str] = &["-y", "-f", "-v", "-q", "-d", "-x"]; // short options that take no value wherever they are
/// Long options whose value is a word.
#[rustfmt::skip]
const PICKS: &[&str] = &[
    "--exclude", "--expression", "--filter", "--grep", "--group", "--ignore", "--include", "--keyword", "--label",
    "--match", "--message", "--name", "--only", "--pattern", "--query", "--search", "--skip", "--tag", "--tags",
    "--test", "--testNamePattern", "--text", "--title", "--topic", "--word",
];
/// Runners of a project's own tasks or tests, whose names are the project's, as those of make and `npm run` are.
#[rustfmt::skip]
const RUNNERS: &[&str] = &[
    "ava", "bats", "behave", "composer", "coverage", "ctest", "cypress", "doit", "earthly", "ginkgo", "gotestsum",
    "grunt", "gulp", "inv", "invoke", "jest", "just", "karma", "mage", "mocha", "moon", "nox", "nx", "phpunit",
    "playwright", "poe", "pytest", "py.test", "rspec", "task", "tox", "turbo", "vitest",
];
/// What one of fzf's keys does.
static BOUND: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(r":(?:execute|execute-silent|become|reload|transform)[(:\[{]([^\n]+)")
});
/// What ordinary commands do as well, or what only a sum of them makes grave.
#[rustfmt::skip]
const PLAIN: &[&str] = &[
    "cloud.change", "cloud.read", "container.run", "exec.dynamic", "exec.inline", "exec.install", "exec.script",
    "fs.delete", "fs.delete.recursive", "fs.list", "fs.permission", "fs.read", "fs.write", "net.connect", "net.fetch",
    "net.upload", "privilege.escalate", "process.signal", "service.change", "vcs.fetch", "vcs.push",
    "vcs.remote_change", "vcs.write",
];
/// Lines by which a tool's own language reaches the shell.
static ESCAPES: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new(r"(?:^|\n)[ \t]*:?(?:!|\\!|\.shell|\.system)[ \t]*([^\n]+)"));

/// Tell what is grave in the command that the call's arguments may hold; of a `known` program, less is supposed.
pub(crate) fn suppose(walk: &mut Walk, call: &Call, known: bool) {
    if walk.is_exhausted() || is_ordinary(&call.program) || (known && reads(&call.program)) {
        return;
    }
    if !walk.spend(LOOK_COST * call.args.len()) {
        return;
    }
    if walk.supposed < MAX_SUPPOSED {
        walk.supposed += 1;
        for code in codes(&call.args) {
            suppose_code(walk, call, &code);
        }
        if let Some(stdin) = &call.stdin {
            suppose_input(walk, call, stdin);
        }
        run(walk, call, behind(&call.args), objected);
        if !known {
            for start in headed(walk, &call.args) {
                run(walk, call, call.args.get(start..).unwrap_or(&[]), lost);
            }
        }
        walk.supposed -= 1;
    }
    if !known {
        globbed(walk, call);
        if !walk.is_exhausted()
            && !RUNNERS.contains(&call.program.as_str())
            && told_to_destroy(&call.args)
        {
            let first = call.args.first().map_or("", |arg| arg.text.as_str());
            walk.emit(
                Finding::new("resource.destroy", first, "unknown"),
                &call.program,
            );
        }
    }
    let hidden = |arg: &Arg| HIDDEN.contains(&base_name(&arg.text));
    if let Some(start) = call.args.iter().position(hidden).filter(|_| !known) {
        run(walk, call, call.args.get(start..).unwrap_or(&[]), grave);
    }
}

/// `/bin/r?`: a program that the shell would look up.
fn globbed(walk: &mut Walk, call: &Call) {
    if length(&call.program) <= MAX_NAME && call.program.contains(['?', '*']) {
        let pattern = fnmatch::Pattern::new(&call.program);
        for name in HIDDEN.iter().filter(|name| pattern.matches(name)) {
            let mut argv = vec![Arg::new(*name)];
            argv.extend(call.args.iter().cloned());
            run(walk, call, &argv, grave);
        }
    }
}

/// `x destroy`, `x db:drop`, `x disk wipe`, `x --factory-reset`: nothing else is meant by these words.
fn told_to_destroy(args: &[Arg]) -> bool {
    let texts: Vec<&str> = args.iter().map(|arg| arg.text.as_str()).collect();
    let before = std::iter::once("").chain(texts.iter().copied());
    let words: Vec<&str> = (texts.iter().copied().zip(before).take(8))
        .filter(|(text, before)| !text.starts_with('-') && !takes(before))
        .map(|(text, _)| text)
        .take(2)
        .collect();
    let mild = |word: &&str| speaks(word, MILD);
    let said = (words.iter().enumerate())
        .any(|(k, word)| is(&DESTROYS, word) && !words.iter().take(k + 1).any(mild));
    let erased =
        words.len() > 1 && words.iter().any(|word| is(&ERASES, word)) && !words.iter().any(mild);
    let asked = texts
        .iter()
        .any(|text| DESTROYING.contains(&partition(text, '=').0));
    let behind = texts.iter().copied().map(Some).skip(1).chain([None]);
    (said || erased || asked)
        && !texts
            .iter()
            .zip(behind)
            .any(|(text, next)| only_tells(text, next))
}

fn is(pattern: &Pattern, word: &str) -> bool {
    length(word) <= MAX_NAME && pattern.is_match(word)
}

/// Whether a word behind this is its value, and no verb.
fn takes(option: &str) -> bool {
    let short = option.starts_with('-') && option != "--" && length(option) == "-k".len();
    (short && !FLAGS.contains(&option)) || PICKS.contains(&option)
}

fn only_tells(option: &str, behind: Option<&str>) -> bool {
    let (name, _, value) = partition(option, '=');
    let alone = behind.is_none_or(|next| next.starts_with('-'));
    (ONLY_TELLS.contains(&name) && !DENIED.contains(&value))
        || (MAY_TELL.contains(&option) && alone)
}

/// Whether the program's grammar has a harmless part: its arguments are data.
fn reads(program: &str) -> bool {
    grammar(program).is_some_and(|level| level.reads)
}

fn run(walk: &mut Walk, call: &Call, argv: &[Arg], kept: fn(&Intent) -> bool) {
    if !argv.is_empty() {
        forget(walk, kept, |walk| {
            walk.execute(argv.to_vec(), call.stdin.clone(), false);
        });
    }
}

/// Code of a shell, or of a scripting language; these are alike in how they call a shell.
fn suppose_code(walk: &mut Walk, call: &Call, code: &Arg) {
    // `!rm x`: a tool's way to the shell
    let plain = code.with_text(code.text.trim_start_matches(['!', ':', ' ']));
    forget(walk, objected, |walk| {
        walk.code(plain, &call.program, call.stdin.clone());
    });
    suppose_language(walk, call, code);
}

fn suppose_language(walk: &mut Walk, call: &Call, code: &Arg) {
    if code.text.contains(['\'', '"', '`']) {
        let argv = [Arg::new("node"), Arg::new("-e"), code.clone()];
        run(walk, call, &argv, objected);
    }
}

/// Lines by which a tool's own language reaches the shell: `!rm x`, `system("rm x")`.
fn suppose_input(walk: &mut Walk, call: &Call, text: &Arg) {
    if !walk.spend(length(&text.text) / 4) {
        return;
    }
    for found in ESCAPES.all(&text.text).iter().take(MAX_HEADS) {
        let code = Arg::new(found.text(1));
        forget(walk, objected, |walk| {
            walk.code(code, &call.program, None);
        });
    }
    if text.known() {
        suppose_language(walk, call, text);
    }
}

/// Whether one of the words in a name of letters, digits and signs is among `known`.
fn speaks(name: &str, known: &[&str]) -> bool {
    length(name) <= MAX_NAME
        && name
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| known.contains(&word.to_ascii_lowercase().as_str()))
}

/// `-c`, `-lc`, `-e`, `-ex`.
fn is_short(name: &str) -> bool {
    let letters = name.strip_prefix('-').unwrap_or("");
    (1..4).contains(&letters.len())
        && letters.bytes().all(|b| b.is_ascii_alphabetic())
        && letters.ends_with(['c', 'C', 'e', 'E', 'x'])
}

/// What would be code: values of options (`-c 'rm x'`, `--command='rm x'`), and what stands behind a verb.
///
/// One word alone is none.
fn codes(args: &[Arg]) -> Vec<Arg> {
    let mut found = Vec::new();
    let (mut verb, mut option) = (false, false);
    for arg in args {
        let (name, equals, value) = partition(&arg.text, '=');
        let blank = stripped(&arg.text).contains(' ');
        let dashed = name.starts_with('-');
        if let Some(bound) = blank.then(|| BOUND.captures(&arg.text)).flatten() {
            found.push(arg.with_text(bound.text(1).trim_end_matches([')', ']', '}'])));
        }
        if blank && option {
            found.push(arg.clone());
        } else if blank && equals && speaks(name, CODE_WORDS) {
            found.push(arg.with_text(value));
        } else if blank && verb && !dashed {
            found.push(arg.clone());
        }
        option = dashed && !equals && (is_short(name) || speaks(name, CODE_WORDS));
        verb = verb || (!dashed && !blank && speaks(name, VERBS));
    }
    found
}

/// The command behind a `--`.
fn behind(args: &[Arg]) -> &[Arg] {
    let Some(place) = args.iter().position(|arg| arg.text == "--") else {
        return &[];
    };
    match args.get(place + 1..) {
        Some(rest @ [first, ..]) if !first.text.starts_with('-') => rest,
        _ => &[],
    }
}

/// Where the name of a program stands that we know, with arguments behind it.
fn headed(walk: &Walk, args: &[Arg]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut behind = false;
    for (k, arg) in args.iter().take(args.len().saturating_sub(1)).enumerate() {
        let name = base_name(&arg.text);
        if !is_ordinary(name) && !HIDDEN.contains(&name) && walk.knows(name) {
            if found.len() == MAX_HEADS || behind {
                break;
            }
            found.push(k);
        }
        behind = arg.text == "--";
    }
    found
}

fn objected(intent: &Intent) -> bool {
    !PLAIN.contains(&intent.name)
}

/// What cannot be undone: `reboot` and `passwd` are subcommands of many programs.
fn lost(intent: &Intent) -> bool {
    objected(intent) && effect_of(intent.name).is_some_and(|(_, reversible)| !reversible)
}

fn grave(intent: &Intent) -> bool {
    GRAVE.contains(&intent.name)
}

/// Do it, keep what counts of what was found, and let nothing else of it last.
fn forget(walk: &mut Walk, kept: fn(&Intent) -> bool, go: impl FnOnce(&mut Walk)) {
    let names = walk.files.len() + walk.functions.len() + walk.aliases.len() + walk.called.len();
    walk.spend(TRACE_COST * names);
    let values = walk.copied();
    if walk.is_exhausted() {
        return;
    }
    let (before, partial, secrets) = (walk.found.list().len(), walk.partial, walk.secrets);
    let (cwd, positional) = (walk.env.cwd.clone(), walk.env.positional.clone());
    let (input, files, functions) = (
        walk.input.clone(),
        walk.files.clone(),
        walk.functions.clone(),
    );
    let (aliases, called) = (walk.aliases.clone(), walk.called.clone());
    go(walk);
    if walk.is_exhausted() {
        return;
    }
    for intent in walk.found.back_to(before).into_iter().filter(kept) {
        walk.found.add(intent);
    }
    (walk.partial, walk.secrets, walk.input) = (partial, secrets, input);
    (walk.env.cwd, walk.env.values, walk.env.positional) = (cwd, values, positional);
    (walk.files, walk.functions) = (files, functions);
    (walk.aliases, walk.called) = (aliases, called);
}
