"""`interlock mesh token`: the bearer tokens that let others into a role, each for the tasks that it names."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from interlock.base.clock import SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, BadInput
from interlock.base.files import BadState
from interlock.node.cli.mesh_dap_task import read_any
from interlock.node.setup import TABLES, issue_token
from interlock.node.tokens import Grant, grants_in, let_into, take_back

__all__ = ["token"]

_LETS_IN: Final = {"publisher": "log.key", "member": "hpke.json", "collector": "hpke.json", "leader": "hpke.json"}
_LETTING: Final = "a log lets publishers in, a leader members and collectors, a helper the leader"
# whoever has one of these can close a batch, spend its budget or commit reports: so a person says for which tasks
_BY_TASK: Final = ("collector", "leader")
_FORMAT: Final = "interlock-token-list"


def token(args: argparse.Namespace) -> int:
    """Let somebody in: a new token in a file of its own, its hash in the role's folder; or widen one that was made,
    take one back, or list them.
    """
    directory = Path(args.dir)
    if not directory.is_dir():
        raise BadState("is not there", where=args.dir, fix="make it with interlock mesh setup")
    _demand_fitting(args)
    if args.list:
        return _list(args, directory)
    if not (directory / _LETS_IN[args.party]).exists():
        raise BadState(f"is no folder of a role that lets a {args.party} in", where=args.dir, fix=_LETTING)
    if args.take_back:
        return _take_back(args, directory)
    table, tasks = TABLES[args.party], _tasks(args)
    if args.out is None:
        let_into(directory / table, args.name, tasks)
        print(f"{args.name} may come as {args.party}{_told(args, more=True)}, with the token that it has")
        return EXIT_OK
    now_us = SystemClock().now_us()
    issue_token(directory, args.party, args.name, Path(args.out), os.urandom, tasks, now_us=now_us)
    print(f"{args.name} may come as {args.party}{_told(args)}; the token is in {args.out}, its hash in {table}")
    return EXIT_OK


def _take_back(args: argparse.Namespace, directory: Path) -> int:
    table = TABLES[args.party]
    taken, others = take_back(directory / table, args.name)
    print(f"{args.name} comes as {args.party} no more{_good_for(args.party, taken)}: token {taken.id} opens nothing")
    if others:
        print(f"but the same token stays good as {', '.join(others)}: take it back there too")
    print(f"a server that reads {table} refuses it from now on; what it was let in for before stays done")
    return EXIT_OK


def _list(args: argparse.Namespace, directory: Path) -> int:
    """Every token of the role's tables."""
    parties = [party for party, table in TABLES.items() if (directory / table).exists()]
    rows = [(p, n, g) for p in parties if args.party in (None, p) for n, g in _sorted(directory / TABLES[p])]
    if args.json:
        told = [{"id": g.id, "name": n, "party": p, "tasks": _ids(g), "at": g.at} for p, n, g in rows]
        print(json.dumps({"format": _FORMAT, "v": 1, "tokens": told}))
        return EXIT_OK
    for party, name, grant in rows:
        since = f"since {rfc3339(grant.at)}" if grant.at else "since nobody knows when"
        print(f"{grant.id}  {party:9}  {name}  {since}{_good_for(party, grant)}")
    if not rows:
        print(f"nobody has a token of {args.dir}")
    return EXIT_OK


def _sorted(path: Path) -> Iterable[tuple[str, Grant]]:
    return sorted(grants_in(path).items())


def _ids(grant: Grant) -> list[str] | None:
    return None if grant.tasks is None else sorted(task.hex() for task in grant.tasks)


def _good_for(party: str, grant: Grant) -> str:
    """For which tasks a token is good, or was, as the end of a line."""
    ids = _ids(grant)
    if party == "publisher":
        return ""
    return ", for every task" if ids is None else f", for {', '.join(i[:16] for i in ids) or 'no task'}"


def _demand_fitting(args: argparse.Namespace) -> None:
    """Raises: BadInput, for options that say nothing together."""
    making = args.task or args.all_tasks or args.out
    if (args.take_back or args.list) and making:
        raise BadInput("is for tokens that are made", where="--out, --task, --all-tasks", fix="leave it out")
    if args.list and args.name:
        raise BadInput("is for one token, and --list tells of all", where="--name", fix="leave it out")
    if args.json and not args.list:
        raise BadInput("goes with --list", where="--json", fix="leave it out")
    if not args.list and not (args.party and args.name):
        raise BadInput("are needed", where="--party, --name", fix="say whose token it is; or --list them")


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
