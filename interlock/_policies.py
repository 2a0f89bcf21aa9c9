"""Which policy a name stands for, and how it is followed: a file, a built-in policy, a pack of the mesh."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from interlock.base.files import seen_state
from interlock.engine.decision import Decision, Verdict
from interlock.engine.live import Follower, LivePolicy
from interlock.engine.policy.model import Policy, Rule, Source
from interlock.engine.rules import with_code_rules

if TYPE_CHECKING:
    from interlock.engine.ambient import Observer
    from interlock.engine.event import SensorEvent
    from interlock.engine.policy.counting import CountStore

__all__ = ["counters", "live_policy", "recorders"]

_BUILTIN: Final = "builtin:"
_MESH: Final = "mesh:"
_CONSENT: Final = "consent.json"  # as commons.consent has it, which is not imported for one look


def live_policy(
    policy: str | bytes | os.PathLike[str] | Policy | None,
    rules: tuple[Rule, ...] = (),
    follower: Follower | None = None,
) -> LivePolicy:
    """The live policy of a name that `install` takes, with code rules after it. Raises: InterlockError."""
    load, fingerprint = _source(policy)
    return LivePolicy(lambda: with_code_rules(load(), rules), fingerprint, follower)


def recorders(policy: Policy) -> tuple[Observer, ...]:
    """The event journal of the node whose packs a policy has, where it is on and can be encrypted; usually none."""
    if not any(rule.source.kind == "pack" for rule in policy.rules):
        return ()
    home = _mesh_home()
    if not (home / "events" / "key").exists():
        return ()
    try:
        from interlock.commons.eventlog import EventLog
        from interlock.node.roles.record import EventRecorder
    except ImportError as e:
        import logging

        logging.getLogger("interlock").warning("the event journal is on, and needs %s: no events are kept", e.name)
        return ()
    return (EventRecorder(EventLog(home)),)


def counters() -> tuple[Observer, ...]:
    """What counts objections for this user's node, once its organisation consents; none where there is no node."""
    from interlock.base.errors import InterlockError

    try:
        home = _mesh_home()
    except InterlockError:  # whoever needs the configuration says what is wrong with it
        return ()
    return (_Counter(home),) if home.is_dir() else ()


class _Counter:
    """Counts objections alone: what passes costs nothing, and while nobody has said yes, nothing is imported."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._tally: Observer | None = None

    def __call__(self, event: SensorEvent, decision: Decision) -> None:
        if decision.verdict is not Verdict.BLOCK and decision.verdict is not Verdict.ESCALATE:
            return
        if self._tally is None:
            if not (self._home / _CONSENT).exists():
                return
            from interlock.base.clock import SystemClock
            from interlock.node.roles.observe import TallyObserver, community_rules, masking_rules

            self._tally = TallyObserver(self._home, SystemClock(), redacting=masking_rules, community=community_rules)
        self._tally(event, decision)


def _source(
    policy: str | bytes | os.PathLike[str] | Policy | None,
) -> tuple[Callable[[], Policy | None], Callable[[], object] | None]:
    if policy is None or isinstance(policy, Policy):
        return (lambda: policy), None
    name = os.fsdecode(policy)
    if name.startswith(_BUILTIN):
        return (lambda: _builtin(name)), None
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
    from interlock.commons import installed
    from interlock.commons.rings import at_ring

    pack, ring = at_ring(name)
    home = _mesh_home()
    return (lambda: installed.load(home, pack, ring)), installed.Watch(home)


def _mesh_home() -> Path:
    """The home of this user's node, as node.config says it; a guard works without that room. Raises: BadConfig."""
    from interlock.base.settings import config_file, read_settings, state_dir

    settings = read_settings(config_file())
    named = settings.section("mesh").get("home")
    return settings.beside(str(named)) if named else state_dir() / "mesh"


class _PolicyFile:
    """A policy file with the files and subscriptions that it extends; all of them are watched."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._counts: CountStore | None = None  # lives on when the file is read again
        self._watched: tuple[Callable[[], object], ...] = (lambda: seen_state(path),)

    def load(self) -> Policy:
        """Raises: BadPolicy."""
        from interlock.base.clock import SystemClock
        from interlock.base.settings import state_dir
        from interlock.engine.policy.builtins import follow_links, read_policy_file, resolver
        from interlock.engine.policy.counting import CountStore
        from interlock.engine.policy.load import load_policy
        from interlock.engine.policy.trust import TRUST_FILE, TrustedOverlays

        self._counts = self._counts or CountStore(SystemClock().now_us)
        seen: list[Callable[[], object]] = []
        resolve = resolver(self._path.parent)

        def watched(name: str) -> Policy | bytes:
            if name.startswith(_MESH):
                load, fingerprint = _mesh(name)
                seen.append(fingerprint)
                return load()
            if not name.startswith(_BUILTIN):
                seen.append(lambda: seen_state(self._path.parent / name))
            return resolve(name)

        def trusted(sha256: str) -> bool:
            overlays = TrustedOverlays(state_dir() / TRUST_FILE)
            seen.append(lambda: seen_state(overlays.path))
            return overlays.holds(sha256)

        try:
            data = read_policy_file(self._path)
            return load_policy(
                data,
                where=str(self._path),
                source=Source("file", self._path.name),
                resolve=watched,
                trusted=trusted,
                links=follow_links,
                counts=self._counts,
            )
        finally:
            self._watched = (lambda: seen_state(self._path), *seen)

    def fingerprint(self) -> object:
        return tuple(watch() for watch in self._watched)
