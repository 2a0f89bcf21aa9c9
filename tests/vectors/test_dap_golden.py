"""Our golden vectors of DAP: every file of the folder is replayed, on messages and on the roles, or this fails."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from interlock.base.clock import ManualClock
from interlock.base.codec import Malformed
from interlock.dap import fates, jobs, messages, noise, repair
from interlock.dap.backend import VdafBackend, VdafError
from interlock.dap.budget import NoisyRelease
from interlock.dap.collector import Collector
from interlock.dap.drafts import DAP_18, DRAFTS, Draft, ReportError, Role
from interlock.dap.driver import Driver
from interlock.dap.helper import Helper
from interlock.dap.hpke import X25519, pair_of
from interlock.dap.leader import Leader
from interlock.dap.messages import HpkeConfigList, Report, UploadErrors, UploadRequest
from interlock.dap.noise import centred, noise_share, sample
from interlock.dap.problems import DapProblem
from interlock.dap.shares import HpkeKey, KeyRing, ReportRejected, open_aggregate_share, open_input_share
from interlock.dap.task import AggregatorTask, TaskRefused, task_of
from interlock.dap.transport import Reply
from interlock.dap.vdaf.prio3 import prio3_of_config
from interlock.native.vdaf import chosen_vdaf
from interlock.node.storage.dap import SqliteHelperStorage
from interlock.node.storage.dap_budget import BudgetStore
from interlock.node.storage.dap_leader import SqliteLeaderStorage
from tests.unit.dap_world import Post
from tests.vectors import dap_golden
from tests.vectors.dap_golden import FOLDER, described, encoded_in, files

FILES: Final = sorted(path.name for path in FOLDER.iterdir())
MESSAGES: Final = [name for name in FILES if not name.endswith("exchange.json")]
EXCHANGES: Final = [name for name in FILES if name.endswith("exchange.json")]


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return found


def test_every_file_is_what_the_program_writes_and_no_file_is_beside_them() -> None:
    assert {name: (FOLDER / name).read_bytes() for name in FILES} == files()


def test_every_message_of_dap_has_its_vectors() -> None:
    public = {
        n
        for module in (messages, jobs, repair, fates, noise)
        for n in module.__all__
        if hasattr(getattr(module, n), "decode")
    }
    inner = {"Message", "Verbatim", "VerifyResp"}  # the common faces, and a part that only its whole can encode
    assert {read(name)["message"] for name in MESSAGES} == public - inner


def decoder(message: str, draft: Draft) -> Callable[[bytes], Any]:
    kind = next(
        getattr(module, message) for module in (messages, jobs, repair, fates, noise) if hasattr(module, message)
    )
    if message in dap_golden.BY_DRAFT and message != "TaskConfiguration":
        return lambda data: kind.decode(data, draft)
    found: Callable[[bytes], Any] = kind.decode
    return found


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_decodes_to_its_value_and_bad_bytes_are_malformed(name: str) -> None:
    vectors = read(name)
    assert (vectors["format"], vectors["v"]) == (dap_golden.FORMAT, 1)
    assert vectors["good"]
    assert vectors["bad"]
    for tag in vectors["drafts"]:
        draft = DRAFTS[tag]
        decode = decoder(vectors["message"], draft)
        for good in vectors["good"]:
            value = decode(bytes.fromhex(good["bytes"]))
            assert described(value) == good["value"]
            assert encoded_in(value, draft).hex() == good["bytes"]
        for bad in vectors["bad"]:
            with pytest.raises(Malformed):
                decode(bytes.fromhex(bad["bytes"]))


class Replay:
    """The parties of an exchange file, at work on its keys; the helper keeps what it was sent."""

    def __init__(self, name: str, vdaf: Callable[[VdafBackend], VdafBackend], folder: Path) -> None:
        self.file = read(name)
        draft = DRAFTS[self.file["draft"]]
        self.task = task_of(self.held("configuration"), demo=True, draft=draft)
        self.keys = {
            who: HpkeKey(i, pair_of(bytes.fromhex(self.file["keys"][who]), X25519))
            for i, who in enumerate(("leader", "helper", "collector"), start=1)
        }
        held = AggregatorTask(self.task, self.held("verify_key"), self.keys["collector"].config)
        tasks = {self.task.task_id: held}
        self.vdaf = vdaf(prio3_of_config(3, self.task.config.vdaf_configuration))
        clock = ManualClock(self.file["now_us"])
        self.leader_store, self.helper_store = (
            SqliteLeaderStorage(folder / "leader.db"),
            SqliteHelperStorage(folder / "helper.db"),
        )
        rings = {who: KeyRing([key]) for who, key in self.keys.items()}
        self.budgets = {who: BudgetStore(folder / f"{who}-budget.db") for who in ("leader", "helper")}
        release = {
            who: NoisyRelease(lambda _: self.vdaf, budget, clock, self.drawn(who))
            for who, budget in self.budgets.items()
        }
        self.leader = Leader(tasks, rings["leader"], self.leader_store, clock)
        about = (lambda _: self.vdaf, clock)
        ring, store = rings["helper"], self.helper_store
        self.helper = Helper(tasks, ring, store, *about, secrets.token_bytes, release=release["helper"])
        self.post = Post(self.helper, self.task.task_id)
        self.driver = Driver(
            tasks, rings["leader"], self.leader_store, *about, self.rng, self.post, release=release["leader"]
        )

    def drawn(self, who: str) -> Callable[[int], bytes]:
        """The random bytes that an aggregator's noise is made of, in their order, and not one more."""
        left = bytearray.fromhex(self.file.get("noise", {}).get(who, {}).get("random", ""))

        def take(size: int) -> bytes:
            found = bytes(left[:size])
            assert len(found) == size, "more is drawn than the file says"
            del left[:size]
            return found

        return take

    def rng(self, size: int) -> bytes:
        """The leader's choices: the batch id is that of the file, and nothing else stands there."""
        batch = bytes.fromhex(self.file.get("batch_id", ""))
        return batch if len(batch) == size else secrets.token_bytes(size)

    def held(self, name: str) -> bytes:
        return bytes.fromhex(self.file[name])

    def refused(self, name: str) -> list[tuple[str, bytes]]:
        rows = self.file[name]
        assert rows
        hexed = [(row.pop("why").split(":")[0], *row.values()) for row in rows]
        return [(why, bytes.fromhex(data)) for why, data in hexed]

    def close(self) -> None:
        for store in (self.leader_store, self.helper_store, *self.budgets.values()):
            store.close()


