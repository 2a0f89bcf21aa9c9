"""The terminal in front of a person: what they read and type there, past standard input and output.

A pipe, an agent's tool and a cron job have none. The challenge is made here, at that moment, and stands nowhere else.
"""

from __future__ import annotations

import contextlib
import getpass
import hmac
import os
import secrets
import select
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Final

from interlock.base.errors import InterlockError
from interlock.base.files import os_reason

if sys.platform != "win32":
    import termios

__all__ = ["ANSWER_S", "NoTerminal", "NotConfirmed", "Terminal", "asked_passphrase", "secret_word", "terminal"]

ANSWER_S: Final = 120.0
_TTY: Final = "/dev/tty"
_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz23456789"  # none that looks like another
_LENGTH: Final = 6
_LINE: Final = 256


class NoTerminal(InterlockError):
    """Nobody is in front of this process."""

    code = "not-allowed"


class NotConfirmed(InterlockError):
    """The challenge was not typed back."""

    code = "not-approved"


class Terminal:
    """The controlling terminal of this process, open for reading and writing."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def show(self, text: str) -> None:
        """Write lines; whoever calls has made them safe to show."""
        data = memoryview(f"{text}\n".encode("utf-8", "backslashreplace"))
        while data:
            data = data[os.write(self._fd, data) :]

    def demand(self, what: str, text: str) -> None:
        """Ask for a word that is made now and is not in `text`. Raises: NotConfirmed."""
        word = secret_word(text)
        if sys.platform != "win32":
            termios.tcflush(self._fd, termios.TCIFLUSH)  # what was typed, or pushed in, before anybody was asked
        self.show(f"{what}, type {word} and press Enter; anything else leaves it as it is.")
        typed = self._line(time.monotonic() + ANSWER_S)
        if not hmac.compare_digest(typed.strip(), word.encode("ascii")):
            raise NotConfirmed("the word was not typed back, so nothing was approved")

    def _line(self, until: float) -> bytes:
        typed = b""
        while not typed.endswith((b"\n", b"\r")) and len(typed) < _LINE:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._fd], [], [], left)[0]:
                raise NotConfirmed(f"no answer within {ANSWER_S:g} seconds, so nothing was approved")
            part = os.read(self._fd, _LINE)
            if not part:
                raise NotConfirmed("the terminal was closed, so nothing was approved")
            typed += part
        return typed


def secret_word(text: str) -> str:
    """A word of random letters and digits that `text` does not hold."""
    word = ""
    while not word or word in text.lower():
        word = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
    return word


def asked_passphrase(prompt: str) -> bytes:
    """What a person types unseen. Raises: NoTerminal, where nobody can be asked without showing it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # it would go on, and show what is typed
            return getpass.getpass(prompt).encode("utf-8")
    except (getpass.GetPassWarning, EOFError):
        raise NoTerminal(
            "there is no terminal to ask for a passphrase at", where=_TTY, fix="name a file with --passphrase-file"
        ) from None


@contextlib.contextmanager
def terminal() -> Iterator[Terminal]:
    """The controlling terminal, with this process in its foreground. Raises: NoTerminal."""
    try:
        fd = os.open(_TTY, os.O_RDWR | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as e:
        raise NoTerminal(
            f"there is no terminal to ask at ({os_reason(e)})", where=_TTY, fix="run this in a terminal of your own"
        ) from None
    try:
        if os.tcgetpgrp(fd) != os.getpgrp():
            raise NoTerminal("this runs in the background", where=_TTY, fix="run it in the foreground")
        yield Terminal(fd)
    except OSError as e:
        raise NoTerminal(f"the terminal cannot be used ({os_reason(e)})", where=_TTY) from None
    finally:
        os.close(fd)
