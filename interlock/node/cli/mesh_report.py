"""`interlock mesh report` and `interlock mesh ledger`: what a member's node tells, and what it told."""

from __future__ import annotations

import argparse
import contextlib
import json
from dataclasses import asdict
from pathlib import Path

from interlock.base.clock import SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, BadInput
from interlock.commons.consent import ended_consents
from interlock.commons.membership import TaskMembership
from interlock.dap.task import Task
from interlock.dap.taskfile import load_client_task
from interlock.engine.receipts import Receipt
from interlock.engine.sinks import verify_file
from interlock.node.cli.mesh_count import each_agreed, node_store, reporting_of
from interlock.node.cli.mesh_node import config_of, patiently, subscriber_of
from interlock.node.cli.receipts import found_receipts, receipts_file
from interlock.node.config import MeshConfig, report_config, settings_of
from interlock.node.reporter import Reporter, keep_task, read_task, reporters_of, tasks_of
from interlock.node.roles import false_positives, fates, report
from interlock.node.roles.ledger import ledger as ledger_of
from interlock.node.roles.ledger import spending
from interlock.node.roles.taking import demand_published

__all__ = ["build", "fp", "init", "ledger", "status", "submit"]


def init(args: argparse.Namespace) -> int:
    """Keep a task's file, and say what it is; nothing is counted before a consent."""
    config = config_of(args)
    task = _task(args.file, config)
    agreed = report.agreed_name(config.home, task)
    if agreed:  # else it would be reported under a yes to another task, and nobody would have looked
        subscriber = subscriber_of(config)
        patiently(lambda: demand_published(subscriber, agreed, task))
    keep_task(config.home, task)
    length, how = task.config.time_precision, report.mechanism_of(task)
    print(f"task {task.task_id.hex()[:16]}: {task.shape.length} places, an epoch of {length} s, {how}")
    print(f"told: {task.config.leader_url.decode()} and {task.config.helper_url.decode()}, who see no report alone")
    demo = " (a demo's: any real task has more)" if task.demo else ""
    print(f"floor: {task.config.min_batch_size} organisations{demo}")
    shown = "bearer" if task.membership is None else TaskMembership.decode(task.membership).backend
    print(report.NOTES[shown])
    name = "TASK" if task.membership is None else TaskMembership.decode(task.membership).task
    print(f"nothing is counted yet; see it with interlock mesh consent show {name}, then consent on {name}")
    return EXIT_OK


def build(args: argparse.Namespace) -> int:
    """Make what has ended; it goes out at its time."""
    with reporters_of(config_of(args), reporting_of(args)) as reporters:
        made = sum(each_agreed(reporters, lambda r: r.build(early=args.close_epoch)))
        queued = [row for r in reporters for row in r.store.queued(r.task.task_id)]
    print(f"{made} reports made, {len(queued)} queued")
    for row in queued:
        print(f"  {row.task}, epoch {rfc3339(row.epoch_start)}: goes out at {rfc3339(row.due)}")
    return EXIT_OK


def submit(args: argparse.Namespace) -> int:
    """Make and send what is due; a report that was refused is exit code 1."""

    def work(reporter: Reporter) -> tuple[int, report.Sent]:
        return reporter.build(early=args.close_epoch), reporter.send(at_once=args.now)

    with reporters_of(config_of(args), reporting_of(args)) as reporters:
        done = each_agreed(reporters, work)
        left = sum(len(r.store.queued(r.task.task_id)) for r in reporters)
    made, sent = sum(made for made, _ in done), [sent for _, sent in done]
    refused, dropped = sum(s.refused for s in sent), sum(s.dropped for s in sent)
    later = f", {left} wait for their time" if left else ""
    print(f"{made} reports made, {sum(s.sent for s in sent)} sent, {refused} refused, {dropped} dropped{later}")
    return EXIT_REFUSED if refused else EXIT_OK


