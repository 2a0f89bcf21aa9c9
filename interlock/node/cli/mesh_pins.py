"""`interlock mesh pins` and `mesh clock`: whose checkpoints count on this node, and the floor under its clock; or, of a
witness's folder, the times that it states."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Final

from interlock.base.clock import DAY_US, SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, EXIT_REFUSED
from interlock.base.files import file_lock, read_bounded
from interlock.commons.pack import sha256_hex
from interlock.commons.pins import Pins, read_pins, set_log_policy
from interlock.commons.timefloor import behind, read_floor, reset_floor
from interlock.node.cli.mesh_node import config_of, patiently

__all__ = ["clock", "pins", "shortened"]

_LIMIT: Final = 1 << 20
_SHORTER: Final = re.compile(r"(?<=[+][0-9a-f]{8}[+][A-Za-z0-9+/]{44})[A-Za-z0-9+/=]{20,}")


def pins(args: argparse.Namespace) -> int:
    """Say what is pinned; with --log-policy, pin another log policy by the operator's word."""
    home = config_of(args).home
    if args.log_policy is not None:
        data = read_bounded(Path(args.log_policy), _LIMIT)

        def change() -> None:
            with file_lock(home / "lock"):
                set_log_policy(home, data, SystemClock().now_us())

        read_pins(home)
        patiently(change)
    found = read_pins(home)
    if args.json:
        print(json.dumps({"format": "interlock-pins", "v": 1, **_body(found)}))
        return EXIT_OK
    print(f"root    sha256 {sha256_hex(found.root)}")
    since = f", since {rfc3339(found.policy_at)}" if found.policy_at else ""
    print(f"policy  from {found.policy_from}{since}")
    for line in found.policy.text.decode("utf-8").splitlines():
        print(f"        {shortened(line)}")
    if found.offline_us:
        print(f"offline what is held may be {found.offline_us / DAY_US:g} days old")
    return EXIT_OK


def clock(args: argparse.Namespace) -> int:
    """Say the floor under the clock; exit code 1 where the clock is below it. With --reset, let go of it."""
    if args.dir is not None:
        from interlock.node.cli.mesh_witness import stated  # with all that serves: nodes do without

        return stated(args)
    home = config_of(args).home
    read_pins(home)
    if args.reset:
        reset_floor(home)
    now, floor = SystemClock().now_us(), read_floor(home)
    wrong = behind(home, now)
    if args.json:
        print(json.dumps({"format": "interlock-clock", "v": 1, "now": now, "floor": floor, "behind": bool(wrong)}))
    else:
        print(f"clock  {rfc3339(now)}")
        print(f"floor  {rfc3339(floor) if floor else 'none'}")
        if wrong:
            print(f"fail: {wrong}; set the clock right, or: interlock mesh clock --reset")
    return EXIT_REFUSED if wrong else EXIT_OK


def shortened(line: str) -> str:
    """A line of a log policy for a person to read: without the most of an ML-DSA key; --json has it whole."""
    return _SHORTER.sub("...", line)


def _body(found: Pins) -> dict[str, object]:
    return {
        "root_sha256": sha256_hex(found.root),
        "log_policy": found.policy.text.decode("utf-8"),
        "policy_from": found.policy_from,
        "policy_at": found.policy_at,
        "offline_us": found.offline_us,
    }
