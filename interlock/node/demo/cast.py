"""The processes of a demo: each is handed its socket, and all of them end with the demo, however it ends.

A socket is bound and listening before its server starts, so a client that comes early waits instead of failing.
Each process reads its standard input to the end and stops there: should the demo be killed, the pipe closes.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from interlock.base.errors import InterlockError, one_line

__all__ = ["Address", "Cast", "CommandFailed"]

STOP_S: Final = 5.0  # how long a process may take to end before it is killed
COMMAND_S: Final = 120.0  # of a command on a machine that is busy with other things


class CommandFailed(InterlockError):
    """A command of the demo that ended otherwise than it should."""

    code = "check-failed"


@dataclass(frozen=True)
class Address:
    """A listening socket on a free loopback port, and the base URL of whoever will serve it."""

    sock: socket.socket
    url: str


@dataclass
class Cast:
    """Starts, runs and ends processes; `logs` is the directory of their standard errors."""

    logs: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _open: list[Address] = field(default_factory=list)

    def address(self) -> Address:
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        sock.listen(128)
        found = Address(sock, f"http://127.0.0.1:{sock.getsockname()[1]}")
        self._open.append(found)
        return found

    def start(
        self, name: str, args: Sequence[str], address: Address | None = None, *, module: str = "interlock"
    ) -> None:
        """Start `interlock ARGS` in the background; with an address, the socket is handed down."""
        command = [sys.executable, "-m", module, *args, "--stop-with-stdin"]
        fds: tuple[int, ...] = ()
        if address is not None:
            fds = (address.sock.fileno(),)
            command += ["--listen-fd", str(fds[0])]
        with (self.logs / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=fds,
                start_new_session=True,  # Ctrl-C on the terminal is the demo's to handle
                env=_environment(),
            )

    def check_alive(self) -> None:
        """Raises: CommandFailed, where a process of the cast has ended by itself."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                last = _last_line(self.logs / f"{name}.log")
                raise CommandFailed(f"ended with exit code {process.returncode}: {last}", where=name)

    def run(self, args: Sequence[str], *, expect: int = 0) -> str:
        """Run one command to its end and return what it printed.

        Raises: CommandFailed, with the command's last line, where its exit code is not `expect`.
        """
        return self.finish(self.begin(args), args, expect=expect)

    def begin(
        self, args: Sequence[str], *, module: str = "interlock", config: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a command; `config` is the configuration that a program finds without being told."""
        return subprocess.Popen(
            [sys.executable, "-m", module, *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=_environment() | ({} if config is None else {"INTERLOCK_CONFIG": str(config)}),
        )

    def finish(self, process: subprocess.Popen[bytes], args: Sequence[str], *, expect: int = 0) -> str:
        try:
            out, err = process.communicate(timeout=COMMAND_S)
        except BaseException as e:
            process.kill()
            process.communicate()
            if isinstance(e, subprocess.TimeoutExpired):
                raise CommandFailed(f"did not end within {COMMAND_S:.0f} s", where=" ".join(args[:3])) from None
            raise
        if process.returncode != expect:
            said = one_line((err or out).decode("utf-8", "replace"))
            raise CommandFailed(f"exit code {process.returncode}, expected {expect}: {said}", where=" ".join(args[:3]))
        return (out or err).decode("utf-8")

    def stop(self) -> None:
        """End every process and close every socket; waits until all are gone."""
        for address in self._open:  # first: while we hold one open, callers of a server that has ended wait in vain
            address.sock.close()
        for process in self.processes.values():
            if process.stdin is not None:
                process.stdin.close()
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        until = time.monotonic() + STOP_S
        for process in self.processes.values():
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def pids(self) -> dict[str, int]:
        return {name: p.pid for name, p in self.processes.items()}


def _environment() -> dict[str, str]:
    # The demo must not read the user's own configuration, nor a proxy's.
    kept = {k: v for k, v in os.environ.items() if not k.startswith("INTERLOCK_") and not k.lower().endswith("_proxy")}
    return kept | {"INTERLOCK_CONFIG": os.devnull, "PYTHONUNBUFFERED": "1"}


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1] if lines else json.dumps("nothing was logged")
