"""The VDAF draft's bad reports through leader and helper over HTTP: each drops out alone, and its member is told why.

A vector has its own context and verification key. The tasks here are given both, so that its very bytes are uploaded,
opened, verified and answered for by the aggregators' real applications; the good report that a bad one was made from
goes the same way and counts, so that nothing but the fault makes the difference.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from starlette.types import ASGIApp

from interlock.base.clock import ManualClock
from interlock.dap.client import build_report, fetch_config, upload
from interlock.dap.collector import Collected, Collector, Pending
from interlock.dap.drafts import ReportError, Role
from interlock.dap.driver import Driver
from interlock.dap.fates import Fate, Question, Standing, Step, ask_fates
from interlock.dap.helper import Helper
from interlock.dap.jobs import AggregationJobInitReq, AggregationJobResp
from interlock.dap.leader import Leader
from interlock.dap.messages import (
    TIME_INTERVAL,
    HpkeConfig,
    Interval,
    Report,
    ReportMetadata,
    TaskConfiguration,
)
from interlock.dap.shares import KeyRing, new_key, seal_input_share
from interlock.dap.task import AggregatorTask, Task, task_of
from interlock.dap.transport import Reply
from interlock.node.parties import HttpExchange, vdaf_of
from interlock.node.roles.aggregate import helper_app, leader_app
from interlock.node.storage.dap import SqliteHelperStorage
from interlock.node.storage.dap_leader import SqliteLeaderStorage
from tests.unit.dap_http import TOKENS, table

FOLDER: Final = Path(__file__).parents[2] / ".." / "shared" / "vectors" / "vdaf-18"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/vectors/vdaf-18 is not here")

# what a member can upload: its shares and its public share are all that it sends
UPLOADED: Final = (
    "Prio3Count_bad_gadget_poly",
    "Prio3Count_bad_helper_seed",
    "Prio3Count_bad_meas_share",
    "Prio3Count_bad_wire_seed",
    "Prio3Histogram_bad_helper_jr_blind",
    "Prio3Histogram_bad_leader_jr_blind",
    "Prio3Histogram_bad_public_share",
)
ANSWERED: Final = ("Prio3Histogram_bad_verifier_message",)  # what only a helper can say
NOT_SENT: Final = {"Poplar1_bad_corr_inner": "no task counts Poplar1: the leader has no such report to take"}
MEASUREMENTS: Final[dict[int, list[list[int]]]] = {1: [[1], [0], [1]], 4: [[2], [0], [2]]}
SUMS: Final[dict[int, tuple[int, ...]]] = {1: (2,), 4: (1, 0, 2, 0, 0)}
# the leader's verifier share in these is that of the good report: the fault lies with the helper alone
SAME_LEADER_SHARE: Final = (
    "Prio3Count_bad_helper_seed",
    "Prio3Histogram_bad_helper_jr_blind",
    "Prio3Histogram_bad_public_share",
)
BY_HELPER: Final = Fate(b"", Standing.REJECTED, ReportError.VDAF_VERIFY_ERROR, Role.HELPER, Step.INIT)
BY_LEADER: Final = Fate(b"", Standing.REJECTED, ReportError.VDAF_VERIFY_ERROR, Role.LEADER, Step.FINISH)


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def configuration(vector: dict[str, Any]) -> bytes:
    """A task of the vector's VDAF."""
    histogram = "length" in vector
    parameters = (vector["length"], vector["chunk_length"]) if histogram else ()
    return TaskConfiguration(
        task_info=b"vectors",
        leader_url=b"https://leader.test/dap",
        helper_url=b"https://helper.test",
        time_precision=3600,
        min_batch_size=3,
        batch_mode=TIME_INTERVAL,
        batch_config=b"",
        vdaf_type=4 if histogram else 1,
        vdaf_configuration=b"".join(number.to_bytes(4, "big") for number in parameters),
        extensions=(),
    ).encode()


