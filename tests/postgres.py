"""A PostgreSQL of the tests' own: a fresh cluster on a Unix socket in a temporary folder, which goes with them.

PostgreSQL does not run as root, so where the tests do, it runs as `postgres` or `nobody`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# A crash of a process of ours is what is tested, and not one of the machine.
_QUICK = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "listen_addresses=", "shared_buffers=32MB")


@contextlib.contextmanager
def private_postgres() -> Iterator[str]:
    """The URL of a running database. Skips the test where there is none to run."""
    bins = _bins()
    folder = Path(tempfile.mkdtemp(prefix="il-pg-"))
    user = _user()
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    data = folder / "data"
    try:
        _run(
            bins,
            user,
            "initdb",
            "-D",
            str(data),
            "-U",
            "tester",
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
            "--no-locale",
        )
        options = [part for option in _QUICK for part in ("-c", option)]
        command = [*_as(user), str(bins / "postgres"), "-D", str(data), "-k", str(folder), *options]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            url = f"postgresql:///postgres?host={folder}&user=tester"
            _wait(url, server, folder / "log")
            yield url
        finally:
            server.send_signal(signal.SIGINT)  # "fast": sessions are cut off
            server.wait(20)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def shared_postgres() -> str:
    """One for all tests of this process, stopped as it ends."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(private_postgres())


def drop_schema(url: str, schema: str) -> None:
    with psycopg_or_skip().connect(url, autocommit=True) as connection:
        connection.execute("SET client_min_messages TO warning")
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


def psycopg_or_skip() -> Any:
    return pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'interlock[postgres]'")


def _bins() -> Path:
    psycopg_or_skip()
    found = [*sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb")), shutil.which("initdb") or ""]
    if not any(found):
        pytest.skip("PostgreSQL is not installed here (Debian: apt-get install postgresql)")
    return Path(next(filter(None, found))).parent


def _user() -> pwd.struct_passwd | None:
    """Whom the server runs as; None for ourselves."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    pytest.skip("PostgreSQL does not run as root, and there is no other user here")


def _as(user: pwd.struct_passwd | None) -> list[str]:
    if user is None:
        return []
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _run(bins: Path, user: pwd.struct_passwd | None, program: str, *args: str) -> None:
    subprocess.run([*_as(user), str(bins / program), *args], check=True, capture_output=True, cwd="/", timeout=60)


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    psycopg = psycopg_or_skip()
    until = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        else:
            return
