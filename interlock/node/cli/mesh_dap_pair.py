"""`interlock mesh dap pair`: a leader and a helper on this machine, for a trial, until Ctrl-C.

DIR/leader-operator/  DIR/helper-operator/     what each of two operators would have, each alone
DIR/collector/        its key, and its token
DIR/members/          a token for each of some members
DIR/task.json         DIR/reports.txt          the task; reports to begin with
DIR/trial.json        last: the ports, so that a second start is of the same task
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from interlock.base.clock import SystemClock
from interlock.base.errors import EXIT_OK
from interlock.base.files import BadState, private_dir, read_bounded, replace, stamped, unstamped
from interlock.base.organisations import LEAST
from interlock.dap.task import Task
from interlock.dap.taskfile import dump_client_task
from interlock.node.cli.mesh_dap_task import read_any, task_lines
from interlock.node.demo.cast import Address, Cast
from interlock.node.http import Listen, PortInUse, open_socket
from interlock.node.roles.tasks import Wanted, made_task, noise_of, take_on
from interlock.node.service import alone_in, stop_event
from interlock.node.setup import issue_token, make_aggregator, write_settings
from interlock.node.storage.dap_tasks import hpke_key_in

__all__ = ["pair"]

_FORMAT: Final = "interlock-dap-trial"
_ROLES: Final = {"leader": "leader-operator", "helper": "helper-operator"}
_MEMBERS: Final = 12  # tokens, at least; a member has one report an epoch
_LIMIT: Final = 1 << 16
_DAYS: Final = 365
_LOOK_S: Final = 0.5
_WARNING: Final = """\
THIS IS A TRIAL. One operator runs both aggregators here, and so could read every report; their privacy is that of two
operators who do not share. Report nothing real to it."""


def pair(args: argparse.Namespace) -> int:
    """Make the trial's folder if it is not there, and run both aggregators of it."""
    stop, root = stop_event(with_stdin=args.stop_with_stdin), Path(args.dir)
    with contextlib.ExitStack() as stack:
        addresses = {} if (root / "trial.json").exists() else _made(args, root)
        stack.enter_context(alone_in(root))
        addresses = addresses or _again(root)
        for address in addresses.values():
            stack.callback(address.sock.close)
        task = read_any(root / "task.json")
        cast = Cast(private_dir(root / "logs"))
        stack.callback(cast.stop)
        for role, address in addresses.items():
            words = ["mesh", "serve", "--role", f"dap-{role}", "--dir", str(root / _ROLES[role])]
            cast.start(role, [*words, "--log-format", args.log_format, *(["--demo"] if task.demo else [])], address)
            address.sock.close()  # theirs now: where it ends, its callers are told so
        for line in _told(root, task, addresses):
            print(line, flush=True)
        while not stop.wait(_LOOK_S):
            cast.check_alive()
    print("both aggregators are stopped; start them again with the same command", file=sys.stderr)
    return EXIT_OK


def _made(args: argparse.Namespace, root: Path) -> dict[str, Address]:
    """The folder of a new trial, whole or not at all. Raises: BadState, BadInput, TaskRefused, NotWritable."""
    if root.exists() and any(root.iterdir()):
        raise BadState("is no trial, and not empty", where=args.dir, fix="name a new folder")
    addresses = {role: _listening(0) for role in _ROLES}
    try:
        with _gone_if_it_fails(root):
            task = _task(args, addresses)
            _fill(root, task)
            ports = {role: address.sock.getsockname()[1] for role, address in addresses.items()}
            replace(root / "trial.json", stamped(_FORMAT, 1, dict(ports)))
    except BaseException:
        for address in addresses.values():
            address.sock.close()
        raise
    return addresses


def _again(root: Path) -> dict[str, Address]:
    """The addresses of a trial that was made before: they stand in its task. Raises: BadState, PortInUse."""
    path = root / "trial.json"
    body = unstamped(read_bounded(path, _LIMIT), _FORMAT, 1, where=str(path))
    ports = {role: body.get(role) for role in _ROLES}
    found: dict[str, Address] = {}
    for role, port in ports.items():
        if type(port) is not int or not 0 < port < 1 << 16:
            raise BadState("names no port", where=str(path), fix="make a new trial in another folder")
        try:
            found[role] = _listening(port)
        except PortInUse as e:
            for address in found.values():
                address.sock.close()
            fix = "stop what listens there: the trial's task names this address; or make a new trial in another folder"
            raise PortInUse(e.what, where=e.where, fix=fix) from None
    return found


