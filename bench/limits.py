"""Inputs at the limits: what the worst command, argument and result cost."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

import interlock
from bench.plain import installed_with, under
from bench.report import Goal, Line, Report, Turn, profiles
from bench.timing import Figures, measure
from interlock.engine.policy.builtins import builtin

__all__ = ["CASES", "goals", "run"]

_TIMES: Final = 30
_MILLI: Final = 1_000_000
_VARIABLES: Final = "".join(f"v{k}=1;" for k in range(500))

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
    "wrappers around 30,000 words": lambda: _bash("nice env sudo " * 13 + "a " * 30_000),
    "a subcommand of itself": lambda: _bash("docker " + "compose " * 8_000),
    "2,000 deletes behind wrappers": lambda: _bash("sudo nice rm " + " ".join(f"build/f{k}.o" for k in range(2_000))),
    "16,000 globs": lambda: _bash("rm " + "/*a " * 16_000),
    "a name for each item": lambda: _bash("parallel echo a{} " + "{} " * 9_000 + "::: " + "x " * 9_000),
    "joined wrappers": lambda: _bash(("watch " * 20 + "a " * 1_500 + "\n") * 20),
    "500 variables in 3,000 branches": lambda: _bash(_VARIABLES + "if a; then b; fi;" * 3_000),
    "500 variables before 6,000 commands": lambda: _bash(_VARIABLES + "a=1 ls;" * 6_000),
    "a long IFS": lambda: _bash(f"IFS='{'b' * 30_000}'; x='{'z' * 20_000}'; " + "echo $x;" * 500),
    "globs taken off a value": lambda: _bash(f"x={'a' * 500}b;" + "y=${x%%a*a*a*a*c*};" * 2_800),
    "parameters shifted": lambda: _bash("set -- " + "a " * 10_000 + "; " + "shift;" * 5_000),
    "an array that grows": lambda: _bash("x=(a);" + "x+=(a b);" * 6_000),
    "a directory that grows": lambda: _bash(("cd " + "a/" * 2_000 + ";") * 16 + "ls > b;" * 1_500),
    "nested arithmetic": lambda: _bash(("echo " + "$((" * 48 + "1" * 300 + "))" * 48 + ";") * 100),
    "substitutions in a here-document": lambda: _bash("cat <<E\n" + "`ls`" * 15_000 + "\nE\n"),
    "60 KB of Python": lambda: _bash("python -c '" + "x=1;" * 15_000 + "'"),
    "60 KB of escaped quotes in Python": lambda: _bash("python -c '\"" + '\\"' * 30_000 + "'"),
    "blanks after a keyword in Python": lambda: _bash("python -c 'while" + " " * 60_000 + "'"),
    "one name of 60 KB in Python": lambda: _bash("python -c '" + "a->" * 20_000 + "'"),
    "60 KB of lines for sed": lambda: _bash("sed '" + "\n" * 60_000 + "'"),
    "15,000 substitutions of sed": lambda: _bash("sed '" + ";s//" * 15_000 + "'"),
    "aliases of git": lambda: _bash("git " + "-c alias.x=log " * 3_000 + "x"),
    "open comments in SQL": lambda: _bash("psql -c '" + "/*" * 30_000 + "'"),
    "modes of one letter": lambda: _bash("chmod " + "uau" * 20_000 + " f"),
    "256 KB argument": lambda: ("http_post", {"url": "https://api.example.org/x", "body": "lorem ipsum " * 21_000}),
    "256 KB of digits": lambda: ("http_post", {"url": "https://api.example.org/x", "body": "4111 1111 " * 25_000}),
    "256 KB of URLs": lambda: ("http_post", {"url": "https://api.example.org/x", "body": "http://a" * 32_000}),
    "256 KB of secrets": lambda: ("http_post", {"url": "https://api.example.org/x", "body": "secret = '" * 25_000}),
}


def run() -> Report:
    """The slowest of all cases under each engine, each case's 95th percentile a line."""
    data = builtin("coding-agent")
    lines: list[Line] = []
    worst: dict[str, tuple[int, Turn]] = {}
    for name, make in CASES.items():
        given = make()
        for engine in ("native", "python"):
            judge = under(installed_with(data, python=engine == "python"), _judge)
            turn = functools.partial(judge, given)
            figures = measure(turn, _TIMES if engine == "native" else 8)
            lines.append(Line(f"{name}, {engine}", figures))
            if engine not in worst or figures.p95 > worst[engine][0]:
                worst[engine] = figures.p95, (lines[-1].name, turn)
    lines.append(Line("1 MB result scanned", _result(data)))
    (native, slowest), (python, slowest_python) = worst["native"], worst["python"]
    reached = goals(native, python)
    notes = profiles(reached, [slowest, slowest_python])
    return Report("inputs at the limits, builtin:coding-agent", lines, reached, notes)


def goals(native: int, python: int) -> list[Goal]:
    """What is asked, of each engine's slowest case: its 95th percentile in nanoseconds."""
    return [
        ("ms p95 of the slowest case, native (5)", native / _MILLI, native <= 5 * _MILLI),
        ("ms p95 of the slowest case, Python (200)", python / _MILLI, python <= 200 * _MILLI),
    ]


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
