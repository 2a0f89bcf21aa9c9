"""A node that has a pack in force, what it is shown, and what must hold after every attack on it.

The node has version 1 of `team` in ring stable from an honest mirror, and a guard runs on it. An attack puts something
in the place of what the node asks, or changes something under it. Whatever the node is told is held against what the
honest mirror has at that moment: an attack of which the node has seen nothing is none.
"""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from interlock.base.clock import ManualClock
from interlock.base.errors import InterlockError
from interlock.base.fetch import DirectoryFetcher, Fetcher, NotFound, TooLarge
from interlock.commons import installed
from interlock.commons.live import LIVE, read_live
from interlock.commons.mirror import Mirror
from interlock.commons.pack import Pack
from interlock.commons.pins import init_node
from interlock.commons.status import read_status
from interlock.commons.subscribe import Subscriber, Update
from interlock.engine.live import LivePolicy
from tests.unit.commons_world import World, log_policy, pack, world

NEXT = 9  # the version that an honest commons publishes after an attack


class Bent:
    """A mirror that serves other bytes in place of some files; None is a file that it does not have."""

    def __init__(self, fetcher: Fetcher, files: Mapping[str, bytes | None]) -> None:
        self._fetcher = fetcher
        self._files = files

    def fetch(self, path: str, *, max_length: int) -> bytes:
        if path not in self._files:
            return self._fetcher.fetch(path, max_length=max_length)
        data = self._files[path]
        if data is None:
            raise NotFound("is not there", where=path)
        if len(data) > max_length:
            raise TooLarge(f"is larger than {max_length} bytes", where=path)
        return data


class Both:
    """A commons' folder and a log's folder as one mirror that passes on whatever stands there, unchecked."""

    def __init__(self, public: Path, log: Path) -> None:
        self._public = DirectoryFetcher(public)
        self._log = DirectoryFetcher(log)

    def fetch(self, path: str, *, max_length: int) -> bytes:
        of_log = path.startswith("log/")
        fetcher = self._log if of_log else self._public
        return fetcher.fetch(path.removeprefix("log/"), max_length=max_length)


