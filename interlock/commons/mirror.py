"""A mirror: a verified copy of a commons and its log, that at every moment is one whole state of both.

A mirror trusts its upstream no more than a node does: metadata by TUF, each target by its signed digest, the log by
its key, its one timeline and its tiles, every one of which must lead to the root that was signed. Files whose names
hold a version or a digest are put beside the old ones first. The two that change in place, the log's checkpoint and
`timestamp.json`, belong together: no snapshot may be shown under a checkpoint that has a newer one. So both are links
into one folder, and one rename switches them. A copy that is cut short therefore shows the state before it.

    DIR/public/{metadata,targets,records,log}/  served     DIR/public/now -> states/N/{timestamp.json,checkpoint}
    DIR/tuf/  DIR/view/  DIR/newest.json           what this mirror has verified
"""

from __future__ import annotations

import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.clock import Clock
from interlock.base.errors import InterlockError
from interlock.base.fetch import Fetcher
from interlock.base.files import (
    BadState,
    NotWritable,
    file_lock,
    os_reason,
    private_dir,
    read_bounded,
    replace,
    sync_dir,
)
from interlock.commons.layout import LOG_PREFIX, PUBLIC_FILE, snapshot_files
from interlock.commons.logged import LogFetcher
from interlock.commons.newest import Commons
from interlock.commons.pins import Pins
from interlock.commons.record_copies import RecordCopies
from interlock.commons.updater import View
from interlock.transparency.catchup import bundles, grown
from interlock.transparency.checkpoint import Checkpoint
from interlock.transparency.follow import LogView, tile_loader
from interlock.transparency.note import MAX_NOTE, encode_note, parse_note
from interlock.transparency.tiles import CHECKPOINT, Tile, TileBuilder, encode_bundle

__all__ = ["Copied", "Mirror"]

_MAX_TARGET: Final = 4 << 20  # bytes
_TIMESTAMP: Final = "timestamp.json"
_STATES: Final = "states"
_NOW: Final = "now"


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
        self._pins = pins
        self._fetcher = fetcher
        self._clock = clock
        self._log_fetcher: Fetcher = log or LogFetcher(fetcher)
        self._commons = Commons(
            directory / "tuf",
            directory / "newest.json",
            root=pins.root,
            policy=pins.policy,
            log=LogView(directory / "view", pins.policy, clock, evidence=directory / "evidence"),
            fetcher=fetcher,
            log_fetcher=self._log_fetcher,
        )
        self.public = directory / "public"

    def copy(self) -> Copied:
        """Bring the copy up to date, or leave it as it was.

        Raises: NotNewest, NotLogged, Rollback, Stale, MetadataRefused, SplitView, NoQuorum, BadProof, TooLarge,
        Unreachable, NotWritable.
        """
        private_dir(self._dir)
        now_us = self._clock.now_us()
        with file_lock(self._dir / "lock"), self._commons.current(now_us) as now:
            records = RecordCopies(self._dir / "records.json", self._pins.policy)
            view, checkpoint = now.view, now.checked.checkpoint
            metadata = view.metadata()
            timestamp = metadata.pop(_TIMESTAMP)
            new = self._copy_targets(view)
            new += self._copy_tiles(checkpoint, records, now_us)
            new += records.copy(self._fetcher, lambda name: (self.public / name).exists(), self._put, now_us)
            new += self._put_all({f"metadata/{name}": data for name, data in metadata.items()})
            shown = zip(snapshot_files(view.snapshot_version), (now.place.entry, now.place.proof), strict=True)
            new += self._put_all(dict(shown))
            self._switch(
                {f"{LOG_PREFIX}/{CHECKPOINT}": encode_note(now.checked.note), f"metadata/{_TIMESTAMP}": timestamp}
            )
            return Copied(view.timestamp_version, view.snapshot_version, checkpoint.size, new)

    def _copy_targets(self, view: View) -> int:
        new = 0
        for path, info in sorted(view.listed().items()):
            name = f"targets/{info.get_prefixed_paths()[0]}"
            if not self._has(name, info.length):
                self._put(name, view.target(path, _MAX_TARGET))
                new += 1
        return new

    def _copy_tiles(self, checkpoint: Checkpoint, records: RecordCopies, now_us: int) -> int:
        """Bring the tiles and entries that are not here yet; none is kept that does not lead to the signed root."""
        load, builder = tile_loader(self._log_fetcher), self._held_tree() if records.begun else TileBuilder()
        since, new = builder.size, 0
        tiles = grown(builder, checkpoint, load)
        for tile, entries in bundles(checkpoint, since, tiles, load):
            new += self._put_all({f"{LOG_PREFIX}/{tile.path}": encode_bundle(entries)})
            records.want(entries, now_us)
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

    def _switch(self, files: Mapping[str, bytes]) -> None:
        """Put the files that change in place, all at once."""
        states, now = self.public / _STATES, self.public / _NOW
        if all(self._holds(name, data) for name, data in files.items()):
            return
        there = {p.name for p in states.glob("[0-9]*") if p.name.isascii() and p.name.isdigit()}
        before = now.readlink().name if now.is_symlink() else ""
        next_ = str(max(map(int, there), default=0) + 1)
        for name, data in files.items():
            self._put(f"{_STATES}/{next_}/{Path(name).name}", data)
        _link(now, Path(_STATES) / next_)
        for name in files:
            _link(self.public / name, Path("..") / _NOW / Path(name).name)
        for old in there - {before}:  # whoever has just followed the link may read the one before
            shutil.rmtree(states / old, ignore_errors=True)

    def _put_all(self, files: Mapping[str, bytes]) -> int:
        """Put files whose names never change their meaning; returns how many were not there, or were damaged."""
        new = {name: data for name, data in files.items() if not self._holds(name, data)}
        for name, data in sorted(new.items()):
            self._put(name, data)
        return len(new)

    def _has(self, name: str, size: int) -> bool:
        """Whether a file of this size is there; its bytes were checked when it was put."""
        try:
            found = (self.public / name).stat()
        except OSError:
            return False
        return stat.S_ISREG(found.st_mode) and found.st_size == size

    def _holds(self, name: str, data: bytes) -> bool:
        try:
            return read_bounded(self.public / name, len(data)) == data
        except BadState:
            return False

    def _put(self, name: str, data: bytes) -> None:
        path = self.public / name
        private_dir(path.parent)
        replace(path, data, mode=PUBLIC_FILE)


def _link(path: Path, target: Path) -> None:
    """Let a path be a link to this, durably; a rename, so that whoever reads sees the old or the new."""
    if path.is_symlink() and path.readlink() == target:
        return
    new = path.with_name(f".{path.name}.link.tmp")
    try:
        if path.is_dir() and not path.is_symlink():  # somebody copied this mirror without its links
            shutil.rmtree(path)
        new.unlink(missing_ok=True)
        new.symlink_to(target)
        new.replace(path)
        sync_dir(path.parent)
    except OSError as e:
        raise NotWritable(f"cannot be written ({os_reason(e)})", where=str(path)) from None
