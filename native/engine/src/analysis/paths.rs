//! Where a path lies, judged by its text alone: no disk is read, so a symbolic link is taken at its word.

use super::fnmatch::Pattern;
use super::values::{truncated, Arg, HOME, UNKNOWN, WORK};

const SYSTEM: &[&str] = &[
    "etc",
    "usr",
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "boot",
    "sys",
    "proc",
    "dev",
    "var",
    "opt",
    "srv",
    "root",
    "home",
    "Users",
    "System",
    "Library",
    "Applications",
    "Volumes",
    "private",
    "nix",
    "run",
    "mnt",
    "media",
    "cores",
];
const DEEP_SYSTEM: &[&str] = &[
    "etc", "usr", "bin", "sbin", "lib", "lib32", "lib64", "boot", "sys", "proc", "System",
    "Library",
];
const MILD: &[&str] = &[
    "usr/local",
    "usr/src",
    "private/tmp",
    "private/var/folders",
    "etc/apt",
    "etc/nginx",
];
const MAX_PATH: usize = 4096; // characters; a system call refuses a longer path (PATH_MAX)
const MAX_SHOWN: usize = 256; // characters of a path that is longer than that
const HOMES: &[&str] = &["home", "Users"];
const TEMP: &[&[&str]] = &[
    &["tmp"],
    &["var", "tmp"],
    &["private", "tmp"],
    &["private", "var", "folders"],
    &["dev", "shm"],
];
const SINKS: &[&str] = &[
    "null", "zero", "full", "stdout", "stderr", "stdin", "random", "urandom", "console", "ptmx",
];

/// A path's scope; `path` is absolute or starts with a mark; `whole` where it is the scope's own top directory.
///
/// Scopes: "worktree" (where the agent works), "temp", "home", "root" (`/` and what cannot be told from it), "system",
/// "device", "outside" (elsewhere on this machine), "unknown" (known only to the shell). `whole` is true for `/`, a
/// home directory, a system directory, the worktree itself, also as `dir/*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Where it lies.
    pub scope: &'static str,
    /// The path.
    pub path: String,
    /// Whether it is the scope's own top directory.
    pub whole: bool,
    /// Whether the path ended in a glob that takes everything.
    pub swept: bool,
}

/// `text` seen from `cwd`, both possibly with marks, with `.`, `..` and `//` taken out.
#[must_use]
pub fn join(cwd: &str, text: &str) -> String {
    match text.chars().next() {
        None => cwd.to_owned(),
        Some('/' | HOME | WORK) => normal(text),
        Some(_) if cwd.is_empty() => normal(&format!("/{text}")),
        Some(_) => normal(&format!("{cwd}/{text}")),
    }
}

/// A path without `.`, `..` and `//`.
fn normal(path: &str) -> String {
    let (head, rest) = match path.chars().next() {
        Some('/' | HOME | WORK) => path.split_at(1),
        _ => ("", path),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        if part.is_empty() || part == "." {
            continue;
        }
        if part != ".." {
            parts.push(part);
        } else if parts.last().is_some_and(|last| *last != "..") {
            parts.pop();
        } else if head != "/" {
            parts.push("..");
        }
    }
    let mut out = String::with_capacity(path.len() + 1);
    out.push_str(head);
    if !(parts.is_empty() || head.is_empty() || head == "/") {
        out.push('/');
    }
    for (k, part) in parts.iter().enumerate() {
        if k > 0 {
            out.push('/');
        }
        out.push_str(part);
    }
    out
}

/// Whether writing there changes no file: /dev/null, a terminal, a descriptor.
#[must_use]
pub fn is_sink(path: &str) -> bool {
    let Some(name) = path.strip_prefix("/dev/") else {
        return false;
    };
    if let Some(terminal) = name.strip_prefix("tty") {
        return terminal.bytes().all(|b| b.is_ascii_digit());
    }
    if name.starts_with("pts/") || name.starts_with("fd/") {
        return !name.contains('\n');
    }
    SINKS.contains(&name)
}

/// Whether the path names a disk or another raw device.
#[must_use]
pub fn is_disk(path: &str) -> bool {
    path.strip_prefix("/dev/")
        .is_some_and(|name| !is_sink(path) && is_disk_name(name))
}

