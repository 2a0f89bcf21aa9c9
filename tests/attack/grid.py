"""The grid of attacks: who does what where, and the error that it comes to. docs/reference/attacks.md shows it.

`run` sets the attack up on a scene (or on a count of members, for an issuer and a leader); test_grid.py carries each
row out and holds it to what must be true after every attack. HARMLESS stands where nothing is refused, because what
the attack brings is not used, or is made good.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.fetch import NotFound, TooLarge, Unreachable
from interlock.base.files import BadState, Locked, NewerFormat, NotWritable
from interlock.base.primitives import BadSignature
from interlock.commons.enrolment import OverIssued
from interlock.commons.indicators import BadCatalog
from interlock.commons.logged import NotLogged
from interlock.commons.newest import NotNewest
from interlock.commons.pack import BadPack
from interlock.commons.promotion import NotPromoted
from interlock.commons.revocation import BadRevocation
from interlock.commons.updater import MetadataRefused, Stale, UntrustedRoot
from interlock.dap.drafts import ReportError
from interlock.dap.membership import NotAdmitted
from interlock.dap.task import TaskRefused
from interlock.transparency.follow import Rollback, SplitView
from interlock.transparency.merkle import BadProof
from interlock.transparency.policy import NoQuorum, UnknownLog
from tests.attack import from_keys, from_log, from_members, from_mirror, from_network, from_process
from tests.attack.from_log import ONE
from tests.attack.from_mirror import CHECKPOINT, DEEP, HUGE, TIMESTAMP
from tests.unit.commons_world import ORIGIN, pack

HARMLESS: Final = None
Expected = type[InterlockError] | ReportError | None
ADVERSARIES: Final = (
    "mirror",
    "network",
    "log",
    "commons online keys",
    "one witness",
    "issuer",
    "leader",
    "local process",
)
ATTACKS: Final = (
    "rollback",
    "freeze",
    "mix and match",
    "endless data",
    "fast-forward",
    "fork",
    "fork with one honest witness",
    "targeted logged pack",
    "unlogged pack",
    "another pack's proof",
    "swapped tile",
    "bomb",
    "slow loris",
    "clock",
    "disk full",
    "two processes",
    "kill -9",
)


@dataclass(frozen=True)
class Row:
    """One cell: `point` is the message or the write that is attacked; `match` a part of the line that is said."""

    adversary: str
    attack: str
    point: str
    done: str
    expected: Expected
    run: Callable[[Any], None]
    match: str = ""
    slow: bool = False

    @property
    def id(self) -> str:
        return f"{self.adversary}: {self.attack} at {self.point}"

    @property
    def error(self) -> str:
        """What the table says that it comes to."""
        if self.expected is None:
            return "harmless"
        if isinstance(self.expected, ReportError):
            return f"`{self.expected.value}`"
        return f"{self.expected.__name__} `{self.expected.code}`"


def _rows(adversary: str, *rows: tuple[Any, ...]) -> tuple[Row, ...]:
    return tuple(Row(adversary, *row) for row in rows)


_MIRROR = _rows(
    "mirror",
    ("rollback", "everything", "serves the state before", Rollback, from_mirror.old_state, "older than what was seen"),
    ("rollback", "timestamp", "serves the one before", Rollback, from_mirror.old_files(TIMESTAMP)),
    ("rollback", "checkpoint", "serves the one before", Rollback, from_mirror.old_files(CHECKPOINT), "after one of"),
    ("freeze", "everything", "serves what it had for a day", Stale, from_mirror.frozen(25), "expired"),
    ("freeze", "everything, for an hour", "serves what it had", HARMLESS, from_mirror.frozen(1)),
    ("freeze", "timestamp", "the old one under the new checkpoint", NotNewest, from_mirror.held_back(TIMESTAMP)),
    ("freeze", "checkpoint", "the old one beside new metadata", Rollback, from_mirror.held_back(CHECKPOINT)),
    ("freeze", "a timestamp's end", "writes another end into it", MetadataRefused, from_mirror.raised_expiry),
    (
        "mix and match",
        "snapshot",
        "the one before as the new one",
        MetadataRefused,
        from_mirror.in_place_of("metadata/3.snapshot.json", "metadata/2.snapshot.json"),
    ),
    (
        "mix and match",
        "a ring's role",
        "the one before as the new one",
        MetadataRefused,
        from_mirror.in_place_of("metadata/3.stable.json", "metadata/2.stable.json"),
    ),
    (
        "mix and match",
        "a role",
        "another role's file",
        MetadataRefused,
        from_mirror.in_place_of("metadata/3.stable.json", "metadata/3.snapshot.json"),
    ),
    ("mix and match", "pack", "the pack before as the new one", MetadataRefused, from_mirror.old_pack),
    ("mix and match", "channel index", "the index before as the new one", MetadataRefused, from_mirror.old_index),
    (
        "mix and match",
        "a snapshot's entry",
        "that of the one before",
        NotLogged,
        from_mirror.snapshot_file_of_another(0),
    ),
    (
        "mix and match",
        "a snapshot's proof",
        "that of the one before",
        NotLogged,
        from_mirror.snapshot_file_of_another(1),
    ),
    (
        "another pack's proof",
        "a pack's entry",
        "that of the pack before",
        MetadataRefused,
        from_mirror.entry_of_another,
    ),
    (
        "another pack's proof",
        "a pack's proof",
        "that of the pack before",
        MetadataRefused,
        from_mirror.pack_proof_of_another,
    ),
    ("swapped tile", "hash tile", "two hashes change places", BadProof, from_mirror.swapped_hash_tile),
    ("swapped tile", "entry bundle", "two entries change places", BadProof, from_mirror.swapped_entries),
    ("swapped tile", "the newest snapshot's entry", "is hidden behind another", BadProof, from_mirror.hidden_entry),
    ("withholding", "timestamp", "is not served", Unreachable, from_mirror.withheld(TIMESTAMP)),
    ("withholding", "checkpoint", "is not served", NotFound, from_mirror.withheld(CHECKPOINT)),
    (
        "withholding",
        "a snapshot's entry",
        "is not served",
        NotLogged,
        from_mirror.withheld("metadata/3.snapshot.json.entry"),
    ),
    ("withholding", "pack", "is not served", Unreachable, from_mirror.withheld("targets/packs/stable/team/")),
    ("withholding", "tiles", "are not served", NotFound, from_mirror.withheld("log/tile/")),
    ("endless data", "timestamp", "does not end", TooLarge, from_mirror.endless(TIMESTAMP)),
    ("endless data", "snapshot", "does not end", TooLarge, from_mirror.endless("metadata/3.snapshot.json")),
    ("endless data", "checkpoint", "does not end", TooLarge, from_mirror.endless(CHECKPOINT)),
    ("endless data", "tile", "does not end", TooLarge, from_mirror.endless("log/tile/")),
    ("endless data", "pack", "does not end", TooLarge, from_mirror.endless("targets/packs/")),
    ("fast-forward", "timestamp", "raises its version", MetadataRefused, from_mirror.raised_version),
    ("fast-forward", "checkpoint", "raises the tree's size", BadSignature, from_mirror.raised_tree),
    ("forgery", "root", "the next root, signed by nobody", MetadataRefused, from_mirror.own_root),
    ("forgery", "timestamp", "signed by a stranger", MetadataRefused, from_mirror.signed_by_a_stranger),
    ("forgery", "checkpoint", "cut short", Malformed, from_mirror.cut_short(CHECKPOINT)),
    (
        "bomb",
        "timestamp, deep",
        "100,000 lists in one another",
        MetadataRefused,
        from_mirror.other_bytes(TIMESTAMP, DEEP[:16_000]),
    ),
    (
        "bomb",
        "timestamp, a number",
        "a version of many digits",
        MetadataRefused,
        from_mirror.other_bytes(TIMESTAMP, HUGE[:12_000] + b"}}"),
    ),
    (
        "bomb",
        "root, deep",
        "lists in one another",
        MetadataRefused,
        from_mirror.other_bytes("metadata/2.root.json", DEEP),
    ),
    (
        "bomb",
        "root, a number",
        "a version of many digits",
        MetadataRefused,
        from_mirror.other_bytes("metadata/2.root.json", HUGE),
    ),
    (
        "bomb",
        "a snapshot's entry",
        "lists in one another",
        NotLogged,
        from_mirror.other_bytes("metadata/3.snapshot.json.entry", DEEP[:1_500]),
    ),
    ("bomb", "checkpoint, a number", "a tree size of 5,000 digits", Malformed, from_mirror.huge_tree),
    ("bomb", "checkpoint, lines", "200 cosignatures", Malformed, from_mirror.many_cosignatures),
)

_HEAD, _NET = from_network.TIMESTAMP, from_network.answered
_NETWORK = _rows(
    "network",
    ("slow loris", "timestamp, head", "a header byte by byte", Unreachable, _NET(_HEAD, from_network.slow_head)),
    ("slow loris", "timestamp, body", "a body byte by byte", Unreachable, _NET(_HEAD, from_network.slow_body)),
    ("slow loris", "checkpoint, body", "a body byte by byte", Unreachable, _NET(CHECKPOINT, from_network.slow_body)),
    ("slow loris", "checkpoint", "says nothing", Unreachable, _NET(CHECKPOINT, from_network.silence)),
    ("endless data", "timestamp", "256 MB", TooLarge, _NET(_HEAD, from_network.endless_body)),
    ("endless data", "checkpoint", "256 MB", TooLarge, _NET(CHECKPOINT, from_network.endless_body)),
    ("endless data", "timestamp, head", "4,096 header lines", Unreachable, _NET(_HEAD, from_network.endless_head)),
    ("bomb", "timestamp", "50 MB in 50 kB, compressed", Unreachable, _NET(_HEAD, from_network.packed)),
    (
        "bomb",
        "checkpoint",
        "compressed, though not asked for",
        Unreachable,
        _NET(CHECKPOINT, from_network.packed_honestly),
    ),
    ("freeze", "timestamp", "says that it did not change", NotNewest, from_network.unchanged(TIMESTAMP)),
    ("freeze", "checkpoint", "says that it did not change", Rollback, from_network.unchanged(CHECKPOINT)),
    (
        "freeze",
        "timestamp, unasked",
        "says 304 to a first question",
        Unreachable,
        _NET(_HEAD, from_network.unasked_304),
    ),
    ("mix and match", "timestamp", "a portal's page for all to see", MetadataRefused, _NET(_HEAD, from_network.a_page)),
    ("mix and match", "checkpoint", "a portal's page for all to see", Malformed, _NET(CHECKPOINT, from_network.a_page)),
    ("cutting off", "timestamp", "half of it, then nothing", Unreachable, _NET(_HEAD, from_network.cut_off)),
    ("cutting off", "the connection", "nobody answers", Unreachable, from_network.no_server),
    ("redirection", "timestamp", "302 to another place", Unreachable, _NET(_HEAD, from_network.elsewhere)),
    ("forgery", "timestamp", "500", Unreachable, _NET(_HEAD, from_network.broken)),
    ("forgery", "timestamp, protocol", "speaks another protocol", Unreachable, _NET(_HEAD, from_network.no_http)),
    ("forgery", "checkpoint, lengths", "states two lengths", Unreachable, _NET(CHECKPOINT, from_network.two_lengths)),
)

_LOG = _rows(
    "log",
    ("fork", "checkpoint", "another history of the same length", SplitView, from_log.fork(0), "two histories"),
    ("fork", "checkpoint, longer", "another history with an entry more", SplitView, from_log.fork(1)),
    ("fork", "checkpoint, shorter", "another history with an entry less", Rollback, from_log.fork(-1)),
    ("fork", "a pack's proof", "the pack stands in another history", SplitView, from_log.fork_behind_a_pack),
    (
        "fork",
        "a snapshot's proof",
        "the snapshot stands in another history",
        SplitView,
        from_log.fork_behind_a_snapshot((ONE, from_log.TWO)),
    ),
    (
        "fork with one honest witness",
        "checkpoint",
        "one of two cosigns a second history",
        SplitView,
        from_log.fork(1, (ONE,)),
    ),
    (
        "fork with one honest witness",
        "a newcomer's first checkpoint",
        "one of two cosigns a second history",
        NoQuorum,
        from_log.fork_for_a_newcomer((ONE,)),
    ),
    (
        "fork with one honest witness",
        "a snapshot's proof",
        "one of two cosigns a second history",
        SplitView,
        from_log.fork_behind_a_snapshot((ONE,)),
    ),
    ("rollback", "checkpoint", "takes an entry back, signed anew", Rollback, from_log.shrunk),
    ("rollback", "checkpoint, empty", "an empty tree, signed anew", Rollback, from_log.emptied),
    ("fast-forward", "checkpoint", "a tree of 2^60 entries", NotFound, from_log.leapt),
    ("fast-forward", "checkpoint, root", "a root that no tiles lead to", BadProof, from_log.leapt_by_one),
    ("freeze", "entries", "4,097 entries behind the newest snapshot", NotNewest, from_log.flooded, "4096"),
    ("freeze", "a snapshot's entry", "one by a stranger's key behind it", NotNewest, from_log.snapshot_of_anybody),
    ("mix and match", "log's key", "this name under another key", BadSignature, from_log.another_key),
    ("mix and match", "log's name", "another name under this key", UnknownLog, from_log.another_name),
    ("unwitnessed", "checkpoint", "signs what no witness was shown", NoQuorum, from_log.not_cosigned),
    ("another pack's proof", "a snapshot's proof", "another place than the entry's", NotLogged, from_log.wrong_place),
    ("bomb", "entries", "deep, huge, unsigned and empty ones", HARMLESS, from_log.noise),
)

_WITNESS = _rows(
    "one witness",
    (
        "fork with one honest witness",
        "cosignature",
        "cosigns a fork, as a newcomer is shown",
        NoQuorum,
        from_log.fork_for_a_newcomer((from_log.TWO,)),
    ),
    ("silence", "cosignature", "does not cosign", NoQuorum, from_log.silent),
    ("forgery", "cosignature, twice", "cosigns twice, to count as two", NoQuorum, from_log.twice),
    ("forgery", "cosignature, a name", "cosigns under the other's name too", NoQuorum, from_log.as_the_other),
    ("forgery", "cosignature, a key", "copies the other's line from elsewhere", BadSignature, from_log.forged_line),
    ("forgery", "cosignature, a friend", "brings a friend whom nobody trusts", NoQuorum, from_log.stranger),
    ("clock", "cosignature's time, ahead", "states a time in 50 years", HARMLESS, from_log.time_ahead(50)),
    ("clock", "cosignature's time, back", "states a time 20 years ago", HARMLESS, from_log.time_ahead(-20)),
)

_KEYS = _rows(
    "commons online keys",
    ("unlogged pack", "pack", "signed, without an entry", NotLogged, from_keys.forged(pack(2)), "without a log entry"),
    (
        "unlogged pack",
        "pack, a log's name",
        "logged in another log",
        NotLogged,
        from_keys.in_another_log("other.example/log"),
    ),
    ("unlogged pack", "pack, a log's key", "logged in a log of this name", NotLogged, from_keys.in_another_log(ORIGIN)),
    (
        "unlogged pack",
        "pack, witnesses",
        "logged under a checkpoint that nobody cosigned",
        NoQuorum,
        from_keys.not_witnessed,
    ),
    (
        "unlogged pack",
        "pack, a role's key",
        "logged in the word of another ring's key",
        NotLogged,
        from_keys.logged_by("beta"),
        "does not sign it",
    ),
    (
        "unlogged pack",
        "pack, a stranger's key",
        "logged in a stranger's word",
        NotLogged,
        from_keys.logged_by(""),
        "does not sign it",
    ),
    (
        "unlogged pack",
        "pack, a former key",
        "logged with the ring's former key, stolen since",
        NotLogged,
        from_keys.logged_by_a_former_key,
        "does not sign it",
    ),
    ("unlogged pack", "snapshot", "signed, and not logged", NotLogged, from_keys.unlogged_snapshot),
    (
        "another pack's proof",
        "pack",
        "entry and proof of version 1",
        NotLogged,
        from_keys.another_proof,
        "entry of another file",
    ),
    (
        "another pack's proof",
        "a pack's proof",
        "its own entry, another's proof",
        NotLogged,
        from_keys.proof_of_another_for_the_entry,
    ),
    ("another pack's proof", "snapshot", "entry and proof of the one before", NotLogged, from_keys.snapshot_of_another),
    (
        "another pack's proof",
        "a snapshot's entry",
        "in the word of the timestamp's key",
        NotLogged,
        from_keys.snapshot_by_another,
        "not the snapshot role's",
    ),
    ("targeted logged pack", "snapshot", "two are logged; shows the first", NotNewest, from_keys.split_snapshots),
    ("targeted logged pack", "snapshot, taken", "logs another, to show to others", NotNewest, from_keys.grown_past),
    (
        "targeted logged pack",
        "pack",
        "two of one version are logged; shows the first",
        NotNewest,
        from_keys.split_packs_first,
    ),
    (
        "targeted logged pack",
        "pack, taken",
        "shows the second of one version",
        Rollback,
        from_keys.split_packs_second,
        "another version 2",
    ),
    (
        "rollback",
        "channel index",
        "goes back to version 1, newly signed",
        Rollback,
        from_keys.old_index,
        "version 1 after 2",
    ),
    ("rollback", "pack", "other rules under the version in force", Rollback, from_keys.other_bytes),
    (
        "forgery",
        "removals",
        "signed by nobody who holds targets",
        MetadataRefused,
        from_keys.removal_by_holders(),
    ),
    (
        "forgery",
        "removals, one holder",
        "signed by one of three who hold targets, two of whom have to",
        MetadataRefused,
        from_keys.removal_by_holders("tom"),
    ),
    (
        "forgery",
        "removals, one and a stranger",
        "signed by one holder and by somebody who holds no key of targets",
        MetadataRefused,
        from_keys.removal_by_holders("tom", "ada"),
    ),
    ("rollback", "revocations", "takes a revocation off the list", HARMLESS, from_keys.revocation_dropped),
    ("mix and match", "revocations", "a promotion on the list", BadRevocation, from_keys.revocation_of_another),
    (
        "mix and match",
        "channel index",
        "another digest than the target's",
        MetadataRefused,
        from_keys.digest_of_another,
    ),
    ("mix and match", "promotion", "none", NotPromoted, from_keys.not_promoted(borrowed=False)),
    ("mix and match", "promotion, borrowed", "that of version 1", NotPromoted, from_keys.not_promoted(borrowed=True)),
    (
        "mix and match",
        "a role's paths",
        "a ring's key names an indicator pack",
        NotFound,
        from_keys.indicator_by_the_ring,
    ),
    (
        "mix and match",
        "a target's path",
        "leads out of the mirror's folder",
        MetadataRefused,
        from_keys.leads_out("packs/stable/../evil"),
        "no path for a target",
    ),
    ("fast-forward", "timestamp and snapshot", "version 2^30, not logged", NotLogged, from_keys.forward()),
    ("fast-forward", "timestamp", "version 2^30, the snapshot withheld", Unreachable, from_keys.forward(withheld=True)),
    (
        "fast-forward",
        "timestamp and snapshot, logged",
        "version 2^30, until a new root",
        HARMLESS,
        from_keys.forward(logged=True),
    ),
    ("fast-forward", "channel index", "names version 2^30", NotFound, from_keys.index_ahead),
    ("bomb", "pack, deep", "lists in one another, logged", BadPack, from_keys.bad_pack(DEEP[:60_000])),
    (
        "bomb",
        "pack, a number",
        "a version of many digits, logged",
        BadPack,
        from_keys.bad_pack(b'{"v": ' + b"9" * 60_000 + b"}"),
    ),
    ("bomb", "channel index", "lists in one another", Malformed, from_keys.index_of(DEEP)),
    (
        "forgery",
        "pack, a version",
        "another version than its path says",
        MetadataRefused,
        from_keys.bad_pack(pack(3).data),
    ),
    (
        "forgery",
        "pack, a licence",
        "one that nobody may share under",
        BadPack,
        from_keys.bad_pack(from_keys.edited(licence="Proprietary")),
    ),
)

_LEADER = _rows(
    "leader",
    ("minting", "report", "a key of its own under a member's token", ReportError.REPORT_DROPPED, from_members.mints),
    (
        "minting",
        "report, a token",
        "a token of its own making",
        ReportError.REPORT_DROPPED,
        from_members.mints_without_token,
    ),
    ("isolation", "batch", "one member among reports of its own", ReportError.REPORT_DROPPED, from_members.isolates),
    (
        "isolation",
        "a report's time",
        "moves a report into a lonely epoch",
        ReportError.REPORT_DROPPED,
        from_members.moves_time,
    ),
    ("repetition", "report's id", "one report under another id", ReportError.REPORT_DROPPED, from_members.repeats),
    ("repetition", "job", "a counted report in another job", ReportError.REPORT_REPLAYED, from_members.replays),
    (
        "mix and match",
        "public share",
        "another share under a member's proof",
        ReportError.REPORT_DROPPED,
        from_members.swaps_share,
    ),
    ("mix and match", "proof", "another member's proof", ReportError.REPORT_DROPPED, from_members.proof_of_another),
    ("mix and match", "extensions", "two proofs in one report", ReportError.INVALID_MESSAGE, from_members.doubles),
    ("forgery", "extensions, none", "takes the proof away", ReportError.INVALID_MESSAGE, from_members.strips),
    ("bomb", "proof", "600 bytes of no form", ReportError.REPORT_DROPPED, from_members.garbles),
)

_ISSUER = _rows(
    "issuer",
    ("fork", "a token's key", "keys one member apart", BadSignature, from_members.keys_apart),
    ("fork", "published keys", "a second key for one epoch", BadCatalog, from_members.second_key),
    (
        "mix and match",
        "keys' signature",
        "the commons has another issuer's keys",
        TaskRefused,
        from_members.keys_of_another,
    ),
    ("mix and match", "kind of proof", "linkable certificates", TaskRefused, from_members.another_kind),
    ("forgery", "token", "answers other bytes", BadSignature, from_members.changes_answer),
    ("endless data", "token", "answers 5,000 times as much", Malformed, from_members.endless_answer),
    ("minting", "enrolment", "organisations that are none, and hides them", OverIssued, from_members.over_issues),
    ("two hats", "aggregator", "runs the aggregator too", NotAdmitted, from_members.aggregates_too),
    ("freeze", "published keys", "shows an aggregator none", Unreachable, from_members.hides_keys),
)

_PROCESS = _rows(
    "local process",
    ("kill -9", "each write of an update", "dies at each in turn", HARMLESS, from_process.killed_update, "", True),
    ("kill -9", "each write of a mirror's copy", "dies at each in turn", HARMLESS, from_process.killed_copy, "", True),
    (
        "kill -9",
        "each write of a publish and its log",
        "dies at each in turn",
        HARMLESS,
        from_process.killed_publish,
        "",
        True,
    ),
    ("disk full", "each write of an update", "no room from each on", HARMLESS, from_process.full_update, "", True),
    ("disk full", "each write of a mirror's copy", "no room from each on", HARMLESS, from_process.full_copy, "", True),
    (
        "disk full",
        "each write of a publish and its log",
        "no room from each on",
        HARMLESS,
        from_process.full_publish,
        "",
        True,
    ),
    (
        "disk full",
        "making an update durable",
        "the disk takes files and keeps none",
        NotWritable,
        from_process.unsynced_update,
    ),
    ("disk full", "status.json", "while a mirror serves the state before", Rollback, from_process.unsynced_status),
    ("disk full", "store of packs", "a file where the folder was", NotWritable, from_process.no_room_for_packs),
    ("two processes", "update", "another update holds the home", Locked, from_process.two_updates),
    ("two processes", "trusted metadata", "another process holds it", Locked, from_process.two_readers),
    ("two processes", "a mirror's copy", "another copy is under way", Locked, from_process.two_copies),
    ("two processes", "log", "a second writer", Locked, from_process.two_logs),
    ("clock", "far ahead", "900 days", Stale, from_process.clock_ahead),
    ("clock", "back, with old signatures", "two days, behind what witnesses signed", Stale, from_process.clock_back),
    ("clock", "far back", "to 1971", HARMLESS, from_process.clock_far_back),
    ("changed file", "live.json", "torn", BadState, from_process.damaged("live.json")),
    ("changed file", "subscriptions.json", "torn", BadState, from_process.damaged("subscriptions.json")),
    ("changed file", "newest.json", "torn", BadState, from_process.damaged("newest.json")),
    ("changed file", "clock.json", "torn", BadState, from_process.damaged("clock.json")),
    ("changed file", "tuf/current.json", "torn", BadState, from_process.damaged("tuf/current.json")),
    (
        "changed file",
        "a held timestamp",
        "torn",
        HARMLESS,
        from_process.damaged("tuf/gen-*/timestamp.json", mended=False),
    ),
    ("changed file", "last checkpoint", "torn", BadState, from_process.damaged("log/log-*.json")),
    ("changed file", "grants.json", "torn", BadState, from_process.torn_grants),
    ("changed file", "pinned root", "another", UntrustedRoot, from_process.damaged("bootstrap.root.json")),
    ("changed file", "pins", "of a newer version", NewerFormat, from_process.newer_file),
    ("changed file", "pack in the store", "other rules under its digest", HARMLESS, from_process.other_pack_in_store),
    ("changed file", "status.json", "says that all is well", HARMLESS, from_process.forged_status),
)

GRID: Final = _MIRROR + _NETWORK + _LOG + _WITNESS + _KEYS + _LEADER + _ISSUER + _PROCESS


def table() -> str:
    """The grid as the page shows it, one table an adversary."""
    parts = []
    for adversary in ADVERSARIES:
        lines = [f"## {adversary.capitalize()}", "", "| attack | at | what is done | comes to |", "|---|---|---|---|"]
        rows = [row for row in GRID if row.adversary == adversary]
        lines += [f"| {row.attack} | {row.point} | {row.done} | {row.error} |" for row in rows]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
