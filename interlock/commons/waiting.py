"""What waits for the holders of `targets`: changes that were asked for, and that no key on this machine can sign.

    HOME/waiting.json   the files that targets are to name anew, and the new keys of roles below them

Several changes wait together, so that the holders sign once for all of them. `draft_of` makes of them the targets that
are to be signed; what these say is no longer waiting once they are in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.codec import Malformed
from interlock.base.files import BadState, file_lock, read_bounded, replace, stamped, unstamped
from interlock.base.keys import BadKey, ed25519_of
from interlock.base.text import b64, unb64
from interlock.commons.holders import read_targets
from interlock.commons.keyring import named_key
from interlock.commons.layout import DELEGATIONS
from interlock.commons.pack import sha256_hex
from interlock.commons.repository import Repository
from interlock.commons.toplevel import Draft, delegated_keys

__all__ = ["Waiting", "add_waiting", "draft_of", "first_draft_of", "read_waiting", "settle_waiting"]

_FILE: Final = "waiting.json"
_FORMAT: Final = "interlock-waiting"
_LIMIT: Final = 32 << 20  # bytes


@dataclass(frozen=True)
class Waiting:
    """Files for targets, by path, and the text of the new key of each role that is to have one."""

    files: Mapping[str, bytes]
    rekeyed: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.files or self.rekeyed)

    @property
    def what(self) -> str:
        """What waits, for a sentence about it."""
        return ", ".join([*sorted(self.files), *(f"the key of {role}" for role in sorted(self.rekeyed))])


def read_waiting(home: Path) -> Waiting:
    """Raises: BadState, NewerFormat."""
    path = home / _FILE
    if not path.exists():
        return Waiting({}, {})
    body = unstamped(read_bounded(path, _LIMIT), _FORMAT, 1, where=str(path))
    files, rekeyed = body.get("files"), body.get("rekeyed")
    try:
        if not isinstance(files, dict) or not isinstance(rekeyed, dict):
            raise Malformed("has no files and keys")
        found = {name: unb64(str(data), "file") for name, data in files.items()}
        return Waiting(found, {role: ed25519_of(str(text)).text for role, text in rekeyed.items()})
    except (Malformed, BadKey):
        raise BadState("is damaged", where=str(path), fix="remove it, and ask for the changes again") from None


def add_waiting(home: Path, files: Mapping[str, bytes], rekeyed: Mapping[str, str]) -> None:
    """Put changes beside what waits; the caller has the commons' lock. Raises: BadState, NotWritable."""
    held = read_waiting(home)
    _write(home, Waiting({**held.files, **files}, {**held.rekeyed, **rekeyed}))


def settle_waiting(home: Path, targets: bytes) -> None:
    """Drop what these targets, which are in force, say; the caller has the lock. Raises: BadState, NotWritable."""
    signed, held = read_targets(targets, "targets").signed, read_waiting(home)
    named = {path: info.hashes.get("sha256") for path, info in signed.targets.items()}
    keys = {role: key.text for role, key in delegated_keys(signed).items()}
    files = {path: data for path, data in held.files.items() if named.get(path) != sha256_hex(data)}
    _write(home, Waiting(files, {role: text for role, text in held.rekeyed.items() if keys.get(role) != text}))


def draft_of(home: Path, expires_us: int, more: Mapping[str, bytes]) -> Draft:
    """The next targets, with all that waits and `more` files, for their holders to sign. Raises: BadState."""
    with file_lock(home / "lock", wait=True):
        repository, held = Repository(home / "public"), read_waiting(home)
        keys = {role: ed25519_of(text) for role, text in held.rekeyed.items()}
        return repository.draft(repository.targets_version(), {**held.files, **more}, keys, expires_us)


def first_draft_of(home: Path, expires_us: int, files: Mapping[str, bytes]) -> Draft:
    """The first targets of a commons, with files and for the keys that lie in its folder. Raises: BadState, BadKey."""
    keys = {role: ed25519_of(named_key(home / "keys" / f"{role}.key")) for role in DELEGATIONS}
    return Repository(home / "public").draft(0, files, keys, expires_us)


def _write(home: Path, waiting: Waiting) -> None:
    if not waiting:
        (home / _FILE).unlink(missing_ok=True)
        return
    files = {name: b64(data) for name, data in waiting.files.items()}
    replace(home / _FILE, stamped(_FORMAT, 1, {"files": files, "rekeyed": dict(waiting.rekeyed)}))
