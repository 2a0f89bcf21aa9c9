"""What loading a policy costs, held without a clock: how often functions are called, what is kept, and who waits."""

from __future__ import annotations

import gc
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from interlock.base.errors import BadInput
from interlock.engine.collector import freed_slowly, held_off
from interlock.engine.live import LivePolicy
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Source
from interlock.native.planner import planned


@pytest.fixture(autouse=True)
def _nothing_frozen() -> Iterator[None]:
    gc.unfreeze()  # a debugger or a test runner may have frozen what it holds
    yield
    assert gc.isenabled()


def document(size: int) -> bytes:
    """Rules on hosts, digests and actions, a third each."""
    rules: list[dict[str, Any]] = []
    for k in range(size):
        kinds: tuple[dict[str, Any], ...] = (
            {"all": [{"action": {"equals": "http_post"}}, {"arg": "host", "equals": f"h{k}.bad.example"}]},
            {"arg": "sha256", "equals": f"{k:064x}"},
            {"action": {"equals": f"tool_{k}"}},
        )
        rules.append({"id": f"r{k}", "when": kinds[k % 3], "verdict": "block", "reason": "listed"})
    return json.dumps({"format": "interlock-policy", "v": 1, "name": "many", "rules": rules}).encode()


def loaded(size: int) -> Policy:
    return load_policy(document(size), where="many.json", source=Source("file"), resolve=lambda name: b"")


def calls(work: Callable[[], object]) -> Counter[str]:
    """How often each function was called, those written in C too."""
    seen: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            seen[f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}"] += 1
        elif event == "c_call":
            seen[arg.__qualname__] += 1

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen


# --- the work a rule makes --------------------------------------------------------------------------------------------


def test_a_rule_costs_few_calls_and_no_function_is_called_for_it_again_and_again() -> None:
    loaded(1)  # tables and caches
    few, many = document(500), document(1000)
    small = calls(lambda: load_policy(few, where="x", source=Source("file"), resolve=lambda name: b""))
    large = calls(lambda: load_policy(many, where="x", source=Source("file"), resolve=lambda name: b""))
    each = {name: (large[name] - small[name]) / 500 for name in large}
    assert sum(each.values()) < 450
    own = {name: count for name, count in each.items() if "interlock" in name}
    assert max(own.values()) < 25, max(own, key=own.__getitem__)
    wasted = ("JSONEncoder.__init__", "__instancecheck__", "deepcopy")
    assert not any(word in name and count > 2 for name, count in each.items() for word in wasted)


@pytest.mark.parametrize("work", [lambda size: loaded(size), lambda size: planned(loaded(size))])
def test_twice_the_rules_are_twice_the_calls(work: Callable[[int], object]) -> None:
    work(1)
    small, large = (calls(lambda size=size: work(size)).total() for size in (1000, 2000))  # type: ignore[misc]
    assert large < 2.05 * small


def test_a_rule_keeps_few_objects_that_the_collector_has_to_look_at() -> None:
    kept: list[Policy] = []
    counts: list[int] = []
    for _ in range(3):
        kept.append(loaded(500))  # the first one fills tables and caches too
        gc.collect()
        counts.append(len(gc.get_objects()))
    assert (counts[2] - counts[1]) / 500 < 34


def test_the_plan_of_a_rule_shares_its_condition_with_the_rule() -> None:
    (rule, *_) = loaded(3).rules
    assert rule.plan is not None
    when = rule.plan["when"]
    assert json.loads(json.dumps(when)) == when
    with pytest.raises(TypeError):
        when["all"] = []  # type: ignore[index]
    with pytest.raises(TypeError):
        when["all"].append({})  # type: ignore[index]


# --- who waits --------------------------------------------------------------------------------------------------------