class InProcess(httpx.BaseTransport):
    """HTTP to an application without a socket; its background work does not run by itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._line = httpx.ASGITransport(app)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return asyncio.run(self._asked(request))

    async def _asked(self, request: httpx.Request) -> httpx.Response:
        asked = httpx.Request(request.method, request.url, headers=request.headers, content=request.read())
        found = await self._line.handle_async_request(asked)
        return httpx.Response(found.status_code, headers=found.headers, content=await found.aread())


def client_of(app: ASGIApp) -> httpx.Client:
    return httpx.Client(transport=InProcess(app))


class Pair:
    """Both applications, each reached by HTTP alone; the leader's work is done when `drive` says so."""

    def __init__(self, folder: Path, vector: dict[str, Any], stack: contextlib.ExitStack, job_size: int) -> None:
        self.clock = ManualClock()
        self.task: Task = task_of(configuration(vector), demo=True)
        self.collector_key = new_key(9, secrets.token_bytes)
        held = AggregatorTask(self.task, bytes.fromhex(vector["verify_key"]), self.collector_key.config)
        self._tasks, self._configs = {self.task.task_id: held}, dict[Role, HpkeConfig]()
        self._apps = {Role.HELPER: self._helper(folder, stack), Role.LEADER: self._leader(folder, stack, job_size)}
        for role, url in ((Role.LEADER, self.task.config.leader_url), (Role.HELPER, self.task.config.helper_url)):
            self._configs[role] = fetch_config(HttpExchange("", self._apps[role]), url)
        self.leader_says: dict[bytes, bytes] = {}  # report -> what the leader's message is in place of the true one
        self.helper_says: dict[bytes, bytes] = {}  # report -> what the helper answers in place of the truth

    def _helper(self, folder: Path, stack: contextlib.ExitStack) -> httpx.Client:
        self.helper_store = store = stack.enter_context(contextlib.closing(SqliteHelperStorage(folder / "helper.db")))
        ring = KeyRing([new_key(2, secrets.token_bytes)])
        helper = Helper(self._tasks, ring, store, vdaf_of, self.clock, secrets.token_bytes)
        return client_of(helper_app(helper, leaders=table("leader")))

    def _leader(self, folder: Path, stack: contextlib.ExitStack, job_size: int) -> httpx.Client:
        store = stack.enter_context(contextlib.closing(SqliteLeaderStorage(folder / "leader.db")))
        tasks, ring = self._tasks, KeyRing([new_key(1, secrets.token_bytes)])
        about = (store, vdaf_of, self.clock, secrets.token_bytes, self._to_helper)
        self.driver = Driver(tasks, ring, *about, job_size=job_size, owner="leader")
        leader, members = Leader(tasks, ring, store, self.clock), table(*TOKENS)
        app = leader_app(leader, self.driver, members=members, collectors=table("collector"), prefix="/dap")
        return client_of(app)

    def to_leader(self, name: str) -> HttpExchange:
        return HttpExchange(TOKENS[name], self._apps[Role.LEADER])

    def _to_helper(self, method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
        """The leader's line to the helper, over HTTP; each side may lie."""
        if method == "POST" and url.endswith("/aggregation_jobs"):
            request = AggregationJobInitReq.decode(body)
            inits = (
                dataclasses.replace(i, payload=self.leader_says.get(i.share.metadata.report_id, i.payload))
                for i in request.inits
            )
            body = dataclasses.replace(request, inits=tuple(inits)).encode()
        reply = HttpExchange(TOKENS["leader"], self._apps[Role.HELPER])(method, url, media_type, body)
        if not self.helper_says or not url.endswith("/aggregation_jobs"):
            return reply
        said = AggregationJobResp.decode(reply.body).responses
        lied = (dataclasses.replace(r, payload=self.helper_says.get(r.report_id, r.payload)) for r in said)
        return dataclasses.replace(reply, body=AggregationJobResp(tuple(lied)).encode())

    def drive(self) -> None:
        for _ in range(6):
            self.driver.drive_once()

    def three_honest(self) -> None:
        """Three members' reports, stored at the leader."""
        configs = (self._configs[Role.LEADER], self._configs[Role.HELPER])
        measurements = MEASUREMENTS[self.task.config.vdaf_type]
        for member, measurement in zip(("globex", "initech", "leader"), measurements, strict=True):
            about = (self.task, vdaf_of(self.task), measurement, *configs)
            report = build_report(*about, now_us=self.clock.now_us(), rng=secrets.token_bytes)
            assert upload(self.to_leader(member), self.task, [report]) == {}

    def upload(self, vector: dict[str, Any], **changed: Any) -> Report:
        """A vector's report, sealed as its member would, and stored at the leader; some of it may be changed."""
        said = {**vector["reports"][0], **changed}
        metadata = ReportMetadata(bytes.fromhex(said["nonce"]), self.task.time_of(self.clock.now_us()))
        public_share = bytes.fromhex(said["public_share"])
        sealed = {
            role: seal_input_share(
                *(self.task, role, self._configs[role], metadata, public_share, bytes.fromhex(share)),
                secrets.token_bytes,
            )
            for role, share in zip((Role.LEADER, Role.HELPER), said["input_shares"], strict=True)
        }
        report = Report(metadata, public_share, sealed[Role.LEADER], sealed[Role.HELPER])
        assert upload(self.to_leader("acme"), self.task, [report]) == {}, "nobody can tell yet"
        return report

    def collect(self) -> Collected:
        collector = Collector(self.task, self.collector_key, vdaf_of(self.task), self.to_leader("collector"))
        found = collector.ask(Interval(self.task.time_of(self.clock.now_us()), 1))
        self.drive()
        found = collector.poll(found) if isinstance(found, Pending) else found
        assert isinstance(found, Collected), "the leader is not done"
        return found

    def fate(self, report: Report) -> Fate:
        """What the leader tells whoever sent it, but its id."""
        question = Question(report.metadata.report_id, report.metadata.time)
        (found,) = ask_fates(self.to_leader("acme"), self.task, (question,)).values()
        return dataclasses.replace(found, report_id=b"")


@dataclass
class Making:
    """Makes a pair for a vector's task, in the vector's own context."""

    folder: Path
    stack: contextlib.ExitStack
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, name: str, job_size: int = 100) -> Pair:
        vector = read(name)
        context = bytes.fromhex(vector["ctx"])
        self.monkeypatch.setattr(Task, "context", property(lambda _: context))
        return Pair(self.folder, vector, self.stack, job_size)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Making]:
    with contextlib.ExitStack() as stack:
        yield Making(tmp_path, stack, monkeypatch)


