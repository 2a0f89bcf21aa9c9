"""A log's start: from the signed tree's tiles and the journal's tail, whatever came between; never a second history."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.files import BadState
from interlock.base.keys import Ed25519Signer, MlDsaSigner
from interlock.transparency.checkpoint import Cosigner, open_checkpoint
from interlock.transparency.log import Log, open_log
from interlock.transparency.merkle import leaf_hash, root_of
from interlock.transparency.note import NoteSigner, VerifierKey, parse_note
from interlock.transparency.storage import DirectoryStorage, journal_of

SIGNER = NoteSigner("log.example/packs", Ed25519Signer(b"\x01" * 32))
ALSO = Cosigner("log.example/packs", MlDsaSigner(44, b"\x01" * 32))


def entries(start: int, end: int) -> list[bytes]:
    return [f"entry {i}".encode() for i in range(start, end)]


@contextlib.contextmanager
def small(root: Path) -> Iterator[Log]:
    """A log whose journal goes on in a new file after each few entries."""
    storage = DirectoryStorage(root, segment=200)
    try:
        yield Log(storage, SIGNER)
    finally:
        storage.close()


def files(root: Path) -> list[Path]:
    return sorted((root / "journal").iterdir())


def grown(root: Path, sizes: tuple[int, ...] = (3, 4, 9, 40, 300)) -> None:
    with small(root) as log:
        for size in sizes:
            log.append(entries(log.size, size))
            log.publish(log.integrate())


def test_a_journal_goes_on_in_new_files_and_is_read_whole(tmp_path: Path) -> None:
    grown(tmp_path)
    assert [int(p.name) for p in files(tmp_path)] == [0, 4, 9, 40]
    assert list(journal_of(tmp_path)) == entries(0, 300)
    with small(tmp_path) as log:
        assert log.size == 300
        assert log.append(entries(300, 301)) == [300]
        assert log.checkpoint_at(300).root == root_of([leaf_hash(e) for e in entries(0, 300)])
    assert list(journal_of(tmp_path)) == entries(0, 301)


def test_a_start_reads_no_file_of_the_journal_but_the_newest(tmp_path: Path) -> None:
    grown(tmp_path)
    for old in files(tmp_path)[:-1]:
        old.write_bytes(b"damaged")
    with small(tmp_path) as log:
        assert log.size == 300
        assert log.append([b"entry 2", b"next"]) == [2, 300]


def test_a_file_of_the_journal_has_no_more_entries_than_a_start_reads_in_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.transparency.storage.SEGMENT_ENTRIES", 5)
    for sizes in ((2, 4), (5, 6, 12), (13, 14)):
        with open_log(tmp_path, SIGNER) as log:
            for size in sizes:
                log.append([b"" if n == 0 else b"%d" % n for n in range(log.size, size)])
    assert [int(p.name) for p in files(tmp_path)] == [0, 5, 12]
    assert len(list(journal_of(tmp_path))) == 14


def test_a_start_takes_in_what_came_after_the_signed_tree_over_several_files(tmp_path: Path) -> None:
    grown(tmp_path, (3,))
    with small(tmp_path) as log:
        for size in (20, 30, 290):
            log.append(entries(log.size, size))
    assert len(files(tmp_path)) >= 3
    with small(tmp_path) as log:
        assert log.size == 290
        assert log.checkpoint_at(290).root == root_of([leaf_hash(e) for e in entries(0, 290)])
        assert log.append(entries(0, 290)) == list(range(290))


def test_a_journal_with_a_file_missing_is_refused(tmp_path: Path) -> None:
    grown(tmp_path, (3,))
    with small(tmp_path) as log:
        for size in (20, 30, 290):
            log.append(entries(log.size, size))
    files(tmp_path)[1].unlink()
    before = [p.read_bytes() for p in files(tmp_path)]
    with pytest.raises(BadState), small(tmp_path):
        raise AssertionError("opened")
    assert [p.read_bytes() for p in files(tmp_path)] == before


def test_a_file_of_the_journal_under_another_name_is_refused(tmp_path: Path) -> None:
    grown(tmp_path, (3, 9))
    files(tmp_path)[-1].rename(tmp_path / "journal" / f"{8:020d}")
    with pytest.raises(BadState), small(tmp_path):
        raise AssertionError("opened")


@pytest.mark.parametrize("path", ["public/tile/0/001.p/44", "public/tile/1/000.p/1", "public/tile/entries/001.p/44"])
def test_an_unfinished_tile_that_was_lost_or_torn_is_made_again(tmp_path: Path, path: str) -> None:
    grown(tmp_path)
    good = (tmp_path / path).read_bytes()
    for damage in (good[:-1] + bytes([good[-1] ^ 1]), good[:-1], b"", None):
        (tmp_path / path).unlink()
        if damage is not None:
            (tmp_path / path).write_bytes(damage)
        with small(tmp_path) as log:
            assert log.size == 300
        assert (tmp_path / path).read_bytes() == good


def test_the_unfinished_tiles_of_a_published_tree_are_made_again_beside_a_larger_signed_one(tmp_path: Path) -> None:
    grown(tmp_path)
    with small(tmp_path) as log:
        log.append(entries(300, 700))
        log.integrate()
    lost = [p for p in (tmp_path / "public" / "tile").rglob("*") if p.is_file() and p.parent.suffix == ".p"]
    before = {p: p.read_bytes() for p in lost}
    assert {p.name for p in lost} == {"44", "1", "188", "2"}
    for path in lost:
        path.write_bytes(b"torn")
    with small(tmp_path) as log:
        assert (log.size, log.published_size) == (700, 300)
    assert {p: p.read_bytes() for p in lost} == before


@pytest.mark.parametrize("path", ["public/tile/0/000", "public/tile/0/001"])
def test_a_full_tile_at_the_edge_that_is_lost_or_damaged_is_refused(tmp_path: Path, path: str) -> None:
    grown(tmp_path, (3, 40, 600))
    good = (tmp_path / path).read_bytes()
    for damage in (good[:-1] + bytes([good[-1] ^ 1]), good[:-1], good + b"x", b""):
        (tmp_path / path).write_bytes(damage)
        with pytest.raises(BadState), small(tmp_path):
            raise AssertionError("opened")
    (tmp_path / path).unlink()
    with pytest.raises(BadState, match="missing"), small(tmp_path):
        raise AssertionError("opened")
    (tmp_path / path).write_bytes(good)
    with small(tmp_path) as log:
        assert log.size == 600


def test_a_published_tree_beyond_or_beside_the_signed_one_is_refused(tmp_path: Path) -> None:
    grown(tmp_path / "log")
    shutil.copytree(tmp_path / "log", tmp_path / "old")
    grown(tmp_path / "log", (400,))
    checkpoint = tmp_path / "old" / "public" / "checkpoint"
    checkpoint.write_bytes((tmp_path / "log" / "public" / "checkpoint").read_bytes())
    with pytest.raises(BadState, match="published a tree of 400"), small(tmp_path / "old"):
        raise AssertionError("opened")
    with small(tmp_path / "fork") as fork:
        fork.append([b"fork"])
        checkpoint.write_bytes(fork.integrate())
    with pytest.raises(BadState, match="tree that this log published"), small(tmp_path / "old"):
        raise AssertionError("opened")


def test_the_table_of_places_is_made_again_where_it_is_lost_behind_or_ahead(tmp_path: Path) -> None:
    grown(tmp_path)
    table = tmp_path / "places.sqlite"
    old = table.read_bytes()
    table.unlink()
    with small(tmp_path) as log:
        assert log.append(entries(0, 302)) == list(range(302))
    table.write_bytes(old)
    with small(tmp_path) as log:
        assert log.append(entries(290, 303)) == list(range(290, 303))
    with contextlib.closing(sqlite3.connect(table)) as db, db:
        db.execute("UPDATE total SET entries = 400")
    with small(tmp_path) as log:
        assert log.append(entries(0, 304)) == list(range(304))


def test_unfinished_tiles_that_cannot_be_removed_hold_up_no_publishing(tmp_path: Path) -> None:
    grown(tmp_path, (3,))
    with open_log(tmp_path, SIGNER) as log:
        log.append(entries(3, 256))
        note = log.integrate()
        left = tmp_path / "public" / "tile" / "0" / "000.p"
        shutil.rmtree(left)
        left.write_bytes(b"no folder, so that it cannot be removed as one")
        log.publish(note)
        assert log.published_size == 256


def test_a_table_of_places_that_is_damaged_is_refused_and_need_only_be_removed(tmp_path: Path) -> None:
    grown(tmp_path)
    table = tmp_path / "places.sqlite"
    table.write_bytes(table.read_bytes()[:5000])
    with pytest.raises(BadState, match="remove it; it is made again"), open_log(tmp_path, SIGNER):
        pass
    table.unlink()
    with open_log(tmp_path, SIGNER) as log:
        assert log.append(entries(7, 8)) == [7]


@pytest.mark.parametrize("made", ["folder", "loop"])
def test_what_stands_in_the_journals_place_is_refused_in_one_line(tmp_path: Path, made: str) -> None:
    grown(tmp_path)
    last = files(tmp_path)[-1]
    last.unlink()
    if made == "folder":
        last.mkdir()
    else:
        last.symlink_to(last.name)
    with pytest.raises(BadState, match=r"cannot be read .*restore it"), open_log(tmp_path, SIGNER):
        pass


def test_a_table_of_places_that_lies_is_found_out_and_nothing_is_acknowledged(tmp_path: Path) -> None:
    grown(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "places.sqlite")) as db, db:
        db.execute("UPDATE leaf SET place = 7 WHERE hash = ?", (leaf_hash(b"entry 5"),))
        db.execute("UPDATE leaf SET place = 5000 WHERE hash = ?", (leaf_hash(b"entry 6"),))
    with small(tmp_path) as log:
        for entry in (b"entry 5", b"entry 6"):
            with pytest.raises(BadState, match=r"remove places\.sqlite"):
                log.append([entry])
        assert log.append([b"entry 7"]) == [7]


def test_an_early_journal_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "journal").write_bytes(b'{"format": "interlock-log-journal", "v": 1}\n')
    with pytest.raises(BadState, match="early interlock"), open_log(tmp_path, SIGNER):
        raise AssertionError("opened")


def test_a_log_signs_with_both_its_keys_and_anew_once_it_has_the_second(tmp_path: Path) -> None:
    def signed_by(note: bytes) -> list[VerifierKey]:
        keys = [SIGNER.key, ALSO.key]
        return [k for k in keys if any(s.key_id == k.key_id for s in parse_note(note).signatures)]

    with open_log(tmp_path, SIGNER) as log:
        log.append([b"a", b"b"])
        log.publish(log.integrate())
        assert signed_by(log.signed) == [SIGNER.key]
        before = log.checkpoint_at(2)
    with open_log(tmp_path, SIGNER, [ALSO]) as log:
        assert signed_by(log.signed) == [SIGNER.key, ALSO.key]
        log.publish(log.signed)
    for key in (SIGNER.key, ALSO.key):
        checkpoint, _ = open_checkpoint((tmp_path / "public" / "checkpoint").read_bytes(), [key])
        assert checkpoint == before