class Follower:
    """Notes in which thread, and in which state, it was told of which policy."""

    def __init__(self) -> None:
        self.live: LivePolicy | None = None
        self.prepared: list[tuple[str, str, bool]] = []
        self.retired: list[str] = []
        self.bad = False

    def prepare(self, policy: Policy) -> None:
        if self.bad:
            raise BadInput("cannot be compiled")
        in_force = self.live is not None and self.live.current is policy
        self.prepared.append((policy.digest, threading.current_thread().name, in_force))

    def retire(self, policy: Policy) -> None:
        self.retired.append(policy.digest)


class Versions:
    """A source with a version, which notes how often it was asked and whether the collector ran while it loaded."""

    def __init__(self) -> None:
        self.version = 1
        self.asked = 0
        self.collecting: list[bool] = []
        self.loading = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def load(self) -> Policy:
        self.collecting.append(gc.isenabled())
        self.loading.set()
        assert self.go_on.wait(10)
        return Policy((), f"v{self.version}")

    def fingerprint(self) -> object:
        self.asked += 1
        return self.version


def test_an_evaluator_is_ready_for_a_policy_before_a_call_meets_it_and_in_the_thread_that_loaded_it() -> None:
    source, follower = Versions(), Follower()
    follower.live = live = LivePolicy(source.load, source.fingerprint, follower)
    source.version = 2
    live.refresh(wait=True)
    own = threading.current_thread().name
    assert follower.prepared == [("v1", own, False), ("v2", "interlock-reload", False)]
    assert live.current.digest == "v2"


def test_a_policy_is_let_go_of_once_no_call_can_still_go_by_it() -> None:
    source, follower = Versions(), Follower()
    live = LivePolicy(source.load, source.fingerprint, follower)
    for version in (2, 3, 4):
        source.version = version
        live.refresh(wait=True)
    assert follower.retired == ["v1", "v2"]


def test_a_policy_that_the_evaluator_cannot_take_leaves_the_last_good_one() -> None:
    source, follower = Versions(), Follower()
    live = LivePolicy(source.load, source.fingerprint, follower)
    source.version, follower.bad = 2, True
    live.refresh(wait=True)
    assert (live.current.digest, live.epoch, str(live.trouble)) == ("v1", 1, "cannot be compiled")


def test_a_call_asks_for_no_other_change_while_one_loads() -> None:
    source = Versions()
    live = LivePolicy(source.load, source.fingerprint)
    source.loading.clear()
    source.go_on.clear()
    source.version = 2
    live.refresh()
    assert source.loading.wait(10)
    asked = source.asked
    for _ in range(5):
        live.refresh()
    assert source.asked == asked
    source.go_on.set()
    live.refresh(wait=True)
    assert live.current.digest == "v2"


# --- the cycle collector ----------------------------------------------------------------------------------------------


def test_the_collector_holds_off_while_a_policy_loads_and_is_back_afterwards() -> None:
    source = Versions()
    live = LivePolicy(source.load, source.fingerprint)
    source.version = 2
    live.refresh(wait=True)
    assert source.collecting == [False, False]
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_what_a_load_made_counts_as_old_at_once_so_that_no_pass_over_all_of_it_is_due() -> None:
    with held_off():
        made = [[k] for k in range(20_000)]
    assert gc.get_count()[0] < 2000
    assert not any(row is made[-1] for row in gc.get_objects(generation=0))
    assert any(row is made[-1] for row in gc.get_objects(generation=2))


def test_a_program_that_turned_the_collector_off_or_froze_its_objects_finds_nothing_changed() -> None:
    gc.disable()
    try:
        with held_off():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
    gc.freeze()
    try:
        with held_off():
            assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_the_collector_is_back_where_the_work_failed() -> None:
    with pytest.raises(BadInput), held_off():
        raise BadInput("is bad")
    assert gc.isenabled()


def test_containers_are_emptied_one_by_one() -> None:
    rows, table = [object(), object()], {"a": object(), "b": object()}
    freed_slowly(rows, table)
    assert (rows, table) == ([], {})
