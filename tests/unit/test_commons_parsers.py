"""Every file of the commons, however it was bent: a parser gives a value or its own error in one line."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import json
import pkgutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import interlock.commons
import interlock.transparency
from interlock.base import canonical
from interlock.base.clock import ManualClock
from interlock.base.codec import Malformed
from interlock.base.errors import BadInput, InterlockError
from interlock.base.files import BadState, NewerFormat, stamped
from interlock.base.keys import BadKey, Ed25519Signer
from interlock.base.primitives import BadSignature
from interlock.base.text import b64
from interlock.commons.ceremony import Request, parse_request, request_of
from interlock.commons.channel import dump_channel, parse_channel
from interlock.commons.consensus import parse_consensus, stated
from interlock.commons.consent import read_consents
from interlock.commons.enrolment import (
    dump_certificate,
    dump_count,
    dump_enrolment,
    dump_token_request,
    parse_certificate,
    parse_count,
    parse_enrolment,
    parse_token_request,
)
from interlock.commons.grants import Grant, Grants, dump_grants, parse_grants
from interlock.commons.holders import CeremonyRefused, dump_card, parse_card
from interlock.commons.ilpack import BadIlpack, export_ilpack, verify_ilpack
from interlock.commons.indicators import BadCatalog, build_catalog, build_proposal, parse_catalog, parse_proposal
from interlock.commons.journal import STEPS, Item, Journal, Loose, dump_journal, parse_journal
from interlock.commons.layout import REVIEWERS_PATH
from interlock.commons.live import Live, LiveRow, dump_live, parse_live, read_subscriptions
from interlock.commons.membership import CERTIFICATE, build_member_keys, parse_member_keys
from interlock.commons.notices import AGREES, Notice, Said, answer_of, parse_answer, parse_notice, read_said, untold
from interlock.commons.operators import Operator, Operators, parse_operators
from interlock.commons.pack import BadPack, parse_pack
from interlock.commons.pins import read_pins
from interlock.commons.records import (
    BadRecord,
    Evidence,
    Promotion,
    Review,
    Revocation,
    dump_evidence,
    parse_evidence_list,
    parse_promotion,
    parse_review,
    parse_revocation,
)
from interlock.commons.reviewers import Reviewer, Reviewers, parse_reviewers
from interlock.commons.rootplan import finish_root
from interlock.commons.statements import Kind, made, opened
from interlock.commons.stepback import read_step_back
from interlock.commons.succession import dump_succession, parse_chain, parse_lineage, parse_succession
from interlock.commons.task_withdrawal import build_withdrawal, parse_withdrawal
from interlock.commons.timefloor import read_floor
from interlock.commons.transcript import demand_transcript, transcript_of
from interlock.commons.updater import UntrustedRoot, demand_root
from interlock.transparency.policy import TlogPolicy
from tests.unit.commons_world import HOLDERS, ORIGIN, holder, log_policy, pack, plan, seed, world
from tests.unit.log_entries import pack_entry
from tests.unit.test_transparency_fuzz import PROOF

names = st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}", fullmatch=True)
digests = st.binary(min_size=32, max_size=32).map(bytes.hex)
counts = st.integers(1, 2**31 - 1)
times = st.integers(0, 2**53)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)

ENTRY = pack_entry("team", 1, "ab" * 32, at=7)
KEYS = [seed(f"fuzz {i}") for i in range(3)]
ISSUER = seed("issuer")
SHA256 = "ab" * 32


@dataclass(frozen=True)
class File:
    """Bytes that a parser takes, and the errors that are its own; `mend` makes a bent value a file again."""

    good: bytes
    parse: Callable[[bytes], object]
    errors: tuple[type[InterlockError], ...]
    mend: Callable[[object], bytes] = canonical.encode


def _named(parse: Callable[..., object]) -> Callable[[bytes], object]:
    return lambda data: parse(data, where="f")


def _said_again(by: Ed25519Signer) -> Callable[[object], bytes]:
    """Signs a bent statement anew, so that what stands behind the signature is read."""

    def mend(value: object) -> bytes:
        if not isinstance(value, dict):
            return canonical.encode(value)
        body = {name: held for name, held in value.items() if name != "sig"}
        domain = f"interlock/{value.get('format')}/v1\n".encode("utf-8", "replace")
        return canonical.encode({**body, "sig": b64(by.sign(domain + canonical.encode(body)))})

    return mend


def _statement(good: bytes, parse: Callable[[bytes], object], by: Ed25519Signer = ISSUER) -> File:
    return File(good, parse, (Malformed, BadSignature, BadKey), _said_again(by))


@functools.cache
def _request(holders: int = 2) -> Request:
    now = ManualClock().now_us()
    online = {role: seed(f"online {role}").verifier for role in ("targets", "snapshot", "timestamp")}
    return request_of(plan(online, now, HOLDERS[:holders]), None, now)


def _asking_for(root: bytes) -> bytes:
    """A request whose root is these bytes, and whose words are those that go with them, if there are any."""
    body = json.loads(_request().data)
    with contextlib.suppress(Exception):
        asked = dataclasses.replace(_request(), root=root)
        body = {**body, "text": list(asked.words), "digest": asked.digest}
    return stamped("interlock-ceremony-request", body["v"], {**body, "root": b64(root)})


@functools.cache
def _exported() -> tuple[bytes, bytes, TlogPolicy]:
    """A pack with all that shows it, in one file, and what its reader pinned."""
    with tempfile.TemporaryDirectory() as folder, world(Path(folder)) as commons:
        commons.publisher.publish(pack(), "stable")
        return export_ilpack(commons.public, "team", 1, "stable"), commons.root, commons.policy


def _shown(data: bytes) -> object:
    _, root, policy = _exported()
    return verify_ilpack(data, root, policy, "f")


def _in_pack(name: str) -> Callable[[object], bytes]:
    """Puts a bent value into a .ilpack, in the place of one of its files."""

    def mend(value: object) -> bytes:
        body = json.loads(_exported()[0])
        text = canonical.encode(value).decode("utf-8", "replace")
        if name in body["metadata"]:
            body["metadata"][name] = text
        else:
            body[name] = text
        return canonical.encode(body)

    return mend


def _part(name: str) -> Callable[[], File]:
    """One of the metadata files in a .ilpack."""

    def made_now() -> File:
        good = json.loads(_exported()[0])["metadata"][name].encode()
        return File(good, _shown, (BadIlpack,), _in_pack(name))

    return made_now


def _one(end: str) -> str:
    return str(next(name for name in json.loads(_exported()[0])["metadata"] if name.endswith(end)))


def _consensus() -> bytes:
    catalog = build_catalog("t", opens_at=5, rules=["a.b"], indicators=["host:" + "0" * 64])
    return stated(
        catalog,
        catalog.places,
        seed("collector"),
        task_id=SHA256,
        at_least=10,
        shown="",
        least_age=0,
        start=0,
        end=5,
        until=9,
        demo=False,
    ).data


_KIND = Kind("interlock-fuzz", "by", {"told": str, "at": int})
FILES: dict[str, Callable[[], File]] = {
    "pack": lambda: File(pack().data, _named(parse_pack), (BadPack,)),
    "catalog": lambda: File(
        build_catalog("t", opens_at=5, rules=["a.b"], indicators=["host:" + "0" * 64]).data,
        _named(parse_catalog),
        (BadCatalog,),
    ),
    "proposal": lambda: File(build_proposal("host", "evil.example"), _named(parse_proposal), (BadCatalog,)),
    "consensus": lambda: File(_consensus(), _named(parse_consensus), (Malformed, BadSignature)),
    "withdrawal": lambda: File(build_withdrawal("t", "why").data, _named(parse_withdrawal), (Malformed,)),
    "channel": lambda: File(
        dump_channel("stable", {"team": (1, SHA256)}),
        lambda d: parse_channel(d, "stable", where="f"),
        (Malformed,),
    ),
    "grants": lambda: File(
        dump_grants(Grants((Grant("team", "a", "00", 1),))), _named(parse_grants), (BadState, NewerFormat)
    ),
    "live": lambda: File(
        dump_live(Live().with_rows([LiveRow("team", "stable", 1, SHA256, 0, 1, 7)])),
        _named(parse_live),
        (BadState, NewerFormat),
    ),
    "journal": lambda: File(
        dump_journal(Journal("logged", 7, {"stable": 1}, (Item(ENTRY, b"data", "p.json", "stable", b"proof"),))),
        _named(parse_journal),
        (BadState, NewerFormat),
    ),
    "operators": lambda: File(
        Operators(1, (Operator("acme", "Acme Ltd", {"log": (ORIGIN,), "witness": (KEYS[0].verifier.text,)}),)).data,
        _named(parse_operators),
        (Malformed,),
    ),
    "reviewers": lambda: File(
        Reviewers({"rita": Reviewer(KEYS[0].verifier.text), "ron": Reviewer(KEYS[1].verifier.text, 7)}, 2).data,
        _named(parse_reviewers),
        (BadRecord,),
    ),
    "review": lambda: File(
        Review(SHA256, "team", 1, "beta", "approve", "fine").data, _named(parse_review), (BadRecord,)
    ),
    "promotion": lambda: File(
        Promotion(SHA256, "team", 1, "beta", "stable", SHA256, (SHA256,)).data,
        _named(parse_promotion),
        (BadRecord,),
    ),
    "revocation": lambda: File(
        Revocation(SHA256, "team", 1, "stable", ("team.zap",), "asks too often", "removal").data,
        _named(parse_revocation),
        (BadRecord,),
    ),
    "list of evidence": lambda: File(
        dump_evidence([Evidence(ENTRY.data, PROOF, b"{}")]), _named(parse_evidence_list), (BadRecord,)
    ),
    "member keys": lambda: _statement(
        build_member_keys(
            ISSUER, task="t", epoch=5, backend=CERTIFICATE, operator="op", closes_at=1, token_key=b""
        ).data,
        _named(parse_member_keys),
    ),
    "enrolment": lambda: _statement(
        dump_enrolment(KEYS[0], "acme", "code", ISSUER.verifier),
        lambda d: parse_enrolment(d, ISSUER.verifier),
        KEYS[0],
    ),
    "certificate": lambda: _statement(
        dump_certificate(ISSUER, "acme", KEYS[0].verifier, 7), lambda d: parse_certificate(d)
    ),
    "token request": lambda: _statement(
        dump_token_request(KEYS[0], task="t", epoch=5, task_id=bytes(32), blinded=b"blinded", issuer=ISSUER.verifier),
        lambda d: parse_token_request(d, ISSUER.verifier),
        KEYS[0],
    ),
    "issuer's count": lambda: _statement(
        dump_count(ISSUER, task="t", epoch=5, issued=3, enrolled=4, final=True, at=7), lambda d: parse_count(d)
    ),
    "succession": lambda: _statement(dump_succession(ISSUER, KEYS[0].verifier, 7), lambda d: parse_succession(d)),
    "successions": lambda: _statement(
        dump_succession(ISSUER, KEYS[0].verifier, 7), lambda d: parse_chain(d, ISSUER.verifier)
    ),
    "lineage": lambda: _statement(
        dump_succession(ISSUER, KEYS[0].verifier, 7), lambda d: parse_lineage(d, KEYS[0].verifier, where="f")
    ),
    "statement": lambda: _statement(made(_KIND, ISSUER, told="x", at=7), lambda d: opened(_KIND, d, where="f"), ISSUER),
    "notice": lambda: File(Notice(ORIGIN, 5, bytes(32), (b"note",)).data, parse_notice, (Malformed,)),
    "a monitor's answer": lambda: File(answer_of(AGREES), parse_answer, (Malformed,)),
    "keyholder's card": lambda: File(
        dump_card(holder("ada")), _named(parse_card), (BadState, NewerFormat, BadKey, CeremonyRefused)
    ),
    "ceremony request": lambda: File(_request().data, _named(parse_request), (CeremonyRefused, NewerFormat)),
    "root in a request": lambda: File(
        _request().root,
        _named(parse_request),
        (CeremonyRefused, NewerFormat),
        lambda value: _asking_for(canonical.encode(value)),
    ),
    "transcript": lambda: File(
        transcript_of(_exported()[1], None, 7),
        lambda d: demand_transcript(d, _exported()[1], None),
        (CeremonyRefused,),
    ),
    "root": lambda: File(_exported()[1], finish_root, (CeremonyRefused,)),
    "root of a mirror": lambda: File(_exported()[1], demand_root, (UntrustedRoot,)),
    ".ilpack": lambda: File(_exported()[0], _shown, (BadIlpack,)),
    "timestamp in a .ilpack": _part("timestamp.json"),
    "reviewers in a .ilpack": _part(REVIEWERS_PATH),
    "root in a .ilpack": _part("1.root.json"),
    "snapshot in a .ilpack": lambda: _part(_one(".snapshot.json"))(),
    "targets in a .ilpack": lambda: _part(_one(".targets.json"))(),
    "promotion in a .ilpack": lambda: File(
        json.loads(_exported()[0])["promotion"].encode(), _shown, (BadIlpack,), _in_pack("promotion")
    ),
}
# each file of a node's home that is no parser's of above: its name, what stands in it, who reads it
STATE: dict[str, tuple[str, dict[str, object], Callable[[Path], object]]] = {
    "consent": (
        "consent.json",
        {
            "format": "interlock-consent",
            "v": 3,
            "consents": [
                {
                    "purpose": "sightings",
                    "subject": "t",
                    "operators": {"https://l.example": "l"},
                    "floor": 10,
                    "kinds": ["rule"],
                    "mechanism": "m",
                    "catalog": SHA256,
                    "proof": "blind-token of t",
                    "at": 7,
                }
            ],
        },
        read_consents,
    ),
    "said": (
        "told/said.json",
        {"format": "interlock-told", "v": 1, **dataclasses.asdict(Said("https://m.example", 7, 3, AGREES))},
        lambda home: read_said(home, "https://m.example"),
    ),
    "seen": ("told/seen.json", json.loads(Notice(ORIGIN, 5, bytes(32)).data), lambda home: untold(home, Said())),
    "floor": (
        "clock.json",
        {"format": "interlock-clock", "v": 1, "floor": 7, "cosigned": 7, "until": 0},
        read_floor,
    ),
    "step back": (
        "stepback.json",
        {
            "format": "interlock-stepback",
            "v": 1,
            "thresholds": {"principals": 2, "spans": 5, "days": 7},
            "proposals": [],
        },
        read_step_back,
    ),
    "subscriptions": (
        "subscriptions.json",
        {
            "format": "interlock-subscriptions",
            "v": 2,
            "subscriptions": [{"pack": "team", "ring": "stable", "window_us": 0, "pin": 0}],
        },
        read_subscriptions,
    ),
    "pins": (
        "node.json",
        {
            "format": "interlock-node",
            "v": 2,
            "root_sha256": SHA256,
            "log_policy": log_policy().decode(),
            "root_log_policy": "",
            "policy_from": "init",
            "policy_at": 0,
            "offline_us": 0,
        },
        read_pins,
    ),
}


def _places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every value inside a JSON value."""
    inner: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(p for key, held in inner for p in _places(held, (*path, key)))]


