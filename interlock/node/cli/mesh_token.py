"""`interlock mesh token`: the bearer tokens that let others into a role, each for the tasks that it names."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

from interlock.base.errors import EXIT_OK, BadInput
from interlock.base.files import BadState
from interlock.node.cli.mesh_dap_task import read_any
from interlock.node.setup import TABLES, issue_token
from interlock.node.tokens import let_into

__all__ = ["token"]

_LETS_IN: Final = {"publisher": "log.key", "member": "hpke.json", "collector": "hpke.json", "leader": "hpke.json"}
_LETTING: Final = "a log lets publishers in, a leader members and collectors, a helper the leader"
# whoever has one of these can close a batch, spend its budget or commit reports: so a person says for which tasks
_BY_TASK: Final = ("collector", "leader")


def token(args: argparse.Namespace) -> int:
    """Let somebody in: a new token in a file of its own, its hash in the role's folder; or widen one that was made."""
    directory, tasks = Path(args.dir), _tasks(args)
    if not directory.is_dir():
        raise BadState("is not there", where=args.dir, fix="make it with interlock mesh setup")
    if not (directory / _LETS_IN[args.party]).exists():
        raise BadState(f"is no folder of a role that lets a {args.party} in", where=args.dir, fix=_LETTING)
    table = TABLES[args.party]
    if args.out is None:
        let_into(directory / table, args.name, tasks)
        print(f"{args.name} may come as {args.party}{_told(args, more=True)}, with the token that it has")
        return EXIT_OK
    issue_token(directory, args.party, args.name, Path(args.out), os.urandom, tasks)
    print(f"{args.name} may come as {args.party}{_told(args)}; the token is in {args.out}, its hash in {table}")
    return EXIT_OK


def _tasks(args: argparse.Namespace) -> list[bytes] | None:
    """The ids of the tasks that are named, or None for all. Raises: BadInput, and what reading a task raises."""
    named = bool(args.task)
    if args.party == "publisher" and (named or args.all_tasks):
        raise BadInput("is for tasks, and a log has none", where="--task, --all-tasks", fix="leave it out")
    if args.party in _BY_TASK and not (named or args.all_tasks):
        fix = "name the files of its tasks, or give --all-tasks"
        raise BadInput(f"is needed: what a {args.party} may do with its token", where="--task FILE", fix=fix)
    if args.out is None and not (named or args.all_tasks):
        raise BadInput("are both missing", where="--out, --task", fix="name the new file; or the tasks to widen it to")
    return [read_any(Path(path)).task_id for path in args.task] if named else None


def _told(args: argparse.Namespace, *, more: bool = False) -> str:
    if args.party == "publisher":
        return ""
    if not args.task:
        return " for every task of this aggregator"
    return f" for {len(args.task)} {'more ' * more}{'task' if len(args.task) == 1 else 'tasks'}"