def native(vdaf: VdafBackend) -> VdafBackend:
    return chosen_vdaf(vdaf, VdafError)


@pytest.fixture(params=[(n, v) for n in EXCHANGES for v in (lambda v: v, native)], ids=lambda p: p[0][:-5])
def replay(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    name, vdaf = request.param
    found = Replay(name, vdaf, tmp_path)
    yield found
    found.close()


def test_the_derived_values_of_an_exchange_are_those_of_its_file(replay: Replay) -> None:
    assert replay.task.task_id == replay.held("task_id")
    assert replay.task.context == replay.held("context")
    assert replay.file["verified"] is (replay.file["draft"] == DAP_18.tag)
    for who, key in replay.keys.items():
        assert HpkeConfigList((key.config,)).encode().hex() == replay.file["hpke_config"][who]


def test_leader_and_helper_send_the_bytes_of_the_file(replay: Replay) -> None:
    task_id = replay.task.task_id
    assert replay.leader.process_upload(task_id, replay.held("upload_request")) == b""
    answers: list[bytes] = []

    def heard(reply: Reply) -> Reply:
        answers.append(reply.body)
        return reply

    replay.post.after = heard
    replay.driver.drive_once()
    replay.leader.process_collection_init(task_id, replay.held("collection_job_req"))
    for _ in range(3):
        replay.driver.drive_once()
    sent = [body for _, body in replay.post.sent]
    assert sent == [replay.held("aggregation_job_init_req"), replay.held("aggregate_share_req")]
    assert answers[0] == replay.held("aggregation_job_resp")
    job = replay.leader.process_collection_init(task_id, replay.held("collection_job_req"))
    collector = Collector(replay.task, replay.keys["collector"], replay.vdaf, replay.post)
    for answer in (job.body, replay.held("collection_job_resp")):
        assert list(collector.opened(replay.held("collection_job_req"), answer).sums) == replay.file["sums"]
    exact = [sum(column) for column in zip(*replay.file["measurements"], strict=True)]
    assert replay.file["sums"] == [a + b for a, b in zip(exact, noise_in(replay), strict=True)]


def noise_in(replay: Replay) -> list[int]:
    """What both aggregators' noise adds to each sum."""
    told, shape = replay.file.get("noise", {}), replay.task.shape
    shares = [replay.vdaf.decode_agg_share(bytes.fromhex(of["noise_share"])) for of in told.values()]
    return [sum(centred(shape, share[place]) for share in shares) for place in range(shape.length)]


@pytest.mark.parametrize("name", [f"dap-18.{mechanism}-exchange.json" for mechanism in dap_golden.NOISES])
def test_an_aggregate_share_with_noise_is_that_of_the_file(name: str, tmp_path: Path) -> None:
    replay = Replay(name, native, tmp_path)
    shape, chosen = replay.task.shape, replay.task.noise
    assert chosen is not None
    asked = jobs.CollectionJobReq.decode(replay.held("collection_job_req"))
    result = jobs.CollectionJobResp.decode(replay.held("collection_job_resp"))
    assert any(noise_in(replay))
    for role, sealed in ((Role.LEADER, result.leader_share), (Role.HELPER, result.helper_share)):
        of = {key: bytes.fromhex(value) for key, value in replay.file["noise"][role.name.lower()].items()}
        assert noise_share(shape, sample(chosen, shape, replay.drawn(role.name.lower()))) == of["noise_share"]
        assert replay.vdaf.merge([of["bare_share"], of["noise_share"]]) == of["share"]
        assert open_aggregate_share(replay.task, role, replay.keys["collector"], asked, sealed) == of["share"]
    replay.close()


def test_each_bad_upload_is_turned_down_under_its_name(replay: Replay) -> None:
    draft, now_us = replay.task.draft, replay.file["now_us"]
    for name, data in replay.refused("refused_uploads"):
        report = Report.decode(data)
        if name in ("hpke_decrypt_error", "invalid_message"):  # seen when a job opens the share, and not at the door
            about = report.metadata, report.public_share, report.leader_share, now_us
            with pytest.raises(ReportRejected) as caught:
                open_input_share(replay.task, Role.LEADER, KeyRing([replay.keys["leader"]]), *about)
            assert caught.value.error is ReportError(name)
            continue
        body = UploadRequest((report,)).encode()
        answer = UploadErrors.decode(replay.leader.process_upload(replay.task.task_id, body), draft)
        assert [error for _, error in answer.errors] == [draft.named(ReportError(name))], name
    assert replay.leader_store.states(replay.task.task_id).waiting == 0


def test_each_bad_job_and_collection_fails_with_its_problem(replay: Replay) -> None:
    task_id = replay.task.task_id
    for doors, process in (
        ("refused_jobs", replay.helper.process_aggregation_init),
        ("refused_collections", replay.leader.process_collection_init),
    ):
        for name, body in replay.refused(doors):
            with pytest.raises(DapProblem) as caught:
                process(task_id, body)
            assert caught.value.kind is not None
            assert caught.value.kind.value == name, name
    assert replay.helper_store.newest(task_id) is None, "nothing was committed"


def test_each_bad_task_is_refused(replay: Replay) -> None:
    for why, configuration in replay.refused("refused_configurations"):
        with pytest.raises(TaskRefused):
            pytest.fail(f"{why}: {task_of(configuration, demo=True, draft=replay.task.draft)}")
