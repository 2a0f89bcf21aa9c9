"""Rules that the hook adds to every policy: a guarded agent does not change what guards it.

`builtin:coding-agent` says the same of the places that interlock and the agents use by default. A policy of the
user's own may not, and may lie anywhere; so the hook names its own files here, as they are on this machine.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from interlock.engine.analysis.intents import Intent, intents
from interlock.engine.decision import Decision
from interlock.engine.event import SensorEvent
from interlock.engine.policy.model import Rule

__all__ = ["POLICY_ID", "protection"]

POLICY_ID: Final = "self.guard"
_CHANGES: Final = frozenset({"write", "delete"})
_GUARDING: Final = "self.protect"  # the intents of whoever would loosen the guard


def protection(files: Iterable[Path], home: Path) -> Rule:
    """A locked rule that blocks a change of any of `files` (a folder: of anything in it), or of the guard at large."""
    guarded = tuple(dict.fromkeys(spelt for file in files for spelt in (_plain(str(file)), os.path.realpath(file))))

    def rule(event: SensorEvent) -> Decision | None:
        for intent in intents(event):
            if intent.name.startswith(_GUARDING) or (intent.effect in _CHANGES and _touches(intent, guarded, home)):
                reason = "would change what guards this agent; only a person may do that"
                return Decision.block(reason, POLICY_ID, intent.attributed_to)
        return None

    return Rule(POLICY_ID, rule, locked=True)


def _touches(intent: Intent, guarded: tuple[str, ...], home: Path) -> bool:
    target = intent.target
    if target == "~" or target.startswith("~/"):
        target = str(home) + target[1:]
    if not os.path.isabs(target):
        return False
    spellings = {_plain(target), os.path.realpath(target)}
    return any(_hits(spelt, path, intent.effect == "delete") for spelt in spellings for path in guarded)


def _hits(target: str, path: str, deletes: bool) -> bool:
    """Whether a change of `target`, which may hold wildcards, reaches `path`: it, in it, or (deleting) above it."""
    if _within(target, path) or fnmatch.fnmatchcase(path, target):
        return True
    above = path
    while deletes and above != os.path.dirname(above):
        above = os.path.dirname(above)
        if fnmatch.fnmatchcase(above, target):
            return True
    return False


def _within(target: str, path: str) -> bool:
    return target == path or target.startswith(path.rstrip(os.sep) + os.sep)


def _plain(path: str) -> str:
    return os.path.normpath(os.path.abspath(path))
