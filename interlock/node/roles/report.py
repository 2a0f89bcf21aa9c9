"""A member's reports: an epoch closes, its places become one report of 0s and 1s, and the report goes to the leader.

    agree         a catalog is kept, and consented to: from then on `observe.TallyObserver` marks its places
    step_back     the clock was set back: what was made for epochs that are not over is taken apart again
    close_epochs  epoch -> one sealed report in the outbox, all zeros where nothing was seen; before anything is sent
    send_due      queued and due -> sent | refused; after a crash the same bytes go out again
    withdraw      consent ends, what is queued is dropped

A report is due at a time that is drawn once, at random, within the epoch after its own, so that when it comes says
nothing of when its node wakes; the last eighth is left for what fails. What nobody agreed to any more, or would have
to agree to anew because its terms are weaker, is dropped.

An organisation has one report an epoch and catalog, for ever: an epoch with a row in the outbox is never built again,
whatever became of that row. Where an aggregator's key was replaced before it came, the same report is sealed anew
(`sealing`). Nothing here logs a place, a share or a value.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from interlock.base.clock import Clock, rfc3339
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.primitives import Rng
from interlock.commons.consent import (
    Consent,
    Ended,
    NoConsent,
    Terms,
    demand_consent,
    give_consent,
    read_consents,
    withdraw_consent,
)
from interlock.commons.indicators import FALSE_POSITIVES, Catalog
from interlock.commons.known_operators import known_operators
from interlock.commons.membership import BLIND, CERTIFICATE, TaskMembership
from interlock.commons.operators import demand_two_aggregators
from interlock.dap.client import upload
from interlock.dap.drafts import ReportError
from interlock.dap.messages import Report
from interlock.dap.task import Task, TaskRefused
from interlock.dap.transport import Exchange
from interlock.node.roles.observe import KeptCatalog, keep_catalog, kept_catalogs
from interlock.node.roles.sealing import Keys, Sealer, is_for
from interlock.node.storage.node import NodeStore, OutboxRow, OutboxState

__all__ = [
    "BACKLOG_MOST",
    "BEARER",
    "NOTES",
    "REMADE_MOST",
    "Sent",
    "agree",
    "agreed_name",
    "catalog_task",
    "close_epochs",
    "drop_left",
    "drop_uncovered",
    "epochs_to_report",
    "find_kept",
    "kept_for",
    "mechanism_of",
    "outgrown",
    "send_due",
    "step_back",
    "terms_of",
    "withdraw",
]

log = logging.getLogger("interlock.report")

BACKLOG_MOST: Final = 100  # epochs; what a node that slept longer saw before is forgotten, as its batches are collected
_SPREAD: Final = (7, 8)  # of an epoch: how long after its own a report's time to go may lie
# how a report shows that a member sent it -> what follows for whoever relies on it
NOTES: Final[Mapping[str, str]] = {
    "bearer": "a bearer token says who reports: the leader knows, and could add reports of its own",
    BLIND: "a blind token proves membership: nobody learns whose report it is, and no aggregator can add one",
    CERTIFICATE: "a certificate proves membership: both aggregators learn whose report it is, and neither can add one",
}
BEARER: Final = "bearer"
REMADE_MOST: Final = 20  # times that one report is sealed anew; a leader that refuses its own key is broken
_OUTDATED: Final = (ReportError.OUTDATED_CONFIG, ReportError.HPKE_UNKNOWN_CONFIG_ID)  # up to dap-18, and from dap-19 on
# why a report waits that the leader did not take: one of two clocks is wrong, and neither stays so
_WAITS: Final[Mapping[ReportError | None, str]] = {
    ReportError.REPORT_TOO_EARLY: "this machine's clock is ahead of the leader's"
}
_ANEW_WAITS: Final[Mapping[ReportError | None, str]] = dict.fromkeys(
    _OUTDATED, "the leader does not know the key that it offers"
)
_WITHDRAWN: Final = "consent was withdrawn"
_WEAKER: Final = "its terms are weaker than what was consented to"


@dataclass(frozen=True, slots=True)
class Sent:
    """What a round of sending did, in reports."""

    sent: int = 0
    refused: int = 0
    dropped: int = 0


def terms_of(home: Path, task: Task, catalog: Catalog) -> Terms:
    """What a yes to a task's catalog is a yes to. Raises: TaskRefused, where the task counts by another; BadState."""
    _demand_catalog(task, catalog)
    operators = known_operators(home)
    urls = [(role, getattr(task.config, f"{role}_url").decode("ascii")) for role in ("leader", "helper")]
    told = urls if task.statement_key is None else [*urls, ("collector", task.statement_key.text)]
    named = {thing: (operators.runs(role, [thing]) or "") if operators else "" for role, thing in told}
    floor, how = task.config.min_batch_size, mechanism_of(task)
    return Terms(catalog.counts, catalog.task, named, floor, catalog.kinds, how, catalog.digest, _shown_of(task))


