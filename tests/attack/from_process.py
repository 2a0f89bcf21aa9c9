"""What happens on the machine itself: another process, a full disk, a death at any write, a changed file or clock.

Deaths and full disks are real child processes. An audit hook of the interpreter is called before each file is opened
for writing, renamed, linked, made or removed, whoever does it, python-tuf too; there the child dies by SIGKILL, or is
told that the disk is full, from that moment on.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from interlock.base.clock import ManualClock
from interlock.base.errors import InterlockError
from interlock.base.fetch import DirectoryFetcher
from interlock.base.files import BadState, file_lock
from interlock.commons import installed
from interlock.commons.live import LIVE, read_live
from interlock.commons.mirror import Mirror
from interlock.commons.pins import init_node
from interlock.commons.status import read_status
from interlock.commons.subscribe import Subscriber
from interlock.commons.timefloor import behind, read_floor
from interlock.transparency.log import open_log
from interlock.transparency.note import NoteSigner
from interlock.transparency.policy import parse_policy
from tests.attack.from_mirror import old_state
from tests.attack.scene import Bent, Both, Scene
from tests.sweep import moments
from tests.unit.commons_world import ORIGIN, Releasing, TestLog, log_policy, pack, seed

Attack = Callable[[Scene], None]
DAY_S, DAY_US = 86_400, 86_400_000_000
_CHANGES = frozenset({"os.rename", "os.link", "os.symlink", "os.mkdir", "os.remove", "os.rmdir"})
_TAKES_ROOM = frozenset({"os.link", "os.symlink", "os.mkdir"})


@dataclass(frozen=True)
class Ended:
    """How a child ended: `said` is the error's name and code, "" for none; `cut` whether its moment came at all."""

    said: str
    killed: bool
    cut: bool


def in_child(work: Callable[[], object], at: int, *, dies: bool) -> Ended:
    """Do it in a child process that dies at its n-th change of the disk, or finds the disk full from then on."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.close(reads)
        _live_and_tell(work, at, dies, writes)
    os.close(writes)
    with os.fdopen(reads, "rb") as told:
        text = told.read().decode()
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert killed or text, "a child says how it ended"
    cut, _, said = text.partition(" ")
    assert not said.startswith("!"), said
    return Ended(said, killed, killed or cut == "cut")


def _live_and_tell(work: Callable[[], object], at: int, dies: bool, tell: int) -> None:
    seen = [0]

    def hook(event: str, args: tuple[object, ...]) -> None:
        opens = event == "open" and isinstance(args[2], int) and bool(args[2] & os.O_CREAT)
        if not (opens or event in _CHANGES):
            return
        seen[0] += 1
        if seen[0] > at and dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if seen[0] > at and (opens or event in _TAKES_ROOM):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    said = ""
    try:
        sys.addaudithook(hook)
        work()
    except InterlockError as e:
        said = f"{type(e).__name__} {e.code}"
    except BaseException as e:
        said = f"!{type(e).__name__}: {e}"
    finally:
        os.write(tell, f"{'cut' if seen[0] > at else 'whole'} {said}".encode())
        os._exit(0)


def _at_each(once: Callable[[int], Ended], *, least: int, every: int) -> set[str]:
    """Do it with each change of the disk as the last one, or every n-th; what was said. Ends with one not cut."""
    said: set[str] = set()
    for at in moments(every):
        ended = once(at)
        if not ended.cut:
            assert at >= least, f"only {at} changes of the disk"
            assert not ended.said
            return said
        said.add("SIGKILL" if ended.killed else ended.said)
    raise AssertionError("it has no end")


# --- a member's update ------------------------------------------------------------------------------------------------


def _cut_updates(scene: Scene, *, dies: bool) -> set[str]:
    """Update a copy of the home each time; it then has the old version or the new one, whole, and can go on."""
    before = scene.state()

    def once(at: int) -> Ended:
        home = shutil.copytree(scene.home, scene.commons.home / f"cut-{at}", symlinks=True)
        node = Subscriber(home, scene.honest, scene.clock)
        ended = in_child(node.update, at, dies=dies)
        version = read_live(home).rows["team", "stable"].version
        assert installed.load(home, "team", "stable").rules
        if version == 1:
            assert (home / LIVE).read_bytes() == before[0]
        assert version in (1, 2)
        read_status(home)
        assert node.update().rows[0].version == 2
        shutil.rmtree(home)
        return ended

    return _at_each(once, least=20, every=7)


def killed_update(scene: Scene) -> None:
    scene.publish(2)
    _then(scene, lambda: _cut_updates(scene, dies=True), {"SIGKILL"})


def full_update(scene: Scene) -> None:
    scene.publish(2)
    _then(scene, lambda: _cut_updates(scene, dies=False), {"NotWritable not-writable"}, or_nothing=True)


def _then(scene: Scene, work: Callable[[], set[str]], said: set[str], *, or_nothing: bool = False) -> None:
    """The attack is this work, which has to have said that; `or_nothing` where some of it can be done without."""
    done: list[str] = []

    def act() -> None:
        done.extend(work())
        assert said <= set(done) <= said | ({""} if or_nothing else set()), done

    scene.act, scene.touched = act, lambda: bool(done)


def _never_synced(scene: Scene, after: int) -> None:
    """The disk takes each file and fails when it is to be made durable, `after` files that it kept."""
    real, count = os.fsync, [0]

    def failing(fd: int) -> None:
        count[0] += 1
        if count[0] > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(fd)

    def act() -> None:
        with scene.patch.context() as patch:
            patch.setattr(os, "fsync", failing)
            scene.update()

    scene.act, scene.touched = act, lambda: count[0] > after


def unsynced_update(scene: Scene) -> None:
    scene.publish(2)
    _never_synced(scene, 3)


def unsynced_status(scene: Scene) -> None:
    """A mirror's rollback is said as such, although it cannot be written down."""
    old_state(scene)
    _never_synced(scene, 0)


