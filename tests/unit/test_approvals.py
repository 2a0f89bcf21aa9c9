"""A queue of approvals: what a yes is tied to, how often and how long it holds, and who may give it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.base.canonical import NotCanonical
from interlock.base.clock import MICROSECONDS, ManualClock
from interlock.engine.approvals import REASON_BYTES, Approval, ApprovalRequest, Script, ask
from interlock.engine.approvals_store import (
    KEEP_US,
    MAX_OPEN,
    ApprovalStore,
    Asked,
    ClockWentBack,
    NotAllowed,
    NotOpen,
    UnknownRequest,
)
from interlock.engine.decision import Decision
from interlock.engine.evaluate import Outcome
from interlock.engine.event import SensorEvent
from tests.unit.approval_world import escalation, queue, request, request_id, rule, store_of

SECOND = MICROSECONDS


def script(digest: str) -> Callable[[SensorEvent], tuple[Script, ...]]:
    return lambda event: (Script("/p/x.sh", digest),)


# what a yes is tied to


def test_an_approved_call_goes_on_once_and_a_replay_does_not(tmp_path: Path) -> None:
    asked = queue(tmp_path)
    store_of(tmp_path).approve(request_id(asked), "mia")
    first, replay = ask(asked, escalation(), "p1"), ask(asked, escalation(), "p1")
    assert (first.approved, first.by) == (True, "mia")
    assert not replay.approved
    assert replay.note.startswith("the approval before has been used; a person has to approve request ")
    assert replay.request_id != first.request_id


def test_the_same_call_asks_once_however_often_it_is_tried(tmp_path: Path) -> None:
    asked = queue(tmp_path)
    assert request_id(asked) == request_id(asked) == request_id(queue(tmp_path))
    assert len(store_of(tmp_path).entries()) == 1


DIFFERENT: dict[str, tuple[Outcome, str, str]] = {
    "argument": (escalation(args={"command": "git push --force origin"}), "p1", "a"),
    "argument type": (escalation(args={"command": b"git push --force"}), "p1", "a"),
    "more arguments": (escalation(args={"command": "git push --force", "timeout": 1}), "p1", "a"),
    "action": (escalation("Monitor"), "p1", "a"),
    "phase": (escalation(phase="result"), "p1", "a"),
    "principal": (escalation(principal="other"), "p1", "a"),
    "parent": (escalation(parent_principal="other"), "p1", "a"),
    "rules": (escalation(rules=("ask.first", "ask.second")), "p1", "a"),
    "another rule": (escalation(rules=("ask.second",)), "p1", "a"),
    "policy": (escalation(), "p2", "a"),
    "cwd": (escalation(cwd="/elsewhere"), "p1", "a"),
    "server pin": (escalation(server_pin="cd"), "p1", "a"),
    "reason": (escalation(reason="needs two persons"), "p1", "a"),
    "script": (escalation(), "p1", "b"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_an_approval_holds_for_nothing_that_differs_in_one_part(tmp_path: Path, what: str) -> None:
    asked = queue(tmp_path)
    answer = ask(asked, escalation(), "p1", scripts=script("a"))
    store_of(tmp_path).approve(answer.request_id, "mia", "ttl", 60 * SECOND)
    outcome, policy, content = DIFFERENT[what]
    assert not ask(asked, outcome, policy, scripts=script(content)).approved
    assert ask(asked, escalation(), "p1", scripts=script("a")).approved


def test_what_is_not_bound_does_not_matter(tmp_path: Path) -> None:
    asked = queue(tmp_path)
    store_of(tmp_path).approve(request_id(asked), "mia")
    again = escalation(call_id="another", span_id="s2", evidence={"seen": 3}, ts_us=9)
    assert ask(asked, again, "p1").approved


def test_the_rules_count_as_a_set(tmp_path: Path) -> None:
    asked = queue(tmp_path)
    store_of(tmp_path).approve(request_id(asked, escalation(rules=("a", "b"))), "mia")
    assert ask(asked, escalation(rules=("b", "a")), "p1").approved


def test_the_final_rewritten_call_is_bound_and_shown(tmp_path: Path) -> None:
    given = request(escalation(args={"command": "push", "n": 1}, rewritten=("command",)))
    assert dict(given.args) == {"command": "push", "n": 1}
    assert given.rewritten == frozenset({"command"})
    assert given.rules == ("ask.first",)


def test_a_reason_is_frozen_to_512_bytes_and_cut_between_characters() -> None:
    long = request(escalation(reason="a" + "é" * 400))
    assert len(long.reason.encode()) == REASON_BYTES - 1
    assert request(escalation(reason="é" * 256)).reason == "é" * 256
    assert request(escalation(reason="\ud800")).reason == "\\ud800"


def test_a_call_without_an_encoding_is_not_approved_by_anybody() -> None:
    answer = ask(lambda given: True, escalation(args={"x": object()}), "p1")
    assert not answer.approved
    assert isinstance(answer.cause, NotCanonical)


def test_names_that_no_text_file_could_hold_are_bound_all_the_same(tmp_path: Path) -> None:
    odd: dict[str, Any] = {
        "action": "a\ud800",
        "principal": "\udfff",
        "parent_principal": "\ud83d\ude00",
        "span_id": "\ud800",
        "cwd": "\ud800",
    }
    asked = queue(tmp_path)
    store_of(tmp_path).approve(request_id(asked, escalation(**odd)), "mia", "session")
    assert ask(asked, escalation(**odd), "p1").approved
    assert not ask(asked, escalation(**{**odd, "principal": "\ud800"}), "p1").approved


# only an escalation


@pytest.mark.parametrize("decision", [Decision.block("no"), Decision.allow(), Decision.modify({"a": 1})])
def test_only_an_escalation_can_be_released(tmp_path: Path, decision: Decision) -> None:
    outcome = Outcome(decision, SensorEvent("Bash", {"command": "git push --force"}))
    assert not ask(lambda given: True, outcome).approved
    assert not ask(queue(tmp_path), outcome).approved
    assert store_of(tmp_path).entries() == []


# whoever decides takes time


def test_a_script_that_changes_while_somebody_decides_voids_the_yes() -> None:
    contents = iter("ab")
    answer = ask(lambda given: True, escalation(), "p1", scripts=lambda e: (Script("/p/x.sh", next(contents)),))
    assert (answer.approved, answer.note) == (False, "the action changed while it waited for approval")


def test_a_policy_that_changes_while_somebody_decides_voids_the_yes() -> None:
    answer = ask(lambda given: Approval(True, "mia"), escalation(), "p1", policy_now=lambda: "p2")
    assert (answer.approved, answer.by) == (False, "mia")
    assert ask(lambda given: True, escalation(), "p1", policy_now=lambda: "p1").approved


def _late(given: ApprovalRequest) -> bool:
    raise TimeoutError


def _broken(given: ApprovalRequest) -> bool:
    raise NotOpen("is full", where="the queue", fix="wait")


@pytest.mark.parametrize(
    ("approver", "note"),
    [
        (_late, "the approver did not answer in time"),
        (_broken, "the queue: is full; wait"),
        (lambda given: 1, "the approver answered with a int"),
        (lambda given: Approval(1), "the approver answered with a Approval"),  # type: ignore[arg-type]
        (lambda given: Approval(True, by=7), "the approver answered with a Approval"),  # type: ignore[arg-type]
        (lambda given: given.nothing, "the approver failed with AttributeError"),
        (lambda given: Approval(False, "mia"), "the approver refused"),
        (None, "no approver is installed"),
    ],
)
def test_a_late_missing_or_odd_answer_is_a_no_with_its_own_reason(approver: object, note: str) -> None:
    assert ask(approver, escalation(), "p1").note == note  # type: ignore[arg-type]


# the two clocks


def test_a_request_waits_as_long_as_it_may_and_a_late_yes_is_refused(tmp_path: Path) -> None:
    clock = ManualClock()
    asked = queue(tmp_path, clock, wait_s=60)
    store = store_of(tmp_path, clock)
    id_ = request_id(asked)
    clock.advance(59.999999)
    assert request_id(asked) == id_
    clock.advance(0.000001)
    with pytest.raises(NotOpen, match="was not answered in time"):
        store.approve(id_, "mia")
    again = ask(asked, escalation(), "p1")
    assert again.note.startswith("nobody answered the request before in time; a person has to approve request ")
    assert again.request_id != id_


def test_an_approval_may_be_used_as_long_as_it_says(tmp_path: Path) -> None:
    clock = ManualClock()
    asked = queue(tmp_path, clock, wait_s=60, use_s=30)
    store = store_of(tmp_path, clock)
    first = request_id(asked)
    clock.advance(59)  # the one clock does not shorten the other
    store.approve(first, "mia")
    clock.advance(29.999999)
    assert ask(asked, escalation(), "p1").approved
    store.approve(second := request_id(asked), "mia")
    clock.advance(30)
    late = ask(asked, escalation(), "p1")
    assert late.note.startswith("the approval before was not used in time; ")
    assert store.get(second).state == "lapsed"


def test_a_ttl_ends_when_it_says_and_not_with_the_use_clock(tmp_path: Path) -> None:
    clock = ManualClock()
    asked = queue(tmp_path, clock, use_s=10)
    store_of(tmp_path, clock).approve(request_id(asked), "mia", "ttl", 100 * SECOND)
    for _ in range(3):
        clock.advance(33)
        assert ask(asked, escalation(), "p1").approved
    clock.advance(1)
    assert not ask(asked, escalation(), "p1").approved


def test_a_clock_that_goes_back_voids_what_is_open_and_says_so_once(tmp_path: Path) -> None:
    clock = ManualClock()
    asked = queue(tmp_path, clock)
    store = store_of(tmp_path, clock)
    store.approve(granted := request_id(asked), "mia")
    waiting = request_id(asked, escalation("other"))
    clock.advance(-3600)
    answer = ask(asked, escalation(), "p1")
    assert (answer.approved, type(answer.cause)) == (False, ClockWentBack)
    assert answer.note == (
        "the clock went back from 2027-01-15T08:00:00Z to 2027-01-15T07:00:00Z, so every open request is void; "
        "ask again"
    )
    assert {store.get(granted).state, store.get(waiting).state} == {"void"}
    assert request_id(asked) not in (granted, waiting)


def test_a_clock_that_goes_back_a_little_stands_still(tmp_path: Path) -> None:
    clock = ManualClock()
    asked = queue(tmp_path, clock, use_s=10)
    store = store_of(tmp_path, clock)
    store.approve(request_id(asked), "mia")
    clock.advance(-4)
    assert ask(asked, escalation(), "p1").approved


# scopes


def test_a_session_holds_for_its_own_span_alone(tmp_path: Path) -> None:
    asked = queue(tmp_path)
    store_of(tmp_path).approve(request_id(asked, escalation(span_id="s1")), "mia", "session")
    assert [ask(asked, escalation(span_id=s), "p1").approved for s in ("s1", "s2", "s1", None)] == [1, 0, 1, 0]


def test_what_belongs_to_no_session_cannot_be_approved_for_one(tmp_path: Path) -> None:
    id_ = request_id(queue(tmp_path))
    with pytest.raises(NotOpen, match="belongs to no session"):
        store_of(tmp_path).approve(id_, "mia", "session")


@pytest.mark.parametrize(("scope", "ttl"), [("always", 0), ("ttl", 0), ("once", 5), ("ttl", 86_401 * SECOND), ("", 0)])
def test_a_scope_that_does_not_exist_is_a_mistake_of_the_caller(tmp_path: Path, scope: str, ttl: int) -> None:
    id_ = request_id(queue(tmp_path))
    with pytest.raises(ValueError, match="a scope is one of"):
        store_of(tmp_path).approve(id_, "mia", scope, ttl)


# who may


@pytest.mark.parametrize("name", ["bot", "BOT", "boss"])
def test_nobody_approves_what_they_ask_for_themselves(tmp_path: Path, name: str) -> None:
    id_ = request_id(queue(tmp_path), escalation(principal="bot", parent_principal="boss"))
    with pytest.raises(NotAllowed, match="asks for this itself"):
        store_of(tmp_path).approve(id_, name)


@pytest.mark.parametrize("name", ["", "mia\n", "m\u0456a", "-x", "x" * 65, "a b"])
def test_an_approvers_name_can_be_told_from_every_other(tmp_path: Path, name: str) -> None:
    id_ = request_id(queue(tmp_path))
    for answer in (store_of(tmp_path).approve, store_of(tmp_path).deny):
        with pytest.raises(NotAllowed, match="an approver's name"):
            answer(id_, name)


def test_four_eyes_are_two_different_approvers_and_neither_asks(tmp_path: Path) -> None:
    asked = queue(tmp_path, four_eyes=True)
    outcome = escalation(principal="bot")
    store, id_ = store_of(tmp_path), request_id(asked, escalation(principal="bot"))
    assert store.approve(id_, "mia").state == "pending"
    assert not ask(asked, outcome, "p1").approved
    with pytest.raises(NotAllowed, match="somebody else has to"):
        store.approve(id_, "MIA")
    with pytest.raises(NotAllowed, match="asks for this itself"):
        store.approve(id_, "bot")
    assert store.approve(id_, "ben").state == "approved"
    answer = ask(asked, outcome, "p1")
    assert (answer.approved, answer.by) == (True, "mia, ben")


def test_two_approvers_have_to_mean_the_same(tmp_path: Path) -> None:
    store, id_ = store_of(tmp_path), request_id(queue(tmp_path, four_eyes=True))
    store.approve(id_, "mia")
    with pytest.raises(NotAllowed, match="mia approved it with scope once"):
        store.approve(id_, "ben", "ttl", SECOND)


def test_one_no_is_enough_for_four_eyes(tmp_path: Path) -> None:
    store, id_ = store_of(tmp_path), request_id(asked := queue(tmp_path, four_eyes=True))
    store.approve(id_, "mia")
    store.deny(id_, "ben")
    assert ask(asked, escalation(), "p1").note == f"request {id_} was denied"


# no, and taking a yes back


def test_a_denied_request_is_not_asked_again_until_its_wait_is_over(tmp_path: Path) -> None:
    clock = ManualClock()
    asked = queue(tmp_path, clock, wait_s=60)
    store_of(tmp_path, clock).deny(id_ := request_id(asked), "mia")
    clock.advance(59)
    answer = ask(asked, escalation(), "p1")
    assert (answer.by, answer.note) == ("mia", f"request {id_} was denied")
    clock.advance(1)
    assert request_id(asked) != id_


def test_a_revoked_approval_holds_no_more(tmp_path: Path) -> None:
    asked, store = queue(tmp_path), store_of(tmp_path)
    store.approve(id_ := request_id(asked), "mia", "ttl", 60 * SECOND)
    assert ask(asked, escalation(), "p1").approved
    store.revoke(id_, "ben")
    assert ask(asked, escalation(), "p1").note.startswith("the approval before was revoked; ")


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (("approve", "approve"), "is approved already"),
        (("approve", "deny"), "is approved already"),
        (("deny", "approve"), "was denied"),
        (("deny", "deny"), "was denied"),
        (("revoke",), "still waits for an answer"),
        (("approve", "revoke", "approve"), "was revoked"),
    ],
)
def test_a_request_is_answered_in_legal_orders_alone(tmp_path: Path, steps: tuple[str, ...], told: str) -> None:
    store, id_ = store_of(tmp_path), request_id(queue(tmp_path))
    for step in steps[:-1]:
        getattr(store, step)(id_, "mia")
    with pytest.raises(NotOpen, match=told):
        getattr(store, steps[-1])(id_, "ben")


def test_a_request_that_nobody_made_is_none(tmp_path: Path) -> None:
    for step in ("approve", "deny", "revoke"):
        with pytest.raises(UnknownRequest, match="is no request in this queue"):
            getattr(store_of(tmp_path), step)("0" * 16, "mia")


def test_what_was_shown_is_forgotten_once_it_is_over_and_the_row_after_a_month(tmp_path: Path) -> None:
    clock = ManualClock()
    asked = queue(tmp_path, clock)
    store = store_of(tmp_path, clock)
    secret = escalation(args={"command": "export TOKEN=hunter2"})
    store.approve(id_ := request_id(asked, secret), "mia")
    assert ask(asked, secret, "p1").approved
    assert store.get(id_).document == b""
    store.close()
    asked.close()
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"hunter2" not in held
    clock.advance(KEEP_US / SECOND + 1)
    with pytest.raises(UnknownRequest):
        store_of(tmp_path, clock).get(id_)


@pytest.mark.parametrize("ends", ["used", "denied", "revoked", "unanswered", "lapsed", "void"])
def test_what_was_shown_is_in_no_file_once_it_is_over_though_the_queue_is_in_use(tmp_path: Path, ends: str) -> None:
    clock = ManualClock()
    asked, store = queue(tmp_path, clock), store_of(tmp_path, clock)
    secret = escalation(args={"command": "export TOKEN=hunter2"})
    id_ = request_id(asked, secret)
    assert any(b"hunter2" in path.read_bytes() for path in tmp_path.iterdir())
    if ends == "denied":
        store.deny(id_, "mia")
    elif ends != "unanswered":
        store.approve(id_, "mia")
    if ends == "used":
        assert ask(asked, secret, "p1").approved
    elif ends == "revoked":
        store.revoke(id_, "mia")
    elif ends == "void":
        clock.advance(-7200)
        with pytest.raises(ClockWentBack):
            store.get(id_)
    elif ends != "denied":
        clock.advance(7200)
        assert store.get(id_).state == ends
    assert not any(b"hunter2" in path.read_bytes() for path in tmp_path.iterdir())
    store.close()
    asked.close()


def test_a_flood_of_requests_is_refused_and_takes_no_approval_away(tmp_path: Path) -> None:
    asked, store = queue(tmp_path), store_of(tmp_path)
    store.approve(request_id(asked), "mia")
    with store._write() as db:
        db.executemany(
            "INSERT INTO requests (id, digest, action, document, created, wait_until, use_for, four_eyes, changed)"
            " VALUES (?, ?, 'x', X'', 0, ?, 1, 0, 0)",
            [(f"{n:016x}", str(n), 1 << 60) for n in range(MAX_OPEN)],
        )
    assert "1000 requests wait for approval already" in ask(asked, escalation("new"), "p1").note
    assert ask(asked, escalation(), "p1").approved


# a call that stands still


def test_a_held_call_goes_on_once_somebody_answers(tmp_path: Path) -> None:
    asked = queue(tmp_path, hold_s=20)
    answers: list[Approval] = []
    thread = threading.Thread(target=lambda: answers.append(ask(asked, escalation(), "p1")))
    thread.start()
    store = store_of(tmp_path)
    while not (waiting := store.entries()):
        thread.join(0.02)
    store.approve(waiting[0].id, "mia")
    thread.join(20)
    assert [answer.by for answer in answers if answer.approved] == ["mia"]


def test_a_held_call_that_nobody_answers_is_refused_in_time(tmp_path: Path) -> None:
    assert "a person has to approve" in ask(queue(tmp_path, hold_s=0.3), escalation(), "p1").note


@pytest.mark.parametrize("times", [{"wait_s": 0}, {"use_s": -1}, {"wait_s": float("nan")}, {"hold_s": 1e9}])
def test_times_that_make_no_sense_are_a_mistake_of_the_caller(tmp_path: Path, times: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="seconds"):
        queue(tmp_path, **times)


def test_a_queue_in_a_forked_child_is_opened_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = queue(tmp_path)
    store = ApprovalStore(tmp_path / "approvals.sqlite")
    id_ = request_id(asked)
    monkeypatch.setattr("os.getpid", lambda: 1)
    assert request_id(asked) == id_
    with pytest.raises(RuntimeError, match="before this process was forked"):
        store.use_or_ask(Asked("d", "a", None, None, None, b"", 1, 1, False))


def test_the_rule_of_these_tests_escalates() -> None:
    assert rule().function(SensorEvent("x", {})) == Decision.escalate("needs a person")
