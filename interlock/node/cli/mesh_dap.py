"""`interlock mesh dap submit` and `dap collect`: reports by hand, and what a batch comes to."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Final

from interlock.base.clock import SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, BadInput, InterlockError
from interlock.base.fetch import Unreachable
from interlock.base.files import demand_new, read_bounded, read_private, replace, stamped
from interlock.commons.indicators import MAX_CATALOG, parse_catalog
from interlock.dap.client import build_report, fetch_config, upload
from interlock.dap.collector import Collected, Collector, GivenUp, Pending, give_up
from interlock.dap.drafts import ReportError
from interlock.dap.messages import Interval
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.task import TIME_MOST, Task, TaskRefused
from interlock.dap.taskfile import load_key
from interlock.node.cli.mesh_dap_task import read_any
from interlock.node.parties import HttpExchange, vdaf_of
from interlock.node.tokens import secret_in

__all__ = ["TooFewReports", "collect", "submit"]

_RESULT_FORMAT: Final = "interlock-collected"  # what `mesh indicator consensus` reads
_LIMIT: Final = 64 << 20
_AT_ONCE: Final = 100  # reports a request
_SAY_AFTER_S: Final = 2.0
_LEAST_WAIT_S: Final = 0.2
_EPOCHS_MOST: Final = 400
_PLACES: Final = (3, 5)  # the types of Prio3 whose measurement has a number a place: SumVec, MultihotCountVec
_DIGITS: Final = 20  # of a number, fewer than
_WHY: Final = {
    ReportError.REPORT_DROPPED.value: ": this token has a report in this epoch already, or the task does not count now",
    ReportError.BATCH_COLLECTED.value: ": this epoch was collected; send it in the next one",
    ReportError.OUTDATED_CONFIG.value: ": the leader has another key by now; send it again",
}


class TooFewReports(InterlockError):
    """A batch that is too small, or may grow still; it says the floor and no number below it."""

    code: ClassVar[str] = "batch-too-small"


def submit(args: argparse.Namespace) -> int:
    """Shard, seal and send measurements, each as a report of its own, all of the epoch in which the first one goes."""
    task = read_any(Path(args.task))
    if task.membership is not None:
        fix = "a member's node reports: interlock mesh report submit"
        raise TaskRefused("asks for proofs of membership, which no report by hand has", where=args.task, fix=fix)
    measurements = [*_measurements(args, task)]
    tokens = _tokens(args.token, len(measurements))
    errors, begun, now_us = Counter[str](), time.monotonic(), SystemClock().now_us()
    for done, part in _sent(task, measurements, tokens, now_us):
        errors += part
        if time.monotonic() - begun > _SAY_AFTER_S:
            end = "\n" if done == len(measurements) else ""
            print(f"\r{done} of {len(measurements)} reports", end=end, file=sys.stderr, flush=True)
    sent = len(measurements) - sum(errors.values())
    if args.json:
        print(json.dumps({"format": "interlock-submitted", "v": 1, "stored": sent, "refused": dict(errors)}))
    else:
        print(f"{sent} of {len(measurements)} reports are stored at the leader, in epoch {task.time_of(now_us)}")
        for reason, count in sorted(errors.items()):
            print(f"  {count} refused: {reason}{_WHY.get(reason, '')}")
    return EXIT_REFUSED if errors else EXIT_OK


def collect(args: argparse.Namespace) -> int:
    """Ask for a batch, wait until leader and helper have it, open it; the leader's next is taken once it was told."""
    task = read_any(Path(args.task))
    interval = _asked(args, task)
    if args.give_up:
        return _given_up(args, task, interval)
    if args.key is None:
        raise BadInput("is needed to open the result", where="--key FILE")
    if args.out:
        demand_new(Path(args.out))
    names = _names(args, task)
    exchange = HttpExchange(secret_in(Path(args.token)))
    with contextlib.closing(exchange):
        key = load_key(read_private(Path(args.key), _LIMIT), where=args.key)
        collector = Collector(task, key, vdaf_of(task), exchange)
        found = _waited(collector, task, interval, args.wait)
        _tell(args, task, found, names)
        if interval is None:
            sys.stdout.flush()  # it was told, or kept, before the leader forgets it
            _take(collector, found)
    return EXIT_OK


