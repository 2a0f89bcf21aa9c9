"""Counting as it grows: what a report costs, and what the leader holds, from ten thousand to a million in one task.

`python -m bench.dap_scale [--reports 10000,100000,1000000] [--postgres URL|auto] [--json]`; exit code 0 when every goal
was met, 1 when one was missed.

A batch has a thousand reports, one of each of a thousand members, so a million of them are a thousand batches: they
come one batch after another, and none but a few is collected before the end, which is the most that a pair can hold.
Reports are made while they are sent, in processes of their own, and carry proofs of membership that nobody signed:
those are stored like real ones and checked by nobody, for checking one costs the same however many there are
(`bench.dap` has it), and signing a million takes longer than all the rest.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.dap_world import TOKEN, World, collected, leader_storage, made, ring_key
from bench.postgres import NoPostgres, chosen_postgres
from bench.processes import aggregator, cpu_s, free_ports, peak_mib
from bench.report import Goal, Report, shown
from interlock.base.clock import SystemClock
from interlock.base.keys import Ed25519Signer
from interlock.commons.membership import MembershipProof
from interlock.dap.client import build_report, upload
from interlock.dap.collector import Collector
from interlock.dap.messages import Interval
from interlock.dap.messages import Report as DapReport
from interlock.dap.shares import HpkeKey
from interlock.dap.task import Task
from interlock.node.parties import HttpExchange, vdaf_of
from interlock.node.storage.dap_tasks import TaskDirectory
from interlock.node.storage.postgres import PostgresLeaderStorage

__all__ = ["SIZES", "Grown", "goals", "run"]

SIZES: Final = (10_000, 100_000, 1_000_000)
_BATCH: Final = 1_000  # reports of a bucket
_BLOCK: Final = 10_000  # reports between two looks: what is measured is the last block of a size
_REQUEST: Final = 100  # reports of an upload, and of a job
_LENGTH: Final = 4  # places of a report: its own arithmetic is not what grows
_TOLD: Final = 10  # blocks from one line of progress to the next
_WAIT_S: Final = 600
_PRECISION: Final = 3_600  # seconds of a bucket
_CLIENTS: Final = 2
_PREFIX: Final = bytes(32)
_SIGNATURE: Final = 256  # bytes of what an issuer signs with RSA
_MEMORY_MOST_MIB: Final = 300
_GROWTH_MOST: Final = 1.25  # CPU a report, the last block of the largest size beside the first block


@dataclass(frozen=True)
class Grown:
    """A task with so many reports: what one of the last block cost, what the processes held, how a batch is collected.

    CPU is in microseconds a report; memory is the most so far; `bytes_each` is of both stores together.
    """

    reports: int
    leader_us: float
    helper_us: float
    leader_mib: float
    helper_mib: float
    bytes_each: float
    collect_s: float


def run(sizes: Sequence[int] = SIZES, *, postgres: str = "") -> Report:
    """One task that grows through all the sizes, each a number of whole blocks. Raises: ValueError, for others."""
    if not sizes or list(sizes) != sorted(set(sizes)) or any(size < _BLOCK or size % _BLOCK for size in sizes):
        raise ValueError(f"sizes are rising multiples of {_BLOCK:,}")
    with tempfile.TemporaryDirectory() as folder:
        root, ports = Path(folder), free_ports()
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        world = made(root, _LENGTH, *urls, precision=_PRECISION)
        stores = (postgres, postgres) if postgres else (str(root / "leader.db"), str(root / "helper.db"))
        with (
            aggregator("helper", root, stores[1], ports[1], "unproved") as helper,
            aggregator("leader", root, stores[0], ports[0], "unproved") as leader,
        ):
            growing = _Growing(world, root, stores, (leader.pid, helper.pid), sizes[-1])
            found = growing.through(sizes)
            rest = growing.collect_rest()
    notes = [_note(each) for each in found]
    notes.append(rest)
    notes.append(f"{os.cpu_count()} cores, shared with the clients; load {os.getloadavg()[0]:.1f}")
    kind = "PostgreSQL" if postgres else "SQLite"
    return Report(f"counting as it grows, over HTTP and {kind}", (), goals(found), notes)


def goals(found: Sequence[Grown]) -> list[Goal]:
    """What is asked, of the sizes from the smallest to the largest."""
    first, last = found[0], found[-1]
    growth = (last.leader_us + last.helper_us) / (first.leader_us + first.helper_us)
    return [
        (
            f"MiB of the leader with {last.reports:,} reports (at most {_MEMORY_MOST_MIB})",
            last.leader_mib,
            last.leader_mib <= _MEMORY_MOST_MIB,
        ),
        (
            f"times the CPU of a report at {first.reports:,}, at {last.reports:,} (at most {_GROWTH_MOST})",
            growth,
            growth <= _GROWTH_MOST,
        ),
    ]


def _note(of: Grown) -> str:
    return (
        f"{of.reports:,} reports: CPU a report of the last {_BLOCK:,}: leader {of.leader_us:.0f} us, helper "
        f"{of.helper_us:.0f} us; most memory: leader {of.leader_mib:.0f} MiB, helper {of.helper_mib:.0f} MiB; "
        f"{of.bytes_each:,.0f} bytes a report on disk; a batch of {_BATCH:,} collected in {of.collect_s * 1000:.0f} ms"
    )


class _Growing:
    """One task under way: blocks of batches go in, each waited for until it is verified."""

    def __init__(self, world: World, root: Path, stores: tuple[str, str], pids: tuple[int, int], most: int) -> None:
        self._world = world
        self._root = root
        self._stores = stores
        self._pids = pids
        self._first = self._next = world.task.time_of(SystemClock().now_us()) - most // _BATCH - 1
        self._collected: set[int] = set()
        self._collector = Collector(world.task, world.collector, vdaf_of(world.task), HttpExchange(TOKEN))
        self._watched = leader_storage(stores[0])

    def through(self, sizes: Sequence[int]) -> list[Grown]:
        """Grow to each size; the last block of each is measured, and the one before is waited for to its end."""
        measured, found = {size // _BLOCK for size in sizes}, list[Grown]()
        with ProcessPoolExecutor(_CLIENTS, multiprocessing.get_context("spawn")) as pool:
            self._send(pool, _BATCH)  # what is loaded at the first report is no cost of one
            self._settle()
            for block in range(1, sizes[-1] // _BLOCK + 1):
                before = self._cpu_s()
                self._send(pool, _BLOCK)
                if block in measured or block + 1 in measured:
                    self._settle()
                else:
                    self._catch_up()
                if block in measured:
                    found.append(self._grown(block * _BLOCK, before))
                if block in measured or block % _TOLD == 0:
                    print(f"{block * _BLOCK:,} of {sizes[-1]:,} reports are counted", file=sys.stderr, flush=True)
        return found

    def collect_rest(self) -> str:
        """Collect the longest run of batches that are left, at once."""
        edges = sorted({self._first - 1, *self._collected, self._next})
        start, stop = max(itertools.pairwise(edges), key=lambda pair: pair[1] - pair[0])
        interval = Interval(start + 1, stop - start - 1)
        seconds = self._collect(interval)
        reports = interval.duration * _BATCH
        memory = " and ".join(f"{peak_mib(pid):.0f}" for pid in self._pids)
        self._watched.close()
        return (
            f"{reports:,} reports in one collection: {seconds:.2f} s; leader and helper then held {memory} MiB at most"
        )

    def _send(self, pool: ProcessPoolExecutor, reports: int) -> None:
        buckets = range(self._next, self._next + reports // _BATCH)
        self._next = buckets.stop
        if sum(pool.map(functools.partial(_send, self._root), buckets)):
            raise AssertionError("a good report was refused")

    def _catch_up(self) -> None:
        """Wait until no report waits for a job."""
        until = time.monotonic() + _WAIT_S
        while self._watched.waiting_reports(self._world.task.task_id, 1):
            if time.monotonic() > until:
                raise TimeoutError("the pair did not count what it was sent")
            time.sleep(0.05)

    def _settle(self) -> None:
        """Wait until all is verified, which the last batch is that is collected."""
        self._catch_up()
        self._collect(Interval(self._next - 1, 1))

    def _collect(self, interval: Interval) -> float:
        """Seconds until the collector has the sums of an interval."""
        started = time.perf_counter()
        found = collected(self._collector, interval)
        seconds = time.perf_counter() - started
        if found.report_count != interval.duration * _BATCH:
            raise AssertionError(f"{found.report_count} reports are counted, and more were sent")
        self._collected |= set(range(interval.start, interval.end))
        return seconds

    def _grown(self, reports: int, before: Sequence[float]) -> Grown:
        leader_us, helper_us = ((a - b) / _BLOCK * 1e6 for a, b in zip(self._cpu_s(), before, strict=True))
        seconds = self._collect(Interval(self._next - 2, 1))
        leader_mib, helper_mib = (peak_mib(pid) for pid in self._pids)
        bytes_each = self._bytes() / (reports + _BATCH)
        return Grown(reports, leader_us, helper_us, leader_mib, helper_mib, bytes_each, seconds)

    def _cpu_s(self) -> list[float]:
        return [cpu_s(pid) for pid in self._pids]

    def _bytes(self) -> int:
        """Of both stores, with what SQLite has not yet brought into them."""
        if isinstance(self._watched, PostgresLeaderStorage):
            ((size,),) = self._watched._read("SELECT pg_database_size(current_database())")
            return size if isinstance(size, int) else 0
        return sum(path.stat().st_size for path in self._root.glob("*.db*"))


# In a process of its own: a client that makes reports and sends them.


@dataclass(frozen=True)
class _Client:
    task: Task
    leader: HpkeKey
    helper: HpkeKey
    exchange: HttpExchange
    signer: Ed25519Signer

    def request(self, bucket: int) -> list[DapReport]:
        vdaf, now_us = vdaf_of(self.task), self.task.start_us(bucket)
        bits = [k % 2 for k in range(_LENGTH)]
        return [
            build_report(
                self.task,
                vdaf,
                bits,
                self.leader.config,
                self.helper.config,
                now_us=now_us,
                rng=os.urandom,
                proof=MembershipProof(self.task.task_id, bucket, self.signer, _PREFIX, os.urandom(_SIGNATURE)),
            )
            for _ in range(_REQUEST)
        ]


@functools.cache
def _client(root: Path) -> _Client:
    (held,) = TaskDirectory(root / "tasks").values()
    keys = ring_key(root, "leader"), ring_key(root, "helper")
    return _Client(held.task, *keys, HttpExchange(TOKEN), Ed25519Signer(os.urandom(32)))


def _send(root: Path, bucket: int) -> int:
    """Make a batch and send it; how many of its reports were refused."""
    client = _client(root)
    requests = (client.request(bucket) for _ in range(_BATCH // _REQUEST))
    return sum(len(upload(client.exchange, client.task, reports)) for reports in requests)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.dap_scale", description="Measure counting as it grows; see bench/METHOD.md."
    )
    parser.add_argument(
        "--reports", metavar="N,N,N", default=",".join(map(str, SIZES)), help="sizes to look at (%(default)s)"
    )
    parser.add_argument("--postgres", metavar="URL", default="", help="in an empty database; auto: start one")
    parser.add_argument("--json", action="store_true", help="figures for programs")
    given = parser.parse_args()
    try:
        with chosen_postgres(given.postgres) as postgres:
            report = run([int(size) for size in given.reports.split(",")], postgres=postgres)
    except ValueError as e:
        parser.error(f"--reports: {e}")
    except NoPostgres as e:
        parser.error(f"--postgres: {e}")
    return shown(report, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
