"""Step back: a community rule that objects to too many is put into shadow, or that is proposed.

What counts are distinct principals and distinct spans (runs of agents), read from this node's receipts, whose chain has
to hold; calls never count, since whoever drives one agent can make as many as it likes. Nothing else is weighed: the
rules of a pack are the community's, and whether it is right to object to so many is for the operator to say. So

    in force                  a proposal, which `interlock mesh stepback` applies or dismisses
    in its monitor window     the rule is put into shadow at once, and stays there when the window is over

Only single rules step back, never granted ones, and never to another version. HOME/stepback.json keeps the thresholds
and what was proposed; the rules in shadow stand in HOME/grants.json, where a guard sees them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from interlock.base import files
from interlock.base.clock import DAY_US
from interlock.base.files import BadState, file_lock, read_bounded, stamped, unstamped
from interlock.commons.grants import Grants, Stepped
from interlock.commons.installed import change_grants, read_grants, standing
from interlock.commons.live import read_live
from interlock.commons.resolve import Standing
from interlock.engine.decision import Verdict
from interlock.engine.receipts import Receipt
from interlock.engine.sinks import read_receipts, verify_file

__all__ = [
    "Objections",
    "Proposal",
    "StepBack",
    "Thresholds",
    "decide",
    "read_step_back",
    "set_thresholds",
    "undo",
    "weigh",
]

FILE: Final = "stepback.json"
_FORMAT: Final = "interlock-stepback"
_LIMIT: Final = 4 << 20
_MAY: Final = frozenset({"ungranted", "asking", "beta", "watched"})  # states of rules that can step back
State = Literal["open", "applied", "dismissed"]
STATES: Final[tuple[State, ...]] = ("open", "applied", "dismissed")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """How many have to be met by a rule, within how many days: distinct principals, and distinct spans."""

    principals: int = 2
    spans: int = 5
    days: int = 7


@dataclass(frozen=True, slots=True)
class Objections:
    """Whom a rule objected to: how many distinct principals and spans, and in how many spans a person said yes."""

    principals: int
    spans: int
    approved: int

    def __str__(self) -> str:
        told = f"objected to {self.principals} principals in {self.spans} runs"
        return f"{told}, of which a person approved {self.approved}" if self.approved else told

    def meets(self, thresholds: Thresholds) -> bool:
        return self.principals >= thresholds.principals and self.spans >= thresholds.spans


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rule that should step back, or did; `at` is when that was seen, in microseconds."""

    pack: str
    ring: str
    rule: str
    semantic: str
    principals: int
    spans: int
    approved: int
    at: int
    state: State = "open"

    @property
    def objections(self) -> Objections:
        return Objections(self.principals, self.spans, self.approved)


