"""`install`: which policy, rules, sink and approver guard this process. Policies' readers are imported on demand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from interlock.base.files import seen_state
from interlock.engine import ambient
from interlock.engine.ambient import Installed, Observer
from interlock.engine.approvals import Approver
from interlock.engine.live import LivePolicy
from interlock.engine.policy.model import Policy, Rule, RuleFunction, Source
from interlock.engine.rules import code_rules, with_code_rules
from interlock.engine.sinks import NullSink, Sink

__all__ = ["install", "live_policy"]

_BUILTIN: Final = "builtin:"
_MESH: Final = "mesh:"


def install(
    rules: Iterable[RuleFunction | Rule] | None = None,
    policy: str | os.PathLike[str] | Policy | None = None,
    sink: Sink | None = None,
    approver: Approver | None = None,
    observers: Iterable[Observer] = (),
) -> None:
    """Put a guard in force for this process; a second call replaces the first at once.

    `policy` is a file (JSON; YAML with PyYAML), `builtin:NAME` or `mesh:PACK@RING`; its rules run first, then `rules`.
    A file and a mesh subscription are followed: a change is in force from the next call on, and a bad one leaves the
    last good policy. `sink` keeps the receipts (none are kept without one); `approver` answers escalations (without
    one they are refused); each of `observers` is told every decision.
    Raises: InterlockError, where the policy cannot be used; TypeError, ValueError for what is no rule. Then what was
    installed before stays.
    """
    live = live_policy(policy, code_rules(rules or ()))
    ambient.install(Installed(live, NullSink() if sink is None else sink, approver, tuple(observers)))


def live_policy(policy: str | os.PathLike[str] | Policy | None, rules: tuple[Rule, ...] = ()) -> LivePolicy:
    """The live policy of a name that `install` takes, with code rules after it. Raises: InterlockError."""
    load, fingerprint = _source(policy)
    return LivePolicy(lambda: with_code_rules(load(), rules), fingerprint)


def _source(
    policy: str | os.PathLike[str] | Policy | None,
) -> tuple[Callable[[], Policy | None], Callable[[], object]]:
    if policy is None or isinstance(policy, Policy):
        return (lambda: policy), (lambda: None)
    name = os.fspath(policy)
    if name.startswith(_BUILTIN):
        return (lambda: _builtin(name)), (lambda: None)
    if name.startswith(_MESH):
        return _mesh(name)
    file = _PolicyFile(Path(name).absolute())
    return file.load, file.fingerprint


def _builtin(name: str) -> Policy:
    from interlock.engine.policy.builtins import builtin, resolver
    from interlock.engine.policy.load import load_policy

    plain = name.removeprefix(_BUILTIN)
    return load_policy(builtin(plain), where=name, source=Source("builtin", plain), resolve=resolver(None))


def _mesh(name: str) -> tuple[Callable[[], Policy], Callable[[], object]]:
    from interlock.base.errors import BadInput
    from interlock.commons import installed

    pack, at, ring = name.removeprefix(_MESH).rpartition("@")
    if not (pack and at and ring):
        raise BadInput("is not a pack of the mesh", where=name, fix="write mesh:PACK@RING")
    home = _mesh_home()
    return (lambda: installed.load(home, pack, ring)), (lambda: installed.fingerprint(home))


def _mesh_home() -> Path:
    from interlock.base.settings import config_file, read_settings
    from interlock.node.config import mesh_config

    return mesh_config(read_settings(config_file())).home


class _PolicyFile:
    """A policy file with the files that it extends; all of them are watched."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[Path, ...] = (path,)

    def load(self) -> Policy:
        """Raises: BadPolicy."""
        from interlock.engine.policy.builtins import read_policy_file, resolver
        from interlock.engine.policy.load import load_policy

        read = [self._path]
        resolve = resolver(self._path.parent)

        def watched(name: str) -> Policy | bytes:
            if name.startswith(_MESH):
                return _mesh(name)[0]()
            if not name.startswith(_BUILTIN):
                read.append(self._path.parent / name)
            return resolve(name)

        try:
            data = read_policy_file(self._path)
            source = Source("file", self._path.name)
            return load_policy(data, where=str(self._path), source=source, resolve=watched)
        finally:
            self._read = tuple(read)

    def fingerprint(self) -> object:
        return tuple(map(seen_state, self._read))
