"""`interlock mesh dap task` and `dap key`: make a task, look at it, take it on; and the collector's key."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

from interlock.base.clock import SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, BadInput, InterlockError
from interlock.base.fetch import fetcher_of
from interlock.base.files import BadState, NewerFormat, demand_new, read_bounded, read_private, replace
from interlock.base.keys import Ed25519Verifier
from interlock.commons.indicators import MAX_CATALOG, Catalog, parse_catalog
from interlock.commons.known_operators import known_operators
from interlock.commons.signers import own_key
from interlock.commons.statements import known_task
from interlock.commons.subscribe import Subscriber
from interlock.dap.drafts import draft_of
from interlock.dap.messages import BatchId
from interlock.dap.repair import Repair
from interlock.dap.task import Task, TaskRefused
from interlock.dap.taskfile import dump_client_task, dump_config, load_client_task, load_config, load_task
from interlock.node.cli.mesh_node import config_of, patiently, subscriber_of
from interlock.node.cli.mesh_shared import key_given, published_text, serve_settings
from interlock.node.config import ServeConfig, serve_config
from interlock.node.roles.taking import demand_apart, demand_published, demand_safe, published_task
from interlock.node.roles.tasks import Wanted, described, made_task, noise_of, shared_secret, take_on, task_from
from interlock.node.storage.dap_budget import BUDGET_FILE
from interlock.node.storage.dap_tasks import hpke_key_in
from interlock.node.wiring.publisher import publisher_of
from interlock.node.wiring.stores import budget_store, repairs_of

__all__ = ["add", "create", "key", "list", "read_any", "show", "taken", "task_lines"]

_LIMIT: Final = 1 << 20
_PUBLIC_FILE: Final = 0o644
_FORMAT: Final = "interlock-tasks"
_AGGREGATOR: Final = ".task.json"
_ITS_KEY: Final = "take what interlock mesh dap key --statements FILE prints"


def create(args: argparse.Namespace) -> int:
    """Make a task; it is written, and signed and logged, only if everybody could take part in it."""
    if not (args.out or args.dir):
        raise BadInput("are both missing", where="--out, --dir", fix="give the file to write, or the commons, or both")
    known_task(args.name, where=args.name)
    if args.out:
        demand_new(Path(args.out))
    task = made_task(_wanted(args), SystemClock().now_us())
    demand_apart(task, args.name)
    data = dump_client_task(task)
    if args.dir:
        _demand_membership(task, args.name)
        publisher = publisher_of(serve_config(serve_settings(args), args.dir), SystemClock())
        print(published_text(publisher.publish_dap_task(args.name, data)))
    if args.out:
        replace(Path(args.out), data, mode=_PUBLIC_FILE)
    for line in task_lines(task):
        print(line)
    if args.out:
        print(f"{args.out}: give it to both aggregators, to the collector and to members")
    return EXIT_OK


def list(args: argparse.Namespace) -> int:
    """The tasks of a folder, one line each; one that cannot be read is said and passed over."""
    folder = (Path(args.dir) if args.dir else config_of(args).home) / "tasks"
    rows = [*_tasks_in(folder)]
    if args.json:
        told = [described(row) if isinstance(row, Task) else {"error": str(row)} for row in rows]
        print(json.dumps({"format": _FORMAT, "v": 1, "tasks": told}))
        return EXIT_OK
    for row in rows:
        print(_line(row) if isinstance(row, Task) else f"cannot be used: {row}")
    if not rows:
        print(f"no task is in {folder}")
    return EXIT_OK


def show(args: argparse.Namespace) -> int:
    """What a task says; by name, as the commons published it, with its proof."""
    task, source = _found(args)
    if args.out:
        demand_new(Path(args.out))
        replace(Path(args.out), dump_client_task(task), mode=_PUBLIC_FILE)
    rows = _released(args, task) if args.dir else None
    repairs = _repairs(args, task) if args.dir else []
    if args.json:
        body: dict[str, object] = {"format": "interlock-task", "v": 1, **described(task), "source": source}
        if rows is not None:
            body["released"] = [{"cost": str(cost), "at": at} for cost, at in rows]
            body["spent"] = str(sum((cost for cost, _ in rows), Fraction(0)))
            body["repairs"] = [_repair_told(repair) for repair in repairs]
        print(json.dumps(body))
        return EXIT_OK
    for line in (*task_lines(task), *_spent_lines(task, rows), *map(_repair_line, repairs), f"source      {source}"):
        print(line)
    return EXIT_OK


def taken(args: argparse.Namespace) -> int:
    """A task of others, from its configuration's bytes as any DAP party has them."""
    demand_new(Path(args.out))
    task = task_from(
        read_bounded(Path(args.file), _LIMIT),
        demo=args.demo,
        draft=draft_of(args.draft),
        batch_size=args.batch_size,
    )
    replace(Path(args.out), dump_client_task(task), mode=_PUBLIC_FILE)
    for line in (*task_lines(task), f"{args.out}: held against no commons"):
        print(line)
    return EXIT_OK


