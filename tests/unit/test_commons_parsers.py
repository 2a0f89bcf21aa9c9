"""Every file of the commons, however it was bent: a parser gives a value or its own error in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.base import canonical
from interlock.base.errors import InterlockError
from interlock.commons.channel import dump_channel, parse_channel
from interlock.commons.consent import read_consents
from interlock.commons.grants import Grant, Grants, dump_grants, parse_grants
from interlock.commons.indicators import build_catalog, parse_catalog
from interlock.commons.journal import STEPS, Item, Journal, Loose, dump_journal, parse_journal
from interlock.commons.live import Live, LiveRow, dump_live, parse_live
from interlock.commons.pack import parse_pack
from interlock.commons.rootplan import finish_root
from tests.unit.commons_world import pack
from tests.unit.log_entries import pack_entry

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
FILES: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "pack": (pack().data, lambda d: parse_pack(d, where="f")),
    "catalog": (
        build_catalog("t", opens_at=5, rules=["a.b"], indicators=["host:" + "0" * 64]).data,
        lambda d: parse_catalog(d, where="f"),
    ),
    "channel": (dump_channel("stable", {"team": (1, "ab" * 32)}), lambda d: parse_channel(d, "stable", where="f")),
    "grants": (dump_grants(Grants((Grant("team", "a", "00", 1),))), lambda d: parse_grants(d, where="f")),
    "live": (
        dump_live(Live().with_rows([LiveRow("team", "stable", 1, "ab" * 32, 0, 1, 7)])),
        lambda d: parse_live(d, where="f"),
    ),
    "journal": (
        dump_journal(Journal("logged", 7, {"stable": 1}, (Item(ENTRY, b"data", "p.json", "stable", b"proof"),))),
        lambda d: parse_journal(d, where="f"),
    ),
    "root": (b'{"signatures": [], "signed": {"_type": "root"}}', finish_root),
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


def _said(parse: Callable[[bytes], object], data: bytes) -> str:
    """What a parser said against some bytes; any error but its own goes on up."""
    try:
        parse(data)
    except InterlockError as e:
        return str(e)
    return ""


@pytest.mark.parametrize("name", sorted(FILES))
@given(data=st.data())
def test_a_file_with_any_one_value_replaced_is_read_or_refused_in_one_line(name: str, data: st.DataObject) -> None:
    good, parse = FILES[name]
    body = json.loads(good)
    bent = _bent(body, data.draw(st.sampled_from(_places(body))), data.draw(values))
    assert "\n" not in _said(parse, canonical.encode(bent))


@pytest.mark.parametrize("name", sorted(FILES))
@given(raw=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_in_one_line(name: str, raw: bytes) -> None:
    good, parse = FILES[name]
    for data in (raw, good[: len(raw)], good + raw, raw + good):
        assert "\n" not in _said(parse, data)


@given(values)
def test_a_consent_file_of_any_values_is_read_or_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, value: object
) -> None:
    home: Path = tmp_path_factory.mktemp("home")
    row = {"purpose": "p", "subject": "t", "operators": value, "floor": value, "kinds": [value], "mechanism": "m"}
    body = {"format": "interlock-consent", "v": 2, "consents": [{**row, "catalog": "c", "at": 1}]}
    (home / "consent.json").write_bytes(canonical.encode(body))
    assert "\n" not in _said(lambda _: read_consents(home), b"")


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
