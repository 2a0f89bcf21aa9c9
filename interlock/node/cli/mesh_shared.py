"""What commands for operators share. It imports no server: few need one, and it takes as long to import as all else."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from interlock.base.clock import rfc3339
from interlock.base.errors import BadInput
from interlock.base.keys import BadKey, Ed25519Verifier, ed25519_of
from interlock.base.settings import Settings
from interlock.node.config import CONFIG, settings_of

if TYPE_CHECKING:  # a role that publishes nothing starts without it
    from interlock.commons.publish import Published

__all__ = ["key_given", "published_text", "serve_settings"]

_HEADS: Final = {"review": "review of ", "revoke": "taken back in each of its rings, the last of them "}


def serve_settings(args: argparse.Namespace) -> Settings:
    """The settings of --config; else those that `mesh setup` left in the folder of --dir; else the user's."""
    named = getattr(args, "config", None)  # some commands have --dir alone
    beside = Path(args.dir) / CONFIG if args.dir else None
    if named is None and beside is not None and beside.exists():
        return settings_of(str(beside))
    return settings_of(named)


def key_given(text: str, *, option: str, fix: str) -> Ed25519Verifier:
    """The Ed25519 public key that an option names. Raises: BadInput; `fix` says where to get it."""
    try:
        return ed25519_of(text)
    except BadKey:
        raise BadInput("names no Ed25519 key, which is ed25519: and 64 hex digits", where=option, fix=fix) from None


def published_text(done: Published) -> str:
    """What a publish did, in one line."""
    entry = done.entry
    head, what = (_HEADS[entry.type], "record") if entry.type in _HEADS else ("", "sha256")
    return (
        f"{head}{entry.name}@{entry.ring} version {entry.version}, {what} {entry.sha256}, log index {done.log_index} "
        f"of {done.tree_size}, snapshot {done.snapshot_version}, timestamp {done.timestamp_version}, "
        f"at {rfc3339(entry.at)}"
    )
