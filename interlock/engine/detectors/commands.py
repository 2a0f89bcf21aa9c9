"""Hosts that a shell command talks to: a plain scan for network programs and what stands after them.

It reads words and knows no shell grammar: what hides a program's name hides the host too, and engine.analysis is
there for that. A word that only may be a host counts where it has a host's form.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Final

from interlock.engine.detectors.hosts import BadHost, host_of_url, normal_host, urls_in_text

__all__ = ["hosts_in_command", "segments"]

_PROGRAMS: Final = frozenset(
    {"git", "aria2c", "axel", "curl", "ftp", "http", "https", "lftp", "nc", "ncat", "netcat"}
    | {"rsync", "scp", "sftp", "ssh", "telnet", "wget", "xh"}
)
_COPIERS: Final = frozenset({"git", "rsync", "scp"})  # a host is written HOST:PATH, anything else is a local path
_GIT: Final = frozenset({"clone", "fetch", "ls-remote", "pull", "push", "remote", "submodule"})
# options whose value is a file, a header or data, and no host
_VALUED: Final = frozenset(
    {
        *(f"-{c}" for c in "AbcdDeEFHiKLmoOpPQTuUwX"),
        "--data",
        "--data-binary",
        "--data-raw",
        "--data-urlencode",
        "--form",
    }
    | {
        "--header",
        "--output",
        "--output-document",
        "--post-data",
        "--post-file",
        "--request",
        "--upload-file",
        "--user",
    }
)
_WORD: Final = re.compile(r"\"([^\"]*)\"|'([^']*)'|([;|&\n()])|([^\s;|&()\"']+)")
_SCP: Final = re.compile(r"(?:[\w.+-]{1,64}@)?([A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]+\]):(?!//)")
_NAMED: Final = re.compile(
    r"(?:[\w.+-]{1,64}@)?((?:[A-Za-z0-9_-]{1,63}\.){1,10}[A-Za-z0-9-]{1,63})(?::\d{1,5})?(?:/|\Z)"
)
_VERSION: Final = re.compile(r"\d+(?:\.\d+){0,2}\Z")
_LIMIT: Final = 262_144


def hosts_in_command(command: str) -> Iterator[str]:
    """Normal forms of the hosts that network programs are given; a host that cannot be read is left out."""
    for program, words in segments(command[:_LIMIT], _PROGRAMS):
        if program == "git" and not _GIT.intersection(words[:4]):
            continue
        skip = False
        for word in words:
            if not skip:
                yield from _hosts(word, program)
                if program == "ssh" and not word.startswith("-"):
                    break  # the rest is the remote command
            skip = word in _VALUED and program != "git"


def segments(command: str, programs: Container[str]) -> Iterator[tuple[str, list[str]]]:
    """Each of these programs with the words after it, up to the end of its simple command."""
    program, words = "", list[str]()
    for match in _WORD.finditer(command):
        quoted, single, separator, bare = match.groups()
        if separator:
            if program:
                yield program, words
            program, words = "", []
            continue
        word = next(part for part in (quoted, single, bare) if part is not None)
        if program:
            words.append(word)
        elif (name := word.rsplit("/", 1)[-1]) in programs:
            program = name
    if program:
        yield program, words


def _hosts(word: str, program: str) -> Iterator[str]:
    if "://" in word:
        for url in urls_in_text(word):
            yield from _read(url)
        return
    if word.startswith("-"):
        return
    named = (_SCP if program in _COPIERS else _NAMED).match(word)
    if named and not _VERSION.match(named.group(1)):
        yield from _normal(named.group(1))


def _read(url: str) -> Iterator[str]:
    try:
        host = host_of_url(url)
    except BadHost:
        return
    if host is not None:
        yield host


def _normal(text: str) -> Iterator[str]:
    try:
        yield normal_host(text)
    except BadHost:
        return
