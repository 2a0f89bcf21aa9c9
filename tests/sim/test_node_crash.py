"""A member dies at any moment: no place that was marked is lost, and no epoch is reported twice or by halves."""

from __future__ import annotations

import random
import secrets
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from interlock.commons.consent import give_consent
from interlock.dap.shares import new_key
from interlock.node.roles import report
from interlock.node.roles.observe import keep_catalog
from interlock.node.roles.report import Sent
from interlock.node.storage.node import NodeStore, open_store
from tests.sim.node_process import EVER, counted
from tests.sim.reaper import Reaper
from tests.unit.dap_world import LENGTH
from tests.unit.report_world import CountedWorld, Line, Member, catalog, terms

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 8


def a_days_work(member: Member, world: CountedWorld) -> None:
    member.blocked(0, 3)
    assert member.close(early=True) in (0, 1)
    assert member.send() in (Sent(), Sent(sent=1))


def three_members(folder: Path) -> tuple[CountedWorld, list[Member]]:
    """Three that consented, and the aggregators of their task."""
    world = CountedWorld(folder, catalog())
    members = [Member(folder / name, world, catalog()) for name in ("a", "b", "c")]
    for member in members:
        member.agree()
    return world, members


def reported_once_and_all(world: CountedWorld, lines: list[Line], when: str) -> None:
    """One report went over the lines of the first member, and each of the three counts."""
    assert len({r.metadata.report_id for line in lines for r in line.uploaded()}) == 1, when
    found = world.collect()
    assert (found.report_count, list(found.sums)) == (3, [3, 0, 0, 3] + [0] * (LENGTH - 4)), when


def come_back(member: Member, world: CountedWorld, lines: list[Line]) -> None:
    """Start again on a line of its own."""
    member.line = Line(world, "a")
    lines.append(member.line)
    member.restart()


@pytest.mark.parametrize("durable", [False, True], ids=["before", "after"])
def test_a_death_at_any_write_of_a_member_reports_once_and_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    reaper = Reaper(monkeypatch, durable=durable, kind=NodeStore)
    for folder in reaper.moments(tmp_path):
        world, members = three_members(folder)
        for member in members[1:]:
            a_days_work(member, world)
        first, lines = members[0], [members[0].line]
        reaper.life(partial(a_days_work, first, world), partial(come_back, first, world, lines))
        reported_once_and_all(world, lines, f"died at {reaper.moment}")
        for member in members:
            member.stop()
        world.close()
    assert reaper.deaths >= 5, "two places, the report, the attempt and its end were moments to die at"


def a_key_later(member: Member, world: CountedWorld) -> None:
    """The report is made, the leader's key is replaced (once), and the report goes."""
    member.blocked(0, 3)
    assert member.close(early=True) in (0, 1)
    if world.leader_key.id == 1:
        world.leader_key = new_key(3, secrets.token_bytes)
        world.restart()
    assert member.send() in (Sent(), Sent(sent=1))


@pytest.mark.parametrize("durable", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("told", [False, True], ids=["looked", "told"])
def test_a_death_at_any_write_of_a_report_that_is_sealed_anew_reports_once_and_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool, told: bool
) -> None:
    reaper = Reaper(monkeypatch, durable=durable, kind=NodeStore)
    if told:  # by the leader alone: nobody looks beforehand
        monkeypatch.setattr(report, "_offered", lambda sealer: None)
    for folder in reaper.moments(tmp_path):
        world, members = three_members(folder)
        first, lines = members[0], [members[0].line]
        reaper.life(partial(a_key_later, first, world), partial(come_back, first, world, lines))
        for member in members[1:]:
            a_days_work(member, world)
        reported_once_and_all(world, lines, f"died at {reaper.moment}")
        for member in members:
            member.stop()
        world.close()
    assert reaper.deaths >= 6, "two places, the report, its new bytes, the attempt and its end were moments to die at"


def acknowledged(home: Path, seed: int, after: float) -> set[int]:
    """Let a process observe, kill it `after` seconds from its first word on, and take what it said was done."""
    command = [sys.executable, "-m", "tests.sim.node_process", str(home), str(seed)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        time.sleep(after)
        process.kill()
        said += process.stdout.read()
    lines = said.split(b"\n")
    return {int(line) for line in lines[:-1]}  # the last line is torn, or empty


def test_no_place_that_was_acknowledged_is_lost_to_kill_9(tmp_path: Path) -> None:
    kept = counted()
    keep_catalog(tmp_path, kept, time_precision=EVER)
    give_consent(tmp_path, terms(kept), 0)
    rng = random.Random(20)
    told: set[int] = set()
    cut_short = 0
    for seed in range(ROUNDS):
        now = acknowledged(tmp_path, seed, rng.choice([0.0, 0.01, 0.05, 0.1]) * rng.random())
        assert now, f"round {seed} said nothing"
        told |= now
        cut_short += len(now) < len(kept.places)
        store = open_store(tmp_path)
        lost = told - store.bits(kept.task, kept.digest, 0)
        store.close()
        assert not lost, f"round {seed} lost {len(lost)} of {len(told)} places"
    assert cut_short >= ROUNDS // 2, "a machine that is busy elsewhere kills late, but not each time"
