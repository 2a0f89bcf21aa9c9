"""Bearer tokens: kept as hashes, found by whoever carries one."""

from __future__ import annotations

import json
import logging
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interlock.base.errors import BadInput
from interlock.base.files import BadState, NewerFormat, stamped
from interlock.dap.problems import to_b64url
from interlock.node.setup import issue_token
from interlock.node.tokens import (
    Grant,
    NotAllowed,
    TokenTable,
    add_token,
    grants_in,
    let_into,
    read_tokens,
    take_back,
    token_hash,
)

TOKEN = "a-token-of-some-length"
ONE, TWO = bytes(32), bytes([1] * 32)


def test_a_token_is_kept_as_a_hash_and_found_by_its_bearer() -> None:
    kept = {"acme": Grant(token_hash(TOKEN)), "globex": Grant(token_hash("another-token-entirely"))}
    table = TokenTable(lambda: kept)
    assert table.name_of(f"Bearer {TOKEN}") == "acme"
    assert table.name_of(f"bearer {TOKEN}") == "acme"
    assert TOKEN not in str(kept)


@pytest.mark.parametrize(
    ("header", "status"), [(None, 401), ("", 401), ("Basic x", 401), ("Bearer ", 401), ("Bearer x", 403)]
)
def test_without_a_token_of_ours_nothing_opens(header: str | None, status: int) -> None:
    with pytest.raises(NotAllowed) as caught:
        TokenTable(lambda: {"acme": Grant(token_hash(TOKEN))}).name_of(header)
    assert caught.value.status == status


def test_tokens_that_can_be_guessed_or_stand_in_the_clear_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 16"):
        token_hash("short")
    with pytest.raises(ValueError, match="not kept as a SHA-256"):
        Grant(TOKEN)


def test_a_token_lets_its_bearer_into_the_tasks_that_it_was_made_for_and_into_no_other() -> None:
    table = TokenTable(lambda: {"carol": Grant(token_hash(TOKEN), frozenset({ONE}))})
    assert table.name_of(f"Bearer {TOKEN}", ONE) == "carol"
    for other in (TWO, None):
        with pytest.raises(NotAllowed, match="for other tasks") as caught:
            table.name_of(f"Bearer {TOKEN}", other)
        assert caught.value.status == 403


def test_a_token_under_two_names_is_that_one_of_them_which_the_task_is_for() -> None:
    digest = token_hash(TOKEN)
    table = TokenTable(lambda: {"a": Grant(digest, frozenset({ONE})), "b": Grant(digest, frozenset({TWO}))})
    assert [table.name_of(f"Bearer {TOKEN}", task) for task in (ONE, TWO)] == ["a", "b"]


def test_a_file_says_of_each_token_which_tasks_it_is_for(tmp_path: Path) -> None:
    path = tmp_path / "collectors.json"
    add_token(path, "all", TOKEN)
    add_token(path, "one", TOKEN + "1", [ONE])
    add_token(path, "none", TOKEN + "0", [])
    rows = json.loads(path.read_bytes())["tokens"]
    assert {name: row["tasks"] for name, row in rows.items()} == {"all": "all", "one": [to_b64url(ONE)], "none": []}
    assert TOKEN not in path.read_text()
    table = read_tokens(path)
    assert table.name_of(f"Bearer {TOKEN}", TWO) == "all"
    assert table.name_of(f"Bearer {TOKEN}1", ONE) == "one"
    for token, task in ((TOKEN + "1", TWO), (TOKEN + "0", ONE)):
        with pytest.raises(NotAllowed):
            table.name_of(f"Bearer {token}", task)


def test_a_token_is_widened_while_the_role_is_at_work_and_a_damaged_file_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "collectors.json"
    add_token(path, "carol", TOKEN, [ONE])
    table = read_tokens(path)
    let_into(path, "carol", [TWO])
    assert table.name_of(f"Bearer {TOKEN}", TWO) == table.name_of(f"Bearer {TOKEN}", ONE) == "carol"
    with caplog.at_level(logging.ERROR):
        path.write_text("{")
        assert table.name_of(f"Bearer {TOKEN}", TWO) == "carol"
    assert "holds on" in caplog.text
    path.unlink()
    add_token(path, "carol", TOKEN + "2", [ONE])
    with pytest.raises(NotAllowed, match="opens nothing"):
        table.name_of(f"Bearer {TOKEN}", ONE)
    let_into(path, "carol", None)
    assert grants_in(path)["carol"].tasks is None
    let_into(path, "carol", [ONE])
    assert grants_in(path)["carol"].tasks is None, "one for all tasks stays one"
    with pytest.raises(BadInput, match="has no token here"):
        let_into(path, "dave", [ONE])


def test_a_file_of_before_is_read_as_what_it_meant_and_written_with_that_said(tmp_path: Path) -> None:
    path = tmp_path / "collectors.json"
    path.write_bytes(stamped("interlock-tokens", 1, {"tokens": {"carol": token_hash(TOKEN)}}))
    assert read_tokens(path).name_of(f"Bearer {TOKEN}", ONE) == "carol"
    add_token(path, "dave", TOKEN + "d", [ONE])
    assert json.loads(path.read_bytes())["v"] == 3
    assert {name: grant.tasks for name, grant in grants_in(path).items()} == {"carol": None, "dave": frozenset({ONE})}


