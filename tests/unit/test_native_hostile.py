"""Whatever an event holds, the native engine ends, never crashes, and decides as the Python engine does."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import threading
from collections import OrderedDict, UserDict, defaultdict
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock import Blocked, enforce_tool_call, enforce_tool_result, install
from interlock.engine import ambient
from interlock.engine.decision import Decision, Verdict
from interlock.engine.detectors.indicator import indicator_of
from interlock.engine.evaluate import Evaluator, PythonEvaluator
from interlock.engine.event import PHASES, Origin, SensorEvent
from interlock.engine.policy.builtins import resolver
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Source
from interlock.engine.refusals import NATIVE_PANIC
from interlock.native.availability import availability
from interlock.native.planner import planned

if not availability().installed:
    pytest.skip(availability().sentence, allow_module_level=True)

from interlock.native.evaluator import NativeEvaluator


class Hostile(Exception):
    """What objects of a hostile caller raise."""


def _raise(*_: object, **__: object) -> NoReturn:
    raise Hostile


class Text(str):
    """A text that raises wherever it is asked."""

    __slots__ = ()
    __eq__ = __hash__ = __len__ = __contains__ = __iter__ = __getitem__ = __str__ = __repr__ = __bool__ = _raise
    encode = startswith = lower = split = find = strip = isascii = _raise


class Lying(str):
    """A text that says that it is another."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("ls")

    def __str__(self) -> str:
        return "ls"


class Pairs(dict[Any, Any]):
    """A dict that raises wherever it is asked."""

    __eq__ = __len__ = __contains__ = __iter__ = __getitem__ = items = keys = values = get = _raise


class Empty(dict[Any, Any]):
    """A dict that says that it is empty."""

    def items(self) -> Any:
        return ().__iter__()

    def __len__(self) -> int:
        return 0


class Row(list[Any]):
    """A list that raises wherever it is asked."""

    __eq__ = __len__ = __contains__ = __iter__ = __getitem__ = _raise


class Number(int):
    """A number that raises wherever it is asked."""

    __eq__ = __hash__ = __index__ = __lt__ = __gt__ = __int__ = __bool__ = _raise


class Odd:
    """An object that raises whatever is asked of it."""

    __eq__ = __hash__ = __repr__ = __str__ = __bool__ = __len__ = __iter__ = __getattr__ = _raise


class Word(enum.StrEnum):
    RM = "rm -rf /"


def _deep(depth: int, inner: object) -> object:
    for k in range(depth):
        inner = {"d": inner} if k % 2 else [inner]
    return inner


def _cyclic() -> dict[str, object]:
    found: dict[str, object] = {"command": "rm -rf /"}
    found["again"] = [found]
    return found


RULES: list[dict[str, Any]] = [
    {"id": "arg", "when": {"arg": "command", "regex": "rm -r|ev(i|I)l"}, "verdict": "block"},
    {"id": "deep", "when": {"arg": "args.d.*", "equals": {"a": [1, "x"]}}, "verdict": "escalate"},
    {"id": "number", "when": {"arg": "n", "gt": 10}, "verdict": "block"},
    {"id": "deed", "when": {"intent": "fs.delete"}, "verdict": "block"},
    {"id": "path", "when": {"path": {"under": "/etc"}}, "verdict": "block"},
    {"id": "host", "when": {"host": {"class": "private"}}, "verdict": "escalate"},
    {"id": "flow", "when": {"flow": {"source": "tool:x"}}, "verdict": "block"},
    {"id": "file", "when": {"detector": "indicator", "params": {"digests": [indicator_of("file", "0a" * 32)]}}},
    {"id": "mcp", "when": {"detector": "indicator", "params": {"digests": [indicator_of("mcp", "0a" * 32)]}}},
    {"id": "long", "when": {"detector": "oversized_text", "params": {"at_least": 20_000}}, "verdict": "escalate"},
    *(
        {
            "id": f"mask.{phase}",
            "phase": phase,
            "when": {"action": "*"},
            "verdict": "modify",
            "mask": {"detector": name},
        }
        for phase, name in (("call", "secrets"), ("result", "pii_redaction"))
    ),
]


def _policy() -> Policy:
    rules = [{"verdict": "block", "reason": "no", **rule} for rule in RULES]
    document = {"format": "interlock-policy", "v": 1, "name": "hostile", "rules": rules}
    data = json.dumps(document).encode()
    return load_policy(data, where="x", source=Source("file"), resolve=resolver(None), links=lambda path: path)


