//! What is done to paths: deleted, moved, filled, given other modes; and what that means by where they lie.

use std::sync::LazyLock;

use super::effects::Finding;
use super::paths::{is_disk, Place};
use super::patterns::{starts, Pattern};
use super::places::{by_place, is_cache, is_public, is_secret, protected, AGENT_FOLDERS};
use super::values::{after_last, Arg, UNKNOWN};
use super::walk::{Call, Walk};

static GIT_DIR: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new(r"(^|/)\.git(/(objects|refs|HEAD|logs|index)?(/.*)?)?\n?$"));
static OPEN_MODE: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(r"^(?:0?[0-7]?[0-7][0-7][2367]|[augo]*[oa][ugo]*[+=][rxX]*w.*|a?\+rwx)$")
});
static SUID_MODE: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new(r"^(?:[4567][0-7]{3}|[ua]*u[ua]*\+[rwx]*s[rwx]*|\+s)$"));
const MOUNTED: &[&str] = &["/mnt", "/media", "/opt", "/srv", "/Volumes"];
const MAX_SOURCES: usize = 32;

fn at(name: &'static str, place: &Place) -> Finding {
    Finding::new(name, place.path.as_str(), place.scope)
}

/// One path that is deleted, with what it means by where it lies.
#[must_use]
pub fn deleted(walk: &mut Walk, arg: &Arg, recursive: bool) -> Vec<Finding> {
    if arg.text.is_empty() {
        return Vec::new();
    }
    let searched = matches!(arg.taint, "found" | "filtered");
    let everything = match arg.text.strip_suffix(UNKNOWN) {
        Some(folder) if arg.taint == "found" && folder.ends_with('/') => Some(Arg {
            text: format!("{folder}*"),
            glob: true,
            taint: "",
        }),
        _ => None,
    };
    let recursive = recursive || everything.is_some();
    let arg = everything.as_ref().unwrap_or(arg);
    let place = walk.place(arg);
    let mut found = vec![at("fs.delete", &place)];
    if recursive {
        found.push(at("fs.delete.recursive", &place));
    }
    if is_disk(&place.path) {
        found.push(Finding::new(
            "disk.overwrite",
            place.path.as_str(),
            "device",
        ));
    }
    if place.scope == "home" && is_secret(&place.path) && !is_public(&place.path) {
        found.push(at("fs.delete.outside", &place));
    }
    if let Some(name) = where_deleted(arg, &place, recursive, searched) {
        found.push(at(name, &place));
    }
    found.extend(special(arg, &place, recursive));
    found
}

fn where_deleted(
    arg: &Arg,
    place: &Place,
    recursive: bool,
    searched: bool,
) -> Option<&'static str> {
    let scope = place.scope;
    let grave = place.whole && matches!(scope, "root" | "home" | "system" | "device");
    if grave && (recursive || place.swept) {
        Some("fs.delete.root")
    } else if scope == "system" && place.whole {
        Some("fs.write.system")
    } else if scope == "worktree" && place.whole && recursive {
        Some("fs.delete.worktree")
    } else if (scope == "root" && searched)
        || (scope == "temp" && place.whole && recursive && !searched)
    {
        Some("fs.delete.outside")
    } else if recursive && (scope == "root" || (scope == "unknown" && could_be_root(arg))) {
        Some("fs.delete.computed")
    } else if recursive
        && matches!(scope, "outside" | "home" | "system" | "device")
        && arg.taint != "filtered"
    {
        (!is_cache(&place.path)).then_some("fs.delete.outside")
    } else {
        None
    }
}

/// `$dir/` and `$dir/*`: the whole disk where the variable is empty.
fn could_be_root(arg: &Arg) -> bool {
    matches!(
        arg.text.replace(UNKNOWN, "").as_str(),
        "/" | "/*" | "/." | "/.*"
    )
}

fn special(arg: &Arg, place: &Place, recursive: bool) -> Vec<Finding> {
    let path = place.path.as_str();
    let mut found = Vec::new();
    if protected(path, arg.glob, true) {
        found.push("self.protect.config");
    }
    if recursive && GIT_DIR.is_match(path) {
        found.push("vcs.discard");
    }
    for name in by_place(path) {
        let hook = name == "persist.git_hook" && path.contains("/hooks/");
        found.push(if hook { "vcs.skip_hooks" } else { name });
    }
    found.into_iter().map(|name| at(name, place)).collect()
}

