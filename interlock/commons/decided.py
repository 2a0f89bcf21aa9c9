"""Which logged policy decided: a receipt with the log entry of its pack and the entry's proof, in one file.

    {"format": "interlock-receipt-proof", "v": 1, "receipt": LINE, "entry": BASE64, "proof": C2SP tlog-proof}

Whoever trusts a log policy can check it offline: that the receipt names this pack by digest and index, and that the
pack stands there in a log that the witnesses cosigned. The line's own seal is checked by whoever has its key.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.files import BadState, private_dir, read_bounded, replace, stamped, unstamped
from interlock.base.primitives import BadSignature
from interlock.base.text import b64, unb64
from interlock.engine.receipt_seals import Checker
from interlock.engine.receipts import MAX_LINE, Receipt, check_receipt, decode_receipt
from interlock.transparency.entry import MAX_ENTRY, LogEntry, known_entry
from interlock.transparency.policy import Checked, TlogPolicy
from interlock.transparency.proof import MAX_PROOF_FILE, parse_proof

__all__ = ["MAX_BUNDLE", "Decided", "NoProof", "bundle", "check_bundle", "keep_proof", "kept_proof", "proof_is_kept"]

MAX_BUNDLE: Final = MAX_LINE + 2 * MAX_ENTRY + 2 * MAX_PROOF_FILE
_FORMAT: Final = "interlock-receipt-proof"


class NoProof(InterlockError):
    """A receipt that no logged policy can be shown for, or a proof that does not hold."""

    code = "check-failed"


@dataclass(frozen=True)
class Decided:
    """A proof that holds: the receipt, the pack's log entry, and the checkpoint with who cosigned it."""

    receipt: Receipt
    entry: LogEntry
    checked: Checked


def keep_proof(home: Path, sha256: str, index: int, entry: bytes, proof: bytes) -> None:
    """Keep what shows that a pack stands in the log, for as long as receipts may ask. Raises: NotWritable."""
    folder = private_dir(home / "proofs")
    replace(folder / f"{sha256}.{index}.entry", entry)
    replace(folder / f"{sha256}.{index}.tlog-proof", proof)


def proof_is_kept(home: Path, sha256: str, index: int) -> bool:
    return (home / "proofs" / f"{sha256}.{index}.tlog-proof").exists()


def kept_proof(home: Path, receipt: Receipt) -> tuple[bytes, bytes]:
    """The entry and the proof of the pack that a receipt names. Raises: NoProof, BadState."""
    if receipt.pack_digest is None or receipt.log_index is None:
        raise NoProof("was decided by no community rule", where=f"receipt {receipt.seq}")
    stem = home / "proofs" / f"{receipt.pack_digest}.{receipt.log_index}"
    entry, proof = stem.with_name(stem.name + ".entry"), stem.with_name(stem.name + ".tlog-proof")
    if not proof.exists():
        fix = "run interlock mesh update on the node that wrote the receipt"
        raise NoProof("is of a pack whose proof is not kept here", where=f"receipt {receipt.seq}", fix=fix)
    return read_bounded(entry, MAX_ENTRY), read_bounded(proof, MAX_PROOF_FILE)


def bundle(line: bytes, entry: bytes, proof: bytes) -> bytes:
    """One file of a receipt's line and its pack's proof."""
    body = {"receipt": line.decode(), "entry": b64(entry), "proof": proof.decode()}
    return stamped(_FORMAT, 1, dict(body))


def check_bundle(data: bytes, policy: TlogPolicy, checker: Checker | None = None, *, where: str) -> Decided:
    """Check a bundle offline; with a checker, the receipt's own seal too.

    Raises: NoProof; BadChain, where the receipt was changed; NoQuorum, BadProof, BadSignature of the log's side.
    """
    body = unstamped(data, _FORMAT, 1, where=where)
    texts = [body.get(name) for name in ("receipt", "entry", "proof")]
    if not all(isinstance(text, str) for text in texts):
        raise BadState("is no receipt with its proof", where=where)
    line, entry_text, proof_text = map(str, texts)
    receipt = decode_receipt(line.encode())
    if checker is not None:
        check_receipt(receipt, line.encode(), checker)
    try:
        entry_data, proof = unb64(entry_text, "entry"), parse_proof(proof_text.encode())
        entry = known_entry(entry_data)
    except (Malformed, BadSignature) as e:
        raise NoProof(f"cannot be read ({e.what})", where=where) from None
    if (receipt.pack_digest, receipt.log_index) != (entry.sha256, proof.index):
        raise NoProof("shows another pack than the receipt names", where=where)
    return Decided(receipt, entry, proof.verify(entry_data, policy))