fn is_disk_name(name: &str) -> bool {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let digit_after = |prefix: &str, also: &[u8]| {
        name.strip_prefix(prefix)
            .and_then(|rest| rest.bytes().next())
            .is_some_and(|b| b.is_ascii_digit() || also.contains(&b))
    };
    starts(&[
        "nvme", "mmcblk", "dm-", "mapper/", "vg", "disk/", "device", "sdX",
    ]) || digit_after("rdisk", b"")
        || digit_after("disk", b"")
        || digit_after("md", b"")
        || digit_after("loop", b"*")
        || digit_after("sr", b"")
        || is_drive(name)
        || is_word(name)
}

/// `sda`, `hdb`, `vda`, `xvda`, `sd*`: a letter of s, h, v, x, perhaps a v, `d` and a letter or a glob.
fn is_drive(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(['s', 'h', 'v', 'x']) else {
        return false;
    };
    let is_letter = |rest: &str| {
        rest.strip_prefix('d')
            .and_then(|rest| rest.bytes().next())
            .is_some_and(|b| b.is_ascii_lowercase() || matches!(b, b'X' | b'*' | b'?'))
    };
    is_letter(rest) || rest.strip_prefix('v').is_some_and(is_letter)
}

/// A name of small letters, digits and `_` that is no other known place below /dev.
fn is_word(name: &str) -> bool {
    !["shm", "mqueue", "pts", "fd"]
        .iter()
        .any(|other| name.starts_with(other))
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// Whether a glob takes everything in a directory: `*`, `.*`, `.[!.]*`, `{*,.*}`.
fn takes_all(part: &str) -> bool {
    let signs = |text: &str, allowed: &[u8]| text.bytes().all(|b| allowed.contains(&b));
    if part.ends_with('*') && signs(part, b".?*[]!^") {
        return true;
    }
    part.strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|inner| !inner.is_empty() && signs(inner, b"*.,"))
}

/// The length of a path without a last part that takes everything, None where it ends otherwise.
fn swept_end(path: &str) -> Option<usize> {
    let (before, last) = path.rsplit_once('/')?;
    takes_all(last).then_some(before.len())
}

/// Where `arg` points from `cwd`; `work` is the worktree (a directory or the mark [`WORK`]).
#[must_use]
pub fn place(arg: &Arg, cwd: &str, work: &str) -> Place {
    if truncated(&arg.text, MAX_PATH).len() < arg.text.len() {
        return Place {
            scope: "unknown",
            path: truncated(&arg.text, MAX_SHOWN).to_owned(),
            whole: false,
            swept: false,
        };
    }
    let mut path = join(cwd, &arg.text);
    let mut swept = false;
    if arg.glob {
        while let Some(end) = swept_end(&path) {
            path.truncate(end);
            swept = true;
        }
    }
    if swept && path.is_empty() {
        path.push('/');
    }
    let (scope, whole) = scope_of(&path, arg.glob, work);
    Place {
        scope,
        path,
        whole,
        swept,
    }
}

fn scope_of(path: &str, glob: bool, work: &str) -> (&'static str, bool) {
    if let Some(rest) = path.strip_prefix(work) {
        if rest.is_empty() {
            return ("worktree", true);
        }
        if let Some(below) = rest.strip_prefix('/') {
            return below_work(below);
        }
    }
    if let Some(rest) = path.strip_prefix(HOME) {
        return below_home(rest.strip_prefix('/').unwrap_or(rest), glob);
    }
    let Some(rest) = path.strip_prefix('/') else {
        return ("unknown", false);
    };
    if rest.is_empty() {
        return ("root", true);
    }
    let parts: Vec<&str> = rest.split('/').collect();
    let first = parts.first().copied().unwrap_or("");
    let above_work = work.starts_with('/')
        && work
            .strip_prefix(path)
            .is_some_and(|below| below.starts_with('/'));
    if above_work && parts.len() > 1 && !HOMES.contains(&first) && first != "root" {
        return ("outside", false);
    }
    absolute(rest, first, &parts, glob)
}

fn below_work(rest: &str) -> (&'static str, bool) {
    if rest.is_empty() {
        return ("worktree", true);
    }
    if !rest.starts_with("..") {
        return (
            if rest.starts_with(UNKNOWN) {
                "unknown"
            } else {
                "worktree"
            },
            false,
        );
    }
    let high = rest.split('/').all(|part| part == "..") && rest.split('/').nth(2).is_some();
    if high {
        ("root", true)
    } else {
        ("outside", false)
    }
}

