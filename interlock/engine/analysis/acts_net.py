"""What is asked of other machines and sent to them: URLs, data, and the files that go out with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.places import is_secret
from interlock.engine.analysis.shell_run import Call, Walk
from interlock.engine.analysis.values import Arg

__all__ = ["fetched", "host", "is_local", "is_remote", "saved_as", "sent"]

_LOCAL: Final = re.compile(
    r"^(?:\w+://)?(?:[^/@]*@)?(?:localhost|127\.\d+\.\d+\.\d+|\[::1\]|0\.0\.0\.0|host\.docker\.internal)(?=[:/]|$)",
    re.I,
)
_METADATA: Final = re.compile(
    r"169\.254\.16[9]\.254|169\.254\.170\.2\b|metadata\.google\.internal"
    r"|100\.100\.100\.200|fd00:ec2::254",
    re.I,
)
_REMOTE: Final = re.compile(r"^(?:[\w.-]+@)?[\w.\[\]:-]*[\w\]-]:(?!\\)|^rsync://|^scp://|^sftp://")
_HOST: Final = re.compile(r"^(?:\w+://)?(?:[^/@\s]*@)?([^/:?#\s]+)")


def is_local(url: str) -> bool:
    """Whether the URL leads to this machine."""
    return bool(_LOCAL.match(url))


def fetched(urls: Sequence[Arg]) -> Iterator[Finding]:
    """URLs that are asked."""
    for url in urls:
        if _METADATA.search(url.text):
            yield Finding("net.metadata", host(url.text), "cloud")
        yield Finding("net.fetch", host(url.text), "worktree" if is_local(url.text) else "remote")
        if url.taint == "secret":
            yield Finding("net.upload.secret", host(url.text), "remote")


def host(text: str) -> str:
    """The host of a URL, or of a bare `host/path`."""
    m = _HOST.match(text)
    return m.group(1) if m else text


def is_remote(text: str) -> bool:
    """Whether an argument of a copy names a place on another machine: `host:path`, `rsync://host/path`."""
    return bool(_REMOTE.match(text))


def saved_as(url: Arg) -> Arg:
    """The name that a URL's file is saved under."""
    return Arg(url.text.rpartition("/")[2] or "index.html")


def sent(
    walk: Walk, call: Call, data: Sequence[tuple[str, Arg]], urls: Sequence[Arg], files: Sequence[str]
) -> Iterator[Finding]:
    """What leaves with a request: the data (option, value), and files that they name; options of `files` name one."""
    if not data:
        return
    there = host(urls[0].text) if urls else ""
    local = bool(urls) and all(is_local(u.text) for u in urls)
    if not local:
        yield Finding("net.upload", there, "remote")
    for name, value in data:
        secret = value.taint == "secret"
        if name in files or (not name and "operands" in files):
            secret = secret or _reads_secret(walk, call, value.text)
        elif "@" in value.text and not name.endswith(("raw", "string")):
            path = value.text.rpartition("@")[2].split(";")[0]
            secret = secret or _reads_secret(walk, call, path)
        if secret and not local:
            yield Finding("net.upload.secret", there, "remote")


def _reads_secret(walk: Walk, call: Call, path: str) -> bool:
    if path in ("-", "."):
        return call.stdin is not None and call.stdin.taint == "secret"
    walk.read(Arg(path), call.program)
    return is_secret(walk.place(Arg(path)).path) and not path.endswith(".pub")
