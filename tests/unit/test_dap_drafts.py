"""Drafts: each under its own tag and numbers, two of them unverified, no other; and a task keeps the one it has."""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.codec import Malformed
from interlock.base.errors import BadInput
from interlock.base.files import BadState
from interlock.dap.drafts import DAP_18, DAP_19, DAP_20, DRAFTS, Draft, ReportError, Role, draft_of
from interlock.dap.jobs import AggregationJobInitReq, AggregationJobResp, VerifyResp
from interlock.dap.messages import Extension, HpkeCiphertext, HpkeConfig, TaskConfiguration, UploadErrors
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.storage import ReportStates
from interlock.dap.task import AggregatorTask, TaskRefused, task_of
from interlock.dap.taskfile import dump_client_task, dump_task, load_client_task, load_task
from interlock.node.storage.dap_tasks import TaskDirectory
from tests.unit.dap_world import World, bits, configuration

every = pytest.mark.parametrize("draft", list(DRAFTS.values()), ids=list(DRAFTS))
ids = [bytes([i]) * 16 for i in range(16)]


@pytest.fixture(params=list(DRAFTS.values()), ids=list(DRAFTS))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path, draft=request.param)
    yield found
    found.close()


def test_the_three_drafts_and_no_other() -> None:
    assert list(DRAFTS) == ["dap-18", "dap-19", "dap-20"]
    for wrong in ("dap-17", "dap-21", "dap", "DAP-18", ""):
        with pytest.raises(BadInput, match="no draft that is spoken here"):
            draft_of(wrong)


def test_only_dap_18_is_verified_and_the_others_say_so() -> None:
    assert [draft.label for draft in DRAFTS.values()] == ["dap-18", "dap-19 (unverified)", "dap-20 (unverified)"]


@every
def test_the_tag_stands_in_every_context(draft: Draft) -> None:
    tag = draft.tag.encode()
    assert draft.context(b"t" * 32) == tag + b"t" * 32
    assert draft.input_share_info(Role.HELPER) == tag + b" input share\x01\x03"
    assert draft.aggregate_share_info(Role.LEADER) == tag + b" aggregate share\x02\x00"


def test_one_number_says_two_things_in_two_drafts() -> None:
    assert (DAP_18.error_of(7), DAP_19.error_of(7)) == (ReportError.TASK_EXPIRED, ReportError.INVALID_MESSAGE)
    assert (DAP_18.error_of(11), DAP_19.error_of(10)) == (
        ReportError.OUTDATED_CONFIG,
        ReportError.UNSUPPORTED_EXTENSION,
    )
    assert DAP_20.report_errors == DAP_19.report_errors
    for draft, unknown in ((DAP_18, 12), (DAP_19, 11), (DAP_19, 0), (DAP_18, 255)):
        with pytest.raises(Malformed):
            draft.error_of(unknown)


@every
def test_whatever_is_found_has_a_name_and_a_number_in_the_draft(draft: Draft) -> None:
    missing = {e for e in ReportError if draft.named(e) not in draft.report_errors}
    assert missing == ({ReportError.UNKNOWN_VERIFICATION_KEY_ID} if draft is DAP_18 else set())
    for error in missing:
        with pytest.raises(ValueError, match="has no number"):
            draft.error_code(error)


@every
def test_the_errors_of_a_draft_survive_their_encoding(draft: Draft) -> None:
    errors = UploadErrors(tuple(zip(ids, draft.report_errors, strict=False)))
    assert UploadErrors.decode(errors.encode(draft), draft) == errors
    answers = AggregationJobResp(tuple(VerifyResp(i, error=e) for i, e in errors.errors))
    assert AggregationJobResp.decode(answers.encode(draft), draft) == answers


def test_a_batch_goes_from_upload_to_sums_in_every_draft(world: World) -> None:
    assert world.upload(*(world.report(bits(0, i)) for i in (1, 2, 2))) == []
    assert list(world.collect().sums[:3]) == [3, 1, 2]


def test_a_report_of_another_draft_does_not_open(world: World) -> None:
    for draft in DRAFTS.values():
        assert world.upload(world.report(bits(1), task=dataclasses.replace(world.task, draft=draft))) == []
    world.drive()
    assert world.leader_store.states(world.task.task_id) == ReportStates(aggregated=1, rejected=len(DRAFTS) - 1)


