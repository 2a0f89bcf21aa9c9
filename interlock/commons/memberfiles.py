"""What an issuer has published in a commons: member keys before an epoch, its count afterwards; both logged."""

from __future__ import annotations

from dataclasses import dataclass, field

from interlock.base.codec import Malformed
from interlock.commons.enrolment import parse_count
from interlock.commons.layout import COUNTS_RING, MEMBERS_RING, counts_path, members_path
from interlock.commons.membership import parse_member_keys

__all__ = ["TaskFile", "member_file"]


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
