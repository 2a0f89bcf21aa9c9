"""What protects this process, and what weakens it: one row a setting, one check, one sentence.

Each check looks at what is really installed. docs/security-model.md lists the same rows, and a test holds the two
together. A row without `weakens` tells how things are; `require` refuses on those that weaken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from interlock.base.errors import InterlockError
from interlock.engine.ambient import Installed
from interlock.engine.policy.limits import weaker_settings
from interlock.engine.sinks import FileSink

__all__ = ["WEAKENINGS", "Row", "Weakened", "attest", "require"]


@dataclass(frozen=True, slots=True)
class Row:
    """One setting: its name, what it is now, and why that weakens the guard ("" where it does not)."""

    name: str
    value: str
    weakens: str = ""


class Weakened(InterlockError):
    """A guard that is weaker than was required."""

    code = "check-failed"


# name -> what the setting does where it weakens
WEAKENINGS: Final = {
    "guard": "no guard is installed: guarded calls raise RuntimeError",
    "policy": "no rule decides anything, so every call is allowed",
    "reload": "the policy's source is bad, and the last good policy is in force",
    "quarantine": "rules that a person put out of force judge nothing",
    "limits": "an event larger than the limits is let through on a reading of its head and tail",
    "harmless": "a call that is proven harmless goes on without the host's own question",
    "scopes": "a call that no scope is bound for is judged by the rules for everybody alone",
    "flow": "values were forgotten, so where a value came from may not be known",
    "monitor": "calls were decided and recorded, and refused nothing",
    "sink": "no receipt is kept",
    "fsync": "a power cut may take the last receipts",
    "dropped": "receipts could not be kept",
    "one-user": "whoever runs as this user can rewrite the receipts: their key is this user's too",
    "approvals": "whoever runs as this user can write a yes into the queue: its file is this user's too",
}


def attest(guard: Installed | None) -> tuple[Row, ...]:
    """The rows of a guard, or of the absence of one."""
    if guard is None:
        return (Row("guard", "none", WEAKENINGS["guard"]),)
    looked = (Row("guard", f"installed, {guard.evaluator.name} engine"), *(_row(name, guard) for name in _CHECKS))
    return (*looked, _approver(guard), _observers(guard))


def require(guard: Installed | None, *, accept: Iterable[str] = ()) -> None:
    """Raises: Weakened, naming every setting that weakens the guard but those that are accepted by their rows' names;
    ValueError, for a name that no row has."""
    accepted = set(accept)
    if unknown := accepted - WEAKENINGS.keys():
        raise ValueError(f"{sorted(unknown)[0]!r} is no row (there are: {', '.join(WEAKENINGS)})")
    weak = [f"{row.name}: {row.weakens}" for row in attest(guard) if row.weakens and row.name not in accepted]
    if weak:
        raise Weakened("; ".join(weak))


def _row(name: str, guard: Installed) -> Row:
    value, weak = _CHECKS[name](guard)
    return Row(name, value, WEAKENINGS[name] if weak else "")


def _policy(guard: Installed) -> tuple[str, bool]:
    policy, epoch = guard.live.state
    shadow = sum(rule.shadow for rule in policy.rules)
    told = f"{len(policy.rules)} rules{f' ({shadow} of them shadow)' if shadow else ''}"
    decides = len(policy.rules) > shadow or guard.scopes is not None
    return f"{told}, epoch {epoch}, digest {policy.digest[:16]}", not decides


def _reload(guard: Installed) -> tuple[str, bool]:
    trouble = guard.live.trouble
    return ("up to date", False) if trouble is None else (f"last good policy ({trouble})", True)


def _quarantine(guard: Installed) -> tuple[str, bool]:
    out = guard.live.current.quarantined
    return ", ".join(f"{held.rule} by {held.by}" for held in out) or "none", bool(out)


def _limits(guard: Installed) -> tuple[str, bool]:
    policy = guard.live.current
    weaker = weaker_settings(policy.limits, policy.oversize)
    return ", ".join(weaker) or "as they ship, or stricter", bool(weaker)


def _harmless(guard: Installed) -> tuple[str, bool]:
    asked = guard.live.current.prove_harmless
    return "proven where the policy asks" if asked else "never proven", asked


def _scopes(guard: Installed) -> tuple[str, bool]:
    if guard.scopes is None:
        return "none: the policy holds for everybody", False
    return ("unscoped calls are allowed", True) if guard.scopes.allow_unscoped else ("every call needs one", False)


def _flow(guard: Installed) -> tuple[str, bool]:
    if guard.flow is None:
        return "not tracked", False
    lost, forgetful = guard.flow.forgot, guard.flow.forgetful
    return f"tracked{' by a forgetful tracker' if forgetful else ''}, forgot {lost} times", forgetful or lost > 0


def _monitor(guard: Installed) -> tuple[str, bool]:
    return f"{guard.monitored} calls and results", guard.monitored > 0


def _sink(guard: Installed) -> tuple[str, bool]:
    return type(guard.sink).__name__, bool(getattr(guard.sink, "keeps_nothing", False))  # what the doors go by


def _fsync(guard: Installed) -> tuple[str, bool]:
    weak = isinstance(guard.sink, FileSink) and not guard.sink.fsync
    return "off" if weak else "on, or no file", weak


def _dropped(guard: Installed) -> tuple[str, bool]:
    return f"{guard.receipts_dropped} receipts", guard.receipts_dropped > 0


def _one_user(guard: Installed) -> tuple[str, bool]:
    weak = isinstance(guard.sink, FileSink)
    return "receipts lie in a file of this user" if weak else "no file of this user's", weak


def _approvals(guard: Installed) -> tuple[str, bool]:
    file = getattr(guard.approver, "queue_file", None)  # of a queue; any other approver is the program's own
    return ("no queue of this user's", False) if file is None else ("the queue is a file of this user", True)


_CHECKS: Final[dict[str, Callable[[Installed], tuple[str, bool]]]] = {
    "policy": _policy,
    "reload": _reload,
    "quarantine": _quarantine,
    "limits": _limits,
    "harmless": _harmless,
    "scopes": _scopes,
    "flow": _flow,
    "monitor": _monitor,
    "sink": _sink,
    "fsync": _fsync,
    "dropped": _dropped,
    "one-user": _one_user,
    "approvals": _approvals,
}


def _approver(guard: Installed) -> Row:
    return Row("approver", "none: what needs approval is refused" if guard.approver is None else "installed")


def _observers(guard: Installed) -> Row:
    return Row("observers", f"{len(guard.observers)}, failures {guard.observer_failures}")
