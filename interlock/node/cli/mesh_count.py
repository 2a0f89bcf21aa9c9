"""`interlock mesh` for members who report: consent, the report, the ledger, and the daemon."""

from __future__ import annotations

import argparse
import contextlib
import json
import threading
from dataclasses import asdict

from interlock.base.clock import SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, BadInput
from interlock.base.files import BadState
from interlock.base.organisations import LEAST
from interlock.commons import consent as consents
from interlock.dap.task import TaskRefused
from interlock.interceptors.hooks.entry import guard_settings
from interlock.node.cli.mesh_node import config_of, patiently, subscriber_of
from interlock.node.config import MeshConfig, ReportConfig, report_config, settings_of
from interlock.node.reporter import read_task, reporter_of
from interlock.node.roles import follow, report
from interlock.node.service import alone_in, start_logging, stop_event
from interlock.node.storage.node import NodeStore, open_store

__all__ = ["consent", "ledger", "report_now", "reporting_of", "run"]


def run(args: argparse.Namespace) -> int:
    """Follow and report until stopped."""
    start_logging(args.log_format)
    config, reporting = config_of(args), report_config(settings_of(args.config))
    stop = stop_event(with_stdin=args.stop_with_stdin)
    subscriber = subscriber_of(config)
    with contextlib.ExitStack() as stack:
        stack.enter_context(alone_in(config.home))
        if reporting is not None:
            reporter = stack.enter_context(reporter_of(config, reporting))
            thread = threading.Thread(target=reporter.keep_reporting, args=(stop,), daemon=True)
            thread.start()
            stack.callback(thread.join, 10)
        watch = follow.StepBacks(config.home, guard_settings(args.config).receipts, SystemClock())
        follow.follow(subscriber, stop, every_s=config.poll_s, on_update=watch)
    return EXIT_OK


def consent(args: argparse.Namespace) -> int:
    """Say yes or no to reporting for a task, or show what was said."""
    config = config_of(args)
    _demand_home(config)
    if args.answer == "show":
        rows = consents.read_consents(config.home)
        if not rows:
            print("no consent is given: nothing is counted and nothing is sent")
        for row in rows.values():
            print(f"{row.task}: yes since {rfc3339(row.at)}, catalog {row.catalog[:16]}")
        return EXIT_OK
    if not args.task:
        raise BadInput("needs the task's name", where="interlock mesh consent")
    if args.answer == "off":
        with contextlib.closing(_store(config)) as store:
            dropped = report.withdraw(config.home, store, args.task, SystemClock().now_us())
        print(f"{args.task}: no; {dropped} reports that were queued are dropped")
        return EXIT_OK
    task = read_task(reporting_of(args).task)
    if task.demo and not args.demo:
        told = f"counts from {task.config.min_batch_size} organisations on, and a real task needs {LEAST}"
        raise TaskRefused(told, where=f"task {args.task}", fix="give --demo to agree all the same")
    subscriber = subscriber_of(config)
    catalog = patiently(lambda: subscriber.catalog(args.task))
    given = report.agree(config.home, task, catalog, SystemClock().now_us())
    print(f"{catalog.task}: yes from {rfc3339(given.at)} on, for {len(catalog.places)} places ({given.catalog[:16]}):")
    for place in catalog.places:
        print(f"  {place}")
    print("each epoch one report of 0s and 1s is sent, a share to each aggregator; nothing before now is counted")
    return EXIT_OK


def report_now(args: argparse.Namespace) -> int:
    """Send what is due, once; with --close-epoch also for the epoch under way."""
    with reporter_of(config_of(args), reporting_of(args)) as reporter:
        made, done = reporter.once(early=args.close_epoch)
    print(f"{made} reports made, {done.sent} sent, {done.refused} refused, {done.dropped} dropped")
    return EXIT_REFUSED if done.refused else EXIT_OK


def ledger(args: argparse.Namespace) -> int:
    """What this node sent, and what stands against relying on it."""
    with contextlib.closing(_store(config_of(args))) as store:
        rows = report.ledger(store)
    if args.json:
        print(json.dumps({"format": "interlock-ledger", "v": 1, "rows": [asdict(row) for row in rows]}))
        return EXIT_OK
    for row in rows:
        why = f" ({row.reason})" if row.reason else ""
        print(f"{row.epoch}  {row.task}  {row.state}{why} at {row.at}  {row.mechanism}, {row.membership}")
    for note in dict.fromkeys(row.note for row in rows):
        print(note)
    if not rows:
        print("nothing was ever sent")
    return EXIT_OK


def reporting_of(args: argparse.Namespace) -> ReportConfig:
    """The [report] section. Raises: BadInput, where there is none; BadConfig."""
    reporting = report_config(settings_of(args.config))
    if reporting is None:
        raise BadInput("this node reports for no task", where="[report]", fix="name a task")
    return reporting


def _store(config: MeshConfig) -> NodeStore:
    _demand_home(config)
    return open_store(config.home)


def _demand_home(config: MeshConfig) -> None:
    if not config.home.is_dir():
        raise BadState("is no node yet", where=str(config.home), fix="run interlock mesh init")