class Scene:
    """The node, the guard on it, and its honest surroundings. An attack sets `shown`, `clock`, `act` or `touched`."""

    def __init__(self, commons: World, patch: pytest.MonkeyPatch, stack: contextlib.ExitStack) -> None:
        self.commons = commons
        self.patch = patch
        self.stack = stack
        self.home = commons.home / "node"
        self.lies: list[str] = []  # what the node asked and was not told as the honest mirror would have
        self.asked: list[str] = []
        new = not self.home.exists()
        self.mirror = commons.mirror()
        if new:
            commons.publisher.publish(pack(1), "stable")
            self.mirror.copy()
        self.honest: Fetcher = DirectoryFetcher(self.mirror.public)
        self.shown: Fetcher = self.honest
        self.clock: ManualClock = commons.clock
        if new:
            init_node(self.home, log_policy=log_policy(), root=commons.root)
            self.node().subscribe("team", "stable")
            self.update()
        self.guard = LivePolicy(lambda: installed.load(self.home, "team", "stable"), installed.Watch(self.home))
        self.act: Callable[[], object] = self.update
        self.touched: Callable[[], bool] = lambda: bool(self.lies)
        self.mend: Callable[[], object] = lambda: None  # what the operator does afterwards, where that is needed
        self.stolen = 0  # how many states the node was shown that a thief signed and logged
        self.policy = ""

    def node(self, home: Path | None = None) -> Subscriber:
        return Subscriber(home or self.home, self, self.clock)

    def update(self) -> Update:
        return self.node().update()

    def fetch(self, path: str, *, max_length: int) -> bytes:
        """What the node asks of whoever is in the middle, held against the honest mirror."""
        self.asked.append(path)
        honest = _answer(self.honest, path, max_length)
        try:
            told: object = self.shown.fetch(path, max_length=max_length)
        except InterlockError as e:
            if honest is not type(e):
                self.lies.append(path)
            raise
        if told != honest:
            self.lies.append(path)
        assert isinstance(told, bytes)
        return told

    # what attacks need

    def publish(self, version: int = 2, *, words: tuple[str, ...] = ("zap",)) -> Pack:
        """An honest next version, which the honest mirror has; the node does not yet."""
        made = pack(version, words=words)
        self.commons.publisher.publish(made, "stable")
        self.mirror.copy()
        return made

    def kept(self, name: str = "old") -> Path:
        """A copy of what the honest mirror serves now."""
        return shutil.copytree(self.mirror.public, self.commons.home / name)

    def file(self, path: str) -> bytes:
        return (self.mirror.public / path).read_bytes()

    def bend(self, files: Mapping[str, bytes | None]) -> None:
        self.shown = Bent(self.honest, files)

    def paths_of_an_update(self) -> list[str]:
        """What the node will ask for, found out with a copy of it."""
        asked: list[str] = []

        class Noting:
            def fetch(noting, path: str, *, max_length: int) -> bytes:  # noqa: N805
                data = self.honest.fetch(path, max_length=max_length)
                asked.append(path)
                return data

        home = shutil.copytree(self.home, self.commons.home / "trial")
        Subscriber(home, Noting(), self.clock).update()
        return asked

    def mirror_of(self, fetcher: Fetcher) -> Mirror:
        """The honest mirror's folder, copied into from what is shown."""
        pins = init_node(self.commons.home / "mirror-pins", log_policy=log_policy(), root=self.commons.root)
        return Mirror(self.commons.home / "mirror", fetcher, pins, self.clock)

    # what must hold

    def state(self) -> tuple[bytes, dict[str, bytes], str]:
        """live.json and the packs in the store as they lie there, and the policy that the running guard goes by.

        The guard's policy is looked at first when this is first called: nothing that comes after may change it.
        """
        self.guard.refresh(wait=True)
        self.policy = self.policy or self.guard.current.digest
        store = self.home / "store"
        packs = {p.name: p.read_bytes() for p in store.iterdir()} if store.is_dir() else {}
        return (self.home / LIVE).read_bytes(), packs, self.guard.current.digest

    def trouble(self) -> object:
        return read_status(self.home).get("trouble")

    def recovers(self) -> int:
        """The node meets the honest mirror again, after the next honest publish; which version it has then."""
        self.mend()
        self.shown, self.clock = self.honest, self.commons.clock
        for version in range(NEXT - self.stolen, NEXT + 1):
            # of two files with one version TUF keeps the first: the commons has to be a version ahead of a thief
            self.commons.publisher.publish(pack(version), "stable")
        self.mirror.copy()
        self.update()
        self.guard.refresh(wait=True)
        assert self.guard.trouble is None
        assert installed.load(self.home, "team", "stable").digest == self.guard.current.digest
        return read_live(self.home).rows["team", "stable"].version


def _answer(fetcher: Fetcher, path: str, max_length: int) -> object:
    try:
        return fetcher.fetch(path, max_length=max_length)
    except InterlockError as e:
        return type(e)


@functools.cache
def _prepared() -> tempfile.TemporaryDirectory[str]:
    """A scene as every attack finds it, made once; to be copied."""
    folder = tempfile.TemporaryDirectory(prefix="interlock-scene-")
    with pytest.MonkeyPatch.context() as patch, world(Path(folder.name)) as commons, contextlib.ExitStack() as stack:
        Scene(commons, patch, stack)
    return folder


@contextlib.contextmanager
def scene_in(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Scene]:
    shutil.copytree(_prepared().name, folder, symlinks=True, dirs_exist_ok=True)
    with world(folder) as commons, contextlib.ExitStack() as stack:
        yield Scene(commons, patch, stack)


def changed(data: bytes, **fields: object) -> bytes:
    """A metadata file whose signed part has other fields, under the signatures that it had."""
    body = json.loads(data)
    body["signed"].update(fields)
    return json.dumps(body).encode()
