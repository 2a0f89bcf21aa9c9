"""A PostgreSQL of one's own: a fresh cluster on a Unix socket in a temporary folder, which goes with the block.

PostgreSQL does not run as root, so where we do, it runs as `postgres` or `nobody`. The tests use it too.
"""

from __future__ import annotations

import contextlib
import glob
import importlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

__all__ = ["QUICK", "NoPostgres", "chosen_postgres", "private_postgres"]

# Where a crash of a process of ours is tested, and not one of the machine.
QUICK: Final = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "shared_buffers=32MB")


class NoPostgres(RuntimeError):
    """There is none to run here; says why, and what to do."""


@contextlib.contextmanager
def private_postgres(*options: str) -> Iterator[str]:
    """The URL of a running, empty database, with these settings; durable unless they say otherwise.

    Raises: NoPostgres.
    """
    bins = _bins()
    folder = Path(tempfile.mkdtemp(prefix="il-pg-"))
    user = _user()
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    data = folder / "data"
    try:
        made = ("-D", str(data), "-U", "tester", "-A", "trust", "--no-sync", "-E", "UTF8", "--no-locale")
        _run(bins, user, "initdb", *made)
        settings = [part for option in ("listen_addresses=", *options) for part in ("-c", option)]
        command = [*_as(user), str(bins / "postgres"), "-D", str(data), "-k", str(folder), *settings]
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


@contextlib.contextmanager
def chosen_postgres(given: str) -> Iterator[str]:
    """What `--postgres` says: a URL, none, or `auto` for a durable one of one's own. Raises: NoPostgres."""
    if given != "auto":
        yield given
        return
    with private_postgres() as url:
        yield url


def _psycopg() -> Any:
    try:
        return importlib.import_module("psycopg")
    except ImportError:
        raise NoPostgres("psycopg is not installed: pip install 'interlock[postgres]'") from None


def _bins() -> Path:
    _psycopg()
    found = [*sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb")), shutil.which("initdb") or ""]
    if not any(found):
        raise NoPostgres("PostgreSQL is not installed here (Debian: apt-get install postgresql)")
    return Path(next(filter(None, found))).parent


def _user() -> pwd.struct_passwd | None:
    """Whom the server runs as; None for ourselves."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise NoPostgres("PostgreSQL does not run as root, and there is no other user here")


def _as(user: pwd.struct_passwd | None) -> list[str]:
    if user is None:
        return []
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _run(bins: Path, user: pwd.struct_passwd | None, program: str, *args: str) -> None:
    subprocess.run([*_as(user), str(bins / program), *args], check=True, capture_output=True, cwd="/", timeout=60)


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    psycopg = _psycopg()
    until = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > until:
                raise NoPostgres(f"PostgreSQL does not start: {log.read_text()}") from None
            time.sleep(0.05)
        else:
            return
