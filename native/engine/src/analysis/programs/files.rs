//! What file programs do: find, tar, dd, sed, editors, and programs that read files.

use std::sync::LazyLock;

use crate::analysis::acts::{deleted, filled};
use crate::analysis::effects::Finding;
use crate::analysis::fnmatch;
use crate::analysis::options::split;
use crate::analysis::outputs::printed;
use crate::analysis::patterns::{starts, stripped, Pattern};
use crate::analysis::programs::archives::below;
use crate::analysis::values::{after_last, length, partition, spaced, Arg, HOME};
use crate::analysis::walk::{Call, Program, Walk};

const SETTINGS: &[&str] = &[
    "settings.json",
    "settings.local.json",
    "managed-settings.json",
    "hooks.json",
    "interlock.toml",
];
/// Tests of a search that say which names are found, or that nothing is in them.
#[rustfmt::skip]
const BY_NAME: &[&str] = &[
    "-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-lname", "-ilname", "-regex", "-iregex",
    "-empty", "-inum", "-samefile", "-xtype", "-fstype",
];
static OWNERS: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::ignoring_case("claude|codex|gemini|copilot|interlock"));
static ED_WRITES: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new(r"(?m)^[-0-9,;$%.+]*[wW]q?!?[ \t]+([^! \t\n][^ \t\n]*)"));
static SAVES: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(concat!(
        r"^:?[ \t]*(?:silent!?[ \t]+)?",
        r"(?:w(?:rite|a|all|q|qa|qall)?|x(?:it|a|all)?|up(?:date)?|exit|wn)!?$"
    ))
});
static PATCH_NAMES: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(r"(?m)^(?:\+\+\+|---|Index:|rename to|copy to)[ \t]+([^ \t\n]+)")
});
const MAX_TARGETS: usize = 32;
static IN_PLACE: LazyLock<Pattern> = LazyLock::new(|| Pattern::new("^-[a-zA-Z0]*i"));

/// The names of the programs and what is known of each.
#[rustfmt::skip]
pub const PROGRAMS: &[(&str, Program)] = &[
    ("bat", reader), ("chattr", chattr), ("dc3dd", dd), ("dcfldd", dd), ("dd", dd), ("ed", ed), ("ex", ed),
    ("find", find), ("gdd", dd), ("gfind", find), ("git", git_apply), ("gzip", reader), ("less", reader), ("more", reader), ("nvim", vim), ("openssl", reader),
    ("patch", patch), ("perl", perl), ("red", ed), ("ruby", perl), ("rvim", vim), ("vi", vim), ("view", reader),
    ("vim", vim), ("zip", reader),
];

fn find(walk: &mut Walk, call: &Call) {
    for root in roots(&call.args) {
        walk.listed(&root, &call.program);
    }
    let has = |word: &str| call.args.iter().any(|a| a.text == word);
    if has("-delete") {
        let found = printed("find", &call.args, None);
        for line in found.text.split('\n').filter(|line| !line.is_empty()) {
            for finding in deleted(walk, &Arg::tainted(line, found.taint), true) {
                walk.give(finding);
            }
        }
    }
    if has("-delete") || has("rm") {
        found_settings(walk, &call.args);
        any_name(walk, &call.args);
    }
    for option in ["-fprint", "-fls", "-fprintf", "-fprint0"] {
        let at = call.args.iter().position(|a| a.text == option);
        if let Some(target) = at.and_then(|at| call.args.get(at + 1)) {
            walk.written(target, "find", false);
        }
    }
}

/// Where a search starts: what stands before its first test, after `-H`, `-L`, `-P`.
fn roots(args: &[Arg]) -> Vec<Arg> {
    let found: Vec<Arg> = args
        .iter()
        .skip_while(|a| {
            matches!(
                a.text.as_str(),
                "-H" | "-L" | "-P" | "-E" | "-X" | "-s" | "-x"
            )
        })
        .take_while(|a| !a.text.starts_with(['-', '(', '!']))
        .cloned()
        .collect();
    if found.is_empty() {
        return vec![Arg::new(".")];
    }
    found
}

/// A search for what sets up an agent, whose finds are deleted.
fn found_settings(walk: &mut Walk, args: &[Arg]) {
    let names: Vec<&str> = args
        .iter()
        .zip(args.iter().skip(1))
        .filter(|(a, _)| matches!(a.text.as_str(), "-name" | "-iname"))
        .map(|(_, b)| b.text.as_str())
        .collect();
    let wanted = names.iter().any(|name| {
        let pattern = fnmatch::Pattern::new(&name.to_lowercase());
        SETTINGS.iter().any(|file| pattern.matches(file))
    });
    if wanted && OWNERS.is_match(&spaced(args)) {
        walk.give(Finding::new(
            "self.protect.config",
            *names.first().unwrap_or(&""),
            "unknown",
        ));
    }
}

/// A search of a whole home or system directory that deletes by age, size or owner, whatever the name.
fn any_name(walk: &mut Walk, args: &[Arg]) {
    if args.iter().any(|a| BY_NAME.contains(&a.text.as_str())) {
        return;
    }
    for root in roots(args) {
        let inside = Arg {
            text: format!("{}/*", root.text.trim_end_matches('/')),
            glob: true,
            taint: "",
        };
        let place = walk.place(&inside);
        if place.whole && matches!(place.scope, "home" | "system") {
            walk.give(Finding::new(
                "fs.delete.outside",
                place.path.as_str(),
                place.scope,
            ));
        }
    }
}

