"""Packs, rings, grants, and the Policy that comes of them: a pack can only add objections."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.base import canonical
from interlock.base.codec import Malformed
from interlock.base.errors import BadInput, InterlockError
from interlock.commons.channel import dump_channel, parse_channel
from interlock.commons.grants import Grant, Grants, dump_grants, parse_grants
from interlock.commons.pack import LICENCES, BadPack, Pack, build_pack, pack_from_policy, parse_pack
from interlock.commons.resolve import Subscribed, resolve
from interlock.commons.rings import RINGS, at_ring, capped
from interlock.engine.decision import Verdict
from interlock.engine.evaluate import evaluate
from interlock.engine.event import SensorEvent
from interlock.engine.policy.document import RuleDoc, rule_docs, semantic_digest
from interlock.engine.policy.model import Policy
from tests.unit.commons_world import pack, rule

CARD = "pay 4111 1111 1111 1111"


def _body(made: Pack) -> dict[str, object]:
    return canonical.json_object(made.data, "pack")


def _said(policy: Policy, command: str) -> tuple[Verdict, str]:
    decision = evaluate(policy, SensorEvent("Bash", {"command": command})).decision
    return decision.verdict, decision.reason


def _mask() -> dict[str, object]:
    return {
        "id": "team.mask",
        "when": {"action": "Bash"},
        "verdict": "modify",
        "reason": "cards stay here",
        "mask": {"detector": "pii_redaction"},
        "examples": {
            "fires": [{"action": "Bash", "args": {"command": CARD}}],
            "passes": [{"action": "Bash", "args": {"command": "ls"}}],
        },
    }


def _resolved(
    rules: list[dict[str, object]], ring: str, grants: Grants | None = None, base: tuple[RuleDoc, ...] = ()
) -> Policy:
    made = build_pack("team", 1, rules, licence="MIT", authors=["A"])
    return resolve(base, [Subscribed(made, ring, 4)], grants or Grants())


def _granting(*rules: dict[str, object]) -> Grants:
    docs = rule_docs(rules, "test")
    return Grants(tuple(Grant("team", doc.id, semantic_digest(doc), 1) for doc in docs))


# --- packs --------------------------------------------------------------------------------------------------------


def test_a_pack_reads_back_as_it_was_built() -> None:
    made = pack(3)
    assert parse_pack(made.data, where="pack") == made
    assert (made.name, made.version, made.kind, made.licence) == ("team", 3, "policy", "Apache-2.0")


@given(
    name=st.from_regex(r"[a-hj-z0-9][a-z0-9-]{0,20}", fullmatch=True),
    version=st.integers(1, 2**31 - 1),
    licence=st.sampled_from(sorted(LICENCES)),
    authors=st.lists(st.text("abc é日", min_size=1, max_size=20), min_size=1, max_size=4),
)
def test_any_pack_reads_back_as_it_was_built(name: str, version: int, licence: str, authors: list[str]) -> None:
    made = build_pack(name, version, [rule("a.b", "zap")], licence=licence, authors=authors)
    assert parse_pack(made.data, where="pack") == made


@given(st.binary(max_size=200))
def test_any_bytes_are_a_pack_or_a_bad_pack(data: bytes) -> None:
    with pytest.raises(BadPack) as caught:
        parse_pack(data, where="pack")
    assert "\n" not in str(caught.value)


@given(st.data())
def test_a_pack_with_one_byte_changed_is_another_pack_or_none(data: st.DataObject) -> None:
    made = pack()
    at = data.draw(st.integers(0, len(made.data) - 1))
    changed = bytearray(made.data)
    changed[at] ^= data.draw(st.integers(1, 255))
    try:
        other = parse_pack(bytes(changed), where="pack")
    except BadPack:
        return
    assert other.digest != made.digest


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("format", "interlock-policy", "format"),
        ("v", 1, "version than 2; it has to be published anew"),
        ("v", 3, "version than 2; upgrade interlock"),
        ("v", "2", "version than 2; upgrade interlock"),
        ("name", "Team", "name"),
        ("name", "indicator-x", "no other"),
        ("name", "", "name"),
        ("version", 0, "version"),
        ("version", True, "version"),
        ("kind", "code", "kind"),
        ("kind", "indicator", "no other"),
        ("name", "warning-x", "no other"),
        ("status", "retired", "status"),
        ("signed_off_by", ["Ada <ada@example.org>"], "Signed-off-by"),
        ("signed_off_by", ["Signed-off-by: Ada"], "Signed-off-by"),
        ("author_key", "ed25519:00", "author_key"),
        ("author_key", f"ml-dsa-44:{'00' * 1312}", "author_key"),
        ("results", ["ab"], "SHA-256"),
        ("lists", {"hosts": ["example.org"]}, "lists"),
        ("licence", "GPL-3.0-only", "licence"),
        ("authors", [], "authors"),
        ("authors", ["a\nb"], "one line"),
        ("description", "a\nb", "one line"),
        ("rules", [], "rules"),
        ("rules", [{"id": "x"}], "rule x"),
        ("rules", [rule("a", "b") | {"wehn": {}}], "wehn"),
    ],
)
def test_a_pack_with_a_bad_field_is_refused_in_one_line(field: str, value: object, what: str) -> None:
    body = {**_body(pack()), field: value}
    with pytest.raises(BadPack, match=what) as caught:
        parse_pack(canonical.encode(body), where="pack team")
    assert "\n" not in str(caught.value)


def test_a_pack_has_every_field_and_no_other() -> None:
    for field in _body(pack()):
        body = {k: v for k, v in _body(pack()).items() if k != field}
        with pytest.raises(BadPack):
            parse_pack(canonical.encode(body), where="pack")
    with pytest.raises(BadPack, match="unknown field 'more'"):
        parse_pack(canonical.encode({**_body(pack()), "more": 1}), where="pack")


def test_a_pack_has_one_spelling() -> None:
    with pytest.raises(BadPack, match="canonical"):
        parse_pack(json.dumps(_body(pack())).encode(), where="pack")


def test_a_policy_document_becomes_a_pack_of_its_name() -> None:
    document = {"format": "interlock-policy", "v": 1, "name": "house", "rules": [rule("a.b", "zap")]}
    made = pack_from_policy(json.dumps(document).encode(), version=4, licence="MIT", authors=["A"], where="f.json")
    assert (made.name, made.version, made.rules[0].id) == ("house", 4, "a.b")


def test_a_source_in_yaml_becomes_a_pack_of_canonical_json() -> None:
    source = """
