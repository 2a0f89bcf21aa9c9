"""A pack on trial: what it would have blocked, asked about or masked in what agents have done already.

Every rule is judged alone, as its author wrote it, on the events as they were: what another rule would have rewritten
or ended before is not weighed. What counts is in how many distinct sessions a rule would have objected; that it did so
many times in one says little. Time is the events' own, so that rules that count do as they would have done then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from interlock.commons.pack import Pack
from interlock.engine.decision import Verdict
from interlock.engine.evaluate import Evaluator
from interlock.engine.event import SensorEvent
from interlock.engine.policy.counting import CountStore
from interlock.engine.policy.load import compile_rules
from interlock.engine.policy.model import Policy, Source

__all__ = ["Tried", "TriedRule", "trial"]

_DOES: Final = {Verdict.BLOCK: "block", Verdict.ESCALATE: "ask", Verdict.MODIFY: "mask"}


@dataclass(frozen=True, slots=True)
class TriedRule:
    """One rule that would have objected: how (block, ask, mask), to how many events in how many sessions.

    `first` is the first such event: its session, and its call's id.
    """

    rule: str
    does: str
    events: int
    sessions: int
    first: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Tried:
    """A trial: how much was looked at, and the rules that would have objected, most sessions first."""

    pack: str
    version: int
    events: int
    sessions: int
    rules: tuple[TriedRule, ...]
    quiet: int = 0  # rules that would have said nothing


@dataclass(slots=True)
class _Seen:
    events: int = 0
    sessions: set[str] = field(default_factory=set)
    first: tuple[str, str] = ("", "")


def trial(
    pack: Pack,
    events: Iterable[SensorEvent],
    evaluator: Evaluator,
    progress: Callable[[int], object] = lambda done: None,
) -> Tried:
    """Try a pack on events, in their order; an event without a span is of a session of its own name "".

    Raises: BadPolicy, where a rule does not compile.
    """
    now = [0]
    rules = compile_rules(pack.rules, Source("pack", pack.name, pack.digest), CountStore(lambda: now[0]))
    # all of them in shadow: then each is asked, whatever the others say
    policy = Policy(tuple(replace(rule, shadow=True) for rule in rules), pack.digest)
    seen: dict[tuple[str, str], _Seen] = {}
    sessions: set[str] = set()
    total = 0
    for event in events:
        now[0] = max(now[0], event.ts_us)
        total += 1
        session = event.span_id or ""
        sessions.add(session)
        for rule, said in evaluator.evaluate(policy, event).shadows:
            if said.verdict is not Verdict.ALLOW:
                _count(seen, (rule.id, _DOES[said.verdict]), session, event.call_id)
        progress(total)
    found = [TriedRule(*key, s.events, len(s.sessions), s.first) for key, s in seen.items()]
    found.sort(key=lambda row: (-row.sessions, -row.events, row.rule))
    quiet = len(rules) - len({row.rule for row in found})
    return Tried(pack.name, pack.version, total, len(sessions), tuple(found), quiet)


def _count(seen: dict[tuple[str, str], _Seen], key: tuple[str, str], session: str, call_id: str) -> None:
    row = seen.setdefault(key, _Seen(first=(session, call_id)))
    row.events += 1
    row.sessions.add(session)
