"""The newest snapshot: nobody is shown one that the log has not, or that another has followed.

The commons logs each snapshot and has that cosigned before a timestamp names it. Beside the snapshot lie, as plain
static files, its entry and the entry's proof. A reader demands that

    the entry names these very bytes and is signed by a key of the snapshot role      NotLogged
    it stands in the log that the policy names, on the one timeline, with a quorum    NotLogged, NoQuorum, SplitView
    no other snapshot entry stands after it in the newest cosigned tree               NotNewest

so that two snapshots that were both logged cannot be split between two readers: the later one ends the earlier for
everybody who sees the log grow. Whose key signed a later entry does not matter: a log serves one commons, and a
snapshot by a key that this reader does not know is one that others may have been shown. The entries between are read
from bundles that lead to the signed root; there may be at most MAX_BEHIND of them.

What was found is kept in one file, so that nothing is asked again while snapshot and tree stay the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from interlock.base import files
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.fetch import Fetcher, NotFound
from interlock.base.files import BadState, read_bounded, stamped, typed, unstamped
from interlock.base.primitives import BadSignature
from interlock.base.text import b64, is_sha256, unb64
from interlock.commons.layout import snapshot_files
from interlock.commons.logged import NotLogged
from interlock.commons.updater import View, refreshed
from interlock.transparency.catchup import bundles, grown
from interlock.transparency.checkpoint import Checkpoint
from interlock.transparency.entry import MAX_ENTRY, LogEntry, known_entry, parse_entry
from interlock.transparency.follow import LogView, tile_loader
from interlock.transparency.merkle import HASH_SIZE, BadProof
from interlock.transparency.policy import Checked, TlogPolicy, UnknownLog
from interlock.transparency.proof import MAX_PROOF_FILE, parse_proof
from interlock.transparency.tiles import WIDTH, Tile, TileBuilder

__all__ = ["MAX_BEHIND", "Commons", "Current", "NotNewest", "Place"]

MAX_BEHIND: Final = 4096  # entries after the snapshot's own
_TYPE: Final = "snapshot"
_FORMAT: Final = "interlock-newest"
_PLACE: Final = {
    "v": int, "origin": str, "version": int, "sha256": str, "index": int, "tree_size": int, "entry": str, "proof": str,
}  # fmt: skip
_ANEW: Final = "remove it; the next update writes it anew"
_LIMIT: Final = 2 * (MAX_ENTRY + MAX_PROOF_FILE)  # bytes of the kept file


class NotNewest(InterlockError):
    """A snapshot that is in the log, and is not the newest there; or that lies too far back to tell."""

    code = "not-newest"


@dataclass(frozen=True)
class Place:
    """Where a snapshot stands in the log, the tree up to which it is the newest, and the two files that show it."""

    origin: str
    version: int
    sha256: str
    index: int
    tree_size: int
    entry: bytes = field(repr=False)
    proof: bytes = field(repr=False)


@dataclass(frozen=True)
class Current:
    """A commons as it is now: its metadata, the newest checkpoint, and the snapshot's place under it."""

    view: View
    checked: Checked
    place: Place


