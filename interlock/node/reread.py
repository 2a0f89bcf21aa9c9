"""A file that may be replaced while a role is at work, and is read again then."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from interlock.base.errors import InterlockError
from interlock.base.files import seen_state

__all__ = ["Reread"]

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Reread(Generic[T]):
    """What a file holds; a call gives what it holds now."""

    def __init__(self, path: Path, load: Callable[[Path], T]) -> None:
        """Raises: what `load` raises."""
        self._path = path
        self._load = load
        self._seen = seen_state(path)
        self._held = load(path)

    def __call__(self) -> T:
        """A file that is damaged or gone once the role is at work is told of, and what was read before holds on."""
        seen = seen_state(self._path)
        if seen != self._seen:
            self._seen = seen
            try:
                self._held = self._load(self._path)
            except InterlockError as e:
                _log.error("what was read before holds on: %s", e)
        return self._held
