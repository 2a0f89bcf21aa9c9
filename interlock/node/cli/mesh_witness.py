"""`interlock mesh clock --dir DIR`: the times that a witness states, and letting go of one that never came."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Final

from interlock.base.clock import MICROSECONDS, SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, EXIT_REFUSED
from interlock.base.files import BadState
from interlock.node.cli.mesh_shared import serve_settings
from interlock.node.config import serve_config
from interlock.node.wiring.witness import witness_of

__all__ = ["stated"]

AHEAD_US: Final = 300 * MICROSECONDS  # what two clocks may differ by


def stated(args: argparse.Namespace) -> int:
    """Say what a witness states beside the clock; exit code 1 where that lies ahead. With --reset, let go of it."""
    directory, clock = Path(args.dir), SystemClock()
    if not (directory / "witness.key").exists():
        raise BadState("is not the folder of a witness", where=args.dir, fix="a node's clock needs no --dir")
    witness = witness_of(serve_config(serve_settings(args), args.dir), clock)
    dropped = witness.restate() if args.reset else {}
    now, stated = clock.now_us(), witness.stated()
    ahead = [origin for origin, seconds in stated.items() if seconds * MICROSECONDS > now + AHEAD_US]
    if args.json:
        body = {"now": now, "stated": stated, "ahead": ahead, "reset": dropped}
        print(json.dumps({"format": "interlock-witness-clock", "v": 1, **body}))
        return EXIT_REFUSED if ahead else EXIT_OK
    print(f"clock   {rfc3339(now)}")
    for origin, seconds in stated.items():
        print(f"stated  {rfc3339(seconds * MICROSECONDS)}  {origin}")
    for origin, seconds in dropped.items():
        print(f"LET GO of {rfc3339(seconds * MICROSECONDS)}, which was stated for {origin} and has not come")
    for origin in ahead:
        print(f"fail: what was stated for {origin} lies ahead; set the clock right, then: --reset")
    return EXIT_REFUSED if ahead else EXIT_OK