def test_a_client_with_a_stale_key_is_told_in_the_words_of_its_draft(world: World) -> None:
    stale = dataclasses.replace(world.report(bits(1)), leader_share=HpkeCiphertext(77, b"e", b"p"))
    first = ReportError.OUTDATED_CONFIG if world.task.draft is DAP_18 else ReportError.HPKE_UNKNOWN_CONFIG_ID
    assert world.upload(stale) == [first]
    odd = world.report(bits(1))
    odd = dataclasses.replace(odd, metadata=dataclasses.replace(odd.metadata, extensions=(Extension(5, b""),)))
    resealed = world.resealed(odd)
    second = ReportError.INVALID_MESSAGE if world.task.draft is DAP_18 else ReportError.UNSUPPORTED_EXTENSION
    assert world.upload(resealed) == [second]


def test_a_helper_says_of_an_unknown_verification_key_what_its_draft_says(world: World) -> None:
    assert world.upload(*(world.report(bits(i)) for i in range(3))) == []
    world.drive()
    request = AggregationJobInitReq.decode(world.post.sent[0][1])
    fresh = dataclasses.replace(request, verification_key_id=9)
    if world.task.draft is DAP_18:
        with pytest.raises(DapProblem) as caught:
            world.helper.process_aggregation_init(world.task.task_id, fresh.encode())
        assert caught.value.kind is ProblemType.INVALID_MESSAGE
        return
    answer = world.helper.process_aggregation_init(world.task.task_id, fresh.encode()).body
    found = AggregationJobResp.decode(answer, world.task.draft).responses
    assert [r.report_id for r in found] == [i.share.metadata.report_id for i in request.inits]
    assert {r.error for r in found} == {ReportError.UNKNOWN_VERIFICATION_KEY_ID}


@every
def test_a_task_without_info_is_for_drafts_that_allow_it(draft: Draft) -> None:
    bare = dataclasses.replace(TaskConfiguration.decode(configuration(least=10)), task_info=b"").encode()
    if draft is DAP_18:
        with pytest.raises(TaskRefused, match="task_info is empty, which dap-18 forbids"):
            task_of(bare, draft=draft)
    else:
        assert task_of(bare, draft=draft).configuration == bare


def held(draft: Draft) -> AggregatorTask:
    task = task_of(configuration(least=10), draft=draft)
    return AggregatorTask(task, b"v" * 32, HpkeConfig(9, 32, 1, 1, b"k" * 32))


@every
def test_a_tasks_files_keep_its_draft(draft: Draft) -> None:
    assert load_task(dump_task(held(draft)), where="f") == held(draft)
    assert load_client_task(dump_client_task(held(draft).task), where="f") == held(draft).task


def test_a_file_of_a_draft_that_is_not_spoken_is_refused_in_one_line() -> None:
    for data, load in ((dump_task(held(DAP_19)), load_task), (dump_client_task(held(DAP_19).task), load_client_task)):
        for wrong in (b'"dap-21"', b"19"):
            with pytest.raises(TaskRefused, match="no draft that is spoken here; use dap-18, dap-19, dap-20"):
                load(data.replace(b'"dap-19"', wrong), where="f")


def test_a_file_of_the_first_version_is_of_dap_18() -> None:
    for data, load in ((dump_task(held(DAP_18)), load_task), (dump_client_task(held(DAP_18).task), load_client_task)):
        body = json.loads(data)
        del body["draft"]
        old = json.dumps({**body, "v": 1}).encode()
        assert load(old, where="f") == load(data, where="f")


def test_a_task_never_changes_its_draft_key_or_collector(tmp_path: Path) -> None:
    tasks = TaskDirectory(tmp_path / "tasks")
    first = held(DAP_18)
    tasks.add(first)
    tasks.add(first)
    before = {p.name: p.read_bytes() for p in (tmp_path / "tasks").iterdir()}
    others = (
        (held(DAP_19), "agreed in dap-18"),
        (dataclasses.replace(first, verify_key=secrets.token_bytes(32)), "another verification key"),
        (dataclasses.replace(first, collector=HpkeConfig(9, 32, 1, 1, b"z" * 32)), "another collector"),
    )
    for other, why in others:
        assert other.task.task_id == first.task.task_id
        with pytest.raises(TaskRefused, match=why):
            tasks.add(other)
    assert {p.name: p.read_bytes() for p in (tmp_path / "tasks").iterdir()} == before


def test_reports_outside_of_a_tasks_interval_are_named_as_the_draft_does() -> None:
    assert DAP_18.named(ReportError.TASK_EXPIRED) is ReportError.TASK_EXPIRED
    assert DAP_19.named(ReportError.TASK_EXPIRED) is ReportError.REPORT_DROPPED
    assert DAP_19.named(ReportError.TASK_NOT_STARTED) is ReportError.REPORT_DROPPED


def test_a_damaged_draft_is_not_the_default() -> None:
    data = dump_client_task(held(DAP_18).task).replace(b'"draft"', b'"dratf"')
    with pytest.raises(BadState, match="fields"):
        load_client_task(data, where="f")
