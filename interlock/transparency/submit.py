"""Adding an entry to a log, from the submitter's side; knows no HTTP.

    proof = submit(entry.data, policy, post)

`post` brings the entry's bytes to the log's `add` and its answer back; what comes back is believed only after it has
been verified, so a submitter keeps nothing but a proof that anyone will accept.
"""

from __future__ import annotations

from collections.abc import Callable

from interlock.transparency.policy import TlogPolicy
from interlock.transparency.proof import TlogProof, parse_proof

__all__ = ["submit"]


def submit(entry: bytes, policy: TlogPolicy, post: Callable[[bytes], bytes]) -> TlogProof:
    """Add an entry and return its verified proof; the same bytes may be submitted again and give the same index.

    Raises: whatever `post` raises; Malformed, UnknownLog, BadSignature, NoQuorum, BadProof.
    """
    proof = parse_proof(post(entry))
    proof.verify(entry, policy)
    return proof