def _given_up(args: argparse.Namespace, task: Task, interval: Interval | None) -> int:
    """Take a question back; one that has its answer, or whose batch is closed, is not. Raises: as `collect`."""
    if args.out or args.catalog:
        raise BadInput("are for a result, and giving up has none", where="--out, --catalog")
    where = _span(task, interval)
    with contextlib.closing(HttpExchange(secret_in(Path(args.token)))) as exchange:
        try:
            found = give_up(exchange, task, interval)
        except DapProblem as e:
            raise _refused(e, task, interval) from None
    if found is GivenUp.READY:
        raise DapProblem(None, f"{where}: the result is there, and stays; collect it without --give-up")
    if found is GivenUp.CLOSED:
        told = "the leader has closed the batch and waits for the helper's share; ask again without --give-up"
        raise DapProblem(None, f"{where}: {told}")
    if args.json:
        print(json.dumps({"format": "interlock-given-up", "v": 1, "task_id": task.task_id.hex()}))
    else:
        print(f"{where}: the question is given up; its reports stay, and the same question asks for them anew")
    return EXIT_OK


def _tell(args: argparse.Namespace, task: Task, found: Collected, names: list[str]) -> None:
    body = _body(task, found)
    if args.out:
        replace(Path(args.out), stamped(_RESULT_FORMAT, 1, body))
    if args.json:
        print(json.dumps({"format": _RESULT_FORMAT, "v": 1, **body}))
        return
    for line in _lines(task, found, names):
        print(line)
    if args.out and not task.leader_selected:
        print(f"{args.out}: keep it to yourself; say what follows with interlock mesh indicator consensus")


def _take(collector: Collector, found: Collected) -> None:
    """Let the next question be about another batch; where the leader does not hear it, this one comes again."""
    try:
        collector.taken(found.place)
    except InterlockError as e:
        told = f"the leader could not be told that batch {found.mark} is here, and gives it again"
        print(f"{told}: {e}", file=sys.stderr)


def _tokens(given: str | None, reports: int) -> list[str]:
    """One token for all reports, or one for each where a folder of tokens is given. Raises: BadInput, BadState."""
    if given is None:
        return [""]
    if not Path(given).is_dir():
        return [secret_in(Path(given))]
    files = sorted(path for path in Path(given).iterdir() if path.is_file() and path.name[0] != ".")
    if len(files) < reports:
        told = f"holds {len(files)} tokens for {reports} reports, and a member has one report an epoch"
        raise BadInput(told, where=given, fix="send fewer, or let more members in with interlock mesh token")
    return [secret_in(path) for path in files[:reports]]


def _sent(
    task: Task, measurements: list[list[int]], tokens: list[str], now_us: int
) -> Iterator[tuple[int, Counter[str]]]:
    """Send in portions: how many went so far, and why some of a portion were refused.

    Raises: Unreachable, Malformed, DapProblem.
    """
    with contextlib.closing(HttpExchange()) as keys:  # no token: the helper would learn the leader's
        configs = [fetch_config(keys, url) for url in (task.config.leader_url, task.config.helper_url)]
    vdaf, size = vdaf_of(task), _AT_ONCE if len(tokens) == 1 else 1
    for at in range(0, len(measurements), size):
        part = measurements[at : at + size]
        try:
            reports = [build_report(task, vdaf, m, *configs, now_us=now_us, rng=os.urandom) for m in part]
        except ValueError as e:  # it says what a measurement is, and not which it was
            raise BadInput(str(e), where=f"one of the reports {at + 1} to {at + len(part)}") from None
        with contextlib.closing(HttpExchange(tokens[at % len(tokens)])) as leader:
            errors = upload(leader, task, reports)
        yield at + len(part), Counter(error.value for error in errors.values())


