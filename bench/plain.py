"""Twenty plain rules over a call with five arguments: the same rules as closures, as Cedar policies, as ours."""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import interlock
from bench.report import Goal, Line, Report, profiles
from bench.timing import Figures, race
from interlock.engine import ambient
from interlock.engine.evaluate import PythonEvaluator

__all__ = ["Call", "PlainRule", "goals", "installed_with", "policy", "run", "under"]

Given = TypeVar("Given")

_ROUNDS: Final = 20_000
_FLOOR, _OURS, _CEDAR = "20 Python closures", "interlock, as installed", "cedarpy, policies parsed once"
_TOOLS: Final = ("http_post", "send_email", "write_file", "transfer", "query")


class PlainRule(NamedTuple):
    """One rule in the three languages; `tool` is None where it judges every tool."""

    tool: str | None
    arg: str
    operator: str
    wanted: Any


_RULES: Final = (
    PlainRule(None, "path", "prefix", "/etc/"),
    PlainRule(None, "host", "equals", "collector.example"),
    PlainRule(None, "amount", "gt", 10_000),
    PlainRule(None, "note", "contains", "BEGIN PRIVATE KEY"),
    PlainRule(None, "method", "in", ["TRACE", "CONNECT", "PURGE"]),
    PlainRule("http_post", "host", "in", ["paste.example", "drop.example", "tunnel.example"]),
    PlainRule("http_post", "method", "equals", "DELETE"),
    PlainRule("http_post", "note", "contains", "password="),
    PlainRule("send_email", "host", "equals", "mail.example"),
    PlainRule("send_email", "note", "contains", "wire transfer"),
    PlainRule("send_email", "amount", "gt", 25),
    PlainRule("write_file", "path", "prefix", "/usr/"),
    PlainRule("write_file", "path", "prefix", "/boot/"),
    PlainRule("write_file", "note", "contains", "#!/bin/sh"),
    PlainRule("transfer", "amount", "gt", 500),
    PlainRule("transfer", "host", "in", ["casino.example", "mixer.example"]),
    PlainRule("transfer", "method", "equals", "FORCE"),
    PlainRule("query", "note", "contains", "drop table"),
    PlainRule("query", "host", "equals", "prod.db.example"),
    PlainRule("query", "amount", "gt", 9_000),
)


class Call(NamedTuple):
    """One call of a tool."""

    tool: str
    args: dict[str, Any]


def run() -> Report:
    """Race the contenders over 200 calls of which about a quarter is refused."""
    calls = _calls()
    contenders: dict[str, Callable[[Call], object]] = {_FLOOR: _closures()}
    contenders[_OURS] = _ours(python=False)
    contenders["interlock, Python engine"] = _ours(python=True)
    cedar = _cedar()
    if cedar is not None:
        contenders[_CEDAR] = cedar
    _demand_agreement(contenders, calls)
    found = race(contenders, calls, _ROUNDS)
    lines = [Line(name, figures) for name, figures in found.items()]
    reached = goals(found)
    turn = (_OURS, lambda: [contenders[_OURS](call) for call in calls * 20])
    notes = [] if cedar is not None else ["cedarpy is not installed: pip install cedarpy"]
    notes += profiles(reached, [turn] * len(reached))
    return Report("20 plain rules, five arguments, dict in, decision out", lines, reached, notes)


def goals(found: Mapping[str, Figures]) -> list[Goal]:
    """What is asked, of the contenders' figures; Cedar's may be missing."""
    floor, ours, cedar = found[_FLOOR], found[_OURS], found.get(_CEDAR)
    asked: list[Goal] = [("times the closures (at most 3)", ours.p50 / floor.p50, ours.p50 <= 3 * floor.p50)]
    if cedar is not None:
        ratio = cedar.p50 / ours.p50
        asked.append(("times faster than cedarpy (at least 5)", ratio, ratio >= 5))
    return asked


def _calls() -> list[Call]:
    rng = random.Random(7)  # noqa: S311 - the same calls on every run
    calls = []
    for k in range(200):
        tool = _TOOLS[k % len(_TOOLS)]
        bad = rng.random() < 0.275
        args: dict[str, Any] = {
            "path": f"/checkout/reports/{k}/summary.txt",
            "host": f"api{k % 9}.example.org",
            "amount": k % 25,
            "note": f"weekly figures of department {k}, please file under the usual heading and answer by friday",
            "method": ("GET", "POST", "PUT")[k % 3],
        }
        if bad:
            rule = rng.choice([r for r in _RULES if r.tool in (None, tool)])
            args[rule.arg] = _breaking(rule)
        calls.append(Call(tool, args))
    return calls


def _breaking(rule: PlainRule) -> Any:
    if rule.operator == "gt":
        return rule.wanted + 1
    if rule.operator == "in":
        return rule.wanted[0]
    return f"{rule.wanted}shadow" if rule.operator == "prefix" else rule.wanted


# -- closures -------------------------------------------------------------------------------------------------------


