"""From 10 to 100,000 rules on hosts, digests, actions and listed files: the cost of a call, of loading, of a reload."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import interlock
from bench.plain import under
from bench.report import Goal, Line, Report, profiles
from bench.timing import Figures, race
from bench.waits import Waits
from interlock.engine import ambient
from interlock.engine.detectors.indicator import indicator_of
from interlock.engine.event import SensorEvent
from interlock.engine.policy.builtins import resolver
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Source
from interlock.native.evaluator import chosen_evaluator

__all__ = ["goals", "policy_of", "rules_from", "run"]

_SIZES: Final = (10, 100, 1_000, 10_000, 100_000)
_ROUNDS: Final = 4_000
_RELOADS: Final = 3
_LONGEST_S: Final = 120.0  # in which so many are loaded on any machine
_WARM_UPS: Final = 200
_A_LOOK: Final = 100  # calls between two looks at whether the writer is done, and at which threads there are
_MOMENT_NS: Final = 300_000  # of a call from which on it is asked what it waited for
_A_DOCUMENT: Final = 10_000  # rules in one document; more are spread over documents that one extends


def run() -> Report:
    """Growth of the median over the sizes, loads of 10,000 rules and of a long list, the longest pause at a reload."""
    judges: dict[str, Callable[[int], object]] = {}
    loads: dict[int, float] = {}
    for size in _SIZES:
        guard, loads[size] = _guard(size)
        judges[f"{size:,} rules"] = under(guard, _judge)
    found = race(judges, list(range(500)), _ROUNDS)
    during, pause, note = _reload_pause()
    listed = {kind: min(_listing(kind) for _ in range(_RELOADS)) for kind in ("host", "file")}
    reached = goals([figures.p50 for figures in found.values()], loads[10_000], pause, listed["file"] / listed["host"])
    name, judge = list(judges.items())[-1]
    loading = ("the load of 10,000 rules", lambda: _guard(10_000))
    listing = ("the load of a rule of 100,000 files", lambda: _listing("file"))
    notes = profiles(reached, [(name, lambda: [judge(k) for k in range(500)]), loading, loading, listing])
    lines = [*(Line(*pair) for pair in found.items()), Line("calls during reloads", during)]
    largest = f"{loads[_SIZES[-1]]:.1f} s to load {_SIZES[-1]:,} rules, from {_SIZES[-1] // _A_DOCUMENT} documents"
    lists = (
        f"{listed['file']:.2f} s of CPU to load a rule of {_SIZES[-1]:,} listed files, {listed['host']:.2f} s of hosts"
    )
    title = "10 to 100,000 rules: hosts, digests, actions, listed files"
    return Report(title, lines, reached, [largest, lists, note, *notes])


def goals(medians: Sequence[int], load_s: float, pause_ms: float, files: float) -> list[Goal]:
    """What is asked, of the medians from the fewest rules to the most, the load of 10,000, and the longest pause.

    `files` is the load of 100,000 listed files, times that of as many hosts.
    """
    growth = max(medians) / medians[0]
    return [
        ("times the median of 10 rules, at worst (less than 2)", growth, growth < 2),
        ("s to load 10,000 rules (at most 1)", load_s, load_s <= 1),
        ("ms: the longest pause of a call by reloads of 10,000 rules (at most 1)", pause_ms, pause_ms <= 1),
        ("times the load of 100,000 listed hosts, for files (at most 1.5)", files, files <= 1.5),
    ]


def rules_from(first: int, size: int) -> list[dict[str, Any]]:
    """Rules on hosts, digests, actions and listed files, a quarter each, numbered on from `first`."""
    rules: list[dict[str, Any]] = []
    for k in range(first, first + size):
        kinds: tuple[dict[str, Any], ...] = (
            {"all": [{"action": {"equals": "http_post"}}, {"arg": "host", "equals": f"h{k}.bad.example"}]},
            {"arg": "sha256", "equals": hashlib.sha256(str(k).encode()).hexdigest()},
            {"action": {"equals": f"tool_{k}"}},
            {"detector": "indicator", "params": {"digests": [_indicator("file", k)]}},
        )
        rules.append({"id": f"r{k}", "when": kinds[k % 4], "verdict": "block", "reason": "listed"})
    return rules


def _indicator(kind: str, k: int) -> str:
    return indicator_of(kind, f"h{k}.bad.example" if kind == "host" else hashlib.sha256(str(k).encode()).hexdigest())


def _listing(kind: str) -> float:
    """Seconds of CPU that it takes to load and to compile a policy of one rule that lists so many of a kind."""
    digests = [_indicator(kind, k) for k in range(_SIZES[-1])]
    when = {"detector": "indicator", "params": {"digests": digests}}
    data = policy_of("listing", [{"id": "r", "when": when, "verdict": "block", "reason": "listed"}])
    started = time.process_time()
    policy = load_policy(data, where="listing", source=Source("file"), resolve=resolver(None))
    chosen_evaluator().evaluate(policy, SensorEvent("t", {}))
    return time.process_time() - started


def policy_of(name: str, rules: list[dict[str, Any]], extends: tuple[str, ...] = ()) -> bytes:
    """The bytes of a policy document."""
    body = {"format": "interlock-policy", "v": 1, "name": name, "extends": list(extends), "rules": rules}
    return json.dumps(body).encode()


def _guard(size: int) -> tuple[ambient.Installed, float]:
    """A guard of so many rules, and the seconds that it took to install them from their file.

    The guard itself has no file: whether one has changed is another question than what its rules cost.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = _written(Path(folder), size)
        started = time.perf_counter()
        interlock.install(policy=file)
        seconds = time.perf_counter() - started
        policy = ambient.installed().live.current
    interlock.install(policy=policy)
    return ambient.installed(), seconds


