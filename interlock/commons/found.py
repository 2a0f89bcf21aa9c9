"""What one subscription has now: the version that its ring names, checked whole, or a refusal.

    index names a version -> it is not older than what is in force -> signed bytes -> its log entry, proof and quorum
    -> the pack parses and is the one that was named -> its proof is kept

Nothing that is in force changes here; a caller puts in force what was found, or leaves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from interlock.base.clock import Clock
from interlock.base.fetch import Fetcher, NotFound
from interlock.base.files import read_bounded
from interlock.commons.channel import parse_channel
from interlock.commons.decided import keep_proof, proof_is_kept
from interlock.commons.layout import MAX_CHANNEL, channel_path, pack_path
from interlock.commons.live import Live, LiveRow, store_file
from interlock.commons.logged import Logged, demand_logged
from interlock.commons.pack import MAX_PACK, Pack, parse_pack, sha256_hex
from interlock.commons.updater import MetadataRefused, View
from interlock.transparency.follow import LogView, Rollback
from interlock.transparency.policy import TlogPolicy

__all__ = ["Finder", "Found"]


@dataclass(frozen=True)
class Found:
    """A subscription's row, and the pack where it is new here."""

    row: LiveRow
    pack: Pack | None = None


class Finder:
    """Finds what a ring has of a pack, in one verified state of a commons; `fetcher` has the log's files."""

    def __init__(self, home: Path, log: LogView, policy: TlogPolicy, fetcher: Fetcher, clock: Clock) -> None:
        self._home = home
        self._log = log
        self._policy = policy
        self._fetcher = fetcher
        self._clock = clock

    def found(self, view: View, live: Live, name: str, ring: str) -> Found:
        """What one subscription has now.

        Raises: Rollback, NotFound, MetadataRefused, NotLogged, NoQuorum, SplitView, BadProof, BadPack, TooLarge,
        Stale, Unreachable, NotWritable.
        """
        version, sha256 = self._newest(view, name, ring)
        before = live.rows.get((name, ring))
        if before is not None:
            _demand_not_older(before, version, sha256)
            kept = proof_is_kept(self._home, before.sha256, before.log_index)
            if before.version == version and self._intact(before) and kept:
                return Found(before)
        path = pack_path(ring, name, version)
        data = view.target(path, MAX_PACK)
        if sha256_hex(data) != sha256:
            raise MetadataRefused("has another digest than its ring's index says", where=path, fix="tell the commons")
        logged = self.logged(view, path, data, (name, version, ring))
        pack = parse_pack(data, where=path)
        if (pack.name, pack.version) != (name, version):
            raise MetadataRefused("is another pack than its path says", where=path, fix="tell the commons")
        keep_proof(self._home, sha256, logged.index, logged.entry_data, logged.proof)
        row = LiveRow(name, ring, version, sha256, logged.index, logged.tree_size, self._clock.now_us())
        return Found(row, pack)

    def logged(self, view: View, path: str, data: bytes, named: tuple[str, int, str]) -> Logged:
        """The place in the log of a target's bytes. Raises: as `demand_logged`."""
        return demand_logged(view, path, data, named, log=self._log, policy=self._policy, fetcher=self._fetcher)

    def _newest(self, view: View, name: str, ring: str) -> tuple[int, str]:
        path = channel_path(ring)
        try:
            packs = parse_channel(view.target(path, MAX_CHANNEL), ring, where=path)
        except NotFound:
            packs = {}
        if name not in packs:
            raise NotFound(f"is not published in ring {ring}", where=f"mesh:{name}@{ring}", fix="check the name")
        return packs[name]

    def _intact(self, row: LiveRow) -> bool:
        path = store_file(self._home, row.sha256)
        return path.exists() and sha256_hex(read_bounded(path, MAX_PACK)) == row.sha256


def _demand_not_older(before: LiveRow, version: int, sha256: str) -> None:
    where = f"mesh:{before.pack}@{before.ring}"
    if version < before.version:
        raise Rollback(f"offers version {version} after {before.version}", where=where, fix="try another mirror")
    if version == before.version and sha256 != before.sha256:
        raise Rollback(f"offers another version {version} than the one in force", where=where, fix="tell the commons")
