"""docs/reference/receipts.md says what a receipt holds, field by field, and what its commands take."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest

import interlock
from interlock import Blocked, FileSink, InMemorySink, NullSink, enforce_tool_call, install
from interlock.base.keys import Ed25519Signer
from interlock.engine import ambient
from interlock.engine.decision import Verdict
from interlock.engine.receipt_seals import BadChain
from interlock.engine.receipts import FORMAT, Receipt
from interlock.engine.settle import Ending
from interlock.engine.sinks import read_receipts, verify_file
from interlock.node.cli import main

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "reference" / "receipts.md").read_text(encoding="utf-8")
SIGNER = Ed25519Signer(bytes(range(32)))


@pytest.fixture(autouse=True)
def _nothing_installed() -> Iterator[None]:
    yield
    ambient.install(None)


def _table(first: str) -> list[list[str]]:
    """The rows of the table whose head begins with a word."""
    table = re.search(rf"^\| {first} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.M)
    assert table is not None
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table[1].splitlines()]


def test_the_page_names_every_field_of_a_receipt_in_order() -> None:
    assert [row[0].strip("`") for row in _table("field")] == [f.name for f in dataclasses.fields(Receipt)]


def test_the_page_says_which_fields_every_line_has() -> None:
    sink = InMemorySink()
    install(sink=sink)
    enforce_tool_call("t", {})
    (kept,) = sink.receipts
    always = {row[0].strip("`") for row in _table("field") if row[1] == "yes"}
    said = {name for name, value in dataclasses.asdict(kept).items() if value is not None}
    assert said == always | {"args_digest", "mac"}
    assert always == {f.name for f in dataclasses.fields(Receipt) if "None" not in str(f.type)}


def test_the_page_names_every_ending_and_every_verdict() -> None:
    assert {row[0].strip("`") for row in _table("outcome")} == set(get_args(Ending))
    (verdict,) = [row for row in _table("field") if row[0] == "`verdict`"]
    assert set(re.findall(r"`([A-Z]+)`", verdict[2])) == {v.name for v in Verdict}


def test_the_page_names_every_command_and_only_options_that_it_takes() -> None:
    groups = [a for a in main._tree()._actions if isinstance(a, argparse._SubParsersAction)]
    receipts = groups[0].choices["receipts"]
    (verbs,) = [a for a in receipts._actions if isinstance(a, argparse._SubParsersAction)]
    rows = {re.findall(r"receipts ([a-z]+)", row[0])[0]: " ".join(row) for row in _table("command")}
    assert rows.keys() == verbs.choices.keys()
    for name, told in rows.items():
        known = {option for action in verbs.choices[name]._actions for option in action.option_strings}
        assert set(re.findall(r"--?[a-z][a-z-]*", re.sub(r"^.*?\]", "", told))) <= known, name
        assert {"--config", "--help", "--json"} < known
        everywhere = {"-h", "-f", "--help", "--config", "--json"}
        assert {option for option in known - everywhere if option not in told} == set(), name


def test_the_headers_fields_are_those_of_the_page(tmp_path: Path) -> None:
    header = PAGE.split("The first line is a header:")[1].split("Each later line")[0]
    plain, signed = re.findall(r"`([a-z]+)`", header.split("a signed chain")[0]), {"alg", "public"}
    assert plain == ["format", "v", "chain"]
    for name, sink in (("a", FileSink(tmp_path / "a")), ("b", FileSink(tmp_path / "b", signer=SIGNER))):
        install(sink=sink)
        first = json.loads((tmp_path / name).read_text().splitlines()[0])
        assert first.keys() == {*plain, *({"mac"} if name == "a" else signed | {"signature"})}
        assert (f"(`{first['format']}`)", f"({first['v']})") == (f"(`{FORMAT}`)", "(2)")
    assert f"(`{FORMAT}`), `v` (2)" in header
    assert set(re.findall(r"`(alg|public)`", header)) == signed


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


CHANGES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "a changed byte": lambda all_: [*all_[:2], all_[2].replace(b'"t"', b'"u"'), *all_[3:]],
    "taken out": lambda all_: [*all_[:2], *all_[3:]],
    "put in": lambda all_: [*all_[:2], all_[1], *all_[2:]],
    "moved": lambda all_: [*all_[:2], all_[3], all_[2], *all_[4:]],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_found_and_the_first_wrong_line_is_named(change: str, tmp_path: Path) -> None:
    assert "a changed byte, a line taken out, put in or moved is found, and the first wrong line is named" in PAGE
    path = tmp_path / "r"
    install(sink=FileSink(path))
    for _ in range(4):
        enforce_tool_call("t", {})
    path.write_bytes(b"".join(CHANGES[change](_lines(path))))
    with pytest.raises(BadChain, match="receipt 2:"):
        verify_file(path)


def test_lines_cut_off_the_end_are_found_by_the_head_alone(tmp_path: Path) -> None:
    path = tmp_path / "r"
    install(sink=FileSink(path))
    for _ in range(3):
        enforce_tool_call("t", {})
    head = verify_file(path).head
    path.write_bytes(b"".join(_lines(path)[:-1]))
    assert verify_file(path).count == 2
    with pytest.raises(BadChain, match="cut off"):
        verify_file(path, head=head)


def test_no_value_is_kept_and_names_are(tmp_path: Path) -> None:
    def leaky(event: interlock.SensorEvent) -> interlock.Decision:
        raise RuntimeError(f"saw {event.args['password']}")

    path = tmp_path / "r"
    install(rules=[leaky], sink=FileSink(path))
    with pytest.raises(Blocked), interlock.span(principal="acme/secret-name"):
        enforce_tool_call("send", {"password": "hunter22"})
    kept = path.read_text()
    assert "hunter22" not in kept
    assert "acme/secret-name" in kept
    (receipt,) = [receipt for receipt, _ in read_receipts(path)]
    assert receipt.args_digest == FileSink(path).args_digest(b'{"password":"hunter22"}')
    assert receipt.args_digest != FileSink(tmp_path / "other").args_digest(b'{"password":"hunter22"}')


def test_the_sinks_of_the_page_are_those_of_the_face(tmp_path: Path) -> None:
    calls = [row[0].strip("`") for row in _table("sink")]
    names = {"path": tmp_path / "r", "SECRET": bytes(16), "KEY": SIGNER, "FileSink": FileSink}
    for at, call in enumerate(calls):
        made = eval(call, {**names, "path": tmp_path / str(at), "InMemorySink": InMemorySink, "NullSink": NullSink})
        install(sink=made)
        assert enforce_tool_call("t", {}) == {}
    with pytest.raises(ValueError, match="at least 16 bytes"):
        InMemorySink(key=bytes(15))


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(code, {})
        enforce_tool_call("t", {})
    assert verify_file("receipts.jsonl").count == 2


def test_the_page_is_linked() -> None:
    assert "(reference/receipts.md)" in (DOCS / "index.md").read_text(encoding="utf-8")
