"""What is done to paths: deleted, moved, filled, given other modes; and what that means by where they lie."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.paths import Place, is_disk
from interlock.engine.analysis.places import AGENT_FOLDERS, by_place, is_cache, is_secret, protected
from interlock.engine.analysis.shell_run import Call, Walk
from interlock.engine.analysis.values import UNKNOWN, Arg

__all__ = ["arrives", "deleted", "filled", "linked", "moved", "permitted", "swept"]

_MOUNTED: Final = ("/mnt", "/media", "/opt", "/srv", "/Volumes")
_GIT_DIR: Final = re.compile(r"(^|/)\.git(/(objects|refs|HEAD|logs|index)?(/.*)?)?$")


def deleted(walk: Walk, arg: Arg, recursive: bool) -> Iterator[Finding]:
    """One path that is deleted, with what it means by where it lies."""
    if not arg.text:
        return
    searched = arg.taint in ("found", "filtered")
    if arg.taint == "found" and arg.text.endswith("/" + UNKNOWN):
        arg, recursive = Arg(arg.text[:-1] + "*", True), True
    where = walk.place(arg)
    yield Finding("fs.delete", where.path, where.scope)
    if recursive:
        yield Finding("fs.delete.recursive", where.path, where.scope)
    if is_disk(where.path):
        yield Finding("disk.overwrite", where.path, "device")
    if where.scope == "home" and is_secret(where.path) and not where.path.endswith(".pub"):
        yield Finding("fs.delete.outside", where.path, where.scope)
    yield from _where_deleted(walk, arg, where, recursive, searched)
    yield from _special(arg, where, recursive)


def _where_deleted(walk: Walk, arg: Arg, where: Place, recursive: bool, searched: bool) -> Iterator[Finding]:
    grave = where.whole and where.scope in ("root", "home", "system", "device")
    if grave and (recursive or where.swept):
        yield Finding("fs.delete.root", where.path, where.scope)
    elif where.scope == "system" and where.whole:
        yield Finding("fs.write.system", where.path, where.scope)
    elif where.scope == "worktree" and where.whole and recursive:
        yield Finding("fs.delete.worktree", where.path, where.scope)
    elif (where.scope == "root" and searched) or (where.scope == "temp" and where.whole and recursive and not searched):
        yield Finding("fs.delete.outside", where.path, where.scope)
    elif (recursive and where.scope == "root") or (where.scope == "unknown" and recursive and _could_be_root(arg)):
        yield Finding("fs.delete.computed", where.path, where.scope)
    elif recursive and where.scope in ("outside", "home", "system", "device") and arg.taint != "filtered":
        if is_cache(where.path):
            return
        yield Finding("fs.delete.outside", where.path, where.scope)


def _could_be_root(arg: Arg) -> bool:
    """`$dir/` and `$dir/*`: the whole disk where the variable is empty."""
    return arg.text.replace(UNKNOWN, "") in ("/", "/*", "/.", "/.*")


def _special(arg: Arg, where: Place, recursive: bool) -> Iterator[Finding]:
    path = where.path
    if protected(path, glob=arg.glob, takes_parents=True):
        yield Finding("self.protect.config", path, where.scope)
    if recursive and _GIT_DIR.search(path):
        yield Finding("vcs.discard", path, where.scope)
    for name in by_place(path):
        yield Finding("vcs.skip_hooks" if name == "persist.git_hook" and "/hooks/" in path else name, path, where.scope)


def moved(walk: Walk, arg: Arg) -> Iterator[Finding]:
    """One path that is taken away from its place."""
    where = walk.place(arg)
    top = where.scope in ("root", "home") or (where.scope == "system" and "/" not in where.path[1:])
    if where.whole and top:
        yield Finding("fs.delete.root", where.path, where.scope)
    elif where.whole and where.scope == "system" and not where.path.startswith(_MOUNTED):
        yield Finding("fs.write.system", where.path, where.scope)
    yield from _special(arg, where, False)


def swept(walk: Walk, arg: Arg) -> Iterator[Finding]:
    """One directory that loses what is not elsewhere: a mirror of something."""
    for finding in deleted(walk, arg, True):
        if finding.name != "fs.delete.worktree":
            yield finding


def arrives(walk: Walk, sources: Sequence[Arg], target: Arg, program: str) -> None:
    """`cp x.json ~/.claude/`: the file that the target directory would get."""
    known = by_place(walk.place(target).path)
    for arg in sources[:32]:
        name = arg.text.rstrip("/").rpartition("/")[2].rpartition(":")[2]  # host:name too
        where = walk.place(Arg(target.text.rstrip("/") + "/" + name, target.glob or arg.glob))
        if name and protected(where.path, glob=where.swept or arg.glob, takes_parents=name in AGENT_FOLDERS):
            walk.emit(Finding("self.protect.config", where.path, where.scope), program)
        inside = "" if name == ".git" else "/config"  # `cp -r .ssh ~`; a checkout is moved as one
        for found in (*by_place(where.path), *by_place(where.path + inside)) if name else ():
            if found not in known:  # `cp x .git/hooks/`, but not `cp x /etc/ssh/y`, which is told already
                walk.emit(Finding(found, where.path, where.scope), program)
        if arg.text.endswith(("/", "/.", ":")) or arg.glob or UNKNOWN in name:
            filled(walk, target, program)


def filled(walk: Walk, target: Arg, program: str) -> None:
    """A directory that gets files whose names are not known: as if each file that counts there were written."""
    where = walk.place(target)
    name = where.path.rpartition("/")[2]
    if (name[:1] == "." and name in AGENT_FOLDERS) or protected(where.path + "/x", glob=False, takes_parents=False):
        walk.emit(Finding("self.protect.config", where.path, where.scope), program)
    for found in by_place(where.path + "/config"):  # a name that counts in ~/.ssh, .git, and wherever any name does
        walk.emit(Finding(found, where.path, where.scope), program)
    walk.written(target, program)


def linked(walk: Walk, arg: Arg) -> Iterator[Finding]:
    """One path that gets a second name: a protected file would be reached by it."""
    where = walk.place(arg)
    if protected(where.path, glob=arg.glob, takes_parents=True):
        yield Finding("self.protect.config", where.path, where.scope)


_OPEN_MODE: Final = re.compile(r"0?[0-7]?[0-7][0-7][2367]|(?=[augo]*[oa])[augo]*+[+=][rxX]*w.*|a?\+rwx")
_SUID_MODE: Final = re.compile(r"[4567][0-7]{3}|(?=[ua]*u)[ua]*+\+[rwx]*s[rwx]*|\+s")


def permitted(walk: Walk, call: Call, arg: Arg, mode: str, recursive: bool) -> Iterator[Finding]:
    """One path that gets another mode or owner."""
    where = walk.place(arg)
    modes = call.program == "chmod"
    grave = where.whole and where.scope in ("root", "home", "system")
    opens = modes and bool(_OPEN_MODE.fullmatch(mode))
    searched = arg.taint in ("found", "filtered") and where.scope == "root"
    wide = opens and (recursive or searched) and where.scope in ("home", "outside", "system", "root")
    if (grave and (recursive or opens)) or wide:
        yield Finding("fs.permission.root", where.path, where.scope)
    elif modes and _SUID_MODE.fullmatch(mode):
        yield Finding("privilege.account", where.path, where.scope)
    yield Finding("fs.permission", where.path, where.scope)
    if "privilege.account" in by_place(where.path):
        yield Finding("privilege.account", where.path, where.scope)
    if protected(where.path, glob=arg.glob, takes_parents=False):
        yield Finding("self.protect.config", where.path, where.scope)
