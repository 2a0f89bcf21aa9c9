"""Problem documents (RFC 9457) with the error types of DAP; one exception carries them all.

`DapProblem` is what a `process_*` function raises; the HTTP edge turns it into a status and a document, and the
other side reads the document back with `problem_type`. Source: draft-ietf-ppm-dap-18, section 3.6.
"""

from __future__ import annotations

import base64
import binascii
import enum
import json
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from interlock.base.canonical import NotCanonical, json_object
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError

__all__ = [
    "MEDIA_TYPE",
    "URN",
    "BudgetSpent",
    "DapProblem",
    "ProblemType",
    "decoded",
    "from_b64url",
    "missing",
    "problem_type",
    "to_b64url",
]

MEDIA_TYPE: Final = "application/problem+json"
URN: Final = "urn:ietf:params:ppm:dap:error:"
OWN: Final = "mesh:dap/error/"  # before the types that DAP does not register
T = TypeVar("T")


class ProblemType(enum.Enum):
    """The registered error types, and one of ours; the value is the token behind the URN."""

    INVALID_MESSAGE = "invalidMessage"
    UNRECOGNIZED_TASK = "unrecognizedTask"
    UNRECOGNIZED_AGGREGATION_JOB = "unrecognizedAggregationJob"
    BATCH_INVALID = "batchInvalid"
    INVALID_BATCH_SIZE = "invalidBatchSize"
    INVALID_AGGREGATION_PARAMETER = "invalidAggregationParameter"
    BATCH_MISMATCH = "batchMismatch"
    STEP_MISMATCH = "stepMismatch"
    BATCH_OVERLAP = "batchOverlap"
    UNSUPPORTED_EXTENSION = "unsupportedExtension"
    INVALID_EXTENSION = "invalidExtension"
    BUDGET_SPENT = "budgetSpent"  # ours: the task's noise costs more than its budget has left

    @property
    def uri(self) -> str:
        return (OWN if self is ProblemType.BUDGET_SPENT else URN) + self.value


_NOT_FOUND: Final = frozenset({ProblemType.UNRECOGNIZED_TASK, ProblemType.UNRECOGNIZED_AGGREGATION_JOB})


class DapProblem(InterlockError):
    """A request that DAP refuses; `kind` is None for one outside DAP's own list (RFC 9457, about:blank)."""

    code = "dap-problem"

    def __init__(
        self,
        kind: ProblemType | None,
        what: str,
        *,
        task_id: bytes | None = None,
        status: int = 0,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(what, where="" if kind is None else kind.value)
        self.kind = kind
        self.task_id = task_id
        self.status = status or (404 if kind in _NOT_FOUND else 400)
        self.extra = dict(extra or {})

    def document(self) -> bytes:
        """The problem document, JSON in UTF-8."""
        body: dict[str, object] = {"status": self.status, "detail": self.what}
        if self.kind is not None:
            body = {"type": self.kind.uri, "title": self.kind.value, **body}
        if self.task_id is not None:
            body["taskid"] = to_b64url(self.task_id)
        return json.dumps({**body, **self.extra}).encode("utf-8")


class BudgetSpent(DapProblem):
    """A batch whose release would cost more privacy than its task has left; asking again does not help."""

    code = "budget-spent"

    def __init__(self, what: str, *, task_id: bytes | None = None, status: int = 403) -> None:
        super().__init__(ProblemType.BUDGET_SPENT, what, task_id=task_id, status=status)


def decoded(read: Callable[[bytes], T], body: bytes, task_id: bytes) -> T:
    """A request, read. Raises: DapProblem, invalidMessage, where its bytes do not follow its format."""
    try:
        return read(body)
    except Malformed as e:
        raise DapProblem(ProblemType.INVALID_MESSAGE, e.what, task_id=task_id) from None


def missing(what: str, task_id: bytes) -> DapProblem:
    """The answer 404 for what DAP has no error type for."""
    return DapProblem(None, f"no {what} has this id here", task_id=task_id, status=404)


def problem_type(body: bytes) -> ProblemType | None:
    """The DAP error type of a peer's answer; None where it names none that we know."""
    try:
        named = json_object(body, "problem document").get("type")
    except NotCanonical:
        return None
    return next((kind for kind in ProblemType if kind.uri == named), None)


def to_b64url(data: bytes) -> str:
    """URL-safe Base 64 with no padding (RFC 4648, sections 5 and 3.2)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def from_b64url(text: str, size: int) -> bytes | None:
    """The `size` bytes behind a text, or None where it is not their one spelling."""
    try:
        data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (ValueError, binascii.Error):
        return None
    return data if len(data) == size and to_b64url(data) == text else None
