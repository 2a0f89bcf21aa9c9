//! What is asked of other machines and sent to them: URLs, data, and the files that go out with them.

use std::sync::LazyLock;

use super::effects::Finding;
use super::patterns::Pattern;
use super::places::{is_public, is_secret};
use super::values::{after_last, partition, Arg};
use super::walk::{Call, Walk};

static LOCAL: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::ignoring_case(concat!(
        r"^(?:\w+://)?(?:[^/@]*@)?(?:localhost|127\.\d+\.\d+\.\d+|\[::1\]|0\.0\.0\.0|host\.docker\.internal)",
        r"(?:[:/]|\n?$)",
    ))
});
static METADATA: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::ignoring_case(concat!(
        r"169\.254\.16[9]\.254|169\.254\.170\.2\b|metadata\.google\.internal",
        r"|100\.100\.100\.200|fd00:ec2::254",
    ))
});
static REMOTE: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(r"^(?:(?:[\w.-]+@)?[\w.\[\]:-]*[\w\]-]:(?:[^\\]|$)|rsync://|scp://|sftp://)")
});
static HOST: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new(r"^(?:\w+://)?(?:[^/@\s]*@)?([^/:?#\s]+)"));

/// Whether the URL leads to this machine.
#[must_use]
pub fn is_local(url: &str) -> bool {
    LOCAL.is_match(url)
}

/// Where a URL leads: this machine, or another.
#[must_use]
pub fn scope_of(url: &str) -> &'static str {
    if is_local(url) {
        "worktree"
    } else {
        "remote"
    }
}

/// Whether an argument of a copy names a place on another machine: `host:path`, `rsync://host/path`.
#[must_use]
pub fn is_remote(text: &str) -> bool {
    REMOTE.is_match(text)
}

/// The host of a URL, or of a bare `host/path`.
#[must_use]
pub fn host(text: &str) -> &str {
    HOST.captures(text).map_or(text, |found| found.text(1))
}

/// URLs that are asked.
pub fn fetched(walk: &mut Walk, urls: &[Arg]) {
    for url in urls {
        let there = host(&url.text);
        if METADATA.is_match(&url.text) {
            walk.give(Finding::new("net.metadata", there, "cloud"));
        }
        walk.give(Finding::new("net.fetch", there, scope_of(&url.text)));
        if url.taint == "secret" {
            walk.give(Finding::new("net.upload.secret", there, "remote"));
        }
    }
}

/// The name that a URL's file is saved under.
#[must_use]
pub fn saved_as(url: &Arg) -> Arg {
    match after_last(&url.text, '/') {
        "" => Arg::new("index.html"),
        name => Arg::new(name),
    }
}

/// What leaves with a request: the data (option, value), and files that they name; options of `files` name one.
pub fn sent(walk: &mut Walk, call: &Call, data: &[(&str, Arg)], urls: &[Arg], files: &[&str]) {
    if data.is_empty() {
        return;
    }
    let there = urls.first().map_or("", |url| host(&url.text));
    let local = !urls.is_empty() && urls.iter().all(|url| is_local(&url.text));
    if !local {
        walk.give(Finding::new("net.upload", there, "remote"));
    }
    for (name, value) in data {
        let mut secret = value.taint == "secret";
        if files.contains(name) || (name.is_empty() && files.contains(&"operands")) {
            secret = secret || reads_secret(walk, call, &value.text);
        } else if value.text.contains('@') && !name.ends_with("raw") && !name.ends_with("string") {
            let path = partition(after_last(&value.text, '@'), ';').0;
            secret = secret || reads_secret(walk, call, path);
        }
        if secret && !local {
            walk.give(Finding::new("net.upload.secret", there, "remote"));
        }
    }
}

fn reads_secret(walk: &mut Walk, call: &Call, path: &str) -> bool {
    if matches!(path, "-" | ".") {
        return call
            .stdin
            .as_ref()
            .is_some_and(|stdin| stdin.taint == "secret");
    }
    let path = Arg::new(path);
    walk.read(&path, &call.program);
    is_secret(&walk.place(&path).path) && !is_public(&path.text)
}
