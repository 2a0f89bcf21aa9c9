//! What file programs do: find, tar, dd, sed, editors, and programs that read files.

use std::sync::LazyLock;

use crate::analysis::acts::{deleted, filled};
use crate::analysis::effects::Finding;
use crate::analysis::fnmatch;
use crate::analysis::options::split;
use crate::analysis::outputs::printed;
use crate::analysis::patterns::Pattern;
use crate::analysis::values::{partition, spaced, Arg, HOME};
use crate::analysis::walk::{Call, Program, Walk};

const SETTINGS: &[&str] = &[
    "settings.json",
    "settings.local.json",
    "managed-settings.json",
    "hooks.json",
    "interlock.toml",
];
static OWNERS: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::ignoring_case("claude|codex|gemini|copilot|interlock"));
static IN_PLACE: LazyLock<Pattern> = LazyLock::new(|| Pattern::new("^-[a-zA-Z0]*i"));

/// The names of the programs and what is known of each.
#[rustfmt::skip]
pub const PROGRAMS: &[(&str, Program)] = &[
    ("bat", reader), ("bsdtar", unpack), ("chattr", chattr), ("dd", dd), ("ed", ed), ("ex", ed), ("find", find),
    ("gfind", find), ("gzip", reader), ("less", reader), ("more", reader), ("openssl", reader), ("perl", perl),
    ("tar", tar), ("unzip", unpack), ("view", reader), ("zip", reader),
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

fn ed(walk: &mut Walk, call: &Call) {
    for arg in split(&call.args, "p", &[], false).operands {
        walk.written(&arg, &call.program, false);
    }
}

/// unzip -d DIR, tar x -C DIR.
fn unpack(walk: &mut Walk, call: &Call) {
    let opts = split(&call.args, "dCfxbX", &["--directory"], false);
    for option in ["-d", "-C", "--directory"] {
        if let Some(target) = opts
            .value(option)
            .filter(|_| option != "-d" || call.program == "unzip")
        {
            filled(walk, target, &call.program);
        }
    }
}

fn tar(walk: &mut Walk, call: &Call) {
    reader(walk, call);
    if !call
        .args
        .first()
        .is_some_and(|a| partition(&a.text, '=').0.contains('c'))
    {
        unpack(walk, call);
    }
}

fn dd(walk: &mut Walk, call: &Call) {
    for arg in &call.args {
        let (name, _, value) = partition(&arg.text, '=');
        match name {
            "of" => walk.written(&arg.with_text(value), "dd", false),
            "if" => walk.read(&arg.with_text(value), "dd"),
            _ => {}
        }
    }
}

fn perl(walk: &mut Walk, call: &Call) {
    let in_place = |a: &Arg| {
        IN_PLACE.is_match(&a.text) && !a.text.starts_with("-I") && !a.text.starts_with("--")
    };
    let code = |a: &Arg| a.text.starts_with('-') && a.text.ends_with('e');
    if call.args.iter().any(in_place) && call.args.iter().any(code) {
        for arg in split(&call.args, "eEIM", &[], false).operands {
            walk.written(&arg, "perl", false);
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
