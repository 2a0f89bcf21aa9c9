"""Which draft of DAP a task is spoken in: its tag, its numbers for report errors and its few rules, in one value.

The tag goes into every context and every HPKE info string, so two sides on different drafts never understand each
other by halves: nothing opens. Messages have one shape in all three; a task names its draft, and never changes it.

    draft_of("dap-19")      the draft of a tag; any other tag is refused
    draft.named(error)      how this draft says it: not every draft has a name for everything
    draft.error_code(error), draft.error_of(code)       names and numbers on the wire

Sources. dap-18: its own text, sections 4.1 (errors), 4.2 (task_info), 4.4 (upload), 4.5.3.2 (key id), 4.6 (collect).
dap-19: the difference that two independent implementations agree on, as its text is not at hand. dap-20: dap-19 under
its own tag. The last two are `verified=False`, and say so wherever they are shown.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from interlock.base.codec import Malformed
from interlock.base.errors import BadInput

__all__ = ["DAP_18", "DAP_19", "DAP_20", "DRAFTS", "Draft", "ReportError", "Role", "draft_of"]


class Role(enum.IntEnum):
    """Who speaks or listens; the number is the one on the wire."""

    COLLECTOR = 0
    CLIENT = 1
    LEADER = 2
    HELPER = 3


class ReportError(enum.Enum):
    """Why one report was turned down; the number on the wire is the draft's, and some are not in each draft."""

    BATCH_COLLECTED = "batch_collected"
    REPORT_REPLAYED = "report_replayed"
    REPORT_DROPPED = "report_dropped"
    HPKE_UNKNOWN_CONFIG_ID = "hpke_unknown_config_id"
    HPKE_DECRYPT_ERROR = "hpke_decrypt_error"
    VDAF_VERIFY_ERROR = "vdaf_verify_error"
    TASK_EXPIRED = "task_expired"
    INVALID_MESSAGE = "invalid_message"
    REPORT_TOO_EARLY = "report_too_early"
    TASK_NOT_STARTED = "task_not_started"
    OUTDATED_CONFIG = "outdated_config"
    UNKNOWN_VERIFICATION_KEY_ID = "unknown_verification_key_id"
    UNSUPPORTED_EXTENSION = "unsupported_extension"


@dataclass(frozen=True)
class Draft:
    """One draft. `verified` says whether it was written from the draft's own text."""

    tag: str
    verified: bool
    report_errors: Mapping[ReportError, int] = field(repr=False)
    # what a name that the draft does not have, or means otherwise, is said as
    said_as: Mapping[ReportError, ReportError] = field(repr=False)
    task_info_least: int  # bytes
    rejects_each_report: bool  # what an unknown verification key id does: this, or it fails the job

    @property
    def label(self) -> str:
        """The draft as it is shown to people."""
        return self.tag if self.verified else f"{self.tag} (unverified)"

    def context(self, task_id: bytes) -> bytes:
        """The VDAF application context of a task."""
        return self.tag.encode("ascii") + task_id

    def input_share_info(self, recipient: Role) -> bytes:
        """HPKE info of an input share, from the client to `recipient`."""
        return self.tag.encode("ascii") + b" input share" + bytes([Role.CLIENT, recipient])

    def aggregate_share_info(self, sender: Role) -> bytes:
        """HPKE info of an aggregate share, from `sender` to the collector."""
        return self.tag.encode("ascii") + b" aggregate share" + bytes([sender, Role.COLLECTOR])

    def named(self, error: ReportError) -> ReportError:
        return self.said_as.get(error, error)

    def error_code(self, error: ReportError) -> int:
        """Raises: ValueError, for an error that this draft has no number for."""
        if error not in self.report_errors:
            raise ValueError(f"{self.tag} has no number for {error.value}")
        return self.report_errors[error]

    def error_of(self, code: int) -> ReportError:
        """Raises: Malformed, for a number that this draft does not know."""
        for error, known in self.report_errors.items():
            if known == code:
                return error
        raise Malformed(f"report error {code} is not one of {self.tag}")


def _numbered(*errors: ReportError) -> Mapping[ReportError, int]:
    return MappingProxyType({error: code for code, error in enumerate(errors, start=1)})


_E: Final = ReportError
_FIRST_SIX: Final = (
    _E.BATCH_COLLECTED,
    _E.REPORT_REPLAYED,
    _E.REPORT_DROPPED,
    _E.HPKE_UNKNOWN_CONFIG_ID,
    _E.HPKE_DECRYPT_ERROR,
    _E.VDAF_VERIFY_ERROR,
)
_ERRORS_18: Final = _numbered(
    *_FIRST_SIX,
    _E.TASK_EXPIRED,
    _E.INVALID_MESSAGE,
    _E.REPORT_TOO_EARLY,
    _E.TASK_NOT_STARTED,
    _E.OUTDATED_CONFIG,
)
_ERRORS_19: Final = _numbered(
    *_FIRST_SIX,
    _E.INVALID_MESSAGE,
    _E.REPORT_TOO_EARLY,
    _E.UNKNOWN_VERIFICATION_KEY_ID,
    _E.UNSUPPORTED_EXTENSION,
)
_SAID_18: Final = MappingProxyType(
    {
        _E.HPKE_UNKNOWN_CONFIG_ID: _E.HPKE_DECRYPT_ERROR,  # 4.5.3.3
        _E.UNSUPPORTED_EXTENSION: _E.INVALID_MESSAGE,  # 4.5.3.4
    }
)
_SAID_19: Final = MappingProxyType(
    {
        _E.TASK_EXPIRED: _E.REPORT_DROPPED,
        _E.TASK_NOT_STARTED: _E.REPORT_DROPPED,
        _E.OUTDATED_CONFIG: _E.HPKE_UNKNOWN_CONFIG_ID,
    }
)

DAP_18: Final = Draft("dap-18", True, _ERRORS_18, _SAID_18, task_info_least=1, rejects_each_report=False)
DAP_19: Final = Draft("dap-19", False, _ERRORS_19, _SAID_19, task_info_least=0, rejects_each_report=True)
DAP_20: Final = Draft("dap-20", False, _ERRORS_19, _SAID_19, task_info_least=0, rejects_each_report=True)
DRAFTS: Final[Mapping[str, Draft]] = MappingProxyType({d.tag: d for d in (DAP_18, DAP_19, DAP_20)})


def draft_of(tag: str) -> Draft:
    """Raises: BadInput, for a draft that is not spoken here."""
    if tag not in DRAFTS:
        raise BadInput("is no draft that is spoken here", where="the draft", fix=f"use {', '.join(DRAFTS)}")
    return DRAFTS[tag]
