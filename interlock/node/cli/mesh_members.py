"""`interlock mesh members` of those who run an issuer or a commons: who may report, member keys, counts."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from interlock.base.clock import DAY_US, SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, BadInput
from interlock.base.files import BadState, demand_new, private_dir, read_bounded, replace
from interlock.commons.enrolment import parse_count
from interlock.commons.memberfiles import demand_issuer_apart, member_file
from interlock.commons.membership import TaskMembership
from interlock.commons.operators import MAX_OPERATORS, parse_operators
from interlock.commons.statements import known_organisation
from interlock.dap.task import Task
from interlock.node.cli.mesh_shared import serve_settings
from interlock.node.config import serve_config
from interlock.node.reporter import read_task
from interlock.node.roles.issuer import Issuer, invite_hash
from interlock.node.storage.issuer import IssuerStore
from interlock.node.wiring.issuer import ISSUER_STORE, issuer_of
from interlock.node.wiring.publisher import publisher_of

__all__ = ["approve", "count", "invite", "keys", "list", "publish", "revoke"]

_EPOCHS_MOST: Final = 400
_LIMIT: Final = 1 << 20
_INVITE_FORMAT: Final = "interlock-members"


def invite(args: argparse.Namespace) -> int:
    """Make a code, in a private file; the issuer keeps its hash."""
    out = Path(args.out)
    demand_new(out)
    if not 1 <= args.days <= 365:
        raise BadInput("is from 1 to 365", where="--days")
    name = known_organisation(args.organisation, where="--organisation") if args.organisation else ""
    code, ends = os.urandom(16).hex(), SystemClock().now_us() + args.days * DAY_US
    with _store(args) as store:
        replace(out, code.encode("ascii"))
        store.add_invite(invite_hash(code), name, ends)
    print(f"an invite for {name or 'one organisation'} is in {out}; it holds once, until {rfc3339(ends)}")
    return EXIT_OK


def list(args: argparse.Namespace) -> int:
    """Who is enrolled, who waits, who was revoked."""
    with _store(args) as store:
        rows = store.members()
    if args.json:
        told = [{"organisation": m.organisation, "key": m.key, "state": m.state.value, "at": m.at} for m in rows]
        print(json.dumps({"format": _INVITE_FORMAT, "v": 1, "members": told}))
        return EXIT_OK
    for row in rows:
        print(f"{row.organisation:24} {row.state.value:9} since {rfc3339(row.at)}  {row.key}")
    if not rows:
        print("nobody is enrolled: make an invite with interlock mesh members invite")
    return EXIT_OK


def approve(args: argparse.Namespace) -> int:
    """Enrol one who asked without an invite."""
    with _store(args) as store:
        store.approve(args.organisation, SystemClock().now_us())
    print(f"{args.organisation} is enrolled; it gets its certificate when it asks again")
    return EXIT_OK


def revoke(args: argparse.Namespace) -> int:
    """From now on no token; what was given out stays good for its epoch, as nobody can tell which it is."""
    with _store(args) as store:
        store.revoke(args.organisation, SystemClock().now_us())
    print(f"{args.organisation} gets no token any more; those that it has end with their epochs")
    return EXIT_OK


def keys(args: argparse.Namespace) -> int:
    """Make the member keys of some epochs; those that exist are written again as they are."""
    task = read_task(Path(args.task))
    wanted = _membership(task)
    if not 1 <= args.epochs <= _EPOCHS_MOST:
        raise BadInput(f"is from 1 to {_EPOCHS_MOST}", where="--epochs")
    first = task.time_of(SystemClock().now_us()) if args.first is None else args.first
    out = Path(args.out)
    with _issuer(args) as issuer:
        if args.operators:
            operators = parse_operators(read_bounded(Path(args.operators), MAX_OPERATORS), where=args.operators)
            leader, helper = (url.decode("ascii") for url in (task.config.leader_url, task.config.helper_url))
            demand_issuer_apart(operators, issuer.verifier, leader, helper)
        private_dir(out)
        for epoch in range(first, first + args.epochs):
            # One epoch more, so that a report that is made when its epoch has ended still finds its token.
            between = task.start_us(epoch), task.start_us(epoch + 2)
            data = issuer.open_epoch(wanted.task, epoch, wanted.backend, *between, least_age=args.least_age)
            replace(out / f"{wanted.task}.{epoch}.json", data)
    last = first + args.epochs - 1
    print(f"{wanted.task}: keys of the epochs {first} to {last} are in {out}; have the commons publish them")
    return EXIT_OK


def count(args: argparse.Namespace) -> int:
    """The issuer's count, as anyone can check it."""
    with _issuer(args) as issuer:
        data = issuer.count(args.task, args.epoch)
    if args.out:
        replace(Path(args.out), data)
    found = parse_count(data)
    state = "final" if found.final else "it may still grow"
    print(f"{args.task}, epoch {args.epoch}: {found.issued} tokens to {found.enrolled} organisations; {state}")
    return EXIT_OK


def publish(args: argparse.Namespace) -> int:
    """Put member keys or counts into a commons, all in one snapshot."""
    files = [member_file(read_bounded(Path(name), _LIMIT), where=name) for name in args.files]
    done = publisher_of(serve_config(serve_settings(args), args.dir), SystemClock()).publish_members(files)
    names = ", ".join(f"{file.task} {file.epoch}" for file in files[:3]) + (", ..." if len(files) > 3 else "")
    print(f"{len(files)} files ({names}), log index {done.log_index} of {done.tree_size}")
    return EXIT_OK


def _membership(task: Task) -> TaskMembership:
    if task.membership is None:
        raise BadInput("asks for no proof of membership", where="--task", fix="make the task with one")
    return TaskMembership.decode(task.membership)


@contextlib.contextmanager
def _store(args: argparse.Namespace) -> Iterator[IssuerStore]:
    path = Path(args.dir) / ISSUER_STORE
    if not (Path(args.dir) / "issuer.key").exists():
        raise BadState("is no issuer's folder", where=args.dir, fix="make it with interlock mesh setup")
    with contextlib.closing(IssuerStore(path)) as store:
        yield store


def _issuer(args: argparse.Namespace) -> contextlib.AbstractContextManager[Issuer]:
    return issuer_of(serve_config(serve_settings(args), args.dir), SystemClock())