def framed(kind: int, item: bytes) -> bytes:
    return bytes([kind]) + len(item).to_bytes(4, "big") + item


def test_every_bad_vector_is_sent_or_left_out_with_a_reason() -> None:
    bad = {path.stem for path in FOLDER.glob("*_bad_*.json")}
    assert bad == {*UPLOADED, *ANSWERED, *NOT_SENT}


def test_the_good_report_that_bad_ones_were_made_from_counts(made: Making) -> None:
    pair = made("Prio3Count_0")
    pair.three_honest()
    good = pair.upload(read("Prio3Count_0"))
    found = pair.collect()
    assert (found.report_count, found.sums) == (4, (3,))
    assert pair.fate(good) == Fate(b"", Standing.COLLECTED)


@pytest.mark.parametrize("name", UPLOADED)
def test_a_bad_report_is_turned_down_by_the_helper_and_the_rest_of_its_job_is_counted(name: str, made: Making) -> None:
    pair = made(name)
    pair.three_honest()
    bad = pair.upload(read(name))
    pair.drive()
    assert pair.fate(bad) == BY_HELPER
    found = pair.collect()
    assert (found.report_count, found.sums) == (3, SUMS[pair.task.config.vdaf_type])


@pytest.mark.parametrize("name", [name for name in UPLOADED if name not in SAME_LEADER_SHARE])
def test_a_bad_verifier_share_of_the_leader_is_turned_down_alone(name: str, made: Making) -> None:
    """The report is good, and what the leader says of it is what the vector's leader would."""
    (said,) = read(name)["reports"]
    good = "Prio3Count_0" if "Count" in name else ANSWERED[0]  # that file's report is good, its helper's answer is not
    pair = made(good)
    pair.three_honest()
    report = pair.upload(read(good))
    pair.leader_says[report.metadata.report_id] = framed(0, bytes.fromhex(said["verifier_shares"][0][0]))
    found = pair.collect()
    assert (found.report_count, found.sums) == (3, SUMS[pair.task.config.vdaf_type])
    assert pair.fate(report) == BY_HELPER


