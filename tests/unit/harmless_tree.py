"""An ordinary checkout at /work/tree, for proofs on the text alone: no links, no secrets, the usual programs."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

TREE = "/work/tree"


class Ordinary:
    """Answers as such a checkout would; a glob gives one name."""

    def real(self, path: str) -> str | None:
        return posixpath.normpath(path)

    def expand(self, pattern: str) -> Sequence[str] | None:
        return [pattern.replace("*", "x").replace("?", "y")]

    def clean(self, path: str) -> bool:
        return True

    def names(self, directory: str) -> bool:
        return True

    def program(self, name: str) -> str | None:
        return name if name.startswith("/") else f"/usr/bin/{name}"

    def plain(self, settings: str, directory: str) -> bool:
        return True