/// `rest` is what follows `~/`.
fn below_home(rest: &str, glob: bool) -> (&'static str, bool) {
    if rest.is_empty() {
        return ("home", true);
    }
    if rest == ".." || rest.starts_with("../") {
        return ("root", true);
    }
    ("home", glob && (rest == ".*" || rest == ".??*"))
}

fn absolute(rest: &str, first: &str, parts: &[&str], glob: bool) -> (&'static str, bool) {
    if let Some(temp) = TEMP.iter().find(|temp| parts.starts_with(temp)) {
        return ("temp", parts.len() == temp.len());
    }
    if first == "dev" {
        return ("device", parts.len() == 1);
    }
    if first.contains(UNKNOWN) {
        return ("root", false);
    }
    if HOMES.contains(&first) || first == "root" {
        let depth = if first == "root" { 1 } else { 2 };
        let whole =
            parts.len() <= depth && parts.last().is_some_and(|last| !last.contains(UNKNOWN));
        return ("home", whole);
    }
    let Some(name) = system_name(first, glob) else {
        return ("outside", false);
    };
    if parts.len() == 1 {
        return ("system", true);
    }
    if first == "var" {
        let second = parts.get(1).copied().unwrap_or("");
        return (
            "system",
            ["lib", "spool", "db", "root", "run"].contains(&second),
        );
    }
    if glob || DEEP_SYSTEM.contains(&name) {
        return ("system", !MILD.iter().any(|mild| rest.starts_with(mild)));
    }
    ("outside", false)
}

/// The first system directory that the name is, or that a glob takes.
fn system_name(first: &str, glob: bool) -> Option<&'static str> {
    if !glob {
        return SYSTEM.iter().find(|name| **name == first).copied();
    }
    let pattern = Pattern::new(first);
    SYSTEM.iter().find(|name| pattern.matches(name)).copied()
}

#[cfg(test)]
mod tests {
    use super::{is_disk, is_sink, join, place};
    use crate::analysis::values::Arg;

    fn scope(text: &str, glob: bool) -> (&'static str, bool, bool) {
        let arg = Arg {
            text: text.to_owned(),
            glob,
            taint: "",
        };
        let found = place(&arg, "/checkout/project", "/checkout/project");
        (found.scope, found.whole, found.swept)
    }

    #[test]
    fn paths_are_joined_without_touching_a_disk() {
        assert_eq!(join("/a/b", "../c/./d//e"), "/a/c/d/e");
        assert_eq!(join("/a", "../../.."), "/");
        assert_eq!(join("\u{3}", "../x"), "\u{3}/../x");
        assert_eq!(join("\u{1}", "x/.."), "\u{1}");
        assert_eq!(join("", "x"), "/x");
        assert_eq!(join("/a", ""), "/a");
        assert_eq!(join("\u{0}", "x"), "\u{0}/x");
    }

    #[test]
    fn scopes_follow_the_text_alone() {
        assert_eq!(scope("src", false), ("worktree", false, false));
        assert_eq!(scope(".", false), ("worktree", true, false));
        assert_eq!(scope("*", true), ("worktree", true, true));
        assert_eq!(scope("/", false), ("root", true, false));
        assert_eq!(scope("/*", true), ("root", true, true));
        assert_eq!(scope("/etc", false), ("system", true, false));
        assert_eq!(scope("/usr/local/x", false), ("system", false, false));
        assert_eq!(scope("/e*", true), ("system", true, false));
        assert_eq!(scope("/home/me", false), ("home", true, false));
        assert_eq!(scope("\u{1}", false), ("home", true, false));
        assert_eq!(scope("/tmp/x", false), ("temp", false, false));
        assert_eq!(scope("/dev/sda", false), ("device", false, false));
        assert_eq!(scope("/\u{0}", false), ("root", false, false));
        assert_eq!(scope("../..", false), ("root", true, false));
        assert_eq!(scope(&"a".repeat(5000), false), ("unknown", false, false));
    }

    #[test]
    fn devices_are_sinks_or_disks() {
        assert!(is_sink("/dev/null") && is_sink("/dev/tty1") && is_sink("/dev/fd/63"));
        assert!(
            is_disk("/dev/sda1")
                && is_disk("/dev/nvme0n1")
                && is_disk("/dev/xvda")
                && is_disk("/dev/mem")
        );
        assert!(!is_disk("/dev/null") && !is_disk("/dev/shm/x") && !is_disk("/etc/passwd"));
        assert!(!is_sink("/dev/null2") && !is_sink("/dev/null\n"));
    }
}
