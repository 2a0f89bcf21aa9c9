"""`interlock mesh hpke`: an aggregator's HPKE keys, shown and replaced; no private key is ever printed."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Final

from interlock.base.clock import DAY_US, MICROSECONDS, SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, BadInput
from interlock.dap.hpke import P256, X25519, Kem
from interlock.dap.shares import HpkeKey
from interlock.node.hpke_file import HpkeKeyFile
from interlock.node.storage.dap_tasks import TaskDirectory

__all__ = ["hpke"]

_KEMS: Final[dict[str, Kem]] = {"x25519": X25519, "p256": P256}
_MOST_DAYS: Final = 365


def hpke(args: argparse.Namespace) -> int:
    """Show the keys of an aggregator's folder; with `--rotate`, after a fresh one was put before them."""
    if not 1 <= args.keep_days <= _MOST_DAYS:
        raise BadInput(f"is not 1 to {_MOST_DAYS}", where=f"--keep-days {args.keep_days}")
    if args.rotate:
        _demand_long_enough(Path(args.dir), args.keep_days)
    keys = HpkeKeyFile(Path(args.dir) / "hpke.json")
    now_us = SystemClock().now_us()
    held = keys.rotate(now_us, args.keep_days * DAY_US, os.urandom, _KEMS[args.kem]) if args.rotate else keys()
    rows = [_row(key, now_us) for key in held]
    if args.json:
        print(json.dumps({"format": "interlock-hpke-keys", "v": 1, "keys": rows}, indent=1))
        return EXIT_OK
    for row in rows:
        print(f"key {row['id']}  {row['kem']}  {row['public'][:16]}  {_told(row)}")
    return EXIT_OK


def _demand_long_enough(directory: Path, days: int) -> None:
    """That a replaced key opens until what was sealed to it has come: a report goes out in the epoch after its own.

    Raises: BadInput; BadState, TaskRefused for a damaged task.
    """
    folder = directory / "tasks"
    tasks = TaskDirectory(folder, demo=True).values() if folder.is_dir() else ()
    longest = max((held.task.config.time_precision for held in tasks), default=0)
    least = min(-(-2 * longest * MICROSECONDS // DAY_US), _MOST_DAYS)
    if days < least:
        told = "is shorter than two epochs of a task here, and reports sealed to the old key would be lost"
        raise BadInput(told, where=f"--keep-days {days}", fix=f"give --keep-days {least}")


def _row(key: HpkeKey, now_us: int) -> dict[str, str]:
    kem = next(name for name, kem in _KEMS.items() if kem is key.pair.kem)
    row = {"id": str(key.id), "kem": kem, "public": key.pair.public.hex()}
    if key.until_us is None:
        return {**row, "state": "offered"}
    return {**row, "state": "opens" if now_us < key.until_us else "over", "until": rfc3339(key.until_us)}


def _told(row: dict[str, str]) -> str:
    if row["state"] == "offered":
        return "offered to clients"
    return f"replaced; {'opens until' if row['state'] == 'opens' else 'opened until'} {row['until']}"
