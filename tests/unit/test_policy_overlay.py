"""Settings of an operator's document, and overlays, which may only add."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.base.canonical import encode
from interlock.commons.pack import BadPack, build_pack, parse_pack
from interlock.engine.decision import Verdict
from interlock.engine.detectors.spec import DetectorSpec
from interlock.engine.evaluate import evaluate
from interlock.engine.event import Origin, SensorEvent
from interlock.engine.policy import conditions, counting, rule_document
from interlock.engine.policy.limits import Limits, Oversize, oversized, weaker_settings
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Quarantined, Source
from interlock.engine.policy.problems import BadPolicy
from interlock.engine.policy.settings import SETTINGS
from interlock.engine.rules import deny_when, with_code_rules

SECRET = "AKIA" + "Z7QK2M4NP3RWX6TY"
CARD = "4111 1111 1111 1111"


def rule(name: str, word: str = "", **fields: object) -> dict[str, object]:
    when = {"arg": "a", "contains": word or name}
    return {"id": name, "when": when, "verdict": "block", "reason": f"no {name}", **fields}


def data(*rules: object, **fields: object) -> bytes:
    return json.dumps({"format": "interlock-policy", "v": 1, "name": "p", "rules": list(rules), **fields}).encode()


def loaded(top: bytes, trusted: Callable[[str], bool] = lambda sha: True, **others: bytes) -> Policy:
    source = Source("file", "team.json")
    return load_policy(top, where="team.json", source=source, resolve=others.__getitem__, trusted=trusted)


def refused(top: bytes, trusted: Callable[[str], bool] = lambda sha: True, **others: bytes) -> str:
    with pytest.raises(BadPolicy) as caught:
        loaded(top, trusted, **others)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def ids(policy: Policy) -> list[str]:
    return [rule.id for rule in policy.rules]


def test_an_overlays_rules_come_after_all_others_and_bear_its_name() -> None:
    base = data(rule("low"))
    policy = loaded(data(rule("own"), extends=["base"], overlays=["more"]), base=base, more=data(rule("added")))
    assert ids(policy) == ["low", "own", "added"]
    assert policy.rules[-1].source == Source("overlay", "more")
    assert policy.digest != loaded(data(rule("own"), extends=["base"]), base=base).digest


def test_an_overlay_counts_only_as_the_content_that_a_person_has_trusted() -> None:
    top, more = data(overlays=["more"]), data(rule("added"))
    seen = hashlib.sha256(more).hexdigest()
    assert ids(loaded(top, lambda sha: sha == seen, more=more)) == ["added"]
    for changed in (more + b" ", data(rule("other"))):
        line = refused(top, lambda sha: sha == seen, more=changed)
        assert line == (
            "more: is an overlay that nobody has trusted as it now stands; read it, then: interlock policy trust more"
        )


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"extends": ["low"]}, "extends another policy"),
        ({"limits": {"command": 1 << 20}}, "has settings"),
        ({"oversize": {"call": "allow"}}, "has settings"),
        ({"harmless": "prove"}, "has settings"),
        ({"quarantine": [{"rule": "own", "by": "x", "reason": "y"}]}, "has settings"),
        ({"overlays": ["more"]}, "has settings"),
        ({"tools": {"Bash": {}}}, "has settings"),
        ({"grammars": {}}, "unknown field 'grammars'"),
        ({"rules": [rule("own")]}, "redefines a rule of team.json"),
        ({"rules": [rule("x", verdict="allow")]}, "'allow' is no verdict"),
        ({"rules": [{"id": "x", "disable": "own"}]}, "unknown field 'disable'"),
        ({"rules": [rule("x", examples={"fires": [{"action": "Bash"}]})]}, "the rule does not fire"),
    ],
)
def test_an_overlay_that_could_weaken_anything_is_refused_whole(fields: dict[str, object], says: str) -> None:
    assert says in refused(data(rule("own"), overlays=["more"]), more=data(**{"rules": [], **fields}))


def test_an_overlay_masks_what_a_detector_finds_and_writes_nothing_of_its_own() -> None:
    def masking(**params: object) -> bytes:
        mask = {"detector": "pii_redaction", "params": params}
        return data(rule("m", word="4", verdict="modify", mask=mask))

    assert ids(loaded(data(overlays=["more"]), more=masking(emails=True))) == ["m"]
    assert "wrong type" in refused(data(overlays=["more"]), more=masking(emails="me@evil.example"))


def test_an_overlay_that_counts_pushes_out_no_count_of_the_policy_under_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MAX_KEYS", 2)

    def counted(name: str, word: str, per: str) -> dict[str, object]:
        when = {"all": [{"arg": "a", "contains": word}, {"count": {"above": 1, "per": per}}]}
        return {"id": name, "when": when, "verdict": "block", "reason": "too often"}

    base, more = counted("base", "x", "all"), counted("more", "y", "span")
    policy = loaded(data(base, overlays=["more"]), more=data(more))
    assert evaluate(policy, SensorEvent("t", {"a": "x"})).decision.verdict is Verdict.ALLOW
    for span in "abcdef":
        evaluate(policy, SensorEvent("t", {"a": "y"}, span_id=span))
    assert evaluate(policy, SensorEvent("t", {"a": "x"})).decision.verdict is Verdict.BLOCK


def test_a_mask_with_a_text_of_its_authors_is_refused_in_overlays_and_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    params: dict[str, type | tuple[type, ...]] = {"with": str}
    spec = DetectorSpec("swap", lambda given: lambda event: None, params, True, ("call",), "")
    monkeypatch.setattr(conditions, "REGISTRY", {"swap": spec})
    monkeypatch.setattr(rule_document, "REGISTRY", {"swap": spec})
    mask = {"detector": "swap", "params": {"with": "curl evil.example"}}
    one = rule("m", verdict="modify", mask=mask, examples={"passes": [{"action": "x"}]})
    assert ids(loaded(data(one))) == ["m"]
    assert "more: rule m: mask.params.with: masks with a value of its author's" in refused(
        data(overlays=["more"]), more=data(one)
    )
    with pytest.raises(BadPack, match="masks with a value of its author's"):
        build_pack("team", 1, [one], licence="MIT", authors=["a"])


def test_a_pack_has_no_field_for_a_setting() -> None:
    pack = json.loads(build_pack("team", 1, [rule("x")], licence="MIT", authors=["a"]).data)
    for setting in (*SETTINGS, "extends", "grammars"):
        with pytest.raises(BadPack):
            parse_pack(encode({**pack, setting: []}), where="pack")


ORDER = {Verdict.ALLOW: 0, Verdict.MODIFY: 1, Verdict.ESCALATE: 2, Verdict.BLOCK: 3}
_words = st.sampled_from(["alpha", "beta", "gamma"])
_masks = st.sampled_from([{"detector": "secrets"}, {"detector": "pii_redaction"}])
_verdicts = st.sampled_from(["block", "escalate", "modify"])
_parts = st.lists(st.sampled_from(["alpha", "beta", "gamma", SECRET, CARD]), max_size=4)
_conditions = st.recursive(
    _words.map(lambda word: {"arg": "a", "contains": word})
    | st.sampled_from([{"action": "Bash"}, {"arg": "b", "gt": 3}, {"detector": "secrets"}]),
    lambda inner: st.builds(lambda one: {"not": one}, inner) | st.builds(lambda x, y: {"any": [x, y]}, inner, inner),
    max_leaves=3,
)


@st.composite
def _rules(draw: st.DrawFn, prefix: str) -> list[dict[str, object]]:
    made: list[dict[str, object]] = []
    for i in range(draw(st.integers(0, 3))):
        verdict = draw(_verdicts)
        fields: dict[str, object] = {"when": draw(_conditions), "verdict": verdict, "shadow": draw(st.booleans())}
        if verdict == "modify":
            fields[draw(st.sampled_from(["mask", "remove"]))] = draw(_masks)
        made.append({"id": f"{prefix}{i}", "reason": "r", **fields})
    return made


@settings(max_examples=150, deadline=None, derandomize=True)
@given(_rules("base"), _rules("more"), _parts, st.integers(0, 5))
def test_with_an_overlay_no_event_is_judged_more_mildly_and_what_was_masked_stays_so(
    base: list[dict[str, object]], more: list[dict[str, object]], parts: list[str], number: int
) -> None:
    try:
        alone = loaded(data(*base))
        both = loaded(data(*base, overlays=["more"]), more=data(*more))
    except BadPolicy:
        return  # contradictions are refused before anything is judged
    event = SensorEvent("Bash", {"a": " ".join(parts), "b": number})
    without, together = evaluate(alone, event), evaluate(both, event)
    assert ORDER[together.decision.verdict] >= ORDER[without.decision.verdict]
    text, masked = str(together.event.args["a"]), str(without.event.args["a"])
    if together.decision.verdict is not Verdict.BLOCK:
        for hidden in (SECRET, CARD):
            assert hidden in masked or hidden not in text


def test_quarantine_puts_out_of_force_what_a_person_names_and_reports_it() -> None:
    row = {"rule": "low", "by": "alice", "reason": "too many false alarms"}
    policy = loaded(data(rule("own"), extends=["base"], quarantine=[row]), base=data(rule("low"), rule("high")))
    assert ids(policy) == ["high", "own"]
    assert policy.quarantined == (Quarantined("low", "alice", "too many false alarms"),)
    assert policy.digest != loaded(data(rule("own"), extends=["base"]), base=data(rule("low"), rule("high"))).digest
    outer = loaded(data(extends=["mid"]), mid=data(rule("x"), quarantine=[{**row, "rule": "x"}]))
    assert [r.rule for r in outer.quarantined] == ["x"]
    locked = data(rule("low", locked=True))
    assert "names 'low', which is locked" in refused(data(extends=["base"], quarantine=[row]), base=locked)
    assert "names 'low', and there is no such rule" in refused(data(quarantine=[row]))
    assert "quarantine[0].by: is missing" in refused(data(quarantine=[{"rule": "x", "reason": "y"}]))
    assert "names one rule twice" in refused(data(rule("low"), quarantine=[row, row]))


def test_limits_are_the_documents_own_or_the_strictest_of_those_it_extends() -> None:
    low = data(limits={"command": 100}, oversize={"call": "block"})
    high = data(limits={"command": 200, "result": 50}, oversize={"call": "allow"})
    inherited = loaded(data(extends=["low", "high"]), low=low, high=high)
    assert (inherited.limits, inherited.oversize) == (Limits(command=100, result=50), Oversize(call="block"))
    own = loaded(data(extends=["low"], limits={"command": 300}), low=low)
    assert (own.limits.command, own.oversize.call) == (300, "block")
    assert "limits.command: is no whole number from 1 to 1048576" in refused(data(limits={"command": 1 << 21}))
    assert "unknown limit 'comand'" in refused(data(limits={"comand": 5}))
    assert "oversize.call: is none of escalate, block, allow" in refused(data(oversize={"call": "record"}))


def test_the_limits_of_a_document_stand_for_the_rules_that_it_extends_and_for_overlays() -> None:
    def pattern(name: str) -> bytes:
        return data({"id": name, "when": {"arg": "a", "regex": f"{name}+y"}, "verdict": "escalate", "reason": "no"})

    settings_ = {"limits": {"argument": 10}, "oversize": {"call": "block"}}
    policy = loaded(
        data(extends=["mid"], overlays=["o"], **settings_), mid=data(extends=["low"]), low=pattern("x"), o=pattern("z")
    )
    said = [one.function(SensorEvent("t", {"a": "-" * 11})) for one in policy.rules]
    assert [decision and (decision.verdict, decision.policy_id) for decision in said] == [
        (Verdict.BLOCK, "interlock.limits")
    ] * 2


def test_a_rule_in_quarantine_makes_no_other_idle() -> None:
    wide, narrow = (
        rule("wide", "x"),
        {**rule("narrow"), "when": {"all": [{"arg": "a", "contains": "x"}, {"action": "Bash"}]}},
    )
    assert "never decides anything" in refused(data(wide, narrow))
    row = {"rule": "wide", "by": "alice", "reason": "noisy"}
    assert ids(loaded(data(wide, narrow, quarantine=[row]))) == ["narrow"]


def test_a_call_beyond_the_limits_gets_the_verdict_that_the_document_names() -> None:
    pattern = {"id": "r", "when": {"arg": "command", "regex": "x+y"}, "verdict": "block", "reason": "no"}
    event = SensorEvent("Bash", {"command": "x" * 200 + "z" * 200 + "xy"})
    for word, verdict in (("escalate", Verdict.ESCALATE), ("block", Verdict.BLOCK), ("allow", Verdict.BLOCK)):
        policy = loaded(data(pattern, limits={"command": 100}, oversize={"call": word}))
        decision = evaluate(policy, event).decision
        assert decision.verdict is verdict
        assert decision.policy_id == ("r" if word == "allow" else "interlock.limits")
    hidden = SensorEvent("Bash", {"command": "z" * 200 + "xy" + "z" * 200})
    assert evaluate(policy, hidden).decision.verdict is Verdict.ALLOW
    assert oversized(hidden, policy.limits) == ("command",)


def test_a_weaker_setting_can_be_seen() -> None:
    assert weaker_settings(Limits(), Oversize()) == ()
    assert weaker_settings(Limits(command=10), Oversize("allow")) == (
        "oversize.call = allow",
        "limits.command = 10",
    )
    assert weaker_settings(Limits(result=10), Oversize("block", "record")) == ("limits.result = 10",)


def test_to_prove_harmless_is_asked_for_by_the_document_itself() -> None:
    assert loaded(data(harmless="prove")).prove_harmless
    assert not loaded(data(extends=["base"]), base=data(harmless="prove")).prove_harmless
    assert loaded(data(harmless="prove")).digest != loaded(data()).digest
    assert 'can be "prove" only' in refused(data(harmless=True))


def test_code_rules_leave_a_documents_settings_in_force() -> None:
    policy = loaded(data(rule("x"), harmless="prove", limits={"command": 9}, oversize={"call": "block"}))
    with_code = with_code_rules(policy, loaded(data(rule("y"))).rules)
    assert (with_code.limits, with_code.oversize, with_code.prove_harmless) == (
        policy.limits, policy.oversize, True,
    )  # fmt: skip
    assert deny_when(lambda event: True, "no")(SensorEvent("x", {})) is not None


def test_an_example_that_does_not_hold_keeps_a_file_from_loading() -> None:
    wrong = rule("x", examples={"fires": [{"action": "Bash", "args": {"a": "y"}}]})
    assert refused(data(wrong)) == "team.json: rule x: examples.fires[0]: the rule does not fire"
    over = rule("x", examples={"passes": [{"action": "Bash", "args": {"a": "x"}}]})
    assert refused(data(over)) == "team.json: rule x: examples.passes[0]: the rule fires"
    assert ids(loaded(data(rule("x")))) == ["x"]


def test_a_flow_rule_names_the_argument_that_the_value_stands_in() -> None:
    flow = {"flow": {"source": "tool:fetch", "sink": "mail.body"}}
    example = {"action": "mail", "args": {"body": {"t": "x"}}, "origins": [{"source": "tool:fetch", "path": "body.t"}]}
    made = {"id": "f", "when": {"all": [{"action": "mail"}, flow]}, "verdict": "block", "reason": "no"}
    (one,) = loaded(data({**made, "examples": {"fires": [example], "passes": [{"action": "mail"}]}})).rules
    (named,) = loaded(data({**made, "attributed_to": "body"})).rules
    fetched = SensorEvent("mail", {"body": {"t": "x"}}, origins=(Origin("tool:fetch", "body.t"),))
    for rule_, path in ((one, "body.t"), (named, "body")):
        decision = rule_.function(fetched)
        assert decision is not None
        assert decision.attributed_to == path
