"""One client of a log: many adds under way at once over keep-alive connections, and how long each took.

`python -m bench.log_client HOST PORT TOKEN-FILE SEED CONNECTIONS SECONDS` waits for a line on standard input, adds
entries of its own for so many seconds, and prints one JSON object: when it began and ended, nanoseconds of each add.
It speaks HTTP/1.1 by hand, so that what is measured is the log and not an HTTP library.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from interlock.base.keys import Ed25519Signer
from interlock.transparency.entry import signed_entry

__all__ = ["Told", "adds"]


@dataclass(frozen=True)
class Told:
    """What a client found: when it began and ended (seconds), nanoseconds of each add."""

    began: float
    ended: float
    taken: list[int]


async def adds(host: str, port: int, token: str, seed: int, connections: int, seconds: float) -> Told:
    """Add until the time is over. Raises: RuntimeError, for an answer that is no proof."""
    signer, numbers, taken = Ed25519Signer(seed.to_bytes(32, "big")), count(1), list[int]()
    began = time.time()
    end = time.perf_counter() + seconds

    async def one() -> None:
        reader, writer = await asyncio.open_connection(host, port)
        while time.perf_counter() < end:
            n = next(numbers)
            entry = signed_entry(
                signer, type="pack", name=f"load-{seed}", version=n, ring="canary", sha256=f"{n:064x}", at=n
            ).data
            head = (
                f"POST /add HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(entry)}"
            )
            started = time.perf_counter_ns()
            writer.write(head.encode() + b"\r\n\r\n" + entry)
            answer = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in answer.decode().lower().split("\r\n")[1:-2])
            body = await reader.readexactly(int(fields["content-length"]))
            taken.append(time.perf_counter_ns() - started)
            if not body.startswith(b"c2sp.org/tlog-proof@v1\n"):
                raise RuntimeError(f"answered {answer[:40]!r} {body[:200]!r}")
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return Told(began, time.time(), taken)


if __name__ == "__main__":
    _host, _port, _file, _seed, _connections, _seconds = sys.argv[1:]
    print("ready", flush=True)
    sys.stdin.readline()
    _found = adds(_host, int(_port), Path(_file).read_text(), int(_seed), int(_connections), float(_seconds))
    print(json.dumps(asdict(asyncio.run(_found))))