def _closures() -> Callable[[Call], object]:
    rules = [_closure(rule) for rule in _RULES]

    def judge(call: Call) -> str | None:
        tool, args = call
        for rule in rules:
            reason = rule(tool, args)
            if reason is not None:
                return reason
        return None

    return judge


def _closure(rule: PlainRule) -> Callable[[str, Mapping[str, Any]], str | None]:
    """As a developer would write it by hand, for one tool or for all."""
    tool, name, wanted = rule.tool, rule.arg, rule.wanted
    holds: Callable[[Any], bool]
    if rule.operator == "prefix":
        holds = lambda value: isinstance(value, str) and value.startswith(wanted)  # noqa: E731
    elif rule.operator == "contains":
        holds = lambda value: isinstance(value, str) and wanted in value  # noqa: E731
    elif rule.operator == "equals":
        holds = lambda value: value == wanted  # noqa: E731
    elif rule.operator == "in":
        among = frozenset(wanted)
        holds = lambda value: value in among  # noqa: E731
    else:
        holds = lambda value: isinstance(value, int) and value > wanted  # noqa: E731
    reason = f"{name} {rule.operator}"

    def closure(called: str, args: Mapping[str, Any]) -> str | None:
        if tool is not None and called != tool:
            return None
        return reason if holds(args.get(name)) else None

    return closure


# -- ours -----------------------------------------------------------------------------------------------------------


def policy() -> bytes:
    """The rules as a policy document."""
    rules = []
    for number, rule in enumerate(_RULES):
        when: dict[str, Any] = {"arg": rule.arg, rule.operator: rule.wanted}
        if rule.tool is not None:
            when = {"all": [{"action": {"equals": rule.tool}}, when]}
        reason = f"{rule.arg} {rule.operator}"
        rules.append({"id": f"r{number}", "when": when, "verdict": "block", "reason": reason})
    return json.dumps({"format": "interlock-policy", "v": 1, "name": "plain", "rules": rules}).encode()


def _ours(*, python: bool) -> Callable[[Call], object]:
    """`enforce_tool_call` with a guard of its own: the installed one is swapped in and out around the call."""
    guard = installed_with(policy(), python=python)

    def judge(call: Call) -> object:
        try:
            interlock.enforce_tool_call(call.tool, call.args)
        except interlock.Blocked as refusal:
            return refusal
        return None

    return under(guard, judge)


def installed_with(data: bytes, *, python: bool) -> ambient.Installed:
    """A guard of a policy's bytes, without a sink; `python` takes the Python engine whatever is installed."""
    from interlock.engine.policy.builtins import resolver
    from interlock.engine.policy.load import load_policy
    from interlock.engine.policy.model import Source

    interlock.install(policy=load_policy(data, where="bench", source=Source("file"), resolve=resolver(None)))
    guard = ambient.installed()
    if python:
        guard.evaluator = PythonEvaluator()
    return guard


def under(guard: ambient.Installed, judge: Callable[[Given], object]) -> Callable[[Given], object]:
    """The judge with a guard put in force around each call."""
    slot = ambient._slot

    def call(given: Given) -> object:
        slot[0] = guard  # a plain list store, far below what is measured
        return judge(given)

    return call


# -- Cedar ----------------------------------------------------------------------------------------------------------


def _cedar() -> Callable[[Call], object] | None:
    try:
        cedarpy = importlib.import_module("cedarpy")
    except ImportError:
        return None
    policies = cedarpy.PolicySet.from_str("permit(principal, action, resource);\n" + "\n".join(map(_forbid, _RULES)))
    entities = cedarpy.Entities.from_json_str("[]")
    base = {"principal": {"type": "Agent", "id": "a"}, "resource": {"type": "Tool", "id": "t"}}

    def judge(call: Call) -> object:
        request = {**base, "action": {"type": "Action", "id": call.tool}, "context": call.args}
        answer = cedarpy.is_authorized(request, policies, entities)
        return None if answer.allowed else "forbidden"

    return judge


def _forbid(rule: PlainRule) -> str:
    action = "action" if rule.tool is None else f'action == Action::"{rule.tool}"'
    field, text = f"context.{rule.arg}", json.dumps(rule.wanted)
    test = {
        "prefix": f"{field} like {json.dumps(str(rule.wanted) + '*')}",
        "contains": f"{field} like {json.dumps('*' + str(rule.wanted) + '*')}",
        "equals": f"{field} == {text}",
        "in": f"{text}.contains({field})",
        "gt": f"{field} > {text}",
    }[rule.operator]
    return f"forbid(principal, {action}, resource) when {{ {test} }};"


def _demand_agreement(contenders: Mapping[str, Callable[[Call], object]], calls: list[Call]) -> None:
    """Contenders that answer differently do not do the same work. Raises: AssertionError."""
    for call in calls:
        answers = {name: judge(call) is not None for name, judge in contenders.items()}
        assert len(set(answers.values())) == 1, (call, answers)
