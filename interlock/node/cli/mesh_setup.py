"""`interlock mesh setup`: a role's folder.

Whatever is wrong with the input is found before a file is written; a folder that this call made is gone again where
it fails later. `mesh serve` takes the same options and makes the folder at its first start: what is made is never made
anew, and an option that says otherwise than what is there is refused.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from interlock.base.clock import SystemClock
from interlock.base.errors import EXIT_OK, BadInput
from interlock.base.files import BadState, NotWritable, file_lock, private_dir, read_bounded, read_private, replace
from interlock.base.settings import read_settings
from interlock.commons.beginning import is_commons
from interlock.commons.holders import LEAST_THRESHOLD, MAX_TARGETS
from interlock.commons.layout import LOG_PREFIX
from interlock.commons.pack import sha256_hex
from interlock.commons.pins import PINS, init_node, read_pins
from interlock.commons.transcript import MAX_TRANSCRIPT
from interlock.commons.turns import mirrors_of
from interlock.node.cli.mesh_log import policy_in
from interlock.node.cli.mesh_roles_args import GIVEN
from interlock.node.config import CONFIG, LOG_POLICY, demand_place, named_places
from interlock.node.setup import (
    TARGETS,
    TRANSCRIPT,
    adopt_root,
    hold_ceremony,
    make_aggregator,
    make_issuer,
    make_log,
    make_witness,
    write_settings,
)
from interlock.transparency.policy import MAX_POLICY

__all__ = ["make_ready", "passphrase_in", "setup"]

_LIMIT: Final = 8 << 20
_LOCK: Final = "setup.lock"
_Values = dict[str, str | int | list[str]]
_SETTING: Final = {"mirror": "mirrors"}  # option -> its setting, where that has another name
_PINS: Final = {"log_policy": "--log-policy FILE", "root": "--root FILE or --root-sha256 HEX"}
# role -> the option of each argument that it cannot do without
_NEEDED: Final = {
    "log": {"name": "--name ORIGIN"},
    "witness": {"name": "--name NAME"},
    "commons": {"log_url": "--log-url URL"},
    "mirror": {"upstream": "--upstream URL", **_PINS},
    "monitor": {"mirror": "--mirror NAME=URL", **_PINS},
    "dap-leader": {},
    "dap-helper": {},
    "issuer": {"operator": "--operator NAME"},
}
# roles whose folder one command cannot make, and why
_NOT_BY_SERVING: Final = {
    "commons": "a commons begins with its keyholders' ceremony",
    "log": "a log's own key has to stand in its policy first",
}
# what shows whose folder one is; both aggregators keep the same kind of key
_MARKS: Final = {
    "log.key": ("log",),
    "witness.key": ("witness",),
    "keys": ("commons",),
    "node.json": ("mirror", "monitor"),
    "issuer.key": ("issuer",),
    "hpke.json": ("dap-leader", "dap-helper"),
}
_MARK: Final = {role: mark for mark, roles in _MARKS.items() for role in roles}


def setup(args: argparse.Namespace) -> int:
    """Make a role's folder and say what others need of it."""
    directory = Path(args.dir).absolute()
    for line in (
        *_set_up(args, directory),
        f"start it with: interlock mesh serve --role {args.role} --dir {directory}",
    ):
        print(line)
    return EXIT_OK


def make_ready(args: argparse.Namespace) -> list[str]:
    """Make a role's folder at its first start, if `mesh serve` was told what that needs; what to tell the operator.

    At later starts the same options change nothing. Raises: BadInput, BadState, and as making a folder does.
    """
    given = [name for name in GIVEN if getattr(args, name)]
    if not given:
        return []
    options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
    if args.role in _NOT_BY_SERVING:
        raise BadInput(_NOT_BY_SERVING[args.role], where=options, fix=f"interlock mesh setup --role {args.role}")
    if args.dir is None or args.config is not None:
        raise BadInput("make a folder: give --dir DIR, and no --config", where=options)
    directory = Path(args.dir).absolute()
    if not ((directory / _MARK[args.role]).exists() and (directory / CONFIG).exists()):
        return _set_up(args, directory)
    _demand_own(args.role, directory, _values(args, directory))
    _demand_trust(args, directory)
    return []


def _set_up(args: argparse.Namespace, directory: Path) -> list[str]:
    """Make a role's folder; returns what to tell the operator."""
    _demand_given(args)
    policy = None if args.log_policy is None else _policy_bytes(args.log_policy)
    values = _values(args, directory)
    _demand_fits(args, directory, values)
    passphrases = _passphrases(args) if args.role == "commons" and not args.root else {}
    with _made_whole(directory):
        _demand_fits(args, directory, values)  # once more: nobody else makes it now, and somebody may have just before
        if policy is not None:
            replace(directory / LOG_POLICY, policy)
        told = _make(args, directory, passphrases)
        write_settings(directory / CONFIG, "serve", values)
    return told