def mechanism_of(task: Task) -> str:
    """How a task counts, in which batches, and with what noise, in one phrase."""
    batches = ", in batches that the leader selects" if task.leader_selected else ""
    return f"Prio3SumVec{batches}, {'no noise' if task.noise is None else task.noise.text}"


def agree(home: Path, store: NodeStore, task: Task, catalog: Catalog, now_us: int) -> Consent:
    """Consent to a task's catalog, and keep both what it counts and how long its epochs are.

    Where something else or nothing was agreed to before, what was seen and queued by then is dropped: a process that
    was at work as consent ended may have left something.
    Raises: TaskRefused, where the task counts by another catalog; OneHand, where one body runs both aggregators;
    NotWritable.
    """
    terms = terms_of(home, task, catalog)
    _demand_two_bodies(home, task)
    before = read_consents(home).get((terms.purpose, terms.subject))
    if before is None or before.terms != terms:
        store.drop(catalog.task, _WITHDRAWN if before is None else _WEAKER, now_us)
    keep_catalog(home, catalog, time_precision=task.config.time_precision)
    return give_consent(home, terms, now_us)


def withdraw(home: Path, store: NodeStore, task: str, now_us: int, ended: Ended | None = None) -> int:
    """End the consent to a catalog's task; returns how many queued reports were dropped. `ended` says why, where it
    was not a person's no. Raises: NotWritable.
    """
    withdraw_consent(home, task, ended)
    _forget_objections(home, store)
    return store.drop(task, _WITHDRAWN if ended is None else ended.why, now_us)


def drop_left(home: Path, store: NodeStore, now_us: int) -> int:
    """Drop what is here of any task without a yes: a process that was killed as consent ended, or that was just at
    work, may have left it. Returns how many reports were queued. Raises: NotWritable.
    """
    agreed = {subject for _, subject in read_consents(home)}
    _forget_objections(home, store)
    return sum(store.drop(name, _WITHDRAWN, now_us) for name in kept_catalogs(home) if name not in agreed)


def _forget_objections(home: Path, store: NodeStore) -> None:
    """Forget what a person could speak of, where no false positives are counted."""
    if not any(purpose == FALSE_POSITIVES for purpose, _ in read_consents(home)):
        store.forget_objections()


def close_epochs(home: Path, store: NodeStore, sealer: Sealer, clock: Clock, *, early: bool = False) -> int:
    """Make the report of every epoch that has ended (and, `early`, of the running one); returns how many were made.

    An epoch for which a task asks for a proof of membership, and none is had, waits.
    Raises: NoConsent, TaskRefused; Unreachable, Malformed, DapProblem where a key cannot be fetched; of the proofs,
    their own.
    """
    task, kept = sealer.task, kept_for(home, sealer.task)
    due = epochs_to_report(home, store, task, clock, early=early)
    due = [start for start in due if task.membership is None or sealer.right_to(start) is not None]
    if not due:
        return 0
    keys, made = sealer.keys(), 0
    for start in due:
        seen = store.bits(kept.catalog.task, kept.catalog.digest, start)
        measurement = [int(place in seen) for place in range(len(kept.catalog.places))]
        report = sealer.sealed(keys, start, measurement)
        if report is None:  # another process of this node used the right to it
            continue
        row = _row(sealer, kept, start, report, bytes(measurement), clock.now_us())
        row = replace(row, due=row.at) if early else row
        if store.queue(row):  # else another process of this node was faster, and its report is the one
            made += 1
            log.info("task %s, epoch %s: report made", row.task, rfc3339(start))
        store.forget_credentials(task.task_id, row.time - BACKLOG_MOST)
    return made


