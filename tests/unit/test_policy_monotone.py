"""What packs and overlays bring can only add: no event is judged more mildly with it than without, in either engine."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.commons.grants import Grant, Grants
from interlock.commons.pack import BadPack, build_pack, parse_pack
from interlock.commons.resolve import Subscribed, resolve
from interlock.engine.decision import Verdict
from interlock.engine.evaluate import Evaluator, PythonEvaluator
from interlock.engine.event import SensorEvent
from interlock.engine.payload import result_args
from interlock.engine.policy.document import semantic_digest
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Source
from interlock.engine.policy.problems import BadPolicy
from interlock.engine.rules import code_rules, deny_when, with_code_rules
from interlock.native.evaluator import chosen_evaluator

SECRET = "AKIA" + "Z7QK2M4NP3RWX6TY"
CARD = "4111 1111 1111 1111"
ORDER = {Verdict.ALLOW: 0, Verdict.MODIFY: 1, Verdict.ESCALATE: 2, Verdict.BLOCK: 3}
EVALUATORS: tuple[Evaluator, ...] = (PythonEvaluator(), chosen_evaluator())
MASK_SECRETS = {"id": "mask", "when": {"action": "*"}, "verdict": "modify", "mask": {"detector": "secrets"}}
NO_KEYS = {"id": "keys", "when": {"arg": "a", "contains": "AKIA"}, "verdict": "block"}

OTHER = {"id": "other", "when": {"arg": "a", "contains": "other"}, "verdict": "block"}


def data(rules: list[dict[str, Any]], **fields: object) -> bytes:
    told = [{"reason": "r", **rule} for rule in rules]
    return json.dumps({"format": "interlock-policy", "v": 1, "name": "p", "rules": told, **fields}).encode()


def loaded(top: bytes, **others: bytes | Policy) -> Policy:
    source = Source("file", "top")
    return load_policy(top, where="top", source=source, resolve=others.__getitem__, trusted=lambda sha: True)


def packed(rules: list[dict[str, Any]], *, granted: bool = True, ring: str = "stable", name: str = "team") -> Policy:
    told = [{"reason": "r", **rule} for rule in rules]
    pack = parse_pack(build_pack(name, 1, told, licence="MIT", authors=["a"]).data, where="pack")
    grants = Grants(tuple(Grant(name, doc.id, semantic_digest(doc), 0) for doc in pack.rules if granted))
    return resolve((), [Subscribed(pack, ring, 1)], grants)


# name -> (the policy without what somebody else brought, the policy with it)
def pairs(own: list[dict[str, Any]], base: list[dict[str, Any]], more: list[dict[str, Any]]) -> dict[str, Any]:
    guest, others = data(more), data(base)
    blocked = code_rules([deny_when(lambda event: "AKIA" in str(event.args), "code")])
    laid_over = loaded(data(own, overlays=["m"]), m=guest)
    return {
        "overlay": (loaded(data(own)), laid_over),
        "overlay under code": (with_code_rules(loaded(data(own)), blocked), with_code_rules(laid_over, blocked)),
        "overlay of what is extended": (
            loaded(data(own, extends=["b"]), b=others),
            loaded(data(own, extends=["b"]), b=data(base, overlays=["m"]), m=guest),
        ),
        "extended pack": (loaded(data(own)), loaded(data(own, extends=["p"]), p=packed(more))),
        "extended pack that may ask": (
            loaded(data(own)),
            loaded(data(own, extends=["p"]), p=packed(more, granted=False, ring="beta")),
        ),
        "overlay over a pack": (
            loaded(data(own, extends=["p"]), p=packed(base)),
            loaded(data(own, extends=["p"], overlays=["m"]), p=packed(base), m=guest),
        ),
        "pack before an overlay": (
            loaded(data(own, overlays=["m"]), m=others),
            loaded(data(own, overlays=["m"], extends=["p"]), p=packed(more), m=others),
        ),
    }


def milder(without: Policy, together: Policy, event: SensorEvent) -> list[str]:
    return [
        f"{engine.name}: {before.name} became {after.name}"
        for engine in EVALUATORS
        for before, after in [[engine.evaluate(p, event).decision.verdict for p in (without, together)]]
        if ORDER[after] < ORDER[before]
    ]


@pytest.mark.parametrize("how", sorted(pairs([NO_KEYS], [OTHER], [MASK_SECRETS])))
def test_what_a_guest_masks_does_not_hide_it_from_the_operators_own_rules(how: str) -> None:
    without, together = pairs([NO_KEYS], [OTHER], [MASK_SECRETS])[how]
    event = SensorEvent("Bash", {"a": SECRET})
    assert milder(without, together, event) == []
    assert together.rules[-1].id == "mask" or how == "extended pack that may ask"


def test_what_one_pack_masks_does_not_hide_it_from_the_next_one() -> None:
    both = resolve((), [_subscribed("one", MASK_SECRETS), _subscribed("two", NO_KEYS)], _all_granted())
    alone = resolve((), [_subscribed("two", NO_KEYS)], _all_granted())
    assert milder(alone, both, SensorEvent("Bash", {"a": SECRET})) == []


def _subscribed(name: str, rule: dict[str, Any]) -> Subscribed:
    pack = build_pack(name, 1, [{"reason": "r", **rule}], licence="MIT", authors=["a"])
    return Subscribed(parse_pack(pack.data, where=name), "stable", 1)


def _all_granted() -> Grants:
    docs = [("one", MASK_SECRETS), ("two", NO_KEYS)]
    rows = [(name, doc) for name, rule in docs for doc in _subscribed(name, rule).pack.rules]
    return Grants(tuple(Grant(name, doc.id, semantic_digest(doc), 0) for name, doc in rows))


_LEAVES = st.sampled_from([
    {"arg": "a", "contains": "AKIA"}, {"arg": "a", "contains": "REDACTED"}, {"arg": "*", "prefix": "alpha"},
    {"arg": "a", "regex": r"\d{4} \d{4}"}, {"arg": "a", "regex": "x+y"}, {"arg": "b", "glob": "*alpha*"},
    {"action": "Bash"}, {"detector": "secrets"}, {"detector": "pii_redaction", "params": {"emails": True}},
])  # fmt: skip
_CONDITIONS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda one: {"not": one}, inner),
        st.builds(lambda kind, x, y: {kind: [x, y]}, st.sampled_from(["all", "any"]), inner, inner),
    ),
    max_leaves=4,
)
_MASKS = st.sampled_from([{"detector": "secrets"}, {"detector": "pii_redaction", "params": {"emails": True}}])
_TEXTS = st.lists(
    st.sampled_from(["alpha", "AKIA", SECRET, CARD, "me@corp.example", "[REDACTED", "x" * 30]), max_size=4
).map(" ".join)


@st.composite
def _rules(draw: st.DrawFn, prefix: str) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for i in range(draw(st.integers(1, 2))):
        verdict = draw(st.sampled_from(["block", "escalate", "modify", "modify"]))
        body = {
            "phase": draw(st.sampled_from(["call", "call", "result"])),
            "shadow": draw(st.sampled_from([False] * 4 + [True])),
        }
        mask = {draw(st.sampled_from(["mask", "remove"])): draw(_MASKS)} if verdict == "modify" else {}
        made.append({"id": f"{prefix}{i}", "when": draw(_CONDITIONS), "verdict": verdict, **body, **mask})
    return made


@settings(max_examples=120, deadline=None, derandomize=True)
@given(_rules("own"), _rules("base"), _rules("more"), st.lists(_TEXTS, min_size=2, max_size=2), st.booleans())
def test_no_event_is_judged_more_mildly_with_what_a_pack_or_an_overlay_brings(
    own: list[dict[str, Any]], base: list[dict[str, Any]], more: list[dict[str, Any]], texts: list[str], result: bool
) -> None:
    args = dict(zip("ab", texts, strict=True))
    event = SensorEvent("Bash", result_args(args), "result") if result else SensorEvent("Bash", args)
    try:
        made = pairs(own, base, more)
    except (BadPolicy, BadPack):
        return  # a contradiction: refused before anything is judged
    found = {how: milder(without, together, event) for how, (without, together) in made.items()}
    assert not any(found.values()), found


def test_a_pack_has_no_say_in_how_much_of_an_event_the_operators_rules_read() -> None:
    without, together = (
        loaded(
            data([NO_KEYS], extends=["b", *more]),
            b=data([OTHER], limits={"result": 1 << 22}),
            p=packed([MASK_SECRETS]),
        )
        for more in ([], ["p"])
    )
    assert (together.limits, together.oversize) == (without.limits, without.oversize)
