"""From what a collector has to what everybody may know: the statement of a batch, and the pack that follows from many.

collected (sums) + task + catalog + member keys + the issuer's count -> Statement
Statement + the task that it names, as the commons published it -> in whose word it is, or refused
statements + their catalogs -> an indicator pack, and a proposal to look at what is disputed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from interlock.base import canonical
from interlock.base.clock import DAY_US
from interlock.base.codec import Malformed
from interlock.base.errors import BadInput, InterlockError
from interlock.base.keys import Ed25519Signer
from interlock.commons.consensus import Standing, Statement, agreed, demand_collector, stated
from interlock.commons.enrolment import IssuedCount, demand_honest_count
from interlock.commons.indicators import Catalog, indicator_pack
from interlock.commons.membership import MemberKeys, TaskMembership
from interlock.commons.operators import Operators
from interlock.commons.pack import Pack
from interlock.dap.task import Task, TaskRefused

__all__ = ["Batch", "Unfounded", "demand_follows", "demand_of_task", "demotion", "pack_of", "statement_of"]


class Unfounded(InterlockError):
    """A pack of indicators that its statements do not bear out."""

    code = "check-failed"


@dataclass(frozen=True)
class Batch:
    """What a collector has of a batch; the interval is [start, end) in DAP's time of the task, which numbers epochs."""

    reports: int
    start: int
    end: int
    sums: tuple[int, ...]


def statement_of(
    task: Task,
    catalog: Catalog,
    batch: Batch,
    collector: Ed25519Signer,
    *,
    threshold: int,
    days: int,
    keys: MemberKeys | None = None,
    count: IssuedCount | None = None,
) -> Statement:
    """The statement of a batch of one epoch in its collector's word, which holds for `days` days from its end.

    `keys` are the epoch's member keys, needed where the task asks for proofs; `count` is the issuer's of the epoch.
    Raises: TaskRefused, for a catalog that is not the task's; OverIssued; TooFew; BadInput, Malformed.
    """
    where = f"task {catalog.task}"
    if task.statement_key != collector.verifier:
        named = "no collector" if task.statement_key is None else task.statement_key.text
        told = f"names {named}, so what {collector.verifier.text} says of it counts nothing"
        raise TaskRefused(told, where=where, fix="sign with the key that was named as the task was made")
    if task.catalog_digest is None or task.catalog_digest.hex() != catalog.digest:
        raise TaskRefused("counts by another catalog", where=where, fix="take its catalog from the commons")
    if batch.end - batch.start != 1:
        told = f"covers {batch.end - batch.start} epochs, and an organisation counts once in each"
        raise BadInput(told, where=where, fix="collect each epoch by itself")
    if threshold < task.config.min_batch_size:
        raise BadInput(f"is under the task's own floor of {task.config.min_batch_size}", where=f"threshold {threshold}")
    shown, age = _trust(task, batch, keys)
    if count is not None:
        _demand_count(count, keys)
        demand_honest_count(count, reports=batch.reports)
    noisy = task.noise is not None
    if len(batch.sums) != len(catalog.places) or not (noisy or all(0 <= n <= batch.reports for n in batch.sums)):
        raise BadInput("has not one sum a place, each from 0 to its reports", where=where, fix="collect it again")
    places = agreed(catalog, batch.sums, batch.reports, threshold=threshold, demo=task.demo, noisy=noisy)
    end = task.start_us(batch.end)
    return stated(
        catalog,
        places,
        collector,
        task_id=task.task_id.hex(),
        at_least=threshold,
        shown=shown,
        least_age=age,
        start=task.start_us(batch.start),
        end=end,
        until=end + days * DAY_US,
        demo=task.demo,
    )


