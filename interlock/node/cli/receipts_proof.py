"""What `interlock receipts` needs the extra for: public keys, and the proof that a logged policy decided."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final

from interlock.base.clock import rfc3339
from interlock.base.errors import EXIT_OK, BadInput
from interlock.base.files import read_bounded, replace
from interlock.base.keys import Ed25519Verifier
from interlock.commons.decided import MAX_BUNDLE, bundle, check_bundle, kept_proof
from interlock.engine.receipt_seals import Checker, PublicSeal
from interlock.engine.receipts import Receipt
from interlock.node.cli.receipts import said
from interlock.node.config import mesh_config, settings_of
from interlock.transparency.policy import MAX_POLICY, parse_policy

__all__ = ["prove", "public_seal", "verify"]

_KIND: Final = "ed25519"


def public_seal(text: str) -> PublicSeal:
    """What checks a signed chain. Raises: BadInput, BadKey."""
    kind, _, digits = text.partition(":")
    try:
        if kind != _KIND:
            raise ValueError
        return PublicSeal(Ed25519Verifier(bytes.fromhex(digits)))
    except ValueError:
        raise BadInput("is no public key", where="--public", fix="write ed25519: and 64 hex digits") from None


def prove(args: argparse.Namespace, receipt: Receipt, line: bytes) -> int:
    """Write a receipt with the log entry and proof of its pack. Raises: NoProof, BadState, NotWritable."""
    home = Path(args.home) if args.home else mesh_config(settings_of(args.config)).home
    data = bundle(line, *kept_proof(home, receipt))
    if args.out:
        replace(Path(args.out), data)
        print(f"{args.out}: receipt {receipt.seq}, pack {receipt.pack_digest} at index {receipt.log_index} of the log")
    else:
        print(data.decode(), end="")
    return EXIT_OK


def verify(args: argparse.Namespace, file: Path, key: str | Checker | None) -> int:
    """Check what `prove` wrote, offline. Raises: NoProof, BadChain, NoQuorum, BadProof, BadSignature."""
    if isinstance(key, str):
        raise BadInput("a proof is checked with --public, or by its log alone", where="--key")
    policy = parse_policy(read_bounded(Path(args.log_policy), MAX_POLICY))
    found = check_bundle(read_bounded(file, MAX_BUNDLE), policy, key, where=str(file))
    entry, receipt, seen = found.entry, found.receipt, sorted(found.checked.cosigned)
    if args.json:
        shown = {"pack": entry.name, "version": entry.version, "ring": entry.ring, "sha256": entry.sha256}
        print(json.dumps({"ok": True, **shown, "witnesses": seen, "sealed": key is not None, "receipt": said(receipt)}))
        return EXIT_OK
    print(f"ok    {entry.name} {entry.version} ({entry.ring}) stands in the log at index {receipt.log_index}")
    print(f"      tree of {found.checked.checkpoint.size}, cosigned by {', '.join(seen) or 'no witness'}")
    sealed = "signed by the given key" if key is not None else "not checked: give --public for a signed chain"
    print(f"      it decided {receipt.action} at {rfc3339(receipt.ts_us)}; the receipt itself is {sealed}")
    return EXIT_OK