def add(args: argparse.Namespace) -> int:
    """Take a task on as an aggregator: published, safe, and with the secret that the other aggregator has."""
    directory = Path(args.dir)
    if not (directory / "hpke.json").exists():
        fix = "make it with interlock mesh setup --role dap-leader (or dap-helper)"
        raise BadState("is no aggregator's folder", where=args.dir, fix=fix)
    task = read_any(Path(args.task))
    collector = load_config(read_bounded(Path(args.collector), _LIMIT), where=args.collector)
    checked = _demand_checked(task, serve_config(serve_settings(args), args.dir), demo=args.demo)
    secret, made = shared_secret(Path(args.secret), os.urandom)
    take_on(directory, task, collector, secret)
    print(f"{args.dir}: task {task.task_id.hex()[:16]} is taken on, in {task.draft.label}; {checked}")
    if made:
        print(f"{args.secret}: hand it to the other aggregator's operator, and to nobody else")
    return EXIT_OK


def key(args: argparse.Namespace) -> int:
    """Make a collector's key, or write the public half of the one that is there."""
    out = Path(args.out)
    made = not out.exists()
    found = hpke_key_in(out, os.urandom)
    replace(Path(args.public), dump_config(found.config), mode=_PUBLIC_FILE)
    print(f"{args.out}: {'made' if made else 'was there'}; whoever has it reads every result: keep it, and a copy")
    print(f"{args.public}: for both aggregators")
    if args.statements:
        spoken = own_key(Path(args.statements), os.urandom).verifier.text
        print(f"{args.statements}: signs what is told of sums; the task names it: --collector {spoken}")
    return EXIT_OK


def read_any(path: Path) -> Task:
    """A task from a member's or an aggregator's file. Raises: BadState, NewerFormat, TaskRefused."""
    if path.name.endswith(_AGGREGATOR):
        return load_task(read_private(path, _LIMIT), where=str(path)).task
    return load_client_task(read_bounded(path, _LIMIT), where=str(path))


def task_lines(task: Task) -> Iterator[str]:
    """What a task says, in lines for people."""
    said = described(task)
    yield f"task        {said['id']}" + (f" ({said['name']})" if said["name"] else "")
    yield f"draft       {task.draft.label}"
    each = "a 0 or 1 each" if task.shape.most == 1 else f"from 0 to {task.shape.most} each"
    yield f"counts      {said['length']} places, {each}, by {said['vdaf']}" + _catalog_text(task)
    yield f"floor       {said['min_batch_size']} reports a batch" + (" (a demo's: any real task has more)" * task.demo)
    if task.leader_selected:
        yield f"batches     {_filled(task)}"
        yield "            a sum is of reports, and may hold several of one member"
    yield f"epoch       {said['epoch_s']} s, one report of each member in each; until {said['until'] or 'for ever'}"
    yield f"members     {said['members'] or 'prove nothing: a bearer token says who reports'}"
    yield f"noise       {'none: who collects sees exact sums' if task.noise is None else task.noise.text}"
    yield f"collector   {said['collector'] or 'none is named, so nothing that is told of its sums is believed'}"
    yield f"leader      {said['leader']}"
    yield f"helper      {said['helper']}"


def _wanted(args: argparse.Namespace) -> Wanted:
    catalog = None if args.catalog is None else _catalog(Path(args.catalog), args.name)
    if catalog is None and args.length is None and args.vdaf not in ("count", "sum"):
        raise BadInput("are both missing", where="--catalog, --length", fix="say what the places mean, or how many")
    length = len(catalog.places) if catalog is not None else 1 if args.length is None else args.length
    return Wanted(
        args.name,
        length,
        args.leader,
        args.helper,
        None if catalog is None else bytes.fromhex(catalog.digest),
        min_batch=args.min_batch,
        epoch_s=args.epoch,
        days=args.days,
        vdaf=args.vdaf,
        most=args.most,
        draft=args.draft,
        members="" if args.members == "none" else args.members,
        noise=noise_of(args.noise, args.cost, args.budget),
        leader_selected=args.batch_mode == "leader-selected",
        batch_size=args.batch_size,
        demo=args.demo,
        statement_key=_speaker(args.collector),
    )


def _speaker(text: str | None) -> Ed25519Verifier | None:
    return None if text is None else key_given(text, option="--collector", fix=_ITS_KEY)


def _catalog(path: Path, name: str) -> Catalog:
    found = parse_catalog(read_bounded(path, MAX_CATALOG), where=str(path))
    if found.task != name:
        told = f"is the catalog of {found.task}, and a task has its catalog's name"
        raise BadInput(told, where=str(path), fix=f"make the task {found.task}")
    return found


def _demand_membership(task: Task, name: str) -> None:
    """Nobody would take part in another one, so it is not published. Raises: TaskRefused."""
    if task.catalog_digest is None:
        raise TaskRefused("has places without a meaning", where=f"task {name}", fix="give --catalog FILE")
    if task.membership is None:
        raise TaskRefused("asks for no proof of membership", where=f"task {name}", fix="leave --members as it is")
    if task.statement_key is None:
        fix = "give --collector KEY: interlock mesh dap key --statements FILE"
        raise TaskRefused("names no collector who may speak of its sums", where=f"task {name}", fix=fix)


