"""Inputs at the limits: what the worst command, argument and result cost."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

import interlock
from bench.plain import installed_with, under
from bench.report import Goal, Line, Report
from bench.timing import Figures, measure
from interlock.engine.policy.builtins import builtin

__all__ = ["CASES", "run"]

_TIMES: Final = 30
_MILLI: Final = 1_000_000

# name -> the tool and its arguments, made when asked
CASES: Final[dict[str, Callable[[], tuple[str, dict[str, object]]]]] = {
    "64 KB command of words": lambda: _bash("echo " + "abcdefg " * 8_000),
    "64 KB command of commands": lambda: _bash("cp a b; " * 8_000),
    "64 KB of nested eval": lambda: _bash("eval '" * 100 + "x " * 31_000 + "'" * 100),
    "64 KB of quotes": lambda: _bash("echo " + "'a'\"b\"" * 10_000),
    "300 nested substitutions": lambda: _bash("echo " + "$(" * 300 + "ls" + ")" * 300),
    "1,000 pipes": lambda: _bash(" | ".join(["cat"] * 1_000)),
    "2,000 arguments": lambda: _bash("rm " + " ".join(f"build/f{k}.o" for k in range(2_000))),
    "brace expansion": lambda: _bash("echo " + "{a,b}" * 16),
    "256 KB argument": lambda: ("http_post", {"url": "https://api.example.org/x", "body": "lorem ipsum " * 21_000}),
    "256 KB of digits": lambda: ("http_post", {"url": "https://api.example.org/x", "body": "4111 1111 " * 25_000}),
}


def run() -> Report:
    """The slowest of all cases under each engine, each case's 95th percentile a line."""
    data = builtin("coding-agent")
    lines: list[Line] = []
    worst = {"native": 0, "python": 0}
    for name, make in CASES.items():
        given = make()
        for engine in worst:
            judge = under(installed_with(data, python=engine == "python"), _judge)
            figures = measure(functools.partial(judge, given), _TIMES if engine == "native" else 8)
            lines.append(Line(f"{name}, {engine}", figures))
            worst[engine] = max(worst[engine], figures.p95)
    lines.append(Line("1 MB result scanned", _result(data)))
    goals: list[Goal] = [
        ("ms p95 of the slowest case, native (5)", worst["native"] / _MILLI, worst["native"] <= 5 * _MILLI),
        ("ms p95 of the slowest case, Python (200)", worst["python"] / _MILLI, worst["python"] <= 200 * _MILLI),
    ]
    return Report("inputs at the limits, builtin:coding-agent", lines, goals)


def _bash(command: str) -> tuple[str, dict[str, object]]:
    return "Bash", {"command": command[: 64 * 1024]}


def _judge(given: tuple[str, dict[str, object]]) -> object:
    try:
        return interlock.enforce_tool_call(*given)
    except interlock.Blocked as refusal:
        return refusal


def _result(data: bytes) -> Figures:
    text = "the tool printed this line, and then another one like it\n" * 18_000
    guard = installed_with(data, python=False)
    judge = under(guard, functools.partial(interlock.enforce_tool_result, "WebFetch"))
    return measure(functools.partial(judge, text), _TIMES)
