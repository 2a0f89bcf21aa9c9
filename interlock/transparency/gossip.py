"""Comparing what several places show of one log: mirrors, witnesses, other nodes. Each must lie on one timeline.

    sightings -> compared(sightings, sources) -> Compared

The largest checkpoint whose tiles some place serves is what the others are held against: each smaller one must be a
prefix of its tree, one of equal size must be the same, and a larger one is unproven, for nobody serves its tiles.
A log that signed two histories is shown by evidence that convinces anybody who has its key.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from interlock.base.errors import InterlockError
from interlock.base.fetch import Fetcher
from interlock.base.files import unstamped
from interlock.transparency.checkpoint import Checkpoint
from interlock.transparency.follow import VIEW_FORMAT, Evidence, tile_loader
from interlock.transparency.merkle import prove_consistency, tree_root, verify_consistency
from interlock.transparency.note import Note, encode_note, parse_note
from interlock.transparency.policy import Checked
from interlock.transparency.proof import PROOF_HEADER, parse_proof
from interlock.transparency.tiles import TileReader

__all__ = ["AGREES", "SPLIT", "UNPROVEN", "Compared", "Sighting", "compared", "note_in"]

AGREES: Final = "agrees"
SPLIT: Final = "split"
UNPROVEN: Final = "unproven"


@dataclass(frozen=True)
class Sighting:
    """What one place shows: a checkpoint that the log signed."""

    place: str
    checked: Checked


@dataclass(frozen=True)
class Compared:
    """What came out for each place, in the order of the sightings; `evidence` where the log signed two histories."""

    results: Mapping[str, str]
    evidence: Evidence | None = None


def note_in(data: bytes, *, where: str) -> Note:
    """The checkpoint in a file: a note, a tlog-proof, or what a node keeps of a log.

    Raises: Malformed; BadState, NewerFormat, for a file of ours that is damaged.
    """
    if data.startswith(b"{"):
        return parse_note(str(unstamped(data, VIEW_FORMAT, 1, where=where).get("note")).encode("utf-8", "replace"))
    return parse_proof(data).note if data.startswith(PROOF_HEADER.encode("ascii")) else parse_note(data)


def compared(sightings: Sequence[Sighting], sources: Sequence[Fetcher]) -> Compared:
    """Hold the sightings of one origin against each other; `sources` serve tiles, none of them trusted."""
    results: dict[str, str] = {}
    largest: Sighting | None = None
    evidence: Evidence | None = None
    for sighting in sorted(sightings, key=lambda s: -s.checked.checkpoint.size):
        found = _twin(sighting, sightings)
        if found is not None and (largest is None or _size(largest) == _size(sighting)):
            result = SPLIT
        elif largest is None:
            result = AGREES if _served(sighting.checked.checkpoint, sources) else UNPROVEN
            largest = sighting if result == AGREES else None
        else:
            result, found = _held(sighting, largest, sources)
        results[sighting.place] = result
        evidence = evidence or (found if result == SPLIT else None)
    return Compared({s.place: results[s.place] for s in sightings}, evidence)


def _size(sighting: Sighting) -> int:
    return sighting.checked.checkpoint.size


def _twin(one: Sighting, all_: Sequence[Sighting]) -> Evidence | None:
    """Evidence, where another place shows a tree of the same size with another root."""
    mine = one.checked
    for other in (s.checked for s in all_):
        if other.checkpoint.size == mine.checkpoint.size and other.checkpoint.root != mine.checkpoint.root:
            notes = [encode_note(c.note) for c in (mine, other)]
            return Evidence(mine.checkpoint.origin, notes[0], notes[1], other.checkpoint.root, ())
    return None


def _served(checkpoint: Checkpoint, sources: Sequence[Fetcher]) -> bool:
    """Whether a source has tiles that lead to this root."""
    for source in sources:
        with contextlib.suppress(InterlockError):
            if tree_root(checkpoint.size, TileReader(checkpoint.size, tile_loader(source))) == checkpoint.root:
                return True
    return checkpoint.size == 0


def _held(older: Sighting, newer: Sighting, sources: Sequence[Fetcher]) -> tuple[str, Evidence | None]:
    """Whether a tree is a prefix of a larger one, by the first source whose tiles prove it or disprove it."""
    old, new = older.checked.checkpoint, newer.checked.checkpoint
    if old.size == 0 or (old.size, old.root) == (new.size, new.root):
        return AGREES, None
    for source in sources:
        read = TileReader(new.size, tile_loader(source))
        with contextlib.suppress(InterlockError):
            proof, root_then = prove_consistency(old.size, new.size, read), tree_root(old.size, read)
            verify_consistency(old.size, root_then, new.size, new.root, proof)
            if root_then == old.root:
                return AGREES, None
            notes = [encode_note(s.checked.note) for s in (older, newer)]
            return SPLIT, Evidence(old.origin, notes[0], notes[1], root_then, proof)
    return UNPROVEN, None
