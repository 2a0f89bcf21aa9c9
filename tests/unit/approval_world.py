"""A queue to try approvals on, a policy that escalates, and a person at a pseudo-terminal with bounded patience."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.base.clock import ManualClock
from interlock.engine.approvals import ApprovalRequest, Scripts, ask, no_scripts
from interlock.engine.approvals_queue import ApprovalQueue
from interlock.engine.approvals_store import ApprovalStore
from interlock.engine.decision import Decision
from interlock.engine.evaluate import Outcome
from interlock.engine.event import SensorEvent
from interlock.engine.policy.model import Rule

__all__ = ["PERSON", "Said", "at_terminal", "escalation", "queue", "request_id", "rule", "store_of", "typed_back"]

# A person's shell: the real command, with the lineage that a person's terminal has. Whoever runs these tests may be an
# agent, and then the real lineage refuses (which tests of its own show).
PERSON = "import sys; from interlock.node.cli import approve, main; approve.lineage = lambda: (); sys.exit(main.main())"


def rule(name: str = "ask.first") -> Rule:
    return Rule(name, lambda event: Decision.escalate("needs a person"))


def escalation(action: str = "Bash", args: Mapping[str, object] | None = None, **more: Any) -> Outcome:
    """An outcome that escalates; `reason`, `evidence`, `rules` and `rewritten` go to it, what is left to the event."""
    said = Decision.escalate(more.pop("reason", "needs a person"), evidence=more.pop("evidence", None))
    rules = tuple(rule(name) for name in more.pop("rules", ("ask.first",)))
    rewritten = frozenset(more.pop("rewritten", ()))
    event = SensorEvent(action, {"command": "git push --force"} if args is None else args, **more)
    return Outcome(said, event, fired=rules, decider=rules[0], rewritten=rewritten, escalated=rules)


def queue(folder: Path, clock: ManualClock | None = None, **settings: Any) -> ApprovalQueue:
    return ApprovalQueue(folder / "approvals.sqlite", clock=clock, **settings)


def store_of(folder: Path, clock: ManualClock | None = None) -> ApprovalStore:
    return ApprovalStore(folder / "approvals.sqlite", clock)


def request_id(queue_: ApprovalQueue, outcome: Outcome | None = None) -> str:
    """Ask, be refused, and learn the request's id from the refusal."""
    answer = ask(queue_, outcome or escalation(), "p1")
    assert not answer.approved
    assert answer.request_id in answer.note
    return answer.request_id


def request(outcome: Outcome | None = None, scripts: Scripts = no_scripts) -> ApprovalRequest:
    """What an approver is given."""
    seen: list[ApprovalRequest] = []

    def approver(given: ApprovalRequest) -> bool:
        seen.append(given)
        return False

    ask(approver, outcome or escalation(), "p1", scripts=scripts)
    return seen[0]


@dataclass(frozen=True)
class Said:
    """What a command showed at its terminal, and its exit code."""

    text: str
    code: int


def typed_back(text: str) -> str:
    """What a person types: the word that the challenge names."""
    words: list[str] = re.findall(r"type (\w+) and press Enter", text)
    return words[-1]


def at_terminal(
    words: list[str], env: Mapping[str, str], *, answer: object = typed_back, program: str = PERSON, seconds: float = 20
) -> Said:
    """Run a Python program at a pseudo-terminal; once it asks, type what `answer` makes of what it showed.

    `answer` may be None: then nothing is typed. Whatever is left after `seconds` is killed.
    """
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-c", program, *words], dict(env))
    shown, asked, until = b"", False, time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            if not select.select([fd], [], [], 0.1)[0]:
                continue
            try:
                part = os.read(fd, 1 << 16)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
            if not asked and b"and press Enter" in shown and callable(answer):
                asked = True
                os.write(fd, f"{answer(shown.decode())}\n".encode())
    finally:
        code = _ended(pid)
        os.close(fd)
    return Said(shown.decode("utf-8", "replace"), code)


def _ended(pid: int) -> int:
    until = time.monotonic() + 5
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -signal.SIGKILL
