"""Values of a caller's own classes, values that JSON has not, and values that change meanwhile: what is judged is what
they hold, and no other thing goes on."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import pathlib
import threading
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from interlock import Blocked, Decision, SensorEvent, detectors, enforce_tool_call, enforce_tool_result, install, span
from interlock.base.canonical import NotCanonical, encode
from interlock.engine import ambient
from interlock.engine.evaluate import evaluate
from interlock.engine.event import Phase
from interlock.engine.payload import FrozenSet, frozen, unchanged
from interlock.engine.policy.builtins import resolver
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Source
from interlock.engine.refusals import CHANGED, UNREADABLE
from interlock.engine.sinks import InMemorySink
from interlock.interceptors.enforce import decide
from interlock.native.availability import availability
from interlock.native.evaluator import chosen_evaluator


class Lying(str):
    """A text whose methods say that it is another."""

    def __str__(self) -> str:
        return "ls"

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 7

    def __contains__(self, other: object) -> bool:
        return False

    def __iter__(self) -> Iterator[str]:
        return iter("ls")

    def __len__(self) -> int:
        return 2

    def _ls(self, *args: object, **kwargs: object) -> Any:
        return "ls"

    def _no(self, *args: object, **kwargs: object) -> Any:
        return False

    lower = casefold = translate = strip = replace = encode = __getitem__ = __format__ = _ls
    startswith = endswith = find = isascii = _no


class Whole(int):
    def __int__(self) -> int:
        return 5

    __index__ = __int__

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


class Real(float):
    def __float__(self) -> float:
        return 0.5

    def __eq__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return False

    __hash__ = float.__hash__


class Pairs(dict[str, object]):
    def items(self) -> Any:
        return [("command", "ls")]


class Row(list[object]):
    def __iter__(self) -> Iterator[object]:
        return iter(())


class Couple(tuple[object, ...]):
    def __iter__(self) -> Iterator[object]:
        return iter(())


class Pretender:
    """An object that says it is of a class that it is not of."""

    def __init__(self, claimed: type) -> None:
        self.claimed = claimed

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self.claimed

    def items(self) -> list[tuple[str, object]]:
        return []

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __str__(self) -> str:
        return "ls"


class Colour(str, enum.Enum):  # noqa: UP042 - its text is not what it holds
    RED = "rm -rf /"


def policy(*rules: dict[str, Any]) -> Policy:
    document = {"format": "interlock-policy", "v": 1, "name": "test", "rules": list(rules)}
    return load_policy(json.dumps(document).encode(), where="test", source=Source("file"), resolve=resolver(None))


def blocks(argument: str, **test: object) -> Policy:
    return policy({"id": "r", "when": {"arg": argument, **test}, "verdict": "block", "reason": "no"})


@pytest.fixture(autouse=True, params=["python", "native"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "python":
        monkeypatch.setenv("INTERLOCK_NATIVE", "0")
    elif not availability().installed:
        pytest.skip(availability().sentence)
    yield request.param
    ambient.install(None)


# --- classes of the caller's own --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sink", [None, InMemorySink()])
@pytest.mark.parametrize(
    "args",
    [
        {"command": Lying("rm -rf /")},
        {Lying("command"): "rm -rf /"},
        {"command": Colour.RED},
    ],
)
@pytest.mark.parametrize("test", [{"contains": "rm -rf"}, {"equals": "rm -rf /"}, {"regex": "rm -rf"}, {"glob": "rm*"}])
def test_a_text_is_judged_by_its_characters(args: Any, test: dict[str, Any], sink: InMemorySink | None) -> None:
    install(policy=blocks("command", **test), sink=sink)
    with pytest.raises(Blocked, match="no"):
        enforce_tool_call("Bash", args)


@pytest.mark.parametrize("test", [{"equals": 1}, {"lt": 2}, {"in": [1]}])
@pytest.mark.parametrize("number", [Whole(1), Real(1)])
def test_a_number_is_judged_by_its_value(number: object, test: dict[str, Any]) -> None:
    install(policy=blocks("n", **test))
    with pytest.raises(Blocked, match="no"):
        enforce_tool_call("t", {"n": number})


@pytest.mark.parametrize(
    "value",
    [Pairs(command="rm"), Row(["rm"]), Couple(["rm"]), *map(Pretender, (str, dict, list, tuple, int, set, bytes))],
    ids=lambda value: type(value).__name__ + getattr(value, "claimed", str).__name__,
)
def test_what_reads_in_two_ways_is_refused_and_named(value: object) -> None:
    install(policy=blocks("never", equals=1))
    for given in (value, [value], {"deep": [value]}):
        with pytest.raises(Blocked) as caught:
            enforce_tool_call("t", {"plain": 1, "odd": given})
        assert (caught.value.policy_id, caught.value.attributed_to) == (UNREADABLE, "odd")
        assert "rm" not in str(caught.value)


def test_ordinary_subclasses_are_judged_and_go_on_as_they_are() -> None:
    args: dict[str, object] = {"a": OrderedDict(b=[1]), "c": defaultdict(int, d=2), "e": Colour.RED, "f": Row}
    del args["f"]
    install(policy=blocks("a.b[0]", equals=1))
    with pytest.raises(Blocked):
        enforce_tool_call("t", args)
    install(policy=blocks("a.b[0]", equals=2))
    going = enforce_tool_call("t", args)
    assert all(going[name] is value for name, value in args.items())


def test_a_name_that_is_given_twice_in_disguise_is_refused() -> None:
    install(policy=blocks("command", contains="rm"))
    for args in ({"command": "ls", Lying("command"): "rm"}, {"deep": {"command": "ls", Lying("command"): "rm"}}):
        with pytest.raises(Blocked, match="twice"):
            enforce_tool_call("t", cast(Any, args))


def test_a_rewrite_meets_the_argument_whose_name_is_in_disguise() -> None:
    install(rules=[lambda event: Decision.modify({"command": "safe"})])
    assert list(enforce_tool_call("t", {Lying("command"): "rm"}).items()) == [("command", "safe")]


@pytest.mark.parametrize("wanted", ["Bash", "agent"])
def test_names_of_tools_and_principals_are_their_characters(wanted: str) -> None:
    rule = {
        "id": "r",
        "when": {"all": [{"action": "Bash"}, {"principal": "agent"}]},
        "verdict": "block",
        "reason": "no",
    }
    install(policy=policy(rule))
    with pytest.raises(Blocked, match="no"):
        enforce_tool_call(Lying("Bash"), {}, principal=Lying("agent"))
    with span(principal=Lying("agent")), pytest.raises(Blocked, match="no"):
        enforce_tool_call("Bash", {})
    with span(principal="agent"), pytest.raises(Blocked, match="no"):
        enforce_tool_call("Bash", {}, principal="")
    assert decide(SensorEvent(Lying("Bash"), {}, principal=Lying("agent"))).decision.reason == "no"


def test_an_encoding_is_of_what_is_held() -> None:
    odd = {Lying("a"): Lying("b"), "c": [Whole(1), Real(1.5), Colour.RED]}
    assert encode(odd) == encode({"a": "b", "c": [1, 1.5, "rm -rf /"]})
    with pytest.raises(NotCanonical, match="twice"):
        encode({"a": 1, Lying("a"): 2})


# --- what JSON has not ------------------------------------------------------------------------------------------------

WHEN = datetime.datetime(2026, 11, 30, 1, 2, 3)
ID = uuid.UUID(int=5)


@pytest.mark.parametrize(
    ("value", "test"),
    [
        (pathlib.PurePosixPath("/etc/passwd"), {"prefix": "/etc/"}),
        (b"rm -rf /", {"contains": "rm -rf"}),
        (bytearray(b"rm -rf /"), {"regex": "rm -rf"}),
        (memoryview(b"rm -rf /"), {"glob": "rm*"}),
        (ID, {"equals": str(ID)}),
        (ID, {"in": [str(ID), 4]}),
        (WHEN, {"prefix": "2026-11-30"}),
        (decimal.Decimal("1000.5"), {"gt": 1000}),
        (decimal.Decimal("1000"), {"equals": 1000}),
        (decimal.Decimal("0.1"), {"equals": 0.1}),
        (decimal.Decimal("1e999999"), {"gt": 1000}),
        ({"path": pathlib.PurePosixPath("/a")}, {"equals": {"path": "/a"}}),
    ],
    ids=lambda value: "memoryview" if isinstance(value, memoryview) else repr(value),  # its repr is an address
)
def test_what_json_has_not_is_judged_as_it_would_be_written_there(value: object, test: dict[str, Any]) -> None:
    install(policy=blocks("x", **test))
    with pytest.raises(Blocked, match="no"):
        enforce_tool_call("t", {"x": value})


def test_every_member_of_a_set_is_judged() -> None:
    install(policy=blocks("hosts[*]", equals="evil.example"))
    for hosts in ({"a", "evil.example"}, frozenset({"evil.example", Lying("b")})):
        with pytest.raises(Blocked, match="no"):
            enforce_tool_call("t", {"hosts": hosts})


SECRET = "AKIA" + "Z7QK2M4XWD3T5R6P"


@pytest.mark.parametrize(
    "value",
    [SECRET, SECRET.encode(), bytearray(SECRET.encode()), memoryview(SECRET.encode()), {SECRET}, frozenset([SECRET])],
    ids=lambda value: type(value).__name__,
)
def test_a_secret_is_masked_whatever_holds_it(value: object) -> None:
    install(rules=[detectors.secrets_guard()])
    going = enforce_tool_call("t", {"x": [value]})
    (held,) = cast(list[object], going["x"])
    assert type(held) is (bytes if isinstance(value, memoryview) else type(value))
    assert SECRET not in repr(held)
    assert "REDACTED" in repr(held)


def test_a_detector_reads_every_container() -> None:
    rule = detectors.network_egress_guard(allowed_hosts=["ok.example"])
    install(rules=[rule])
    url = "https://evil.example/x"
    for value in (url, url.encode(), memoryview(url.encode()), {url}, frozenset([url]), ({"deep": {url}},)):
        with pytest.raises(Blocked):
            enforce_tool_call("t", {"url": value})


def test_a_set_that_a_rule_sees_is_read_only() -> None:
    def disarm(event: SensorEvent) -> None:
        cast(set[str], event.args["hosts"]).clear()

    hosts = {"evil.example"}
    event = SensorEvent("t", {"hosts": hosts})
    assert evaluate(Policy((), ""), event).event.args["hosts"] == hosts
    install(rules=[disarm])
    with pytest.raises(Blocked, match="TypeError"):
        enforce_tool_call("t", {"hosts": hosts})
    assert isinstance(frozen(hosts), FrozenSet)
    install(rules=[lambda event: Decision.modify({"hosts": event.args["hosts"]})])
    assert type(enforce_tool_call("t", {"hosts": hosts})["hosts"]) is set


# --- what changes meanwhile -------------------------------------------------------------------------------------------


def changing(change: Callable[[], object]) -> Callable[[SensorEvent], None]:
    """A rule during which another thread changes the caller's own objects."""

    def rule(event: SensorEvent) -> None:
        thread = threading.Thread(target=change)
        thread.start()
        thread.join()

    return rule


