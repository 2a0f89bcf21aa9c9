"""How a commons begins: keys of the online roles, then a root that keyholders signed, and the first snapshot to log.

online = make_commons_keys(home, rng)       what the ceremony's root is to name
create_commons(home, root, now_us)          from here on `Publisher` publishes in it
"""

from __future__ import annotations

from pathlib import Path

from interlock.base.files import BadState, file_lock, private_dir
from interlock.base.files import replace as replace_file
from interlock.base.keys import Ed25519Verifier
from interlock.base.primitives import Rng
from interlock.commons.holders import CeremonyRefused, read_root, targets_of
from interlock.commons.journal import RENEWAL, Journal, dump_journal
from interlock.commons.layout import DELEGATIONS, ONLINE_ROLES, TOP_ROLES
from interlock.commons.pack import sha256_hex
from interlock.commons.repository import Repository
from interlock.commons.signers import load_keys, make_keys

__all__ = ["create_commons", "is_commons", "make_commons_keys"]


def make_commons_keys(home: Path, rng: Rng) -> dict[str, Ed25519Verifier]:
    """Make the keys of all roles but the root's, as 0600 files below HOME/keys; returns the top roles' public keys.

    Raises: NotWritable, BadKey.
    """
    private_dir(home)
    signers = make_keys(home / "keys", (*TOP_ROLES, *DELEGATIONS), rng)
    return {role: signers[role].verifier for role in TOP_ROLES}


def is_commons(home: Path) -> bool:
    """Whether a commons was begun in this folder, seen by clients or not yet."""
    return (home / RENEWAL).exists() or (home / "public" / "metadata" / "timestamp.json").exists()


def create_commons(home: Path, root: bytes, now_us: int, targets: bytes | None = None) -> Repository:
    """Begin the commons in HOME/public under a root that its keyholders signed, as they did `targets` if they hold it.

    Clients see it once a `Publisher` has logged the first snapshot, which any publish or renewal does.
    Raises: CeremonyRefused, BadState, BadKey.
    """
    repository = Repository(home / "public")
    held = targets_of(read_root(root, "root").signed) is not None
    if held and targets is None:
        fix = "put 1.targets.json, which the ceremony made, beside the root"
        raise CeremonyRefused("have to be signed by their holders first", where="targets", fix=fix)
    with file_lock(home / "lock"):
        if is_commons(home):
            raise BadState("is a commons already", where=str(home), fix="use another folder")
        signers = load_keys(home / "keys", (*(ONLINE_ROLES if held else TOP_ROLES), *DELEGATIONS))
        data = repository.create(root, signers, now_us, targets if held else None)
        first = Journal("snapshot", now_us, {"snapshot": 0}, snapshot_sha256=sha256_hex(data))
        replace_file(home / RENEWAL, dump_journal(first))
    return repository