def _demand_fits(args: argparse.Namespace, directory: Path, values: _Values) -> None:
    """Raises: BadState, where what is there already was made for something else."""
    _demand_own(args.role, directory, values)
    if (directory / PINS).exists():
        _demand_trust(args, directory)


def _demand_given(args: argparse.Namespace) -> None:
    """Raises: BadInput, BadConfig, where a role lacks what it needs, or an address is none."""
    needed = dict(_NEEDED[args.role])
    if args.role in ("dap-leader", "dap-helper") and args.upstream:
        needed = {"operator": "--operator NAME", **_PINS}
    for name, option in needed.items():
        if not getattr(args, name) and not (name == "root" and args.root_sha256):
            raise BadInput(f"is needed for the role {args.role}", where=option)
    demand_place(args.upstream, "--upstream")
    demand_place(args.log_url, "--log-url")
    if args.role == "monitor" and len(named_places(args.mirror, "--mirror")) < 2:
        raise BadInput("is needed twice: a monitor compares two mirrors or more", where="--mirror NAME=URL")


def _demand_trust(args: argparse.Namespace, directory: Path) -> None:
    """Raises: BadState, where the folder was made for another log policy or root than what is given."""
    path, digest = directory / LOG_POLICY, args.root_sha256
    if args.log_policy is not None and path.exists() and policy_in(args.log_policy).text != policy_in(str(path)).text:
        raise BadState("is another log policy than was given", where=str(path), fix="leave --log-policy out")
    if args.root is not None:
        digest = sha256_hex(read_bounded(Path(args.root), _LIMIT))
    if digest is not None and (directory / PINS).exists() and digest != sha256_hex(read_pins(directory).root):
        raise BadState("follows another commons already", where=str(directory), fix="use another folder")


def _values(args: argparse.Namespace, directory: Path) -> _Values:
    keys = {
        "log": ("name",),
        "witness": ("name",),
        "commons": ("log_url",),
        "mirror": ("upstream", "log_url"),
        "monitor": ("mirror",),
        "issuer": ("operator",),
        "dap-leader": ("operator", "upstream"),
        "dap-helper": ("operator", "upstream"),
    }
    named = {_SETTING.get(key, key): getattr(args, key) for key in keys[args.role]}
    if args.role == "mirror" and not args.log_url and args.log_policy and args.upstream:
        urls = [log.url for log in policy_in(args.log_policy).logs if log.url]
        named["log_url"] = urls[0] if urls else f"{args.upstream.rstrip('/')}/{LOG_PREFIX}"
    return {"dir": str(directory), **{key: value for key, value in named.items() if value}}


def _demand_own(role: str, directory: Path, values: _Values) -> None:
    """Raises: BadState, where the folder is another role's, or its configuration says otherwise."""
    for mark, owners in _MARKS.items():
        if mark == "node.json" and (directory / "hpke.json").exists():
            continue  # the pins of an aggregator that checks members
        if (directory / mark).exists() and role not in owners:
            raise BadState(f"is the folder of a {owners[0]}", where=str(directory), fix="use another folder")
    if role == "commons" and is_commons(directory):
        raise BadState("is a commons already", where=str(directory), fix="use another folder")
    path = directory / CONFIG
    if path.exists():
        said = read_settings(path).tables.get("serve", {})
        for key, value in values.items():
            if key != "dir" and said.get(key) != value:
                raise BadState(f"has another {key} already", where=str(path), fix="edit it, or use another folder")


def _policy_bytes(path: str) -> bytes:
    """A log policy as its operator wrote it, comments and all, if it is one. Raises: BadInput, BadState."""
    policy_in(path)
    return read_bounded(Path(path), MAX_POLICY)


@contextlib.contextmanager
def _made_whole(directory: Path) -> Iterator[None]:
    """The folder is there, and nobody else makes it; one that was empty is taken away again should the rest fail.

    Raises: Locked, where another process makes it at this moment; NotWritable.
    """
    missing = [p for p in (directory, *directory.parents) if not p.exists()]
    try:
        private_dir(directory)
    except NotWritable:
        _take_away(missing)
        raise
    with file_lock(directory / _LOCK):
        empty = directory in missing and [p.name for p in directory.iterdir()] == [_LOCK]
        try:
            yield
        except BaseException:
            (directory / _LOCK).unlink(missing_ok=True)
            if empty:
                shutil.rmtree(directory, ignore_errors=True)
                _take_away(missing[1:])
            raise


