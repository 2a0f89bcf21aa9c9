"""Ordinary programs whose arguments are never a command that they would run."""

from __future__ import annotations

from typing import Final

__all__ = ["ORDINARY"]

ORDINARY: Final = frozenset({
    "wc", "which", "whereis", "type", "man", "tldr", "info", "help", "whatis", "apropos", "basename", "dirname",
    "ls", "stat", "file", "touch", "mkdir", "test", "[", "md5sum", "sha256sum", "cmp", "comm", "join",
    "paste", "expr", "seq", "brew", "dnf", "yum", "pacman", "apk", "dpkg", "rpm",
    "hash", "logger", "notify-send", "say", "tr", "tput", "figlet", "cowsay", "compgen", "complete", "history", "jobs",
    "ps", "pgrep", "pidof", "lsof", "let", "return",
})  # fmt: skip
