"""The gate of a ring: what a pack has to pass before it is published there, and the record that the log names.

    examples    each rule does what its own examples say
    licence     one to share under (a pack that parses has it), and an author's sign-off (DCO)
    warnings    no rule hits a row of a warning list that is out in beta or stable
    harness     on commands that others wrote, the pack stops no more harmless ones than the ring allows (LIMITS)

A ring beyond canary needs a corpus; who goes without says so, and the record does too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from interlock.base import canonical
from interlock.base.errors import InterlockError
from interlock.commons.harness import Figure, Row, measure
from interlock.commons.pack import Pack
from interlock.commons.records import REVISIONS
from interlock.commons.warnings import first_hit
from interlock.engine.evaluate import Evaluator, PythonEvaluator
from interlock.engine.policy.check import check_rules
from interlock.engine.policy.load import compile_rules
from interlock.engine.policy.model import Policy, Source

__all__ = ["Bench", "GateRefused", "gate_record"]

# ring -> the most of 10,000 harmless commands that a pack may block, and may stop (blocked or asked about)
LIMITS: Final[Mapping[str, tuple[int, int]]] = {"canary": (500, 500), "beta": (100, 200), "stable": (10, 100)}
LEAST: Final = 100  # harmless commands of which a share says something
_BLOCKED, _ESCALATED = "benign rows blocked", "benign rows escalated"


class GateRefused(InterlockError):
    """A pack that a ring's gate does not let through."""

    code = "check-failed"


@dataclass(frozen=True)
class Bench:
    """What a gate measures with: a corpus and its digest; or, said explicitly, none (`without`)."""

    rows: Sequence[Row] = ()
    corpus: str = ""
    without: bool = False
    evaluator: Evaluator = field(default_factory=PythonEvaluator)
    progress: Callable[[int], object] = lambda done: None


def gate_record(pack: Pack, ring: str, bench: Bench, warnings: Sequence[Pack], at: int) -> bytes:
    """Put a pack through a ring's gate; returns the record's bytes. Raises: GateRefused."""
    examples = _examples(pack)
    if not pack.signed_off_by:
        raise GateRefused(
            "has no author's sign-off (DCO)", where=pack.name, fix='add signed_off_by: "Signed-off-by: Name <mail>"'
        )
    hit = first_hit(pack, warnings, bench.evaluator)
    if hit is not None:
        told = f"rule {hit.rule} hits row {hit.row} of {hit.list} in {hit.pack}"
        raise GateRefused(told, where=pack.name, fix="narrow the rule: no rule may hit what a warning list names")
    body = {
        "format": "interlock-gate",
        "v": REVISIONS["interlock-gate"],
        "pack": pack.digest,
        "name": pack.name,
        "version": pack.version,
        "ring": ring,
        "examples": examples,
        "licence": pack.licence,
        "harness": _harness(pack, ring, bench),
        "warnings": [{"name": w.name, "version": w.version, "sha256": w.digest} for w in warnings],
        "at": at,
    }
    return canonical.encode(body)


def _examples(pack: Pack) -> int:
    """How many examples held. An indicator's own host is known by its digest only, so it may have none that fires.

    Raises: GateRefused.
    """
    report = check_rules(pack.rules)
    for row in report.failures:
        if pack.kind == "indicator" and row.kind == "fires" and row.index < 0:
            continue
        raise GateRefused(row.problem, where=f"{pack.name}: rule {row.rule}: {row.kind}", fix="correct it first")
    return sum(row.ok for row in report.rows)


def _harness(pack: Pack, ring: str, bench: Bench) -> dict[str, object]:
    """The figures on the corpus, or why there are none. Raises: GateRefused."""
    if not pack.rules:
        return {"corpus": "", "why": "a pack without rules"}
    if not bench.corpus:
        if ring != "canary" and not bench.without:
            raise GateRefused(
                f"needs a corpus of harmless commands for ring {ring}",
                where=pack.name,
                fix="name its folder with --corpus DIR, or go without on the record with --no-corpus",
            )
        return {"corpus": "", "why": "no corpus at hand"}
    policy = Policy(compile_rules(pack.rules, Source("pack", pack.name, pack.digest)), pack.digest)
    report = measure(policy, bench.rows, bench.evaluator, bench.progress)
    figures = {figure.name: figure for figure in report.figures}
    _demand_few(pack, ring, figures[_BLOCKED], figures[_ESCALATED])
    shown = {f.name: {"hits": f.hits, "of": f.of} for f in report.figures}
    return {"corpus": bench.corpus, "evaluator": bench.evaluator.name, "figures": shown}


def _demand_few(pack: Pack, ring: str, blocked: Figure, escalated: Figure) -> None:
    if blocked.of < LEAST:
        told = f"corpus has {blocked.of} harmless commands, and {LEAST} are the least that a share is told of"
        raise GateRefused(told, where=pack.name, fix="take a larger corpus")
    for does, hits, most in zip(
        ("blocks", "stops"), (blocked.hits, blocked.hits + escalated.hits), LIMITS[ring], strict=True
    ):
        if hits * 10_000 > most * blocked.of:
            told = f"{does} {hits} of {blocked.of} harmless commands, and ring {ring} allows {most} of 10,000"
            raise GateRefused(told, where=pack.name, fix="narrow its rules, or publish it in an earlier ring")
