"""`interlock mesh verify`: what a .ilpack shows, offline, by what its reader pinned."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from interlock.base.clock import rfc3339
from interlock.base.errors import EXIT_OK, BadInput
from interlock.base.files import read_bounded
from interlock.commons.ilpack import MAX_ILPACK, Shown, verify_ilpack
from interlock.commons.layout import MAX_ROOT
from interlock.commons.pins import read_pins
from interlock.commons.transcript import quorum
from interlock.node.cli.mesh_log import policy_in
from interlock.node.config import mesh_config, settings_of
from interlock.transparency.policy import TlogPolicy

__all__ = ["verify"]


def verify(args: argparse.Namespace) -> int:
    """Say in words what holds, when it was cosigned, and what cannot be known offline."""
    root, policy = _pinned(args)
    shown = verify_ilpack(read_bounded(Path(args.file), MAX_ILPACK), root, policy, args.file)
    if args.json:
        print(json.dumps(_object(shown), indent=1))
    else:
        print("\n".join(_words(shown)))
    return EXIT_OK


def _pinned(args: argparse.Namespace) -> tuple[bytes, TlogPolicy]:
    if (args.root is None) != (args.log_policy is None):
        raise BadInput("go together", where="--root, --log-policy")
    if args.root is None:
        pins = read_pins(mesh_config(settings_of(args.config), args.home).home)
        return pins.root, pins.policy
    return read_bounded(Path(args.root), MAX_ROOT), policy_in(args.log_policy)


def _words(shown: Shown) -> list[str]:
    pack, at = shown.pack, rfc3339(shown.cosigned_us)
    lines = [
        f"{pack.name} version {pack.version}, {len(pack.rules)} rules, {pack.licence}, {pack.status}",
        f"  signed: for ring {shown.ring}, from the pinned root to root {shown.root_version}, in snapshot "
        f"{shown.snapshot_version} (sha256 {pack.digest})",
        f"  logged: {shown.origin}, entry {shown.log_index} of {shown.tree_size}, seen by {', '.join(shown.witnesses)}",
    ]
    if shown.promoted is not None:
        names = ", ".join(shown.promoted.reviewers)
        lines.append(
            f"  promoted: from {shown.promoted.from_ring}, approved by {names}, through the gate of {shown.ring}"
        )
    held = "one key alone, which is for a trial" if shown.targets is None else quorum(shown.targets)
    lines.append(f"  the rings' keys, and removals, are signed by {held}")
    lines.append(f"  as of {at}, when witnesses cosigned it")
    lines.append("  not known offline: whether it was taken back since, or followed by a newer version")
    return lines


def _object(shown: Shown) -> dict[str, object]:
    promoted = shown.promoted
    return {
        "name": shown.pack.name,
        "version": shown.pack.version,
        "ring": shown.ring,
        "sha256": shown.pack.digest,
        "root_version": shown.root_version,
        "snapshot_version": shown.snapshot_version,
        "log": shown.origin,
        "log_index": shown.log_index,
        "tree_size": shown.tree_size,
        "witnesses": list(shown.witnesses),
        "cosigned_at": shown.cosigned_us,
        "targets_threshold": 1 if shown.targets is None else shown.targets.threshold,
        "promoted": None if promoted is None else {"from": promoted.from_ring, "reviewers": list(promoted.reviewers)},
    }
