"""`interlock mesh indicator`: from a person's proposal to a catalog, and from a batch's sums to a pack."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from interlock.base.clock import SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, BadInput
from interlock.base.files import BadState, demand_new, read_bounded, read_private, replace, unstamped
from interlock.commons.consensus import (
    DAYS_MOST,
    MAX_CONSENSUS,
    Standing,
    Statement,
    needed,
    parse_consensus,
    standing,
)
from interlock.commons.enrolment import parse_count
from interlock.commons.indicators import (
    FALSE_POSITIVES,
    MAX_CATALOG,
    MAX_PROPOSAL,
    SIGHTINGS,
    Catalog,
    build_catalog,
    build_proposal,
    parse_catalog,
    parse_proposal,
)
from interlock.commons.known_operators import known_operators
from interlock.commons.membership import MemberKeys, TaskMembership, parse_member_keys
from interlock.commons.pack import MAX_PACK, parse_pack
from interlock.commons.signers import read_key
from interlock.commons.statements import MAX_STATEMENT
from interlock.commons.subscribe import Subscriber
from interlock.commons.windows import length_us
from interlock.dap.task import Task, TaskRefused
from interlock.engine.detectors.indicator import indicated
from interlock.node.cli.mesh_node import config_of, patiently, subscriber_of
from interlock.node.reporter import read_task
from interlock.node.roles.curate import Batch, demand_follows, demand_of_task, demotion, pack_of, statement_of
from interlock.node.roles.taking import published_task

__all__ = ["catalog", "check", "consensus", "pack", "propose", "read_batch"]

_T = TypeVar("_T")
_RESULT_FORMAT: Final = "interlock-collected"
_RESULT_MOST: Final = 64 << 20
_REVEALS: Final = """\
This proposes {what} as a candidate for a count that everybody takes part in.
what it is        {value}; check it: a name can look like another
what is written   {kind}:DIGEST, and nothing else: not {what} itself, not who you are, nor where you met it
who sees it       whoever you hand the file; once a curator takes it, everybody who reads the commons, for ever
what it reveals   that somebody met it: whoever can guess {what} can hold the guess against the digest
what it is not    a report: whether you meet it again is counted only if you consent, and read by nobody alone
"""


def propose(args: argparse.Namespace) -> int:
    """Write a proposal, once a person has read what it reveals and to whom."""
    out = Path(args.out)
    data = build_proposal(args.kind, args.value)
    demand_new(out)
    value = indicated(args.kind, args.value)
    told = _REVEALS.format(what=f"the {_noun(args.kind)}", kind=args.kind, value=value)
    print(told, end="", file=sys.stderr if args.yes else sys.stdout)
    if not args.yes and not _agreed():
        print("nothing was written")
        return EXIT_REFUSED
    replace(out, data)
    print(f"{out}: hand it to the curator of the commons")
    return EXIT_OK


def catalog(args: argparse.Namespace) -> int:
    """Write a catalog; rules that mask have no place in it."""
    packs = [parse_pack(read_bounded(Path(name), MAX_PACK), where=name) for name in args.rules]
    rules = [doc.id for p in packs for doc in p.rules if doc.mask is None]
    proposals = [parse_proposal(read_bounded(Path(name), MAX_PROPOSAL), where=name) for name in args.proposal]
    if not rules and not proposals:
        raise BadInput("has no places", where=f"catalog {args.task}", fix="give --rules PACK, or --proposal FILE")
    opens_at = SystemClock().now_us() + length_us(args.opens_in)
    counts = FALSE_POSITIVES if args.false_positives else SIGHTINGS
    made = build_catalog(args.task, opens_at=opens_at, rules=rules, indicators=proposals, counts=counts)
    replace(Path(args.out), made.data)
    print(f"{args.out}: {len(made.places)} places ({', '.join(made.kinds)}), {counts}; opens at {rfc3339(opens_at)}")
    print("whoever has it can test guesses against its digests; publish it before it opens")
    return EXIT_OK


def consensus(args: argparse.Namespace) -> int:
    """Write the statement of a batch; its numbers stay with the collector."""
    if not 1 <= args.days <= DAYS_MOST:
        raise BadInput(f"is from 1 to {DAYS_MOST}", where="--days")
    task = read_task(Path(args.task))
    if task.leader_selected:
        raise TaskRefused("counts reports, and does not say of how many organisations", where=args.task)
    batch = read_batch(Path(args.collected), task)
    known = _catalog_of(args, task)
    keys = _member_keys(args, task, batch)
    count = parse_count(read_bounded(Path(args.count), MAX_STATEMENT), where=args.count) if args.count else None
    least = needed(0 if keys is None else keys.least_age, demo=task.demo)
    threshold = max(least, task.config.min_batch_size) if args.at_least is None else args.at_least
    signer = read_key(Path(args.key))
    said = statement_of(task, known, batch, signer, threshold=threshold, days=args.days, keys=keys, count=count)
    replace(Path(args.out), said.data)
    for place in said.places:
        print(place)
    print(f"{args.out}: {len(said.places)} of {len(known.places)} places, each by at least {said.at_least}")
    proof = said.shown or "nothing"
    print(f"signed by {said.collector}, the collector that the task names")
    print(f"it holds until {rfc3339(said.until)}; members of at least {said.least_age} days, shown by {proof}")
    if task.membership is not None and count is None:
        print("the issuer was not held to its count: give --count FILE", file=sys.stderr)
    if said.at_least < least or not said.shown:
        told = "nobody proved to be a member" if not said.shown else f"it takes {least} of members this young"
        print(f"it brings nothing into force: {told}", file=sys.stderr)
    return EXIT_OK


def pack(args: argparse.Namespace) -> int:
    """Write a pack from what holds now, for a reviewer to sign."""
    statements, stands = _standing(args)
    signed = [f"Signed-off-by: {who}" for who in args.sign_off]
    _tell_weak(args, statements, stands)
    made = pack_of(stands, statements, name=args.name, version=args.version, authors=args.author, signed_off_by=signed)
    replace(Path(args.out), made.data)
    print(f"{args.out}: {len(stands.accepted)} indicators in force, {len(stands.ended)} ended")
    if stands.disputed:
        print(f"{len(stands.disputed)} places are disputed: as many called them false positives as had accepted them;")
        print("a person is to judge, and till then:")
        for place in sorted(stands.disputed):
            print(f"  {place} in shadow")
        if args.proposal:
            replace(Path(args.proposal), demotion(stands, args.name))
    if not signed:
        print("no author signed it off, and without --sign-off 'NAME <MAIL>' no commons publishes it", file=sys.stderr)
    print(f"next: interlock mesh publish {args.out} --ring beta, then have it reviewed")
    return EXIT_OK


def check(args: argparse.Namespace) -> int:
    """Say what statements say, and in whose word; and whether a pack follows from just them."""
    statements, stands = _standing(args)
    for place, row in sorted(stands.accepted.items()):
        print(f"  {place}  at least {row.at_least} organisations, until {rfc3339(row.until)}")
    for place in sorted(stands.disputed):
        print(f"  {place}  disputed")
    _tell_weak(args, statements, stands)
    if args.pack is None:
        return EXIT_OK
    given = parse_pack(read_bounded(Path(args.pack), MAX_PACK), where=args.pack)
    demand_follows(given, statements, stands)
    print(f"{args.pack}: follows from these {len(statements)} statements, and from nothing else")
    return EXIT_OK


def _tell_weak(args: argparse.Namespace, statements: Sequence[Statement], stands: Standing) -> None:
    for said in statements:
        if said.digest in stands.weak:
            why = "is a demonstration's (--demo lets it count)" if said.demo and not args.demo else "is too weak"
            print(f"statement {said.digest[:16]} {why}, and counts for nothing", file=sys.stderr)


def _standing(args: argparse.Namespace) -> tuple[list[Statement], Standing]:
    """The statements that were named, each in the word of its task's own collector, and what follows from them."""
    statements = [parse_consensus(read_bounded(Path(name), MAX_CONSENSUS), where=name) for name in args.statements]
    tasks, operators = _tasks(args, statements), known_operators(config_of(args).home)
    for name, said in zip(args.statements, statements, strict=True):
        who = demand_of_task(said, tasks[said.task], operators)
        span = f"{rfc3339(said.start)} to {rfc3339(said.end)}"
        print(f"{name}: {said.counts} of {said.task}, {span}, at least {said.at_least}, in the word of {who}")
    return statements, standing(statements, _catalogs(args, statements), SystemClock().now_us(), demo=args.demo)


