"""The log's writer: durable before acknowledged, whole before published, one at a time, one history."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from interlock.base.codec import Malformed
from interlock.base.fetch import DirectoryFetcher
from interlock.base.files import BadState, Locked, NewerFormat, NotWritable
from interlock.base.keys import Ed25519Signer
from interlock.transparency.checkpoint import Checkpoint, open_checkpoint
from interlock.transparency.follow import tile_loader
from interlock.transparency.log import Log, open_log
from interlock.transparency.merkle import (
    leaf_hash,
    root_of,
    tree_root,
    verify_consistency,
)
from interlock.transparency.note import NoteSigner
from interlock.transparency.policy import Peer, TlogPolicy
from interlock.transparency.storage import DirectoryStorage
from interlock.transparency.tiles import ENTRIES, Tile, TileReader, decode_bundle, tiles_of

ORIGIN = "log.example/packs"
SIGNER = NoteSigner(ORIGIN, Ed25519Signer(b"\x01" * 32))
POLICY = TlogPolicy((Peer(SIGNER.key),))


def entries(start: int, end: int) -> list[bytes]:
    return [f"entry {i}".encode() for i in range(start, end)]


def published(root: Path) -> Checkpoint:
    """The published tree, after a check that all of it is there and hashes to its root."""
    checkpoint, _ = open_checkpoint((root / "public" / "checkpoint").read_bytes(), [SIGNER.key])
    load = tile_loader(DirectoryFetcher(root / "public"))
    leaves: list[bytes] = []
    for tile in tiles_of(checkpoint.size):
        if tile.level == ENTRIES:
            leaves += [leaf_hash(e) for e in decode_bundle(load(tile), tile.width)]
        else:
            load(tile)
    assert root_of(leaves) == checkpoint.root
    assert tree_root(checkpoint.size, TileReader(checkpoint.size, load)) == checkpoint.root
    return checkpoint


def newest(root: Path) -> Path:
    """The journal's newest file."""
    return max((root / "journal").iterdir())