name: house
version: 7
status: shadow
licence: MIT
authors: [Ada]
signed_off_by: ["Signed-off-by: Ada <ada@example.org>"]
rules:
  - id: house.zap
    when: {arg: command, contains: zap}
    verdict: block
    reason: zap is not for agents
"""
    made = pack_from_policy(source.encode(), where="house.yaml")
    assert parse_pack(made.data, where="pack") == made
    assert (made.name, made.version, made.status, made.signed_off_by[0]) == (
        "house",
        7,
        "shadow",
        "Signed-off-by: Ada <ada@example.org>",
    )
    assert pack_from_policy(source.encode(), where="house.yaml", version=8, status="active").version == 8
    for wrong in ("version: 7", "authors: [Ada]", "- id: house.zap"):
        with pytest.raises(BadPack, match=r"house\.yaml"):
            pack_from_policy(source.replace(wrong, "").encode(), where="house.yaml")


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("lists", {}, "lists"),
        ("lists", {"phones": ["1"]}, "list is none of"),
        ("lists", {"hosts": []}, "not a list of rows"),
        ("lists", {"hosts": [" "]}, "empty row"),
        ("lists", {"hosts": ["a\nb"]}, "one line"),
        ("lists", {"hosts": ["a.example"] * 4097}, "rows"),
        ("rules", [rule("a.b", "zap")], "lists only"),
        ("name", "team", "named warning"),
    ],
)
def test_a_warning_pack_has_lists_and_no_rules(field: str, value: object, what: str) -> None:
    lists = {"hosts": ["example.org"], "commands": ["ls -l"]}
    made = build_pack("warning-top", 1, [], kind="warning", licence="CC0-1.0", authors=["A"], lists=lists)
    assert parse_pack(made.data, where="pack").lists == {"hosts": ("example.org",), "commands": ("ls -l",)}
    with pytest.raises(BadPack, match=what):
        parse_pack(canonical.encode({**_body(made), field: value}), where="pack")


def test_a_policy_that_extends_another_is_no_pack() -> None:
    document = {"format": "interlock-policy", "v": 1, "name": "house", "extends": ["builtin:x"], "rules": []}
    with pytest.raises(BadPack, match="stands alone"):
        pack_from_policy(json.dumps(document).encode(), version=1, licence="MIT", authors=["A"], where="f.json")


def test_a_pack_whose_status_is_shadow_is_never_felt_though_it_is_granted() -> None:
    rules = [rule("team.zap", "zap")]
    for status, verdict, shadows in (("shadow", Verdict.ALLOW, 1), ("deprecated", Verdict.BLOCK, 0)):
        made = build_pack("team", 1, rules, licence="MIT", authors=["A"], status=status)  # type: ignore[arg-type]
        policy = resolve((), [Subscribed(made, "stable", 4)], _granting(*rules))
        outcome = evaluate(policy, SensorEvent("Bash", {"command": "run zap now"}))
        assert (outcome.decision.verdict, len(outcome.shadows)) == (verdict, shadows)


# --- rings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("granted", [False, True])
@pytest.mark.parametrize("ring", [*RINGS, "gold"])
@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_ring_never_makes_a_verdict_stronger(verdict: Verdict, ring: str, granted: bool) -> None:
    strength = [Verdict.ALLOW, Verdict.ESCALATE, Verdict.MODIFY, Verdict.BLOCK]
    capped_to = capped(verdict, ring, granted=granted)
    assert strength.index(capped_to) <= strength.index(verdict)
    if verdict is not Verdict.ALLOW and ring in ("beta", "stable"):
        assert capped_to is not Verdict.ALLOW


@pytest.mark.parametrize(
    ("ring", "granted", "expected", "why"),
    [
        ("canary", True, Verdict.ALLOW, ""),
        ("beta", True, Verdict.ESCALATE, "a beta pack may only ask"),
        ("stable", False, Verdict.ESCALATE, "not granted"),
        ("stable", True, Verdict.BLOCK, "zap is not for agents"),
    ],
)
def test_a_block_acts_as_its_ring_and_its_grant_allow(ring: str, granted: bool, expected: Verdict, why: str) -> None:
    zap = rule("team.zap", "zap")
    policy = _resolved([zap], ring, _granting(zap) if granted else None)
    verdict, reason = _said(policy, "zap")
    assert verdict is expected
    assert why in reason


@pytest.mark.parametrize(("granted", "expected"), [(False, Verdict.ESCALATE), (True, Verdict.MODIFY)])
def test_a_mask_asks_until_it_is_granted(granted: bool, expected: Verdict) -> None:
    policy = _resolved([_mask()], "stable", _granting(_mask()) if granted else None)
    outcome = evaluate(policy, SensorEvent("Bash", {"command": CARD}))
    assert outcome.decision.verdict is expected
    assert ("4111" in str(outcome.event.args["command"])) is not granted


def test_a_community_rule_is_never_locked() -> None:
    policy = _resolved([rule("team.zap", "zap") | {"locked": True}], "stable")
    assert [r.locked for r in policy.rules] == [False]


# --- the operator's own base ---------------------------------------------------------------------------------------


def test_a_rule_that_the_base_has_too_acts_in_full_and_names_the_pack() -> None:
    zap = rule("own.zap", "zap")
    policy = _resolved([zap], "stable", base=rule_docs([zap], "base"))
    assert _said(policy, "zap") == (Verdict.BLOCK, "zap is not for agents")
    (only,) = policy.rules
    assert (only.source.kind, only.source.name, only.source.log_index) == ("pack", "team@stable", 4)


def test_a_pack_that_lacks_a_base_rule_does_not_take_it_away() -> None:
    base = rule_docs([rule("own.zap", "zap")], "base")
    policy = _resolved([rule("team.fry", "fry")], "stable", base=base)
    assert _said(policy, "zap")[0] is Verdict.BLOCK
    assert policy.rules[0].source.kind == "builtin"


def test_a_pack_that_redefines_a_base_rule_stands_beside_it_under_its_own_name() -> None:
    base = rule_docs([rule("own.zap", "zap")], "base")
    weaker = rule("own.zap", "never", verdict="escalate")
    policy = _resolved([weaker], "stable", _granting(weaker), base)
    assert [r.id for r in policy.rules] == ["own.zap", "team/own.zap"]
    assert _said(policy, "zap")[0] is Verdict.BLOCK


WORDS = ["zap", "fry", "mow", "dig"]


@given(
    base=st.lists(st.sampled_from(WORDS), unique=True),
    words=st.lists(
        st.tuples(st.sampled_from(WORDS), st.sampled_from(["block", "escalate"])),
        min_size=1,
        max_size=4,
        unique_by=lambda p: p[0],
    ),
    ring=st.sampled_from([*RINGS, "gold"]),
    grant=st.booleans(),
    command=st.sampled_from([*WORDS, "ls", "zap fry"]),
)
def test_adding_a_pack_never_weakens_what_the_base_says(
    base: list[str], words: list[tuple[str, str]], ring: str, grant: bool, command: str
) -> None:
    docs = rule_docs([rule(f"own.{w}", w) for w in base], "base")
    rules = [rule(f"team.{w}", w, verdict=v) for w, v in words]
    alone = _said(resolve(docs, [], Grants()), command)[0]
    together = _said(_resolved(rules, ring, _granting(*rules) if grant else None, docs), command)[0]
    strength = [Verdict.ALLOW, Verdict.ESCALATE, Verdict.MODIFY, Verdict.BLOCK]
    assert strength.index(together) >= strength.index(alone)


def test_the_digest_follows_packs_rings_and_grants() -> None:
    zap = rule("team.zap", "zap")
    digests = [
        _resolved([zap], "stable").digest,
        _resolved([zap], "beta").digest,
        _resolved([zap], "stable", _granting(zap)).digest,
        _resolved([zap, rule("team.fry", "fry")], "stable").digest,
        _resolved([zap], "stable", base=rule_docs([rule("own.mow", "mow")], "base")).digest,
    ]
    assert len(set(digests)) == len(digests)
    assert _resolved([zap], "stable").digest == digests[0]


# --- grants and channels --------------------------------------------------------------------------------------------


def test_grants_read_back_as_they_were_written() -> None:
    grants = _granting(rule("team.zap", "zap"), rule("team.fry", "fry"))
    assert parse_grants(dump_grants(grants), where="g") == grants


def test_a_grant_given_twice_keeps_its_first_time() -> None:
    grants = Grants((Grant("team", "a", "00", 1),)).with_rows(
        [Grant("team", "a", "00", 9), Grant("team", "b", "11", 9)]
    )
    assert [g.at for g in grants.rows] == [1, 9]
    assert grants.without("team", frozenset({"a"})).rows == (Grant("team", "b", "11", 9),)
    assert grants.without("team").rows == ()


def test_a_grant_covers_one_pack_s_rule_only() -> None:
    grants = Grants((Grant("team", "a", "00", 1),))
    assert grants.covers("team", "00")
    assert not grants.covers("other", "00")
    assert not grants.covers("team", "01")


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"format": "interlock-grants", "v": 1}', '{"format": "interlock-grants", "v": 1, "grants": [1]}'],
)
def test_a_damaged_grants_file_is_said_in_one_line(text: str) -> None:
    with pytest.raises(InterlockError) as caught:
        parse_grants(text.encode(), where="grants.json")
    assert caught.value.code == "bad-state"


def test_a_channel_index_reads_back_and_only_for_its_ring() -> None:
    data = dump_channel("stable", {"team": (3, "ab" * 32)})
    assert parse_channel(data, "stable", where="c") == {"team": (3, "ab" * 32)}
    with pytest.raises(Malformed, match="not the channel index of ring beta"):
        parse_channel(data, "beta", where="c")
    for old, new in ((b'"version":3', b'"version":true'), (b"abab", b"ABAB"), (b"{", b"[")):
        with pytest.raises(Malformed):
            parse_channel(data.replace(old, new), "stable", where="c")


def test_a_pack_in_a_ring_is_named_with_mesh_or_without() -> None:
    for text in ("team@stable", "mesh:team@stable"):
        assert at_ring(text) == ("team", "stable")
    for text in ("team", "mesh:team", "@stable", "mesh:@stable", "team@", "team@gold", ""):
        with pytest.raises(BadInput):
            at_ring(text)
