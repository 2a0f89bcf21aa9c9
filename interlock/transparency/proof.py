"""One file that shows, offline, that an entry is in a log and that witnesses saw it (C2SP tlog-proof, untagged).

c2sp.org/tlog-proof@v1
extra BASE64              optional; opaque and not authenticated
index N
base64(HASH)              the inclusion proof, from the leaf's sibling up; none or more lines
<empty line>
the checkpoint, with the log's signature and the witnesses' cosignatures
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from interlock.base.codec import Malformed
from interlock.base.text import b64, unb64
from interlock.transparency.checkpoint import Checkpoint, parse_checkpoint
from interlock.transparency.merkle import MAX_PROOF, leaf_hash, verify_inclusion
from interlock.transparency.note import MAX_NOTE, Note, encode_note, parse_note
from interlock.transparency.policy import Checked, TlogPolicy
from interlock.transparency.text import decimal, hash_lines, unhash_lines, utf8_lines

__all__ = ["MAX_PROOF_FILE", "PROOF_HEADER", "TlogProof", "parse_proof", "proof_file"]

MAX_EXTRA: Final = 64 * 1024  # bytes
MAX_PROOF_FILE: Final = MAX_NOTE + 2 * MAX_EXTRA + 64 * (MAX_PROOF + 3)  # bytes
PROOF_HEADER: Final = "c2sp.org/tlog-proof@v1"


@dataclass(frozen=True)
class TlogProof:
    """An entry's place in a log: index, audit path, and the checkpoint's note. `extra` is not authenticated."""

    index: int
    hashes: tuple[bytes, ...]
    note: Note
    extra: bytes | None = None

    @property
    def checkpoint(self) -> Checkpoint:
        """What the note says; trusted only after `verify`. Raises: Malformed."""
        return parse_checkpoint(self.note.text)

    @property
    def data(self) -> bytes:
        """The file's bytes. The inverse of `parse_proof`."""
        return proof_file(self.index, hash_lines(self.hashes), encode_note(self.note), self.extra)

    def verify(self, entry: bytes, policy: TlogPolicy) -> Checked:
        """Check, in the order of tlog-proof: the log's signature, the witnesses' quorum, the entry's inclusion.

        Raises: BadSignature, NoQuorum, BadProof, Malformed.
        """
        checked = policy.check(self.note)
        self.verify_inclusion(entry, checked.checkpoint)
        return checked

    def verify_inclusion(self, entry: bytes, checkpoint: Checkpoint) -> None:
        """Check the entry's inclusion under a checkpoint that is trusted already. Raises: BadProof."""
        verify_inclusion(leaf_hash(entry), self.index, checkpoint.size, self.hashes, checkpoint.root)


def proof_file(index: int, lines: str, note: bytes, extra: bytes | None = None) -> bytes:
    """The bytes of a proof, of which `lines` are the hashes as text."""
    also = "" if extra is None else f"extra {b64(extra)}\n"
    return f"{PROOF_HEADER}\n{also}index {index}\n{lines}\n".encode("ascii") + note


def parse_proof(data: bytes) -> TlogProof:
    """Take a proof file apart; verifies nothing. Raises: Malformed."""
    head, empty, note = utf8_lines(data, MAX_PROOF_FILE, "proof").partition("\n\n")
    if not empty:
        raise Malformed("proof has no empty line before its checkpoint")
    lines = head.split("\n")
    if lines.pop(0) != PROOF_HEADER:
        raise Malformed(f"proof does not begin with {PROOF_HEADER}")
    extra: bytes | None = None
    if lines and lines[0].startswith("extra "):
        extra = unb64(lines.pop(0).removeprefix("extra "), "extra data")
        if len(extra) > MAX_EXTRA:
            raise Malformed(f"extra data of a proof is larger than {MAX_EXTRA} bytes")
    if not lines or not lines[0].startswith("index "):
        raise Malformed("proof has no index line")
    index = decimal(lines.pop(0).removeprefix("index "), "index")
    parsed = parse_note(note.encode("utf-8"))
    parse_checkpoint(parsed.text)
    return TlogProof(index, unhash_lines(lines, "inclusion proof"), parsed, extra)
