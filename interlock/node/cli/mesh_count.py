"""`interlock mesh consent`: what this node tells others of itself; and the daemon, `interlock mesh run`."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TypeVar

from interlock.base.clock import SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, BadInput, InterlockError
from interlock.base.files import BadState
from interlock.commons import consent as consents
from interlock.commons.consent import Consent, Ended, NoConsent, Terms
from interlock.commons.indicators import Catalog
from interlock.commons.known_operators import known_operators
from interlock.commons.notices import forget_told
from interlock.dap.task import Task, TaskRefused
from interlock.interceptors.hooks.entry import guard_settings
from interlock.node.cli.mesh_node import config_of, patiently, subscriber_of
from interlock.node.cli.mesh_notices import monitor_consent
from interlock.node.config import MeshConfig, ReportConfig, report_config, settings_of
from interlock.node.reporter import Reporter, keep_reporting, reporters_of, tasks_of
from interlock.node.roles import follow, report
from interlock.node.roles.standing import TaskEnded
from interlock.node.roles.taking import NotPublished, demand_published, demand_safe
from interlock.node.roles.tell import TELL_EVERY_S, keep_telling
from interlock.node.service import alone_in, start_logging, stop_event
from interlock.node.storage.node import NodeStore, open_store

__all__ = ["consent", "each_agreed", "node_store", "reporting_of", "run"]

_T = TypeVar("_T")


def run(args: argparse.Namespace) -> int:
    """Follow and report until stopped."""
    start_logging(args.log_format)
    config, reporting = config_of(args), report_config(settings_of(args.config))
    stop = stop_event(with_stdin=args.stop_with_stdin)
    subscriber = subscriber_of(config)
    with contextlib.ExitStack() as stack:
        stack.enter_context(alone_in(config.home))
        with reporters_of(config, reporting):
            pass  # what is wrong with the configuration is said now
        thread = threading.Thread(target=keep_reporting, args=(config, reporting, stop), daemon=True)
        thread.start()
        stack.callback(thread.join, 10)
        if config.monitor:
            every_s = min(config.poll_s, TELL_EVERY_S)
            telling = threading.Thread(
                target=keep_telling, args=(config.home, config.monitor, stop), kwargs={"every_s": every_s}, daemon=True
            )
            telling.start()
        watch = follow.StepBacks(config.home, guard_settings(args.config).receipts, SystemClock())
        follow.follow(subscriber, stop, every_s=config.poll_s, on_update=watch)
    return EXIT_OK


def consent(args: argparse.Namespace) -> int:
    """Say yes or no, or show what was said, and what a yes would be a yes to."""
    config = config_of(args)
    _demand_home(config)
    if args.monitor:
        return monitor_consent(args, config)
    if args.answer == "show":
        return _show(args, config)
    if args.answer == "off":
        return _off(args, config)
    if not args.task:
        raise BadInput("needs the task's name", where="interlock mesh consent on")
    task, catalog = _asked(args, config)
    demand_safe(task, args.task, known_operators(config.home), demo=args.demo)
    before = consents.read_consents(config.home).get((catalog.counts, catalog.task))
    with contextlib.closing(node_store(config)) as store:
        given = report.agree(config.home, store, task, catalog, SystemClock().now_us())
    print(f"{catalog.task}: yes from {rfc3339(given.at)} on, to this:")
    _tell(given.terms, catalog, before)
    print("each epoch one report of 0s and 1s is sent, a share to each aggregator; nothing before now is counted")
    return EXIT_OK


def _off(args: argparse.Namespace, config: MeshConfig) -> int:
    """No to one task, or to everything."""
    known = {subject for _, subject in consents.read_consents(config.home)}
    named = [args.task] if args.task else sorted(known)
    with contextlib.closing(node_store(config)) as store:
        for task in named:
            dropped = report.withdraw(config.home, store, task, SystemClock().now_us())
            print(f"{task}: no; {dropped} reports that were queued are dropped")
        left = report.drop_left(config.home, store, SystemClock().now_us())  # of a no to whatever that was cut short
        if left:
            print(f"a no of before was cut short; {left} reports that it left queued are dropped")
    if not args.task:
        forget_told(config.home)
    if not named:
        print("no consent is given: nothing is counted and nothing is sent")
    return EXIT_OK


def _show(args: argparse.Namespace, config: MeshConfig) -> int:
    given = consents.read_consents(config.home)
    rows = [c for c in given.values() if args.task in (None, c.terms.subject)]
    ended = [end for end in consents.ended_consents(config.home).values() if args.task in (None, end.subject)]
    asked: tuple[Terms, Catalog] | None = None
    if args.task and not rows:
        try:
            task, catalog = _asked(args, config)
            asked = report.terms_of(config.home, task, catalog), catalog
        except InterlockError:
            if not ended:  # else that is the answer, and there need be nothing to agree to
                raise
    if args.json:
        _show_json(rows, ended, asked)
        return EXIT_OK
    for row in rows:
        print(f"{row.terms.subject}: yes since {rfc3339(row.at)}, to this:")
        _tell(row.terms, None, None)
    if asked is not None:
        print(f"{args.task}: no; a yes would be a yes to this:")
        _tell(*asked, None)
    for end in ended:
        print(f"{end.subject}: no since {rfc3339(end.at)}: it {end.why}")
    if not rows and not ended and asked is None:
        print("no consent is given: nothing is counted and nothing is sent")
    return EXIT_OK


def _show_json(rows: list[Consent], ended: list[Ended], asked: tuple[Terms, Catalog] | None) -> None:
    body: dict[str, object] = {"format": "interlock-consents", "v": 1}
    body["consents"] = [{**_plain(row.terms), "at": row.at} for row in rows]
    body["ended"] = [asdict(end) for end in ended]
    if asked is not None:
        body["asked"] = {**_plain(asked[0]), "places": list(asked[1].places)}
    print(json.dumps(body))


def _plain(terms: Terms) -> Mapping[str, object]:
    return {**asdict(terms), "kinds": list(terms.kinds)}


def _tell(terms: Terms, catalog: Catalog | None, before: Consent | None) -> None:
    """Terms in words; `before` is what was agreed to until now."""
    print(f"  purpose     {terms.purpose}")
    for url, name in terms.operators.items():
        print(f"  told        {url}" + (f" ({name})" if name else " (who runs it is not listed)"))
    if terms.floor:
        print(f"  floor       {terms.floor} organisations")
    if terms.mechanism:
        print(f"  mechanism   {terms.mechanism}")
    if terms.proof:
        print(f"  shown by    {terms.proof}")
    if terms.kinds:
        print(f"  counts      {', '.join(terms.kinds)} of catalog {terms.catalog[:16]}")
    for place in catalog.places if catalog else ():
        print(f"    {place}")
    for change in terms.beyond(before.terms) if before else ():
        print(f"  new         {change}")


def _asked(args: argparse.Namespace, config: MeshConfig) -> tuple[Task, Catalog]:
    """The catalog of a task's name, as the commons signed it, and the task of this node that counts by it."""
    tasks = tasks_of(config.home, reporting_of(args))
    subscriber = subscriber_of(config)
    catalog = patiently(lambda: subscriber.catalog(args.task))
    refused = TaskRefused(
        "is counted by no task that is kept here",
        where=f"catalog {args.task}",
        fix="fetch the task's file: interlock mesh report init",
    )
    for task in (t for t in tasks if (t.catalog_digest or b"").hex() == catalog.digest):
        try:
            patiently(lambda task=task: demand_published(subscriber, args.task, task))  # type: ignore[misc]
        except NotPublished as e:  # another file may be of the one that is
            refused = e
        else:
            return task, catalog
    raise refused


