"""What protects this process, and what weakens it: one row a setting, each from what is really installed."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.base.errors import InterlockError
from interlock.engine.ambient import Installed
from interlock.engine.sinks import NullSink

__all__ = ["Row", "Weakened", "attest", "require"]


@dataclass(frozen=True, slots=True)
class Row:
    """One setting: its name, what it is now, and why that weakens the guard ("" where it does not)."""

    name: str
    value: str
    weakens: str = ""


class Weakened(InterlockError):
    """A guard that is weaker than was required."""

    code = "check-failed"


def attest(guard: Installed | None) -> tuple[Row, ...]:
    """The rows of a guard, or of the absence of one."""
    if guard is None:
        return (Row("guard", "none", "no guard is installed: guarded calls raise RuntimeError"),)
    return (_policy(guard), _reload(guard), _sink(guard), _approver(guard), _observers(guard))


def require(guard: Installed | None) -> None:
    """Raises: Weakened, naming every setting that weakens the guard."""
    weak = [f"{row.name}: {row.weakens}" for row in attest(guard) if row.weakens]
    if weak:
        raise Weakened("; ".join(weak))


def _policy(guard: Installed) -> Row:
    policy, epoch = guard.live.state
    value = f"{len(policy.rules)} rules, epoch {epoch}, digest {policy.digest[:16]}"
    return Row("policy", value, "" if policy.rules else "there is no rule, so every call is allowed")


def _reload(guard: Installed) -> Row:
    trouble = guard.live.trouble
    if trouble is None:
        return Row("reload", "up to date")
    return Row("reload", "last good policy", f"the policy's source is bad ({trouble})")


def _sink(guard: Installed) -> Row:
    weakens = "no receipt is kept" if isinstance(guard.sink, NullSink) else ""
    return Row("sink", type(guard.sink).__name__, weakens)


def _approver(guard: Installed) -> Row:
    return Row("approver", "none: what needs approval is refused" if guard.approver is None else "installed")


def _observers(guard: Installed) -> Row:
    return Row("observers", f"{len(guard.observers)}, failures {guard.observer_failures}")
