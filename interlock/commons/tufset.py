"""What python-tuf has no public name for: the metadata that its client trusts, and the time by which it is judged.

Nothing else of ours names a private part of python-tuf: a new version of it is held against this file alone.
"""

from __future__ import annotations

import datetime as _dt

from tuf.api.metadata import Targets  # type: ignore[attr-defined]
from tuf.ngclient._internal.trusted_metadata_set import TrustedMetadataSet
from tuf.ngclient.config import EnvelopeType
from tuf.ngclient.updater import Updater

from interlock.base.clock import MICROSECONDS

__all__ = ["TrustedMetadataSet", "judge_at", "load_delegated", "trust_in", "trusted_by"]


def trust_in(root: bytes) -> TrustedMetadataSet:
    """A set that trusts one root; whoever has the other files updates it, in TUF's order."""
    return TrustedMetadataSet(root, EnvelopeType.METADATA)


def trusted_by(updater: Updater) -> TrustedMetadataSet:
    """What a client trusts; it grows as the client reads."""
    return updater._trusted_set


def judge_at(trusted: TrustedMetadataSet, us: int) -> None:
    """Judge by this time (microseconds): python-tuf reads the wall clock, once (specification 5.1: one for all)."""
    trusted.reference_time = _dt.datetime.fromtimestamp(us / MICROSECONDS, tz=_dt.UTC)


def load_delegated(updater: Updater, role: str, parent: str) -> Targets:
    """A role's targets, verified; fetched, where the client has them not yet."""
    return updater._load_targets(role, parent)