def reporting_of(args: argparse.Namespace) -> ReportConfig:
    """What this node reports for. Raises: BadInput, where it reports for no task; BadConfig."""
    config, reporting = config_of(args), report_config(settings_of(args.config))
    if not tasks_of(config.home, reporting):
        fix = "interlock mesh report init FILE, or name it in [report]"
        raise BadInput("reports for no task", where=str(config.home), fix=fix)
    return reporting


def each_agreed(reporters: Sequence[Reporter], act: Callable[[Reporter], _T]) -> list[_T]:
    """What an act gives for each task that is consented to and stands. Raises: NoConsent, TaskEnded, where none is."""
    done: list[_T] = []
    refused: list[NoConsent | TaskEnded] = []
    for reporter in reporters:
        try:
            done.append(act(reporter))
        except (NoConsent, TaskEnded) as e:
            refused.append(e)
    if not done:
        raise refused[0]
    for error in refused:
        print(error, file=sys.stderr)
    return done


def node_store(config: MeshConfig) -> NodeStore:
    """The store of a node. Raises: BadState, where there is no node yet, and as `open_store`."""
    _demand_home(config)
    return open_store(config.home)


def _demand_home(config: MeshConfig) -> None:
    if not config.home.is_dir():
        raise BadState("is no node yet", where=str(config.home), fix="run interlock mesh init")