@pytest.mark.parametrize("sink", [None, InMemorySink()])
def test_what_changes_while_it_is_judged_does_not_go_on(sink: InMemorySink | None) -> None:
    deep: dict[str, Any] = {"to": [{"name": "mia"}], "of": {"a", "b"}, "raw": bytearray(b"a")}
    changes: list[Callable[[], object]] = [
        lambda: deep["to"].append("mallory"),
        lambda: deep["to"][0].update(name="mallory"),
        lambda: deep["to"][0].clear(),
        lambda: deep["of"].add("c"),
        lambda: deep["raw"].append(1),
        lambda: deep.update(new=deep),
        lambda: deep.update(new=object()),
    ]
    for change in changes:
        install(rules=[changing(change)], sink=sink)
        with pytest.raises(Blocked) as caught:
            enforce_tool_call("t", {"x": deep})
        assert caught.value.policy_id == CHANGED
        deep.pop("new", None)
        if sink is not None:
            assert (sink.receipts[-1].outcome, sink.receipts[-1].policy_id) == ("blocked", CHANGED)


def test_the_callers_own_dict_may_change_and_what_was_judged_goes_on() -> None:
    args: dict[str, object] = {"command": "ls"}
    install(rules=[changing(lambda: args.update(command="rm", more=1))])
    assert enforce_tool_call("t", args) == {"command": "ls"}


