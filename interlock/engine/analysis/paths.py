"""Where a path lies, judged by its text alone: no disk is read, so a symbolic link is taken at its word.

Scopes: "worktree" (where the agent works), "temp", "home", "root" (`/` and what cannot be told from it), "system",
"device", "outside" (elsewhere on this machine), "unknown" (known only to the shell).
"""

from __future__ import annotations

import fnmatch
import re
from typing import Final, NamedTuple

from interlock.engine.analysis.values import HOME, UNKNOWN, WORK, Arg

__all__ = ["Place", "is_disk", "is_sink", "join", "place"]

_SYSTEM: Final = (
    "etc", "usr", "bin", "sbin", "lib", "lib32", "lib64", "boot", "sys", "proc", "dev", "var", "opt", "srv", "root",
    "home", "Users", "System", "Library", "Applications", "Volumes", "private", "nix", "run", "mnt", "media", "cores",
)  # fmt: skip
_DEEP_SYSTEM: Final = ("etc", "usr", "bin", "sbin", "lib", "lib32", "lib64", "boot", "sys", "proc", "System", "Library")
_MILD: Final = ("usr/local", "usr/src", "private/tmp", "private/var/folders", "etc/apt", "etc/nginx")
_MAX_PATH: Final = 4096  # characters; a system call refuses a longer path (PATH_MAX)
_HOMES: Final = ("home", "Users")
_TEMP: Final = (("tmp",), ("var", "tmp"), ("private", "tmp"), ("private", "var", "folders"), ("dev", "shm"))
_SINKS: Final = re.compile(
    r"/dev/(null|zero|full|stdout|stderr|stdin|tty[0-9]*|pts/.*|fd/.*|random|urandom|console|ptmx)\Z"
)
_DISKS: Final = re.compile(
    r"/dev/(r?disk[0-9]|[shvx]v?d[a-zX*?]|nvme|mmcblk|md[0-9]|dm-|mapper/|loop[0-9*]|vg|disk/|sr[0-9]|device|sdX|(?!shm|mqueue|pts|fd)[a-z]+[a-z0-9_]*\Z)"
)
_ALL_GLOB: Final = re.compile(r"[.?*\[\]!^]*\*\Z|\{[*.,]+\}\Z")


class Place(NamedTuple):
    """A path's scope; `path` is absolute or starts with a mark; `whole` where it is the scope's own top directory.

    `whole` is true for `/`, a home directory, a system directory, the worktree itself, also as `dir/*`.
    """

    scope: str
    path: str
    whole: bool
    swept: bool = False  # the path ended in a glob that takes everything


def join(cwd: str, text: str) -> str:
    """`text` seen from `cwd`, both possibly with marks, with `.`, `..` and `//` taken out."""
    if not text:
        return cwd
    path = text if text[0] in ("/", HOME, WORK) else f"{cwd}/{text}"
    head = path[0] if path[0] in (HOME, WORK) else "/" if path[0] == "/" else ""
    parts: list[str] = []
    for part in path[len(head) :].split("/"):
        if part in ("", "."):
            continue
        if part != "..":
            parts.append(part)
        elif parts and parts[-1] != "..":
            parts.pop()
        elif head != "/":
            parts.append("..")
    tail = "/".join(parts)
    return head + tail if head in ("/", "") else f"{head}/{tail}" if tail else head


def is_sink(path: str) -> bool:
    """Whether writing there changes no file: /dev/null, a terminal, a descriptor."""
    return bool(_SINKS.match(path))


def is_disk(path: str) -> bool:
    """Whether the path names a disk or another raw device."""
    return path.startswith("/dev/") and not is_sink(path) and bool(_DISKS.match(path))


def place(arg: Arg, cwd: str, work: str) -> Place:
    """Where `arg` points from `cwd`; `work` is the worktree (a directory or the mark WORK)."""
    if len(arg.text) > _MAX_PATH:
        return Place("unknown", arg.text[:256], False)
    path = join(cwd, arg.text)
    swept = False
    parts = path.split("/")
    while arg.glob and len(parts) > 1 and _ALL_GLOB.match(parts[-1]):
        parts.pop()
        swept = True
    if swept:
        path = "/".join(parts) or "/"
    scope, whole = _scope(path, arg.glob, work)
    return Place(scope, path, whole, swept)


def _scope(path: str, glob: bool, work: str) -> tuple[str, bool]:
    if path == work or path.startswith(work + "/"):
        return _below_work(path[len(work) + 1 :])
    if path[:1] == HOME:
        return _below_home(path[2:].split("/") if len(path) > 1 else [], glob)
    if path[:1] != "/":
        return ("unknown", False)
    parts = path[1:].split("/") if len(path) > 1 else []
    if not parts:
        return ("root", True)
    if work[:1] == "/" and work.startswith(path + "/") and len(parts) > 1 and parts[0] not in (*_HOMES, "root"):
        return ("outside", False)
    return _absolute(path, parts, glob)


def _below_work(rest: str) -> tuple[str, bool]:
    if not rest:
        return ("worktree", True)
    if not rest.startswith(".."):
        return ("unknown" if rest.startswith(UNKNOWN) else "worktree", False)
    ups = rest.split("/")
    high = len(ups) >= 3 and set(ups) == {".."}
    return ("root", True) if high else ("outside", False)


def _below_home(parts: list[str], glob: bool) -> tuple[str, bool]:
    if not parts or parts == [""]:
        return ("home", True)
    if parts[0] == "..":
        return ("root", True)
    return ("home", glob and len(parts) == 1 and parts[0] in (".*", ".??*"))


def _absolute(path: str, parts: list[str], glob: bool) -> tuple[str, bool]:
    first = parts[0]
    if any(tuple(parts[: len(t)]) == t for t in _TEMP):
        return ("temp", tuple(parts) in _TEMP)
    if first == "dev":
        return ("device", len(parts) == 1)
    if UNKNOWN in first:
        return ("root", False)
    if first in _HOMES or first == "root":
        depth = 1 if first == "root" else 2
        if len(parts) <= depth:
            return ("home", UNKNOWN not in parts[-1])
        return ("home", False)
    names = [d for d in _SYSTEM if fnmatch.fnmatchcase(d, first)] if glob else [first] if first in _SYSTEM else []
    if not names:
        return ("outside", False)
    if len(parts) == 1:
        return ("system", True)
    if first == "var":
        return ("system", parts[1] in ("lib", "spool", "db", "root", "run"))
    if names[0] in _DEEP_SYSTEM or (glob and names):
        return ("system", not path[1:].startswith(_MILD))
    return ("outside", False)
