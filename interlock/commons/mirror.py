"""A mirror: a verified copy of a commons and its log, that at every moment is one whole state of both.

A mirror trusts its upstream no more than a node does: metadata by TUF, each target by its signed digest, the log by
its key, its one timeline and its tiles, every one of which must lead to the root that was signed. Files whose names
hold a version or a digest are put beside the old ones first; the log's checkpoint and then `timestamp.json`, the two
that change in place, come last. A copy that is cut short therefore shows the state before it.

    DIR/public/{metadata,targets,log}/  served     DIR/tuf/  DIR/view/  what this mirror has verified
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.clock import Clock
from interlock.base.errors import InterlockError
from interlock.base.fetch import Fetcher
from interlock.base.files import BadState, file_lock, private_dir, read_bounded, replace
from interlock.commons.layout import LOG_PREFIX, PUBLIC_FILE
from interlock.commons.logged import LogFetcher
from interlock.commons.pins import Pins
from interlock.commons.updater import View, refreshed
from interlock.transparency.checkpoint import Checkpoint, parse_checkpoint
from interlock.transparency.follow import LogView, tile_loader
from interlock.transparency.grow import bundles, grown
from interlock.transparency.note import MAX_NOTE, encode_note, parse_note
from interlock.transparency.tiles import CHECKPOINT, Tile, TileBuilder, encode_bundle

__all__ = ["Copied", "Mirror"]

_MAX_TARGET: Final = 4 << 20  # bytes
_TIMESTAMP: Final = "timestamp.json"


@dataclass(frozen=True)
class Copied:
    """What a copy brought: the state that is now served, and how many files were new."""

    timestamp_version: int
    snapshot_version: int
    tree_size: int
    new_files: int


class Mirror:
    """Copies one commons into a directory. `log` has the log's files; by default they lie under log/ of `fetcher`."""

    def __init__(
        self, directory: Path, fetcher: Fetcher, pins: Pins, clock: Clock, *, log: Fetcher | None = None
    ) -> None:
        self._dir = directory
        self._fetcher = fetcher
        self._pins = pins
        self._clock = clock
        self._log_fetcher: Fetcher = log or LogFetcher(fetcher)
        self._log = LogView(directory / "view", pins.policy, clock, evidence=directory / "evidence")
        self.public = directory / "public"

    def copy(self) -> Copied:
        """Bring the copy up to date, or leave it as it was.

        Raises: Rollback, Stale, MetadataRefused, SplitView, NoQuorum, BadProof, TooLarge, Unreachable, NotWritable.
        """
        private_dir(self._dir)
        now_us = self._clock.now_us()
        with (
            file_lock(self._dir / "lock"),
            refreshed(self._dir / "tuf", self._fetcher, bootstrap=self._pins.root, now_us=now_us) as view,
        ):
            metadata = view.metadata()
            timestamp = metadata.pop(_TIMESTAMP)
            new = self._copy_targets(view)
            checked = self._log.refresh(self._log_fetcher)
            checkpoint = parse_checkpoint(checked.note.text)
            new += self._copy_tiles(checkpoint)
            new += self._put_all({f"metadata/{name}": data for name, data in metadata.items()})
            # Proofs name trees up to this checkpoint, and the snapshot names the proofs: so in this order.
            self._put(f"{LOG_PREFIX}/{CHECKPOINT}", encode_note(checked.note))
            self._put(f"metadata/{_TIMESTAMP}", timestamp)
            return Copied(view.timestamp_version, view.snapshot_version, checkpoint.size, new)

    def _copy_targets(self, view: View) -> int:
        new = 0
        for path, info in sorted(view.listed().items()):
            name = f"targets/{info.get_prefixed_paths()[0]}"
            if not (self.public / name).exists():
                self._put(name, view.target(path, _MAX_TARGET))
                new += 1
        return new

    def _copy_tiles(self, checkpoint: Checkpoint) -> int:
        """Bring the tiles and entries that are not here yet; none is kept that does not lead to the signed root."""
        load, builder = tile_loader(self._log_fetcher), self._held_tree()
        since, new = builder.size, 0
        tiles = grown(builder, checkpoint, load)
        for tile, entries in bundles(checkpoint, since, tiles, load):
            new += self._put_all({f"{LOG_PREFIX}/{tile.path}": encode_bundle(entries)})
        return new + self._put_all({f"{LOG_PREFIX}/{t.path}": data for t, data in tiles.items()})

    def _held_tree(self) -> TileBuilder:
        """The tree that is served now, to go on from; an empty one where there is none, or where it is damaged."""
        try:
            note = read_bounded(self.public / LOG_PREFIX / CHECKPOINT, MAX_NOTE)
            held = self._pins.policy.opened(parse_note(note)).checkpoint
            builder = TileBuilder.at(held.size, self._held_tile)
        except InterlockError:
            return TileBuilder()
        return builder if builder.root() == held.root else TileBuilder()

    def _held_tile(self, tile: Tile) -> bytes:
        return read_bounded(self.public / LOG_PREFIX / tile.path, tile.limit)

    def _put_all(self, files: Mapping[str, bytes]) -> int:
        """Put files whose names never change their meaning; returns how many were not there, or were damaged."""
        new = {name: data for name, data in files.items() if not self._holds(name, data)}
        for name, data in sorted(new.items()):
            self._put(name, data)
        return len(new)

    def _holds(self, name: str, data: bytes) -> bool:
        try:
            return read_bounded(self.public / name, len(data)) == data
        except BadState:
            return False

    def _put(self, name: str, data: bytes) -> None:
        path = self.public / name
        private_dir(path.parent)
        replace(path, data, mode=PUBLIC_FILE)
