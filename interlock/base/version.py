"""The version, as pyproject.toml has it: to read it from the installed package takes longer than to judge a call."""

from __future__ import annotations

from typing import Final

__all__ = ["VERSION"]

VERSION: Final = "0.1.0"
