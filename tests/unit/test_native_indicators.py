"""Indicators of every kind run natively, and are those that the Python engine finds; however many are listed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.engine.decision import Verdict
from interlock.engine.detectors.indicator import KINDS, indicator_of, indicators_of
from interlock.engine.evaluate import evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.policy.builtins import resolver
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Source
from interlock.native.availability import availability
from interlock.native.planner import planned

if not availability().installed:
    pytest.skip(availability().sentence, allow_module_level=True)

from interlock.native.evaluator import NativeEvaluator

SHA = "9f" * 32
PROGRAMS = [
    "pip install ", "pip3 download ", "python -m pip wheel ", "uv add ", "uvx ", "pipx run ", "poetry add ", "npm i ",
    "npm exec ", "yarn dlx ", "npx ", "/usr/bin/bunx ", "cargo add ", "cargo install ", "gem install ", "go get ",
    "go run ", "curl ", "git clone ", "npm ", "sudo ", "echo ",
]  # fmt: skip
PACKAGES = [
    "evil", "Evil_Pkg", "evil.-_pkg", "evil==1.0", "evil===1.0", "evil[all]==1.0", "evil>=2,<3", "evil[a", "@s/x@1.0",
    "left-pad@1.0.0", "evil@", "evil@^1", "evil:1.0", "example.com/evil@v1", "example.com/a/b/c", "./evil", "~/x",
    "evil.WHL", "evil.tar.gz", "git+https://evil.example/x", "https://evil.example/x.tgz", "ſſ", "Kevil", "ÉVIL",
    "évil==1", "İ", "ΑΣ", "-v", "--vers", "1.0", "-r", "-i", "-C", "--", "-y", "--registry", "x.y", "a" * 101, "_", "",
]  # fmt: skip
SEPARATORS = [" ", "  ", "\t", "; ", " && ", "|", "\n", "\u00a0", "\u2028", "'", '"', "(", ")", "\r"]
HASHES = [SHA, SHA.upper(), SHA + "0", "x" + SHA, "é" + SHA, SHA[1:], f"sha256:{SHA}.", "0a" * 32, " "]
COMMANDS = st.lists(st.one_of(*map(st.sampled_from, (PROGRAMS, PACKAGES, SEPARATORS))), max_size=14).map("".join)
TEXTS = st.one_of(COMMANDS, COMMANDS, st.lists(st.sampled_from(HASHES + SEPARATORS), max_size=6).map("".join))
ARGS = st.recursive(
    TEXTS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["command", "cmd", "content", "file_text", "note"]), inner, max_size=3),
    ),
    max_leaves=5,
)
CALLS = st.dictionaries(st.sampled_from(["command", "content", "url", "x"]), ARGS, max_size=3)
KNOWN = [
    *(indicator_of("package", f"{name}@{version}") for name in ("npm:evil", "pypi:evil-pkg") for version in "*1"),
    indicator_of("file", SHA),
    indicator_of("mcp", SHA),
    indicator_of("host", "evil.example"),
]


def _policy(rules: list[dict[str, Any]]) -> Policy:
    document = {"format": "interlock-policy", "v": 1, "name": "listed", "rules": rules}
    return load_policy(json.dumps(document).encode(), where="x", source=Source("file"), resolve=resolver(None))


def _rule(name: str, digests: list[str], **more: Any) -> dict[str, Any]:
    when = {"detector": "indicator", "params": {"digests": digests}}
    return {"id": name, "when": when, "verdict": "block", "reason": "listed", **more}


@settings(max_examples=150, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(CALLS, st.sampled_from([None, SHA, SHA.upper(), f"mcp:{SHA}"]))
def test_what_the_native_engine_finds_is_what_python_finds_one_by_one(args: dict[str, Any], pin: str | None) -> None:
    event = SensorEvent("Bash", args, server_pin=pin)
    listed = [*KNOWN, *sorted(indicators_of(event))]
    policy = _policy([_rule(f"r{k}", [digest], shadow=True) for k, digest in enumerate(dict.fromkeys(listed))])
    native = NativeEvaluator()
    assert native.reasons(policy) == {}
    found = [rule.id for rule, _ in native.evaluate(policy, event).shadows]
    assert found == [rule.id for rule, _ in evaluate(policy, event).shadows]
    assert len(found) >= len(indicators_of(event))


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_of_each_kind_runs_natively_and_a_bare_digest_is_of_the_kind_that_is_named(kind: str) -> None:
    rule = _rule("one", ["0" * 64])
    rule["when"]["params"]["kind"] = kind
    assert planned(_policy([rule])).reasons == {}


def test_one_of_very_many_listed_files_is_found_by_its_digest() -> None:
    digests = [indicator_of("file", hashlib.sha256(str(k).encode()).hexdigest()) for k in range(20_000)]
    by_one, by_many = (
        _policy([_rule("all", digests)]),
        _policy([_rule(f"r{k}", [d]) for k, d in enumerate(digests[:3000])]),
    )
    native = NativeEvaluator()
    for policy in (by_one, by_many):
        for k, verdict in ((0, Verdict.BLOCK), (2_999, Verdict.BLOCK), (20_001, Verdict.ALLOW)):
            event = SensorEvent("Write", {"file_path": "/x", "content": str(k)})
            assert native.evaluate(policy, event).decision.verdict is verdict
    assert [rule.id for rule in native.evaluate(by_many, SensorEvent("Write", {"content": "77"})).fired] == ["r77"]


def test_as_many_are_looked_at_natively_as_in_python() -> None:
    names = [f"evil{k}" for k in range(200)]
    for command in ("npm i " + " ".join(names), "npm i " + " ".join(f"{name}@1" for name in names)):
        event = SensorEvent("Bash", {"command": command})
        rules = [_rule(name, [indicator_of("package", f"npm:{name}@*")], shadow=True) for name in names]
        policy = _policy(rules)
        ours = [rule.id for rule, _ in NativeEvaluator().evaluate(policy, event).shadows]
        assert ours == [rule.id for rule, _ in evaluate(policy, event).shadows]
        assert len(ours) == (200 if "@" not in command else 128)


def test_a_host_that_only_python_reads_is_judged_by_python() -> None:
    policy = _policy([_rule("one", [indicator_of("host", "xn--mnchen-3ya.example")])])
    event = SensorEvent("get", {"url": "https://münchen.example/"})
    assert NativeEvaluator().evaluate(policy, event).decision.verdict is Verdict.BLOCK