# --- a mirror ---------------------------------------------------------------------------------------------------------


def _cut_copies(scene: Scene, *, dies: bool) -> set[str]:
    """A mirror shows the whole state before, or the whole state after, and a node can read it."""

    def once(at: int) -> Ended:
        folder = shutil.copytree(scene.commons.home / "mirror", scene.commons.home / f"cut-{at}", symlinks=True)
        pins = init_node(scene.commons.home / "mirror-pins", log_policy=log_policy(), root=scene.commons.root)
        log = DirectoryFetcher(scene.commons.log.public)
        mirror = Mirror(folder, DirectoryFetcher(scene.commons.public), pins, scene.clock, log=log)
        ended = in_child(mirror.copy, at, dies=dies)
        home = shutil.copytree(scene.home, scene.commons.home / f"reads-{at}", symlinks=True)
        found = Subscriber(home, DirectoryFetcher(mirror.public), scene.clock).update().rows[0].version
        assert found in (1, 2)
        mirror.copy()
        assert Subscriber(home, DirectoryFetcher(mirror.public), scene.clock).update().rows[0].version == 2
        for made in (folder, home):
            shutil.rmtree(made)
        return ended

    return _at_each(once, least=20, every=11)


def killed_copy(scene: Scene) -> None:
    scene.commons.publisher.publish(pack(2), "stable")
    _then(scene, lambda: _cut_copies(scene, dies=True), {"SIGKILL"})


def full_copy(scene: Scene) -> None:
    scene.commons.publisher.publish(pack(2), "stable")
    _then(scene, lambda: _cut_copies(scene, dies=False), {"NotWritable not-writable"}, or_nothing=True)


# --- the commons and its log ------------------------------------------------------------------------------------------


def _cut_publishes(scene: Scene, *, dies: bool) -> set[str]:
    """A publish is taken up where it was; the node reads the state before or the one after, never anything between."""
    home = scene.commons.home

    def once(at: int) -> Ended:
        place = home / f"cut-{at}"
        for name in ("commons", "log"):
            shutil.copytree(home / name, place / name, symlinks=True)

        def publish() -> int:
            with open_log(place / "log", NoteSigner(ORIGIN, seed("log"))) as log:
                appended = TestLog(log, place / "log", scene.clock).append
                publisher = Releasing(place / "commons", appended, parse_policy(log_policy()), scene.clock)
                publisher.publish(pack(2), "stable")
            return 0

        ended = in_child(publish, at, dies=dies)
        node_home = shutil.copytree(scene.home, place / "node", symlinks=True)
        node = Subscriber(
            node_home,
            DirectoryFetcher(place / "commons" / "public"),
            scene.clock,
            log=DirectoryFetcher(place / "log" / "public"),
        )
        with contextlib.suppress(InterlockError):  # a snapshot in the log that no timestamp names yet
            assert node.update().rows[0].version in (1, 2)
        assert read_live(node_home).rows["team", "stable"].version in (1, 2)
        publish()
        assert node.update().rows[0].version == 2
        shutil.rmtree(place)
        return ended

    return _at_each(once, least=40, every=17)


def killed_publish(scene: Scene) -> None:
    _then(scene, lambda: _cut_publishes(scene, dies=True), {"SIGKILL"})


def full_publish(scene: Scene) -> None:
    _then(scene, lambda: _cut_publishes(scene, dies=False), {"NotWritable not-writable"}, or_nothing=True)


# --- two processes ----------------------------------------------------------------------------------------------------


