"""LogView: each legal order, and each attack on it, with real logs, keys and files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from interlock.base.clock import ManualClock
from interlock.base.codec import Malformed
from interlock.base.fetch import DirectoryFetcher, NotFound
from interlock.base.files import BadState
from interlock.base.keys import Ed25519Signer
from interlock.base.primitives import BadSignature
from interlock.transparency.checkpoint import Checkpoint, Cosigner, sign_checkpoint
from interlock.transparency.follow import MAX_EVIDENCE, Evidence, LogView, Rollback, SplitView, parse_evidence
from interlock.transparency.log import Log, open_log
from interlock.transparency.merkle import MAX_PROOF, BadProof
from interlock.transparency.note import MAX_NOTE, NoteSigner, encode_note, parse_note
from interlock.transparency.policy import NoQuorum, Peer, TlogPolicy, UnknownLog
from interlock.transparency.proof import TlogProof
from interlock.transparency.tiles import Tile
from tests.unit.memory_fetcher import MemoryFetcher

ORIGIN = "log.example/packs"
SIGNER = NoteSigner(ORIGIN, Ed25519Signer(b"\x01" * 32))
WITNESS = Cosigner("witness.example/w", Ed25519Signer(b"\x02" * 32))
POLICY = TlogPolicy((Peer(SIGNER.key),), {"w": Peer(WITNESS.key)}, {}, "w")


class World:
    """One log, perhaps a fork of it, and one node that follows."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.root = root
        self.log = stack.enter_context(open_log(root / "log", SIGNER))
        self.fork = stack.enter_context(open_log(root / "fork", SIGNER))
        self.home = root / "node"

    @property
    def view(self) -> LogView:
        """Made anew each time, as by a node that was restarted."""
        return LogView(self.home, POLICY, ManualClock())

    @staticmethod
    def grow(log: Log, end: int, text: str = "entry", *, witnessed: bool = True) -> bytes:
        """Add entries up to size `end`, cosign and publish; returns the note."""
        log.append([f"{text} {i}".encode() for i in range(log.size, end)])
        note = parse_note(log.integrate())
        if witnessed:
            note = note.plus([WITNESS.cosign(note.text.encode(), 1_800_000_000)])
        log.publish(encode_note(note))
        return encode_note(note)

    def fetcher(self, which: str = "log") -> DirectoryFetcher:
        return DirectoryFetcher(self.root / which / "public")

    def proof(self, index: int, log: Log | None = None) -> tuple[bytes, TlogProof]:
        log = log or self.log
        assert log.published is not None
        return log.entry(index), log.prove(index, log.published)

    def evidence(self) -> list[Evidence]:
        files = sorted((self.home / "evidence").glob("*.json"))
        return [parse_evidence(f.read_bytes(), where=str(f)) for f in files]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path, stack)


def size(world: World) -> int:
    last = world.view.last(ORIGIN)
    return -1 if last is None else last.size


def test_the_first_checkpoint_with_a_quorum_is_remembered(world: World) -> None:
    assert world.view.last(ORIGIN) is None
    world.grow(world.log, 3)
    checked = world.view.refresh(world.fetcher())
    assert checked.cosigned == {"w": 1_800_000_000}
    assert world.view.last(ORIGIN) == checked.checkpoint


def test_larger_trees_are_followed_also_over_full_tiles(world: World) -> None:
    for end in (0, 1, 2, 200, 256, 300, 513):
        world.grow(world.log, end)
        assert world.view.refresh(world.fetcher()).checkpoint.size == size(world) == end


def test_the_same_checkpoint_again_changes_nothing(world: World) -> None:
    note = world.grow(world.log, 3)
    world.view.advance(note, world.fetcher())
    state = {p: p.read_bytes() for p in world.home.glob("*.json")}
    nothing = MemoryFetcher({})
    world.view.advance(note, nothing)
    assert nothing.asked == []
    assert {p: p.read_bytes() for p in world.home.glob("*.json")} == state


