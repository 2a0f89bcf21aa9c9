"""Inputs at the limits: what the worst command, argument and result cost."""

from __future__ import annotations

import functools
import json
import random
import string
from collections.abc import Callable, Iterator
from typing import Final, cast

import interlock
from bench.plain import installed_with, under
from bench.report import Goal, Line, Report, Turn, profiles
from bench.timing import measure
from interlock.engine.detectors.secret_forms import FORMS
from interlock.engine.policy.builtins import builtin

__all__ = ["CASES", "RESULTS", "goals", "result_policy", "run"]

_TIMES: Final = {"native": 60, "python": 3}
_MEGABYTE: Final = 1 << 20
_CALLS: Final = "the slowest call"
_PROSE: Final = "a 1 MB result of prose"
_HOSTILE: Final = "the slowest hostile 1 MB result"
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
    "13,000 commands behind dashes": lambda: _bash("x " + "-- x " * 13_000),
    "7,000 options with code": lambda: _bash("x " + "-c 'a b' " * 7_000),
    "5,000 unknown programs with a known one": lambda: _bash("x git a cp b;" * 5_000),
    "a makefile of settings": lambda: _bash("make '" + "SHELL = " * 8_000 + "'"),
    "256 KB argument": lambda: ("http_post", {"url": "https://api.example.org/x", "body": "lorem ipsum " * 21_000}),
    "256 KB of digits": lambda: ("http_post", {"url": "https://api.example.org/x", "body": "4111 1111 " * 25_000}),
    "256 KB of URLs": lambda: ("http_post", {"url": "https://api.example.org/x", "body": "http://a" * 32_000}),
    "256 KB of secrets": lambda: ("http_post", {"url": "https://api.example.org/x", "body": "secret = '" * 25_000}),
}

