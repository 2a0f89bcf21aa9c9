//! Programs that run the command in their arguments on another machine or in a container.

// Each handler has the type that the tables keep, also where it always knows the output.
#![allow(clippy::unnecessary_wraps)]

use std::sync::LazyLock;

use super::options::{split, Options};
use super::patterns::Pattern;
use super::supposed::suppose;
use super::values::{spaced, Arg, HOME_TEXT, UNKNOWN};
use super::walk::{Call, Handler, Walk};
use super::wrapper_table::DOCKER_LONG;

static SSH_OPTION: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::ignoring_case(r"^(?:proxycommand|localcommand|knownhostscommand)[= ]\s*(.+)")
});

/// The handler of a program that runs the command elsewhere.
#[must_use]
pub fn handler(name: &str) -> Option<Handler> {
    Some(match name {
        "docker-compose" => composed,
        "docker" | "nerdctl" | "podman" => container,
        "kubectl" | "oc" => kubectl,
        "scp" | "sftp" => copied,
        "ssh" => ssh,
        _ => return None,
    })
}

fn ssh(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let opts = split(&call.args, "bcDeEFIiJLlmopQRSWw", &[], true);
    ssh_options(walk, &opts);
    let command: Vec<Arg> = opts.operands.iter().skip(1).cloned().collect();
    let code = if command.is_empty() {
        call.stdin.clone()
    } else {
        Some(Arg::new(spaced(&command)))
    };
    let code = code.filter(|code| !code.text.is_empty())?;
    if !code.known() && matches!(code.taint, "decoded" | "net" | "text") {
        walk.unreadable(&code, "ssh");
    }
    let cwd = std::mem::replace(&mut walk.env.cwd, HOME_TEXT.to_owned());
    let out = if code.known() || !command.is_empty() {
        let stdin = call.stdin.clone().filter(|_| !command.is_empty());
        walk.code(code, "ssh", stdin)
    } else {
        Arg::unknown()
    };
    walk.env.cwd = cwd;
    Some(if out.known() {
        out
    } else {
        Arg::unknown_from("net")
    })
}

/// Commands that ssh and its like run on this machine.
fn ssh_options(walk: &mut Walk, opts: &Options) {
    for (_, value) in opts.given().iter().filter(|(name, _)| name == "-o") {
        if let Some(found) = SSH_OPTION.captures(&value.text) {
            if found.text(1) != "none" {
                walk.code(Arg::new(found.text(1)), "ssh", None);
            }
        }
    }
}

/// scp, sftp: the options of ssh, `-S` and `-D` programs, and sftp's own lines.
fn copied(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let opts = split(&call.args, "bcDFiJloPRSX", &[], true);
    ssh_options(walk, &opts);
    for (name, value) in opts.given() {
        if matches!(name.as_str(), "-S" | "-D") && value.text.contains(' ') {
            walk.code(value.clone(), &call.program, None);
        }
    }
    if call.program == "sftp" {
        suppose(walk, call, true);
    }
    None
}

/// docker-compose is docker's compose.
fn composed(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let mut args = vec![Arg::new("compose")];
    args.extend(call.args.iter().cloned());
    container(
        walk,
        &Call {
            args,
            ..call.clone()
        },
    )
}

/// docker, podman, nerdctl: exec and run; compose exec and run.
fn container(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let mut rest = split(&call.args, "HDlcfp", DOCKER_LONG, true).operands;
    while rest
        .first()
        .is_some_and(|a| matches!(a.text.as_str(), "compose" | "container"))
    {
        if !walk.spend(8 * rest.len()) {
            return None;
        }
        rest = split(rest.get(1..)?, "fp", DOCKER_LONG, true).operands;
    }
    let (first, rest) = rest.split_first()?;
    if first.text == "unshare" && call.program == "podman" {
        let inner = split(rest, "", &[], true).operands;
        return Some(walk.execute(inner, call.stdin.clone(), false));
    }
    if first.text == "machine" && rest.first().is_some_and(|a| a.text == "ssh") {
        let mut inner = vec![Arg::new("ssh")];
        inner.extend(split(rest.get(1..)?, "", &[], true).operands);
        return Some(walk.execute(inner, call.stdin.clone(), false));
    }
    if !matches!(first.text.as_str(), "exec" | "run") {
        return None;
    }
    let inner = split(rest, "vepuwlhmac", DOCKER_LONG, true);
    let mut command: Vec<Arg> = inner.operands.iter().skip(1).cloned().collect();
    if let Some(entry) = inner
        .value("--entrypoint")
        .filter(|entry| !entry.text.is_empty())
    {
        command.insert(0, entry.clone());
    }
    inside(walk, command, call.stdin.clone())
}

fn inside(walk: &mut Walk, command: Vec<Arg>, stdin: Option<Arg>) -> Option<Arg> {
    if command.is_empty() {
        return None;
    }
    let cwd = std::mem::replace(&mut walk.env.cwd, format!("/work{UNKNOWN}"));
    walk.execute(command, stdin, false);
    walk.env.cwd = cwd;
    Some(Arg::unknown())
}

const KUBECTL_LONG: &[&str] = &[
    "--namespace",
    "--container",
    "--context",
    "--kubeconfig",
    "--shell",
];

fn kubectl(walk: &mut Walk, call: &Call) -> Option<Arg> {
    let Some(cut) = call.args.iter().position(|a| a.text == "--") else {
        let runs = |a: &Arg| matches!(a.text.as_str(), "exec" | "rsh" | "ssh");
        let start = call.args.iter().position(runs)? + 1;
        let rest = split(call.args.get(start..)?, "cnlf", KUBECTL_LONG, true).operands;
        return inside(walk, rest.into_iter().skip(1).collect(), call.stdin.clone());
    };
    inside(
        walk,
        call.args.iter().skip(cut + 1).cloned().collect(),
        call.stdin.clone(),
    )
}