class Commons:
    """One commons and its log, read as one: what this gives out is the newest snapshot under the newest checkpoint.

    `directory` keeps the trusted metadata, `kept` what is known of the snapshot's place; `fetcher` has the commons'
    files, `log_fetcher` the log's. `look` sees the metadata before anything of the log is asked for.
    """

    def __init__(
        self,
        directory: Path,
        kept: Path,
        *,
        root: bytes,
        policy: TlogPolicy,
        log: LogView,
        fetcher: Fetcher,
        log_fetcher: Fetcher,
        look: Callable[[View], None] | None = None,
    ) -> None:
        self._dir = directory
        self._kept = kept
        self._root = root
        self._policy = policy
        self._log = log
        self._fetcher = fetcher
        self._log_fetcher = log_fetcher
        self._look = look

    @contextlib.contextmanager
    def current(self, now_us: int, checked: Checked | None = None) -> Iterator[Current]:
        """Refresh both, and read targets of that state while the block runs; `checked` is the newest checkpoint, where
        the caller asked for it already.

        Where a snapshot is refused, the metadata is asked for once more, now after the checkpoint: a publish may have
        been under way. Raises: NotNewest, NotLogged; as `refreshed` and `LogView.refresh`.
        """
        with contextlib.ExitStack() as stack:
            try:
                found = stack.enter_context(self._judged(now_us, checked))
            except (NotNewest, NotLogged):
                newest = self._log.refresh(self._log_fetcher)
                found = stack.enter_context(self._judged(now_us, newest))
            yield found

    @contextlib.contextmanager
    def _judged(self, now_us: int, checked: Checked | None) -> Iterator[Current]:
        found: list[Current] = []

        def judge(view: View) -> None:
            if self._look is not None:
                self._look(view)
            newest = checked or self._log.refresh(self._log_fetcher)
            place = self._demand_newest(view, newest.checkpoint)
            if place.tree_size > newest.checkpoint.size:  # the snapshot came after the checkpoint that we asked for
                newest = self._log.refresh(self._log_fetcher)
                place = self._demand_newest(view, newest.checkpoint)
            found.append(Current(view, newest, place))

        with refreshed(self._dir, self._fetcher, bootstrap=self._root, now_us=now_us, demand=judge):
            yield found[0]

    def _demand_newest(self, view: View, checkpoint: Checkpoint) -> Place:
        held, sha256 = self._read(), view.snapshot_sha256
        if held is None or (held.origin, held.sha256) != (checkpoint.origin, sha256):
            if held is not None and held.origin != checkpoint.origin:
                self._demand_left(held.origin)
            held = self._placed(view, checkpoint.origin)
        tree = self._log.last(checkpoint.origin) or checkpoint
        if tree.size > held.tree_size:
            self._demand_none_after(held, tree)
            held = replace(held, tree_size=tree.size)
        if held != self._read():
            files.replace(self._kept, _dump(held))
        return held

    def _placed(self, view: View, origin: str) -> Place:
        """The place of a snapshot that is new here. Raises: NotLogged, and as `LogView.check_entry`."""
        version, where = view.snapshot_version, f"snapshot {view.snapshot_version}"
        try:
            entry, proof = self._files(version)
            says, parsed = known_entry(entry), parse_proof(proof)
            parsed.verify_inclusion(entry, self._policy.opened(parsed.note).checkpoint)
        except (NotFound, Malformed, UnknownLog, BadSignature, BadProof) as e:
            raise NotLogged(
                f"has no proof of the pinned log ({e.what})", where=where, fix="try another mirror"
            ) from None
        _demand_names(says, view, where)
        if parsed.checkpoint.origin != origin:
            raise NotLogged("stands in another log than the newest checkpoint", where=where, fix="tell the commons")
        self._log.check_entry(entry, proof, self._log_fetcher)
        return Place(origin, version, says.sha256, parsed.index, parsed.index + 1, entry, proof)

    def _demand_left(self, origin: str) -> None:
        """Two logs of one policy must not be split between readers. Raises: NotLogged, where it has `origin`."""
        if any(log.key.name == origin for log in self._policy.logs):
            told = f"is shown under another log than {origin}, which the policy still names"
            raise NotLogged(told, where="checkpoint", fix="try another mirror")

    def _files(self, version: int) -> tuple[bytes, bytes]:
        entry, proof = snapshot_files(version)
        fetch = self._fetcher.fetch
        return fetch(entry, max_length=MAX_ENTRY), fetch(proof, max_length=MAX_PROOF_FILE)

    def _demand_none_after(self, held: Place, tree: Checkpoint) -> None:
        where = f"snapshot {held.version}"
        if tree.size - held.index - 1 > MAX_BEHIND:
            told = f"lies more than {MAX_BEHIND} entries behind the newest checkpoint"
            raise NotNewest(told, where=where, fix="wait for the commons to sign anew")
        for index, data in _entries(tree, held.tree_size, self._log_fetcher):
            if _is_snapshot(data):
                told = f"is not the newest: the log has another at index {index}"
                raise NotNewest(told, where=where, fix="try another mirror, or wait for this one to catch up")

    def _read(self) -> Place | None:
        if not self._kept.exists():
            return None
        return _parse(read_bounded(self._kept, _LIMIT), str(self._kept))


def _dump(place: Place) -> bytes:
    body = {**asdict(place), "entry": b64(place.entry), "proof": b64(place.proof)}
    return stamped(_FORMAT, 1, body)


def _parse(data: bytes, where: str) -> Place:
    body = typed(unstamped(data, _FORMAT, 1, where=where), _PLACE, where=where, fix=_ANEW)
    del body["v"]
    try:
        if not is_sha256(body["sha256"]):
            raise Malformed("sha256 is none")
        files_of = {name: unb64(body[name], name) for name in ("entry", "proof")}
    except Malformed as e:
        raise BadState(f"is damaged ({e.what})", where=where, fix=_ANEW) from None
    return Place(**{**body, **files_of})


def _demand_names(says: LogEntry, view: View, where: str) -> None:
    """Raises: NotLogged, for an entry of something else, or by a key that does not speak for snapshots."""
    if (says.type, says.name, says.version, says.sha256) != (_TYPE, _TYPE, view.snapshot_version, view.snapshot_sha256):
        raise NotLogged("has the log entry of something else", where=where, fix="try another mirror")
    if says.by not in view.keys_of(_TYPE):
        told = "has a log entry by a key that is not the snapshot role's"
        raise NotLogged(told, where=where, fix="try another mirror, and tell the commons")


def _entries(tree: Checkpoint, start: int, fetcher: Fetcher) -> Iterator[tuple[int, bytes]]:
    """Each entry of a tree from `start` on, with its index; each held against the signed root.

    Raises: BadProof, Malformed; of the fetcher, its own.
    """
    load = tile_loader(fetcher)

    def as_now(tile: Tile) -> bytes:
        """The beginning of a tile, out of the form that the present tree has: a mirror need not have older ones."""
        return load(tile.within(tree.size))[: tile.width * HASH_SIZE]

    hashes = grown(TileBuilder.at(start, as_now), tree, load)
    for tile, entries in bundles(tree, start, hashes, load):
        for place, data in enumerate(entries, tile.index * WIDTH):
            if place >= start:
                yield place, data


def _is_snapshot(data: bytes) -> bool:
    """Whether an entry says in a key's word that a snapshot was published; what nobody signed says nothing."""
    try:
        entry = parse_entry(data)
        if not isinstance(entry, LogEntry) or entry.type != _TYPE:
            return False
        entry.demand_signed()
    except InterlockError:
        return False
    return True
