"""The console script; and the wall around `interlock hook AGENT`, which lets a call through only by a whole answer.

Coding agents run a tool whenever the hook before it dies in a way they did not expect, so this path ends in two ways
only: 0 with an answer that was checked, written once and whole; or 2 with one line on stderr. To hold that when an
import fails, a stack overflows, memory ends or native code crashes, two processes share the work:

    parent   imports a few modules of the standard library and nothing of ours; reads stdin, bounded; owns the
             deadline and the signals; prints only a frame that arrived whole
    child    imports the guard, judges, and sends one frame: b"0" answer, or b"2" one line why not

The installed command names this file by its path and runs it with `python -I`: neither the folder the agent works
in nor PYTHONPATH can then put a module in front of ours, and a package that cannot be imported still ends in 2.
Where there is no fork (Windows), one process does both, with a timer thread.

A result (PostToolUse) needs one thing more. Exit code 2 does not keep it from the model, and `continue: false` does,
on exit code 2 as well (measured, Claude Code 2.1.332); so when a result could not be judged, the run ends with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import Final, NoReturn

__all__ = ["main"]

_HARD_SECONDS: Final = 10.0  # under the time-out that install-hook writes; the deadline of the guard itself is shorter
_STDIN_LIMIT: Final = 32 << 20
_HEAD: Final = 9  # frame: kind (1), length (8, big-endian), payload
_FAULT: Final = "a fault of interlock"
# agent -> (what only a result's payload holds, what to print when that result could not be judged)
_UNJUDGED: Final[dict[str, tuple[bytes, bytes]]] = {
    "claude-code": (
        b'"PostToolUse"',
        b'{"continue":false,"stopReason":"interlock could not judge a tool result; the run ends before it is read"}\n',
    )
}


_SIGNALS: Final = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGXCPU")


class _Refused(BaseException):
    """No answer can be given; the text is the line to print."""


def main(argv: list[str] | None = None) -> int:
    """Run `interlock ARGV...` and return its exit code; `hook` does not return."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["hook"] and arguments[-1] not in ("-h", "--help"):
        _hook(arguments[1:])
    try:
        from interlock.node.cli.main import main as command_line

        return command_line(arguments)
    except KeyboardInterrupt:
        return _ended("stopped", 1)
    except ImportError as e:
        return _ended(_line(e), 2)
    except Exception as e:  # noqa: BLE001 - the last edge, for what goes wrong before the command line stands
        return _ended(_line(e), 3)


def _ended(line: str, code: int) -> int:
    with contextlib.suppress(OSError):
        _write_all(2, f"interlock: {line}\n".encode("utf-8", "replace"))
    return code


def _hook(arguments: list[str]) -> NoReturn:
    last_words, child = b"", [0]
    try:
        for fd in (0, 1):  # open, else a pipe of ours could take that number; and blocking, whatever the agent made it
            os.set_blocking(fd, True)
        _catch_signals()
        raw = _read_all(0, _STDIN_LIMIT)
        marker, words = _UNJUDGED.get(arguments[0] if arguments else "", (b"", b""))
        last_words = words if marker and marker in raw else b""
        frame = _judged(arguments, raw, child)
        if len(frame) < _HEAD or int.from_bytes(frame[1:_HEAD], "big") != len(frame) - _HEAD:
            raise _Refused("the judging process ended without an answer")
        if frame[:1] != b"0":
            raise _Refused(frame[_HEAD:].decode("utf-8", "replace"))
        _write_all(1, frame[_HEAD:])
        os._exit(0)
    except BaseException as e:  # noqa: BLE001 - whatever happened, the call does not go ahead
        _refuse(e, last_words, child[0])


def _refuse(cause: BaseException, last_words: bytes, child: int) -> NoReturn:
    """Exit 2 with one line; each step may fail, and the exit code stays."""
    for step in (_deafen, lambda: _kill(child), lambda: _write_all(1, last_words), lambda: _say(_line(cause))):
        with contextlib.suppress(BaseException):  # a closed pipe must not change the exit code
            step()
    os._exit(2)


