"""What became of a report: a member asks the leader by its id, and is told where it stands or why it was turned down.

An extension of ours, beside DAP, which tells a client no more than whether its report was stored. Who asks has to show
that the report is its own: the bearer token it was sent with or, where reports prove membership, a signature by the key
that the report was shown with. Of others' reports the answer is the same as of one that never was.

    waiting -> in a job -> aggregated -> collected;    from the first three: rejected, with error, side and step

A report is known for as long as its id is kept; afterwards it is `forgotten`, which says nothing of it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final, Self

from interlock.base.codec import Malformed, Reader, Writer
from interlock.dap.drafts import ReportError, Role
from interlock.dap.messages import REPORT_ID_SIZE, Message, media_type, write_all
from interlock.dap.task import Task
from interlock.dap.transport import Exchange, checked

__all__ = ["FATES", "QUESTIONS_MOST", "Fate", "FateReq", "FateResp", "Question", "Standing", "Step", "ask_fates"]

FATES: Final = ("interlock", "fates")  # where the leader answers, below the task
QUESTIONS_MOST: Final = 100
_VERSION: Final = 1  # of these two messages


class Standing(enum.Enum):
    """Where a report stands."""

    UNKNOWN = "not known"  # or another's
    WAITING = "waiting"
    IN_JOB = "in a job"
    AGGREGATED = "aggregated"
    COLLECTED = "collected"
    REJECTED = "rejected"
    FORGOTTEN = "forgotten"


class Step(enum.Enum):
    """At which step a report was turned down."""

    INIT = "init"  # opened, read and judged
    FINISH = "finish"  # the job was ended or abandoned
    REPAIR = "repair"  # the sides did not hold its job alike


_STANDINGS: Final = tuple(Standing)  # their numbers on the wire
_STEPS: Final = (None, *Step)
_SIDES: Final = {0: None, Role.LEADER.value: Role.LEADER, Role.HELPER.value: Role.HELPER}
_ERRORS: Final = {error.value: error for error in ReportError}


@dataclass(frozen=True)
class Question(Message):
    """One report: its id, its time, and what shows whose it is; no proof where a bearer token does."""

    report_id: bytes
    time: int
    proof: bytes = field(default=b"", repr=False)

    def write(self, w: Writer) -> None:
        w.fixed(self.report_id, REPORT_ID_SIZE).u64(self.time).opaque16(self.proof)

    @classmethod
    def read(cls, r: Reader) -> Self:
        return cls(r.take(REPORT_ID_SIZE), r.u64(), r.opaque16())


@dataclass(frozen=True)
class Fate(Message):
    """The answer on one report; error, side and step of one that was rejected, as far as they were written down."""

    report_id: bytes
    standing: Standing
    error: ReportError | None = None
    side: Role | None = None
    step: Step | None = None

    def write(self, w: Writer) -> None:
        w.fixed(self.report_id, REPORT_ID_SIZE).u8(_STANDINGS.index(self.standing))
        w.opaque8(b"" if self.error is None else self.error.value.encode("ascii"))
        w.u8(0 if self.side is None else self.side.value).u8(_STEPS.index(self.step))

    @classmethod
    def read(cls, r: Reader) -> Self:
        report_id, standing, error, side, step = r.take(REPORT_ID_SIZE), r.u8(), r.opaque8(), r.u8(), r.u8()
        named = error.decode("ascii", "replace")
        if standing >= len(_STANDINGS) or side not in _SIDES or step >= len(_STEPS):
            raise Malformed("a report's standing, side or step is not known here", fix="upgrade interlock")
        if named and named not in _ERRORS:
            raise Malformed("a report's error is not known here", fix="upgrade interlock")
        found = cls(report_id, _STANDINGS[standing], _ERRORS.get(named), _SIDES[side], _STEPS[step])
        if (found.standing is Standing.REJECTED) != (found.error is not None):
            raise Malformed("an error belongs to a report that was rejected, and to no other")
        if (found.side is None) != (found.step is None) or (found.side is not None and found.error is None):
            raise Malformed("a side and a step belong together, to a report that was rejected")
        return found


@dataclass(frozen=True)
class FateReq(Message):
    """A member's questions, each report once."""

    questions: tuple[Question, ...]

    def write(self, w: Writer) -> None:
        w.u8(_VERSION)
        write_all(w, self.questions)

    @classmethod
    def read(cls, r: Reader) -> Self:
        _demand_version(r)
        questions = tuple(r.many(Question.read, most=QUESTIONS_MOST))
        if len({question.report_id for question in questions}) != len(questions):
            raise Malformed("a report is asked for twice")
        return cls(questions)


@dataclass(frozen=True)
class FateResp(Message):
    """The leader's answers, in the order of the questions."""

    fates: tuple[Fate, ...]

    def write(self, w: Writer) -> None:
        w.u8(_VERSION)
        write_all(w, self.fates)

    @classmethod
    def read(cls, r: Reader) -> Self:
        _demand_version(r)
        return cls(tuple(r.many(Fate.read, most=QUESTIONS_MOST)))


def ask_fates(exchange: Exchange, task: Task, questions: tuple[Question, ...]) -> dict[bytes, Fate]:
    """What became of reports, by their ids; `exchange` carries the member's token, where the task asks for one.

    Raises: Unreachable; DapProblem, where the leader refuses; Malformed, for an answer that is none to these questions.
    """
    url, answer = task.leader_resource(*FATES), media_type("fate-resp")
    reply = checked(exchange("POST", url, media_type("fate-req"), FateReq(questions).encode()), url, answer)
    fates = FateResp.decode(reply.body).fates
    if [fate.report_id for fate in fates] != [question.report_id for question in questions]:
        raise Malformed("the leader answered for reports that were not asked for")
    return {fate.report_id: fate for fate in fates}


def _demand_version(r: Reader) -> None:
    version = r.u8()
    if version != _VERSION:
        raise Malformed(f"questions of version {version} are not known here", fix="upgrade interlock")