def _row(sealer: Sealer, kept: KeptCatalog, start: int, report: Report, measurement: bytes, at: int) -> OutboxRow:
    task, proof = sealer.task, sealer.right_to(start)
    return OutboxRow(
        task=kept.catalog.task,
        epoch_start=start,
        catalog=kept.catalog.digest,
        dap_task=task.task_id,
        report=report.encode(),
        at=at,
        shown="" if task.membership is None else TaskMembership.decode(task.membership).backend,
        due=_due(start, kept.epoch_us, at, sealer.rng),
        mechanism=mechanism_of(task),
        report_id=report.metadata.report_id,
        asks=b"" if proof is None else proof.possession,
        measurement=measurement,
        time=task.time_of(start),
    )


def catalog_task(home: Path, task: Task) -> str:
    """The commons' name of a task, by the catalog that was agreed to. Raises: NoConsent, TaskRefused."""
    return kept_for(home, task).catalog.task


def epochs_to_report(home: Path, store: NodeStore, task: Task, clock: Clock, *, early: bool = False) -> list[int]:
    """The starts of the epochs whose report is to be made now. Raises: NoConsent, TaskRefused."""
    _demand_two_bodies(home, task)
    kept = kept_for(home, task)
    consent = demand_consent(home, terms_of(home, task, kept.catalog))
    reported = store.reported(kept.catalog.task)
    return [e for e in _epochs(task, kept, consent, clock.now_us(), early) if e not in reported]


def step_back(home: Path, store: NodeStore, task: Task, clock: Clock) -> int:
    """Take apart the reports of epochs that are not over, made while the clock was ahead; returns how many.

    The leader surely has none of them. What was seen meanwhile is of the running epoch. Raises: NoConsent, TaskRefused.
    """
    kept, now_us = kept_for(home, task), clock.now_us()
    name, start = kept.catalog.task, kept.epoch_of(now_us)
    undone = store.take_apart(name, kept.catalog.digest, (start, start + kept.epoch_us))
    if undone:
        told = "task %s: this machine's clock was set back; %d reports of epochs that are not over will be made anew"
        log.warning(told, name, undone)
    given = read_consents(home).get((kept.catalog.counts, name))
    if given is not None and given.at > now_us:
        told = "task %s: agreed to at %s, which is yet to come by the clock; run interlock mesh consent on %s"
        log.warning(told, name, rfc3339(given.at), name)
    return undone


def send_due(
    home: Path, store: NodeStore, exchange: Exchange, sealer: Sealer, clock: Clock, *, at_once: bool = False
) -> Sent:
    """Send what is queued for a task and due (or, `at_once`, all of it); `exchange` carries this member's token.

    What is sealed for keys that are not offered any more is sealed anew.
    Raises: Unreachable, Malformed, and DapProblem where the leader refuses a whole request; then the report that met
    it, and those behind it, stay queued.
    """
    task = sealer.task
    _demand_two_bodies(home, task)
    dropped = drop_uncovered(home, store, task, clock)
    due = store.queued(task.task_id, None if at_once else clock.now_us())
    keys = _offered(sealer) if due else None
    states = [_send(store, exchange, sealer, clock, row, keys) for row in due]
    return Sent(states.count(OutboxState.SENT), states.count(OutboxState.REFUSED), dropped)