def test_an_entry_under_a_newer_checkpoint_moves_the_view_on(world: World) -> None:
    world.grow(world.log, 3)
    world.view.refresh(world.fetcher())
    world.grow(world.log, 7)
    entry, proof = world.proof(5)
    assert world.view.check_entry(entry, proof.data, world.fetcher()).checkpoint.size == 7
    assert size(world) == 7


def test_an_entry_under_an_older_checkpoint_is_accepted_if_that_is_a_prefix(world: World) -> None:
    world.grow(world.log, 3)
    entry, proof = world.proof(1)
    world.grow(world.log, 300)
    world.view.refresh(world.fetcher())
    world.view.check_entry(entry, proof.data, world.fetcher())
    assert size(world) == 300


def test_an_entry_that_is_not_in_the_log_is_refused(world: World) -> None:
    world.grow(world.log, 3)
    _, proof = world.proof(1)
    with pytest.raises(BadProof):
        world.view.check_entry(b"never logged", proof.data, world.fetcher())
    assert size(world) == -1


def test_a_smaller_tree_is_a_rollback(world: World) -> None:
    old = world.grow(world.log, 3)
    world.grow(world.log, 5)
    world.view.refresh(world.fetcher())
    with pytest.raises(Rollback):
        world.view.advance(old, world.fetcher())
    assert size(world) == 5


def test_the_longest_evidence_can_be_read_again() -> None:
    lines = ('"' * 1000,) * 260
    notes = [sign_checkpoint(Checkpoint(ORIGIN, 1, bytes([i]) * 32, lines), [SIGNER]) for i in (1, 2)]
    assert all(0.99 * MAX_NOTE < len(note) <= MAX_NOTE for note in notes)
    evidence = Evidence(ORIGIN, notes[0], notes[1], b"\x02" * 32, (b"\x03" * 32,) * MAX_PROOF)
    data = evidence.data((1 << 63) - 1)
    assert len(data) <= MAX_EVIDENCE
    assert parse_evidence(data, where="f") == evidence


def test_a_fork_of_the_same_size_is_a_split_view_with_evidence(world: World) -> None:
    old = world.grow(world.log, 3)
    world.view.refresh(world.fetcher())
    new = world.grow(world.fork, 3, "fork")
    with pytest.raises(SplitView) as caught:
        world.view.advance(new, world.fetcher("fork"))
    assert size(world) == 3
    assert world.evidence() == [caught.value.evidence]
    assert (caught.value.evidence.old, caught.value.evidence.new) == (old, new)
    caught.value.evidence.verify(SIGNER.key)
    assert str(caught.value.file) in str(caught.value)


@pytest.mark.parametrize(("seen", "end"), [(3, 5), (4, 8), (4, 9), (256, 300), (200, 513), (1, 2)])
def test_a_larger_fork_is_a_split_view_with_a_proof_for_third_parties(world: World, seen: int, end: int) -> None:
    world.grow(world.log, seen)
    world.view.refresh(world.fetcher())
    world.grow(world.fork, end, "fork")
    with pytest.raises(SplitView):
        world.view.refresh(world.fetcher("fork"))
    assert size(world) == seen
    (evidence,) = world.evidence()
    evidence.verify(SIGNER.key)


def test_a_fork_is_evidence_even_where_no_witness_cosigned_it(world: World) -> None:
    world.grow(world.log, 3)
    world.view.refresh(world.fetcher())
    world.grow(world.fork, 5, "fork", witnessed=False)
    with pytest.raises(SplitView):
        world.view.refresh(world.fetcher("fork"))
    assert len(world.evidence()) == 1


def test_an_entry_proven_under_a_fork_is_a_split_view(world: World) -> None:
    world.grow(world.fork, 2, "fork")
    entry, proof = world.proof(1, world.fork)
    world.grow(world.log, 5)
    world.view.refresh(world.fetcher())
    with pytest.raises(SplitView):
        world.view.check_entry(entry, proof.data, world.fetcher())
    (evidence,) = world.evidence()
    evidence.verify(SIGNER.key)