def _measurements(args: argparse.Namespace, task: Task) -> Iterator[list[int]]:
    """Raises: BadInput, which names the line and no value."""
    length = task.shape.length
    if args.ones is not None:
        places = [p.strip() for p in args.ones.split(",") if p.strip()]
        if task.config.vdaf_type not in _PLACES or not all(
            p.isdecimal() and len(p) < _DIGITS and int(p) < length for p in places
        ):
            raise BadInput(f"is a list of places from 0 to {length - 1}, such as 0,3", where="--ones")
        ones = {int(p) for p in places}
        yield [int(place in ones) for place in range(length)]
        return
    if args.measurement is not None:
        yield _numbers(task, args.measurement, "--measurement")
        return
    data = sys.stdin.buffer.read(_LIMIT + 1) if args.file == "-" else read_bounded(Path(args.file), _LIMIT)
    rows = data.decode("ascii", "replace").split()
    if not rows:
        raise BadInput("holds no report", where=args.file, fix="write a report a line")
    for number, row in enumerate(rows, start=1):
        yield _numbers(task, row, f"{args.file}: report {number}")


def _numbers(task: Task, text: str, where: str) -> list[int]:
    """A measurement: digits of 0 and 1, one a place, or numbers with commas between. Raises: BadInput."""
    length, many = task.shape.length, task.config.vdaf_type in _PLACES
    if many and length > 1 and len(text) == length and set(text) <= {"0", "1"}:
        return [int(digit) for digit in text]
    parts, count = text.split(","), length if many else 1
    if len(parts) != count or not all(part.isdecimal() and len(part) < _DIGITS for part in parts):
        form = f"{count} digits of 0 or 1, or {count} numbers with commas between" if many else "one number"
        raise BadInput(f"is not {form}", where=where)
    return [int(part) for part in parts]


def _asked(args: argparse.Namespace, task: Task) -> Interval | None:
    """The epochs that are asked for, or None for the leader's next batch. Raises: BadInput."""
    if args.next != task.leader_selected:
        told = "has batches of epochs" if args.next else "has batches that its leader selects"
        fix = "leave --next out" if args.next else "ask for the next with --next, whatever epochs it is of"
        raise BadInput(told, where=args.task, fix=fix)
    if not args.next:
        return _interval(args, task)
    if args.first is not None or args.epochs != 1 or args.running:
        raise BadInput(
            "name epochs, and a batch that the leader selects is of any", where="--first, --epochs, --running"
        )
    return None


def _interval(args: argparse.Namespace, task: Task) -> Interval:
    """Raises: BadInput."""
    if not 1 <= args.epochs <= _EPOCHS_MOST:
        raise BadInput(f"is from 1 to {_EPOCHS_MOST}", where="--epochs")
    last = _now(task) if args.running else _now(task) - 1
    # members who count by a catalog report at a random time of the epoch after
    newest = last if args.running or task.catalog_digest is None else last - 1
    first = newest - args.epochs + 1 if args.first is None else args.first
    if not 0 <= first <= TIME_MOST - args.epochs:
        raise BadInput("is no epoch of this task", where=f"--first {first}")
    if first + args.epochs - 1 > last:
        told = f"reaches beyond epoch {last}"
        fix = "ask for earlier ones" if args.running else "ask for earlier ones, or give --running to close it now"
        raise BadInput(told, where=f"the batch of the epochs {first} to {first + args.epochs - 1}", fix=fix)
    return Interval(first, args.epochs)


def _waited(collector: Collector, task: Task, interval: Interval | None, wait_s: float) -> Collected:
    """Ask until it is there. Raises: TooFewReports, Unreachable, DapProblem, and what a result that is none raises."""
    begun, said = time.monotonic(), False
    try:
        found = collector.ask_next() if interval is None else collector.ask(interval)
        while isinstance(found, Pending):
            gone = time.monotonic() - begun
            if gone > wait_s:
                raise TooFewReports(
                    f"is not ready after {gone:.0f} s: {_why(task)}",
                    where=_span(task, interval),
                    fix="ask again, it is the same question; or take it back with --give-up",
                )
            said = said or gone > _SAY_AFTER_S
            if said:
                print(f"\rwaiting for leader and helper ({gone:.0f} s)", end="", file=sys.stderr, flush=True)
            time.sleep(max(_LEAST_WAIT_S, min(found.retry_after, max(0.0, wait_s - gone))))
            found = collector.poll(found)
    except DapProblem as e:
        raise _refused(e, task, interval) from None
    finally:
        if said:
            print(file=sys.stderr)
    return found


