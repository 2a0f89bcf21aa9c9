"""`interlock receipts`: check the chain of decisions, read it, and prove which logged policy decided one.

What a receipt shows is what the guard wrote down: names, digests and templates, never an argument's value.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from interlock.base.clock import rfc3339
from interlock.base.errors import EXIT_OK, BadInput, one_line
from interlock.engine.receipt_seals import Checker
from interlock.engine.receipts import Receipt, Verified
from interlock.engine.sinks import read_receipts, verify_file
from interlock.interceptors.hooks.entry import guard_settings
from interlock.node.cli.receipts_shadows import WOULD, counted, objections, told

__all__ = ["found_receipts", "receipts_file", "register", "said"]

_PAUSE_S: Final = 0.5
_EXAMPLES: Final = {
    "verify": "interlock receipts verify receipts.jsonl --head 3f2a9c...",
    "tail": "interlock receipts tail -n 50 --follow",
    "show": "interlock receipts show 3f2a9c",
    "shadows": "interlock receipts shadows",
    "prove": "interlock receipts prove 3f2a9c --out decided.json",
}


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `receipts` with its commands."""
    group = commands.add_parser("receipts", help="check, read and prove what the guard recorded")
    group.set_defaults(parser=group)
    verbs = group.add_subparsers(title="commands", metavar="COMMAND")

    verb = _verb(verbs, "verify", _verify, "check a whole chain, or a file that `prove` made")
    verb.add_argument("--head", metavar="HEX", help="the seal that the chain has to end with: finds a missing tail")
    verb.add_argument("--log-policy", metavar="FILE", help="for a proof: the tlog-policy whose word counts")
    verb = _verb(verbs, "tail", _tail, "the last receipts, a line each")
    verb.add_argument("-n", type=int, default=20, metavar="COUNT", help="how many (20)")
    verb.add_argument("-f", "--follow", action="store_true", help="go on as more are written")
    verb = _verb(verbs, "show", _show, "everything that one receipt says", one=True)
    _verb(verbs, "shadows", _shadows, "what rules in shadow would have done: how often, and to how many")
    verb = _verb(verbs, "prove", _prove, "one file that shows offline which logged policy decided", one=True)
    verb.add_argument("--out", metavar="FILE", help="where to write it (standard output)")
    verb.add_argument("--home", metavar="DIR", help="the node's home (from the configuration)")


def _verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, run: object, help_: str, *, one: bool = False
) -> argparse.ArgumentParser:
    told = f"{help_[0].upper()}{help_[1:]}."
    verb = verbs.add_parser(name, help=help_, description=told, epilog=f"example: {_EXAMPLES[name]}")
    if one:
        verb.add_argument("id", metavar="ID", help="a call id (its first digits will do), or #N for the N-th receipt")
    verb.add_argument("file", nargs="?", metavar="FILE", help="the receipts (those of the configuration)")
    verb.add_argument("--config", metavar="FILE", help="the configuration file")
    if name in ("verify", "prove"):
        verb.add_argument("--key", metavar="FILE", help="the chain's key file, or one with the key in hex (FILE.key)")
        verb.add_argument("--public", metavar="ed25519:HEX", help="the public key of a signed chain")
    verb.add_argument("--json", action="store_true", help="JSON, for programs")
    verb.set_defaults(run=run)
    return verb


def receipts_file(args: argparse.Namespace) -> Path:
    """The file that a command names, or that of the configuration. Raises: BadConfig."""
    return Path(args.file) if args.file else guard_settings(args.config).receipts


def _key(args: argparse.Namespace) -> str | Checker | None:
    if not args.public:
        return None if args.key is None else str(args.key)
    found: Checker = _proof_module().public_seal(args.public)
    return found


def _verify(args: argparse.Namespace) -> int:
    file = receipts_file(args)
    if args.log_policy:
        done: int = _proof_module().verify(args, file, _key(args))
        return done
    found: Verified = verify_file(file, _key(args), head=args.head)
    if args.json:
        print(json.dumps({"ok": True, "file": str(file), **asdict(found)}))
    else:
        print(f"ok    {file}: {found.count} receipts, each bound to the one before it")
        print(f"head  {found.head}" + ("" if args.head else "  (keep it where the guarded agent cannot write)"))
    return EXIT_OK


def _tail(args: argparse.Namespace) -> int:
    file = receipts_file(args)
    if args.n < 0:
        raise BadInput("is a number of receipts, 0 or more", where="-n")
    last = deque((receipt for receipt, _ in read_receipts(file)), maxlen=args.n)
    for receipt in last:
        _print(receipt, as_json=args.json)
    seen = last[-1].seq if last else 0
    while args.follow:
        time.sleep(_PAUSE_S)
        for receipt, _ in read_receipts(file):
            if receipt.seq > seen:
                seen = receipt.seq
                _print(receipt, as_json=args.json)
        sys.stdout.flush()
    return EXIT_OK


def _print(receipt: Receipt, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(said(receipt)))
        return
    who = f" by {receipt.principal}" if receipt.principal else ""
    rule = f": {receipt.policy_id or receipt.rule}" if receipt.policy_id or receipt.rule else ""
    what = one_line(f"{receipt.action} {receipt.phase}{who}") + one_line(rule)
    print(f"#{receipt.seq}  {rfc3339(receipt.ts_us)}  {one_line(receipt.outcome):12}  {what}")
    for shadow, verdict in objections(receipt):
        print(f"    in shadow, {one_line(shadow)} {WOULD[verdict]} this")


def _shadows(args: argparse.Namespace) -> int:
    print(told(counted(receipt for receipt, _ in read_receipts(receipts_file(args))), as_json=args.json))
    return EXIT_OK


def _show(args: argparse.Namespace) -> int:
    for receipt, _ in found_receipts(args):
        if args.json:
            print(json.dumps(said(receipt), indent=1))
            continue
        for name, value in said(receipt).items():
            print(f"{name:16}  {rfc3339(receipt.ts_us) if name == 'ts_us' else one_line(str(value))}")
        print()
    return EXIT_OK


def said(receipt: Receipt) -> dict[str, object]:
    """The fields that say something."""
    return {name: value for name, value in asdict(receipt).items() if value is not None}


def found_receipts(args: argparse.Namespace) -> Iterator[tuple[Receipt, bytes]]:
    """The receipts that an id names: a call's and its result's have the same. Raises: BadInput, where there is none."""
    wanted, some = str(args.id), False
    for receipt, line in read_receipts(receipts_file(args)):
        by_number = wanted.startswith("#") and wanted[1:] == str(receipt.seq)
        if by_number or (len(wanted) >= 4 and receipt.call_id.startswith(wanted)):
            some = True
            yield receipt, line
    if not some:
        raise BadInput("is the id of no receipt here", where=wanted, fix="see interlock receipts tail --json")


def _prove(args: argparse.Namespace) -> int:
    verify_file(receipts_file(args), _key(args))
    matching = list(found_receipts(args))
    receipt, line = next((pair for pair in matching if pair[0].pack_digest is not None), matching[0])
    done: int = _proof_module().prove(args, receipt, line)
    return done


def _proof_module() -> Any:
    """Signatures and logs need the extra; the rest of these commands does not."""
    return importlib.import_module("interlock.node.cli.receipts_proof")
