"""What a poll costs a member when there is no news, and how many members one static mirror keeps current.

    python -m bench.poll                        10, 1,000 and 20,000 targets, in bins; the last in one file beside it
    python -m bench.poll --subscribers 1000     as many members on one static mirror, all current within one poll

The commons, its log and its witnesses are real; the files are served by a process of its own, over loopback. CPU is
this process's own (user and system), for `Subscriber.update` whole: metadata, checkpoint, snapshot's place, status.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import uvicorn
from tuf.api.metadata import TargetFile, Targets  # type: ignore[attr-defined]

from interlock.base.fetch import HttpFetcher, Unreachable, http_client
from interlock.commons import bins
from interlock.commons.layout import LOG_PREFIX, pack_path, snapshot_files
from interlock.commons.logged import LogFetcher
from interlock.commons.pack import sha256_hex
from interlock.commons.repository import Repository
from interlock.commons.signers import load_keys
from interlock.commons.subscribe import Subscriber
from interlock.node.roles.static import static_app
from interlock.transparency.entry import signed_entry
from tests.unit.commons_world import World, pack, world

__all__ = ["Poll", "all_current", "fill", "polled", "served"]

GOAL_MS: Final = 10.0
_REQUESTS: Final = 3  # the next root (404), the timestamp and the checkpoint (304)
_ROLE: Final = "stable"


@dataclass(frozen=True)
class Poll:
    """What a poll without news cost (medians, in milliseconds), and its answers by status."""

    cpu_ms: float
    wall_ms: float
    answers: dict[int, int]

    @property
    def good(self) -> bool:
        return self.answers == {404: 1, 304: _REQUESTS - 1}


def fill(commons: World, count: int, *, binned: bool) -> None:
    """Name `count` targets in the stable ring, with no bytes behind them, in bins or in one file; and show that."""
    repository = Repository(commons.public)
    keys = load_keys(commons.home / "commons" / "keys", (_ROLE, "snapshot", "timestamp"))
    now, base = commons.clock.now_us(), repository.versions()
    ring = repository._read(f"{base[_ROLE]}.{_ROLE}", Targets)
    paths = (pack_path(_ROLE, f"filler-{i}", 1) for i in range(count))
    named = {path: TargetFile.from_data(path, path.encode(), ["sha256"]) for path in paths}
    if binned:
        key = keys[_ROLE].public_key
        for name, one in bins.spread(_ROLE, ring, named, key, now, repository._bin).items():
            repository._sign(name, one, keys[_ROLE])
    else:
        ring.targets.update(named)
    ring.version += 1
    repository._sign(_ROLE, ring, keys[_ROLE])
    version = base["snapshot"] + 1
    data = repository.snapshot(version, {_ROLE: ring.version}, keys["snapshot"], now)
    said = {"type": "snapshot", "name": "snapshot", "ring": "snapshot"}
    entry = signed_entry(keys["snapshot"].key, **said, version=version, sha256=sha256_hex(data), at=now)
    for path, content in zip(snapshot_files(version), (entry.data, commons.log.append(entry.data)), strict=True):
        (commons.public / path).write_bytes(content)
    repository.timestamp(base["timestamp"] + 1, version, keys["timestamp"], now)


@contextlib.contextmanager
def served(public: Path, log: Path) -> Iterator[str]:
    """The URL under which a process of its own serves a commons and its log, as a mirror does, while the block runs."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "bench.poll", "--serve", str(public), str(log), str(port)]
    with subprocess.Popen(command) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            with http_client() as client:
                _await(HttpFetcher(url, client))
            yield url
        finally:
            process.terminate()


def _await(fetcher: HttpFetcher) -> None:
    for _ in range(200):
        try:
            fetcher.fetch("metadata/timestamp.json", max_length=1 << 20)
        except Unreachable:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the server did not start")


def polled(commons: World, url: str, *, times: int = 30) -> Poll:
    """What a poll costs a member that follows one pack, once it is current."""
    answers: Counter[int] = Counter()

    def note(response: httpx.Response) -> None:
        answers[response.status_code] += 1

    with http_client() as client:
        client.event_hooks = {"response": [note]}
        node = _member(commons, f"node-{len(list(commons.home.iterdir()))}", HttpFetcher(url, client))
        for _ in range(3):
            answers.clear()
            node.update()
        once = dict(answers)
        costs: list[tuple[float, float]] = []
        for _ in range(times):
            cpu, wall = time.process_time(), time.perf_counter()
            node.update()
            costs.append((time.process_time() - cpu, time.perf_counter() - wall))
    cpus, walls = zip(*costs, strict=True)
    return Poll(statistics.median(cpus) * 1000, statistics.median(walls) * 1000, once)


def all_current(commons: World, url: str, members: int) -> tuple[int, float]:
    """How many of so many members have a new version after one poll each, and in how many seconds they polled."""
    with http_client() as client:
        nodes = [_member(commons, f"member-{i}", HttpFetcher(url, client)) for i in range(members)]
        for node in nodes:
            node.update()
        commons.publisher.publish(pack(2), _ROLE)
        began = time.perf_counter()
        current = sum(node.update().rows[0].version == 2 for node in nodes)
        return current, time.perf_counter() - began


def _member(commons: World, name: str, fetcher: HttpFetcher) -> Subscriber:
    node = commons.member(name, fetcher, LogFetcher(fetcher))
    node.subscribe("team", _ROLE)
    return node


def _serve(public: Path, log: Path, port: int) -> None:
    mounts = {"/metadata": public / "metadata", "/targets": public / "targets", f"/{LOG_PREFIX}": log}
    changing = {"metadata/timestamp.json", f"{LOG_PREFIX}/checkpoint"}
    uvicorn.run(static_app(mounts, lambda path: path in changing), port=port, log_level="error", access_log=False)


@contextlib.contextmanager
def _commons() -> Iterator[World]:
    with tempfile.TemporaryDirectory() as folder, world(Path(folder)) as made:
        made.publisher.publish(pack(), _ROLE)
        yield made


def main() -> int:
    """Exit code 0 when every goal was met, 1 when one was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench.poll", description="Measure polls of a member node.")
    parser.add_argument("--subscribers", metavar="N", type=int, help="measure N members on one mirror instead")
    parser.add_argument("--serve", nargs=3, metavar=("PUBLIC", "LOG", "PORT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        _serve(Path(given.serve[0]), Path(given.serve[1]), int(given.serve[2]))
        return 0
    return _members(given.subscribers) if given.subscribers else _polls()


def _polls() -> int:
    met = True
    for count, binned in ((10, True), (1000, True), (20_000, True), (20_000, False)):
        with _commons() as commons:
            fill(commons, count, binned=binned)
            with served(commons.public, commons.log.public) as url:
                poll = polled(commons, url)
        place = "in bins where large" if binned else "in one file"
        print(
            f"{count:>6} targets {place:<20} {poll.cpu_ms:7.2f} ms CPU {poll.wall_ms:7.2f} ms  {poll.answers}",
            flush=True,
        )
        met = met and poll.good and (poll.cpu_ms < GOAL_MS or not binned)
    print(f"goal: {_REQUESTS} requests, under {GOAL_MS:g} ms of CPU in bins: {'met' if met else 'missed'}")
    return 0 if met else 1


def _members(count: int) -> int:
    with _commons() as commons, served(commons.public, commons.log.public) as url:
        current, seconds = all_current(commons, url, count)
    print(f"{current} of {count} members current after one poll each, {seconds:.1f} s one after the other")
    return 0 if current == count else 1


if __name__ == "__main__":
    sys.exit(main())