# what a tool returned, a unit that is repeated up to a megabyte of UTF-8: prose, and what each detector has to look at
# closely
RESULTS: Final = {
    "prose": "the tool printed this line, and then another one like it\n",
    "JSON": '{"id": 12345, "name": "tokenizer", "key": "abc def", "url": "https://x.example/a?b=c"},\n',
    "passwords": "password = 'hunter2hunter2'\n",
    "password=": "password=",
    "pass": "pass",
    "key:": "key:",
    "keys of one letter": "key='aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'",
    "digits": "4111 1111 ",
    "digits of full width": "\uff14\uff11\uff11\uff11 ",
    "cards that fail the check": "4111 1111 1111 1112\n",
    "IBANs": "DE89 ",
    "IBANs that end with a word": "AT89 ",
    "IBANs, one a line": "AT89\n",
    "IBANs that fail the check": "DE89 3704 0044 0532 0130 01\n",
    "URLs": "http://a:b",
    "@": "a@",
    "heads of private keys": "-----BEGIN PRIVATE KEY-----",
    "starts of JWTs": "eyJaaaaaaaaaaaa.",
    "starts of JWTs within each other": "-eyJ",
    "JWTs within JWTs": "eyJ-eyJ-eyJ.eyJ-",
    "literals of issuers": " ".join(f"{literal}aaaaaaaaaaaa" for form in FORMS for literal in form.literals) + " ",
    "an issuer's sign": "aa1Q~",
    "an issuer's sign, glued": "Q~",
    "an issuer's sign in keys of six letters": "abc1Q~",
    "starts of keys": "sk-",
    "passwords that are words": "password: ",
    "headers without a value": "authorization: ",
    "first letters of a header": "B",
    "openings of marks": "[",
    "no digits of many bytes": "\U0001f600",
    "flags": "\U0001f1e6",
    "curl -u": "curl -u ",
    "Cyrillic": "\u043f\u0430\u0440\u043e\u043b\u044c ",
    "three alphabets": "a\u044f\u4e2d",
    "marks without letters": "\u0301",
    "commands for a pattern": "npm ",
}
_DRAWN: Final = random.Random(1)  # noqa: S311 - drawn to be measured
# the same, where a unit does not say it: signs that were drawn, and values of many small texts
_OTHERS: Final[dict[str, Callable[[], object]]] = {
    "signs that were drawn": lambda: "".join(_DRAWN.choices(string.ascii_letters + string.digits + "-_", k=_MEGABYTE)),
    "IBANs that were drawn": lambda: " ".join(f"AT{_DRAWN.randrange(100):02}" for _ in range(_MEGABYTE // 5)),
    "100,000 texts": lambda: ["abcdefghij"] * 100_000,
    "50,000 mappings": lambda: [{"a": "b", "c": 1} for _ in range(50_000)],
    "mappings within each other": lambda: [_deep(50) for _ in range(600)],
}


def run() -> Report:
    """The slowest call, the result of prose and the slowest hostile result under each engine, a line for each case.

    No sample is read twice: what an engine remembers of a text answers none of them.
    """
    lines: list[Line] = []
    worst: dict[tuple[str, str], tuple[int, Turn]] = {}

    def add(kind: str, name: str, engine: str, judge: Callable[[object], object], samples: list[object]) -> None:
        given = iter(samples[1:])
        figures = measure(lambda: judge(next(given)), len(samples) - 1)
        lines.append(Line(f"{name}, {engine}", figures))
        if figures.p95 > worst.get((kind, engine), (-1,))[0]:
            worst[kind, engine] = figures.p95, (lines[-1].name, functools.partial(judge, samples[0]))

    data, results = builtin("coding-agent"), result_policy()
    for engine, times in _TIMES.items():
        calls = under(installed_with(data, python=engine == "python"), _judge)
        for name, make in CASES.items():
            add(_CALLS, name, engine, calls, [_again(make(), k) for k in range(times + 1)])
        scans = under(installed_with(results, python=engine == "python"), _scan)
        for name, value in _results():
            kind = _PROSE if name == "prose" else _HOSTILE
            add(kind, f"1 MB result of {name}", engine, scans, [_other(value, k) for k in range(times + 1)])
    reached: list[Goal] = []
    turns: list[Turn] = []
    for kind in (_CALLS, _PROSE, _HOSTILE):
        (native, slowest), (python, slowest_python) = worst[kind, "native"], worst[kind, "python"]
        reached += goals(native, python, kind)
        turns += [slowest, slowest_python]
    notes = profiles(reached, turns)
    return Report("inputs at the limits: calls under builtin:coding-agent, results masked", lines, reached, notes)


def result_policy() -> bytes:
    """Rules that read every text of a result: two that mask, three that refuse, and a pattern."""
    rules: list[dict[str, object]] = [
        {"when": {"detector": name}, "verdict": "block"} for name in ("hidden_text", "chat_markup", "injection_wording")
    ]
    rules.append({"when": {"arg": "result", "regex": r"\bnpm +publish\b"}, "verdict": "block"})
    rules += [
        {"when": {"action": "*"}, "verdict": "modify", "mask": {"detector": name}}
        for name in ("secrets", "pii_redaction")
    ]
    named = [{"id": f"results.r{k}", "phase": "result", "reason": "found", **rule} for k, rule in enumerate(rules)]
    return json.dumps({"format": "interlock-policy", "v": 1, "name": "results", "rules": named}).encode()


def goals(native: int, python: int, kind: str = "the slowest case") -> list[Goal]:
    """What is asked of each engine's slowest case of a kind: its 95th percentile in nanoseconds."""
    return [
        (f"ms p95 of {kind}, native (5)", native / _MILLI, native <= 5 * _MILLI),
        (f"ms p95 of {kind}, Python (200)", python / _MILLI, python <= 200 * _MILLI),
    ]


def _results() -> Iterator[tuple[str, object]]:
    """What a tool returned, each with its name: at most a megabyte, one sample's number included."""
    for name, unit in RESULTS.items():
        yield name, unit * ((_MEGABYTE - 8) // len(unit.encode()))
    for name, make in _OTHERS.items():
        value = make()
        yield name, value[: _MEGABYTE - 8] if isinstance(value, str) else value


def _other(value: object, sample: int) -> object:
    """The same result with a text that was not read before."""
    return f"{value} {sample}" if isinstance(value, str) else [*cast("list[object]", value), f"{sample}"]


def _deep(levels: int) -> object:
    return ["abcdefghij", "small"] if levels == 0 else {"in": _deep(levels - 1), "beside": "x y z"}


def _bash(command: str) -> tuple[str, dict[str, object]]:
    return "Bash", {"command": command[: 64 * 1024]}


def _again(given: tuple[str, dict[str, object]], sample: int) -> tuple[str, dict[str, object]]:
    """The same call with a text that was not read before: the longest argument goes on by a number."""
    action, args = given
    longest = max(args, key=lambda name: len(str(args[name])))
    return action, {**args, longest: f"{args[longest]} {sample}"}


def _judge(given: object) -> object:
    action, args = cast("tuple[str, dict[str, object]]", given)
    try:
        return interlock.enforce_tool_call(action, args)
    except interlock.Blocked as refusal:
        return refusal


def _scan(text: object) -> object:
    try:
        return interlock.enforce_tool_result("WebFetch", text)
    except interlock.Blocked as refusal:
        return refusal