def _why(task: Task) -> str:
    """What a batch that is not ready may wait for."""
    least, verified = task.config.min_batch_size, "some are still being verified"
    if task.batch_size > least:
        return f"it is filled to {task.batch_size} valid reports, for an epoch, and needs {least}; or {verified}"
    return f"it holds fewer than {least} valid reports, or {verified}"


def _refused(e: DapProblem, task: Task, interval: Interval | None) -> InterlockError:
    """What a refusal means to whoever asked."""
    where = _span(task, interval)
    if e.kind is ProblemType.INVALID_BATCH_SIZE:
        return TooFewReports(
            f"has fewer than the {task.config.min_batch_size} valid reports that the task needs in a batch",
            where=where,
            fix="ask for more epochs at once" if interval is not None else "ask again for another",
        )
    if e.kind is ProblemType.BATCH_OVERLAP:
        told = (
            "part of it was collected before, in another batch, or is asked for in one that is open (--give-up ends it)"
        )
        return DapProblem(e.kind, f"{where}: {told}")
    if e.kind is ProblemType.BATCH_MISMATCH:
        told = f"{where}: leader and helper do not hold the same reports of it"
        return DapProblem(e.kind, told if interval is not None else f"{told}; ask again for another")
    return e if e.kind is not None else Unreachable(e.what, where=where)


def _body(task: Task, found: Collected) -> dict[str, object]:
    """A result as it is kept: sums in the order of the catalog's places."""
    noise = found.noise
    named = {"batch": found.mark} if task.leader_selected else {}
    return {
        **named,
        "task_id": task.task_id.hex(),
        "draft": task.draft.tag,
        "verified": task.draft.verified,
        "report_count": found.report_count,
        "start": found.interval.start,
        "end": found.interval.end,
        "from": rfc3339(task.start_us(found.interval.start)),
        "to": rfc3339(task.start_us(found.interval.end)),
        "noise": None if noise is None else noise.text,
        "sums": [*found.sums],
    }


def _lines(task: Task, found: Collected, names: list[str]) -> Iterator[str]:
    selected = f"batch {found.mark} of " if task.leader_selected else ""
    yield f"{selected}{_span(task, found.interval)}: {found.report_count} reports, in {task.draft.label}"
    if selected:
        yield "a sum says how many reports, and not how many senders: a batch may hold several of one"
    if found.noise is not None:
        yield f"with {found.noise.text}: each sum is off by it, the number of reports is not"
    for name, total in zip(names, found.sums, strict=True):
        yield f"  {name}  {total}"


def _names(args: argparse.Namespace, task: Task) -> list[str]:
    """What each place is called. Raises: BadInput, BadCatalog."""
    if args.catalog is None:
        return [f"place {place}" for place in range(task.shape.length)]
    catalog = parse_catalog(read_bounded(Path(args.catalog), MAX_CATALOG), where=args.catalog)
    if task.catalog_digest is None or task.catalog_digest.hex() != catalog.digest:
        raise BadInput("is not the catalog that the task counts by", where=args.catalog)
    return [*catalog.places]


def _span(task: Task, interval: Interval | None) -> str:
    if interval is None:
        return "the leader's next batch"
    begin, end = (rfc3339(task.start_us(time)) for time in (interval.start, interval.end))
    many = f"epochs {interval.start} to {interval.end - 1}" if interval.duration > 1 else f"epoch {interval.start}"
    return f"{many} ({begin} to {end})"


def _now(task: Task) -> int:
    return task.time_of(SystemClock().now_us())
