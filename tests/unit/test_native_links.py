"""Rules that ask where a path leads run natively: the engine asks no file system, and is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock import Blocked, enforce_tool_call
from interlock.engine import ambient
from interlock.engine.decision import Verdict
from interlock.engine.evaluate import evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.policy.builtins import follow_links, resolver
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Source
from interlock.native.availability import availability
from interlock.native.planner import planned

if not availability().installed:
    pytest.skip(availability().sentence, allow_module_level=True)

from interlock.native.evaluator import NativeEvaluator


def _rules(top: object) -> list[dict[str, Any]]:
    when = {"path": {"access": "write", "under": str(top)}}
    return [{"id": "under." + Path(str(top)).name, "when": when, "verdict": "block", "reason": "no"}]


def _policy(rules: list[dict[str, Any]], links: Callable[[str], str] | None) -> Policy:
    document = {"format": "interlock-policy", "v": 1, "name": "links", "rules": rules}
    data = json.dumps(document).encode()
    return load_policy(data, where="links", source=Source("file"), resolve=resolver(None), links=links)


def _said(policy: Policy, event: SensorEvent) -> Verdict:
    ours, theirs = NativeEvaluator().evaluate(policy, event), evaluate(policy, event)
    assert (ours.decision, ours.rewritten) == (theirs.decision, theirs.rewritten)
    return ours.decision.verdict


def _writes(path: object, cwd: object = None) -> SensorEvent:
    return SensorEvent("Bash", {"command": f"echo x > {path}"}, cwd=None if cwd is None else str(cwd))


def test_a_link_is_followed_for_a_rule_that_runs_natively(tmp_path: Path) -> None:
    kept, work = tmp_path / "kept", tmp_path / "work"
    kept.mkdir()
    work.mkdir()
    (work / "out").symlink_to(kept)
    policy = _policy(_rules(kept), follow_links)
    assert planned(policy).reasons == {}
    assert _said(policy, _writes(work / "out" / "x")) is Verdict.BLOCK
    assert _said(policy, _writes("out/x", work)) is Verdict.BLOCK
    assert _said(policy, _writes("other/x", work)) is Verdict.ALLOW
    assert _said(_policy(_rules(kept), None), _writes(work / "out" / "x")) is Verdict.ALLOW


def test_a_guard_with_a_policy_file_follows_links_natively(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / "out").symlink_to(kept)
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"format": "interlock-policy", "v": 1, "name": "one", "rules": _rules(kept)}), "utf-8")
    interlock.install(policy=file)
    try:
        assert planned(ambient.installed().live.current).reasons == {}
        with pytest.raises(Blocked, match="no"):
            enforce_tool_call("Bash", {"command": f"echo x > {tmp_path}/out/x"})
        args = {"command": f"echo x > {tmp_path}/other"}
        assert enforce_tool_call("Bash", args) == args
    finally:
        ambient.install(None)


def test_each_path_is_followed_once_for_all_rules_and_only_where_one_asks() -> None:
    followed: list[str] = []

    def follow(path: str) -> str:
        followed.append(path)
        return path

    policy = _policy([rule for k in range(50) for rule in _rules(f"/kept{k}")], follow)
    native = NativeEvaluator()
    assert native.evaluate(policy, _writes("/a")).decision.verdict is Verdict.ALLOW
    assert followed == ["/a"]
    del followed[:]
    for event in (_writes("/kept0/x"), SensorEvent("Bash", {"command": "ls"}), _writes("x")):
        native.evaluate(policy, event)
    assert followed == []


def test_a_place_is_judged_again_once_the_call_is_rewritten() -> None:
    mask = {"id": "mask", "when": {"action": "*"}, "verdict": "modify", "reason": "m"}
    mask |= {"mask": {"detector": "pii_redaction", "params": {"emails": True}}}
    policy = _policy([*_rules("/kept"), mask, *_rules("/kept2")], str.lower)
    assert planned(policy).reasons == {}
    assert _said(policy, _writes("/Kept/me@corp.example")) is Verdict.BLOCK
    assert _said(policy, _writes("/other/me@corp.example")) is Verdict.MODIFY


def test_what_cannot_be_followed_natively_is_judged_by_python() -> None:
    def fails(path: str) -> str:
        raise OSError(path)

    assert _said(_policy(_rules("/kept"), fails), _writes("/x")) is Verdict.BLOCK
    assert _said(_policy(_rules("/kept"), lambda path: "/kept/\udcff"), _writes("/x")) is Verdict.BLOCK


def test_a_rule_that_follows_links_in_another_way_stays_with_python() -> None:
    first, second = _policy(_rules("/kept"), str.lower), _policy(_rules("/kept"), str.upper)
    both = Policy((*first.rules, *second.rules), "")
    assert planned(both).reasons == {1: "it follows links in another way than a rule before it"}
    assert _said(both, _writes("/Kept/x")) is Verdict.BLOCK
