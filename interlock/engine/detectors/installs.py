"""Packages that a shell command takes from a registry: a plain scan for installers and what stands after them.

It reads words and knows no shell grammar, as `commands` does. A package is written ECOSYSTEM:NAME@VERSION, its version
empty where the command leaves the choice to the registry; a path, an archive or a URL is no package.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from interlock.engine.detectors.commands import segments

__all__ = ["ECOSYSTEMS", "normal_package", "packages_in_command"]

ECOSYSTEMS: Final = ("cargo", "gem", "go", "npm", "pypi")
# program -> its ecosystem, and the words after which packages follow; none where they follow at once
_INSTALLERS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    **dict.fromkeys(("pip", "pip3"), ("pypi", frozenset({"download", "install", "wheel"}))),
    **dict.fromkeys(("pdm", "poetry", "uv"), ("pypi", frozenset({"add", "install"}))),
    "pipx": ("pypi", frozenset({"inject", "install", "run"})),
    "uvx": ("pypi", frozenset()),
    "npm": ("npm", frozenset({"add", "exec", "i", "install", "x"})),
    **dict.fromkeys(("bun", "pnpm", "yarn"), ("npm", frozenset({"add", "dlx", "i", "install", "x"}))),
    **dict.fromkeys(("bunx", "npx"), ("npm", frozenset())),
    "cargo": ("cargo", frozenset({"add", "install"})),
    "gem": ("gem", frozenset({"install"})),
    "go": ("go", frozenset({"get", "install", "run"})),
}
# of programs that run what they fetch: what stands after the first package is its own arguments
_RUNNERS: Final = frozenset({"bunx", "dlx", "exec", "npx", "run", "uvx", "x"})
# options whose value is no package
_VALUED: Final[Mapping[str, frozenset[str]]] = {
    "cargo": frozenset({"-F", "--branch", "--features", "--git", "--index", "--path", "--registry", "--root", "--tag"}),
    "gem": frozenset({"-i", "-n", "-s", "--bindir", "--install-dir", "--source"}),
    "go": frozenset({"-C", "-modfile", "-tags"}),
    "npm": frozenset({"-C", "-w", "--prefix", "--registry", "--tag", "--workspace"}),
    "pypi": frozenset(
        {"-c", "-e", "-f", "-i", "-r", "-t", "--constraint", "--editable", "--extra-index-url", "--find-links"}
        | {"--index", "--index-url", "--prefix", "--python", "--requirement", "--root", "--target"}
    ),
}
_VERSIONS: Final = frozenset({"-v", "--version", "--vers"})
_NAME: Final = {
    "pypi": re.compile(r"([A-Za-z0-9][\w.-]{0,99})(?:\[[^\]]*\])?(?:===?([^=,;<>!~*\s]{1,64})|[<>!~].{1,100})?"),
    "npm": re.compile(r"((?:@[a-z0-9~-][a-z0-9._~-]{0,99}/)?[a-z0-9~-][a-z0-9._~-]{0,99})(?:@([^@\s]{1,64}))?", re.I),
    "cargo": re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,99})(?:@=?([^@\s]{1,64}))?"),
    "gem": re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,99})(?::([^:\s]{1,64}))?"),
    "go": re.compile(
        r"((?:[a-z0-9-]{1,63}\.){1,5}[a-z0-9-]{1,63}(?:/[A-Za-z0-9._~-]{1,100}){0,20})(?:@([^@\s]{1,64}))?"
    ),
}
_ARCHIVES: Final = (".whl", ".tgz", ".tar.gz", ".zip", ".gem", ".crate")
_LIMIT: Final = 262_144
_SEPARATORS: Final = re.compile(r"[-_.]+")


def packages_in_command(command: str) -> Iterator[str]:
    """ECOSYSTEM:NAME@VERSION of each package that the command's installers are given."""
    for program, words in segments(command[:_LIMIT], _INSTALLERS):
        ecosystem, verbs = _INSTALLERS[program]
        at = next((i for i, word in enumerate(words[:4]) if word in verbs), None)
        if verbs and at is None:
            continue
        verb = program if at is None else words[at]
        yield from _named(ecosystem, words if at is None else words[at + 1 :], once=verb in _RUNNERS)


def normal_package(text: str) -> str:
    """A package as a person writes it (`npm:left-pad@1.0.0`, `pypi:x@*`), in the form that a command's has.

    Raises: ValueError, for an ecosystem that is not known, and what is no name with a version or `*`.
    """
    ecosystem, _, rest = text.partition(":")
    name, at, version = rest.rpartition("@")
    if ecosystem not in ECOSYSTEMS or not (name and at and version):
        raise ValueError(f"a package is ECOSYSTEM:NAME@VERSION, or @* for all versions ({', '.join(ECOSYSTEMS)})")
    found = _NAME[ecosystem].fullmatch(name)
    if found is None or found.group(2) or not re.fullmatch(r"\*|[A-Za-z0-9][A-Za-z0-9.+!_-]{0,63}", version):
        raise ValueError(f"is no package name and version of {ecosystem}")
    return f"{ecosystem}:{_normal(ecosystem, name)}@{version}"


def _named(ecosystem: str, words: Sequence[str], *, once: bool) -> Iterator[str]:
    version = next((b for a, b in itertools.pairwise(words) if a in _VERSIONS), "")
    version = version if ecosystem in ("cargo", "gem") else ""
    skip = False
    for word in words:
        if skip or word.startswith("-"):
            skip = not skip and (word in _VALUED[ecosystem] or (bool(version) and word in _VERSIONS))
            continue
        match = None if _is_place(word) else _NAME[ecosystem].fullmatch(word)
        if match is not None:
            yield f"{ecosystem}:{_normal(ecosystem, match.group(1))}@{match.group(2) or version}"
        if once:
            return


def _is_place(word: str) -> bool:
    return word.startswith((".", "/", "~", "git+")) or "://" in word or word.lower().endswith(_ARCHIVES)


def _normal(ecosystem: str, name: str) -> str:
    """A name in the one spelling that its registry takes for all of them (pypi: PEP 503; cargo: "_" for "-")."""
    if ecosystem == "pypi":
        return _SEPARATORS.sub("-", name).lower()
    if ecosystem == "cargo":
        return name.lower().replace("_", "-")
    return name.lower() if ecosystem == "npm" else name
