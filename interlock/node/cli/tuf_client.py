"""`interlock-tuf-client`: our TUF client alone, without log and packs, under the command line of tuf-conformance.

    interlock-tuf-client --metadata-dir D init ROOT
    interlock-tuf-client --metadata-dir D --metadata-url U refresh
    interlock-tuf-client --metadata-dir D --metadata-url U --target-name T [--target-name T ...]
                         --target-base-url B --target-dir O download

It is the client that nodes use, with its lock, its staging and its durable state (D/.interlock), so that what the
suite says of it holds for them. After each command the trusted metadata stands in D under unversioned names. The exit
code is 0, or 1 for whatever was refused.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from interlock.base.clock import SystemClock
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, BadInput, InterlockError
from interlock.base.fetch import Fetcher, NotFound, fetcher_of
from interlock.base.files import BadState, file_lock, private_dir, read_bounded, replace
from interlock.commons.holders import read_root
from interlock.commons.layout import MAX_ROOT
from interlock.commons.updater import refreshed, trusted_files

__all__ = ["main"]

_STATE: Final = ".interlock"
_BOOTSTRAP: Final = "bootstrap.root.json"
_MAX_TARGET: Final = 64 << 20  # bytes


class _Places:
    """A fetcher of metadata and targets that lie in two places."""

    def __init__(self, metadata_url: str, target_base_url: str | None) -> None:
        self._places = {"metadata": fetcher_of(metadata_url)}
        if target_base_url is not None:
            self._places["targets"] = fetcher_of(target_base_url)

    def fetch(self, path: str, *, max_length: int) -> bytes:
        kind, _, rest = path.partition("/")
        place: Fetcher | None = self._places.get(kind)
        if place is None:
            raise NotFound("cannot be fetched without its base URL", where=path, fix="give --target-base-url")
        return place.fetch(rest, max_length=max_length)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; whatever is refused is said in one line, and gives 1."""
    args = _parser().parse_args(argv)
    directory = Path(args.metadata_dir)
    try:
        private_dir(directory / _STATE)
        with file_lock(directory / _STATE / "client-lock", wait=True):
            try:
                args.run(args, directory)
            finally:
                for name, data in trusted_files(directory / _STATE).items():
                    replace(directory / name, data)
    except InterlockError as e:
        print(f"interlock-tuf-client: {e}", file=sys.stderr)
        return EXIT_REFUSED
    return EXIT_OK


def _init(args: argparse.Namespace, directory: Path) -> None:
    root = read_bounded(Path(args.root), MAX_ROOT)
    read_root(root, args.root)
    replace(directory / _STATE / _BOOTSTRAP, root)
    replace(directory / "root.json", root)


def _refresh(args: argparse.Namespace, directory: Path) -> None:
    _follow(args, directory, ())


def _download(args: argparse.Namespace, directory: Path) -> None:
    if not (args.target_name and args.target_dir):
        raise BadInput("needs --target-name and --target-dir", where="download")
    _follow(args, directory, args.target_name)


def _follow(args: argparse.Namespace, directory: Path, names: Sequence[str]) -> None:
    if args.metadata_url is None:
        raise BadInput("is needed to follow a repository", where="--metadata-url")
    state = directory / _STATE
    if not (state / _BOOTSTRAP).exists():
        raise BadState("trusts no root yet", where=str(directory), fix="run init ROOT first")
    root = read_bounded(state / _BOOTSTRAP, MAX_ROOT)
    fetcher, now_us = _Places(args.metadata_url, args.target_base_url), SystemClock().now_us()
    with refreshed(state, fetcher, bootstrap=root, now_us=now_us, holders=False) as view:
        for name in names:
            path = Path(args.target_dir) / quote(name, "")
            held = read_bounded(path, _MAX_TARGET) if path.exists() else None
            data = view.target(name, _MAX_TARGET, held=held)
            if data != held:
                replace(path, data)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="interlock-tuf-client",
        description="Follow any TUF repository with interlock's client; the command line is that of tuf-conformance.",
        epilog="example: interlock-tuf-client --metadata-dir D --metadata-url https://tuf.example/metadata refresh",
    )
    parser.add_argument("--metadata-dir", metavar="D", required=True, help="where the trusted metadata is kept")
    parser.add_argument("--metadata-url", metavar="U", help="where the repository has its metadata")
    parser.add_argument("--target-name", metavar="T", action="append", default=[], help="a target's path; repeatable")
    parser.add_argument("--target-base-url", metavar="B", help="where the repository has its targets")
    parser.add_argument("--target-dir", metavar="O", help="where downloaded targets go")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    init = commands.add_parser("init", help="trust this root from now on; asks nothing of the network")
    init.add_argument("root", metavar="ROOT", help="the file with the root")
    init.set_defaults(run=_init)
    commands.add_parser("refresh", help="bring the metadata up to date").set_defaults(run=_refresh)
    commands.add_parser("download", help="refresh, then download targets").set_defaults(run=_download)
    return parser