def test_a_result_that_changes_while_it_is_judged_does_not_reach_the_agent() -> None:
    result: dict[str, object] = {"text": "fine"}

    def rule(event: SensorEvent) -> None:
        result["text"] = "evil"

    rule.phase = "result"  # type: ignore[attr-defined]
    install(rules=[rule])
    with pytest.raises(Blocked, match="changed while it was judged"):
        enforce_tool_result("t", result)
    install(rules=[])
    assert enforce_tool_result("t", result) is result


def test_what_changes_after_the_door_has_answered_is_the_callers_own() -> None:
    rows = ["a"]
    install(policy=blocks("rows[*]", equals="evil"))
    going = enforce_tool_call("t", {"rows": rows})
    rows.append("evil")
    assert going["rows"] == ["a", "evil"]
    with pytest.raises(Blocked):
        enforce_tool_call("t", going)


def test_monitor_refuses_nothing_that_changes() -> None:
    rows = ["a"]
    install(rules=[changing(lambda: rows.append("b"))])
    assert enforce_tool_call("t", {"rows": rows}, enforcement="monitor")["rows"] is rows


@pytest.mark.parametrize(("phase", "large"), [("call", True), ("call", False), ("result", True), ("result", False)])
def test_arguments_are_judged_in_place_but_a_long_text_right_among_them_in_a_copy(
    engine: str, phase: Phase, large: bool
) -> None:
    rules = blocks("never", equals=1)
    evaluator = chosen_evaluator()
    text = "x" * (1 << 15 if large else 1 << 10)
    for args, right_among in (
        ({"rows": [text]}, False),
        ({"deep": ({"text": text},)}, False),
        ({"rows": (text,)}, False),
        ({"text": text}, True),
    ):
        event = SensorEvent("t", args, phase=phase)
        seen = evaluator.evaluate(rules, event).event.args
        assert (seen is args) == (engine == "native" and not (large and right_among))


