"""A node that is killed at any write, or whose disk is full, keeps what was in force; and the next try completes it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.base.clock import MICROSECONDS
from interlock.base.files import NotWritable
from interlock.commons import installed, stepback
from interlock.commons.live import read_live
from interlock.commons.stepback import Proposal, StepBack
from interlock.commons.subscribe import Subscriber
from interlock.engine.decision import Verdict
from interlock.engine.evaluate import evaluate
from interlock.engine.event import SensorEvent
from tests.sweep import moments
from tests.unit.commons_world import World, pack, world

KEY = ("team", "stable")
DAY = 86_400 * MICROSECONDS
MOST = 200  # writes of one action; far more than any has
_KILLED = 9
Act = Callable[[World, Path], object]


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    """A node at version 2 of a pack, having been at version 1."""
    with world(tmp_path) as made:
        node = made.member("node")
        node.subscribe(*KEY)
        for version, words in ((1, ("zap",)), (2, ("zap", "fry"))):
            made.publisher.publish(pack(version, words=words), "stable")
            node.update()
        yield made


def member(commons: World, home: Path) -> Subscriber:
    return commons.member(home.name)


def new_version(commons: World, home: Path) -> None:
    member(commons, home).update()


def into_a_window(commons: World, home: Path) -> None:
    subscriber = member(commons, home)
    subscriber.subscribe(*KEY, DAY)
    subscriber.update()


def grants(commons: World, home: Path) -> None:
    installed.grant(home, *KEY, ["team.zap"], commons.clock.now_us())


def rolls_back(commons: World, home: Path) -> None:
    member(commons, home).rollback(*KEY)


def pins(commons: World, home: Path) -> None:
    member(commons, home).pin(*KEY, 2)


def steps_back(commons: World, home: Path) -> None:
    stepback.decide(home, "team", "team.zap", apply=True)


# what is done, and what "zap", "fry" and "mow" come to before and after it
ASK, BLOCK, ALLOW = Verdict.ESCALATE, Verdict.BLOCK, Verdict.ALLOW
BEFORE = (ASK, ASK, ALLOW)
ACTS: dict[str, tuple[Act, tuple[Verdict, ...]]] = {
    "a new version": (new_version, (ASK, ASK, ASK)),
    "a new version into a window": (into_a_window, BEFORE),
    "a grant": (grants, (BLOCK, ASK, ALLOW)),
    "a rollback": (rolls_back, (ASK, ALLOW, ALLOW)),
    "a pin": (pins, BEFORE),
    "a step back": (steps_back, (ALLOW, ASK, ALLOW)),
}


def verdicts(commons: World, home: Path) -> tuple[Verdict, ...]:
    policy = installed.load(home, *KEY, commons.clock)
    return tuple(
        evaluate(policy, SensorEvent("Bash", {"command": word})).decision.verdict for word in ("zap", "fry", "mow")
    )


def prepared(commons: World, name: str) -> None:
    """What an action needs that the node has not."""
    if "version" in name:
        commons.publisher.publish(pack(3, words=("zap", "fry", "mow")), "stable")
    if name == "a step back":
        home = commons.home / "node"
        zap = next(s for s in installed.standing(home, *KEY, commons.clock.now_us()).standings if s.rule == "team.zap")
        stepback._write(home, StepBack(proposals=(Proposal(*KEY, "team.zap", zap.semantic, 2, 5, 0, 1),)))


def copied(commons: World, name: str) -> Path:
    return Path(shutil.copytree(commons.home / "node", commons.home / name))


def killed_at(write: int, after: bool, act: Callable[[], object]) -> bool:
    """Run something in a process that dies at a write, just before it or just after; false where it got through."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == _KILLED
    try:  # pragma: no cover - the child, which never comes back
        real, count = os.replace, [0]

        def replace(src: str, dst: str) -> None:
            count[0] += 1
            if count[0] == write and not after:
                os._exit(_KILLED)
            real(src, dst)
            if count[0] == write:
                os._exit(_KILLED)

        os.replace = replace  # type: ignore[assignment]
        act()
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.sweep
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", ACTS)
def test_killed_at_any_write_of(commons: World, name: str, after: bool) -> None:
    act, then = ACTS[name]
    prepared(commons, name)
    for write in (moment + 1 for moment in moments(5, MOST)):
        home = copied(commons, f"killed-{write}")
        if not killed_at(write, after, lambda home=home: act(commons, home)):  # type: ignore[misc]
            break
        assert verdicts(commons, home) in (BEFORE, then), f"write {write}"
        if name == "a rollback":
            member(commons, home).update()
            assert verdicts(commons, home) == (then if read_live(home).rows[KEY].version == 1 else BEFORE)
        elif name != "a step back" or stepback.read_step_back(home).pending:
            act(commons, home)
            assert verdicts(commons, home) == then, f"write {write}"
    assert 1 < write < MOST
    assert verdicts(commons, home) == then


@pytest.mark.sweep
@pytest.mark.parametrize("name", ACTS)
def test_a_full_disk_at_any_write_of(commons: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    act, then = ACTS[name]
    prepared(commons, name)
    for write in (moment + 1 for moment in moments(5, MOST)):
        home = copied(commons, f"full-{write}")
        with monkeypatch.context() as patch:
            filled_at(write, patch)
            try:
                act(commons, home)
                break
            except NotWritable as e:
                said = str(e)
        assert "No space left on device" in said
        assert not list(home.rglob("*.tmp"))
        assert verdicts(commons, home) in (BEFORE, then), f"write {write}"
    assert 1 < write < MOST
    assert verdicts(commons, home) == then


def filled_at(write: int, patch: pytest.MonkeyPatch) -> None:
    """From a write on, the disk takes no more."""
    real, count = os.fsync, [0]

    def fsync(fd: int) -> None:
        count[0] += 1
        if count[0] >= write:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(fd)

    patch.setattr(os, "fsync", fsync)


def test_grants_of_several_processes_at_once_are_all_kept(commons: World) -> None:
    home, children = commons.home / "node", []
    for rules in (["team.zap"], ["team.fry"], ["team.zap", "team.fry"]):
        pid = os.fork()
        if not pid:  # pragma: no cover - the child, which never comes back
            installed.grant(home, *KEY, rules, commons.clock.now_us())
            os._exit(0)
        children.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0, 0]
    assert sorted(g.rule for g in installed.read_grants(home).rows) == ["team.fry", "team.zap"]
