"""Conditions on how often: what is counted, for whom, and for how long it is remembered."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from interlock.base.clock import ManualClock
from interlock.engine.event import SensorEvent
from interlock.engine.policy import counting
from interlock.engine.policy.compiled import compile_rules
from interlock.engine.policy.counting import Counter, CountStore
from interlock.engine.policy.model import Rule, Source
from interlock.engine.policy.problems import BadPolicy
from interlock.engine.policy.rule_document import rule_docs


def made(*parts: Mapping[str, object], clock: ManualClock | None = None) -> Rule:
    when = {"all": list(parts)} if len(parts) > 1 else parts[0]
    docs = rule_docs([{"id": "r", "when": when, "verdict": "block", "reason": "too often"}], "here")
    return compile_rules(docs, Source("file"), CountStore((clock or ManualClock()).now_us))[0]


def fires(rule: Rule, command: str = "ls", **event: str) -> bool:
    return rule.function(SensorEvent("Bash", {"command": command}, **event)) is not None  # type: ignore[arg-type]


def refused(when: Mapping[str, object]) -> str:
    with pytest.raises(BadPolicy) as caught:
        made(when)
    return str(caught.value)


BASH: dict[str, object] = {"arg": "command", "prefix": "curl"}


def test_a_count_is_met_from_one_more_than_its_number_on() -> None:
    rule = made(BASH, {"count": {"above": 2}})
    assert [fires(rule, "curl a", span_id="s") for _ in range(4)] == [False, False, True, True]


def test_only_events_that_the_rest_of_the_rule_holds_for_are_counted() -> None:
    for parts in ((BASH, {"count": {"above": 1}}), ({"count": {"above": 1}}, BASH)):
        rule = made(*parts)
        assert not any(fires(rule, "ls") for _ in range(5))
        assert [fires(rule, "curl a") for _ in range(2)] == [False, True]


def test_events_are_counted_together_by_span_by_principal_or_all() -> None:
    by_span = made({"count": {"above": 1}})
    assert not fires(by_span, span_id="a", principal="p")
    assert not fires(by_span, span_id="b", principal="p")
    assert fires(by_span, span_id="a", principal="q")
    by_principal = made({"count": {"above": 1, "per": "principal"}})
    assert not fires(by_principal, span_id="a", principal="p")
    assert fires(by_principal, span_id="b", principal="p")
    assert not fires(by_principal, span_id="a", principal="q")
    together = made({"count": {"above": 1, "per": "all"}})
    assert not fires(together, span_id="a")
    assert fires(together, span_id="b", principal="z")


def test_a_rate_forgets_what_is_older_than_its_seconds() -> None:
    clock = ManualClock()
    rule = made({"rate": {"above": 2, "seconds": 60}}, clock=clock)
    assert [fires(rule) for _ in range(3)] == [False, False, True]
    clock.advance(59)
    assert fires(rule)
    clock.advance(60)
    assert not fires(rule)


def test_a_call_that_is_judged_twice_counts_once() -> None:
    rule = made({"count": {"above": 1}})
    assert not fires(rule, call_id="1")
    assert not fires(rule, call_id="1")
    assert fires(rule, call_id="2")
    assert fires(rule, call_id="2")


def test_two_counts_of_one_rule_each_count_every_event() -> None:
    rule = made({"count": {"above": 3}}, {"count": {"above": 1, "per": "all"}})
    assert [fires(rule) for _ in range(5)] == [False, False, False, True, True]


def test_a_store_remembers_so_many_counts_and_then_forgets_the_one_unused_for_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counting, "MAX_KEYS", 2)
    rule = made({"count": {"above": 1}})
    assert [fires(rule, span_id=name) for name in ("a", "b", "a", "c", "a", "b")] == [
        False, False, True, False, True, False,
    ]  # fmt: skip


def test_threads_that_count_together_lose_no_event() -> None:
    store, counter = CountStore(ManualClock().now_us), Counter("count", 3999, "all")
    over: list[bool] = []

    def many() -> None:
        over.extend(store.exceeds(counter, "k", SensorEvent("x", {})) for _ in range(1000))

    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert over.count(True) == 1


def test_what_is_no_count_is_refused() -> None:
    assert refused({"count": {}}) == "here: rule r: when.count.above: is missing"
    assert "is no whole number from 0 to 1000000" in refused({"count": {"above": True}})
    assert "is no whole number from 1 to 86400" in refused({"rate": {"above": 1, "seconds": 0}})
    assert "unknown field 'seconds'" in refused({"count": {"above": 1, "seconds": 5}})
    assert "none of span, principal and all" in refused({"count": {"above": 1, "per": "tool"}})


def test_a_count_stands_at_the_top_of_a_rule_only() -> None:
    count = {"count": {"above": 1}}
    for when in ({"any": [count, BASH]}, {"not": count}, {"all": [BASH, {"all": [count, BASH]}]}):
        assert "'count' stands within another condition" in refused(when)
