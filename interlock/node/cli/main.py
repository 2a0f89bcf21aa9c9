"""The argument tree, and the one table from a failure to an exit code.

    0 ok · 1 refused, or a check failed · 2 usage, input or environment · 3 our fault

Each command group is a module with `register(commands)`. Only the group that was named is imported and put into the
tree, or all of them for the help; what needs an extra is imported only when such a command runs.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TextIO

from interlock.base.errors import EXIT_FAULT, EXIT_OK, EXIT_REFUSED, EXIT_USAGE, InterlockError, fault_line, one_line
from interlock.base.files import os_reason
from interlock.node.cli.mesh_args import quickly

__all__ = ["main"]

_EXTRA: Final = {
    "httpx",
    "starlette",
    "uvicorn",
    "cryptography",
    "nacl",
    "tuf",
    "securesystemslib",
    "Cryptodome",
    "rich",
}
# command -> the module that adds it
_GROUPS: Final[Mapping[str, str]] = {
    "install-hook": "interlock.node.cli.hook",
    "hook": "interlock.node.cli.hook",
    "doctor": "interlock.node.cli.doctor",
    "policy": "interlock.node.cli.policy",
    "approve": "interlock.node.cli.approve",
    "receipts": "interlock.node.cli.receipts",
    "mesh": "interlock.node.cli.mesh",
}
_EPILOG: Final = """\
exit codes: 0 ok, 1 refused or a check failed, 2 usage, input or environment, 3 our fault

start here:
  interlock install-hook claude-code    guard Claude Code on this machine
  interlock doctor                      see what is guarded, and what is not
  interlock policy test FILE            run the examples that a policy's rules carry
  interlock mesh demo                   the whole loop on this machine, in under a minute
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise SystemExit(_fail(f"{message}; see {self.prog} --help", EXIT_USAGE, self.prog))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; one line on stderr says why where it is not 0."""
    code = _guarded(argv)
    try:
        if sys.stdout is not None:  # None: the process was started without one
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has gone; say nothing more
        _abandon(sys.stdout)
        return code or EXIT_REFUSED
    except OSError as e:
        _abandon(sys.stdout)
        return code or _fail(f"standard output: {os_reason(e)}", EXIT_USAGE)
    return code


def _abandon(stream: TextIO) -> None:
    """Keep Python from flushing what is left into a place that takes no more: its exit code would replace ours."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    with quickly():
        tree = _tree(*words[:2])
    args, left = tree.parse_known_args(words)
    if left:  # of the command that was named: argparse would send its user to the help of all of them
        args.parser.error(f"unrecognized arguments: {' '.join(left)}")
    run: Callable[[argparse.Namespace], int] | None = getattr(args, "run", None)
    if run is None:
        args.parser.print_help()
        return EXIT_OK
    return run(args)


def _tree(named: str | None = None, below: str | None = None) -> argparse.ArgumentParser:
    """The tree of the command that is named, and of the one `below` it; of all of them, where that is no command's."""
    parser = _Parser(
        prog="interlock",
        description="A guard for AI agents: it decides before an action takes effect, and before its result.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_version())
    parser.set_defaults(parser=parser)
    kind: type[argparse.ArgumentParser] = _Parser
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=kind)
    for module in _modules(named):
        group = importlib.import_module(module)
        if module == _GROUPS["doctor"]:  # it also tells of this user's node
            group.register(commands, more=(importlib.import_module(_GROUPS["mesh"]).node,))
        elif module == _GROUPS["mesh"]:
            group.register(commands, below if named == "mesh" else None)
        else:
            group.register(commands)
    return parser


def _modules(named: str | None) -> list[str]:
    if named == "--version":
        return []
    return [_GROUPS[named]] if named is not None and named in _GROUPS else list(dict.fromkeys(_GROUPS.values()))


def _version() -> str:
    from interlock import __version__

    return f"interlock {__version__}"


def _guarded(argv: Sequence[str] | None) -> int:
    try:
        return _run(argv)
    except SystemExit as e:  # of argparse: 0 after --help, 2 after a usage error
        return e.code if isinstance(e.code, int) else EXIT_OK
    except InterlockError as e:
        return _fail(str(e), e.exit_code)
    except ModuleNotFoundError as e:
        missing = (e.name or "").split(".")[0]
        if missing == "interlock":
            return _fail(f"interlock is damaged ({e.name} cannot be imported); install it again", EXIT_USAGE)
        if missing not in _EXTRA:
            return _fault(e)
        return _fail(f"this command needs {missing}; install it with: pip install 'interlock[mesh]'", EXIT_USAGE)
    except KeyboardInterrupt:
        return _fail("stopped", EXIT_REFUSED)
    except BrokenPipeError:
        return EXIT_REFUSED
    except OSError as e:
        where = f"{e.filename}: " if e.filename else ""
        return _fail(f"{where}{e.strerror or type(e).__name__}", EXIT_USAGE)
    except Exception as e:  # noqa: BLE001 - the edge: whatever is left is our fault, and one line with exit code 3
        return _fault(e)


def _fault(e: Exception) -> int:
    logging.getLogger("interlock").debug("fault", exc_info=e)
    return _fail(fault_line(e), EXIT_FAULT)


def _fail(message: str, code: int, prog: str = "interlock") -> int:
    try:
        if sys.stderr is not None:
            print(f"{prog}: {one_line(message)}", file=sys.stderr, flush=True)
    except OSError:
        _abandon(sys.stderr)
    return code
