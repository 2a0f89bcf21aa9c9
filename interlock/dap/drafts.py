"""Which draft of DAP is spoken: its tag, its domain separation and its numbers for report errors, in one value.

The tag goes into every context and every HPKE info string, so two sides on different drafts never understand each
other by halves: nothing opens. Source: draft-ietf-ppm-dap-18, sections 4.1 (errors), 4.4 (upload), 4.6 (collect).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from interlock.base.codec import Malformed

__all__ = ["DAP_18", "Draft", "ReportError", "Role"]


class Role(enum.IntEnum):
    """Who speaks or listens; the number is the one on the wire."""

    COLLECTOR = 0
    CLIENT = 1
    LEADER = 2
    HELPER = 3


class ReportError(enum.Enum):
    """Why one report was turned down; the number on the wire is the draft's."""

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


@dataclass(frozen=True)
class Draft:
    """One draft: its tag and its table of report errors."""

    tag: str
    report_errors: Mapping[ReportError, int] = field(repr=False)

    def context(self, task_id: bytes) -> bytes:
        """The VDAF application context of a task."""
        return self.tag.encode("ascii") + task_id

    def input_share_info(self, recipient: Role) -> bytes:
        """HPKE info of an input share, from the client to `recipient`."""
        return self.tag.encode("ascii") + b" input share" + bytes([Role.CLIENT, recipient])

    def aggregate_share_info(self, sender: Role) -> bytes:
        """HPKE info of an aggregate share, from `sender` to the collector."""
        return self.tag.encode("ascii") + b" aggregate share" + bytes([sender, Role.COLLECTOR])

    def error_code(self, error: ReportError) -> int:
        return self.report_errors[error]

    def error_of(self, code: int) -> ReportError:
        """Raises: Malformed, for a number that this draft does not know."""
        for error, known in self.report_errors.items():
            if known == code:
                return error
        raise Malformed(f"report error {code} is not one of {self.tag}")


DAP_18: Final = Draft("dap-18", MappingProxyType({error: code for code, error in enumerate(ReportError, start=1)}))