def read_batch(path: Path, task: Task) -> Batch:
    """A collected batch from its file. Raises: BadState."""
    where = str(path)
    body = unstamped(read_private(path, _RESULT_MOST), _RESULT_FORMAT, 1, where=where)
    named = {name: body.get(name) for name in ("report_count", "start", "end")}
    sums = body.get("sums")
    whole = all(type(value) is int for value in named.values())
    if not whole or not isinstance(sums, list) or not all(type(value) is int for value in sums):
        raise BadState("holds no batch", where=where, fix="collect it again: the same batch gives the same sums")
    if body.get("task_id") != task.task_id.hex():
        raise BadState("is of another task", where=where)
    reports, start, end = (int(str(value)) for value in named.values())
    if not 0 <= start < end:
        raise BadState("holds no batch", where=where)
    return Batch(reports, start, end, tuple(sums))


def _catalog_of(args: argparse.Namespace, task: Task) -> Catalog:
    if args.catalog:
        return parse_catalog(read_bounded(Path(args.catalog), MAX_CATALOG), where=args.catalog)
    if task.membership is None:
        raise BadInput("is needed", where="--catalog FILE", fix="the task does not say what its catalog is called")
    name = TaskMembership.decode(task.membership).task
    return _published(args, lambda subscriber: subscriber.catalog(name))