def _bent(value: object, path: tuple[str | int, ...], new: object) -> object:
    if not path:
        return new
    if isinstance(value, dict):
        return {k: _bent(v, path[1:], new) if k == path[0] else v for k, v in value.items()}
    assert isinstance(value, list)
    return [_bent(v, path[1:], new) if i == path[0] else v for i, v in enumerate(value)]


def _said(file: File, data: bytes) -> str:
    """What a parser said against some bytes; any error but its own goes on up."""
    try:
        file.parse(data)
    except file.errors as e:
        return str(e)
    return ""


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_good_file_is_read(name: str) -> None:
    file = FILES[name]()
    file.parse(file.mend(json.loads(file.good)))


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=50)
@pytest.mark.parametrize("name", sorted(FILES))
@given(data=st.data())
def test_a_file_with_any_one_value_replaced_is_read_or_refused_in_one_line(name: str, data: st.DataObject) -> None:
    file = FILES[name]()
    body = json.loads(file.good)
    bent = _bent(body, data.draw(st.sampled_from(_places(body))), data.draw(values))
    assert "\n" not in _said(file, file.mend(bent))


@settings(max_examples=20)
@pytest.mark.parametrize("name", sorted(FILES))
@given(raw=st.binary(max_size=60), at=st.floats(0, 1))
def test_any_bytes_are_read_or_refused_in_one_line(name: str, raw: bytes, at: float) -> None:
    file = FILES[name]()
    good, cut = file.good, int(at * len(file.good))
    for data in (raw, good[: len(raw)], good + raw, raw + good, good[:cut] + raw + good[cut + len(raw) :]):
        assert "\n" not in _said(file, data)


