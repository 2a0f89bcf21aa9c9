"""The live policy, spans, and what weakens a guard."""

from __future__ import annotations

import _thread
import asyncio
import gc
import os
import sys
import threading
from collections.abc import Iterator

import pytest

from interlock.base.errors import BadInput
from interlock.engine import ambient
from interlock.engine.ambient import Installed, current_span, span
from interlock.engine.collector import held_off, short_turns
from interlock.engine.decision import Decision
from interlock.engine.event import SensorEvent
from interlock.engine.live import LivePolicy
from interlock.engine.policy.model import Policy
from interlock.engine.posture import Weakened, attest, require
from interlock.engine.rules import code_rules
from interlock.engine.sinks import InMemorySink, NullSink


@pytest.fixture(autouse=True)
def _nothing_installed() -> Iterator[None]:
    yield
    ambient.install(None)


class Source:
    """A policy source that a test changes."""

    def __init__(self) -> None:
        self.version = 1
        self.digest = "one"
        self.bad = False
        self.loads = 0

    def load(self) -> Policy:
        self.loads += 1
        if self.bad:
            raise BadInput("is bad")
        return Policy((), self.digest)

    def live(self) -> LivePolicy:
        return LivePolicy(self.load, lambda: self.version)


def test_a_policy_is_loaded_once_while_nothing_changes() -> None:
    source = Source()
    live = source.live()
    live.refresh(wait=True)
    assert (source.loads, live.epoch) == (1, 1)


def test_the_epoch_rises_only_when_the_digest_changes() -> None:
    source = Source()
    live = source.live()
    source.version = 2
    live.refresh(wait=True)
    assert (source.loads, live.epoch) == (2, 1)
    source.version, source.digest = 3, "two"
    live.refresh(wait=True)
    assert (live.current.digest, live.epoch) == ("two", 2)


def test_a_bad_source_leaves_the_last_good_policy_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    source = Source()
    live = source.live()
    source.version, source.bad = 2, True
    live.refresh(wait=True)
    live.refresh(wait=True)
    assert (live.current.digest, live.epoch, source.loads) == ("one", 1, 2)
    assert str(live.trouble) == "is bad"
    assert "last good one" in caplog.text
    source.version, source.bad, source.digest = 3, False, "two"
    live.refresh(wait=True)
    assert (live.trouble, live.epoch) == (None, 2)


def test_a_source_that_cannot_be_looked_at_leaves_the_last_good_policy() -> None:
    source = Source()
    asked: list[int] = []

    def fingerprint() -> object:
        asked.append(1)
        if len(asked) > 1:
            raise BadInput("gone")
        return 1

    live = LivePolicy(source.load, fingerprint)
    live.refresh(wait=True)
    assert (live.current.digest, str(live.trouble)) == ("one", "gone")


def test_the_first_policy_has_to_be_good() -> None:
    source = Source()
    source.bad = True
    with pytest.raises(BadInput):
        source.live()


def test_nothing_is_installed_at_first() -> None:
    with pytest.raises(RuntimeError, match=r"interlock\.install"):
        ambient.installed()


def test_a_span_inside_another_acts_as_it_does_with_an_id_of_its_own() -> None:
    assert current_span() is None
    with span(principal="acme/a", parent_principal="acme/boss") as outer:
        with span() as inner:
            assert current_span() is inner
            assert (inner.principal, inner.parent_principal) == ("acme/a", "acme/boss")
            assert inner.id != outer.id
        with span(principal="acme/b") as other:
            assert (other.principal, other.parent_principal) == ("acme/b", None)
        assert current_span() is outer
    assert current_span() is None


def test_a_span_ends_where_an_exception_leaves_it() -> None:
    with pytest.raises(ZeroDivisionError), span(principal="a"):
        raise ZeroDivisionError
    assert current_span() is None


def test_spans_follow_await_and_stay_apart_between_tasks() -> None:
    async def who() -> str | None:
        await asyncio.sleep(0)
        here = current_span()
        return here.principal if here else None

    async def agent(name: str) -> tuple[str | None, str | None]:
        with span(principal=name):
            return await who(), await asyncio.to_thread(lambda: (current_span() or span("none")).principal)

    async def both() -> list[tuple[str | None, str | None]]:
        return list(await asyncio.gather(agent("a"), agent("b")))

    assert asyncio.run(both()) == [("a", "a"), ("b", "b")]


def test_a_thread_begins_with_no_span_and_can_enter_the_same_one() -> None:
    seen: list[object] = []
    shared = span(principal="a")

    def work() -> None:
        seen.append(current_span())
        with shared, shared:
            seen.append(current_span())
        seen.append(current_span())

    with shared:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert current_span() is shared
    assert seen == [None, shared, None]


def a_rule(event: SensorEvent) -> Decision | None:
    return None


def test_each_weakening_setting_is_a_row() -> None:
    source = Source()
    weak = Installed(source.live(), NullSink())
    assert {row.name for row in attest(weak) if row.weakens} == {"policy", "sink"}
    with pytest.raises(Weakened, match="no receipt is kept"):
        require(weak)
    with pytest.raises(Weakened, match="no guard"):
        require(None)