def drop_uncovered(home: Path, store: NodeStore, task: Task, clock: Clock) -> int:
    """Drop what is queued for a task that no yes covers, and whatever there is of tasks without a yes.

    Returns how many reports were dropped.
    """
    left = {(row.task, row.catalog) for row in store.queued(task.task_id)}
    why = _not_covered(home, task) if left else ""
    dropped = sum(store.drop(name, why, clock.now_us(), catalog=catalog) for name, catalog in left if why)
    return dropped + (0 if agreed_name(home, task) else drop_left(home, store, clock.now_us()))


def agreed_name(home: Path, task: Task) -> str:
    """The commons' name of a task whose catalog this node says yes to; empty where it does not. Raises: BadState."""
    kept = find_kept(home, task)
    if kept is None or (kept.catalog.counts, kept.catalog.task) not in read_consents(home):
        return ""
    return kept.catalog.task


def outgrown(home: Path, task: Task) -> list[str]:
    """In which respects a task goes beyond the yes that it has, in words; none where it has no yes.

    Raises: BadState, TaskRefused.
    """
    kept = find_kept(home, task)
    if kept is None:
        return []
    terms = terms_of(home, task, kept.catalog)
    given = read_consents(home).get((terms.purpose, terms.subject))
    return [] if given is None else terms.beyond(given.terms)


def _not_covered(home: Path, task: Task) -> str:
    """Why nothing may be sent for a task any more; empty where consent covers it."""
    try:
        terms = terms_of(home, task, kept_for(home, task).catalog)
        given = read_consents(home).get((terms.purpose, terms.subject))
    except (NoConsent, TaskRefused):
        return _WITHDRAWN
    if given is None:
        return _WITHDRAWN
    return _WEAKER if terms.beyond(given.terms) else ""


def _offered(sealer: Sealer) -> Keys | None:
    """Both aggregators' keys; none where one does not answer, and only the leader need."""
    try:
        return sealer.keys()
    except InterlockError as e:
        log.debug("no keys: %s", e)
        return None


def _send(
    store: NodeStore, exchange: Exchange, sealer: Sealer, clock: Clock, row: OutboxRow, keys: Keys | None
) -> OutboxState:
    """One report's turn; queued, where it waits, or where it left the queue meanwhile."""
    # the helper's key, too: the leader does not look at it, and a report that the helper cannot open is lost
    may = row.remade < REMADE_MOST
    if keys is not None and may and not is_for(Report.decode(row.report), keys):
        row = _anew(store, sealer, row, keys) or row
    if not store.attempt(row):
        return OutboxState.QUEUED
    error, waits = _uploaded(exchange, sealer.task, row), _WAITS
    if error in _OUTDATED and may and (made := _anew(store, sealer, row, sealer.keys())):
        row, waits = made, {**_WAITS, **_ANEW_WAITS}
        if not store.attempt(row):
            return OutboxState.QUEUED
        error = _uploaded(exchange, sealer.task, row)
    if error in waits:
        log.warning("task %s, epoch %s: %s; the report waits", row.task, rfc3339(row.epoch_start), waits[error])
        store.not_taken(row)
        return OutboxState.QUEUED
    return _settled(store, sealer.task, clock, row, error)


def _anew(store: NodeStore, sealer: Sealer, row: OutboxRow, keys: Keys) -> OutboxRow | None:
    """A row with its report sealed for other keys; none where that cannot be, or another process changed it."""
    made = sealer.anew(keys, row)
    renewed = None if made is None else store.remake(row, made.encode())
    if renewed is not None:
        log.info("task %s, epoch %s: a key was replaced; sealed anew", row.task, rfc3339(row.epoch_start))
    return renewed


def _settled(store: NodeStore, task: Task, clock: Clock, row: OutboxRow, error: ReportError | None) -> OutboxState:
    """Write down what the leader said for good."""
    # 4.4.2: "replayed" says that the leader has a report of this id; only an earlier try of ours can have sent it.
    reason = "" if error is None or error is ReportError.REPORT_REPLAYED else error.value
    state = OutboxState.REFUSED if reason else OutboxState.SENT
    store.settle(row, state, reason, clock.now_us())
    if not reason:  # so it is as late as that, whatever the clock here says
        store.forget_places(row.task, row.epoch_start - BACKLOG_MOST * task.start_us(1))
    why = f" ({reason})" if reason else ""
    log.info("task %s, epoch %s: report %s%s", row.task, rfc3339(row.epoch_start), state.value, why)
    return state