def _catalogs(args: argparse.Namespace, statements: Sequence[Statement]) -> list[Catalog]:
    if args.catalog:
        return [parse_catalog(read_bounded(Path(name), MAX_CATALOG), where=name) for name in args.catalog]
    names = sorted({said.task for said in statements})
    return _published(args, lambda subscriber: [subscriber.catalog(name) for name in names])


def _tasks(args: argparse.Namespace, statements: Sequence[Statement]) -> Mapping[str, Task]:
    """The task of each statement by its name: from the files that were given, else as the commons published it."""
    if args.task:
        given = [read_task(Path(name)) for name in args.task]
        by_name = {said.task: t for said in statements for t in given if t.task_id.hex() == said.task_id}
        missing = [said.task for said in statements if said.task not in by_name]
        if missing:
            raise BadInput("names none of it", where=f"--task FILE: task {missing[0]}")
        return by_name
    names = sorted({said.task for said in statements})
    return _published(args, lambda subscriber: {name: published_task(subscriber, name) for name in names})


def _member_keys(args: argparse.Namespace, task: Task, batch: Batch) -> MemberKeys | None:
    if task.membership is None:
        return None
    if args.member_keys:
        return parse_member_keys(read_bounded(Path(args.member_keys), MAX_STATEMENT), where=args.member_keys)
    name = TaskMembership.decode(task.membership).task
    return _published(args, lambda subscriber: subscriber.member_keys(name, batch.start))


def _published(args: argparse.Namespace, look: Callable[[Subscriber], _T]) -> _T:
    """Something that the commons signed, and that this node verifies."""
    subscriber = subscriber_of(config_of(args))
    return patiently(lambda: look(subscriber))


def _noun(kind: str) -> str:
    return {"file": "file", "host": "host", "mcp": "listing of an MCP server", "package": "package"}[kind]


def _agreed() -> bool:
    """Ask at the terminal. Raises: BadInput, where there is nobody to ask."""
    if not sys.stdin.isatty():
        fix = "read what is said above, then --yes"
        raise BadInput("needs a terminal to ask, and this is none", where="indicator propose", fix=fix)
    try:
        return input("Propose it? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False
