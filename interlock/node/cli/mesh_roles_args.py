"""The argument tree of `interlock mesh setup`, `serve` and `monitor`: a role's folder, and running it."""

from __future__ import annotations

import argparse
from typing import Final

from interlock.node.cli.mesh_args import Commands, add, add_service

__all__ = ["GIVEN", "ROLES", "WORKER", "register"]

ROLES: Final = ("commons", "mirror", "monitor", "log", "witness", "dap-leader", "dap-helper", "issuer")
WORKER: Final = "dap-worker"  # works from a leader's folder, or one that is like it
# what a role's folder is made of, as `setup` and the first `serve` are told it
GIVEN: Final = ("name", "log_policy", "upstream", "log_url", "mirror", "root", "root_sha256", "operator")
_ROLES: Final = "interlock.node.cli.mesh_roles"
_SETUP: Final = "interlock.node.cli.mesh_setup"
_MONITOR: Final = "interlock.node.cli.mesh_monitor"
_EXAMPLES: Final = """\
examples, each of them one command on a commons that somebody else runs; the folder is made at the first start:
  interlock mesh serve --role mirror --dir m --upstream https://commons.example --root r.json --log-policy p.txt
  interlock mesh serve --role monitor --dir m --mirror a=https://a.org --mirror b=https://b.org --root r --log-policy p
  interlock mesh serve --role witness --dir w0 --name w0.example --log-policy p.txt --port 8102
and a folder that is there already:
  interlock mesh serve --role mirror --dir m --port 8105
"""


def register(group: Commands) -> None:
    """Add `setup`, `serve` and `monitor`."""
    _setup(group)
    _serve(group)
    monitor = add(group, "monitor", _MONITOR, "monitor", "see whether mirrors serve what the log says", home=False)
    monitor.add_argument("--dir", metavar="DIR", help="the monitor's folder")
    monitor.add_argument("--close", type=int, metavar="N", help="close this open alarm: it is dealt with")
    monitor.add_argument("--json", action="store_true", help="one JSON object")


def _setup(group: Commands) -> None:
    told = "make a role's folder: keys, tokens, configuration"
    setup = add(group, "setup", _SETUP, "setup", told, home=False, config=False)
    setup.add_argument("--role", choices=ROLES, required=True, help="what the folder is for")
    setup.add_argument("--dir", metavar="DIR", required=True, help="the role's new folder")
    setup.add_argument(
        "--holder",
        action="append",
        default=[],
        metavar="NAME[@EMPLOYER]=FILE",
        help="commons: a keyholder, for whom she works, and a file with her passphrase",
    )
    setup.add_argument(
        "--threshold", type=int, default=2, metavar="N", help="commons: holders who sign (default: %(default)s)"
    )
    _given(setup, "log: its origin; witness: its name in policies")


def _serve(group: Commands) -> None:
    serve = add(group, "serve", _ROLES, "serve", "run a role that listens, until stopped", home=False)
    serve.epilog, serve.formatter_class = _EXAMPLES, argparse.RawDescriptionHelpFormatter
    told = "which one; dap-worker does jobs of the leader whose folder it is given"
    serve.add_argument("--role", choices=(*ROLES, WORKER), required=True, help=told)
    serve.add_argument("--dir", metavar="DIR", help="the role's folder; by default the [serve] section names it")
    serve.add_argument("--host", default="127.0.0.1", help="where to listen (default: %(default)s)")
    serve.add_argument("--port", type=int, default=0, help="0 takes a free one, and says which")
    serve.add_argument("--listen-fd", type=int, metavar="N", help="a listening socket that was handed down")
    serve.add_argument("--tls-cert", metavar="FILE", help="serve over TLS: the certificate, with its chain, in PEM")
    serve.add_argument("--tls-key", metavar="FILE", help="the certificate's private key, in PEM")
    told = "who comes with a token shows a certificate of this CA too (mTLS)"
    serve.add_argument("--tls-client-ca", metavar="FILE", help=told)
    serve.add_argument("--demo", action="store_true", help="aggregators: also serve tasks with the floor of a demo")
    serve.add_argument("--behind-proxy", action="store_true", help="a proxy in front of it does TLS")
    add_service(serve)
    told = "With these the folder of --dir is made at the first start; later they change nothing, and may stay."
    name = "log: its origin; witness: its name in policies; dap-worker: a name that no other worker has"
    _given(serve.add_argument_group("what setup takes", told), name)


def _given(to: argparse._ActionsContainer, name: str) -> None:
    """The options named in GIVEN; `name` is what --name is for."""
    to.add_argument("--name", metavar="NAME", default="", help=name)
    to.add_argument(
        "--log-policy", metavar="FILE", help="the log, its witnesses, the quorum: for every role but issuer"
    )
    to.add_argument(
        "--upstream", metavar="URL", default="", help="mirror: what it copies; aggregators: where member keys are"
    )
    told = "commons: where the log is; mirror too, where the log policy does not say and it is not below --upstream"
    to.add_argument("--log-url", metavar="URL", default="", help=told)
    to.add_argument(
        "--mirror", action="append", default=[], metavar="NAME=URL", help="monitor: what it compares; two or more"
    )
    root = to.add_mutually_exclusive_group()
    root.add_argument("--root", metavar="FILE", help="mirror, monitor, aggregators, commons: its first root")
    root.add_argument("--root-sha256", metavar="HEX", help="its digest; the root is then fetched and must match")
    to.add_argument("--operator", metavar="NAME", default="", help="issuer, aggregators: who runs it")