def _held_elsewhere(scene: Scene, lock: Path) -> None:
    """Another process holds a lock until this scene ends."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        with file_lock(lock):
            os.write(writes, b"held")
            signal.pause()
        os._exit(0)
    assert os.read(reads, 4) == b"held"

    @functools.cache
    def end() -> None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reads)
        os.close(writes)

    scene.stack.callback(end)
    scene.mend, scene.touched = end, lambda: True


def two_updates(scene: Scene) -> None:
    scene.publish(2)
    _held_elsewhere(scene, scene.home / "lock")


def two_readers(scene: Scene) -> None:
    """Another process holds the trusted metadata alone."""
    scene.publish(2)
    _held_elsewhere(scene, scene.home / "tuf" / "lock")


def two_copies(scene: Scene) -> None:
    scene.commons.publisher.publish(pack(2), "stable")
    mirror = scene.commons.mirror()
    _held_elsewhere(scene, scene.commons.home / "mirror" / "lock")
    scene.act = mirror.copy


def two_logs(scene: Scene) -> None:
    """A second writer of the log, which runs here already."""

    def act() -> None:
        with open_log(scene.commons.home / "log", NoteSigner(ORIGIN, seed("log"))) as log:
            log.append([b"from another writer"])

    scene.act, scene.touched = act, lambda: True


# --- the clock --------------------------------------------------------------------------------------------------------


def clock_ahead(scene: Scene) -> None:
    """Nothing is valid any more at that time; the node takes no note of it."""
    scene.publish(2)
    scene.clock = ManualClock(scene.commons.clock.now_us() + 900 * DAY_US)
    scene.touched = lambda: scene.clock.now_us() > scene.commons.clock.now_us()


def clock_back(scene: Scene) -> None:
    """Signatures that have ended, and a clock set to a time at which they had not; witnesses have signed since."""
    commons = scene.commons
    old = scene.kept()
    commons.clock.advance(2 * DAY_S)
    commons.publisher.renew()
    commons.log.append(b"by somebody else")
    scene.clock = ManualClock(commons.clock.now_us() - 2 * DAY_US + 3600_000_000)
    scene.shown = Bent(Both(commons.public, commons.log.public), _ended(old))
    scene.update()  # good by the clock, and the newest checkpoint raises the floor
    assert read_floor(scene.home) > scene.clock.now_us()


def _ended(old: Path) -> dict[str, bytes | None]:
    path = "metadata/timestamp.json"
    return {path: (old / path).read_bytes()}


def clock_far_back(scene: Scene) -> None:
    """The clock says 1971. The floor holds, and the checks of the node say it."""
    scene.clock = ManualClock(365 * DAY_US)
    scene.touched = lambda: bool(behind(scene.home, scene.clock.now_us()))


# --- changed files ----------------------------------------------------------------------------------------------------


def damaged(name: str, data: bytes = b"{", *, mended: bool = True) -> Attack:
    """A file of the home is torn; the operator brings it back, or (not `mended`) an update does without it."""

    def attack(scene: Scene) -> None:
        if mended:
            scene.publish(2)
        (path,) = scene.home.glob(name)
        before = path.read_bytes()
        scene.state()
        path.write_bytes(data)
        scene.touched = lambda: not path.exists() or path.read_bytes() != before
        if mended:
            scene.mend = lambda: path.write_bytes(before)

    return attack


def torn_grants(scene: Scene) -> None:
    scene.publish(2)
    scene.state()
    path = scene.home / "grants.json"
    path.write_bytes(b"{")
    scene.mend, scene.touched = path.unlink, path.exists


def newer_file(scene: Scene) -> None:
    path = scene.home / "node.json"
    before = path.read_bytes()
    path.write_bytes(before.replace(b'"v": 2', b'"v": 99'))
    scene.touched = lambda: path.read_bytes() != before
    scene.mend = lambda: path.write_bytes(before)


def other_pack_in_store(scene: Scene) -> None:
    """Other rules under the digest of the pack that is in force: no guard loads them, and an update brings it anew."""
    (path,) = (scene.home / "store").glob("*.json")
    path.write_bytes(pack(1, words=("other",)).data)
    with contextlib.suppress(BadState):
        installed.load(scene.home, "team", "stable")
        raise AssertionError("a guard loads what nobody verified")
    scene.touched = lambda: path.read_bytes() == pack(1).data


def forged_status(scene: Scene) -> None:
    """Somebody writes that all is well: the node's checks do not believe it."""
    path = scene.home / "status.json"
    path.write_bytes(path.read_bytes().replace(b'"tree_size": ', b'"tree_size": 9'))
    try:
        read_status(scene.home)
    except BadState:
        scene.touched = lambda: True


def no_room_for_packs(scene: Scene) -> None:
    """Where the packs lie there is a file."""
    store = scene.home / "store"
    aside = scene.home / "aside"

    def put_back() -> None:
        store.unlink()
        aside.rename(store)

    scene.publish(2)
    scene.state()
    store.rename(aside)
    store.write_bytes(b"")
    scene.mend, scene.touched = put_back, lambda: True
