"""What an issuer has published in a commons: member keys before an epoch, its count afterwards; both logged. And that
whoever runs it runs no aggregator.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.base.codec import Malformed
from interlock.base.keys import Ed25519Verifier
from interlock.commons.enrolment import parse_count
from interlock.commons.layout import COUNTS_RING, MEMBERS_RING, counts_path, members_path
from interlock.commons.membership import parse_member_keys
from interlock.commons.operators import OneHand, Operators

__all__ = ["TaskFile", "demand_issuer_apart", "member_file"]


@dataclass(frozen=True)
class TaskFile:
    """A file that the role `tasks` signs: where it goes, and what its log entry calls it. It never changes."""

    task: str
    epoch: int
    ring: str
    path: str
    data: bytes = field(repr=False)


def member_file(data: bytes, *, where: str) -> TaskFile:
    """Read member keys or a final count as they are to be published. Raises: Malformed, BadSignature, BadKey."""
    if b'"interlock-member-keys"' in data:
        keys = parse_member_keys(data, where=where)
        return TaskFile(keys.task, keys.epoch, MEMBERS_RING, members_path(keys.task, keys.epoch), data)
    count = parse_count(data, where=where)
    if not count.final:
        raise Malformed("may still grow", where=where, fix="publish the count once the epoch is closed")
    return TaskFile(count.task, count.epoch, COUNTS_RING, counts_path(count.task, count.epoch), data)


def demand_issuer_apart(operators: Operators, issuer: Ed25519Verifier, leader: str, helper: str) -> None:
    """Refuse an issuer that nobody on the list runs, or that a body runs which runs an aggregator of the task too.

    Such a body would know who asked for a token when, and see reports come in. Raises: OneHand.
    """
    body = operators.runs("issuer", [issuer.text])
    if body is None:
        told = "is an issuer that no operator on the commons' list runs"
        raise OneHand(told, where=issuer.text, fix="ask the commons to list it; until then nothing is reported")
    for role, url in (("leader", leader), ("helper", helper)):
        if operators.runs(role, [url]) == body:
            told = f"{body} runs the {role} and the issuer, and could tell whose reports are whose"
            raise OneHand(told, where=url, fix="nothing is reported to this task")
