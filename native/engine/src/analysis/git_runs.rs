//! What git would run: its configuration, its aliases, and the subcommands that take a command.

use std::sync::LazyLock;

use super::options::split;
use super::patterns::Pattern;
use super::small_languages::spaced_value;
use super::values::{quoted, Arg};
use super::walk::{Call, Walk};

static GIT: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::ignoring_case(concat!(
        r"^(?:core\.(?:pager|editor|sshcommand|fsmonitor|askpass|gitproxy)|pager\.\w+|sequence\.editor|diff\.external",
        r"|(?:diff|merge|filter|difftool|mergetool)\.[\w-]+\.(?:command|driver|textconv|smudge|clean|process|cmd)",
        r"|credential\.helper|gpg\.program|alias\.([\w-]+))=((?s:.*))",
    ))
});
#[rustfmt::skip]
const GIT_PROGRAMS: &[&str] = &[
    "--upload-pack", "--receive-pack", "--exec", "-u", "--to-cmd", "--cc-cmd", "--header-cmd", "--smtp-server",
];

/// Commands that git itself would run: `-c core.pager=...`, an alias with `!`, `submodule foreach`, `bisect run`.
pub fn git(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let args = &call.args;
    if !walk.spend(8 * args.len()) {
        return None;
    }
    for (a, b) in args.iter().zip(args.iter().skip(1)) {
        if !matches!(a.text.as_str(), "-c" | "--config-env" | "--config") {
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
    for flag in GIT_PROGRAMS {
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
    if let [only] = rest.as_slice() {
        walk.code((*only).clone(), "git", None);
    } else if !rest.is_empty() {
        let words: Vec<String> = rest.into_iter().map(quoted).collect();
        walk.code(Arg::new(words.join(" ")), "git", None);
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