def _found(args: argparse.Namespace) -> tuple[Task, str]:
    path = Path(args.task)
    if path.exists():
        return read_any(path), f"the file {path}; not held against a commons"
    subscriber = subscriber_of(config_of(args))
    return patiently(lambda: published_task(subscriber, args.task)), "the commons, in its log"


def _demand_checked(task: Task, config: ServeConfig, *, demo: bool) -> str:
    """What was checked of a task before an aggregator takes it on. Raises: as `demand_published`, `demand_safe`."""
    name = str(described(task)["name"] or "")
    if not config.upstream or not name:
        if task.membership is not None:
            fix = "set the folder up with --upstream, --root, --log-policy and --operator"
            told = "cannot check the proofs of membership that the task asks for"
            raise TaskRefused(told, where=str(config.directory), fix=fix)
        if task.demo and not demo:
            raise TaskRefused("has the floor of a demo", where="the task", fix="give --demo to take it all the same")
        return "nothing was held against a commons"
    subscriber = Subscriber(config.directory, fetcher_of(config.upstream), SystemClock())
    subscriber.update()
    demand_published(subscriber, name, task)
    demand_safe(task, name, known_operators(config.directory), demo=demo)
    return f"it is {name}, as the commons published and logged it"


def _tasks_in(folder: Path) -> Iterator[Task | InterlockError]:
    for path in sorted(p for p in folder.glob("*.json") if p.name[0] != "."):
        try:
            yield read_any(path)
        except (BadState, NewerFormat, TaskRefused) as e:
            yield e


def _line(task: Task) -> str:
    said = described(task)
    proof, noise = said["members"] or "bearer token", "no noise" if task.noise is None else "noise"
    name = said["name"] or "-"
    batches = f", leader-selected up to {task.batch_size}" if task.leader_selected else ""
    demo = "  demo" if task.demo else ""
    return (
        f"{task.task_id.hex()[:16]}  {name}  {task.draft.label}  {said['length']} places, "
        f"{said['min_batch_size']} or more, {said['epoch_s']} s, {proof}, {noise}{batches}{demo}"
    )


def _filled(task: Task) -> str:
    """How the leader fills the batches that it selects."""
    if task.batch_size == task.config.min_batch_size:
        return f"the leader selects, each of {task.batch_size} reports"
    return f"the leader selects, each of {task.batch_size} reports; after an epoch, of those that are there"


def _catalog_text(task: Task) -> str:
    digest = task.catalog_digest
    return " (no catalog: they mean nothing)" if digest is None else f" (catalog {digest.hex()[:16]})"


def _released(args: argparse.Namespace, task: Task) -> Sequence[tuple[Fraction, str]]:
    """What an aggregator's ledger says of a task: costs, and when. Raises: BadState, BadConfig, Unreachable."""
    config, role = _aggregator(args)
    if not config.store and not (config.directory / BUDGET_FILE).exists():
        return []
    with contextlib.closing(budget_store(config, role)) as store:
        return [(row.cost, rfc3339(row.at)) for row in store.rows(task.task_id)]


def _aggregator(args: argparse.Namespace) -> tuple[ServeConfig, str]:
    """An aggregator's configuration, and which of the two it is."""
    config = serve_config(serve_settings(args), args.dir)
    return config, "leader" if (config.directory / "helper-token").exists() else "helper"


def _repairs(args: argparse.Namespace, task: Task) -> Sequence[Repair]:
    """Which batches an aggregator repaired. Raises: BadState, BadConfig, Unreachable."""
    return repairs_of(*_aggregator(args), task.task_id)


def _repair_told(repair: Repair) -> dict[str, object]:
    """A repair for programs: its batch, what remains and what each side left out, when and with whom."""
    of = repair.selection
    batch = {"id": of.id.hex()} if isinstance(of, BatchId) else {"start": of.start, "duration": of.duration}
    sides = {"left_out_here": repair.ours, "left_out_there": repair.theirs}
    jobs = {side: [{"job": p.job_id.hex(), "reports": p.count} for p in parts] for side, parts in sides.items()}
    return {"batch": batch, "reports": repair.kept, **jobs, "with": repair.who, "at": rfc3339(repair.at_us)}


def _repair_line(repair: Repair) -> str:
    of = repair.selection
    batch = f"batch {of.id.hex()[:16]}" if isinstance(of, BatchId) else f"epochs {of.start} to {of.end - 1}"
    return f"repaired    {batch} with {repair.who or 'its leader'}, at {rfc3339(repair.at_us)}: {repair.text}"


def _spent_lines(task: Task, rows: Sequence[tuple[Fraction, str]] | None) -> Iterator[str]:
    if rows is None:
        return
    if task.noise is None:
        yield "budget      none: the task has no noise"
        return
    spent = sum((cost for cost, _ in rows), Fraction(0))
    measure = task.noise.mechanism.measure
    yield f"budget      {spent} of {task.noise.budget} {measure} is spent; batches released: {len(rows)}"
    for cost, at in rows:
        yield f"            {cost} at {at}"