def status(args: argparse.Namespace) -> int:
    """What became of this node's reports, each from whoever knows."""
    if args.last < 1:
        raise BadInput("has to be 1 or more", where="--last")
    with reporters_of(config_of(args), reporting_of(args)) as reporters:
        found = [o for r in reporters for o in fates.outcomes(r.store, r.task, r.leader, args.last)]
    if args.json:
        print(json.dumps({"format": "interlock-report-status", "v": 1, "reports": [asdict(o) for o in found]}))
        return EXIT_OK
    for outcome in found:
        why = f": {outcome.reason}" if outcome.reason else ""
        where = f" ({outcome.side}, at {outcome.step})" if outcome.side else ""
        print(f"{outcome.epoch}  {outcome.task}  {outcome.standing}{why}{where}")
    if not found:
        print("no report was made yet")
    return EXIT_OK


def fp(args: argparse.Namespace) -> int:
    """Call one receipt's objection a false positive, once, in the running epoch."""
    config = config_of(args)
    tasks = tasks_of(config.home, report_config(settings_of(args.config)))
    if not tasks:
        raise BadInput("reports no false positives", where=str(config.home), fix=false_positives.JOIN)
    verify_file(receipts_file(args), args.key)
    receipt = _objection(args, config)
    with contextlib.closing(node_store(config)) as store:
        words = false_positives.say_false_positive(config.home, store, tasks, receipt, SystemClock().now_us())
    for word in words:
        places = ", ".join(false_positives.spoken(word))
        print(f"receipt {receipt.seq} ({rfc3339(receipt.ts_us)}) counts as a false positive of {places}")
        print(f"reported to {word.task} with the epoch of {rfc3339(word.start)}: those places, and nothing of the call")
    return EXIT_OK


def ledger(args: argparse.Namespace) -> int:
    """What this node sent, what it cost, and what stands against relying on it."""
    config = config_of(args)
    tasks = tasks_of(config.home, report_config(settings_of(args.config)))
    with contextlib.closing(node_store(config)) as store:
        rows, costs = ledger_of(store), spending(store, tasks)
    ended = ended_consents(config.home).values()
    if args.json:
        told = {"rows": [asdict(row) for row in rows], "tasks": [asdict(cost) for cost in costs]}
        told["ended"] = [asdict(end) for end in ended]
        print(json.dumps({"format": "interlock-ledger", "v": 2, **told}))
        return EXIT_OK
    for row in rows:
        times = f", {row.remade} times" if row.remade > 1 else ""
        anew = f"sealed anew for a key that was replaced{times}" if row.remade else ""
        why = "; ".join(text for text in (row.reason, anew) if text)
        why = f" ({why})" if why else ""
        when = f"goes out at {row.due}" if row.due else f"at {row.at}"
        print(f"{row.epoch}  {row.task}  {row.state}{why} {when}  {row.mechanism}, {row.membership}")
    for cost in costs:
        budget = (
            f"at most {cost.spent} {cost.measure} spent, {cost.left} left" if cost.measure else "no noise, no budget"
        )
        print(f"{cost.task}: {cost.sent} reports sent; {budget}")
    for end in ended:
        print(f"{end.subject}: ended at {rfc3339(end.at)}, and nothing is counted for it: it {end.why}")
    for note in dict.fromkeys(row.note for row in rows):
        print(note)
    if not rows:
        print("nothing was ever sent")
    return EXIT_OK


def _task(named: str, config: MeshConfig) -> Task:
    """A task from its file, or by its name as the commons published it. Raises: as `Subscriber.dap_task`."""
    if Path(named).exists() or "/" in named or named.endswith(".json"):
        return read_task(Path(named))
    subscriber = subscriber_of(config)
    return load_client_task(patiently(lambda: subscriber.dap_task(named)), where=f"task {named}")


def _objection(args: argparse.Namespace, config: MeshConfig) -> Receipt:
    """The receipt that an id names: of a call and its result the one that a community rule objected to."""
    found = [receipt for receipt, _ in found_receipts(args)]
    calls = {receipt.call_id for receipt in found}
    if len(calls) > 1:
        raise BadInput("is the beginning of several call ids", where=args.id, fix="give more of it")
    first: BadInput | None = None
    for receipt in found:
        try:
            false_positives.demand_objection(receipt, config.home)
        except BadInput as e:
            first = first or e
        else:
            return receipt
    assert first is not None, "an id of no receipt is refused before"
    raise first
