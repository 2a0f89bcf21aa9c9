"""One hook call from bytes to bytes: read, judge by the installed policy, leave a receipt, answer.

What surrounds it (stdin, signals, the hard deadline, exit codes) is the wall in `interlock.__main__`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final, NoReturn

from interlock.base.errors import BadInput, InterlockError
from interlock.base.settings import BadConfig, config_file, read_settings, state_dir
from interlock.engine.approvals import Approver
from interlock.engine.sinks import FileSink
from interlock.interceptors.enforce import decide
from interlock.interceptors.hooks import claude_code
from interlock.interceptors.hooks.approving import QueueSettings, queue_files, queue_settings
from interlock.interceptors.hooks.protect import protection

__all__ = ["AGENTS", "DEFAULT_POLICY", "MAX_DEADLINE_MS", "GuardSettings", "answer", "guard_settings", "put_in_force"]

AGENTS: Final = {claude_code.AGENT: claude_code}
DEFAULT_POLICY: Final = "builtin:coding-agent"
_NAMED: Final = ("builtin:", "mesh:")
MAX_DEADLINE_MS: Final = 9_000


class _OutOfTime(BaseException):
    """The guard's own deadline passed; not an Exception, so that no rule can swallow it."""


class _Late(InterlockError):
    """No decision in time."""

    code = "bad-input"


@dataclass(frozen=True)
class GuardSettings:
    """What [guard] and [approvals] say of the local guard; `file` is where they say so."""

    policy: str
    receipts: Path
    deadline_ms: int
    file: Path | None = None
    approvals: QueueSettings | None = None

    @property
    def own_files(self) -> list[Path]:
        """What the guard stands on: its configuration, policy, state, receipts and approvals."""
        policy = [] if self.policy.startswith(_NAMED) else [Path(self.policy)]
        beside = [self.receipts.with_name(self.receipts.name + end) for end in (".key", ".lock")]
        queue = [] if self.approvals is None else queue_files(self.approvals)
        return [*policy, *([self.file] if self.file else []), state_dir(), self.receipts, *beside, *queue]


def guard_settings(explicit: str | None = None) -> GuardSettings:
    """The guard's settings, with their defaults. Paths are relative to the configuration file.

    Raises: BadConfig.
    """
    settings = read_settings(config_file(explicit))
    section = settings.section("guard")
    deadline = section.get("deadline_ms", 8_000)
    if not isinstance(deadline, int) or not 50 <= deadline <= MAX_DEADLINE_MS:
        raise BadConfig(f"is not between 50 and {MAX_DEADLINE_MS}", where=f"{settings.path}: [guard] deadline_ms")
    policy = str(section.get("policy", DEFAULT_POLICY))
    if not policy.startswith(_NAMED):
        policy = str(settings.beside(policy))
    receipts = section.get("receipts")
    return GuardSettings(
        policy,
        settings.beside(str(receipts)) if receipts else state_dir() / "receipts.jsonl",
        deadline,
        settings.path,
        queue_settings(settings),
    )


def answer(
    arguments: Sequence[str],
    raw: bytes,
    install: Callable[..., object],
    queue: Callable[[QueueSettings], Approver],
) -> bytes:
    """What to print for one hook call; empty where there is no objection. `queue` makes an approver of a queue.

    Raises: InterlockError, for bad input, settings or policy, a receipt that cannot be written, or no time left.
    """
    agent, explicit = _parsed(arguments)
    _choose_config(explicit)
    settings = guard_settings(explicit)
    with _deadline(settings.deadline_ms):
        payload = agent.read(raw, time.time_ns() // 1000)
        put_in_force(settings, install, queue)
        outcome = decide(payload.event)
        printed: bytes = agent.encoded(agent.reply(payload, outcome.decision, outcome.event))
    return printed


def put_in_force(
    settings: GuardSettings, install: Callable[..., object], queue: Callable[[QueueSettings], Approver]
) -> None:
    """Install the guard of a hook, in this process. Raises: InterlockError, where its policy or receipts are no use."""
    own = protection(settings.own_files, Path.home())
    approver = None if settings.approvals is None else queue(settings.approvals)
    # no event journal: a hook lives for one call, and its agent keeps session files of its own
    install(policy=settings.policy, rules=[own], sink=FileSink(settings.receipts), approver=approver, journal=False)


def _parsed(arguments: Sequence[str]) -> tuple[ModuleType, str | None]:
    """`AGENT [--config FILE]`; parsed by hand, for argparse is a third of the start time."""
    match list(arguments):
        case [name]:
            explicit = None
        case [name, "--config", explicit]:
            pass
        case _:
            raise BadInput("takes AGENT [--config FILE]", where="interlock hook")
    if name not in AGENTS:
        raise BadInput("does not know this agent", where="interlock hook", fix=f"known: {', '.join(sorted(AGENTS))}")
    return AGENTS[name], explicit


def _choose_config(explicit: str | None) -> None:
    """Settle which configuration every room of this process reads; the process is the hook's alone.

    An installed hook runs isolated (`python -I`) and takes no configuration from the environment: a repository's own
    agent settings may set variables for hooks (measured, Claude Code 2.1.332), and could name a policy of its own.
    """
    if sys.flags.isolated:
        os.environ.pop("INTERLOCK_CONFIG", None)
    if explicit is not None:
        os.environ["INTERLOCK_CONFIG"] = explicit


@contextlib.contextmanager
def _deadline(milliseconds: int) -> Iterator[None]:
    """Raise in the judging code once its time is over; the parent's own timer stands behind this one."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, _out_of_time)
    delay, _ = signal.setitimer(signal.ITIMER_REAL, milliseconds / 1000)
    try:
        yield
    except _OutOfTime:
        raise _Late(f"no decision within {milliseconds} ms", fix="see [guard] deadline_ms") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, delay)
        signal.signal(signal.SIGALRM, before)


def _out_of_time(number: int, frame: object) -> NoReturn:
    raise _OutOfTime