/// ed, ex: the files that are edited, and those that a script on standard input names.
fn ed(walk: &mut Walk, call: &Call) {
    for arg in split(&call.args, "pcS", &[], false).operands {
        walk.written(&arg, &call.program, false);
    }
    if let Some(stdin) = &call.stdin {
        walk.spend(length(&stdin.text) / 4);
        for found in ED_WRITES.all(&stdin.text).into_iter().take(MAX_TARGETS) {
            walk.written(&Arg::new(found.text(1)), &call.program, false);
        }
    }
}

/// vim -c wq FILE: an editor whose commands save what it edits; without any, a person may do so.
fn vim(walk: &mut Walk, call: &Call) {
    let opts = split(&call.args, "cSTuUwW", &["--cmd"], false);
    let given = opts.given().iter();
    let mut commands: Vec<&str> = given
        .filter(|(name, _)| matches!(name.as_str(), "-c" | "--cmd"))
        .map(|(_, value)| value.text.as_str())
        .collect();
    commands.extend(
        opts.operands
            .iter()
            .filter_map(|a| a.text.strip_prefix('+')),
    );
    let saves = commands
        .iter()
        .any(|c| SAVES.is_match(stripped(after_last(c, '|'))));
    if saves || (commands.is_empty() && !opts.has(&["-R"])) {
        for arg in opts.operands.iter().filter(|a| !a.text.starts_with('+')) {
            walk.written(arg, &call.program, false);
        }
    }
    for (name, value) in opts.given() {
        if matches!(name.as_str(), "-w" | "-W") {
            walk.written(value, &call.program, false);
        }
    }
}

/// patch FILE; patch -d DIR, whose patch says which files; a patch on standard input is read for their names.
fn patch(walk: &mut Walk, call: &Call) {
    #[rustfmt::skip]
    let long = ["--directory", "--input", "--output", "--strip", "--reject-file", "--fuzz"];
    let opts = split(&call.args, "BDFVYdgiopryz", &long, false);
    let base = opts.value("-d").or_else(|| opts.value("--directory"));
    let base = base.cloned().unwrap_or_else(|| Arg::new("."));
    if opts.has(&["--dry-run", "--help", "--version"]) {
        return;
    }
    for (name, value) in opts.given() {
        match name.as_str() {
            "-i" | "--input" => walk.read(value, &call.program),
            "-o" | "--output" | "-r" | "--reject-file" => {
                walk.written(value, &call.program, false);
            }
            _ => {}
        }
    }
    if let Some(target) = opts.operands.first() {
        walk.written(&below(&base, target), &call.program, false);
    } else if !opts.has(&["-o", "--output"]) {
        filled(walk, &base, &call.program);
        patched(walk, call, &base);
    }
}

/// git apply and git am, with a patch on standard input.
fn git_apply(walk: &mut Walk, call: &Call) {
    let mut words = call.args.iter().take(8).map(|a| a.text.as_str());
    if words.any(|word| matches!(word, "apply" | "am")) {
        patched(walk, call, &Arg::new("."));
    }
}

/// The files that a patch on standard input names, as they stand there and without their first directory.
fn patched(walk: &mut Walk, call: &Call, base: &Arg) {
    let Some(stdin) = &call.stdin else {
        return;
    };
    walk.spend(length(&stdin.text) / 4);
    for found in PATCH_NAMES.all(&stdin.text).into_iter().take(MAX_TARGETS) {
        let name = found.text(1);
        let short =
            Some(partition(name, '/').2).filter(|short| !short.is_empty() && *short != name);
        for path in [Some(name), short].into_iter().flatten() {
            if path != "/dev/null" && !path.starts_with('/') {
                walk.written(&below(base, &Arg::new(path)), &call.program, false);
            }
        }
    }
}

fn dd(walk: &mut Walk, call: &Call) {
    for arg in &call.args {
        let (name, _, value) = partition(&arg.text, '=');
        match name {
            "of" | "hof" => walk.written(&arg.with_text(value), "dd", false),
            "if" => walk.read(&arg.with_text(value), "dd"),
            _ => {}
        }
    }
}

fn perl(walk: &mut Walk, call: &Call) {
    let in_place =
        |a: &Arg| IN_PLACE.is_match(&a.text) && !starts(&a.text, &["-I", "--", "-M", "-m"]);
    let code = |a: &Arg| a.text.starts_with('-') && a.text.ends_with('e');
    if call.args.iter().any(in_place) {
        let script = usize::from(!call.args.iter().any(code));
        for arg in split(&call.args, "eEIM", &[], false)
            .operands
            .iter()
            .skip(script)
        {
            walk.written(arg, &call.program, false);
        }
    }
}

fn chattr(walk: &mut Walk, call: &Call) {
    for arg in call
        .args
        .iter()
        .filter(|a| !a.text.starts_with(['-', '+', '=']))
    {
        let place = walk.place(arg);
        if place.scope == "system" {
            walk.give(Finding::new("fs.write.system", place.path, place.scope));
        }
    }
}

fn reader(walk: &mut Walk, call: &Call) {
    for arg in split(&call.args, "ncefmA", &[], false).operands {
        if arg.text.contains(['/', '.', HOME]) {
            walk.read(&arg, &call.program);
        }
    }
}
