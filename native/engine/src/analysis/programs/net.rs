//! What network programs fetch, send and open.

use std::sync::LazyLock;

use crate::analysis::acts_net::{fetched, host, is_local, scope_of, sent};
use crate::analysis::effects::Finding;
use crate::analysis::options::split;
use crate::analysis::patterns::{starts, Pattern};
use crate::analysis::values::{partition, Arg};
use crate::analysis::walk::{Call, Program, Walk};

static NAMES_FILE: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r"^[\w-]*=?@"));
const METHODS: &[&str] = &["GET", "POST", "PUT", "PATCH", "DELETE"];

/// The names of the programs and what is known of each.
#[rustfmt::skip]
pub const PROGRAMS: &[(&str, Program)] = &[
    ("dig", asks), ("host", asks), ("http", httpie), ("https", httpie), ("nc", nc), ("ncat", nc), ("netcat", nc),
    ("nslookup", asks), ("openssl", pipe_out), ("ping", asks), ("socat", socat), ("telnet", pipe_out), ("xh", httpie),
];

fn tainted(stdin: Option<&Arg>, taint: &str) -> bool {
    stdin.is_some_and(|stdin| stdin.taint == taint)
}

fn httpie(walk: &mut Walk, call: &Call) {
    let given = split(&call.args, "ao", &[], false).operands;
    let mut operands = given.clone();
    operands.retain(|a| !METHODS.contains(&a.text.to_uppercase().as_str()));
    let (urls, items) = operands.split_at_checked(1).unwrap_or((&[], &[]));
    fetched(walk, urls);
    if given.first().is_some_and(|a| a.text == "DELETE") {
        for url in urls {
            walk.give(Finding::new(
                "net.delete",
                host(&url.text),
                scope_of(&url.text),
            ));
        }
    }
    let files: Vec<(&str, Arg)> = items
        .iter()
        .filter(|a| NAMES_FILE.is_match(&a.text))
        .map(|a| ("-T", Arg::new(partition(&a.text, '@').2)))
        .collect();
    sent(walk, call, &files, urls, &["-T"]);
}

fn nc(walk: &mut Walk, call: &Call) {
    let opts = split(
        &call.args,
        "ecpwsqXxiIOTmoGL",
        &["--exec", "--sh-exec"],
        false,
    );
    let there = opts.operands.first().map_or("", |a| a.text.as_str());
    let stdin = call.stdin.as_ref();
    if opts.has(&["-e", "-c", "--exec", "--sh-exec"]) || tainted(stdin, "shell") {
        walk.give(Finding::new("net.reverse_shell", there, "remote"));
    }
    if opts.has(&["-z", "-l", "--listen"]) || there.is_empty() {
        return;
    }
    walk.give(Finding::new("net.connect", there, scope_of(there)));
    if stdin.is_some() && !is_local(there) {
        walk.give(Finding::new("net.upload", there, "remote"));
        if tainted(stdin, "secret") {
            walk.give(Finding::new("net.upload.secret", there, "remote"));
        }
    }
}

/// telnet, `openssl s_client`: a shell's output that goes out, or a secret.
fn pipe_out(walk: &mut Walk, call: &Call) {
    let connects =
        call.program != "openssl" || call.args.first().is_some_and(|a| a.text == "s_client");
    if !connects {
        return;
    }
    if tainted(call.stdin.as_ref(), "shell") {
        walk.give(Finding::new("net.reverse_shell", "", "remote"));
    } else if tainted(call.stdin.as_ref(), "secret") {
        walk.give(Finding::new("net.upload.secret", "", "remote"));
    }
}

fn socat(walk: &mut Walk, call: &Call) {
    let texts: Vec<String> = call
        .args
        .iter()
        .filter(|a| !a.text.starts_with('-'))
        .map(|a| a.text.to_lowercase())
        .collect();
    let one_starts = |with: &[&str]| texts.iter().any(|text| starts(text, with));
    if one_starts(&["exec:", "system:"]) && one_starts(&["tcp", "openssl", "udp", "ssl", "sctp"]) {
        walk.give(Finding::new("net.reverse_shell", "", "remote"));
    }
}

/// Name look-ups and pings: a secret in the name leaves with it.
fn asks(walk: &mut Walk, call: &Call) {
    for _ in call.args.iter().filter(|a| a.taint == "secret") {
        walk.give(Finding::new("net.upload.secret", "", "remote"));
    }
}