def _uploaded(exchange: Exchange, task: Task, row: OutboxRow) -> ReportError | None:
    report = Report.decode(row.report)
    return upload(exchange, task, [report]).get(report.metadata.report_id)


def find_kept(home: Path, task: Task) -> KeptCatalog | None:
    """The kept catalog that a task counts by, if it was ever agreed to."""
    digest = task.catalog_digest
    return next((k for k in kept_catalogs(home).values() if digest and k.catalog.digest == digest.hex()), None)


def kept_for(home: Path, task: Task) -> KeptCatalog:
    """The kept catalog of a task. Raises: NoConsent, where there is none; TaskRefused, where it does not fit."""
    digest = task.catalog_digest
    if digest is None:
        raise TaskRefused("names no catalog", fix="ask the task's author for its exact bytes")
    kept = find_kept(home, task)
    if kept is None:
        raise NoConsent(
            "was not consented to",
            where=f"catalog {digest.hex()[:16]}",
            fix="see its places, then interlock mesh consent",
        )
    _demand_catalog(task, kept.catalog)
    if kept.time_precision != task.config.time_precision:
        raise TaskRefused(
            f"has epochs of {task.config.time_precision} seconds, and {kept.time_precision} were agreed to",
            where=f"task {kept.catalog.task}",
            fix="agree to it again",
        )
    return kept


def _shown_of(task: Task) -> str:
    """How a task's reports show that a member sent them, and by whose membership. Raises: TaskRefused."""
    if task.membership is None:
        return BEARER
    try:
        wanted = TaskMembership.decode(task.membership)
    except Malformed as e:
        raise TaskRefused(f"asks for a proof that is not known here ({e.what})", fix="upgrade") from None
    return f"{wanted.backend} of {wanted.task}"


def _due(start: int, epoch_us: int, now: int, rng: Rng) -> int:
    """When the report of an epoch goes out: at random in the epoch after it, or now where that is nearly over."""
    begin, end = max(now, start + epoch_us), start + epoch_us + epoch_us * _SPREAD[0] // _SPREAD[1]
    return begin + int.from_bytes(rng(8), "big") % (end - begin) if begin < end else now


def _demand_two_bodies(home: Path, task: Task) -> None:
    """Raises: OneHand, where the commons' list of operators does not show two bodies behind the aggregators."""
    operators = known_operators(home)
    if operators is not None:
        leader, helper = (url.decode("ascii") for url in (task.config.leader_url, task.config.helper_url))
        demand_two_aggregators(operators, leader, helper)


def _demand_catalog(task: Task, catalog: Catalog) -> None:
    """Raises: TaskRefused, where the task does not count by just this catalog."""
    where = f"task {catalog.task}"
    if task.catalog_digest is None or task.catalog_digest.hex() != catalog.digest:
        raise TaskRefused("counts by another catalog", where=where, fix="fetch the catalog and the task's file again")
    if task.shape.length != len(catalog.places):
        raise TaskRefused(f"counts {task.shape.length} places of a catalog of {len(catalog.places)}", where=where)


def _epochs(task: Task, kept: KeptCatalog, consent: Consent, now: int, early: bool) -> range:
    """The starts of the epochs to report: consented to, begun with the catalog open, over (or running, if early)."""
    length = kept.epoch_us
    opens = -(-kept.catalog.opens_at // length) * length
    end = kept.epoch_of(now) + (length if early else 0)
    first = max(opens, kept.epoch_of(consent.at), end - BACKLOG_MOST * length)
    if task.interval is not None:
        first = max(first, task.start_us(task.interval.start))
        end = min(end, task.start_us(task.interval.end))
    return range(first, end, length)
