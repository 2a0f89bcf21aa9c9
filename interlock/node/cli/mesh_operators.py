"""`interlock mesh operators`: publish who runs what in a commons, and the log policy that follows from it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from interlock.base.clock import SystemClock
from interlock.base.errors import EXIT_OK
from interlock.base.files import read_bounded
from interlock.commons.operators import MAX_OPERATORS, Operators, default_policy, parse_operators
from interlock.node.cli.mesh_shared import published_text, serve_settings
from interlock.node.config import serve_config
from interlock.node.wiring.publisher import publisher_of

__all__ = ["policy", "publish"]


def publish(args: argparse.Namespace) -> int:
    """Publish the list of operators in the commons of --dir."""
    operators = _read(Path(args.file))
    publisher = publisher_of(serve_config(serve_settings(args), args.dir), SystemClock())
    print(published_text(publisher.publish_operators(operators)))
    return EXIT_OK


def policy(args: argparse.Namespace) -> int:
    """Print the log policy that a list of operators suggests, for a node's operator to read and to pin."""
    sys.stdout.write(default_policy(_read(Path(args.file))).decode("utf-8"))
    return EXIT_OK


def _read(path: Path) -> Operators:
    return parse_operators(read_bounded(path, MAX_OPERATORS), where=str(path))