def test_a_guard_with_rules_and_a_sink_is_not_weakened() -> None:
    policy = Policy(code_rules([a_rule]), "d" * 64)
    strong = Installed(LivePolicy(lambda: policy, lambda: None), InMemorySink(), lambda request: True)
    require(strong)
    assert {row.name: row.value for row in attest(strong)}["policy"] == f"1 rules, epoch 1, digest {'d' * 16}"


def test_a_policy_source_gone_bad_is_a_weakness() -> None:
    source = Source()
    guard = Installed(source.live(), InMemorySink())
    source.version, source.bad = 2, True
    guard.live.refresh(wait=True)
    assert "reload" in {row.name for row in attest(guard) if row.weakens}


def test_a_source_that_fails_in_a_way_of_its_own_leaves_the_last_good_policy() -> None:
    source = Source()
    live = LivePolicy(source.load, lambda: source.version)
    before = live.state

    def broken() -> Policy:
        raise RecursionError

    live._load = broken
    source.version = 2
    live.refresh(wait=True)
    assert live.state == before
    assert live.trouble is not None
    assert "RecursionError" in str(live.trouble)


def test_a_source_that_could_not_be_asked_is_loaded_again_once_it_can() -> None:
    source = Source()
    asked: list[Exception] = [ValueError(), BadInput("is away")]

    def fingerprint() -> object:
        if source.bad:
            raise asked.pop()
        return source.version

    live = LivePolicy(source.load, fingerprint)
    source.bad = True
    live.refresh(wait=True)
    live.refresh(wait=True)
    troubled = live.trouble
    source.bad = False
    live.refresh(wait=True)
    assert troubled is not None
    assert live.trouble is None
    assert live.epoch == 1


def test_no_call_waits_for_a_long_load_and_until_then_the_last_good_policy_holds() -> None:
    source, loading, go_on = Source(), threading.Event(), threading.Event()
    live = LivePolicy(source.load, lambda: source.version)
    loads: list[int] = []

    def slow() -> Policy:
        loads.append(source.version)
        loading.set()
        assert go_on.wait(10)
        return source.load()

    live._load = slow
    source.version, source.digest = 2, "two"
    interval = sys.getswitchinterval()
    live.refresh()
    assert loading.wait(10)
    live.refresh()
    assert (live.current.digest, live.epoch, loads) == ("one", 1, [2])
    go_on.set()
    live.refresh(wait=True)
    assert (live.current.digest, live.epoch, loads) == ("two", 2, [2])
    assert sys.getswitchinterval() == interval


def test_a_policy_loads_in_the_thread_that_was_to_begin_its_own_where_there_is_no_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    source = Source()
    live = source.live()
    source.version, source.digest = 2, "two"
    monkeypatch.setattr(threading.Thread, "start", start)
    live.refresh(wait=True)
    assert (live.current.digest, live.epoch, live.trouble) == ("two", 2, None)


def test_where_no_thread_can_be_started_the_last_good_policy_stays_until_one_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    source, before = Source(), sys.getswitchinterval()
    live = source.live()
    source.version, source.digest = 2, "two"
    with monkeypatch.context() as patched:
        patched.setattr(_thread, "start_new_thread", none)
        live.refresh(wait=True)
    assert (live.current.digest, live.trouble is not None) == ("one", True)
    assert sys.getswitchinterval() == before
    live.refresh(wait=True)
    assert (live.current.digest, live.trouble) == ("two", None)


def test_a_change_during_a_load_is_taken_over_too() -> None:
    source = Source()
    live = LivePolicy(source.load, lambda: source.version)
    load = source.load

    def changes() -> Policy:
        policy = load()
        if source.version == 2:
            source.version, source.digest = 3, "three"
        return policy

    live._load = changes
    source.version, source.digest = 2, "two"
    live.refresh(wait=True)
    assert (live.current.digest, live.epoch) == ("three", 3)


def test_every_change_is_taken_over_however_fast_they_come() -> None:
    source = Source()
    live = source.live()
    for version in range(2, 30):
        source.version, source.digest = version, f"v{version}"
        live.refresh()
        live.refresh(wait=True)
        assert live.current.digest == f"v{version}"


def test_a_child_that_is_forked_while_a_policy_loads_collects_and_takes_turns_as_before() -> None:
    before = sys.getswitchinterval()
    with short_turns(before / 10), held_off():
        assert not gc.isenabled()
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() and sys.getswitchinterval() == before else 1)
        assert sys.getswitchinterval() < before
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (gc.isenabled(), sys.getswitchinterval()) == (True, before)


def test_loads_that_overlap_leave_the_interval_that_was() -> None:
    before = sys.getswitchinterval()
    first, second = short_turns(before / 10), short_turns(before / 10)
    for step in (first.__enter__, second.__enter__):
        step()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() < before
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == before


def test_an_interval_that_the_program_sets_during_a_load_stands() -> None:
    before = sys.getswitchinterval()
    try:
        with short_turns(before / 10):
            sys.setswitchinterval(before * 2)
        assert sys.getswitchinterval() == before * 2
        with short_turns(before * 4):
            assert sys.getswitchinterval() == before * 2
    finally:
        sys.setswitchinterval(before)
