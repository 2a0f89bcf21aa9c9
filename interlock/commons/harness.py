"""How well a policy does on commands that others wrote: what it meets, what it stops for nothing, what is proven.

A corpus is a folder of gzip'd JSON lines. `destructive_spellings`: rows with `command`, `expect` (block, ask, allow),
`tier` and `shell`; `benign_commands`: rows with `command`, `class` (benign, destructive-doc), `grade`, `maybe` and
`shell`. Only rows of a POSIX shell count, and of the spellings those of tier core. Each figure is a share with its 95 %
bounds (Wilson), so that a small set does not look surer than it is.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import posixpath
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from interlock.base.errors import BadInput
from interlock.engine.analysis.harmless import prove
from interlock.engine.decision import Verdict
from interlock.engine.evaluate import Evaluator, Outcome
from interlock.engine.event import SensorEvent
from interlock.engine.policy.model import Policy

__all__ = ["TREE", "Figure", "OrdinaryCheckout", "Report", "Row", "corpus_digest", "measure", "read_corpus", "wilson"]

TREE: Final = "/checkout/tree"  # where the commands would run: an ordinary checkout
_FILES: Final = ("destructive_spellings", "benign_commands")
_GROUPS: Final = ("block", "allow", "benign", "catastrophic", "documented")
_Z: Final = 1.959963984540054  # of a 95 % interval
_STEP: Final = 500  # rows between two reports of progress


class Row(NamedTuple):
    """One command, and the group that it is measured in: one of block, allow, benign, catastrophic, documented."""

    command: str
    group: str


class Figure(NamedTuple):
    """`hits` of `of` rows; `low` and `high` bound the share at 95 %."""

    name: str
    hits: int
    of: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The share of hits, 0 where there are no rows."""
        return self.hits / self.of if self.of else 0.0


@dataclass
class Report:
    """What was measured. `rules` and `detectors`: name -> group -> at how many of its rows it objected."""

    figures: list[Figure] = field(default_factory=list)
    rules: dict[str, dict[str, Figure]] = field(default_factory=dict)
    detectors: dict[str, dict[str, Figure]] = field(default_factory=dict)


