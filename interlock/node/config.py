"""The node's sections of the one TOML file, as values with defaults. Paths are relative to the file's folder.

[mesh]    home = DIR             the node's home (state, trust, packs); by default `mesh` in the state directory
          organisation = NAME    stands with the node in status
          commons = "URL URL"    mirrors or the commons itself, asked in turn; unix:///SOCKET, file:///DIR too
          monitor = URL          who is told which checkpoints this node sees, once `mesh consent on --monitor` is said
          poll_seconds = 300
[report]  task = FILE            the task that this node reports for, beside those of `interlock mesh report init`
          token = FILE           the member's bearer token for the leader; not for a task with proofs of membership
          nodes = [PATH, ...]    the organisation's other nodes, by their homes or by files of `interlock mesh tally`
[serve]   dir = DIR              the role's folder, as `interlock mesh setup` made it
          name = NAME            a witness's name in policies
          operator = NAME        who runs an issuer or an aggregator; no operator is both
          upstream = URL         what a mirror copies; where an aggregator has member keys from
          log_url = URL          the log that a commons publishes to, and that a mirror copies
          mirrors = ["NAME=URL"] what a monitor compares, two or more
          poll_seconds = 60
          store = URL            postgresql://... for an aggregator; by default one SQLite file in the role's folder
          drive = true           false for a leader whose jobs are left to `--role dap-worker`
          patience_seconds = 10  how long uploaded reports wait for others to share a job with
          keep_days = 30         how long before the newest report an aggregator still takes one
          helper_cert = FILE     the certificate that a leader shows the helper, and its key: helper_key = FILE
          helper_ca = FILE       whom the helper's own certificate is of, where that is a CA of its own
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from interlock.base.errors import one_line
from interlock.base.files import demand_private
from interlock.base.settings import BadConfig, Settings, config_file, read_settings, state_dir

__all__ = [
    "CONFIG",
    "LOG_POLICY",
    "MeshConfig",
    "ReportConfig",
    "ServeConfig",
    "demand_place",
    "mesh_config",
    "named_places",
    "report_config",
    "serve_config",
    "settings_of",
    "toml_text",
]

CONFIG: Final = "interlock.toml"  # in a role's folder
LOG_POLICY: Final = "log-policy.txt"  # there too
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}", re.ASCII)
_HELPER_TLS: Final = ("helper_cert", "helper_key", "helper_ca")
_NAMED: Final = "a name has a-z, 0-9, '.' and '-'"
_PLACES: Final = ("http://", "https://", "file:///", "unix:///")
_DATABASES: Final = ("postgresql://", "postgres://")
DAY_S: Final = 86_400
_HERE: Final = ("localhost", "127.0.0.1", "::1")
LEAST_POLL_S: Final = 0.1
MOST_POLL_S: Final = DAY_S  # what signs the commons' freshness ends after one


@dataclass(frozen=True)
class MeshConfig:
    """A member node. `poll_s` is in seconds."""

    home: Path
    organisation: str = ""
    commons: str = ""
    poll_s: float = 300
    monitor: str = ""

    def commons_url(self) -> str:
        """Raises: BadConfig, where none is set."""
        if not self.commons:
            raise BadConfig("is not set", where="[mesh] commons", fix="name the URL of a mirror or of the commons")
        return self.commons


@dataclass(frozen=True)
class ReportConfig:
    """What a node needs to report: the task's file, if it is named here, and the file with its token."""

    task: Path | None = None
    token: Path | None = None
    nodes: tuple[Path, ...] = ()


@dataclass(frozen=True)
class ServeConfig:
    """A role that listens. `poll_s` is in seconds; `demo` lets an aggregator serve tasks with the floor of a demo."""

    directory: Path
    name: str = ""
    operator: str = ""
    upstream: str = ""
    log_url: str = ""
    poll_s: float = 60
    demo: bool = False
    store: str = field(default="", repr=False)  # it may hold a password
    drive: bool = True
    patience_s: float = 10
    keep_s: float = 30 * DAY_S
    mirrors: Mapping[str, str] = field(default_factory=dict)
    helper_cert: Path | None = None
    helper_key: Path | None = None
    helper_ca: Path | None = None


def settings_of(explicit: str | None) -> Settings:
    """The settings of `--config`, INTERLOCK_CONFIG or the user's own file. Raises: BadConfig."""
    return read_settings(config_file(explicit))


def mesh_config(settings: Settings, home: str | None = None) -> MeshConfig:
    """Raises: BadConfig."""
    values = settings.section("mesh")
    named = home or _text(values, "home")
    place = (settings.beside(named) if home is None else Path(named)) if named else state_dir() / "mesh"
    return MeshConfig(
        place,
        _text(values, "organisation"),
        _text(values, "commons"),
        _poll_s(settings, values, MeshConfig.poll_s),
        _demand_monitor(_text(values, "monitor"), f"{settings.path}: [mesh] monitor"),
    )