POLICY = _policy()
CARD = "4111 1111 1111 1111"
TEXTS: list[object] = ["rm -rf /", "ls", CARD, "password = 'hunter2hunter2'", "0a" * 32, "é\0x", "http://10.0.0.1/", ""]
ODD: list[object] = [
    "\ud800", "a\udfffb", Text("rm -rf /"), Lying("rm -rf /"), Word.RM, 1 << 63, -(1 << 63) - 1, 10**5000, Number(11),
    float("nan"), float("inf"), -0.0, 1e308, b"rm -rf /", bytearray(b"\xff"), memoryview(b"x"), {1, "x"},
    frozenset({CARD}), Odd(), object(), Pairs(command="rm -rf /"), Empty(command="rm -rf /"), Row(["rm -rf /"]),
    OrderedDict(x=CARD), defaultdict(list, x=[CARD]), UserDict(x=CARD), decimal.Decimal("NaN"), Path("/etc/passwd"),
    datetime.datetime(2026, 1, 1), type, len, _deep(150, "rm"), _deep(199, CARD), _deep(201, "rm"), _deep(20_000, "rm"),
    (CARD, 1), range(3), 3 + 4j, None, True, "x" * 30_000, "é" * 30_000,
]  # fmt: skip
KEYS: list[object] = [
    "command", "url", "d", "n", "content", "", "\ud800", "x\0", "é",
    1, None, (1, "x"), b"x", 1.5, True, Lying("command"), Word.RM, frozenset(),
]  # fmt: skip
# what is drawn is where things stand, for the things themselves let nobody look at them: a leaf, or a container of some
LEAVES = st.integers(0, len(TEXTS) + len(ODD) - 1)
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from([list, tuple, Row]), st.lists(inner, max_size=3)),
        st.tuples(
            st.sampled_from([dict, Empty, Pairs]),
            st.dictionaries(st.integers(0, len(KEYS) - 1), inner, max_size=3),
        ),
    ),
    max_leaves=6,
)
PLAIN = st.tuples(st.just(dict), st.dictionaries(st.integers(0, 4), VALUES, max_size=4))
ARGS = st.one_of(PLAIN, PLAIN, PLAIN, VALUES, st.none())


def _made(drawn: Any) -> Any:
    if drawn is None:
        return _cyclic()
    if isinstance(drawn, int):
        return [*TEXTS, *ODD][drawn]
    kind, held = drawn
    return kind({KEYS[k]: _made(v) for k, v in held.items()} if isinstance(held, dict) else [_made(v) for v in held])


FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "principal": st.sampled_from(["x", "\ud800"]),
        "cwd": st.sampled_from(["/w", "\udc80", "é", "x\0"]),
        "server_pin": st.sampled_from(["0a" * 32, "\ud800", "0A" * 32]),
        "origins": st.sampled_from([(Origin("tool:x", "command"),), (Origin("tool:\ud800", "[["),)]),
    },
)


def _told(evaluator: Evaluator, event: SensorEvent) -> tuple[object, ...]:
    try:
        outcome = evaluator.evaluate(POLICY, event)
    except Exception as e:
        return (type(e),)
    decision: Decision = outcome.decision
    assert decision.policy_id != NATIVE_PANIC
    rewritten = repr((decision.modified_args, decision.modified_result)) if decision.verdict is Verdict.MODIFY else None
    return (decision.verdict, decision.reason, decision.policy_id, decision.attributed_to, rewritten)


@settings(max_examples=400, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["Bash", "Write", "\ud800"]), ARGS, st.sampled_from(PHASES), FIELDS)
def test_both_engines_decide_alike_on_what_a_hostile_caller_hands_over(
    action: str, args: Any, phase: Any, fields: dict[str, Any]
) -> None:
    event = SensorEvent(action, _made(args), phase, **fields)
    assert _told(NativeEvaluator(), event) == _told(PythonEvaluator(), event)


@pytest.mark.parametrize("depth", range(196, 203))
@pytest.mark.parametrize("inner", ["rm -rf /", CARD, 1, None, [], {}, ()], ids=repr)
def test_both_engines_see_as_deep(depth: int, inner: object) -> None:
    event = SensorEvent("Bash", {"command": _deep(depth, inner)})
    assert _told(NativeEvaluator(), event) == _told(PythonEvaluator(), event)


def test_every_rule_of_these_tests_runs_natively() -> None:
    assert planned(POLICY).reasons == {}


@pytest.fixture
def _guarded() -> Any:
    install(policy=POLICY)
    yield
    ambient.install(None)


@pytest.mark.usefixtures("_guarded")
@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_the_doors_let_through_or_refuse_and_raise_nothing_else(value: object) -> None:
    for args in ({"command": value}, {"d": [{"x": (value,)}]}, {"n": value, "command": "ls"}):
        for through in (enforce_tool_call, enforce_tool_result):
            try:
                through("Bash", cast(Any, args))
            except Blocked as refusal:
                assert refusal.decision.policy_id != NATIVE_PANIC  # noqa: PT017 - any other refusal will do


@pytest.mark.usefixtures("_guarded")
@pytest.mark.parametrize("size", [8, 40_000], ids=["short", "so long that other threads run"])
def test_a_caller_that_changes_what_is_judged_meanwhile_gets_a_decision_each_time(size: int) -> None:
    inner: dict[str, Any] = {"x": ["ls" * size]}
    args: dict[str, Any] = {"command": "ls", "d": inner}
    done = threading.Event()

    def change() -> None:
        k = 0
        while not done.is_set():
            inner[f"k{k % 7}"] = [CARD] * (k % 3)
            inner["x"].append("rm -rf /" * (k % 2))
            inner.pop(f"k{(k + 3) % 7}", None)
            del inner["x"][2:]
            k += 1

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(300):
            try:
                enforce_tool_call("Bash", args)
                enforce_tool_result("Bash", args)
            except Blocked as refusal:
                assert refusal.decision.policy_id != NATIVE_PANIC  # noqa: PT017 - any other refusal will do
    finally:
        done.set()
        changing.join()