class OrdinaryCheckout:
    """A resolver for proofs without a disk: a checkout at TREE without links and secrets, the usual programs there."""

    def real(self, path: str) -> str | None:
        """The path itself: there are no links."""
        return posixpath.normpath(path)

    def expand(self, pattern: str) -> Sequence[str] | None:
        """One name, which the glob takes."""
        return [pattern.replace("*", "x").replace("?", "y")]

    def clean(self, path: str) -> bool:
        """Nothing in the checkout is a secret."""
        return True

    def names(self, directory: str) -> bool:
        """Every name is plain."""
        return True

    def program(self, name: str) -> str | None:
        """Every program is there, in /usr/bin."""
        return name if name.startswith("/") else f"/usr/bin/{name}"

    def plain(self, settings: str, directory: str) -> bool:
        """Nothing is configured."""
        return True


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The 95 % bounds of a share, (0, 1) where there are no rows."""
    if of == 0:
        return 0.0, 1.0
    share, z2 = hits / of, _Z * _Z
    middle = share + z2 / (2 * of)
    spread = _Z * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return max(0.0, (middle - spread) / (1 + z2 / of)), min(1.0, (middle + spread) / (1 + z2 / of))


# -- the corpus -----------------------------------------------------------------------------------------------------


def read_corpus(folder: Path) -> list[Row]:
    """The rows that are measured. Raises: BadInput, where the folder holds none or a file is not readable."""
    rows: list[Row] = []
    for name in _FILES:
        path = folder / f"{name}.jsonl.gz"
        if path.is_file():
            rows += _rows(path)
    if not rows:
        raise BadInput("holds no corpus", where=str(folder), fix="name the folder that has benign_commands.jsonl.gz")
    return rows


def corpus_digest(folder: Path) -> str:
    """The SHA-256 (hex) over the SHA-256 of each file that `read_corpus` reads. Raises: OSError."""
    paths = [folder / f"{name}.jsonl.gz" for name in _FILES]
    digests = [hashlib.sha256(path.read_bytes()).digest() for path in paths if path.is_file()]
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _rows(path: Path) -> Iterator[Row]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as f:
            for line in f:
                row = json.loads(line)
                group = _group(row) if isinstance(row, dict) else ""
                if group:
                    yield Row(str(row.get("command", "")), group)
    except (OSError, EOFError, ValueError, zlib.error) as e:
        raise BadInput(f"is not readable ({type(e).__name__})", where=str(path), fix="take a whole copy") from None


def _group(row: Mapping[str, object]) -> str:
    """The group that a row counts in, "" for none."""
    if row.get("shell") != "posix":
        return ""
    if "expect" in row:
        expect = str(row["expect"])
        return expect if row.get("tier") == "core" and expect in ("block", "allow") else ""
    if row.get("class") == "benign":
        return "" if row.get("maybe") else "benign"
    if row.get("class") == "destructive-doc":
        return "catastrophic" if row.get("grade") == "catastrophic" else "documented"
    return ""


# -- measuring ------------------------------------------------------------------------------------------------------


def measure(
    policy: Policy, rows: Iterable[Row], evaluator: Evaluator, progress: Callable[[int], object] = lambda done: None
) -> Report:
    """Judge every row; `progress` is told now and then how many are done."""
    counts: dict[str, Counter[str]] = {group: Counter() for group in _GROUPS}
    used = {rule.id: frozenset(_detectors(rule.plan)) for rule in policy.rules}
    rules: dict[str, Counter[str]] = {name: Counter() for name in used}
    detectors: dict[str, Counter[str]] = {name: Counter() for names in used.values() for name in sorted(names)}
    checkout = OrdinaryCheckout()
    for done, row in enumerate(rows, 1):
        event = SensorEvent("Bash", {"command": row.command}, cwd=TREE)
        outcome = evaluator.evaluate(policy, event)
        count = counts[row.group]
        count["rows"] += 1
        count[_word(outcome)] += 1
        count["proven"] += prove(event, checkout) is not None
        for rule in outcome.fired:
            rules[rule.id][row.group] += 1
        for name in {name for rule in outcome.fired for name in used[rule.id]}:
            detectors[name][row.group] += 1
        if done % _STEP == 0:
            progress(done)
    return Report(_figures(counts), _by_group(rules, counts), _by_group(detectors, counts))


def _word(outcome: Outcome) -> str:
    verdict = outcome.decision.verdict
    return {Verdict.BLOCK: "blocked", Verdict.ESCALATE: "escalated"}.get(verdict, "let through")


def _by_group(hits: Mapping[str, Counter[str]], counts: Mapping[str, Counter[str]]) -> dict[str, dict[str, Figure]]:
    return {
        name: {group: _figure(group, found[group], counts[group]["rows"]) for group in _GROUPS}
        for name, found in hits.items()
    }


def _detectors(plan: object) -> Iterator[str]:
    """The names of the detectors that a rule's plan asks."""
    if isinstance(plan, Mapping):
        name = plan.get("detector")
        if isinstance(name, str):
            yield name
        for value in plan.values():
            yield from _detectors(value)
    elif isinstance(plan, list | tuple):
        for value in plan:
            yield from _detectors(value)


def _figures(counts: Mapping[str, Counter[str]]) -> list[Figure]:
    block, allow, benign, catastrophic = (counts[g] for g in ("block", "allow", "benign", "catastrophic"))
    documented = counts["documented"]
    wrongly = block["proven"] + catastrophic["proven"] + documented["proven"]
    return [
        _figure("block rows met", block["blocked"] + block["escalated"], block["rows"]),
        _figure("block rows blocked", block["blocked"], block["rows"]),
        _figure("allow rows stopped", allow["blocked"] + allow["escalated"], allow["rows"]),
        _figure("benign rows blocked", benign["blocked"], benign["rows"]),
        _figure("benign rows escalated", benign["escalated"], benign["rows"]),
        _figure("catastrophic rows met", catastrophic["blocked"] + catastrophic["escalated"], catastrophic["rows"]),
        _figure("benign rows proven harmless", benign["proven"], benign["rows"]),
        _figure("other rows proven harmless", wrongly, sum(c["rows"] for c in (block, catastrophic, documented))),
    ]


def _figure(name: str, hits: int, of: int) -> Figure:
    return Figure(name, hits, of, *wilson(hits, of))
