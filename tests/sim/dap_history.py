"""One history of a DAP deployment with every fault there is, and its sums in the end; see dap_simulation."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from interlock.base.clock import MICROSECONDS, ManualClock
from interlock.base.fetch import Unreachable
from interlock.base.organisations import DEMO_LEAST
from interlock.dap.client import build_report
from interlock.dap.collector import Collected, Collector, Pending
from interlock.dap.drafts import ReportError
from interlock.dap.driver import Driver
from interlock.dap.helper import Helper
from interlock.dap.leader import Leader
from interlock.dap.messages import TIME_INTERVAL, Interval, Report, UploadErrors, UploadRequest
from interlock.dap.messages import media_type as media
from interlock.dap.problems import DapProblem, ProblemType, from_b64url
from interlock.dap.shares import KeyRing, new_key
from interlock.dap.sweep import Sweeper
from interlock.dap.task import AggregatorTask, new_configuration, task_of, verify_key_of
from interlock.dap.transport import Reply
from interlock.dap.vdaf.circuits import SumVec
from interlock.dap.vdaf.prio3 import Prio3
from interlock.node.parties import vdaf_of
from tests.sim.dap_parts import Line, Mortal, Skewed, Turn, late
from tests.sim.reaper import Killed
from tests.unit.dap_stores import Stores
from tests.unit.dap_world import Post, reply_of

PLACES: Final = 32  # reports a run
STEPS: Final = 260
HOUR_S: Final = 3600
KEEP_S: Final = HOUR_S  # and reports may come later, and lie about longer
DRIVERS: Final = ("leader", "w0", "w1")
PARTIES: Final = (*DRIVERS, "helper")
VDAF_CONFIG: Final = Prio3(SumVec(PLACES, 1, 5)).vdaf_config
STEPS_S: Final = (0, 0, 60, -60, 600, -600, 2 * HOUR_S, -2 * HOUR_S, 24 * HOUR_S)


@dataclass
class Sent:
    """A report from its member's side."""

    report: Report
    acked: bool = False
    refused: ReportError | None = None


@dataclass
class Fate:
    """What the leader wrote down of a report."""

    state: str
    error: str
    batch: bytes = b""  # where the leader selects them


@dataclass
class Slot:
    """A driver's place: the process that lives there now, and what of it stalls."""

    process: Mortal
    driver: Driver
    line: Line
    turn: Turn | None = None


