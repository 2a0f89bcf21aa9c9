"""The policies that ship with interlock, and where the names in `extends` lead."""

from __future__ import annotations

import importlib.resources
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from interlock.engine.policy.problems import BadPolicy, did_you_mean, shown
from interlock.engine.policy.source import MAX_BYTES

__all__ = ["PREFIX", "builtin", "builtin_names", "follow_links", "read_policy_file", "resolver"]

PREFIX: Final = "builtin:"
_FOLDER: Final = "builtin"
_PORTION: Final = 1 << 16


def builtin_names() -> tuple[str, ...]:
    """The names of the policies that ship with interlock, sorted."""
    folder = importlib.resources.files("interlock.engine.policy").joinpath(_FOLDER)
    if not folder.is_dir():
        return ()
    return tuple(sorted(item.name.removesuffix(".json") for item in folder.iterdir() if item.name.endswith(".json")))


def builtin(name: str) -> bytes:
    """The document of a policy that ships with interlock. Raises: BadPolicy, for an unknown name."""
    names = builtin_names()
    if name not in names:
        raise BadPolicy("no such built-in policy", where=shown(PREFIX + name), fix=did_you_mean(name, names))
    return importlib.resources.files("interlock.engine.policy").joinpath(_FOLDER, f"{name}.json").read_bytes()


def read_policy_file(path: Path) -> bytes:
    """A policy file's bytes, at most MAX_BYTES and one (so that the parser sees one that is too large).

    Raises: BadPolicy, where it cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as f:
            return _read(f)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else "not a usable path"
        raise BadPolicy(f"cannot be read ({reason})", where=str(path), fix="check the path") from None


def _read(f: io.FileIO) -> bytes:
    """All at once, into memory of the file's own size: more of it, given back, would hold up every other thread."""
    data = f.read(min(os.fstat(f.fileno()).st_size, MAX_BYTES) + 1)
    while len(data) <= MAX_BYTES and (more := f.read(_PORTION)):  # of what grows meanwhile, or tells no size
        data += more
    return data[: MAX_BYTES + 1]


def follow_links(path: str) -> str:
    """Where a path leads once each symbolic link in it is followed; `~` is this user's home."""
    try:
        return os.path.realpath(os.path.expanduser(path))
    except (OSError, ValueError):
        return path


def resolver(folder: Path | None) -> Callable[[str], bytes]:
    """Resolves `extends`: `builtin:NAME`, and files by their path from `folder`; with None, no file."""

    def resolve(name: str) -> bytes:
        if name.startswith(PREFIX):
            return builtin(name.removeprefix(PREFIX))
        if name.startswith("mesh:") or folder is None:
            raise BadPolicy("cannot be extended here", where=shown(name), fix=f"extend {PREFIX}NAME or a file")
        return read_policy_file(folder / name)

    return resolve
