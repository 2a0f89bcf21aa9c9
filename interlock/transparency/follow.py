"""One timeline an origin: a node remembers the last checkpoint it verified, and demands that the next extends it.

    state of an origin     what comes                               what follows
    none                   a checkpoint with a quorum               it is remembered
    size n, root r         size n, root r                           accepted, nothing changes
    size n, root r         size n, another root                     SplitView, with evidence
    size n, root r         larger, tiles show r at size n           accepted and remembered
    size n, root r         larger, tiles show another root at n     SplitView, with evidence
    size n, root r         larger, tiles do not lead to its root    BadProof: the server's fault, not yet the log's
    size n, root r         smaller, as the newest there is          Rollback
    size n, root r         smaller, under an entry's proof          accepted if it is a prefix, else SplitView

The log's signature alone makes a fork evidence, so it is looked for before the quorum is: a checkpoint without a quorum
can be refused as SplitView, and is never remembered. Whatever is refused leaves the state as it was.

Evidence is a JSON file that convinces a third party who has nothing but the log's key: `Evidence.verify`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.clock import Clock
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.fetch import Fetcher, NotFound
from interlock.base.files import BadState, file_lock, private_dir, read_bounded, replace, stamped, unstamped
from interlock.base.text import b64, unb64
from interlock.transparency.checkpoint import Checkpoint, open_checkpoint, origin_hash, parse_checkpoint
from interlock.transparency.merkle import HASH_SIZE, BadProof, prove_consistency, tree_root, verify_consistency
from interlock.transparency.note import MAX_NOTE, Note, VerifierKey, encode_note, parse_note
from interlock.transparency.policy import Checked, TlogPolicy
from interlock.transparency.proof import parse_proof
from interlock.transparency.tiles import CHECKPOINT, ENTRIES, WIDTH, Tile, TileReader, decode_bundle, encode_bundle

__all__ = [
    "EVIDENCE_FORMAT",
    "MAX_EVIDENCE",
    "VIEW_FORMAT",
    "Evidence",
    "LogView",
    "Rollback",
    "SplitView",
    "parse_evidence",
    "tile_loader",
    "write_evidence",
]

VIEW_FORMAT: Final = "interlock-log-view"
EVIDENCE_FORMAT: Final = "interlock-split-view"
MAX_EVIDENCE: Final = 5 * MAX_NOTE  # bytes; two notes as JSON strings, twice as long at the most, and a proof


class Rollback(InterlockError):
    """A log, or a mirror of it, that offers an older tree than one already seen."""

    code = "rollback"


class SplitView(InterlockError):
    """Two histories that one log has signed; `evidence` shows it to anyone, `file` is where it was written."""

    code = "split-view"

    def __init__(self, what: str, evidence: Evidence, file: Path | None = None) -> None:
        super().__init__(
            what,
            where=evidence.origin,
            fix=f"trust nothing new of this log, and send its witnesses {file if file else 'the evidence'}",
        )
        self.evidence = evidence
        self.file = file


@dataclass(frozen=True)
class Evidence:
    """Two notes of one log, and the proof that the larger tree has `root_then` where the smaller has its own root.

    At equal sizes the roots differ as they stand, and `proof` is empty.
    """

    origin: str
    old: bytes
    new: bytes
    root_then: bytes
    proof: tuple[bytes, ...]

    def verify(self, *keys: VerifierKey) -> None:
        """Check that this shows a log with these keys signing two histories, each with one of them at least.

        Raises: BadProof, BadSignature, Malformed, where it does not.
        """
        (old, _), (new, _) = open_checkpoint(self.old, keys), open_checkpoint(self.new, keys)
        if {old.origin, new.origin, *(key.name for key in keys)} != {self.origin}:
            raise BadProof("evidence is of several origins")
        verify_consistency(old.size, self.root_then, new.size, new.root, self.proof)
        if self.root_then == old.root:
            raise BadProof("evidence shows one history, not two")

    def data(self, at_us: int) -> bytes:
        """The evidence file, as it is written at a time. The inverse of `parse_evidence`."""
        body: dict[str, object] = {
            "at": at_us,
            "origin": self.origin,
            "old": self.old.decode("utf-8"),
            "new": self.new.decode("utf-8"),
            "root_then": b64(self.root_then),
            "proof": [b64(h) for h in self.proof],
        }
        return stamped(EVIDENCE_FORMAT, 1, body)


def parse_evidence(data: bytes, *, where: str) -> Evidence:
    """Read an evidence file; verifies nothing. Raises: BadState, NewerFormat, Malformed."""
    body = unstamped(data, EVIDENCE_FORMAT, 1, where=where)
    texts = [body.get(k) for k in ("origin", "old", "new", "root_then")]
    proof = body.get("proof")
    if not isinstance(proof, list) or not all(isinstance(t, str) for t in (*texts, *proof)):
        raise BadState("lacks a field", where=where)
    origin, old, new, root = (str(t) for t in texts)
    hashes = tuple(unb64(str(h), "proof") for h in proof)
    return Evidence(origin, old.encode("utf-8"), new.encode("utf-8"), unb64(root, "root"), hashes)


class LogView:
    """What a node has seen of the logs of one policy, in a directory of its own.

    `evidence` is the directory for evidence files, by default HOME/evidence. Several processes may share a home.
    `seen` is the last checkpoint that was offered as the newest and that its log had signed, taken or refused.
    """

    def __init__(self, home: Path, policy: TlogPolicy, clock: Clock, *, evidence: Path | None = None) -> None:
        self._home = home
        self._policy = policy
        self._clock = clock
        self._evidence = evidence or home / "evidence"
        self.seen: Checked | None = None

    def last(self, origin: str) -> Checkpoint | None:
        """The last checkpoint that was verified, or None. Raises: BadState, for a damaged state file."""
        note = self._last(origin)
        return None if note is None else parse_checkpoint(note.text)

    def note(self, origin: str) -> bytes | None:
        """The last checkpoint as it was signed and cosigned, to be shown to others; None where there is none."""
        note = self._last(origin)
        return None if note is None else encode_note(note)

    def refresh(self, fetcher: Fetcher) -> Checked:
        """Fetch the newest checkpoint and take it in. Raises: as `advance`, and the fetcher's errors."""
        return self.advance(fetcher.fetch(CHECKPOINT, max_length=MAX_NOTE), fetcher)

    def advance(self, note: bytes, fetcher: Fetcher) -> Checked:
        """Take in a checkpoint that is offered as the newest; `fetcher` brings its tiles.

        Raises: Malformed, UnknownLog, BadSignature, NoQuorum, Rollback, SplitView, BadProof.
        """
        self.seen = checked = self._policy.opened(parse_note(note))
        return self._take(checked, fetcher, newest=True)

    def observe(self, note: bytes, fetcher: Fetcher) -> Checked:
        """Take in a checkpoint that somebody was shown, new or old: it must lie on the one timeline.

        Raises: as `advance`, except Rollback.
        """
        return self._take(self._policy.opened(parse_note(note)), fetcher, newest=False)

    def check_entry(self, entry: bytes, proof: bytes, fetcher: Fetcher) -> Checked:
        """Accept an entry by its tlog-proof, whose checkpoint must lie on the one timeline that this node knows.

        Raises: as `advance`, except Rollback; BadProof also where the entry is not where the proof says.
        """
        parsed = parse_proof(proof)
        checked = self._policy.opened(parsed.note)
        parsed.verify_inclusion(entry, checked.checkpoint)
        return self._take(checked, fetcher, newest=False)

    def _take(self, checked: Checked, fetcher: Fetcher, *, newest: bool) -> Checked:
        now = checked.checkpoint
        private_dir(self._home)
        with file_lock(self._home / "lock", wait=True):
            note = self._last(now.origin)
            seen = -1 if note is None else parse_checkpoint(note.text).size
            if newest and now.size < seen:
                raise Rollback(
                    f"offers a tree of {now.size} entries after one of {seen}",
                    where=now.origin,
                    fix="try another mirror, or wait for this one to catch up",
                )
            if note is not None:
                older, newer = (checked.note, note) if now.size < seen else (note, checked.note)
                self._demand_one_timeline(older, newer, fetcher)
            self._policy.demand_quorum(checked)
            if now.size > seen:
                body: dict[str, object] = {"origin": now.origin, "note": encode_note(checked.note).decode("utf-8")}
                replace(self._path(now.origin), stamped(VIEW_FORMAT, 1, body))
        return checked

    def _demand_one_timeline(self, older: Note, newer: Note, fetcher: Fetcher) -> None:
        old, new = parse_checkpoint(older.text), parse_checkpoint(newer.text)
        root_then, proof = new.root, tuple[bytes, ...]()
        if old.size < new.size:
            if old.size == 0:
                return
            read = TileReader(new.size, tile_loader(fetcher))
            proof, root_then = prove_consistency(old.size, new.size, read), tree_root(old.size, read)
            try:
                verify_consistency(old.size, root_then, new.size, new.root, proof)
            except BadProof:
                raise BadProof(
                    "tiles that were served do not lead to the checkpoint", where=new.origin, fix="try another mirror"
                ) from None
        if root_then != old.root:
            self._report(Evidence(old.origin, encode_note(older), encode_note(newer), root_then, proof), old, new)

    def _report(self, evidence: Evidence, old: Checkpoint, new: Checkpoint) -> None:
        file = write_evidence(self._evidence, evidence, self._clock)
        what = f"log has signed two histories: trees of {old.size} and {new.size} entries do not belong together"
        raise SplitView(what, evidence, file)

    def _path(self, origin: str) -> Path:
        return self._home / f"log-{origin_hash(origin)[:16]}.json"

    def _last(self, origin: str) -> Note | None:
        path = self._path(origin)
        if not path.exists():
            return None
        body = unstamped(read_bounded(path, MAX_EVIDENCE), VIEW_FORMAT, 1, where=str(path))
        try:
            note = parse_note(str(body.get("note")).encode("utf-8"))
            found = parse_checkpoint(note.text).origin
        except (Malformed, UnicodeEncodeError):
            found = ""
        if found != origin or body.get("origin") != origin:
            raise BadState("is damaged", where=str(path), fix="restore it, or enrol this node anew")
        return note


def write_evidence(folder: Path, evidence: Evidence, clock: Clock) -> Path:
    """Keep evidence as a file, once; returns where. Raises: NotWritable."""
    private_dir(folder)
    file = folder / f"split-view-{hashlib.sha256(evidence.data(0)).hexdigest()[:16]}.json"
    if not file.exists():
        replace(file, evidence.data(clock.now_us()))
    return file


def tile_loader(fetcher: Fetcher) -> Callable[[Tile], bytes]:
    """Loads tiles and bundles for a TileReader; where a partial one is gone, from the full one (tlog-tiles).

    Raises (when called): NotFound, TooLarge, Unreachable, Malformed.
    """

    def load(tile: Tile) -> bytes:
        try:
            return fetcher.fetch(tile.path, max_length=tile.limit)
        except NotFound:
            if tile.width == WIDTH:
                raise
        whole = fetcher.fetch(tile.full.path, max_length=tile.full.limit)
        if tile.level == ENTRIES:
            return encode_bundle(decode_bundle(whole, WIDTH)[: tile.width])
        return whole[: tile.width * HASH_SIZE]

    return load