class Simulation:
    """One run; `tally` counts what happened, so that a run in which nothing did shows."""

    MODE: ClassVar[int] = TIME_INTERVAL

    def __init__(self, seed: int, stores: Stores) -> None:
        self.rng = rng = random.Random(seed)
        self.stores = stores
        self.watched: dict[str, Any] = {"leader": stores.leader(), "helper": stores.helper()}
        self.tally: Counter[str] = Counter()
        self.true = ManualClock()
        self.clocks = {party: Skewed(self.true) for party in PARTIES}
        self.keys = {name: new_key(i, rng.randbytes) for i, name in enumerate(("leader", "helper", "collector"), 1)}
        self.task = task_of(_configuration(self.MODE), demo=True, batch_size=self._size())
        self.vdaf = vdaf_of(self.task)
        verify_key = verify_key_of(rng.randbytes(32), self.task.task_id)
        self.tasks = {self.task.task_id: AggregatorTask(self.task, verify_key, self.keys["collector"].config)}
        self.sent: list[Sent] = []
        self.fates: dict[bytes, Fate] = {}
        self.results: dict[Interval, Collected] = {}
        self.asked: dict[Interval, Pending | None] = {}
        self.quiet = False
        self.helper_process, self.post = self._new_helper()
        self.slots: dict[str, Slot] = {}
        self.leader = self._start("leader")
        for name in DRIVERS[1:]:
            self._start(name)

    def _size(self) -> int | None:
        """What the leader fills its batches to, where it selects them."""
        return None

    # processes

    def _new_helper(self) -> tuple[Mortal, Post]:
        process = Mortal(self.stores.helper())
        ring = KeyRing([self.keys["helper"]])
        helper = Helper(self.tasks, ring, process.store, vdaf_of, self.clocks["helper"], self.rng.randbytes)
        return process, Post(helper, self.task.task_id)

    def _start(self, name: str) -> Leader:
        """A driver's process; the leader's has its doors too, which are returned."""
        process = Mortal(self.stores.leader())
        line = Line(self._to_helper, self.rng)
        ring, clock, rng = KeyRing([self.keys["leader"]]), self.clocks[name], self.rng.randbytes
        owner = name if self.rng.random() < 0.7 else ""  # one without a name gets nothing back before its time
        about = {"job_size": 3, "patience_us": 20 * MICROSECONDS, "owner": owner, "collects": name == "leader"}
        driver = Driver(self.tasks, ring, process.store, vdaf_of, clock, rng, line, **about)  # type: ignore[arg-type]
        self.slots[name] = Slot(process, driver, line)
        return Leader(self.tasks, ring, process.store, clock)

    def _revive(self, name: str) -> None:
        """Start whatever is dead there again; a pass of it that stalled goes on as a ghost, for one step, and dies."""
        if name == "helper":
            self.helper_process.bury()
            self.helper_process, self.post = self._new_helper()
            return
        slot = self.slots[name]
        slot.process.bury()
        started = self._start(name)
        self.leader = started if name == "leader" else self.leader
        if slot.turn is not None and not slot.turn.over:
            slot.process.dead = True
            slot.turn.go()

    def _dead(self, name: str) -> bool:
        return (self.helper_process if name == "helper" else self.slots[name].process).dead

    def _to_helper(self, method: str, url: str, media_type: str, body: bytes) -> Reply:
        if self._dead("helper"):
            raise late("the helper does not run")
        self.tally["taken back"] += method == "DELETE"  # a job of which all is too early, or that was abandoned
        try:
            return self.post(method, url, media_type, body)
        except Killed:
            self.tally["helper died"] += 1
            raise late("the helper died over it") from None

    def _at_leader(self, work: Callable[[], Any]) -> Any:
        """Something that the leader's process does for whoever asks it. Raises: Unreachable."""
        if self._dead("leader"):
            raise late("the leader does not run")
        try:
            return work()
        except Killed:
            self.tally["leader died"] += 1
            raise late("the leader died over it") from None

    # what happens

    def actions(self) -> list[tuple[int, Callable[[], None]]]:
        """What may happen at each step, and how often it does."""
        return [
            (24, self.upload),
            (8, self.again),
            (self.rng.choice([46, 25, 8]), self.drive),  # in some histories little is done in much time
            (6, self.deliver),
            (5, self.doom),
            (9, self.revive),
            (12, self.pass_time),
            (3, self.set_clock),
            (4, self.lag),
            (12, self.sweep),
            (9, self.collect),
        ]

    def run(self) -> None:
        actions = self.actions()
        weights = [weight for weight, _ in actions]
        for _ in range(STEPS):
            (action,) = self.rng.choices([act for _, act in actions], weights)
            action()
        self.settle()
        self.check()

    def upload(self) -> None:
        """Some members report what they saw, each at a place of its own."""
        now_us, new = self.true.now_us(), []
        for _ in range(self.rng.randint(1, 4)):
            if len(self.sent) < PLACES:
                bits = [int(i == len(self.sent)) for i in range(PLACES)]
                configs = self.keys["leader"].config, self.keys["helper"].config
                report = build_report(self.task, self.vdaf, bits, *configs, now_us=now_us, rng=self.rng.randbytes)
                self.sent.append(Sent(report))
                new.append(self.sent[-1])
        if new:
            self.send(new)

    def again(self) -> None:
        """Old reports once more, acknowledged or not, in another order."""
        if self.sent:
            self.send(self.rng.sample(self.sent, min(len(self.sent), self.rng.randint(1, 6))))

    def send(self, reports: list[Sent]) -> None:
        body = UploadRequest(tuple(sent.report for sent in reports)).encode()
        fault = "" if self.quiet else self.rng.choice(["lost", "no answer", "doubled", "", "", "", ""])
        with contextlib.suppress(Unreachable):
            for _ in range(0 if fault == "lost" else 2 if fault == "doubled" else 1):
                answer = self._at_leader(lambda: self.leader.process_upload(self.task.task_id, body))
            if fault in ("lost", "no answer"):
                return
            errors = dict(UploadErrors.decode(answer).errors)
            for sent in reports:
                sent.refused = errors.get(sent.report.metadata.report_id)
                sent.acked = sent.acked or sent.refused is None

    def drive(self) -> None:
        """A pass of a driver, or of one that stalls the next part of it."""
        name = self.rng.choice(DRIVERS)
        slot = self.slots[name]
        if slot.process.dead:
            return
        if slot.turn is None or slot.turn.over:
            slot.turn = Turn(lambda turn: self._pass(slot, turn))
        elif self.rng.random() < 0.5:
            return
        slot.turn.go()
        self.tally[f"{'over' if slot.turn.over else 'stalled'}"] += 1

    def _pass(self, slot: Slot, turn: Turn) -> None:
        def stall() -> None:
            turn.stall()
            if slot.process.dead:
                raise Killed

        slot.line.stall = stall
        progress = slot.driver.drive_once()
        self.tally["jobs done"] += progress.jobs_done

    def deliver(self) -> None:
        self.slots[self.rng.choice(DRIVERS)].line.deliver()

    def doom(self) -> None:
        name = self.rng.choice(PARTIES)
        process = self.helper_process if name == "helper" else self.slots[name].process
        process.doom(self.rng.randint(1, 7), durable=self.rng.random() < 0.5)
        self.tally["doomed"] += 1

    def revive(self) -> None:
        """Dead processes start again; now and then one that lives and stalls is killed for it."""
        for name in PARTIES:
            if self._dead(name) or self.rng.random() < 0.1:
                self.tally["died at a write" if self._dead(name) else "killed"] += 1
                self._revive(name)

    def pass_time(self) -> None:
        self.true.advance(self.rng.choice([1, 25, 140, 400, 2000, HOUR_S]))

    def set_clock(self) -> None:
        self.clocks[self.rng.choice(PARTIES)].off_s = self.rng.choice(STEPS_S)
        self.tally["clock set"] += 1

    def lag(self) -> None:
        """The helper's clock falls behind, or is right again: what it found too early comes in a later job."""
        clock = self.clocks["helper"]
        clock.off_s = 0 if clock.off_s < 0 else -self.rng.choice([900, 2000, HOUR_S, 2 * HOUR_S])

    def sweep(self) -> None:
        name = self.rng.choice(["leader", "helper"])
        self.note_fates()
        process = self.helper_process if name == "helper" else self.slots[name].process
        with contextlib.suppress(Killed):
            self.tally["swept"] += Sweeper(
                self.tasks, process.store, self.clocks[name], KEEP_S * MICROSECONDS
            ).sweep_once()

    def collect(self) -> None:
        """Ask for an hour that is over, or look after one that was asked for."""
        now = self.task.time_of(self.true.now_us())
        times = {sent.report.metadata.time for sent in self.sent}
        hours = [Interval(time, 1) for time in sorted(times) if time < now]
        hours = [hour for hour in hours if hour not in self.results]
        if hours:
            self.ask(self.rng.choice(hours))

    def ask(self, interval: Interval) -> None:
        collector = Collector(self.task, self.keys["collector"], self.vdaf, self._from_collector)
        pending = self.asked.setdefault(interval, None)  # an answer that is lost was asked for all the same
        try:
            found = collector.ask(interval) if pending is None else collector.poll(pending)
        except Unreachable:
            return
        except DapProblem as e:
            if e.kind is not ProblemType.INVALID_BATCH_SIZE:
                raise AssertionError(f"{interval}: {e}") from e
            self.asked[interval] = None
            return
        if isinstance(found, Pending):
            self.asked[interval] = found
        else:
            assert self.results.setdefault(interval, found) == found
            self.tally["collected"] += 1

    def _from_collector(self, method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
        if not self.quiet and self.rng.random() < 0.15:
            raise late("the collector's request was lost")
        task_id, answer = self.task.task_id, media("collection-job-resp")

        def work() -> Reply:
            if method == "DELETE":
                try:
                    self.leader.give_up_collection(task_id, from_b64url(url.rsplit("/", 1)[1], 16) or b"")
                except DapProblem as e:
                    return Reply(e.status)
                return Reply(204)
            if method == "POST":
                return reply_of(lambda: self.leader.process_collection_init(task_id, body), answer)
            found = from_b64url(url.rsplit("/", 1)[1], 16) or b""
            return reply_of(lambda: self.leader.collection_job(task_id, found), answer)

        reply: Reply = self._at_leader(work)
        return reply

    # the end of it

    def settle(self) -> None:
        """Everything works again: whatever is under way ends, and what is left of the hours is collected."""
        self.quiet = True
        for name in PARTIES:
            self._revive(name)
            self.clocks[name].off_s = 0
        for slot in self.slots.values():
            slot.line.quiet = True
        for _ in range(3):
            self.true.advance(2 * HOUR_S)  # past each lease, however often it was too short
            self.send(self.sent)
            self.drive_all()
        self.collect_all()
        self.note_fates()

    def collect_all(self) -> None:
        for _ in range(3):  # asked again, made ready, looked at
            self.finish(list(self.asked))
        for _ in range(3):
            self.finish(self.left())

    def finish(self, intervals: list[Interval]) -> None:
        for interval in intervals:
            if interval not in self.results:
                self.ask(interval)
                self.drive_all()

    def drive_all(self) -> None:
        for _ in range(PLACES):
            passes = [slot.driver.drive_once() for slot in self.slots.values()]
            if all(done.idle for done in passes):
                return
        raise AssertionError("it does not come to rest")

    def left(self) -> list[Interval]:
        """The runs of hours between what was collected."""
        hours = sorted({sent.report.metadata.time for sent in self.sent})
        taken = {hour for interval in self.results for hour in range(interval.start, interval.end)}
        runs: list[Interval] = []
        for hour in range(hours[0], hours[-1] + 1):
            if hour in taken:
                continue
            if runs and runs[-1].end == hour:
                runs[-1] = Interval(runs[-1].start, runs[-1].duration + 1)
            else:
                runs.append(Interval(hour, 1))
        return runs

    def note_fates(self) -> None:
        """Read what became of each report, before it may be forgotten."""
        rows: Any = self.watched["leader"]._read("SELECT id, state, error, batch FROM reports")
        self.fates |= {bytes(row[0]): Fate(str(row[1]), str(row[2]), bytes(row[3])) for row in rows}

    def check(self) -> None:
        totals = self.totals()
        clocks = self.tally["clock set"] > 0
        for place, sent in enumerate(self.sent):
            fate = self.fates.get(sent.report.metadata.report_id, Fate("", ""))
            assert totals[place] == (fate.state == "aggregated"), f"place {place}: {totals[place]}, {fate}, {sent}"
            if sent.acked:
                assert fate.state == "aggregated" or self._excused(sent, fate, clocks=clocks), f"{place}: {fate}"
            assert fate.state not in ("waiting", "taken"), f"{place} is stuck: {fate}"
        self.tally["counted"] = sum(totals)

    def _excused(self, sent: Sent, fate: Fate, *, clocks: bool) -> bool:
        """An acknowledged report drops out only by a clock that was wrong, or as it came to the helper too late."""
        if fate.error == ReportError.REPORT_TOO_EARLY.value:
            return clocks
        rows: Any = self.watched["helper"]._read("SELECT bucket FROM horizons")
        past = bool(rows) and sent.report.metadata.time < rows[0][0]
        return fate.error == ReportError.REPORT_DROPPED.value and past

    def totals(self) -> list[int]:
        """What was collected, and what is held of batches too small for it, which both sides have to agree on."""
        totals = self.collected()
        for run in self.left():
            ours, theirs = (s.batch(self.task.task_id, run, self.vdaf.merge) for s in self.watched.values())
            assert (ours.count, ours.checksum) == (theirs.count, theirs.checksum), f"{run} is not the same"
            assert ours.count < DEMO_LEAST, f"{run} could have been collected"
            sums = self.vdaf.unshard([ours.share, theirs.share], ours.count)
            totals = [a + b for a, b in zip(totals, sums, strict=True)]
        return totals

    def found(self) -> Iterable[Collected]:
        return self.results.values()

    def collected(self) -> list[int]:
        totals = [0] * PLACES
        for found in self.found():
            assert sum(found.sums) == found.report_count
            totals = [a + b for a, b in zip(totals, found.sums, strict=True)]
        return totals

    def close(self) -> None:
        for name in PARTIES:
            (self.helper_process if name == "helper" else self.slots[name].process).bury()
        for store in self.watched.values():
            store.close()
        self.stores.drop()


def _configuration(mode: int) -> bytes:
    return new_configuration(
        catalog_digest=bytes(32),
        leader_url="https://leader.test/dap",
        helper_url="https://helper.test/dap",
        time_precision=HOUR_S,
        min_batch_size=DEMO_LEAST,
        vdaf_config=VDAF_CONFIG,
        batch_mode=mode,
    )
