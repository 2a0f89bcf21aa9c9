"""Every detector by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from interlock.engine.detectors import egress, indicator, outgoing, pii, secrets, texts
from interlock.engine.detectors.spec import DetectorSpec

__all__ = ["REGISTRY"]

REGISTRY: Final[Mapping[str, DetectorSpec]] = MappingProxyType(
    {
        **egress.DETECTORS,
        **indicator.DETECTORS,
        **outgoing.DETECTORS,
        **pii.DETECTORS,
        **secrets.DETECTORS,
        **texts.DETECTORS,
    }
)