def _written(folder: Path, size: int) -> Path:
    file = folder / "whole.json"
    if size <= _A_DOCUMENT:
        file.write_bytes(policy_of("scale", rules_from(0, size)))
        return file
    names = []
    for part in range(size // _A_DOCUMENT):
        names.append(f"part{part}.json")
        (folder / names[-1]).write_bytes(policy_of(f"part{part}", rules_from(part * _A_DOCUMENT, _A_DOCUMENT)))
    file.write_bytes(policy_of("whole", [], tuple(names)))
    return file


def _judge(k: int) -> object:
    args = {"host": f"h{k}.good.example", "sha256": hashlib.sha256(b"x%d" % k).hexdigest(), "body": "nothing to see"}
    return interlock.enforce_tool_call("http_post" if k % 2 else "fetch", args)


def _reload_pause() -> tuple[Figures, float, str]:
    """Calls while another process writes a changed policy of 10,000 rules; their longest pause in ms, and a note."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "policy.json")
        file.write_bytes(policy_of("reload", rules_from(0, 10_000)))
        interlock.install(policy=file)
        program = [sys.executable, "-m", "bench.rewriter", str(file), str(_RELOADS)]
        with subprocess.Popen(program, stdin=subprocess.PIPE, bufsize=0) as writer:
            walls, own = _calls(_driven(writer))
        if (loaded := ambient.installed().live.epoch - 1) != _RELOADS:
            raise RuntimeError(f"{loaded} of {_RELOADS} changes were loaded")
    rare, pause = sorted(own)[int(len(own) * 0.999)] / 1e6, max(own) / 1e6
    return (
        Figures.of(own),
        pause,
        f"of {len(own):,} calls during {_RELOADS} reloads, 999 in 1,000 took less than {rare:.2f} ms and "
        f"{sum(ns > _MOMENT_NS for ns in own)} more than {_MOMENT_NS / 1e6} ms; with the time in which the process "
        f"waited for a core, which other programs had, the longest took {max(walls) / 1e6:.1f} ms",
    )


def _driven(writer: subprocess.Popen[bytes]) -> Callable[[], bool]:
    """Tells the writer of each policy that is loaded; whether it has written all. Raises: RuntimeError, for none."""
    live, told, end = ambient.installed().live, 1, time.monotonic() + _LONGEST_S

    def done() -> bool:
        nonlocal told
        if live.epoch > told and writer.stdin is not None:
            told = live.epoch
            writer.stdin.write(b"\n")
        if time.monotonic() > end:
            writer.kill()
            raise RuntimeError(f"{told - 1} of {_RELOADS} changes were loaded in {_LONGEST_S} s")
        return writer.poll() is not None

    return done


def _calls(done: Callable[[], bool]) -> tuple[list[int], list[int]]:
    """Nanoseconds of calls until `done`: by the clock, and without what other programs on the machine took."""
    walls, own = [0], [0]
    for k in range(_WARM_UPS):
        _judge(k)
    waits = Waits()
    while not done():
        waits.look()
        for _ in range(_A_LOOK):
            waits.begin()
            started = time.perf_counter_ns()
            _judge(1)
            wall = time.perf_counter_ns() - started
            walls.append(wall)
            own.append(waits.left(wall) if wall > _MOMENT_NS else wall)
    return walls, own
