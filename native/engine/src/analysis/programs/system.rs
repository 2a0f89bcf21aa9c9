//! What system programs do, beyond their grammars: partitions, accounts, processes, containers that are let out.

use std::sync::LazyLock;

use crate::analysis::effects::Finding;
use crate::analysis::options::split;
use crate::analysis::paths::is_disk;
use crate::analysis::patterns::{starts, Pattern};
use crate::analysis::values::{partition, spaced, Arg};
use crate::analysis::walk::{Call, Program, Walk};

static PARTITION_WRITES: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(concat!(
        r"--zap|-Z\b|\b(?:mklabel|mktable|mkpart|rm|resizepart)\b|--security-erase|--trim-sector|--delete|--wipe",
        r"|\bformat\b|sanitize|-o\b",
    ))
});
static PARTITION_INPUT: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(r"(?:^|\n)[ \t]*(?:w|write|wq|label:[^\n]*|,[^\n]*)[ \t]*(?:\n|$)")
});
static VISUDO_CHECKS: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r"(^| )-[chV]"));
static POWERFUL_GROUP: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(r"(?:^|[ ,=])(?:sudo|wheel|admin|root|docker|lxd|disk|shadow)(?:[ ,]|\n?$)")
});
static JOINS_GROUP: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new(r"-[a-zA-Z]*[aGg]|--groups|--append|add"));
static UID_ZERO: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r"-o\b.*-u\s*0|-u\s*0\b.*-o\b"));
static PACKAGE: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new(r"(?:^|/)interlock(?:-native)?(?:[\[=<>!~@]|\n?$)"));
static MOUNT_SOURCE: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r"(?:src|source)=([^,]+)"));
static ENGINE_SOCKET: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new(r"(?:docker|podman|containerd|crio)\.sock\n?$"));
const MESH_VERBS: &[&str] = &[
    "ceremony",
    "clock",
    "init",
    "journal",
    "keys",
    "members",
    "operators",
    "pin",
    "pins",
    "promote",
    "publish",
    "review",
    "reviewers",
    "rollback",
    "settings",
    "setup",
    "stepback",
    "subscribe",
    "token",
    "unsubscribe",
];
const INTERLOCK_VERBS: &[&str] = &[
    "grant",
    "approve",
    "trust",
    "consent",
    "uninstall",
    "revoke",
    "disable",
    "allow",
];

/// The names of the programs and what is known of each.
#[rustfmt::skip]
pub const PROGRAMS: &[(&str, Program)] = &[
    ("adduser", account), ("bun", uninstalls), ("cfdisk", edits_partitions), ("chpasswd", account), ("conda", uninstalls), ("docker", privileged),
    ("delgroup", account), ("deluser", account), ("dseditgroup", account), ("groupdel", account), ("userdel", account), ("fdisk", edits_partitions), ("flit", uninstalls), ("gdisk", scripted_partitions), ("gpasswd", account),
    ("groupmems", account), ("hatch", uninstalls), ("hdparm", partitions), ("interlock", interlock), ("kill", kill),
    ("killall", pkill), ("mamba", uninstalls), ("nerdctl", privileged), ("npm", uninstalls), ("nvme", partitions),
    ("parted", partitions), ("passwd", account), ("pdm", uninstalls), ("pip", uninstalls), ("pip3", uninstalls),
    ("pipx", uninstalls), ("pkill", pkill), ("pnpm", uninstalls), ("podman", privileged), ("poetry", uninstalls),
    ("sfdisk", scripted_partitions), ("sgdisk", partitions), ("useradd", account), ("usermod", account), ("uv", uninstalls),
    ("visudo", account), ("yarn", uninstalls),
];

fn texts(call: &Call) -> Vec<&str> {
    call.args.iter().map(|a| a.text.as_str()).collect()
}

fn last(call: &Call) -> &str {
    call.args.last().map_or("", |a| a.text.as_str())
}

fn give(walk: &mut Walk, name: &'static str, target: &str, scope: &'static str) {
    walk.give(Finding::new(name, target, scope));
}

/// parted, sgdisk, sfdisk, fdisk, hdparm, nvme: only what writes.
fn partitions(walk: &mut Walk, call: &Call) {
    if !PARTITION_WRITES.is_match(&spaced(&call.args)) {
        return;
    }
    formatted(walk, call);
}

/// fdisk, gdisk, sfdisk with what they are told on standard input: nothing is changed before a `w`.
fn edits_partitions(walk: &mut Walk, call: &Call) {
    let writes = |stdin: &Arg| {
        (call.program == "sfdisk" && !stdin.known()) || PARTITION_INPUT.is_match(&stdin.text)
    };
    if call.stdin.as_ref().is_some_and(writes) {
        formatted(walk, call);
    }
}

fn scripted_partitions(walk: &mut Walk, call: &Call) {
    partitions(walk, call);
    edits_partitions(walk, call);
}

fn formatted(walk: &mut Walk, call: &Call) {
    for arg in &call.args {
        if is_disk(&walk.place(arg).path) {
            give(walk, "disk.format", &arg.text, "device");
        }
    }
}

fn kill(walk: &mut Walk, call: &Call) {
    let texts = texts(call);
    let mut pairs = texts.iter().zip(texts.iter().skip(1));
    let number = pairs.any(|(before, text)| *text == "-1" && !matches!(*before, "-s" | "-n"));
    if call.args.iter().any(|a| a.taint == "guard") {
        give(walk, "self.protect.command", "interlock", "system");
    }
    if number || (texts.first() == Some(&"--") && texts.contains(&"-1")) {
        give(walk, "process.kill_all", "-1", "system");
    }
}

