"""The queue of approvals that the configuration names, for hooks and for who approves.

[approvals]  queue = FILE            without one, an escalation is the agent's own question to its user
             wait_seconds = 3600     how long a request waits for an answer
             use_seconds = 600       how long an approval may be used
             four_eyes = false       whether two persons have to approve
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.settings import BadConfig, Settings, state_dir
from interlock.engine.approvals_place import FILES

__all__ = ["QueueSettings", "queue_files", "queue_settings"]

_MOST_SECONDS: Final = 30 * 86_400
_DEFAULTS: Final = {"wait_seconds": 3600, "use_seconds": 600}


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """A queue by its settings, for who opens it only once something is to be approved; times are in seconds.

    `makes_folder` where its folder is ours to make.
    """

    path: Path
    wait_s: float
    use_s: float
    four_eyes: bool = False
    makes_folder: bool = False


def queue_settings(settings: Settings) -> QueueSettings | None:
    """What [approvals] says; None where there is no such section. A relative path starts at the file's folder.

    Raises: BadConfig.
    """
    section = settings.section("approvals")
    if not section:
        return None
    if not section.get("queue"):
        raise BadConfig("is not set", where=f"{settings.path}: [approvals] queue", fix="name the queue's file")
    path = settings.beside(str(section["queue"]))
    wait_s, use_s = (_seconds(settings, section, name) for name in _DEFAULTS)
    return QueueSettings(path, wait_s, use_s, bool(section.get("four_eyes")), path.parent == state_dir())


def _seconds(settings: Settings, section: dict[str, object], name: str) -> float:
    value = section.get(name, _DEFAULTS[name])
    if not isinstance(value, int | float) or not 0 < value <= _MOST_SECONDS:
        told = f"is not more than 0 and at most {_MOST_SECONDS}"
        raise BadConfig(told, where=f"{settings.path}: [approvals] {name}")
    return float(value)


def queue_files(queue: QueueSettings) -> list[Path]:
    """The files of a queue, which a guarded agent does not change."""
    return [queue.path.with_name(queue.path.name + end) for end in FILES]
