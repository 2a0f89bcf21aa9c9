"""The one TOML file, and where configuration and state live.

The file is found by `--config`, then INTERLOCK_CONFIG, then the user's configuration directory. Its sections are
listed here once; each is read by the room that owns it, and an unknown section or key is refused by name.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from interlock.base.errors import InterlockError
from interlock.base.files import NewerFormat, os_reason

__all__ = [
    "FORMAT",
    "SECTIONS",
    "VERSION",
    "BadConfig",
    "Settings",
    "config_file",
    "home_dir",
    "read_settings",
    "state_dir",
]

FORMAT: Final = "interlock-config"
VERSION: Final = 1
# section -> its keys and their types; all are checked by whoever reads the file, whichever section it needs
SECTIONS: Final[dict[str, dict[str, type | tuple[type, ...]]]] = {
    "guard": {"policy": str, "receipts": str, "deadline_ms": int},
    "approvals": {"queue": str, "wait_seconds": (int, float), "use_seconds": (int, float), "four_eyes": bool},
    "mesh": {"home": str, "organisation": str, "commons": str, "monitor": str, "poll_seconds": (int, float)},
    "report": {"task": str, "token": str, "nodes": list},
    "serve": {
        "dir": str,
        "name": str,
        "operator": str,
        "upstream": str,
        "log_url": str,
        "mirrors": list,
        "poll_seconds": (int, float),
        "store": str,
        "drive": bool,
        "patience_seconds": (int, float),
        "keep_days": (int, float),
        "helper_cert": str,
        "helper_key": str,
        "helper_ca": str,
    },
}
_LIMIT: Final = 1 << 20


class BadConfig(InterlockError):
    """A configuration that cannot be used."""

    code = "bad-config"


@dataclass(frozen=True)
class Settings:
    """A checked configuration file; `path` is None where there is no file and all is default."""

    path: Path | None = None
    tables: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    def section(self, name: str) -> dict[str, object]:
        """One section's values, each of the type that SECTIONS gives its key; {} where it is not there."""
        return dict(self.tables.get(name, {}))

    def beside(self, path: str) -> Path:
        """A path that a setting names: `~` is the user's home, and what is relative starts at the file's folder.

        Raises: BadConfig, for the home of a user that is not known.
        """
        try:
            named = Path(path).expanduser()
        except RuntimeError:
            raise BadConfig("names the home of a user that is not known", where=f"{self.path}: {path}") from None
        return named if self.path is None else self.path.parent / named


def config_file(explicit: str | None = None) -> Path | None:
    """The configuration file to read, or None where there is none and none was asked for.

    Raises: BadConfig, where that cannot be told: a file that cannot be reached is never taken for a missing one.
    """
    named = explicit or os.environ.get("INTERLOCK_CONFIG")
    if named:
        return Path(named)
    default = _config_dir() / "interlock.toml"
    try:
        return default if default.exists() else None
    except OSError as e:
        raise BadConfig(f"cannot be read ({os_reason(e)})", where=str(default), fix="check who may read it") from None


def read_settings(path: Path | None) -> Settings:
    """Read the one TOML file and check all of it.

    Raises: BadConfig, for what is not TOML (with line and column), an unknown section or key, a value of another type;
    NewerFormat.
    """
    if path is None:
        return Settings()
    try:
        with path.open("rb") as f:
            data = f.read(_LIMIT + 1)
        if len(data) > _LIMIT:
            raise BadConfig("is larger than 1 MiB", where=str(path))
        tables = tomllib.loads(data.decode("utf-8"))
    except OSError as e:
        raise BadConfig(
            f"cannot be read ({os_reason(e)})", where=str(path), fix="check --config and INTERLOCK_CONFIG"
        ) from None
    except UnicodeDecodeError as e:
        raise BadConfig(f"is not UTF-8 (byte {e.start})", where=str(path)) from None
    except (tomllib.TOMLDecodeError, RecursionError) as e:
        raise BadConfig(f"is not TOML ({e})", where=str(path)) from None
    _take_stamp(tables, path)
    for name, table in tables.items():
        if name not in SECTIONS or not isinstance(table, dict):
            raise BadConfig("is not a section", where=f"{path}: {name}", fix=f"known: {', '.join(sorted(SECTIONS))}")
        _check_section(name, table, path)
    return Settings(path, tables)


def _check_section(name: str, table: Mapping[str, object], path: Path) -> None:
    known = SECTIONS[name]
    for key, value in table.items():
        where = f"{path}: [{name}] {key}"
        if key not in known:
            raise BadConfig("is not a setting", where=where, fix=f"known here: {', '.join(sorted(known))}")
        if not isinstance(value, known[key]) or (isinstance(value, bool) and known[key] is not bool):
            raise BadConfig(f"has the wrong type ({type(value).__name__})", where=where)
        if isinstance(value, str) and "\0" in value:
            raise BadConfig("holds a null character", where=where)


def _take_stamp(tables: dict[str, object], path: Path) -> None:
    """Check `format` and `v` and take them out; what we write has them, what a person writes may leave them out."""
    said, v = tables.pop("format", FORMAT), tables.pop("v", VERSION)
    if said != FORMAT:
        raise BadConfig("is not a configuration of interlock", where=f"{path}: format", fix=f'write "{FORMAT}"')
    if type(v) is not int or v < 1:
        raise BadConfig("is not a version", where=f"{path}: v", fix=f"write {VERSION}")
    if v > VERSION:
        told = f"has version {v}, and this interlock reads up to {VERSION}"
        raise NewerFormat(told, where=str(path), fix="upgrade interlock")


def state_dir() -> Path:
    """Where interlock keeps its state by default; not made here."""
    if sys.platform == "win32":
        return _from_env("LOCALAPPDATA", "AppData/Local") / "interlock" / "state"
    if sys.platform == "darwin":
        return home_dir() / "Library" / "Application Support" / "interlock"
    return _from_env("XDG_STATE_HOME", ".local/state") / "interlock"


def home_dir() -> Path:
    """The user's home. Raises: BadConfig, where the system knows none."""
    try:
        home = str(Path.home())
    except RuntimeError:
        home = ""
    if not os.path.isabs(home) or os.environ.get("HOME") == "":  # which Python would take for the root directory
        raise BadConfig("is not the path of a home directory", where="HOME", fix="set HOME to an absolute path")
    return Path(home)


def _config_dir() -> Path:
    if sys.platform == "win32":
        return _from_env("APPDATA", "AppData/Roaming") / "interlock"
    if sys.platform == "darwin":
        return home_dir() / "Library" / "Application Support" / "interlock"
    return _from_env("XDG_CONFIG_HOME", ".config") / "interlock"


def _from_env(name: str, fallback: str) -> Path:
    value = os.environ.get(name, "")
    return Path(value) if os.path.isabs(value) else home_dir() / fallback