def _listening(port: int) -> Address:
    sock = open_socket(Listen(port=port))
    return Address(sock, f"http://127.0.0.1:{sock.getsockname()[1]}")


def _task(args: argparse.Namespace, addresses: dict[str, Address]) -> Task:
    wanted = Wanted(
        "trial",
        args.length,
        addresses["leader"].url,
        addresses["helper"].url,
        min_batch=args.min_batch,
        epoch_s=args.epoch,
        days=_DAYS,
        vdaf=args.vdaf,
        most=args.most,
        draft=args.draft,
        noise=noise_of(args.noise, args.cost, args.budget),
        demo=args.min_batch < LEAST,
        leader_selected=args.batch_mode == "leader-selected",
        batch_size=args.batch_size,
    )
    return made_task(wanted, SystemClock().now_us())


def _fill(root: Path, task: Task) -> None:
    """Everybody's folder; each has what they would have, and no more. Raises: NotWritable, BadState."""
    leader, helper = (private_dir(root) / name for name in _ROLES.values())
    collector, members = private_dir(root / "collector"), private_dir(root / "members")
    count = max(_MEMBERS, task.config.min_batch_size, task.batch_size)
    tasks = [task.task_id]  # each token is for this one alone
    for directory in (leader, helper):
        make_aggregator(directory, os.urandom)
        write_settings(directory / "interlock.toml", "serve", {"dir": str(directory.absolute())})
    now = SystemClock().now_us()
    issue_token(helper, "leader", "leader", leader / "helper-token", os.urandom, tasks, now_us=now)
    issue_token(leader, "collector", "collector", collector / "leader-token", os.urandom, tasks, now_us=now)
    for number in range(1, count + 1):
        issue_token(leader, "member", f"member-{number}", members / f"{number:04}.token", os.urandom, tasks, now_us=now)
    key, secret = hpke_key_in(collector / "collector.json", os.urandom), os.urandom(32)
    for directory in (leader, helper):
        take_on(directory, task, key.config, secret)
    replace(root / "task.json", dump_client_task(task))
    rows = (_report(task, number) for number in range(count))
    replace(root / "reports.txt", ("\n".join(rows) + "\n").encode("ascii"))


def _report(task: Task, number: int) -> str:
    """A report to begin with, as `dap submit --file` reads it."""
    length, most = task.shape.length, task.shape.most
    match task.config.vdaf_type:
        case 3:
            return ",".join(str(most * int(place <= number % length)) for place in range(length))
        case 4:
            return str(number % length)
        case 5:
            return ",".join(str(int(place == number % length)) for place in range(length))
        case _:
            return str(number % (most + 1))


@contextlib.contextmanager
def _gone_if_it_fails(root: Path) -> Iterator[None]:
    there = root.exists()
    try:
        yield
    except BaseException:
        for path in (root.iterdir() if there else [root]) if root.exists() else []:
            shutil.rmtree(path, ignore_errors=True)
        raise


def _told(root: Path, task: Task, addresses: dict[str, Address]) -> Iterator[str]:
    files = f"--task {root / 'task.json'}"
    yield _WARNING
    yield ""
    yield from task_lines(task)
    yield ""
    yield "in another terminal, send some reports (a line each in reports.txt), or one of your own:"
    yield f"  interlock mesh dap submit {files} --token {root / 'members'} --file {root / 'reports.txt'}"
    one = f"--token {root / 'members' / '0001.token'} --measurement {_report(task, 1)}"
    yield f"  interlock mesh dap submit {files} {one}"
    if task.leader_selected:
        yield "then see what the leader's next batch comes to; the same again is about the one after it:"
    else:
        yield "then close the epoch that is under way, and see what it comes to:"
    collector = root / "collector"
    keys = f"--key {collector / 'collector.json'} --token {collector / 'leader-token'}"
    yield f"  interlock mesh dap collect {files} {keys} {'--next' if task.leader_selected else '--running'}"
    yield f"Ctrl-C stops both; their logs are in {root / 'logs'}"