/// A pattern that every process matches.
fn pkill(walk: &mut Walk, call: &Call) {
    let opts = split(
        &call.args,
        "uUgGPtsFo",
        &["--signal", "--uid", "--euid", "--parent"],
        false,
    );
    for arg in &opts.operands {
        if matches!(arg.text.as_str(), "." | ".*" | "" | "^" | "*")
            && !opts.has(&["-u", "-U", "-P"])
        {
            give(walk, "process.kill_all", &arg.text, "system");
        }
    }
}

fn account(walk: &mut Walk, call: &Call) {
    let text = spaced(&call.args);
    let text = text.as_str();
    let target = match call.program.as_str() {
        "delgroup" | "deluser" | "groupdel" | "userdel" => {
            (!call.args.is_empty() && !starts(text, &["-h", "--help"])).then_some(last(call))
        }
        "passwd" | "chpasswd" => {
            let fed = call.program == "chpasswd" && call.stdin.is_some();
            let only_tells = (text.is_empty() && !fed)
                || matches!(text, "-S" | "--status")
                || starts(text, &["-S ", "--help"]);
            (!only_tells).then_some(text)
        }
        "visudo" if !VISUDO_CHECKS.is_match(text) => Some("sudoers"),
        _ if POWERFUL_GROUP.is_match(text) && JOINS_GROUP.is_match(text) => Some(last(call)),
        "useradd" if UID_ZERO.is_match(text) => Some("uid 0"),
        _ => None,
    };
    if let Some(target) = target {
        give(walk, "privilege.account", target, "system");
    }
}

/// Whether one of the first words is one of `verbs`.
fn begins(words: &[&str], count: usize, verbs: &[&str]) -> bool {
    words.iter().take(count).any(|word| verbs.contains(word))
}

fn interlock(walk: &mut Walk, call: &Call) {
    let opts = split(
        &call.args,
        "c",
        &["--config", "--home", "--log-format"],
        false,
    );
    let words: Vec<&str> = opts.operands.iter().map(|a| a.text.as_str()).collect();
    if opts.has(&["--help", "-h"]) {
        return;
    }
    let verb = begins(&words, 2, INTERLOCK_VERBS);
    let unhooks = words.first() == Some(&"install-hook") && opts.has(&["--uninstall"]);
    let mesh = words.first() == Some(&"mesh")
        && words.get(1).is_some_and(|verb| MESH_VERBS.contains(verb));
    if verb || unhooks || mesh {
        let told: Vec<&str> = words.iter().take(2).copied().collect();
        give(walk, "self.protect.command", &told.join(" "), "home");
    }
}

/// Package managers: taking this guard away.
fn uninstalls(walk: &mut Walk, call: &Call) {
    let opts = split(
        &call.args,
        "rcpn",
        &["--prefix", "--workspace", "--registry"],
        false,
    );
    let words: Vec<&str> = opts.operands.iter().map(|a| a.text.as_str()).collect();
    if begins(&words, 3, &["uninstall", "remove", "rm", "un"])
        && words.iter().any(|w| PACKAGE.is_match(w))
    {
        give(walk, "self.protect.command", "uninstall", "system");
    }
}

/// docker, podman run: a container that is let out.
fn privileged(walk: &mut Walk, call: &Call) {
    let texts: Vec<&str> = call.args.iter().map(|a| a.text.as_str()).collect();
    let removes = |text: &&str| matches!(*text, "rm" | "rmi" | "kill");
    if texts.iter().take(2).any(removes) && call.args.iter().any(|a| a.taint == "found") {
        give(walk, "container.destroy", "all of them", "device");
    }
    if !texts.contains(&"run") && !texts.contains(&"create") {
        return;
    }
    for (k, text) in texts.iter().enumerate() {
        let (name, _, given) = partition(text, '=');
        let following = texts.get(k + 1).copied().unwrap_or("");
        let value = if given.is_empty() { following } else { given };
        if text.starts_with("--privileged") && !text.ends_with("=false") {
            give(walk, "container.privileged", "--privileged", "system");
        } else if matches!(name, "--pid" | "--userns" | "--ipc" | "--uts") && value == "host" {
            give(walk, "container.privileged", text, "system");
        } else if name == "--cap-add" && is_powerful(value) {
            give(walk, "container.privileged", value, "system");
        } else if text.starts_with("-v") || *text == "--volume" || text.starts_with("--volume=") {
            let whole = text.starts_with("--") || *text == "-v";
            let source = if whole {
                value
            } else {
                text.get(2..).unwrap_or("")
            };
            mounted(walk, partition(source, ':').0);
        } else if name == "--mount" {
            let source = MOUNT_SOURCE
                .captures(value)
                .map_or("", |found| found.text(1));
            mounted(walk, source);
        }
    }
}

fn is_powerful(capability: &str) -> bool {
    let capability = capability.to_uppercase();
    matches!(
        capability.as_str(),
        "ALL" | "SYS_ADMIN" | "SYS_PTRACE" | "SYS_MODULE"
    )
}

fn mounted(walk: &mut Walk, source: &str) {
    if source.is_empty() {
        return;
    }
    let place = walk.place(&Arg::new(source));
    let path = place.path.as_str();
    let whole = matches!(place.scope, "root" | "home") && place.whole;
    let named = [
        "/etc",
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/dev",
        "/proc",
        "/sys",
    ]
    .contains(&path);
    if whole || ENGINE_SOCKET.is_match(path) || named {
        give(walk, "container.privileged", path, place.scope);
    }
}
