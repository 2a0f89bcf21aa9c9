"""The argument tree of what a node pins beyond its packs: whose checkpoints count, and the time."""

from __future__ import annotations

from typing import Final

from interlock.node.cli.mesh_args import Commands, add

__all__ = ["register"]

_PINS: Final = "interlock.node.cli.mesh_pins"


def register(group: Commands) -> None:
    """Add `pins` and `clock`."""
    pins = add(
        group, "pins", _PINS, "pins", "what this node trusts: its root, the log and its witnesses, and since when"
    )
    pins.epilog = "example: interlock mesh pins --log-policy log-policy.txt"
    pins.add_argument("--log-policy", metavar="FILE", help="trust this log policy from now on, by your own word")
    pins.add_argument("--json", action="store_true", help="one JSON object")
    clock = add(group, "clock", _PINS, "clock", "the time by which signatures end, and the floor that witnesses set")
    clock.epilog = "example: interlock mesh clock --reset"
    clock.add_argument("--reset", action="store_true", help="let go of the floor; the next update sets it anew")
    clock.add_argument(
        "--dir", metavar="DIR", help="a witness's folder: the times that it states; --reset lets go of those ahead"
    )
    clock.add_argument("--json", action="store_true", help="one JSON object")