def report_config(settings: Settings) -> ReportConfig:
    """Raises: BadConfig."""
    values = settings.section("report")
    nodes = values.get("nodes", [])
    if not isinstance(nodes, list) or not all(isinstance(node, str) and node for node in nodes):
        raise BadConfig("is not a list of paths", where=f"{settings.path}: [report] nodes")
    task, token = (settings.beside(_text(values, key)) if key in values else None for key in ("task", "token"))
    return ReportConfig(task, token, tuple(settings.beside(node) for node in nodes))


def serve_config(settings: Settings, directory: str | None = None, *, demo: bool = False) -> ServeConfig:
    """Raises: BadConfig, where no folder is named."""
    values = settings.section("serve")
    named = _text(values, "dir")
    if directory is None and not named:
        raise BadConfig("is not set", where="[serve] dir", fix="give --dir DIR, or --config with a [serve] section")
    return ServeConfig(
        Path(directory) if directory is not None else settings.beside(named),
        _text(values, "name"),
        _text(values, "operator"),
        demand_place(_text(values, "upstream"), f"{settings.path}: [serve] upstream"),
        demand_place(_text(values, "log_url"), f"{settings.path}: [serve] log_url"),
        _poll_s(settings, values, ServeConfig.poll_s),
        demo,
        _store(settings, values),
        bool(values.get("drive", True)),
        _number(settings, values, "patience_seconds", ServeConfig.patience_s, 0, DAY_S),
        _number(settings, values, "keep_days", ServeConfig.keep_s / DAY_S, 1, 3660) * DAY_S,
        named_places(values.get("mirrors", []), f"{settings.path}: [serve] mirrors"),
        *(settings.beside(_text(values, key)) if key in values else None for key in _HELPER_TLS),
    )


def named_places(rows: object, where: str) -> dict[str, str]:
    """Addresses by name, from a list of `NAME=URL`. Raises: BadConfig."""
    found: dict[str, str] = {}
    for row in rows if isinstance(rows, list) else [rows]:
        name, eq, url = row.partition("=") if isinstance(row, str) else ("", "", "")
        if not (eq and url and _NAME.fullmatch(name)):
            raise BadConfig("is not of the form NAME=URL", where=f"{where}: {one_line(str(row), 80)}", fix=_NAMED)
        demand_place(url, f"{where}: {name}")
        if name in found or url.rstrip("/") in (other.rstrip("/") for other in found.values()):
            raise BadConfig("stands twice", where=f"{where}: {name}", fix="name two different mirrors")
        found[name] = url
    return found


def demand_place(url: str, where: str) -> str:
    """An address that files are fetched from; '' stands for none. Raises: BadConfig."""
    if url and not url.startswith(_PLACES):
        raise BadConfig(
            "is no address", where=where, fix="write http://HOST, https://HOST, unix:///SOCKET or file:///DIR"
        )
    return url


def _demand_monitor(url: str, where: str) -> str:
    """An address that something is told to: by TLS, or on this machine; '' stands for none. Raises: BadConfig."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        host = ""
    if url and not (host and (parts.scheme == "https" or (parts.scheme == "http" and host in _HERE))):
        raise BadConfig(
            "is no address of a monitor", where=where, fix="write https://HOST; http:// on this machine only"
        )
    return url


def toml_text(text: str) -> str:
    """A text as a TOML basic string."""
    escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text)
    return f'"{escaped}"'


def _text(values: dict[str, object], key: str) -> str:
    value = values.get(key, "")
    return value if isinstance(value, str) else ""


def _poll_s(settings: Settings, values: dict[str, object], default: float) -> float:
    return _number(settings, values, "poll_seconds", default, LEAST_POLL_S, MOST_POLL_S)


def _number(
    settings: Settings, values: dict[str, object], key: str, default: float, least: float, most: float
) -> float:
    value = values.get(key, default)
    if not isinstance(value, int | float) or not least <= value <= most:
        raise BadConfig(f"has to be from {least} to {most}", where=f"{settings.path}: {key}")
    return value


def _store(settings: Settings, values: dict[str, object]) -> str:
    url = _text(values, "store")
    if url and not url.startswith(_DATABASES):
        fix = "write postgresql://HOST/DATABASE, or leave it out for one SQLite file"
        raise BadConfig("is no database that is spoken here", where=f"{settings.path}: [serve] store", fix=fix)
    parts = urlsplit(url)
    if settings.path is not None and (parts.password or "password=" in parts.query):
        demand_private(settings.path)
    return url
