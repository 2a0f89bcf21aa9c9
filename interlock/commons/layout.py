"""Names of a commons: its roles, what each may sign, how long that stands, and where each thing lies.

A commons is a TUF repository (consistent snapshots). `targets` delegates almost everything:

    reviewed   packs/*/indicator-*/*              indicators; first and terminating, so no ring key can sign them
    canary     packs/canary/*/*, channels/canary.json, revoked/canary.json
    beta       packs/beta/*/*, channels/beta.json, revoked/beta.json
    stable     packs/stable/*/*, channels/stable.json, revoked/stable.json
    tasks      catalogs/*, tasks/*, members/*/*   what may be counted, how, and with what members prove that they are

`targets` itself speaks of the whole only: reviewers.json, removals.json, operators.json, log-policy.
TUF has no listing, so a ring's packs and their versions are named by its channel index, `channels/<ring>.json`.
Beside each pack and catalog lie the log's entry for it and the entry's proof. So they do beside each snapshot, in
`metadata/`: plain static files and no targets, since the log itself vouches for them.
"""

from __future__ import annotations

from typing import Final

from interlock.commons.rings import RINGS

__all__ = [
    "CATALOG_RING",
    "COUNTS_RING",
    "DAP_RING",
    "DELEGATIONS",
    "LIFETIME_DAYS",
    "LOG_POLICY",
    "LOG_POLICY_FIELD",
    "LOG_PREFIX",
    "MAX_CHANNEL",
    "MAX_DAP_TASK",
    "MAX_ROOT",
    "MEMBERS_RING",
    "ONLINE_ROLES",
    "PUBLIC_FILE",
    "REMOVALS_PATH",
    "REVIEWERS_PATH",
    "TOP_ROLES",
    "WITHDRAWN_RING",
    "catalog_path",
    "channel_path",
    "counts_path",
    "dap_task_path",
    "entry_path",
    "members_path",
    "pack_path",
    "promotion_path",
    "proof_path",
    "record_files",
    "revoked_path",
    "role_of_pack",
    "snapshot_files",
    "snapshot_path",
    "task_path",
    "withdrawal_path",
]

ONLINE_ROLES: Final = ("snapshot", "timestamp")
TOP_ROLES: Final = ("targets", *ONLINE_ROLES)
PUBLIC_FILE: Final = 0o644  # mode of what is served
LOG_POLICY: Final = "log-policy"  # the target that a root names by its digest
LOG_POLICY_FIELD: Final = "x-interlock-log-policy"  # in its signed part: the SHA-256 of those bytes
LOG_PREFIX: Final = "log"  # where a mirror serves the log beside the commons
CATALOG_RING: Final = "tasks"  # a catalog has no ring; its log entry names its role in that place
MEMBERS_RING: Final = "members"  # so have member keys and counts none, of the same role
COUNTS_RING: Final = "member-counts"
DAP_RING: Final = "dap-tasks"  # so has a DAP task, of the same role
WITHDRAWN_RING: Final = "withdrawn-tasks"  # and the record that one was taken back

REVIEWERS_PATH: Final = "reviewers.json"  # whose word a promotion needs; a target of the top-level role
REMOVALS_PATH: Final = "removals.json"  # what whoever has it in force takes out; a target of the top-level role

_PACKS: Final = {ring: (f"packs/{ring}/*/*", f"channels/{ring}.json", f"revoked/{ring}.json") for ring in RINGS}
# role -> (path patterns, terminating), in the order in which a client walks them
DELEGATIONS: Final[dict[str, tuple[tuple[str, ...], bool]]] = {
    "reviewed": (("packs/*/indicator-*/*",), True),
    **{ring: (paths, True) for ring, paths in _PACKS.items()},
    CATALOG_RING: (("catalogs/*", "tasks/*", "members/*/*"), True),
}

# How long a signature stands before a client calls the commons stale.
LIFETIME_DAYS: Final[dict[str, int]] = {
    "root": 365,
    "targets": 180,
    **dict.fromkeys(DELEGATIONS, 90),
    "snapshot": 7,
    "timestamp": 1,
}

MAX_CHANNEL: Final = 256 * 1024  # bytes of a channel index
MAX_ROOT: Final = 512_000  # bytes of a root
MAX_DAP_TASK: Final = 64 * 1024  # bytes of a DAP task's file


def pack_path(ring: str, name: str, version: int) -> str:
    return f"packs/{ring}/{name}/{version}.json"


def catalog_path(task: str) -> str:
    return f"catalogs/{task}.json"


def dap_task_path(task: str) -> str:
    """Where the DAP task lies that a catalog's task is counted by, as members and collector are handed it."""
    return f"tasks/{task}.json"


def task_path(ring: str, task: str, version: int) -> str:
    """Where the file of a log entry of type `task` lies: a catalog, its DAP task, its end, an epoch's keys or count."""
    if ring == MEMBERS_RING:
        return members_path(task, version)
    if ring == WITHDRAWN_RING:
        return withdrawal_path(task)
    if ring == DAP_RING:
        return dap_task_path(task)
    return counts_path(task, version) if ring == COUNTS_RING else catalog_path(task)


def withdrawal_path(task: str) -> str:
    """Where the record lies that a task was taken back; a task's name has no dot, so no task lies there."""
    return f"tasks/{task}.withdrawn.json"


def members_path(task: str, epoch: int) -> str:
    """Where the member keys of an epoch lie; their log entry has the epoch as its version."""
    return f"members/{task}/{epoch}.json"


def counts_path(task: str, epoch: int) -> str:
    """Where an issuer's count of an epoch lies; its log entry has the epoch as its version."""
    return f"members/{task}/{epoch}.count.json"


def snapshot_path(version: int) -> str:
    return f"metadata/{version}.snapshot.json"


def snapshot_files(version: int) -> tuple[str, str]:
    """Where the log entry of a snapshot lies, and the entry's proof: plain files, for the snapshot names no target."""
    path = snapshot_path(version)
    return f"{path}.entry", f"{path}.tlog-proof"


def entry_path(path: str) -> str:
    """Where the log entry of a target lies."""
    return path.removesuffix(".json") + ".entry"


def proof_path(path: str) -> str:
    """Where the proof of a target's log entry lies."""
    return path.removesuffix(".json") + ".tlog-proof"


def promotion_path(path: str) -> str:
    """Where the evidence lies for which a pack came to its ring."""
    return path.removesuffix(".json") + ".promotion"


def revoked_path(ring: str) -> str:
    """Where a ring's revocations lie: what nobody there begins to use."""
    return f"revoked/{ring}.json"


def record_files(sha256: str) -> tuple[str, str, str]:
    """Where a record lies that the log names, its entry and the entry's proof: plain files, no targets."""
    path = f"records/{sha256}.json"
    return path, entry_path(path), proof_path(path)


def channel_path(ring: str) -> str:
    return f"channels/{ring}.json"


def role_of_pack(ring: str, kind: str) -> str:
    """The role whose key signs a pack: the reviewer's for indicators, the ring's for the rest."""
    return "reviewed" if kind == "indicator" else ring
