"""The one root of interlock's own errors, and the one table of their stable codes.

Three faults, three types: what a peer, a file or a user got wrong is an `InterlockError`; what we got wrong is
an `AssertionError`; what the calling program got wrong is a `RuntimeError` or a `ValueError`.

    InterlockError            code, exit code from CODES; str() is one line: where: what; what to do
     +- one subclass wherever a caller would act differently, defined in the room that raises it
"""

from __future__ import annotations

from typing import ClassVar, Final

__all__ = [
    "CODES",
    "EXIT_FAULT",
    "EXIT_OK",
    "EXIT_REFUSED",
    "EXIT_USAGE",
    "MESSAGE_LIMIT",
    "BadInput",
    "InterlockError",
    "fault_line",
    "one_line",
]

EXIT_OK: Final = 0
EXIT_REFUSED: Final = 1  # something was refused, or a check failed
EXIT_USAGE: Final = 2  # usage, input or environment
EXIT_FAULT: Final = 3  # our fault

# code -> exit code. A code never changes its meaning; it is what programs match on.
CODES: Final[dict[str, int]] = {
    # input and environment
    "bad-input": EXIT_USAGE,
    "bad-policy": EXIT_USAGE,
    "bad-config": EXIT_USAGE,
    "bad-key": EXIT_USAGE,
    "bad-pack": EXIT_USAGE,
    "bad-state": EXIT_USAGE,
    "newer-format": EXIT_USAGE,
    "not-writable": EXIT_USAGE,
    "locked": EXIT_USAGE,
    "port-in-use": EXIT_USAGE,
    "unreachable": EXIT_USAGE,
    "unsupported-platform": EXIT_USAGE,
    "no-consent": EXIT_USAGE,
    # refused by the guard
    "blocked": EXIT_REFUSED,
    "not-approved": EXIT_REFUSED,
    "not-canonical": EXIT_REFUSED,
    # bytes of a peer that do not verify
    "malformed": EXIT_REFUSED,
    "bad-signature": EXIT_REFUSED,
    "bad-proof": EXIT_REFUSED,
    "too-large": EXIT_REFUSED,
    "not-found": EXIT_REFUSED,
    "conflict": EXIT_REFUSED,
    "not-allowed": EXIT_REFUSED,
    # the log and the commons
    "split-view": EXIT_REFUSED,
    "rollback": EXIT_REFUSED,
    "not-logged": EXIT_REFUSED,
    "not-newest": EXIT_REFUSED,
    "not-promoted": EXIT_REFUSED,
    "no-quorum": EXIT_REFUSED,
    "stale": EXIT_REFUSED,
    "untrusted-root": EXIT_REFUSED,
    "metadata-refused": EXIT_REFUSED,
    "ceremony-refused": EXIT_REFUSED,
    # counts
    "dap-problem": EXIT_REFUSED,
    "vdaf": EXIT_REFUSED,
    "task-refused": EXIT_REFUSED,
    "batch-too-small": EXIT_REFUSED,
    "budget-spent": EXIT_REFUSED,
    # checks that a person asked for
    "check-failed": EXIT_REFUSED,
}


MESSAGE_LIMIT: Final = 500  # characters of each part of an error, and of any one line


def one_line(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Make any text safe to show as one line: no control characters, bounded length."""
    if text.isprintable() and len(text) <= limit and text == " ".join(text.split()):
        return text
    shown = "".join(c if c.isprintable() else " " for c in text)
    shown = " ".join(shown.split())
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


class InterlockError(Exception):
    """A fault of a peer, a file or a user: what happened, where, and what to do about it.

    `what` says what is wrong; `where` names the thing (a path, a URL, a rule id); `fix` says what to do.
    None of them may carry a secret, a share or an argument's value.
    """

    code: ClassVar[str] = "bad-input"

    def __init_subclass__(cls) -> None:
        if cls.code not in CODES:
            raise AssertionError(f"{cls.__name__}.code {cls.code!r} is not in errors.CODES")

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        self.what = one_line(what)
        self.where = one_line(where)
        self.fix = one_line(fix)
        super().__init__(self.what)

    @property
    def exit_code(self) -> int:
        return CODES[self.code]

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}; {self.fix}" if self.fix else head


class BadInput(InterlockError):
    """Input or environment that a person can put right."""

    code = "bad-input"


def fault_line(e: Exception) -> str:
    """One line for an error that nobody foresaw: its kind and place, and nothing of what it was about."""
    last = e.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    place = f" in {last.tb_frame.f_globals.get('__name__')}, line {last.tb_lineno}" if last else ""
    return f"a fault of interlock: {type(e).__name__}{place}; please report it"
