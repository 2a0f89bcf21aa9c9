"""The two keys of a log or a witness: Ed25519, and ML-DSA-44 beside it; their files, and their lines in a policy.

    log.key      log-ml-dsa.key          witness.key  witness-ml-dsa.key

A folder of before, with the first key alone, goes on with that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from interlock.base.files import replace
from interlock.base.keys import BadKey, Ed25519Signer, MlDsaSigner, dump_key
from interlock.base.primitives import Rng
from interlock.commons.signers import open_key, read_key
from interlock.transparency.checkpoint import Cosigner
from interlock.transparency.note import NoteSigner

__all__ = ["cosigners_in", "log_lines", "log_signers_in", "make_pair", "witness_lines"]

_LEVEL: Final = 44


def make_pair(path: Path, rng: Rng) -> None:
    """Make both keys, of which one that is there stays. Raises: NotWritable."""
    for file, signer in ((path, Ed25519Signer(rng(32))), (_second(path), MlDsaSigner(_LEVEL, rng(32)))):
        if not file.exists():
            replace(file, dump_key(signer))


def log_signers_in(path: Path, origin: str) -> tuple[NoteSigner, list[Cosigner]]:
    """What signs a log's checkpoints: its Ed25519 key, and its ML-DSA-44 key where it has one. Raises: BadKey."""
    return NoteSigner(origin, read_key(path)), [Cosigner(origin, key) for key in _more(path)]


def cosigners_in(path: Path, name: str) -> list[Cosigner]:
    """What a witness cosigns with, as above. Raises: BadKey, BadState."""
    return [Cosigner(name, read_key(path)), *(Cosigner(name, key) for key in _more(path))]


def log_lines(path: Path, origin: str, url: str) -> list[str]:
    """The log's lines in a policy."""
    signer, also = log_signers_in(path, origin)
    return [f"log {key.text} {url}" for key in (signer.key, *(s.key for s in also))]


def witness_lines(path: Path, name: str, url: str, *, called: str = "") -> list[str]:
    """A witness's lines in a policy, which calls it `called` (its name by default); both its keys are demanded."""
    keys, called = [cosigner.key for cosigner in cosigners_in(path, name)], called or name
    if len(keys) == 1:
        return [f"witness {called} {keys[0].text} {url}"]
    names = [f"{called}/ed25519", f"{called}/ml-dsa-44"]
    rows = [f"witness {of} {key.text} {url}" for of, key in zip(names, keys, strict=True)]
    return [*rows, f"group {called} all {' '.join(names)}"]


def _more(path: Path) -> list[MlDsaSigner]:
    second = _second(path)
    if not second.exists():
        return []
    key = open_key(second)
    if not isinstance(key, MlDsaSigner) or key.level != _LEVEL:
        raise BadKey(f"is not an ML-DSA-{_LEVEL} key", where=str(second))
    return [key]


def _second(path: Path) -> Path:
    return path.with_name(f"{path.stem}-ml-dsa.key")
