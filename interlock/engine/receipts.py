"""Receipts: one record a decision, each bound to the one before it, so that no later edit goes unseen.

A receipt says who did what under which policy and how it ended, and never an argument's value nor a rule's free
text: the arguments are there as `args_digest`, an HMAC under a local key over their canonical encoding, so that
whoever holds the key can show that a call is this one, and nobody else can guess a short secret from it.

The chain: the first line is a header, each later line a receipt. `prev` is the `mac` of the line before it, and
`mac` is HMAC-SHA256 over the canonical encoding of all other fields. A flipped bit, a deleted, added or moved line
breaks it. Cutting lines off the end gives a shorter valid chain: whoever must notice that keeps `Verified.head`.

One 32-byte key gives two: each use of HMAC has a key of its own domain.
"""

from __future__ import annotations

import dataclasses
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from interlock.base.canonical import NotCanonical, encode, json_object
from interlock.base.errors import InterlockError, one_line
from interlock.base.files import BadState, NewerFormat

__all__ = [
    "FORMAT",
    "MAX_LINE",
    "BadChain",
    "Receipt",
    "ReceiptKeys",
    "Verified",
    "check_receipt",
    "decode_header",
    "decode_receipt",
    "encode_header",
    "encode_receipt",
    "label",
    "sealed",
    "verify_chain",
]

FORMAT: Final = "interlock-receipts"
MAX_LINE: Final = 16_384
_V: Final = 1
_LABEL_LIMIT: Final = 256
_MIN_KEY: Final = 16


class BadChain(InterlockError):
    """A chain of receipts that was changed, or that this key did not make."""

    code = "check-failed"


@dataclass(frozen=True, slots=True)
class Receipt:
    """One decision. Times are microseconds; digests are hex.

    `verdict` is a Verdict's name, `outcome` how it ended (settle.Ending). `rule` is the rule that decided;
    `pack_digest` and `log_index` stand where it came with a community pack. `approval` is "yes" or "no" where a
    person was asked, `approved_by` who answered. `args_digest` is None where the arguments have no encoding.
    """

    ts_us: int
    call_id: str
    action: str
    phase: str
    verdict: str
    outcome: str
    policy_epoch: int
    policy_digest: str
    elapsed_us: int
    policy_id: str | None = None
    rule: str | None = None
    attributed_to: str | None = None
    principal: str | None = None
    parent_principal: str | None = None
    span_id: str | None = None
    args_digest: str | None = None
    pack_digest: str | None = None
    log_index: int | None = None
    approval: str | None = None
    approved_by: str | None = None
    seq: int = 0
    prev: str = ""
    mac: str = ""


_KINDS: Final = {"int": int, "str": str, "int | None": (int, type(None)), "str | None": (str, type(None))}
_TYPES: Final[Mapping[str, Any]] = {f.name: _KINDS[str(f.type)] for f in dataclasses.fields(Receipt)}


class ReceiptKeys:
    """The two keys that one secret gives. Raises: ValueError, for a secret shorter than 16 bytes."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < _MIN_KEY:
            raise ValueError(f"a receipt key has at least {_MIN_KEY} bytes")
        self._mac = hmac.digest(secret, b"interlock/receipt/mac/v1", "sha256")
        self._args = hmac.digest(secret, b"interlock/receipt/args/v1", "sha256")

    def mac(self, body: bytes) -> str:
        return hmac.digest(self._mac, body, "sha256").hex()

    def args_digest(self, encoded: bytes) -> str:
        return hmac.digest(self._args, encoded, "sha256").hex()


@dataclass(frozen=True, slots=True)
class Verified:
    """A chain that holds: how many receipts, and the last `mac` (to be kept where the writer cannot reach)."""

    count: int
    head: str


def label(text: str | None) -> str | None:
    """A name as it goes into a receipt: one line, at most 256 characters."""
    return None if text is None else one_line(text, _LABEL_LIMIT)


def sealed(receipt: Receipt, keys: ReceiptKeys, seq: int, prev: str) -> Receipt:
    """The receipt as number `seq` (from 1) of a chain, after the line whose mac is `prev`."""
    fields = {**_fields(receipt), "seq": seq, "prev": prev}
    fields["mac"] = keys.mac(_body(fields))
    return Receipt(**fields)


def encode_receipt(receipt: Receipt) -> bytes:
    """One line, with its line end."""
    return encode(_fields(receipt)) + b"\n"


def decode_receipt(line: bytes) -> Receipt:
    """Read one line back; every field is there and of its type. Raises: BadChain."""
    body = _object(line)
    if body.keys() != _TYPES.keys():
        raise BadChain("is not a receipt")
    for name, value in body.items():
        if not isinstance(value, _TYPES[name]) or isinstance(value, bool):
            raise BadChain(f"holds a field of the wrong type ({name})")
    receipt = Receipt(**body)
    if encode_receipt(receipt) != line:
        raise BadChain("is not in the canonical encoding")
    return receipt


def encode_header(chain: str, keys: ReceiptKeys) -> bytes:
    """The first line of a file; `chain` names it, at random, so that no two chains share a receipt."""
    body = {"format": FORMAT, "v": _V, "chain": chain}
    return encode({**body, "mac": keys.mac(encode(body))}) + b"\n"


def decode_header(line: bytes, keys: ReceiptKeys) -> str:
    """The header's mac, which the first receipt's `prev` repeats. Raises: BadState, NewerFormat, BadChain."""
    body = _object(line)
    if body.get("format") != FORMAT:
        raise BadState(f"does not begin with a header of format {FORMAT}")
    v = body.get("v")
    if isinstance(v, int) and v > _V:
        raise NewerFormat(f"has version {v}, and this interlock reads up to {_V}", fix="upgrade interlock")
    mac = body.pop("mac", None)
    if not isinstance(mac, str) or not hmac.compare_digest(keys.mac(encode(body)), mac):
        raise BadChain("has a header that this key did not make", fix="check that the key belongs to this file")
    return mac


def check_receipt(receipt: Receipt, keys: ReceiptKeys) -> None:
    """Raises: BadChain, where a receipt is not as it was written."""
    if not hmac.compare_digest(keys.mac(_body(_fields(receipt))), receipt.mac):
        raise BadChain("was changed after it was written, or by another key")


def verify_chain(receipts: Iterable[Receipt], keys: ReceiptKeys, prev: str, *, head: str | None = None) -> Verified:
    """Check every receipt of a chain that begins after `prev`; with `head`, also that nothing is cut off its end.

    Raises: BadChain, with the number of the first receipt that is wrong.
    """
    count = 0
    for receipt in receipts:
        where = f"receipt {count + 1}"
        try:
            check_receipt(receipt, keys)
        except BadChain as e:
            raise BadChain(e.what, where=where) from None
        if receipt.prev != prev or receipt.seq != count + 1:
            raise BadChain("does not follow the one before it: receipts are missing, added or moved", where=where)
        prev = receipt.mac
        count += 1
    if head is not None and not hmac.compare_digest(prev, head):
        raise BadChain("does not end where the recorded head says: receipts are cut off or added at the end")
    return Verified(count, prev)


def _fields(receipt: Receipt) -> dict[str, Any]:
    return {name: getattr(receipt, name) for name in _TYPES}


def _body(fields: Mapping[str, object]) -> bytes:
    """What the mac covers: all fields but itself."""
    return encode({name: value for name, value in fields.items() if name != "mac"})


def _object(line: bytes) -> dict[str, Any]:
    try:
        return json_object(line, "")
    except NotCanonical as e:
        raise BadChain(e.what) from None
