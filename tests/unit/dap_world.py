"""A whole DAP deployment in one process, with real crypto and real SQLite, and a helper that can be made to fail."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from interlock.base.clock import ManualClock
from interlock.base.fetch import Unreachable
from interlock.dap.backend import VdafBackend
from interlock.dap.budget import BARE, NoisyRelease, Release
from interlock.dap.client import build_report
from interlock.dap.collector import WHILE_WAITING, Collected, Collector, Pending
from interlock.dap.drafts import DAP_18, Draft, ReportError, Role
from interlock.dap.driver import Driver
from interlock.dap.helper import Helper, Resource
from interlock.dap.hpke import X25519, Kem
from interlock.dap.jobs import ReportShare
from interlock.dap.leader import Leader
from interlock.dap.membership import Admit, Owner, ReportProof, admit_all, owned_by_none
from interlock.dap.messages import TIME_INTERVAL, Interval, Report, UploadErrors, UploadRequest
from interlock.dap.messages import media_type as media
from interlock.dap.noise import Noise
from interlock.dap.problems import MEDIA_TYPE, DapProblem, from_b64url
from interlock.dap.shares import HpkeKey, KeyRing, new_key, seal_input_share
from interlock.dap.task import AggregatorTask, Task, new_configuration, task_of, verify_key_of
from interlock.dap.transport import Reply
from interlock.dap.vdaf.prio3 import prio3_of_config
from interlock.node.storage.dap_budget import BudgetStore
from tests.unit.dap_stores import SqliteStores, Stores

LENGTH = 16
CHUNK = 4
PRECISION = 3600
VDAF_CONFIG = LENGTH.to_bytes(4, "big") + (1).to_bytes(8, "big") + CHUNK.to_bytes(4, "big")
VDAF = prio3_of_config(3, VDAF_CONFIG)


def anew(value: Any) -> Any:
    """The same value without the bytes that it was read of, so that its parts are written."""
    if isinstance(value, tuple):
        return tuple(anew(each) for each in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return type(value)(*(anew(getattr(value, each.name)) for each in fields(value)))


def vdaf_of(task: Task) -> VdafBackend:
    assert task.config.vdaf_configuration == VDAF_CONFIG
    return VDAF


def configuration(
    *,
    leader_url: str = "https://leader.test/dap",
    helper_url: str = "https://helper.test/dap",
    least: int = 3,
    precision: int = PRECISION,
    membership: bytes | None = None,
    noise: Noise | None = None,
    interval: Interval | None = None,
    batch_mode: int = TIME_INTERVAL,
) -> bytes:
    return new_configuration(
        catalog_digest=hashlib.sha256(b"catalog").digest(),
        leader_url=leader_url,
        helper_url=helper_url,
        time_precision=precision,
        min_batch_size=least,
        vdaf_config=VDAF_CONFIG,
        membership=membership,
        noise=noise,
        interval=interval,
        batch_mode=batch_mode,
    )


def task(
    least: int = 3,
    membership: bytes | None = None,
    draft: Draft = DAP_18,
    noise: Noise | None = None,
    interval: Interval | None = None,
    batch_mode: int = TIME_INTERVAL,
    batch_size: int | None = None,
) -> Task:
    data = configuration(least=least, membership=membership, noise=noise, interval=interval, batch_mode=batch_mode)
    return task_of(data, demo=True, draft=draft, batch_size=batch_size)


@dataclass
class Post:
    """The leader's line to the helper: no network, and whatever fault a test sets."""

    helper: Helper
    task_id: bytes
    sent: list[tuple[str, bytes]] = field(default_factory=list)  # what was posted
    looked: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    before: Callable[[], None] = lambda: None
    after: Callable[[Reply], Reply] = lambda reply: reply

    def __call__(self, method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
        if method == "DELETE":
            self.deleted.append(url)
            if "/aggregation_jobs/" not in url:
                return Reply(204)
            job_id = from_b64url(urlsplit(url).path.rsplit("/", 1)[1], 16) or b""
            return _gone(lambda: self.helper.delete_aggregation_job(self.task_id, job_id))
        if method == "GET":
            self.looked.append(url)
            self.before()
            return self.after(self._look(url))
        self.sent.append((url, body))
        self.before()
        work, answer_type = {
            "aggregation_jobs": (self.helper.process_aggregation_init, "aggregation-job-resp"),
            "aggregate_shares": (self.helper.process_aggregate_share, "aggregate-share"),
            "repairs": (self.helper.process_repair, "repair-resp"),
        }[url.rsplit("/", 1)[1]]
        return self.after(reply_of(lambda: work(self.task_id, body), media(answer_type)))

    def _look(self, url: str) -> Reply:
        """What GET gives; a look at an aggregation job names its step."""
        parts = urlsplit(url)
        *_, kind, name = parts.path.split("/")
        found = from_b64url(name, 16) or b""
        if kind == "aggregate_shares":
            return reply_of(lambda: self.helper.aggregate_share(self.task_id, found), media("aggregate-share"))
        step = dict(parse_qsl(parts.query)).get("step")
        return reply_of(lambda: self.helper.aggregation_job(self.task_id, found, step), media("aggregation-job-resp"))


def reply_of(work: Callable[[], Resource], media_type: str) -> Reply:
    try:
        found = work()
    except DapProblem as e:
        return Reply(e.status, MEDIA_TYPE, e.document())
    return Reply(201, media_type, found.body, location=urlsplit(found.place).path)


def _gone(work: Callable[[], None]) -> Reply:
    """What DELETE gives."""
    try:
        work()
    except DapProblem as e:
        return Reply(e.status, MEDIA_TYPE, e.document())
    return Reply(204)


def unreachable() -> None:
    raise Unreachable("does not answer", where="helper")


def lost(reply: Reply) -> Reply:
    raise Unreachable("the answer was lost", where="the other side")


class World:
    """Leader, helper, collector and any number of members; `restart` is what kill -9 and a new start do to both."""

    def __init__(
        self,
        folder: Path,
        *,
        least: int = 3,
        admit: Admit = admit_all,
        owner: Owner = owned_by_none,
        job_size: int = 100,
        membership: bytes | None = None,
        kem: Kem = X25519,
        noise: Noise | None = None,
        draft: Draft = DAP_18,
        interval: Interval | None = None,
        batch_mode: int = TIME_INTERVAL,
        batch_size: int | None = None,
        stores: Stores | None = None,
    ) -> None:
        self.folder = folder
        self._stores = stores or SqliteStores(folder)
        self.clock = ManualClock()
        self.helper_clock = self.clock  # another one, from the next start on, for a helper whose clock is off
        self.task = task(least, membership, draft, noise, interval, batch_mode, batch_size)
        self.collector_key = new_key(9, secrets.token_bytes, kem)
        self.leader_key = new_key(1, secrets.token_bytes, kem)
        self.helper_key = new_key(2, secrets.token_bytes, kem)
        verify_key = verify_key_of(secrets.token_bytes(32), self.task.task_id)
        self.held = AggregatorTask(self.task, verify_key, self.collector_key.config)
        self._admit = admit
        self._owner = owner
        self._job_size = job_size
        self.start()

    def start(self) -> None:
        tasks = {self.task.task_id: self.held}
        self.leader_store: Any = self._stores.leader()
        self.helper_store: Any = self._stores.helper()
        names = ("leader", "helper") if self.task.noise else ()
        self.budgets = [BudgetStore(self.folder / f"{name}-budget.db") for name in names]
        releases: list[Release] = [NoisyRelease(vdaf_of, b, self.clock, secrets.token_bytes) for b in self.budgets]
        self.leader = Leader(
            *(tasks, KeyRing([self.leader_key]), self.leader_store, self.clock), admit=self._admit, owner=self._owner
        )
        self.helper = Helper(
            tasks,
            KeyRing([self.helper_key]),
            self.helper_store,
            vdaf_of,
            self.helper_clock,
            secrets.token_bytes,
            admit=self._admit,
            release=releases[-1] if releases else BARE,
        )
        self.post = Post(self.helper, self.task.task_id)
        self.driver = Driver(
            tasks,
            KeyRing([self.leader_key]),
            self.leader_store,
            vdaf_of,
            self.clock,
            secrets.token_bytes,
            self.post,
            job_size=self._job_size,
            release=releases[0] if releases else BARE,
            owner="leader",
        )
        self.collector = Collector(self.task, self.collector_key, VDAF, self._ask_leader)

    def close(self) -> None:
        self.leader_store.close()
        self.helper_store.close()
        for budget in self.budgets:
            budget.close()

    def restart(self) -> None:
        self.close()
        self.start()

    def report(
        self,
        measurement: Sequence[int],
        *,
        task: Task | None = None,
        helper: HpkeKey | None = None,
        proof: ReportProof | None = None,
    ) -> Report:
        return build_report(
            task or self.task,
            VDAF,
            measurement,
            self.leader_key.config,
            (helper or self.helper_key).config,
            now_us=self.clock.now_us(),
            rng=secrets.token_bytes,
            proof=proof,
        )

    def share_of(self, report: Report) -> ReportShare:
        """The helper's part of a report, as a leader passes it on."""
        return ReportShare(report.metadata, report.public_share, report.helper_share)

    def resealed(self, report: Report) -> Report:
        """A report whose metadata was changed, with its leader's share sealed to that; the share itself is anything."""
        about = (report.metadata, report.public_share, b"share", secrets.token_bytes)
        sealed = seal_input_share(self.task, Role.LEADER, self.leader_key.config, *about)
        return replace(report, leader_share=sealed)

    def upload(self, *reports: Report, member: str | None = None) -> list[ReportError]:
        body = UploadRequest(reports).encode()
        answer = self.leader.process_upload(self.task.task_id, body, member)
        return [error for _, error in UploadErrors.decode(answer, self.task.draft).errors]

    def hour(self, before: int = 0) -> Interval:
        return Interval(self.task.time_of(self.clock.now_us()) - before, 1)

    def drive(self, passes: int = 4) -> None:
        for _ in range(passes):
            self.driver.drive_once()

    def collect(self, interval: Interval | None = None) -> Collected:
        """Ask, let the leader work, and ask again."""
        found = self.collector.ask(interval or self.hour())
        self.drive()
        if isinstance(found, Pending):
            found = self.collector.poll(found)
        assert isinstance(found, Collected), "the leader is not done"
        return found

    def collect_next(self) -> Collected:
        """Ask for the leader's next batch, let the leader work, and ask again; it is not taken yet."""
        self.collector.ask_next()
        self.drive()
        found = self.collector.ask_next()
        assert isinstance(found, Collected), "no batch is full"
        return found

    def _ask_leader(self, method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
        task_id = self.task.task_id
        if method == "POST":
            return reply_of(lambda: self.leader.process_collection_init(task_id, body), media("collection-job-resp"))
        parts = urlsplit(url)
        job_id = from_b64url(parts.path.rsplit("/", 1)[1], 16) or b""
        if method == "DELETE":
            return self._delete(job_id, taken=parts.query != WHILE_WAITING)
        return reply_of(lambda: self.leader.collection_job(task_id, job_id), media("collection-job-resp"))

    def _delete(self, job_id: bytes, *, taken: bool) -> Reply:
        return _gone(lambda: self.leader.give_up_collection(self.task.task_id, job_id, taken=taken))


def bits(*places: int) -> list[int]:
    """A measurement that is 1 at these places."""
    return [int(i in places) for i in range(LENGTH)]
