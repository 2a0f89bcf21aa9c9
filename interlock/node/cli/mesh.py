"""The argument tree of `interlock mesh`; what a command does stands in the mesh_ module that it names.

Those modules need the extra `mesh` and are imported only when one of their commands runs. A family with many commands
adds them in a module of its own, mesh_FAMILY_args (`mesh_args` has the tools), which imports nothing of the extra.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from typing import Final

from interlock.node.cli import (
    mesh_ceremony_args,
    mesh_count_args,
    mesh_dap_args,
    mesh_help,
    mesh_hpke_args,
    mesh_indicator_args,
    mesh_log_args,
    mesh_members_args,
    mesh_node_args,
    mesh_pins_args,
    mesh_publish_args,
    mesh_roles_args,
)
from interlock.node.cli.mesh_args import Commands, Only, add
from interlock.node.cli.rows import Row
from interlock.node.config import mesh_config, settings_of

__all__ = ["node", "register"]

NODE_FILE: Final = "node.json"  # what was pinned at init; its presence makes a folder a node's home
_STATUS: Final = "interlock.node.cli.mesh_status"
_LETTING_IN: Final = "interlock.node.cli.mesh_token"
_HARNESS: Final = "interlock.node.cli.mesh_harness"
_DEMO: Final = "interlock.node.demo.run"


def node(config: str | None) -> Iterator[Row]:
    """The checks of this user's node; none where there is no node. `interlock doctor` shows the function's name."""
    found = mesh_config(settings_of(config))
    if (found.home / NODE_FILE).exists():
        try:
            rows: Iterator[Row] = importlib.import_module(_STATUS).rows(found)
        except ModuleNotFoundError as e:
            told = f"{found.home} cannot be checked without {e.name}"
            yield Row("node", "fail", told, "pip install 'interlock[mesh]'")
            return
        yield from rows


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser], named: str | None = None) -> None:
    """Add `mesh` with its commands; with the one alone that is named, where it has that."""
    mesh = commands.add_parser(
        "mesh",
        help="signed policy shared, and counts that no one can read alone",
        description="Follow a commons as a member, or run one of its roles. `mesh demo` shows all of it.",
    )
    mesh.set_defaults(parser=mesh)
    group = mesh.add_subparsers(title="commands", metavar="COMMAND", action=Only)
    assert isinstance(group, Only), "as argparse was told"
    if any(named in names for names in mesh_help.GROUPS.values()):
        group.named = named
    mesh_node_args.register(group)
    mesh_pins_args.register(group)
    mesh_count_args.register(group)
    mesh_indicator_args.register(group)
    mesh_members_args.register(group)
    mesh_dap_args.register(group)
    mesh_hpke_args.register(group)
    mesh_roles_args.register(group)
    _token_command(group)
    mesh_log_args.register(group)
    mesh_publish_args.register(group)
    mesh_ceremony_args.register(group)
    _harness_command(group)
    demo = add(group, "demo", _DEMO, "main", "the whole loop on this machine, in processes of its own")
    demo.add_argument("--keep", metavar="DIR", help="keep everything that the demo makes in this new folder")
    demo.add_argument("--json", action="store_true", help="print one JSON object at the end, and nothing else")
    mesh_help.teach(mesh, group)


def _harness_command(group: Commands) -> None:
    told = "measure a policy on commands that others wrote: what it meets, and what it stops for nothing"
    harness = add(group, "harness", _HARNESS, "harness", told, home=False, config=False)
    harness.add_argument("policy", metavar="FILE|builtin:NAME", help="the policy that is measured")
    harness.add_argument(
        "--corpus", metavar="DIR", default="corpora", help="the folder of the corpus (default: ./%(default)s)"
    )
    harness.add_argument(
        "--evaluator", choices=("auto", "python", "native"), default="auto", help="which engine (default: %(default)s)"
    )
    harness.add_argument("--json", action="store_true", help="one JSON object")


def _token_command(group: Commands) -> None:
    token = add(
        group,
        "token",
        _LETTING_IN,
        "token",
        "let somebody in by a bearer token, take it back, or list who has one",
        home=False,
        config=False,
    )
    token.add_argument("--dir", metavar="DIR", required=True, help="the folder of the role that lets them in")
    token.add_argument(
        "--party",
        choices=("publisher", "member", "collector", "leader"),
        help="publisher: at a log; member, collector: at a leader; leader: at a helper",
    )
    token.add_argument("--name", metavar="NAME", help="who it is for")
    instead = token.add_mutually_exclusive_group()
    told = "the token of this party and name opens nothing any more, at running servers too"
    instead.add_argument("--take-back", action="store_true", help=told)
    told = "who has a token of this role, for which tasks, since when; never a token"
    instead.add_argument("--list", action="store_true", help=told)
    token.add_argument("--json", action="store_true", help="with --list: one JSON object")
    told = "the new file that holds the token; hand it over. Left out: widen the token that the name has"
    token.add_argument("--out", metavar="FILE", help=told)
    which = token.add_mutually_exclusive_group()
    told = "a task's file, once each task that it is good for; a collector and a leader need one, or --all-tasks"
    which.add_argument("--task", action="append", default=[], metavar="FILE", help=told)
    which.add_argument("--all-tasks", action="store_true", help="good for every task there, also those to come")