@dataclass(frozen=True)
class StepBack:
    """All that a node keeps of it."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    proposals: tuple[Proposal, ...] = ()

    @property
    def pending(self) -> tuple[Proposal, ...]:
        return tuple(p for p in self.proposals if p.state == "open")


def read_step_back(home: Path) -> StepBack:
    """Raises: BadState, NewerFormat."""
    path = home / FILE
    if not path.exists():
        return StepBack()
    body = unstamped(read_bounded(path, _LIMIT), _FORMAT, 1, where=str(path))
    try:
        rows: Any = body["proposals"]
        proposals = tuple(Proposal(**row) for row in rows)
        return StepBack(_thresholds(body["thresholds"]), tuple(map(_checked, proposals)))
    except (KeyError, TypeError, ValueError):
        raise BadState(
            "is damaged", where=str(path), fix="remove it: what stepped back stands in grants.json"
        ) from None


def set_thresholds(home: Path, thresholds: Thresholds) -> None:
    """Raises: ValueError, for less than one; NotWritable, BadState."""
    checked = _thresholds(asdict(thresholds))
    with file_lock(home / "stepback.lock", wait=True):
        _write(home, replace(read_step_back(home), thresholds=checked))


def weigh(home: Path, receipts: Path, now_us: int) -> tuple[Proposal, ...]:
    """Look at the receipts; returns what is new: proposals, and rules in their window that were put into shadow.

    Raises: BadChain, where the receipts do not hold: then nothing steps back; BadState, NotWritable.
    """
    rows = read_live(home).rows
    if not rows or not receipts.exists():
        return ()
    verify_file(receipts)
    fresh: list[Proposal] = []
    grants = read_grants(home)
    with file_lock(home / "stepback.lock", wait=True):
        known = read_step_back(home)
        oldest = now_us - known.thresholds.days * DAY_US
        recent = [receipt for receipt, _ in read_receipts(receipts) if receipt.ts_us >= oldest]
        told = {(p.pack, p.semantic) for p in known.proposals}
        for row in rows.values():
            found = standing(home, row.pack, row.ring, now_us).standings
            may = [s for s in found if _may(s, grants) and (s.pack, s.semantic) not in told]
            seen = _objections_of(may, row.sha256, (r for r in recent if r.ts_us >= row.at))
            fresh += [_proposal(one, so_far, now_us) for one, so_far in seen if so_far.meets(known.thresholds)]
        for proposal in fresh:
            if proposal.state == "applied":  # before it is noted: killed in between, it has stepped back all the same
                _apply(home, proposal)
        if fresh:
            _write(home, replace(known, proposals=(*known.proposals, *fresh)))
    return tuple(fresh)


def _objections_of(
    may: Sequence[Standing], sha256: str, receipts: Iterable[Receipt]
) -> list[tuple[Standing, Objections]]:
    """Whom each of these rules of a pack objected to. A receipt without a principal or a span counts for nobody."""
    seen: dict[str, tuple[set[str], set[str], set[str]]] = {s.id: (set(), set(), set()) for s in may}
    for receipt in receipts:
        if receipt.principal is None or receipt.span_id is None:
            continue
        for name in _objecting(receipt, sha256) & seen.keys():
            principals, spans, approved = seen[name]
            principals.add(receipt.principal)
            spans.add(receipt.span_id)
            if receipt.approval == "yes":
                approved.add(receipt.span_id)
    return [(s, Objections(*map(len, seen[s.id]))) for s in may]


def decide(home: Path, pack: str, rule: str, apply: bool) -> Proposal:
    """Apply or dismiss what was proposed for a rule; returns it. Raises: BadState, where nothing was."""
    with file_lock(home / "stepback.lock", wait=True):
        known = read_step_back(home)
        found = next((p for p in known.pending if (p.pack, p.rule) == (pack, rule)), None)
        if found is None:
            raise BadState("is not proposed to step back", where=f"{pack}: {rule}", fix="see interlock mesh stepback")
        done = replace(found, state="applied" if apply else "dismissed")
        if apply:  # before it counts as decided: killed in between, it is still open
            _apply(home, done)
        _write(home, replace(known, proposals=tuple(done if p is found else p for p in known.proposals)))
    return done


def undo(home: Path, pack: str, rule: str) -> None:
    """Let a rule that stepped back act again. Raises: BadState, where it did not; NotWritable."""
    if (pack, rule) not in {(s.pack, s.rule) for s in read_grants(home).stepped}:
        raise BadState("did not step back", where=f"{pack}: {rule}", fix="see interlock mesh stepback")
    change_grants(home, lambda grants: grants.without_stepped(pack, rule))


def _may(one: Standing, grants: Grants) -> bool:
    """Whether a rule can step back: it is felt, or will be when its window is over, and is not granted."""
    felt = one.acts is not Verdict.ALLOW or one.state == "watched"
    return felt and one.state in _MAY and not grants.covers(one.pack, one.semantic)


def _objecting(receipt: Receipt, sha256: str) -> set[str]:
    """The rules of a pack that objected: the one that decided, and those in shadow."""
    named = {said.rsplit(" ", 1)[0] for said in (receipt.shadows or "").split("; ") if said}
    felt = receipt.verdict != "ALLOW" or receipt.approval == "yes"
    if receipt.rule is not None and felt and receipt.pack_digest == sha256:
        named.add(receipt.rule)
    return named


def _proposal(one: Standing, seen: Objections, now_us: int) -> Proposal:
    state: State = "applied" if one.state == "watched" else "open"
    counts = (seen.principals, seen.spans, seen.approved)
    return Proposal(one.pack, one.ring, one.rule, one.semantic, *counts, now_us, state)


def _apply(home: Path, proposal: Proposal) -> None:
    row = Stepped(proposal.pack, proposal.rule, proposal.semantic, proposal.at, str(proposal.objections))
    change_grants(home, lambda grants: grants.with_stepped(row))


def _write(home: Path, known: StepBack) -> None:
    rows = [asdict(p) for p in known.proposals]
    files.replace(home / FILE, stamped(_FORMAT, 1, {"thresholds": asdict(known.thresholds), "proposals": rows}))


def _thresholds(body: Any) -> Thresholds:
    found = Thresholds(**body)
    if any(type(n) is not int or n < 1 for n in asdict(found).values()):
        raise ValueError("a threshold is a whole number from 1")
    return found


def _checked(proposal: Proposal) -> Proposal:
    texts = (proposal.pack, proposal.ring, proposal.rule, proposal.semantic)
    counts = (proposal.principals, proposal.spans, proposal.approved, proposal.at)
    if not all(isinstance(t, str) for t in texts) or any(type(n) is not int for n in counts):
        raise ValueError
    if proposal.state not in STATES:
        raise ValueError
    return proposal
