"""The argument tree of an aggregator's or a collector's HPKE keys."""

from __future__ import annotations

from typing import Final

from interlock.node.cli.mesh_args import Commands, add

__all__ = ["register"]

_HPKE: Final = "interlock.node.cli.mesh_hpke"


def register(group: Commands) -> None:
    """Add `hpke`."""
    told = "the keys that shares are sealed to: which are offered, and until when an old one opens"
    hpke = add(group, "hpke", _HPKE, "hpke", told, home=False, config=False)
    hpke.epilog = "example: interlock mesh hpke --dir leader --rotate"
    hpke.add_argument("--dir", metavar="DIR", required=True, help="the folder of a leader or a helper")
    hpke.add_argument("--rotate", action="store_true", help="put a fresh key in place; the role may go on meanwhile")
    hpke.add_argument("--kem", choices=("x25519", "p256"), default="x25519", help="of the fresh key (default: x25519)")
    hpke.add_argument(
        "--keep-days",
        type=int,
        default=14,
        metavar="N",
        help="how long the replaced key opens what was sealed to it, 1 to 365 (default: %(default)s)",
    )
    hpke.add_argument("--json", action="store_true", help="one JSON object")