@pytest.mark.usefixtures("engine")
def test_what_another_thread_changes_while_it_is_judged_is_judged_again_in_a_copy() -> None:
    rows = ["0", *("ab" * (1 << 16) + str(k) for k in range(16))]  # some milliseconds of looking for what is not there
    args = {"rows": rows}
    rules = blocks("rows[*]", regex="(?:[ab]{2,5}c?)+[de]")
    evaluator, done = chosen_evaluator(), threading.Event()

    def change() -> None:
        for k in range(10_000_000):
            rows[0] = str(k)
            if done.is_set():
                return

    thread = threading.Thread(target=change)
    thread.start()
    try:
        seen = (evaluator.evaluate(rules, SensorEvent("t", args)).event.args for _ in range(50))
        assert any(found is not args for found in seen)
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([1], [True]),
        ([1], [1.0]),
        ({"a": 1}, {"b": 1}),
        ({"a": {"b": [1]}}, {"a": {"b": [2]}}),
        ([float("nan")], [0.0]),
        ({1: "a"}, {1: "b"}),
        ((1, [2]), (1, [3])),
        ({"a": "x"}, {"a": Lying("y")}),
    ],
    ids=repr,
)
def test_a_change_is_seen_and_none_is_made_up(before: object, after: object) -> None:
    judged = frozen(before)
    assert unchanged(judged, before)
    assert not unchanged(judged, after)
