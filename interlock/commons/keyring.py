"""The keys of a role's folder: which there are, whose word they are, and how one takes another's place.

    commons    keys/ROLE.key for each online role; keys/ROLE.key.next: made, and named by no root yet
               the keys of the root's and targets' holders are named by the newest root, and lie with the holders
    log        log.key and log-ml-dsa.key, each with .next beside it; a witness the same
    issuer     issuer.key, with .next beside it while a rotation is under way (commons.issuer_keys)
    retired/   what was replaced, ROLE-KEYID.key with the id as listed, so that nothing is lost by a wrong step

A key takes another's place only where clients will take its word: `targets`, `snapshot` and `timestamp` once a root
names it, a ring's or other delegated role once the targets do, log and witness once their operator says so, for then
the policy that names it is out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from tuf.api.metadata import Metadata, Root, Signed, Snapshot, Targets, Timestamp  # type: ignore[attr-defined]
from tuf.api.serialization import DeserializationError

from interlock.base.clock import MICROSECONDS, rfc3339
from interlock.base.errors import BadInput
from interlock.base.files import BadState, private_dir, read_bounded, replace, sync_dir
from interlock.base.keys import (
    Ed25519Signer,
    Ed25519Verifier,
    MlDsaSigner,
    MlDsaVerifier,
    dump_key,
    is_sealed,
    key_named,
    verifier_of,
)
from interlock.base.primitives import Rng
from interlock.commons.holders import Holder, families, holders_of, targets_of
from interlock.commons.layout import DELEGATIONS, ONLINE_ROLES, TOP_ROLES
from interlock.commons.repository import metadata_files
from interlock.commons.signers import NEXT, RoleSigner, read_key, tuf_key

__all__ = [
    "RETIRED",
    "KeyRow",
    "activate",
    "current_key",
    "has_role_keys",
    "key_files",
    "listed_key",
    "make_next",
    "named_key",
    "rows",
    "take_up",
]

RETIRED: Final = "retired"
_SINGLE: Final = ("log", "witness", "issuer")
_SECOND: Final = "-ml-dsa.key"
_LIMIT: Final = 16 * 1024
_MAX_METADATA: Final = 5_000_000
_SIGNED = TypeVar("_SIGNED", bound=Signed)
_KINDS: Final[dict[str, type[Snapshot] | type[Timestamp]]] = {"snapshot": Snapshot, "timestamp": Timestamp}


@dataclass(frozen=True)
class KeyRow:
    """One key: what it does, its id and family, who holds it, until when, and what is to be said of its file."""

    role: str
    family: str
    key_id: str
    state: str  # "in use", "next", "missing", "not the role's"
    holder: str = ""
    employer: str = ""
    until: str = ""
    file: str = ""
    sealed: bool = False


def has_role_keys(directory: Path) -> bool:
    """Whether a folder has the keys of a commons' roles, begun or not."""
    return (directory / "keys").is_dir()


def key_files(directory: Path, role: str) -> list[Path]:
    """Where the keys of a role lie: one, or two of a log or witness. Raises: BadInput, where it has none here."""
    if has_role_keys(directory) and role in (*TOP_ROLES, *DELEGATIONS):
        return [directory / "keys" / f"{role}.key"]
    if role in _SINGLE and (directory / f"{role}.key").exists():
        return [path for path in (directory / f"{role}.key", directory / f"{role}{_SECOND}") if path.exists()]
    known = (*TOP_ROLES, *DELEGATIONS) if has_role_keys(directory) else _SINGLE
    raise BadInput("has no key for this role", where=f"{directory}: {role}", fix=f"one of {', '.join(known)}")


def named_key(path: Path) -> str:
    """The text of the public key in a key file, sealed or not. Raises: BadKey, BadState."""
    return key_named(read_bounded(path, _LIMIT), where=str(path))


def rows(directory: Path) -> list[KeyRow]:
    """Every key that a folder has or names. Raises: BadState, BadKey, CeremonyRefused."""
    if not has_role_keys(directory):
        files = [(role, directory / f"{role}{end}") for role in _SINGLE for end in (".key", _SECOND)]
        found = [row for role, path in files for row in _file_rows(path, role, None, "")]
        if not found:
            raise BadState("has no keys of a commons, a log, a witness or an issuer", where=str(directory))
        return found
    root = _newest(directory, "root", Root)
    named = {} if root is None else _named(directory, root)
    circle = None if root is None else targets_of(root)
    found = [] if root is None else list(_holder_rows("root", holders_of(root)))
    found += [] if circle is None else list(_holder_rows("targets", circle.holders))
    for role in (*(TOP_ROLES if circle is None else ONLINE_ROLES), *DELEGATIONS):
        keyid, ends_us = named.get(role, (None, 0))
        until = rfc3339(ends_us) if ends_us else ""
        found += _file_rows(directory / "keys" / f"{role}.key", role, keyid, until)
    return found