def demand_of_task(said: Statement, task: Task, operators: Operators | None) -> str:
    """Demand that a statement is of one epoch of this very task, as it counts, and in its own collector's word.

    `task` is the one that the commons published by the statement's name. Returns whose word it is.
    Raises: Malformed, where it says what the task cannot show; BadSignature, as `demand_collector`.
    """
    catalog = task.catalog_digest
    shown = "" if task.membership is None else TaskMembership.decode(task.membership).backend
    epoch = task.time_of(said.start)
    faults = {
        "is of another task than the one of its name": said.task_id != task.task_id.hex(),
        "is of a catalog that is not the one of its task": catalog is None or said.catalog != catalog.hex(),
        "is a demonstration's, or is not, and its task is otherwise": said.demo != task.demo,
        "says of fewer organisations than its task's floor": said.at_least < task.config.min_batch_size,
        "is shown by another proof than its task asks for": said.shown != shown,
        "is of no one epoch of its task": (said.start, said.end) != (task.start_us(epoch), task.start_us(epoch + 1)),
        "is of an epoch in which its task did not run": not _runs(task, epoch),
        "is of a task whose batches count reports, and not organisations": task.leader_selected,
    }
    wrong = next((fault for fault, there in faults.items() if there), None)
    if wrong is not None:
        raise Malformed(wrong, where=f"consensus of {said.task}", fix="take it from its task's collector")
    return demand_collector(said, None if task.statement_key is None else task.statement_key.text, operators)


def pack_of(
    standing: Standing,
    statements: Sequence[Statement],
    *,
    name: str,
    version: int,
    authors: Sequence[str],
    signed_off_by: Sequence[str],
) -> Pack:
    """The indicator pack of what stands; a reviewer signs it. Raises: BadInput, where nothing stands; BadPack."""
    disputed = [place for place in standing.disputed if not place.startswith("rule:")]
    if not standing.accepted and not disputed:
        ended = f"; {len(standing.ended)} indicators have ended" if standing.ended else ""
        weak = f"; {len(standing.weak)} statements are too weak" if standing.weak else ""
        raise BadInput(f"brings nothing into force{ended}{weak}", where=name, fix="collect more, or wait")
    return indicator_pack(
        name,
        version,
        sorted(standing.accepted),
        authors=authors,
        signed_off_by=signed_off_by,
        organisations=min((a.at_least for a in standing.accepted.values()), default=0),
        disputed=disputed,
        results=sorted({s.digest for s in statements} - set(standing.weak)),
    )


def demand_follows(pack: Pack, statements: Sequence[Statement], standing: Standing) -> None:
    """Demand that a pack is what follows from just these statements, as they stand. Raises: Unfounded."""
    made = pack_of(
        standing,
        statements,
        name=pack.name,
        version=pack.version,
        authors=pack.authors,
        signed_off_by=pack.signed_off_by,
    )
    if made.digest != pack.digest:
        told = "does not follow from these statements as they stand now"
        fix = "ask its author for all that it was made of, or for its next version"
        raise Unfounded(told, where=f"{pack.name} version {pack.version}", fix=fix)


def demotion(standing: Standing, pack: str) -> bytes:
    """A proposal for a person: what is disputed, which is in shadow or should be."""
    rows: list[Mapping[str, object]] = [
        {"place": place, "at_least": row.at_least, "statement": row.statement, "asks": "shadow"}
        for place, row in sorted(standing.disputed.items())
    ]
    return canonical.encode({"format": "interlock-proposal", "v": 1, "kind": "demotion", "pack": pack, "places": rows})


def _runs(task: Task, epoch: int) -> bool:
    ends = task.interval
    return ends is None or ends.start <= epoch < ends.end


def _trust(task: Task, batch: Batch, keys: MemberKeys | None) -> tuple[str, int]:
    """How the reports proved membership, and the least age in days that the member keys vouch for."""
    if task.membership is None:
        return "", 0
    wanted = TaskMembership.decode(task.membership)
    if keys is None or (keys.task, keys.backend, keys.epoch) != (wanted.task, wanted.backend, batch.start):
        raise BadInput("has no member keys here", where=f"task {wanted.task}, epoch {batch.start}")
    return wanted.backend, keys.least_age


def _demand_count(count: IssuedCount, keys: MemberKeys | None) -> None:
    """Raises: BadInput, for the count of another task, epoch or issuer."""
    if keys is None or (keys.task, keys.epoch, keys.issuer) != (count.task, count.epoch, count.issuer):
        raise BadInput("is no count of this batch by its issuer", where=f"task {count.task}, epoch {count.epoch}")
