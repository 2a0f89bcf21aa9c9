"""A fetcher over a dictionary."""

from __future__ import annotations

from interlock.base.fetch import NotFound, TooLarge


class MemoryFetcher:
    """Fills base.fetch.Fetcher from memory; `asked` are the paths that were asked for."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.asked: list[str] = []

    def fetch(self, path: str, *, max_length: int) -> bytes:
        self.asked.append(path)
        if path not in self.files:
            raise NotFound("is not there", where=path)
        if len(self.files[path]) > max_length:
            raise TooLarge(f"is larger than {max_length} bytes", where=path)
        return self.files[path]
