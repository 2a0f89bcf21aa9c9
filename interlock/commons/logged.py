"""Is it in the log? The entry of a target, checked whole: what it says, its place, the one timeline, the quorum."""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.fetch import Fetcher, NotFound
from interlock.base.primitives import BadSignature
from interlock.commons.layout import LOG_PREFIX, entry_path, proof_path
from interlock.commons.pack import sha256_hex
from interlock.commons.updater import View
from interlock.transparency.entry import MAX_ENTRY, LogEntry, known_entry
from interlock.transparency.follow import LogView
from interlock.transparency.merkle import BadProof
from interlock.transparency.policy import TlogPolicy, UnknownLog
from interlock.transparency.proof import MAX_PROOF_FILE, parse_proof

__all__ = ["LogFetcher", "Logged", "NotLogged", "demand_logged"]


class NotLogged(InterlockError):
    """A signed file that the pinned log does not have, so nobody else may have been shown it."""

    code = "not-logged"


class LogFetcher:
    """The log's files, where a mirror or a commons serves them beside its own."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher

    def fetch(self, path: str, *, max_length: int) -> bytes:
        """Raises: as the fetcher beneath."""
        return self._fetcher.fetch(f"{LOG_PREFIX}/{path}", max_length=max_length)


@dataclass(frozen=True)
class Logged:
    """A target's place in the log, and the files that show it."""

    entry: LogEntry
    index: int
    tree_size: int
    entry_data: bytes = field(repr=False)
    proof: bytes = field(repr=False)


def demand_logged(
    view: View,
    path: str,
    data: bytes,
    named: tuple[str, int, str],
    *,
    log: LogView,
    policy: TlogPolicy,
    fetcher: Fetcher,
) -> Logged:
    """Check that a target stands in the log as (name, version, ring) with these very bytes; `fetcher` has the tiles.

    Whoever logged it has to be who signs it: a key of the role that names it, or a former one before it ended.

    Raises: NotLogged, NoQuorum, SplitView, BadProof (tiles that lead nowhere); of the view and the fetcher, theirs.
    """
    entry, proof = _files(view, path)
    try:
        says = known_entry(entry)
        parsed = parse_proof(proof)
        checkpoint = policy.opened(parsed.note).checkpoint
        parsed.verify_inclusion(entry, checkpoint)
    except (Malformed, UnknownLog, BadSignature, BadProof) as e:
        raise NotLogged(f"has no proof of the pinned log ({e.what})", where=path, fix="tell the commons") from None
    if (says.name, says.version, says.ring, says.sha256) != (*named, sha256_hex(data)):
        raise NotLogged("has the log entry of another file", where=path, fix="tell the commons")
    if not view.speakers_of(path).may_say(says.by, parsed.index):
        raise NotLogged("was logged by a key that does not sign it", where=path, fix="tell the commons")
    log.check_entry(entry, proof, fetcher)
    return Logged(says, parsed.index, checkpoint.size, entry, proof)


def _files(view: View, path: str) -> tuple[bytes, bytes]:
    try:
        return view.target(entry_path(path), MAX_ENTRY), view.target(proof_path(path), MAX_PROOF_FILE)
    except NotFound:
        raise NotLogged("came without a log entry and its proof", where=path, fix="tell the commons") from None
