"""How a command of `interlock mesh` is added: its parser, and the module that is imported only when it runs."""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, cast

from interlock.base.errors import InterlockError

__all__ = ["Commands", "Only", "UnsupportedPlatform", "add", "add_service", "quickly"]

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # argparse has no public name for it


class Only(argparse._SubParsersAction):  # type: ignore[type-arg]  # at run time it is not generic
    """The commands of a group, of which one is named: the others' parsers are not made, where nobody asks for them.

    A parser costs argparse as much as the import of a module, and `interlock mesh` has eighty.
    """

    named: str | None = None  # None: all of them

    def add_parser(self, name: str, **kwargs: Any) -> argparse.ArgumentParser:
        """As argparse's; of a command that is not named, what takes everything and keeps nothing."""
        if self.named in (None, name):
            return cast(argparse.ArgumentParser, super().add_parser(name, **kwargs))
        return cast(argparse.ArgumentParser, _Unmade())


class _Unmade:
    """In the place of a parser and of all that is added to it."""

    def __getattr__(self, name: str) -> Callable[..., _Unmade]:
        return lambda *args, **kwargs: self


class UnsupportedPlatform(InterlockError):
    """A part that does not run on this system."""

    code = "unsupported-platform"


def add(
    group: Commands,
    name: str,
    module: str,
    function: str,
    told: str,
    *,
    home: bool = True,
    config: bool = True,
) -> argparse.ArgumentParser:
    """A command `name`, which the function of a module runs; `told` is its help. `--config` and `--home` by default."""
    parser = group.add_parser(name, help=told, description=told[0].upper() + told[1:] + ".")
    if config and name != "demo":
        parser.add_argument("--config", metavar="FILE", help="the configuration file")
    if home and name != "demo":
        parser.add_argument("--home", metavar="DIR", help="the node's home; by default the [mesh] section names it")
    parser.set_defaults(run=lambda args: _load(module, function)(args), parser=parser)
    return parser


def add_service(parser: argparse.ArgumentParser) -> None:
    """The options of what runs until it is stopped."""
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="of the lines on stderr")
    parser.add_argument("--stop-with-stdin", action="store_true", help="stop when standard input is closed")


def _load(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    if sys.platform == "win32":
        raise UnsupportedPlatform("does not run on Windows", where="interlock mesh", fix="use Linux or macOS")
    with quickly():
        found: Callable[[argparse.Namespace], int] = getattr(importlib.import_module(module), function)
    return found


@contextlib.contextmanager
def quickly() -> Iterator[None]:
    """Import modules without two costs of a command's start.

    What modules make stays: looking for garbage in it, again and again, is a sixth of the time. And httpx imports a
    command line of its own, with click and rich, wherever those are installed; another sixth. It does without it where
    they are not, so here they seem not to be.
    """
    enabled, hidden = gc.isenabled(), "httpx._main" not in sys.modules
    gc.disable()
    if hidden:
        sys.modules["httpx._main"] = None  # type: ignore[assignment]  # to import it is then an ImportError
    try:
        yield
    finally:
        if hidden:
            del sys.modules["httpx._main"]
        if enabled:
            gc.enable()
