"""How many organisations have to stand behind a number that anyone is told."""

from __future__ import annotations

from typing import Final

__all__ = ["DEMO_LEAST", "LEAST"]

LEAST: Final = 10  # below this a sum says too much about each
DEMO_LEAST: Final = 3  # on one machine, and only where somebody asked for a demo