@pytest.mark.parametrize(
    "row",
    [
        token_hash(TOKEN),
        {"sha256": token_hash(TOKEN)},
        {"sha256": TOKEN, "tasks": "all"},
        {"sha256": token_hash(TOKEN), "tasks": "every"},
        {"sha256": token_hash(TOKEN), "tasks": ["x"]},
        {"sha256": token_hash(TOKEN), "tasks": [to_b64url(ONE)] * 2},
        {"sha256": token_hash(TOKEN), "tasks": [7]},
        {"sha256": token_hash(TOKEN), "tasks": {}},
        {"sha256": token_hash(TOKEN), "tasks": "all", "also": 1},
        7,
    ],
)
def test_a_row_that_does_not_say_what_its_token_is_for_is_refused_in_one_line(row: object, tmp_path: Path) -> None:
    path = tmp_path / "collectors.json"
    path.write_bytes(stamped("interlock-tokens", 2, {"tokens": {"carol": row}}))
    with pytest.raises(BadState) as caught:
        read_tokens(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_that_kept_no_times_is_read_and_one_that_does_says_when(tmp_path: Path) -> None:
    path = tmp_path / "collectors.json"
    row = {"sha256": token_hash(TOKEN), "tasks": [to_b64url(ONE)]}
    path.write_bytes(stamped("interlock-tokens", 2, {"tokens": {"carol": row}}))
    add_token(path, "dave", TOKEN + "d", [ONE], at=5)
    assert {name: grant.at for name, grant in grants_in(path).items()} == {"carol": 0, "dave": 5}
    let_into(path, "dave", [TWO])
    assert grants_in(path)["dave"].at == 5
    for at in (-1, "5", True, 1 << 62):
        path.write_bytes(stamped("interlock-tokens", 3, {"tokens": {"carol": {**row, "at": at}}}))
        with pytest.raises(BadState, match="does not say since when"):
            grants_in(path)


def test_a_token_that_is_taken_back_opens_nothing_at_a_role_that_is_at_work(tmp_path: Path) -> None:
    path = tmp_path / "collectors.json"
    add_token(path, "carol", TOKEN, [ONE])
    add_token(path, "dave", TOKEN + "d")
    table = read_tokens(path)
    assert table.name_of(f"Bearer {TOKEN}", ONE) == "carol"
    taken, others = take_back(path, "carol")
    assert (taken.digest, others) == (token_hash(TOKEN), [])
    with pytest.raises(NotAllowed, match="opens nothing"):
        table.name_of(f"Bearer {TOKEN}", ONE)
    assert table.name_of(f"Bearer {TOKEN}d", ONE) == "dave"
    assert token_hash(TOKEN) not in path.read_text()
    before = path.read_bytes()
    with pytest.raises(BadInput, match="has no token here; dave has"):
        take_back(path, "carol")
    assert path.read_bytes() == before
    add_token(path, "carla", TOKEN + "d")
    assert take_back(path, "dave")[1] == ["carla"], "the same token, under another name"
    assert table.name_of(f"Bearer {TOKEN}d", ONE) == "carla"
    take_back(path, "carla")
    assert grants_in(path) == {}
    with pytest.raises(NotAllowed):
        table.name_of(f"Bearer {TOKEN}d", ONE)


def test_of_many_that_are_taken_back_and_let_in_at_once_none_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "members.json"
    for n in range(12):
        add_token(path, f"old-{n}", f"{TOKEN}-old-{n:02}")
    with ThreadPoolExecutor(8) as pool:
        gone = [pool.submit(take_back, path, f"old-{n}") for n in range(12)]
        come = [pool.submit(add_token, path, f"new-{n}", f"{TOKEN}-new-{n:02}") for n in range(12)]
    assert [done.exception() for done in gone] + [done.exception() for done in come] == [None] * 24
    assert set(grants_in(path)) == {f"new-{n}" for n in range(12)}


def test_of_two_commands_at_once_neither_loses_whom_the_other_let_in(tmp_path: Path) -> None:
    """Each reads a table and writes it whole: one that did so meanwhile would be gone, though its command said yes."""
    path = tmp_path / "members.json"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: add_token(path, f"member-{n}", f"{TOKEN}-{n:02}", [ONE]), range(24)))
        list(pool.map(lambda n: let_into(path, f"member-{n}", [TWO]), range(24)))
    assert {grant.tasks for grant in grants_in(path).values()} == {frozenset({ONE, TWO})}
    assert len(grants_in(path)) == 24


def test_a_token_that_was_not_let_in_leaves_no_file(tmp_path: Path) -> None:
    issue_token(tmp_path, "member", "acme", tmp_path / "first", random.Random(1).randbytes, [ONE])
    before = (tmp_path / "members.json").read_bytes()
    with pytest.raises(BadInput, match="has a token already"):
        issue_token(tmp_path, "member", "acme", tmp_path / "second", random.Random(2).randbytes, [ONE])
    assert not (tmp_path / "second").exists()
    assert (tmp_path / "members.json").read_bytes() == before


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "collectors.json"
    path.write_bytes(stamped("interlock-tokens", 4, {"tokens": {}}))
    with pytest.raises(NewerFormat):
        read_tokens(path)