@pytest.mark.parametrize("message", ["another kind", "no kind", "cut", "longer", "empty item", "a byte too few"])
def test_a_message_of_the_leader_that_is_none_is_turned_down_alone(message: str, made: Making) -> None:
    pair = made("Prio3Count_0")
    pair.three_honest()
    report = pair.upload(read("Prio3Count_0"))
    share = bytes.fromhex(read("Prio3Count_0")["reports"][0]["verifier_shares"][0][0])
    true = framed(0, share)
    pair.leader_says[report.metadata.report_id] = {
        "another kind": framed(2, share),
        "no kind": framed(9, share),
        "cut": true[:-1],
        "longer": true + b"x",
        "empty item": framed(0, b""),
        "a byte too few": framed(0, share[:-1]),
    }[message]
    found = pair.collect()
    assert (found.report_count, found.sums) == (3, SUMS[1])
    assert pair.fate(report) == BY_HELPER


@pytest.mark.parametrize("side", [Role.LEADER, Role.HELPER])
@pytest.mark.parametrize("good", ["Prio3Count_0", ANSWERED[0]])
@pytest.mark.parametrize("change", ["a byte too few", "a byte more", "one byte"])
def test_an_input_share_that_does_not_decode_is_told_as_that_and_not_as_a_bad_proof(
    change: str, good: str, side: Role, made: Making
) -> None:
    """dap-18, 4.5.5: invalid_message, and by the side whose share it is."""
    pair, shares = made(good), [*read(good)["reports"][0]["input_shares"]]
    pair.three_honest()
    at = 0 if side is Role.LEADER else 1
    shares[at] = {"a byte too few": shares[at][:-2], "a byte more": shares[at] + "00", "one byte": "00"}[change]
    bad = pair.upload(read(good), input_shares=shares)
    found = pair.collect()
    assert (found.report_count, found.sums) == (3, SUMS[pair.task.config.vdaf_type])
    assert pair.fate(bad) == Fate(b"", Standing.REJECTED, ReportError.INVALID_MESSAGE, side, Step.INIT)


@pytest.mark.parametrize(
    ("good", "changed"),
    [
        ("Prio3Count_0", {"public_share": "00"}),
        (ANSWERED[0], {"public_share": ""}),
        (ANSWERED[0], {"public_share": "00" * 65}),
        ("Prio3Count_0", {"input_shares": ["ff" * 48, "00" * 32]}),
    ],
    ids=["a public share of none", "no public share", "too long a public share", "elements out of the field"],
)
def test_what_else_the_leader_cannot_decode_reaches_no_helper(good: str, changed: dict[str, Any], made: Making) -> None:
    pair = made(good)
    pair.three_honest()
    bad = pair.upload(read(good), **changed)
    found = pair.collect()
    assert (found.report_count, found.sums) == (3, SUMS[pair.task.config.vdaf_type])
    assert pair.fate(bad) == Fate(b"", Standing.REJECTED, ReportError.INVALID_MESSAGE, Role.LEADER, Step.INIT)


@pytest.mark.parametrize("message", ["the vector's", "another kind", "cut", "none of its size"])
def test_a_bad_answer_of_the_helper_is_turned_down_by_the_leader_and_its_job_left_out_of_the_batch(
    message: str, made: Making
) -> None:
    """The helper has committed the report by then; so its whole job is left out by both, and other jobs count."""
    vector = read(ANSWERED[0])
    pair = made(ANSWERED[0], job_size=1)
    pair.three_honest()
    report = pair.upload(vector)
    bad = bytes.fromhex(vector["reports"][0]["verifier_messages"][0])
    pair.helper_says[report.metadata.report_id] = {
        "the vector's": framed(2, bad),
        "another kind": framed(0, bad),
        "cut": framed(2, bad)[:-1],
        "none of its size": framed(2, bad[:-1]),
    }[message]
    pair.drive()
    assert pair.fate(report) == BY_LEADER
    found = pair.collect()
    assert (found.report_count, found.sums) == (3, SUMS[4])
    (repair,) = pair.helper_store.repairs(pair.task.task_id)
    assert (repair.kept, len(repair.ours)) == (3, 1)
