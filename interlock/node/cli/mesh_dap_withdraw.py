"""`interlock mesh dap task withdraw`: a commons takes a task back."""

from __future__ import annotations

import argparse

from interlock.base.clock import SystemClock
from interlock.base.errors import EXIT_OK
from interlock.node.cli.mesh_shared import published_text, serve_settings
from interlock.node.config import serve_config
from interlock.node.wiring.publisher import publisher_of

__all__ = ["withdraw"]


def withdraw(args: argparse.Namespace) -> int:
    """Sign and log that a task is no more; members see it before they make or send anything."""
    publisher = publisher_of(serve_config(serve_settings(args), args.dir), SystemClock())
    print(published_text(publisher.withdraw_task(args.name, args.why)))
    print(f"{args.name} is withdrawn, for ever: nobody reports to it, nor believes what was told of its sums")
    return EXIT_OK
