"""interlock: a guard inside an AI agent's process.

    import interlock
    interlock.install(policy="builtin:coding-agent")

    @interlock.guard
    def send_email(to, body): ...

Every guarded call, and then its result, is judged by rules before it takes effect: it goes on, goes on rewritten, waits
for a person's approval, or is refused with `Blocked`. Nothing here needs a third-party package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from interlock._install import install
from interlock.base.version import VERSION
from interlock.engine.ambient import span
from interlock.engine.decision import Decision, Verdict
from interlock.engine.event import SensorEvent
from interlock.engine.rules import deny_when
from interlock.engine.settle import Blocked, NotApproved
from interlock.interceptors.enforce import enforce_tool_call, enforce_tool_result
from interlock.interceptors.guard import guard, monitor

if TYPE_CHECKING:
    from interlock.engine.approvals_queue import ApprovalQueue
    from interlock.engine.flow import FlowTracker, record_origin
    from interlock.engine.scopes import Binding, ScopedEngine, ScopeRegistry, Template
    from interlock.engine.sinks import FileSink, InMemorySink, NullSink
    from interlock.engine.sources import origin_for_tool

__all__ = [
    "ApprovalQueue",
    "Binding",
    "Blocked",
    "Decision",
    "FileSink",
    "FlowTracker",
    "InMemorySink",
    "NotApproved",
    "NullSink",
    "ScopeRegistry",
    "ScopedEngine",
    "SensorEvent",
    "Template",
    "Verdict",
    "__version__",
    "deny_when",
    "enforce_tool_call",
    "enforce_tool_result",
    "guard",
    "install",
    "monitor",
    "origin_for_tool",
    "record_origin",
    "span",
]

__version__: str = VERSION


# What is imported once somebody asks for it: files and locks alone are a third of what importing interlock would cost.
_LATER = {
    "ApprovalQueue": "interlock.engine.approvals_queue",
    "Binding": "interlock.engine.scopes",
    "FileSink": "interlock.engine.sinks",
    "FlowTracker": "interlock.engine.flow",
    "InMemorySink": "interlock.engine.sinks",
    "NullSink": "interlock.engine.sinks",
    "ScopeRegistry": "interlock.engine.scopes",
    "ScopedEngine": "interlock.engine.scopes",
    "Template": "interlock.engine.scopes",
    "origin_for_tool": "interlock.engine.sources",
    "record_origin": "interlock.engine.flow",
}


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'interlock' has no attribute {name!r}")
