"""A log with both its keys, cosigned by two witnesses with both theirs, for programs of others to look at."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from interlock.base.clock import SystemClock
from interlock.base.keys import Ed25519Signer, MlDsaSigner
from interlock.transparency.checkpoint import Cosigner
from interlock.transparency.log import Log
from interlock.transparency.note import NoteSigner
from interlock.transparency.policy import TlogPolicy, parse_policy
from interlock.transparency.witness import Witness, add_checkpoint_request, parse_size
from tests.unit.log_entries import pack_entry

__all__ = ["ALSO", "ORIGIN", "PAIRS", "SIGNER", "Cosigned", "cosigned", "entry", "policy", "spoilt_line"]

ORIGIN = "log.example/packs"
SIGNER = NoteSigner(ORIGIN, Ed25519Signer(b"\x01" * 32))
ALSO = Cosigner(ORIGIN, MlDsaSigner(44, b"\x01" * 32))
PAIRS = {
    name: [Cosigner(f"{name}.example", Ed25519Signer(seed)), Cosigner(f"{name}.example", MlDsaSigner(44, seed))]
    for name, seed in (("w0", b"\x10" * 32), ("w1", b"\x11" * 32))
}


def policy() -> TlogPolicy:
    """Both witnesses, and both keys of each."""
    lines = [f"log {SIGNER.key.text} https://log.example/", f"log {ALSO.key.text}"]
    for name, pair in PAIRS.items():
        lines += [f"witness {name}-{k} {c.key.text} https://{name}.example/" for k, c in enumerate(pair)]
        lines.append(f"group {name} all {name}-0 {name}-1")
    return parse_policy("\n".join([*lines, "group q all w0 w1", "quorum q", ""]).encode())


def entry(n: int) -> bytes:
    return pack_entry("coding-agent", n, f"{n:064x}", at=n).data


@dataclass(frozen=True)
class Cosigned:
    """A published checkpoint, and where its tree's size lies."""

    note: bytes
    size: int
    root: bytes


def cosigned(log: Log, home: Path) -> Cosigned:
    """Integrate, have both witnesses cosign, and publish."""
    note = log.integrate()
    lines = b""
    for name, pair in PAIRS.items():
        witness = Witness(home / name, pair, {ORIGIN: [SIGNER.key, ALSO.key]}, SystemClock())
        old = 0
        for _ in range(2):
            answer = witness.process(add_checkpoint_request(old, log.consistency(old, log.size), note))
            if answer.status != 409:
                break
            old = parse_size(answer.body)
        assert answer.status == 200, answer
        lines += answer.body
    log.publish(note + lines)
    return Cosigned(note + lines, log.size, log.checkpoint_at(log.size).root)


def spoilt_line(note: bytes, line: int, at: int) -> bytes:
    """The note with one bit of a signature line's bytes changed; lines count from the first signature."""
    text, _, lines = note.decode().rpartition("\n\n")
    rows = lines.splitlines()
    mark, name, data = rows[line].split(" ")
    raw = bytearray(base64.b64decode(data))
    raw[at] ^= 1
    rows[line] = f"{mark} {name} {base64.b64encode(raw).decode()}"
    return (text + "\n\n" + "\n".join(rows) + "\n").encode()
