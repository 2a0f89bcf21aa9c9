"""Each setting that weakens protection is one row of the posture, and one row of the security model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock import posture
from interlock.engine import ambient
from interlock.engine.flow import FlowTracker
from interlock.engine.posture import WEAKENINGS
from interlock.engine.receipts import Receipt
from interlock.engine.scopes import ScopedEngine, ScopeRegistry
from interlock.engine.sinks import FileSink, InMemorySink

DOC = Path(__file__).resolve().parents[2] / "docs" / "security-model.md"
RULE = {"id": "r", "when": {"action": "bad"}, "verdict": "block", "reason": "no"}


@pytest.fixture(autouse=True)
def no_guard_after() -> Iterator[None]:
    yield
    ambient.install(None)


def policy(**more: object) -> dict[str, Any]:
    return {"format": "interlock-policy", "v": 1, "name": "p", "rules": [RULE], **more}


def install(folder: Path, body: dict[str, Any] | None = None, **more: Any) -> Path:
    file = folder / "policy.json"
    file.write_text(json.dumps(body or policy()))
    interlock.install(policy=file, **{"sink": InMemorySink(), **more})
    return file


class Broken(InMemorySink):
    def append(self, receipt: Receipt) -> Receipt:
        raise OSError("full")


def nothing(folder: Path) -> None:
    ambient.install(None)


def no_rule(folder: Path) -> None:
    interlock.install(sink=InMemorySink())


def bad_source(folder: Path) -> None:
    install(folder).write_text("{}")
    ambient.installed().live.refresh(wait=True)


def quarantine(folder: Path) -> None:
    install(folder, policy(quarantine=[{"rule": "r", "by": "ada", "reason": "noisy"}]))


def oversize(folder: Path) -> None:
    install(folder, policy(oversize={"call": "allow"}))


def harmless(folder: Path) -> None:
    install(folder, policy(harmless="prove"))


def unscoped(folder: Path) -> None:
    install(folder, scopes=ScopedEngine(ScopeRegistry(), allow_unscoped=True))


def forgetful(folder: Path) -> None:
    install(folder, flow=FlowTracker(max_text=8))
    interlock.enforce_tool_result("fetch", "a text that is far too long for this tracker to remember")


def monitor(folder: Path) -> None:
    install(folder)
    interlock.enforce_tool_call("bad", {}, enforcement="monitor")


def no_sink(folder: Path) -> None:
    install(folder, sink=None)


def no_fsync(folder: Path) -> None:
    install(folder, sink=FileSink(folder / "r", fsync=False))


def dropped(folder: Path) -> None:
    install(folder, sink=Broken())
    interlock.enforce_tool_call("t", {}, enforcement="monitor")


def one_user(folder: Path) -> None:
    install(folder, sink=FileSink(folder / "r"))


def own_queue(folder: Path) -> None:
    install(folder, approver=interlock.ApprovalQueue(folder / "approvals.sqlite"))


WEAK: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "guard": (nothing, {"guard"}),
    "policy": (no_rule, {"policy"}),
    "reload": (bad_source, {"reload"}),
    "quarantine": (quarantine, {"quarantine", "policy"}),
    "limits": (oversize, {"limits"}),
    "harmless": (harmless, {"harmless"}),
    "scopes": (unscoped, {"scopes"}),
    "flow": (forgetful, {"flow"}),
    "monitor": (monitor, {"monitor"}),
    "sink": (no_sink, {"sink"}),
    "fsync": (no_fsync, {"fsync", "one-user"}),
    "dropped": (dropped, {"dropped", "monitor"}),
    "one-user": (one_user, {"one-user"}),
    "approvals": (own_queue, {"approvals"}),
}


def rows_of_the_security_model() -> dict[str, str]:
    section = DOC.read_text(encoding="utf-8").split("## Settings that weaken protection")[1]
    table = re.findall(r"^\| ([a-z-]+) \| [^|]+ \| ([^|]+) \|$", section, re.M)
    return {name: told for name, told in table if name != "row"}


def test_the_security_model_lists_the_rows_of_the_posture_in_the_same_words() -> None:
    assert rows_of_the_security_model() == WEAKENINGS


def test_every_row_has_a_case_that_weakens_it() -> None:
    assert WEAK.keys() == WEAKENINGS.keys()


@pytest.mark.parametrize("name", WEAK)
def test_a_setting_that_weakens_is_seen_and_required_against(name: str, tmp_path: Path) -> None:
    weaken, rows = WEAK[name]
    weaken(tmp_path)
    assert {row.name for row in posture.attest() if row.weakens} == rows
    with pytest.raises(posture.Weakened, match=re.escape(WEAKENINGS[name])):
        posture.require(accept=rows - {name})
    posture.require(accept=rows)


def test_rules_that_only_watch_weaken_as_no_rules_do(tmp_path: Path) -> None:
    install(tmp_path, policy(rules=[{**RULE, "shadow": True}]))
    assert interlock.enforce_tool_call("bad", {}) == {}
    assert {row.name for row in posture.attest() if row.weakens} == {"policy"}
    install(tmp_path, policy(rules=[{**RULE, "shadow": True}, {**RULE, "id": "s"}]))
    posture.require()


def test_any_sink_for_which_no_receipt_is_made_weakens(tmp_path: Path) -> None:
    class Own:
        keeps_nothing = True

        def args_digest(self, encoded: bytes) -> str | None:
            raise AssertionError("asked")

        def append(self, receipt: Receipt) -> Receipt:
            return receipt

    install(tmp_path, sink=Own())
    assert interlock.enforce_tool_call("t", {}) == {}
    assert {row.name for row in posture.attest() if row.weakens} == {"sink"}


def test_nothing_weakens_a_guard_with_a_policy_and_a_sink_elsewhere(tmp_path: Path) -> None:
    install(tmp_path)
    posture.require()
    names = [row.name for row in posture.attest()]
    assert names == [*dict.fromkeys(names)]
    assert names[-2:] == ["approver", "observers"]


def test_a_row_that_does_not_exist_cannot_be_accepted(tmp_path: Path) -> None:
    install(tmp_path)
    with pytest.raises(ValueError, match="one-usr"):
        posture.require(accept=["one-usr"])
