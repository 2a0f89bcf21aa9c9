"""What one subscription has now: the version that its ring names, checked whole, or a refusal.

    index names a version -> it is not older than what is in force -> signed bytes -> its log entry, proof and quorum
    -> the pack parses, is the one that was named, and came to its ring by promotion -> its proof is kept

Nothing that is in force changes here; a caller puts in force what was found, or leaves it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.base.clock import Clock
from interlock.base.errors import InterlockError
from interlock.base.fetch import Fetcher, NotFound
from interlock.base.files import read_bounded
from interlock.commons.channel import parse_channel
from interlock.commons.decided import keep_proof, proof_is_kept
from interlock.commons.layout import MAX_CHANNEL, channel_path, pack_path
from interlock.commons.live import Key, Live, LiveRow, Subscription, store_file
from interlock.commons.logged import Logged, demand_logged
from interlock.commons.pack import MAX_PACK, Pack, parse_pack, sha256_hex
from interlock.commons.promotion import demand_promoted
from interlock.commons.revocation import revoked
from interlock.commons.timefloor import trusted_now
from interlock.commons.updater import MetadataRefused, View
from interlock.commons.withdrawn import Withdrawn, withdrawal
from interlock.transparency.follow import LogView, Rollback
from interlock.transparency.policy import Checked, TlogPolicy

__all__ = ["Finder", "Found", "TakenBack"]


@dataclass(frozen=True)
class Found:
    """A subscription's row, and the pack where its bytes are new here; `newest` is what its ring has, version and
    digest; `held` says why that is not taken, where it is not."""

    row: LiveRow
    pack: Pack | None
    newest: tuple[int, str]
    held: str = ""


class TakenBack(InterlockError):
    """A version that its author or the commons withdrew: it is not brought into force."""

    code = "not-allowed"


class Finder:
    """Finds what a ring has of a pack, in one verified state of a commons; `fetcher` has the log's files."""

    def __init__(self, home: Path, log: LogView, policy: TlogPolicy, fetcher: Fetcher, clock: Clock) -> None:
        self._home = home
        self._log = log
        self._policy = policy
        self._fetcher = fetcher
        self._clock = clock

    def found(self, view: View, live: Live, wanted: Subscription) -> Found:
        """What one subscription has now: what its ring names, or the version that it is pinned to.

        Raises: Rollback, NotFound, MetadataRefused, NotLogged, NoQuorum, SplitView, BadProof, BadPack, NotPromoted,
        TakenBack, TooLarge, Stale, Unreachable, NotWritable.
        """
        newest = self._newest(view, wanted)
        _demand_not_older(wanted.name, live, newest, wanted.key)
        version, before, back = wanted.pin or newest[0], live.rows.get(wanted.key), live.before.get(wanted.key)
        if before is not None and version == before.version and self._intact(before):
            taken = live.held_back(before)
            return Found(before, None, newest, taken.told if taken else "")
        if back is not None and version == back.version and self._intact(back):
            return Found(live.returned(wanted.key).rows[wanted.key], None, newest)
        held = _taken_back(wanted, live.withdrawn, version)
        if held is not None and before is not None and version != before.version:
            return Found(before, None, newest, held.what)
        if held is not None and before is None:
            raise held
        if before is not None and version < before.version:
            told = f"is pinned to version {version}, and {before.version} is in force"
            raise Rollback(told, where=f"mesh:{wanted.name}", fix="use interlock mesh rollback, or pin another")
        row, pack = self._taken(view, wanted, version, newest)
        if before is not None and version == before.version:  # only its bytes were missing
            row = replace(row, at=before.at, live_at=before.live_at)
        return Found(row, pack, newest)

    def _taken(self, view: View, wanted: Subscription, version: int, newest: tuple[int, str]) -> tuple[LiveRow, Pack]:
        """A version's bytes, checked whole, and the row of a node that takes it now."""
        path = pack_path(wanted.ring, wanted.pack, version)
        data = view.target(path, MAX_PACK)
        sha256 = sha256_hex(data)
        if version == newest[0] and sha256 != newest[1]:
            raise MetadataRefused("has another digest than its ring's index says", where=path, fix="tell the commons")
        logged = self.logged(view, path, data, (wanted.pack, version, wanted.ring))
        pack = parse_pack(data, where=path)
        if (pack.name, pack.version) != (wanted.pack, version):
            raise MetadataRefused("is another pack than its path says", where=path, fix="tell the commons")
        demand_promoted(view, pack, wanted.ring, self._in_log)
        keep_proof(self._home, sha256, logged.index, logged.entry_data, logged.proof)
        now = trusted_now(self._home, self._clock.now_us())
        live_at = now + wanted.window_us if wanted.window_us else 0
        return LiveRow(*wanted.key, version, sha256, logged.index, logged.tree_size, now, live_at), pack

    def withdrawn(self, view: View, live: Live, rings: Collection[str]) -> Live:
        """What a node holds, with all that was ever taken back in these rings; none comes off again.

        Raises: BadRevocation, and as `logged`.
        """
        rows = dict.fromkeys(live.withdrawn)
        for ring in sorted(rings):
            rows.update(dict.fromkeys(revoked(view, ring, self._in_log, live.withdrawn)))
        return live if len(rows) == len(live.withdrawn) else replace(live, withdrawn=tuple(rows))

    def _in_log(self, entry: bytes, proof: bytes) -> Checked:
        return self._log.check_entry(entry, proof, self._fetcher)

    def logged(self, view: View, path: str, data: bytes, named: tuple[str, int, str]) -> Logged:
        """The place in the log of a target's bytes. Raises: as `demand_logged`."""
        return demand_logged(view, path, data, named, log=self._log, policy=self._policy, fetcher=self._fetcher)

    def _newest(self, view: View, wanted: Subscription) -> tuple[int, str]:
        path = channel_path(wanted.ring)
        try:
            packs = parse_channel(view.target(path, MAX_CHANNEL), wanted.ring, where=path)
        except NotFound:
            packs = {}
        if wanted.pack not in packs:
            told = f"is not published in ring {wanted.ring}"
            raise NotFound(told, where=f"mesh:{wanted.name}", fix="check the name")
        return packs[wanted.pack]

    def _intact(self, row: LiveRow) -> bool:
        path = store_file(self._home, row.sha256)
        whole = path.exists() and sha256_hex(read_bounded(path, MAX_PACK)) == row.sha256
        return whole and proof_is_kept(self._home, row.sha256, row.log_index)


def _demand_not_older(name: str, live: Live, newest: tuple[int, str], key: Key) -> None:
    """Raises: Rollback, where a ring offers less than it ever did, or other bytes under the same version."""
    row = live.rows.get(key)
    known = [*([live.seen[key]] if key in live.seen else []), *([(row.version, row.sha256)] if row else [])]
    if not known:
        return
    version, sha256 = max(known)
    if newest[0] < version:
        raise Rollback(f"offers version {newest[0]} after {version}", where=f"mesh:{name}", fix="try another mirror")
    if newest[0] == version and newest[1] != sha256:
        told = f"offers another version {version} than it did before"
        raise Rollback(told, where=f"mesh:{name}", fix="tell the commons")


def _taken_back(wanted: Subscription, withdrawn: Sequence[Withdrawn], version: int) -> TakenBack | None:
    """Why nobody begins to use a version, if so."""
    taken = withdrawal(withdrawn, wanted.pack, version, wanted.ring)
    if taken is None:
        return None
    return TakenBack(taken.told, where=f"mesh:{wanted.name}", fix="wait for the next version")
