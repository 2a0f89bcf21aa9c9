"""interlock: a guard inside an AI agent's process.

    import interlock
    interlock.install(policy="builtin:coding-agent")

    @interlock.guard
    def send_email(to, body): ...

Every guarded call, and then its result, is judged by rules before it takes effect: it goes on, goes on rewritten, waits
for a person's approval, or is refused with `Blocked`. Nothing here needs a third-party package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._install import install
from interlock.engine.ambient import span
from interlock.engine.decision import Decision, Verdict
from interlock.engine.event import SensorEvent
from interlock.engine.rules import deny_when
from interlock.engine.settle import Blocked, NotApproved
from interlock.interceptors.enforce import enforce_tool_call, enforce_tool_result
from interlock.interceptors.guard import guard, monitor

if TYPE_CHECKING:
    from interlock.engine.approvals_queue import ApprovalQueue
    from interlock.engine.sinks import FileSink

__all__ = [
    "ApprovalQueue",
    "Blocked",
    "Decision",
    "FileSink",
    "NotApproved",
    "SensorEvent",
    "Verdict",
    "__version__",
    "deny_when",
    "enforce_tool_call",
    "enforce_tool_result",
    "guard",
    "install",
    "monitor",
    "span",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """FileSink, once somebody asks for it: files and locks are a third of what importing interlock would cost."""
    if name == "FileSink":
        from interlock.engine.sinks import FileSink

        return FileSink
    if name == "ApprovalQueue":
        from interlock.engine.approvals_queue import ApprovalQueue

        return ApprovalQueue
    raise AttributeError(f"module 'interlock' has no attribute {name!r}")