def make_next(path: Path, rng: Rng, passphrase: bytes | None = None) -> str:
    """Make the key that is to follow the one in `path`, of its family; one that is made already stays.

    Returns its public key's text. Raises: NotWritable, BadKey, BadState.
    """
    following = path.with_name(path.name + NEXT)
    if not following.exists():
        before = verifier_of(named_key(path)) if path.exists() else None
        signer = MlDsaSigner(before.level, rng(32)) if isinstance(before, MlDsaVerifier) else Ed25519Signer(rng(32))
        replace(following, dump_key(signer, passphrase=passphrase, salt=rng(16), nonce=rng(24)))
    return named_key(following)


def activate(path: Path) -> str:
    """Put the next key in the place of the one in `path`, which is kept below retired/. Returns the new key's text.

    Raises: BadState, where none is made; BadKey, NotWritable.
    """
    following = path.with_name(path.name + NEXT)
    if not following.exists():
        raise BadState("has no next key", where=str(path), fix="make it with interlock mesh keys rotate")
    if path.exists():
        retired = private_dir(path.parent / RETIRED) / f"{path.stem}-{listed_key(named_key(path))[:16]}.key"
        replace(retired, read_bounded(path, _LIMIT))
    following.replace(path)
    sync_dir(path.parent)
    return named_key(path)


def take_up(path: Path, named: Collection[str]) -> bool:
    """Put the next key of a role in place, if it is the one that the metadata names; returns whether it was.

    Raises: BadState, BadKey, NotWritable.
    """
    following = path.with_name(path.name + NEXT)
    if not following.exists() or _keyid(named_key(following)) not in named:
        return False
    activate(path)
    return True


def current_key(path: Path, named: Collection[str]) -> RoleSigner:
    """The key of a role that the metadata names: the one in `path`, or the next one beside it, not yet in its place.

    Where it is neither, the one in `path`. Raises: BadState, BadKey.
    """
    following = path.with_name(path.name + NEXT)
    taken = following.exists() and _keyid(named_key(following)) in named
    return RoleSigner(read_key(following if taken else path))


def _holder_rows(role: str, holders: tuple[Holder, ...]) -> Iterator[KeyRow]:
    for holder in holders:
        for family, keyid in zip(families(holder.keys), holder.keyids, strict=True):
            yield KeyRow(role, family, keyid, "in use", holder.name, holder.employer, holder.until)


def _file_rows(path: Path, role: str, named: str | None, until: str) -> Iterator[KeyRow]:
    """The key in a file and the next one beside it; `named` is what the metadata calls the role's key."""
    for file, state in ((path, "in use"), (path.with_name(path.name + NEXT), "next")):
        if file.exists():
            key = verifier_of(named_key(file))
            keyid = _keyid(key.text) if named is not None else listed_key(key.text)
            told = state if state == "next" or named in (None, keyid) else "not the role's"
            sealed, ends = is_sealed(read_bounded(file, _LIMIT), where=str(file)), until if told == "in use" else ""
            yield KeyRow(role, key.text.partition(":")[0], keyid, told, until=ends, file=str(file), sealed=sealed)
    if named is not None and not path.exists():
        yield KeyRow(role, "ed25519", named, "missing", until=until)


def _named(directory: Path, root: Root) -> dict[str, tuple[str, int]]:
    """The key of each online role as root and targets name it, and when what it signed last ends (us)."""
    targets = _newest(directory, "targets", Targets)
    named = {role: root.roles[role].keyids[0] for role in TOP_ROLES}
    if targets is not None and targets.delegations is not None:
        named |= {role: row.keyids[0] for role, row in (targets.delegations.roles or {}).items()}
    ends = {}
    for role in named:
        signed = _newest(directory, role, _KINDS.get(role, Targets))
        ends[role] = 0 if signed is None else int(signed.expires.timestamp()) * MICROSECONDS
    return {role: (keyid, ends[role]) for role, keyid in named.items()}


def _newest(directory: Path, role: str, kind: type[_SIGNED]) -> _SIGNED | None:
    """A role's newest metadata on disk. Raises: BadState."""
    paths = metadata_files(directory / "public", role)
    if not paths:
        return None
    try:
        signed = Metadata.from_bytes(read_bounded(paths[-1], _MAX_METADATA)).signed
    except DeserializationError:
        signed = None
    if not isinstance(signed, kind):
        raise BadState(f"is not metadata of role {role}", where=str(paths[-1]))
    return signed


def listed_key(text: str) -> str:
    """The id under which a key is listed: as metadata has it, where metadata can name a key of its family."""
    key = verifier_of(text)
    return _keyid(text) if isinstance(key, Ed25519Verifier) else key.key_id


def _keyid(text: str) -> str:
    return tuf_key(verifier_of(text)).keyid
