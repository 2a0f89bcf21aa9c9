"""Who may report: the seam for proofs of membership. dap carries them and asks; what they are is for others to know.

A task with the membership extension demands that each report has one public extension of the same number with a
proof. Both aggregators ask their own `admit` about each report, and check themselves what it says must be signed; so
neither can let in what the other would not. The proof fixes the report's id: one proof is one id, and DAP's own check
against replays makes that one report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from interlock.base.claims import Claim
from interlock.dap.drafts import ReportError
from interlock.dap.messages import MEMBERSHIP, Extension, ReportMetadata
from interlock.dap.shares import ReportRejected
from interlock.dap.task import Task, TaskRefused

__all__ = ["Admit", "NotAdmitted", "Owner", "ReportProof", "admit_all", "owned_by_none", "proof_in", "with_proof"]

# Task, metadata and public share of a report -> what has to be signed, or the report is turned down for good. Raises:
# NotAdmitted, to turn it down whatever is signed; any other InterlockError says that it cannot be told now, and the
# request is to be made again.
Admit = Callable[[Task, ReportMetadata, bytes], Sequence[Claim]]
# Task, report id, and what shows that whoever asks about a report sent it. Raises: NotAdmitted.
Owner = Callable[[Task, bytes, bytes], None]


class NotAdmitted(ReportRejected):
    """A report without a proof that its sender is a member."""

    def __init__(self, what: str) -> None:
        super().__init__(ReportError.REPORT_DROPPED, what)


class ReportProof(Protocol):
    """What a member shows with its one report of an epoch."""

    @property
    def report_id(self) -> bytes:
        """The 16 bytes that this proof makes the report's id."""

    @property
    def possession(self) -> bytes:
        """What shows, later and to the leader alone, that a report of this id is one's own; for an Owner to check."""

    def extension(self, task_id: bytes, time: int, public_share: bytes) -> bytes:
        """The proof for one report. Raises: ValueError, for a report of another task or epoch."""


def admit_all(task: Task, metadata: ReportMetadata, public_share: bytes) -> Sequence[Claim]:
    """Ask for nothing beyond the bearer token. Raises: TaskRefused, for a task that demands proofs."""
    if task.membership is not None:
        raise TaskRefused("asks for proofs of membership, and none can be checked here", fix="give it a commons")
    return ()


def owned_by_none(task: Task, report_id: bytes, proof: bytes) -> None:
    """Where no proof of possession can be checked. Raises: NotAdmitted."""
    raise NotAdmitted("no proof that a report is one's own can be checked here")


def proof_in(metadata: ReportMetadata) -> bytes:
    """The proof that a report came with. Raises: NotAdmitted, where there is none."""
    found = next((e.data for e in metadata.extensions if e.kind == MEMBERSHIP), None)
    if found is None:
        raise NotAdmitted("report has no proof of membership")
    return found


def with_proof(task: Task, proof: ReportProof | None, metadata: ReportMetadata, public_share: bytes) -> ReportMetadata:
    """A client's metadata with the proof for it, where the task asks for one."""
    if proof is None:
        return metadata
    data = proof.extension(task.task_id, metadata.time, public_share)
    return ReportMetadata(metadata.report_id, metadata.time, (Extension(MEMBERSHIP, data),))