/// One path that is taken away from its place.
#[must_use]
pub fn moved(walk: &mut Walk, arg: &Arg) -> Vec<Finding> {
    let place = walk.place(arg);
    let below = place.path.chars().skip(1).any(|c| c == '/');
    let top = matches!(place.scope, "root" | "home") || (place.scope == "system" && !below);
    let mut found = Vec::new();
    if place.whole && top {
        found.push(at("fs.delete.root", &place));
    } else if place.whole && place.scope == "system" && !starts(&place.path, MOUNTED) {
        found.push(at("fs.write.system", &place));
    }
    found.extend(special(arg, &place, false));
    found
}

/// One directory that loses what is not elsewhere: a mirror of something.
#[must_use]
pub fn swept(walk: &mut Walk, arg: &Arg) -> Vec<Finding> {
    let mut found = deleted(walk, arg, true);
    found.retain(|finding| finding.name != "fs.delete.worktree");
    found
}

/// `cp x.json ~/.claude/`: the file that the target directory would get.
pub fn arrives(walk: &mut Walk, sources: &[Arg], target: &Arg, program: &str) {
    let known = by_place(&walk.place(target).path);
    let folder = target.text.trim_end_matches('/');
    for arg in sources.iter().take(MAX_SOURCES) {
        let name = after_last(after_last(arg.text.trim_end_matches('/'), '/'), ':');
        let place = walk.place(&Arg {
            text: format!("{folder}/{name}"),
            glob: target.glob || arg.glob,
            taint: "",
        });
        let settings = AGENT_FOLDERS.contains(&name);
        if !name.is_empty() && protected(&place.path, place.swept || arg.glob, settings) {
            walk.emit(at("self.protect.config", &place), program);
        }
        let within = if name == ".git" { "" } else { "/config" };
        let mut places = by_place(&place.path);
        places.extend(by_place(&format!("{}{within}", place.path)));
        let told = |found: &&str| !name.is_empty() && !known.contains(found);
        for found in places.into_iter().filter(told) {
            walk.emit(at(found, &place), program);
        }
        let inside = arg.text.ends_with(['/', ':']) || arg.text.ends_with("/.");
        if inside || arg.glob || name.contains(UNKNOWN) {
            filled(walk, target, program);
        }
    }
}

/// A directory that gets files whose names are not known: as if each file that counts there were written.
pub fn filled(walk: &mut Walk, target: &Arg, program: &str) {
    let place = walk.place(target);
    let name = after_last(&place.path, '/');
    let agent = name.starts_with('.') && AGENT_FOLDERS.contains(&name);
    if agent || protected(&format!("{}/x", place.path), false, false) {
        walk.emit(at("self.protect.config", &place), program);
    }
    for found in by_place(&format!("{}/config", place.path)) {
        walk.emit(at(found, &place), program);
    }
    walk.written(target, program, false);
}

/// One path that gets a second name: a protected file would be reached by it.
#[must_use]
pub fn linked(walk: &mut Walk, arg: &Arg) -> Vec<Finding> {
    let place = walk.place(arg);
    let guarded = protected(&place.path, arg.glob, true);
    guarded
        .then(|| at("self.protect.config", &place))
        .into_iter()
        .collect()
}

/// One path that gets another mode or owner.
#[must_use]
pub fn permitted(
    walk: &mut Walk,
    call: &Call,
    arg: &Arg,
    mode: &str,
    recursive: bool,
) -> Vec<Finding> {
    let place = walk.place(arg);
    let modes = call.program == "chmod";
    let grave = place.whole && matches!(place.scope, "root" | "home" | "system");
    let opens = modes && OPEN_MODE.is_match(mode);
    let searched = matches!(arg.taint, "found" | "filtered") && place.scope == "root";
    let wide = opens
        && (recursive || searched)
        && matches!(place.scope, "home" | "outside" | "system" | "root");
    let mut found = Vec::new();
    if (grave && (recursive || opens)) || wide {
        found.push("fs.permission.root");
    } else if modes && SUID_MODE.is_match(mode) {
        found.push("privilege.account");
    }
    found.push("fs.permission");
    if by_place(&place.path).contains(&"privilege.account") {
        found.push("privilege.account");
    }
    if protected(&place.path, arg.glob, false) {
        found.push("self.protect.config");
    }
    found.into_iter().map(|name| at(name, &place)).collect()
}