def _catch_signals() -> None:
    for name in _SIGNALS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _on_signal)
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, _HARD_SECONDS)


def _on_signal(number: int, frame: object) -> NoReturn:
    name = signal.Signals(number).name
    raise _Refused(f"no answer within {_HARD_SECONDS:g} seconds" if name == "SIGALRM" else f"ended by {name}")


def _deafen() -> None:
    """From here on nothing may interrupt the way out."""
    for name in _SIGNALS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def _kill(child: int) -> None:
    if child:
        os.kill(child, signal.SIGKILL)


def _read_all(fd: int, limit: int) -> bytes:
    parts, size = [], 0
    while data := os.read(fd, 1 << 16):
        parts.append(data)
        size += len(data)
        if size > limit:
            raise _Refused(f"hook input is larger than {limit} bytes")
    return b"".join(parts)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _judged(arguments: list[str], raw: bytes, child: list[int]) -> bytes:
    """The child's frame, however much of it came; the child's number is left in `child` so that it can be ended."""
    if not hasattr(os, "fork"):
        return _judged_here(arguments, raw)
    out, into = os.pipe()
    child[0] = os.fork()
    if child[0] == 0:
        try:
            _become_child()
            _write_all(into, _frame(arguments, raw))
        finally:
            os._exit(0)
    os.close(into)
    return _read_all(out, 2 * _STDIN_LIMIT)


def _become_child() -> None:
    """Default signals, a last alarm should the parent die, and nothing that a stray print could reach."""
    for name in _SIGNALS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, _HARD_SECONDS + 1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)


def _judged_here(arguments: list[str], raw: bytes) -> bytes:
    def late() -> None:
        _refuse(_Refused(f"no answer within {_HARD_SECONDS:g} seconds"), b"", 0)

    timer = threading.Timer(_HARD_SECONDS, late)
    timer.daemon = True
    timer.start()
    frame = _frame(arguments, raw)
    timer.cancel()
    return frame


def _frame(arguments: list[str], raw: bytes) -> bytes:
    try:
        from interlock._approvals import HookQueue
        from interlock._install import install
        from interlock.interceptors.hooks.entry import answer

        kind, payload = b"0", answer(arguments, raw, install, HookQueue)
    except BaseException as e:  # noqa: BLE001 - the child says why, and the parent refuses
        kind, payload = b"2", _line(e).encode("utf-8", "replace")
    return kind + len(payload).to_bytes(_HEAD - 1, "big") + payload


def _line(cause: BaseException) -> str:
    """One line for a person: our own errors in their words, any other by its type, for its text may hold a value."""
    if isinstance(cause, _Refused) or hasattr(cause, "exit_code"):
        text = str(cause)
    elif isinstance(cause, ImportError):
        text = f"interlock is damaged ({cause.name or 'a module'} cannot be imported); install it again"
    elif isinstance(cause, RecursionError | MemoryError):
        text = f"the input is too large or too deep to judge ({type(cause).__name__})"
    elif isinstance(cause, OSError):
        text = f"the guard could not read or write ({cause.strerror or type(cause).__name__})"
    else:
        text = f"{_FAULT} ({type(cause).__name__}); please report it"
    return "".join(c if c.isprintable() else " " for c in text)[:400]


def _say(line: str) -> None:
    _write_all(2, f"interlock: blocked: {line}\n".encode("utf-8", "replace"))


if __name__ == "__main__":
    if not __package__:  # run by path: our package's folder, behind the standard library and ahead of other packages
        here = os.path.dirname(os.path.abspath(__file__))
        sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
        at = next((i for i, p in enumerate(sys.path) if p.endswith("-packages")), len(sys.path))
        sys.path.insert(at, os.path.dirname(here))
    sys.exit(main())
