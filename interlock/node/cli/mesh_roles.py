"""`interlock mesh` for operators: set a role up, serve it, publish a pack."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from interlock.base.clock import SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, BadInput
from interlock.base.files import private_dir, read_bounded, replace
from interlock.commons.pack import Pack, pack_from_policy, parse_pack, sha256_hex
from interlock.commons.pins import init_node
from interlock.commons.publish import Published
from interlock.engine.policy.builtins import builtin
from interlock.node.config import serve_config, settings_of
from interlock.node.http import Listen
from interlock.node.http import serve as serve_app
from interlock.node.service import start_logging, stop_event
from interlock.node.setup import (
    LOG_POLICY,
    hold_ceremony,
    make_aggregator,
    make_log,
    make_witness,
    write_settings,
)
from interlock.node.wiring import publisher_of, role_app

__all__ = ["publish", "serve", "setup"]

_LIMIT: Final = 8 << 20


def serve(args: argparse.Namespace) -> int:
    """Run one role until SIGTERM, Ctrl-C or, where asked to, the end of standard input."""
    config = serve_config(settings_of(args.config), args.dir, demo=args.demo)
    start_logging(args.log_format)
    listen = Listen(
        args.host, args.port, args.listen_fd, _maybe(args.tls_cert), _maybe(args.tls_key), args.behind_proxy
    )
    listen.check()

    def ready(url: str) -> None:
        print(f"{args.role} at {url}", file=sys.stderr, flush=True)

    stop = stop_event(with_stdin=args.stop_with_stdin)
    with role_app(args.role, config, SystemClock()) as app:
        serve_app(app, listen, ready=ready, stop=stop)
    return EXIT_OK


def publish(args: argparse.Namespace) -> int:
    """Publish a pack, or finish the publish that was cut short; prints its log entry and the versions."""
    config = serve_config(settings_of(args.config), args.dir)
    publisher = publisher_of(config, SystemClock())
    if args.abandon:
        publisher.abandon()
        print("nothing is under way now")
        return EXIT_OK
    if args.resume:
        done = publisher.resume()
        print("nothing was cut short" if done is None else _published(done))
        return EXIT_OK
    if args.pack is None or args.ring is None:
        raise BadInput("needs a pack and --ring, or --resume, or --abandon", where="interlock mesh publish")
    print(_published(publisher.publish(_pack(args), args.ring)))
    return EXIT_OK


def setup(args: argparse.Namespace) -> int:
    """Make a role's folder and say what others need of it."""
    directory = private_dir(Path(args.dir).absolute())
    if args.log_policy:
        replace(directory / LOG_POLICY, read_bounded(Path(args.log_policy), _LIMIT))
    values: dict[str, str | int] = {"dir": str(directory)}
    told = _SETUP[args.role](args, directory, values)
    config = directory / "interlock.toml"
    write_settings(config, "serve", values)
    for line in (*told, f"start it with: interlock mesh serve --role {args.role} --config {config}"):
        print(line)
    return EXIT_OK


def _setup_log(args: argparse.Namespace, directory: Path, values: dict[str, str | int]) -> list[str]:
    made = make_log(directory, _needed(args.name, "--name ORIGIN"), os.urandom)
    return [f"its line in a log policy: log {made.vkey} URL", f"the publisher's token: {made.token_file}"]


def _setup_witness(args: argparse.Namespace, directory: Path, values: dict[str, str | int]) -> list[str]:
    name = _needed(args.name, "--name NAME")
    values["name"] = name
    return [f"its line in a log policy: witness {name} {make_witness(directory, name, os.urandom)} URL"]


def _setup_commons(args: argparse.Namespace, directory: Path, values: dict[str, str | int]) -> list[str]:
    values["log_url"] = args.log_url
    passphrases = dict(map(_holder, args.holder))
    root = hold_ceremony(
        directory, passphrases, threshold=args.threshold, now_us=SystemClock().now_us(), rng=os.urandom
    )
    return [
        f"root signed by {root.threshold} of {len(root.holders)} holders; sealed keys: {directory / 'ceremony'}",
        f"root sha256 (give it to members): {sha256_hex(root.data)}",
        f"put the log's token into {directory / 'log-token'} (0600) to publish",
    ]


def _setup_mirror(args: argparse.Namespace, directory: Path, values: dict[str, str | int]) -> list[str]:
    values |= {"upstream": _needed(args.upstream, "--upstream URL"), "log_url": _needed(args.log_url, "--log-url URL")}
    policy = read_bounded(Path(_needed(args.log_policy or "", "--log-policy FILE")), _LIMIT)
    root = read_bounded(Path(_needed(args.root or "", "--root FILE")), _LIMIT)
    init_node(directory, log_policy=policy, root=root)
    return [f"pinned root sha256: {sha256_hex(root)}"]


def _setup_aggregator(args: argparse.Namespace, directory: Path, values: dict[str, str | int]) -> list[str]:
    make_aggregator(directory, os.urandom)
    return [f"tasks go into {directory / 'tasks'}; tables of tokens lie beside it"]


_SETUP: Final = {
    "log": _setup_log,
    "witness": _setup_witness,
    "commons": _setup_commons,
    "mirror": _setup_mirror,
    "dap-leader": _setup_aggregator,
    "dap-helper": _setup_aggregator,
}


def _holder(text: str) -> tuple[str, bytes]:
    name, eq, file = text.partition("=")
    if not (name and eq and file):
        raise BadInput("is not of the form NAME=FILE", where=f"--holder {text}")
    return name, read_bounded(Path(file), _LIMIT).rstrip(b"\r\n")


def _needed(value: str, option: str) -> str:
    if not value:
        raise BadInput("is needed for this role", where=option)
    return value


def _pack(args: argparse.Namespace) -> Pack:
    name: str = args.pack
    data = builtin(name.removeprefix("builtin:")) if name.startswith("builtin:") else read_bounded(Path(name), _LIMIT)
    if b'"interlock-pack"' in data[:200]:
        return parse_pack(data, where=name)
    if args.version < 1 or not args.author:
        raise BadInput("is a policy and becomes a pack with --version N and --author NAME", where=name)
    return pack_from_policy(data, version=args.version, licence=args.licence, authors=args.author, where=name)


def _published(done: Published) -> str:
    entry = done.entry
    return (
        f"{entry.name}@{entry.ring} version {entry.version}, sha256 {entry.sha256}, log index {done.log_index} "
        f"of {done.tree_size}, snapshot {done.snapshot_version}, timestamp {done.timestamp_version}, "
        f"at {rfc3339(entry.at)}"
    )


def _maybe(text: str | None) -> Path | None:
    return None if text is None else Path(text)
