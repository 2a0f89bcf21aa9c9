"""`interlock mesh serve`: run a role."""

from __future__ import annotations

import argparse
import logging
import sys
from dataclasses import replace
from pathlib import Path

from interlock.base.clock import SystemClock
from interlock.base.errors import EXIT_OK
from interlock.node.cli.mesh_roles_args import GIVEN, WORKER
from interlock.node.cli.mesh_shared import serve_settings
from interlock.node.config import serve_config
from interlock.node.http import Listen, open_socket
from interlock.node.http import serve as serve_app
from interlock.node.service import start_logging, stop_event
from interlock.node.wiring.roles import role_app

__all__ = ["serve"]

log = logging.getLogger("interlock.serve")


def serve(args: argparse.Namespace) -> int:
    """Run one role until SIGTERM, Ctrl-C or, where asked to, the end of standard input."""
    start_logging(args.log_format)
    listen = Listen(
        args.host,
        args.port,
        args.listen_fd,
        *(_maybe(args.tls_cert), _maybe(args.tls_key), args.behind_proxy, _maybe(args.tls_client_ca)),
    )

    def ready(url: str) -> None:
        if args.log_format == "json":
            log.info("%s at %s", args.role, url)
        else:
            print(f"{args.role} at {url}", file=sys.stderr, flush=True)

    stop = stop_event(with_stdin=args.stop_with_stdin)
    with open_socket(listen) as sock:  # first: with a port in use, nothing in the role's folder is made or touched
        _make_ready(args)
        config = serve_config(serve_settings(args), args.dir, demo=args.demo)
        if args.role == WORKER:  # the folder is a leader's, and may be that of other workers too
            config = replace(config, name=args.name)
        with role_app(args.role, config, SystemClock()) as app:
            serve_app(app, listen, sock=sock, ready=ready, stop=stop)
    return EXIT_OK


def _make_ready(args: argparse.Namespace) -> None:
    """A role is one command, also on anybody's commons: with what its folder needs, that is made at the first start."""
    if args.role == WORKER or not any(getattr(args, name) for name in GIVEN):
        return
    from interlock.node.cli.mesh_setup import make_ready  # all that makes folders: few starts make one

    for line in make_ready(args):
        print(line, flush=True)


def _maybe(text: str | None) -> Path | None:
    return None if text is None else Path(text)