def _take_away(folders: Sequence[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):  # not empty: somebody else's by now
            folder.rmdir()


def _make(args: argparse.Namespace, directory: Path, passphrases: dict[str, bytes]) -> list[str]:
    """What each role's folder needs; returns what to tell the operator."""
    if args.role == "log":
        made = make_log(directory, args.name, os.urandom, now_us=SystemClock().now_us())
        return [*map(_policy_line, made.lines), f"the publisher's token: {made.token_file}"]
    if args.role == "witness":
        return [*map(_policy_line, make_witness(directory, args.name, os.urandom))]
    if args.role == "commons":
        return _make_commons(args, directory, passphrases)
    if args.role in ("mirror", "monitor"):
        return [f"pinned root sha256: {_pin(args, directory)}"]
    if args.role == "issuer":
        return [f"its key, for members and the commons: {make_issuer(directory, os.urandom)}"]
    make_aggregator(directory, os.urandom)
    if args.upstream:
        _pin(args, directory)
    if args.role == "dap-leader":
        return [
            "take tasks on with interlock mesh dap task add; let members and collectors in with interlock mesh token",
            f"put the token that the helper gave you into {directory / 'helper-token'} (0600)",
        ]
    return ["take tasks on with interlock mesh dap task add; let the leader in with interlock mesh token"]


def _pin(args: argparse.Namespace, directory: Path) -> str:
    """Pin the commons that a role follows: its root from a file, or by its digest from whom the role asks anyway."""
    policy = (directory / LOG_POLICY).read_bytes()
    if args.root is not None:
        root = read_bounded(Path(args.root), _LIMIT)
        return sha256_hex(init_node(directory, log_policy=policy, root=root).root)
    places = " ".join(named_places(args.mirror, "--mirror").values()) or args.upstream
    pins = init_node(directory, log_policy=policy, root_sha256=args.root_sha256, fetcher=mirrors_of(places))
    return sha256_hex(pins.root)


def _policy_line(line: str) -> str:
    return f"its line in a log policy: {line}"


def _make_commons(args: argparse.Namespace, directory: Path, passphrases: dict[str, bytes]) -> list[str]:
    now_us = SystemClock().now_us()
    if args.root:
        return _adopt_commons(Path(args.root), directory, now_us)
    employers = {name: employer for name, employer in map(_person, args.holder) if employer}
    root = hold_ceremony(
        directory, passphrases, threshold=args.threshold, now_us=now_us, rng=os.urandom, employers=employers
    )
    return [
        f"root signed by {root.threshold} of {len(root.holders)} holders; sealed keys: {directory / 'ceremony'}",
        f"root sha256 (give it to members): {sha256_hex(root.data)}",
        f"put the log's token into {directory / 'log-token'} (0600) to publish",
        "targets: one key, here, which takes granted rules out of force alone: a trial, not for others to rely on",
    ]


def _adopt_commons(path: Path, directory: Path, now_us: int) -> list[str]:
    beside = path.with_name(TRANSCRIPT)
    transcript = read_bounded(beside, MAX_TRANSCRIPT) if beside.exists() else None
    first = path.with_name(TARGETS)
    targets = read_bounded(first, MAX_TARGETS) if first.exists() else None
    root = adopt_root(directory, read_bounded(path, _LIMIT), transcript, now_us, targets)
    return [
        f"root of {', '.join(root.holders)}, {root.threshold} signatures each time",
        f"root sha256 (give it to members): {sha256_hex(root.data)}",
        f"put the log's token into {directory / 'log-token'} (0600) to publish",
        f"then log its transcript: interlock mesh ceremony install {path} --dir {directory}",
    ]


def _person(text: str) -> tuple[str, str]:
    """Name and employer of an argument NAME[@EMPLOYER]=FILE."""
    name, _, employer = text.partition("=")[0].partition("@")
    return name, employer


def _passphrases(args: argparse.Namespace) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for text in args.holder:
        (name, _), (_, eq, file) = _person(text), text.partition("=")
        if not (name and eq and file):
            raise BadInput("is not of the form NAME[@EMPLOYER]=FILE", where=f"--holder {text}")
        if name in found:
            raise BadInput("is named twice", where=f"--holder {name}", fix="each keyholder is one person")
        found[name] = passphrase_in(Path(file))
    if not LEAST_THRESHOLD <= args.threshold <= len(found):
        raise BadInput(
            f"cannot be {args.threshold} of {len(found)} keyholders",
            where="--threshold",
            fix=f"name more with --holder NAME[@EMPLOYER]=FILE; {LEAST_THRESHOLD} is the least",
        )
    return found


def passphrase_in(path: Path) -> bytes:
    """The passphrase in a file that only its owner may read. Raises: BadInput, BadState."""
    phrase = read_private(path, _LIMIT).rstrip(b"\r\n")
    if not phrase:
        raise BadInput("holds no passphrase", where=str(path))
    return phrase
