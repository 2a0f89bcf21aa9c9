"""From a Policy to a plan: which rules run natively, as JSON for `interlock_native.Plan`, and why others do not."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from interlock.base.canonical import json_encoder
from interlock.engine.decision import Decision, Verdict
from interlock.engine.event import Phase
from interlock.engine.policy.limits import Limits, Oversize
from interlock.engine.policy.model import Policy, Rule
from interlock.native.availability import ABI_VERSION, PLAN_VERSION
from interlock.native.conditions import Frame, Stays, native_condition, native_detector, native_flow

__all__ = ["Follow", "Planned", "Segment", "planned"]

Follow: TypeAlias = Callable[[str], str]

_FORMAT: Final = "interlock-plan"
_PORTION: Final = 1 << 16  # characters of a portion, at least
_PATIENT: Final = 256  # patterns of a policy of which it is told, at any cost, how long a text they judge natively
_json: Final = json_encoder()


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive rules of a policy that run in one place: the positions from `lo` up to `hi`."""

    lo: int
    hi: int
    native: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """`json` is the plan, in portions; `decisions` has one entry a rule in it, None where it depends on the event.

    `segments` cover the policy in order. `reasons` says of each position that stays with Python why. `follow` tells
    where a path leads, where a rule of the plan asks for it.
    """

    json: tuple[bytes, ...]
    decisions: tuple[Decision | None, ...]
    segments: tuple[Segment, ...]
    reasons: Mapping[int, str]
    follow: Follow | None = None


def planned(policy: Policy, refused: Mapping[int, str] | None = None) -> Planned:
    """The plan of a policy. `refused` are the positions that the native engine has refused, and its words for it."""
    text = _Portions(_json({"format": _FORMAT, "v": PLAN_VERSION, "abi": ABI_VERSION, "rules": []})[:-2])
    decisions: list[Decision | None] = []
    reasons = dict(refused or {})
    follow: Follow | None = None
    patterns = 0
    for at, rule in enumerate(policy.rules):
        if at in reasons:
            continue
        try:
            follow = _one_follow(follow, rule.follow)
            body = {"at": at, **_native(rule, patterns < _PATIENT)}
        except Stays as e:
            reasons[at] = str(e)
            continue
        row = _json(body)
        patterns += row.count('["pattern",')
        text.add(f",{row}" if decisions else row)
        decisions.append(_fixed(body))
    return Planned(
        json=text.ended("]}"),
        decisions=tuple(decisions),
        segments=tuple(_segments([at not in reasons for at in range(len(policy.rules))])),
        reasons=reasons,
        follow=follow,
    )


def _one_follow(before: Follow | None, now: Follow | None) -> Follow | None:
    """What all rules up to one follow links with. Raises: Stays, where it has a way of its own."""
    if before is not None and now is not None and now is not before:
        raise Stays("it follows links in another way than a rule before it")
    return now or before


class _Portions:
    """A long text, as bytes in portions: one piece that grows is copied now and then, and holds up other threads."""

    def __init__(self, first: str) -> None:
        self._done: list[bytes] = []
        self._rows = [first]
        self._size = len(first)

    def add(self, row: str) -> None:
        self._rows.append(row)
        self._size += len(row)
        if self._size >= _PORTION:
            self._done.append("".join(self._rows).encode("utf-8"))
            self._rows, self._size = [], 0

    def ended(self, last: str) -> tuple[bytes, ...]:
        return (*self._done, "".join([*self._rows, last]).encode("utf-8"))


def _native(rule: Rule, patient: bool) -> dict[str, Any]:
    """A rule in the native form, without its position. Raises: Stays."""
    plan: Mapping[str, Any] | None = rule.plan
    if plan is None:
        raise Stays("it is code")
    if "when" not in plan:
        return {**_own(rule, plan), "when": None}
    frame, oversize = _frame(rule.phase, plan["oversize"], _Limits(plan["limits"]), plan["resolve"], patient)
    kept = ("phase", "verdict", "reason", "policy_id", "attributed_to", "unjudged")
    return {
        "id": plan["id"],  # the document's own: what it cannot judge it says under that
        "shadow": rule.shadow,
        **{name: plan[name] for name in kept},
        "mask": _mask(plan["mask"], frame.limits.finds),
        "when": native_condition(plan["when"], frame),
        "flow": _first_flow(plan["when"]),
        "oversize": plan["unjudged"] if plan["unjudged"] == "escalate" else oversize,
    }


def _mask(mask: Mapping[str, Any] | None, finds: int) -> dict[str, Any] | None:
    return None if mask is None else {**mask, **native_detector(mask["detector"], mask["params"], finds)}


class _Limits:
    """Limits as a key: all rules of a policy share the very object, and few policies have limits of their own."""

    __slots__ = ("held",)

    def __init__(self, held: Mapping[str, int]) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Limits) and (other.held is self.held or other.held == self.held)

    def __hash__(self) -> int:
        return 0


@functools.lru_cache(maxsize=16)
def _frame(phase: Phase, word: str, limits: _Limits, resolves: bool, patient: bool) -> tuple[Frame, str]:
    """The frame of a rule, and its verdict on a text that is longer than its patterns read."""
    oversize = Oversize(**{phase: word})
    verdict = oversize.verdict(phase) or Verdict.BLOCK
    return Frame(phase, Limits(**limits.held), oversize, resolves, patient), verdict.name.lower()


def _first_flow(when: Mapping[str, Any]) -> dict[str, Any] | None:
    """The first flow at the top of a `when`: where a rule names no argument, its decision is about that."""
    parts = when["all"] if isinstance(when.get("all"), list) else [when]
    return next((native_flow(part["flow"]) for part in parts if "flow" in part), None)


def _own(rule: Rule, plan: Mapping[str, Any]) -> dict[str, Any]:
    """A rule of code that is nothing but a detector: `{"detector": NAME, "params": {...}, "escalate": false}`."""
    return {
        "id": rule.id,
        "phase": rule.phase,
        "shadow": rule.shadow,
        "verdict": "detector-escalate" if plan.get("escalate") else "detector",
        "reason": None,
        "policy_id": None,
        "attributed_to": None,
        "mask": {"detector": plan["detector"], "params": plan["params"]},
        "flow": None,
        "oversize": "block",
        "unjudged": "block",
    }


def _fixed(body: Mapping[str, Any]) -> Decision | None:
    """The decision of a rule that always says the same."""
    if body["mask"] is not None or (body["flow"] and body["attributed_to"] is None):
        return None
    return Decision(Verdict[body["verdict"].upper()], body["reason"], body["policy_id"], body["attributed_to"])


def _segments(native: Sequence[bool]) -> Iterator[Segment]:
    lo = 0
    for hi in range(1, len(native) + 1):
        if hi == len(native) or native[hi] is not native[lo]:
            yield Segment(lo, hi, native[lo])
            lo = hi