def test_what_was_appended_is_published_whole_with_proofs_that_verify(tmp_path: Path) -> None:
    with open_log(tmp_path, SIGNER) as log:
        for start, end in ((0, 1), (1, 5), (5, 255), (255, 256), (256, 257), (257, 600)):
            assert log.append(entries(start, end)) == list(range(start, end))
            log.publish(log.integrate())
            assert published(tmp_path) == log.checkpoint_at(end)
            for index in {0, start, end - 1, end // 2}:
                assert log.entry(index) == entries(index, index + 1)[0]
                log.prove(index, log.signed).verify(log.entry(index), POLICY)
        old = log.checkpoint_at(250)
        proof = log.consistency(250, 600)
        verify_consistency(250, old.root, 600, log.checkpoint_at(600).root, proof)
        assert log.consistency(0, 600) == ()


def test_partial_tiles_go_once_the_full_one_is_published(tmp_path: Path) -> None:
    with open_log(tmp_path, SIGNER) as log:
        log.append(entries(0, 255))
        log.publish(log.integrate())
        assert (tmp_path / "public" / Tile(0, 0, 255).path).exists()
        log.append(entries(255, 256))
        note = log.integrate()
        assert (tmp_path / "public" / Tile(0, 0, 255).path).exists()  # readers still see the old tree
        log.publish(note)
        assert not (tmp_path / "public" / Tile(0, 0, 255).path).parent.exists()
        assert published(tmp_path).size == 256


def test_the_same_bytes_have_one_index_also_after_a_restart(tmp_path: Path) -> None:
    with open_log(tmp_path, SIGNER) as log:
        assert log.append([b"a", b"b", b"a"]) == [0, 1, 0]
    with open_log(tmp_path, SIGNER) as log:
        assert log.append([b"c", b"b"]) == [2, 1]
        assert log.size == 3


def test_an_entry_that_no_bundle_can_hold_is_refused_with_its_whole_batch(tmp_path: Path) -> None:
    with open_log(tmp_path, SIGNER) as log:
        with pytest.raises(Malformed):
            log.append([b"small", b"x" * 65_536])
        assert log.size == 0
        assert log.append([b"x" * 65_535, b""]) == [0, 1]
        log.publish(log.integrate())
        assert published(tmp_path).size == 2


def test_appended_and_not_integrated_is_part_of_the_next_tree(tmp_path: Path) -> None:
    with open_log(tmp_path, SIGNER) as log:
        log.append(entries(0, 3))
        assert log.published is None
    with open_log(tmp_path, SIGNER) as log:
        log.publish(log.signed)
    assert published(tmp_path).size == 3


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with open_log(tmp_path, SIGNER), pytest.raises(Locked), open_log(tmp_path, SIGNER):
        raise AssertionError("two writers")


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with open_log(tmp_path, SIGNER):
        done = subprocess.run([sys.executable, "-c", WRITER, str(tmp_path)], capture_output=True, check=False)
        assert done.returncode == 2
        assert b"in use by another process" in done.stdout
    with open_log(tmp_path, SIGNER):
        pass


def test_only_a_tree_of_this_log_is_published_and_never_an_older_one(tmp_path: Path) -> None:
    other = NoteSigner(ORIGIN, Ed25519Signer(b"\x01" * 32))
    with open_log(tmp_path / "other", other) as fork, open_log(tmp_path / "log", SIGNER) as log:
        fork.append([b"fork"])
        log.append([b"one"])
        first = log.integrate()
        log.append([b"two"])
        with pytest.raises(ValueError):
            log.publish(fork.integrate())
        log.publish(log.integrate())
        with pytest.raises(ValueError):
            log.publish(first)
    assert published(tmp_path / "log").size == 2


@pytest.mark.parametrize("torn", [b"\x00", b"\x00\x05", b"\x00\x05" + b"\x11" * 34, b"\x00\x01" + b"\x11" * 33])
def test_a_torn_record_at_the_end_is_dropped(tmp_path: Path, torn: bytes) -> None:
    with open_log(tmp_path, SIGNER) as log:
        log.append(entries(0, 3))
        log.publish(log.integrate())
    journal = newest(tmp_path)
    size = journal.stat().st_size
    with journal.open("ab") as f:
        f.write(torn)
    with open_log(tmp_path, SIGNER) as log:
        assert log.size == 3
        assert journal.stat().st_size == size
        assert log.append([b"next"]) == [3]
    with open_log(tmp_path, SIGNER) as log:
        assert log.size == 4


def _cut_last(data: bytes) -> bytes:
    return data[:-1]


def _flip_middle(data: bytes) -> bytes:
    at = data.index(b"entry 1")
    return data[:at] + b"E" + data[at + 1 :]


def _other_history(data: bytes) -> bytes:
    head = data[: data.index(b"\n") + 1]
    return head + b"".join(len(e).to_bytes(2, "big") + leaf_hash(e) + e for e in entries(10, 14))


@pytest.mark.parametrize("damage", [_cut_last, _flip_middle, _other_history])
def test_a_journal_that_lost_what_was_signed_is_refused_and_not_repaired(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    with open_log(tmp_path, SIGNER) as log:
        log.append(entries(0, 3))
        log.integrate()
    journal = newest(tmp_path)
    journal.write_bytes(damage(journal.read_bytes()))
    before = journal.read_bytes()
    with pytest.raises(BadState), open_log(tmp_path, SIGNER):
        raise AssertionError("opened")
    assert journal.read_bytes() == before


def test_a_journal_of_a_newer_version_or_of_no_format_is_refused(tmp_path: Path) -> None:
    with open_log(tmp_path, SIGNER):
        pass
    newest(tmp_path).write_bytes(b'{"format": "interlock-log-journal", "v": 3, "first": 0}\n')
    with pytest.raises(NewerFormat), open_log(tmp_path, SIGNER):
        raise AssertionError("opened")
    newest(tmp_path).write_bytes(b"")
    with pytest.raises(BadState), open_log(tmp_path, SIGNER):
        raise AssertionError("opened")


def test_another_key_or_name_does_not_open_the_log(tmp_path: Path) -> None:
    with open_log(tmp_path, SIGNER) as log:
        log.append([b"a"])
        log.integrate()
    for other in (
        NoteSigner(ORIGIN, Ed25519Signer(b"\x02" * 32)),
        NoteSigner("log.example/else", Ed25519Signer(b"\x01" * 32)),
    ):
        with pytest.raises(BadState), open_log(tmp_path, other):
            raise AssertionError("opened")


class Crash(BaseException):
    """The power goes."""


class CrashingStorage(DirectoryStorage):
    """Stops before the n-th file; what is on disk then is what a crash would leave."""

    left = 1 << 30

    def write(self, files: Sequence[tuple[str, bytes]]) -> None:
        for file in files:
            self._count()
            super().write([file])

    def put(self, files: Sequence[tuple[str, bytes]]) -> None:
        for file in files:
            self._count()
            super().put([file])

    def _count(self) -> None:
        if self.left == 0:
            raise Crash
        self.left -= 1


def test_a_crash_before_any_write_leaves_the_old_or_the_new_tree_published(tmp_path: Path) -> None:
    for stop in range(12):
        root = tmp_path / str(stop)
        with open_log(root, SIGNER) as log:
            log.append(entries(0, 255))
            log.publish(log.integrate())
        storage = CrashingStorage(root)
        log = Log(storage, SIGNER)
        storage.left = stop
        try:
            log.append(entries(255, 300))
            log.publish(log.integrate())
            crashed = False
        except Crash:
            crashed = True
        storage.close()
        assert crashed == (stop < 7)  # two bundles, three tiles, signed, checkpoint
        assert published(root).size == (255 if crashed else 300)
        with open_log(root, SIGNER) as log:
            assert log.size == 300
            log.publish(log.integrate())
        assert published(root).size == 300


class FullDisk(DirectoryStorage):
    """Takes nothing."""

    def append(self, first: int, entries: Sequence[bytes]) -> None:
        raise NotWritable("disk is full")


def test_after_a_failed_append_nothing_is_acknowledged_until_a_restart(tmp_path: Path) -> None:
    storage = FullDisk(tmp_path)
    log = Log(storage, SIGNER)
    with pytest.raises(NotWritable):
        log.append([b"a"])
    with pytest.raises(BadState):
        log.append([b"b"])
    with pytest.raises(BadState):
        log.integrate()
    storage.close()
    with open_log(tmp_path, SIGNER) as again:
        assert again.append([b"b"]) == [0]


WRITER = """
import sys
from pathlib import Path
from interlock.base.errors import InterlockError
from interlock.base.keys import Ed25519Signer
from interlock.transparency.log import open_log
from interlock.transparency.note import NoteSigner
signer = NoteSigner("log.example/packs", Ed25519Signer(b"\\x01" * 32))
try:
    with open_log(Path(sys.argv[1]), signer) as log:
        print("ready", flush=True)
        while True:
            index = log.append([b"entry %d" % log.size])[0]
            print(index, flush=True)
            log.publish(log.integrate())
            print("published", log.size, flush=True)
except InterlockError as e:
    print(e)
    sys.exit(e.exit_code)
"""


def test_kill_9_at_any_moment_loses_nothing_acknowledged_and_signs_one_history(tmp_path: Path) -> None:
    rng = random.Random(2)
    seen: list[Checkpoint] = []
    acknowledged = shown = 0
    for round_ in range(8):
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        with child.stdout:
            assert child.stdout.readline() == "ready\n"
            first = "" if round_ % 2 else child.stdout.readline()  # else any moment, also before the first append
            time.sleep(rng.uniform(0.0, 0.2))
            os.kill(child.pid, signal.SIGKILL)
            said = [line for line in (first + child.stdout.read()).splitlines(keepends=True) if line.endswith("\n")]
        child.wait()
        for line in said:
            if line.startswith("published"):
                shown = int(line.split()[1])
            else:
                acknowledged = int(line) + 1
        if (tmp_path / "public" / "checkpoint").exists():
            seen.append(published(tmp_path))
            assert seen[-1].size >= shown
        with open_log(tmp_path, SIGNER) as log:
            assert log.size >= acknowledged
            assert [log.entry(i) for i in range(acknowledged)] == entries(0, acknowledged)
            for checkpoint in seen:
                assert log.checkpoint_at(checkpoint.size) == checkpoint
    assert acknowledged >= 4


def test_leftovers_of_an_interrupted_replace_are_swept(tmp_path: Path) -> None:
    with open_log(tmp_path, SIGNER) as log:
        log.publish(log.integrate())
        log.append([b"a"])  # a kill -9 while the next tree was written leaves parts of files
        (tmp_path / "public" / "tile" / "0" / "000.p").mkdir(parents=True)
    leftovers = [tmp_path / place / ".x.abc.tmp" for place in (".", "journal", "public", "public/tile/0/000.p")]
    for leftover in leftovers:
        leftover.write_bytes(b"half")
    with open_log(tmp_path, SIGNER) as log:
        assert not [leftover for leftover in leftovers if leftover.exists()]
        log.publish(log.integrate())
    assert published(tmp_path).size == 1