@settings(max_examples=50)
@pytest.mark.parametrize("name", sorted(STATE))
@given(data=st.data())
def test_a_file_of_a_node_s_home_with_any_one_value_replaced_is_read_or_refused_in_one_line(
    name: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, good, read = STATE[name]
    home: Path = tmp_path_factory.mktemp("home")
    (home / path).parent.mkdir(exist_ok=True)
    bent = _bent(good, data.draw(st.sampled_from(_places(good))), data.draw(values))
    (home / path).write_bytes(canonical.encode(bent))
    refused = (BadState, NewerFormat, BadInput, UntrustedRoot)
    assert "\n" not in _said(File(b"", lambda _: read(home), refused), b"")


def test_every_parser_of_the_commons_and_the_log_has_a_row() -> None:
    here = [vars(importlib.import_module(name)) for name in (__name__, "tests.unit.test_transparency_fuzz")]
    fuzzed = {id(value) for names in here for value in names.values()}
    found = {
        f"{module}.{name}": value
        for room in (interlock.commons, interlock.transparency)
        for info in pkgutil.iter_modules(room.__path__)
        for module in [f"{room.__name__}.{info.name}"]
        for name, value in vars(importlib.import_module(module)).items()
        if name.startswith("parse_") and value.__module__ == module
    }
    missing = {name for name, value in found.items() if id(value) not in fuzzed}
    assert missing == {"interlock.commons.windows.parse_window"}, "of a command's argument, and tested with it"
    assert len(found) > 30


@given(st.dictionaries(names, st.tuples(counts, digests), max_size=5))
def test_any_channel_index_reads_back(packs: dict[str, tuple[int, str]]) -> None:
    assert parse_channel(dump_channel("beta", packs), "beta", where="f") == packs


@given(st.lists(st.builds(Grant, names, names, digests, times), max_size=5))
def test_any_grants_read_back(rows: list[Grant]) -> None:
    assert parse_grants(dump_grants(Grants(tuple(rows))), where="f").rows == tuple(rows)


@given(st.lists(st.builds(LiveRow, names, names, counts, digests, counts, counts, times), max_size=5))
def test_any_live_file_reads_back(rows: list[LiveRow]) -> None:
    live = Live().with_rows(rows)
    assert parse_live(dump_live(live), where="f") == live


@given(
    step=st.sampled_from(STEPS),
    data=st.binary(max_size=50),
    proof=st.binary(max_size=50),
    base=st.dictionaries(names, counts, max_size=4),
    path=st.text(max_size=20),
)
def test_any_journal_reads_back(step: str, data: bytes, proof: bytes, base: dict[str, int], path: str) -> None:
    journal = Journal(step, 7, base, (Item(ENTRY, data, path, "stable", proof),), (Loose(path, "beta", data),))
    assert parse_journal(dump_journal(journal), where="f") == journal


@given(
    rules=st.lists(st.from_regex(r"[a-z][a-z.]{0,9}", fullmatch=True), min_size=1, max_size=5, unique=True),
    hosts=st.lists(digests, max_size=5, unique=True),
    opens_at=times,
)
def test_any_catalog_reads_back(rules: list[str], hosts: list[str], opens_at: int) -> None:
    catalog = build_catalog("t", opens_at=opens_at, rules=rules, indicators=[f"host:{h}" for h in hosts])
    assert parse_catalog(catalog.data, where="f") == catalog
