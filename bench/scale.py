"""From 10 to 100,000 rules on hosts, digests and actions: the cost of a call, of loading and of a reload."""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import interlock
from bench.plain import installed_with, under
from bench.report import Goal, Line, Report
from bench.timing import Figures, race

__all__ = ["run"]

_SIZES: Final = (10, 100, 1_000, 10_000, 100_000)
_ROUNDS: Final = 4_000
_A_DOCUMENT: Final = 10_000  # rules in one document; more are spread over documents that one extends


def run() -> Report:
    """Growth of the median over the sizes, the load of 10,000 rules, and the longest pause of a guard at a reload."""
    judges: dict[str, Callable[[int], object]] = {}
    loads: dict[int, float] = {}
    for size in _SIZES:
        started = time.perf_counter()
        guard = _guard(size)
        loads[size] = time.perf_counter() - started
        judges[f"{size:,} rules"] = under(guard, _judge)
    found = race(judges, list(range(500)), _ROUNDS)
    medians = [figures.p50 for figures in found.values()]
    growth = max(medians) / medians[0]
    pause = _reload_pause()
    goals: list[Goal] = [
        ("times the median of 10 rules, at worst (less than 2)", growth, growth < 2),
        ("s to load 10,000 rules (at most 1)", loads[10_000], loads[10_000] <= 1),
        ("ms: the longest call during reloads of 10,000 rules (at most 1)", pause.longest / 1e6, pause.longest <= 1e6),
    ]
    lines = [*(Line(*pair) for pair in found.items()), Line("calls during reloads", pause)]
    return Report("10 to 100,000 rules: hosts, digests, actions", lines, goals)


def _rules(first: int, size: int) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = []
    for k in range(first, first + size):
        kinds: tuple[dict[str, Any], ...] = (
            {"all": [{"action": {"equals": "http_post"}}, {"arg": "host", "equals": f"h{k}.bad.example"}]},
            {"arg": "sha256", "equals": hashlib.sha256(str(k).encode()).hexdigest()},
            {"action": {"equals": f"tool_{k}"}},
        )
        rules.append({"id": f"r{k}", "when": kinds[k % 3], "verdict": "block", "reason": "listed"})
    return rules


def _document(name: str, rules: list[dict[str, Any]], extends: tuple[str, ...] = ()) -> bytes:
    body = {"format": "interlock-policy", "v": 1, "name": name, "extends": list(extends), "rules": rules}
    return json.dumps(body).encode()


def _guard(size: int) -> Any:
    if size <= _A_DOCUMENT:
        return installed_with(_document("scale", _rules(0, size)), python=False)
    with tempfile.TemporaryDirectory() as folder:
        names = []
        for part in range(size // _A_DOCUMENT):
            names.append(f"part{part}.json")
            Path(folder, names[-1]).write_bytes(_document(f"part{part}", _rules(part * _A_DOCUMENT, _A_DOCUMENT)))
        whole = Path(folder, "whole.json")
        whole.write_bytes(_document("whole", [], tuple(names)))
        interlock.install(policy=whole)
        from interlock.engine import ambient

        guard = ambient.installed()
        policy = guard.live.current
    interlock.install(policy=policy)
    return ambient.installed()


def _judge(k: int) -> object:
    args = {"host": f"h{k}.good.example", "sha256": hashlib.sha256(b"x%d" % k).hexdigest(), "body": "nothing to see"}
    return interlock.enforce_tool_call("http_post" if k % 2 else "fetch", args)


def _reload_pause() -> Figures:
    """Calls in one thread while another writes a changed policy of 10,000 rules three times."""
    taken: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "policy.json")
        rules = _rules(0, 10_000)
        file.write_bytes(_document("reload", rules))
        interlock.install(policy=file)
        stop = threading.Event()
        writer = threading.Thread(target=_rewrite, args=(file, rules, stop))
        writer.start()
        while not stop.is_set():
            started = time.perf_counter_ns()
            _judge(1)
            taken.append(time.perf_counter_ns() - started)
        writer.join()
    return Figures.of(taken)


def _rewrite(file: Path, rules: list[dict[str, Any]], stop: threading.Event) -> None:
    for turn in range(3):
        changed = [*rules[:-1], {**rules[-1], "reason": f"listed, turn {turn}"}]
        data = _document("reload", changed)
        new = file.with_suffix(".new")
        new.write_bytes(data)
        new.replace(file)
        time.sleep(2.5)
    stop.set()