def test_the_same_fork_seen_twice_is_one_evidence_file(world: World) -> None:
    world.grow(world.log, 3)
    world.view.refresh(world.fetcher())
    world.grow(world.fork, 3, "fork")
    for _ in range(2):
        with pytest.raises(SplitView):
            world.view.refresh(world.fetcher("fork"))
    assert len(world.evidence()) == 1


def test_evidence_that_shows_one_history_convinces_no_one(world: World) -> None:
    old, first = world.grow(world.log, 3), world.log.checkpoint_at(3)
    new = world.grow(world.log, 5)
    honest = Evidence(ORIGIN, old, new, first.root, world.log.consistency(3, 5))
    with pytest.raises(BadProof):
        honest.verify(SIGNER.key)
    with pytest.raises(BadProof):
        Evidence(ORIGIN, old, new, b"\x00" * 32, honest.proof).verify(SIGNER.key)
    with pytest.raises(BadSignature):
        honest.verify(NoteSigner(ORIGIN, Ed25519Signer(b"\x09" * 32)).key)


def test_a_checkpoint_without_a_quorum_is_never_remembered(world: World) -> None:
    world.grow(world.log, 3, witnessed=False)
    with pytest.raises(NoQuorum):
        world.view.refresh(world.fetcher())
    assert size(world) == -1
    world.grow(world.log, 3)
    world.view.refresh(world.fetcher())
    world.grow(world.log, 5, witnessed=False)
    with pytest.raises(NoQuorum):
        world.view.refresh(world.fetcher())
    assert size(world) == 3


def test_tiles_that_are_garbage_are_the_servers_fault_and_no_evidence(world: World) -> None:
    world.grow(world.log, 3)
    world.view.refresh(world.fetcher())
    note = world.grow(world.log, 5)
    liar = MemoryFetcher({Tile(0, 0, 5).path: b"\x00" * 160})
    with pytest.raises(BadProof):
        world.view.advance(note, liar)
    with pytest.raises(Malformed):
        world.view.advance(note, MemoryFetcher({Tile(0, 0, 5).path: b"\x00" * 159}))
    with pytest.raises(NotFound):
        world.view.advance(note, MemoryFetcher({}))
    assert size(world) == 3
    assert world.evidence() == []
    world.view.advance(note, world.fetcher())


@pytest.mark.parametrize("garbage", [b"", b"\x00", b"not a note\n", b"a\nb\nc\n\n\xe2\x80\x94 x AAAAAAA=\n"])
def test_garbage_for_a_checkpoint_is_malformed(world: World, garbage: bytes) -> None:
    with pytest.raises(Malformed):
        world.view.refresh(MemoryFetcher({"checkpoint": garbage}))
    assert not (world.home / "evidence").exists()


def test_another_logs_checkpoint_is_refused(world: World, tmp_path: Path) -> None:
    for name, seed, error in (("log.example/else", 1, UnknownLog), (ORIGIN, 9, BadSignature)):
        signer = NoteSigner(name, Ed25519Signer(bytes([seed]) * 32))
        with open_log(tmp_path / f"other{seed}", signer) as other:
            note = world.grow(other, 2)
        with pytest.raises(error):
            world.view.advance(note, world.fetcher())


def test_a_damaged_state_file_is_refused_and_not_forgotten(world: World) -> None:
    note = world.grow(world.log, 3)
    world.view.refresh(world.fetcher())
    (state,) = world.home.glob("log-*.json")
    whole = state.read_bytes()
    for damaged in (
        b"",
        whole[:-20],
        whole.replace(b"log.example", b"log.exampla"),
        whole.replace(b"\\n3\\n", b"\\nx\\n"),
    ):
        state.write_bytes(damaged)
        with pytest.raises(BadState):
            world.view.advance(note, world.fetcher())
    state.write_bytes(whole)
    world.view.advance(note, world.fetcher())
