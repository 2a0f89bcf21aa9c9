"""The log: what an append and a proof cost as it grows, how it starts, and how much it takes over HTTP.

`python -m bench.log [--quick] [--json] [--beside DIR]`; exit code 0 when every goal was met, 1 when one was missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.log_client import Told
from bench.log_server import ALSO, SIGNER, TOKEN
from bench.processes import cpu_s
from bench.report import Goal, Line, Report, shown
from bench.timing import Figures, measure
from interlock.transparency.log import Log, open_log

__all__ = ["goals", "run"]

SIZES: Final = (10_000, 100_000, 1_000_000)
QUICK: Final = (1_000, 10_000)
_CLIENTS: Final = 8
_CONNECTIONS: Final = 64  # of each client
_SECONDS: Final = 6.0
_TIMES: Final = 60
_BATCH: Final = 10_000
_LEAST: Final = 2_000  # durable appends a second
_P99_MOST_S: Final = 2.0
_APPEND_GROWTH_MOST: Final = 1.5  # from the smallest size to the largest
_PROOF_GROWTH_MOST: Final = 3.0
_START_MOST_S: Final = 1.0
_CPU_MOST_US: Final = 200
_MEMORY_MOST: Final = 1.5  # of a start, the largest beside the smallest
_START: Final = """
import resource, sys, time
from pathlib import Path
from bench.log_server import ALSO, SIGNER
from interlock.transparency.log import open_log
started = time.perf_counter()
with open_log(Path(sys.argv[1]), SIGNER, [ALSO]) as log:
    print(time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@dataclass(frozen=True)
class Grown:
    """A log of some size: one append with all that makes it readable, one proof, a start in seconds, its memory.

    `first` is a proof of an entry whose tile was not read before, where the log has more tiles than proofs are made:
    hashing one tile costs the same in any log. `proof` is the same ones again.
    """

    append: Figures
    first: Figures
    proof: Figures
    start_s: float
    memory_kib: int


@dataclass(frozen=True)
class Load:
    """Adds over HTTP: how many a second, how long each took, and microseconds of the log's own CPU for one."""

    rate: float
    took: Figures
    cpu_us: float


def run(*, quick: bool = False, folder: Path | None = None) -> Report:
    """Measure all of it in a temporary folder, made below `folder`: the disk there is what is measured."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        root, sizes = Path(made), QUICK if quick else SIZES
        grown = {size: _grown(root / "log", size) for size in sizes}
        table = _sqlite(root / "table.sqlite")
        batches = load(root / "load", seconds=2.0 if quick else _SECONDS)
        alone = load(root / "alone", seconds=2.0, connections=1)
    lines = [Line(f"append, sign, publish, {size:,} entries", found.append) for size, found in grown.items()]
    lines += [Line(f"prove an entry of {size:,}, the first time", found.first) for size, found in grown.items()]
    lines += [Line(f"prove an entry of {size:,}, once more", found.proof) for size, found in grown.items()]
    lines.append(Line("SQLite: insert a row, synced", table))
    for told, found in ((_CONNECTIONS, batches), (1, alone)):
        lines.append(Line(f"POST /add, {_CLIENTS} clients of {told} ({found.rate:,.0f} a second)", found.took))
    notes = [f"start at {size:,}: {g.start_s:.2f} s, {g.memory_kib / 1024:.0f} MiB" for size, g in grown.items()]
    least = grown[min(grown)]
    notes += [
        f"an append of one entry, readable and signed with both keys, takes {least.append.p50 / table.p50:.1f} times "
        "as long as a row of SQLite",
        f"the log's own CPU for an add under load: {batches.cpu_us:.0f} us, which is {1e6 / batches.cpu_us:,.0f} a "
        "second on a core of its own",
        f"two witnesses with two keys each; {os.cpu_count()} cores, shared with witnesses and clients; load average "
        f"{os.getloadavg()[0]:.1f}",
    ]
    return Report("the log", lines, goals(list(grown.values()), batches), notes)


def goals(grown: Sequence[Grown], under: Load) -> list[Goal]:
    """What is asked, of logs from the smallest to the largest and of the load."""
    least, most = grown[0], grown[-1]
    append, proof = most.append.p50 / least.append.p50, most.proof.p50 / least.proof.p50
    memory, start_s = most.memory_kib / least.memory_kib, max(one.start_s for one in grown)
    p99_s = under.took.p99 / 1e9
    of = "of the largest (at most"
    return [
        (f"durable appends a second from {_CLIENTS} clients (at least {_LEAST:,})", under.rate, under.rate >= _LEAST),
        (f"seconds, the 99th percentile of an add under that load (below {_P99_MOST_S})", p99_s, p99_s < _P99_MOST_S),
        (
            f"us of the log's CPU an add under that load (below {_CPU_MOST_US})",
            under.cpu_us,
            under.cpu_us < _CPU_MOST_US,
        ),
        (
            f"times the smallest log's append, {of} {_APPEND_GROWTH_MOST})",
            append,
            append <= _APPEND_GROWTH_MOST,
        ),
        (f"times the smallest log's proof, {of} {_PROOF_GROWTH_MOST})", proof, proof <= _PROOF_GROWTH_MOST),
        (f"seconds, the longest start (at most {_START_MOST_S})", start_s, start_s <= _START_MOST_S),
        (f"times the smallest log's memory, {of} {_MEMORY_MOST})", memory, memory <= _MEMORY_MOST),
    ]


def load(root: Path, *, seconds: float, clients: int = _CLIENTS, connections: int = _CONNECTIONS) -> Load:
    """Adds over HTTP to a log with two witnesses, each in a process of its own."""
    root.mkdir(parents=True)
    (root / "token").write_text(TOKEN)
    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(_served(name, root))[0] for name in ("w0", "w1")]
        url, log = stack.enter_context(_served("log", root, *urls))
        host, port = url.removeprefix("http://").split(":")
        words = [host, port, str(root / "token")]
        running = [
            _python("-m", "bench.log_client", *words, str(seed), str(connections), str(seconds))
            for seed in range(1, clients + 1)
        ]
        for client in running:
            _line(client)  # it is ready, and so the log has long started
        before = cpu_s(log.pid)
        told = _told(running)
        spent = cpu_s(log.pid) - before
    taken = [ns for one in told for ns in one.taken]
    wall = max(one.ended for one in told) - min(one.began for one in told)
    return Load(len(taken) / wall, Figures.of(taken), spent / len(taken) * 1e6)


def _told(running: Sequence[subprocess.Popen[str]]) -> list[Told]:
    """Let all clients begin at once, and hear what each found."""
    for client in running:
        assert client.stdin is not None
        client.stdin.write("go\n")
        client.stdin.flush()
    told = [Told(**json.loads(_line(client))) for client in running]
    for client in running:
        client.communicate()
    return told


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _grown(root: Path, size: int) -> Grown:
    with open_log(root, SIGNER, [ALSO]) as log:
        while log.size < size:
            start = log.size
            log.append([b"entry %d" % n for n in range(start, min(size, start + _BATCH))])
            log.publish(log.integrate())
        _settled()
        append = measure(_appending(log), _TIMES)
        first, proof = (measure(_proving(log), _TIMES) for _ in range(2))
    _settled()
    done = subprocess.run([sys.executable, "-c", _START, str(root)], capture_output=True, text=True, check=True)
    seconds, memory = done.stdout.split()
    return Grown(append, first, proof, float(seconds), int(memory))


def _settled() -> None:
    """Let the disk finish what a whole log was made with: what is measured next is one append, or one start."""
    if hasattr(os, "sync"):
        os.sync()


def _appending(log: Log) -> Callable[[], object]:
    def one() -> None:
        log.append([b"one more, %d" % log.size])
        log.publish(log.integrate())

    return one


def _proving(log: Log) -> Callable[[], object]:
    numbers = iter(range(0, log.size, max(1, log.size // (2 * _TIMES))))
    return lambda: log.prove(next(numbers), log.signed).data


def _sqlite(path: Path) -> Figures:
    """What somebody could use who wants durable rows, and no proof of anything."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE entry (place INTEGER PRIMARY KEY, data BLOB)")
        return measure(lambda: db.execute("INSERT INTO entry (data) VALUES (?)", (b"one more",)), _TIMES)


@contextlib.contextmanager
def _served(role: str, root: Path, *urls: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The URL of a server, which ends with the block."""
    process = _python("-m", "bench.log_server", role, str(root / role), *urls)
    try:
        yield _line(process).strip(), process
    finally:
        process.communicate()


def _python(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.log", description="Measure the log; see bench/METHOD.md.")
    parser.add_argument("--quick", action="store_true", help="small logs, a minute in all")
    parser.add_argument("--json", action="store_true", help="figures for programs, in nanoseconds")
    parser.add_argument(
        "--beside", metavar="DIR", type=Path, help="measure this disk; by default that of temporary files"
    )
    given = parser.parse_args()
    report = run(quick=given.quick, folder=given.beside)
    return shown(report, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
