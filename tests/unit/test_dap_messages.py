"""DAP's messages: what is encoded is decoded again, and no bytes do anything but decode or be refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.base.codec import Malformed
from interlock.dap import fates, jobs, messages, repair
from interlock.dap.drafts import DAP_18, ReportError, Role
from interlock.dap.problems import DapProblem, ProblemType, from_b64url, problem_type, to_b64url
from tests.unit.dap_world import anew

u8, u16, u32, u64 = (st.integers(0, 2**n - 1) for n in (8, 16, 32, 64))
some = st.binary(min_size=1, max_size=40)
any_bytes = st.binary(max_size=40)
report_ids = st.binary(min_size=16, max_size=16)
digests = st.binary(min_size=32, max_size=32)
errors = st.sampled_from(list(DAP_18.report_errors))

extensions = st.lists(st.builds(messages.Extension, u16, any_bytes), max_size=3).map(tuple)
intervals = st.builds(messages.Interval, u64, u64)
ciphertexts = st.builds(messages.HpkeCiphertext, u8, some, some)
metadata = st.builds(messages.ReportMetadata, report_ids, u64, extensions)
reports = st.builds(messages.Report, metadata, any_bytes, ciphertexts, ciphertexts)
configs = st.builds(messages.HpkeConfig, u8, u16, u16, u16, st.binary(min_size=1, max_size=33))
config_lists = st.lists(configs, min_size=1, max_size=4, unique_by=lambda c: c.id).map(tuple)
configurations = st.builds(
    messages.TaskConfiguration, some, some, some, u64, u64, u8, any_bytes, u32, any_bytes, extensions
)
shares = st.builds(jobs.ReportShare, metadata, any_bytes, ciphertexts)
inits = st.builds(jobs.VerifyInit, shares, some)
continues = st.builds(jobs.VerifyContinue, report_ids, some)
responses = st.one_of(
    st.builds(jobs.VerifyResp, report_ids),
    st.builds(jobs.VerifyResp, report_ids, payload=some),
    st.builds(jobs.VerifyResp, report_ids, error=errors),
)
job_parts = st.lists(st.builds(repair.JobPart, report_ids, st.integers(1, 2**63 - 1), digests), max_size=3).map(
    lambda parts: tuple({part.job_id: part for part in sorted(parts, key=lambda p: p.job_id)}.values())
)
questions = st.builds(fates.Question, report_ids, u64, any_bytes)
standings = st.sampled_from([s for s in fates.Standing if s is not fates.Standing.REJECTED])
ends = st.one_of(
    st.builds(fates.Fate, report_ids, standings),
    st.builds(fates.Fate, report_ids, st.just(fates.Standing.REJECTED), st.sampled_from(ReportError)),
    st.builds(
        fates.Fate,
        report_ids,
        st.just(fates.Standing.REJECTED),
        st.sampled_from(ReportError),
        st.sampled_from([Role.LEADER, Role.HELPER]),
        st.sampled_from(fates.Step),
    ),
)
job_requests = st.builds(jobs.CollectionJobReq, st.builds(jobs.Query, u8, any_bytes), any_bytes, extensions)

EVERY: dict[type, st.SearchStrategy[Any]] = {
    messages.Interval: intervals,
    messages.BatchId: st.builds(messages.BatchId, st.binary(min_size=32, max_size=32)),
    messages.Extension: st.builds(messages.Extension, u16, any_bytes),
    messages.HpkeConfig: configs,
    messages.HpkeConfigList: st.builds(messages.HpkeConfigList, config_lists),
    messages.HpkeCiphertext: ciphertexts,
    messages.ReportMetadata: metadata,
    messages.Report: reports,
    messages.UploadRequest: st.builds(messages.UploadRequest, st.lists(reports, max_size=3).map(tuple)),
    messages.UploadErrors: st.builds(
        messages.UploadErrors, st.lists(st.tuples(report_ids, errors), max_size=3).map(tuple)
    ),
    messages.PlaintextInputShare: st.builds(messages.PlaintextInputShare, extensions, some),
    messages.SumVecConfig: st.builds(messages.SumVecConfig, u32, u64, u32),
    messages.TaskConfiguration: configurations,
    messages.InputShareAad: st.builds(
        messages.InputShareAad, digests, configurations.map(lambda c: c.encode()), metadata, any_bytes
    ),
    jobs.ReportShare: shares,
    jobs.VerifyInit: inits,
    jobs.AggregationJobInitReq: st.builds(
        jobs.AggregationJobInitReq, u8, any_bytes, extensions, st.lists(inits, max_size=2).map(tuple)
    ),
    jobs.VerifyContinue: continues,
    jobs.AggregationJobContinueReq: st.builds(
        jobs.AggregationJobContinueReq, u16, st.lists(continues, max_size=3).map(tuple)
    ),
    jobs.AggregationJobResp: st.builds(jobs.AggregationJobResp, st.lists(responses, max_size=3).map(tuple)),
    jobs.Query: st.builds(jobs.Query, u8, any_bytes),
    jobs.BatchSelector: st.builds(jobs.BatchSelector, u8, any_bytes),
    jobs.CollectionJobReq: job_requests,
    jobs.CollectionJobResp: st.builds(jobs.CollectionJobResp, u64, intervals, ciphertexts, ciphertexts),
    jobs.AggregateShareReq: st.builds(
        jobs.AggregateShareReq, job_requests, st.builds(jobs.BatchSelector, u8, any_bytes), u64, digests
    ),
    jobs.AggregateShare: st.builds(jobs.AggregateShare, ciphertexts),
    jobs.AggregateShareAad: st.builds(
        jobs.AggregateShareAad, digests, configurations.map(lambda c: c.encode()), job_requests
    ),
    repair.JobPart: st.builds(repair.JobPart, report_ids, st.integers(1, 2**63 - 1), digests),
    repair.RepairReq: st.builds(
        repair.RepairReq, job_requests, st.builds(jobs.BatchSelector, u8, any_bytes), job_parts
    ),
    repair.RepairResp: st.builds(repair.RepairResp, job_parts),
    fates.Question: questions,
    fates.Fate: ends,
    fates.FateReq: st.builds(
        fates.FateReq, st.lists(questions, max_size=3, unique_by=lambda q: q.report_id).map(tuple)
    ),
    fates.FateResp: st.builds(fates.FateResp, st.lists(ends, max_size=3).map(tuple)),
}
kinds = pytest.mark.parametrize("kind", list(EVERY), ids=lambda k: k.__name__)


@kinds
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_what_is_encoded_is_decoded_again(kind: Any, data: st.DataObject) -> None:
    value = data.draw(EVERY[kind])
    assert kind.decode(value.encode()) == value


@kinds
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_bytes_decode_to_what_encodes_to_them_or_are_malformed(kind: Any, data: st.DataObject) -> None:
    raw = data.draw(st.binary(max_size=200))
    try:
        value = kind.decode(raw)
    except Malformed:
        return
    assert value.encode() == raw == anew(value).encode()


@kinds
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_damaged_message_decodes_to_itself_or_is_malformed(kind: Any, data: st.DataObject) -> None:
    raw = bytearray(data.draw(EVERY[kind]).encode() or b"\x00")
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    cut = bytes(raw)[: data.draw(st.integers(0, len(raw)))]
    for damaged in (bytes(raw), cut):
        try:
            value = kind.decode(damaged)
        except Malformed:
            continue
        assert value.encode() == damaged == anew(value).encode()


def test_every_message_of_the_modules_is_in_this_test() -> None:
    def public(module: Any) -> set[type]:
        named = {getattr(module, n) for n in module.__all__}
        return {c for c in named if isinstance(c, type) and hasattr(c, "decode")}

    found = public(messages) | public(jobs) | public(repair) | public(fates)
    assert found == set(EVERY) | {messages.Message, messages.Verbatim}


def test_a_report_has_the_layout_of_the_draft() -> None:
    sealed = messages.HpkeCiphertext(7, b"\xaa", b"\xbb\xcc")
    report = messages.Report(messages.ReportMetadata(b"i" * 16, 5), b"pub", sealed, sealed)
    metadata = b"i" * 16 + (5).to_bytes(8, "big") + b"\x00\x00"
    ciphertext = b"\x07" + b"\x00\x01\xaa" + b"\x00\x00\x00\x02\xbb\xcc"
    assert report.encode() == metadata + b"\x00\x00\x00\x03pub" + ciphertext * 2


def test_a_rejection_has_the_layout_of_the_draft() -> None:
    response = jobs.VerifyResp(b"i" * 16, error=ReportError.VDAF_VERIFY_ERROR)
    assert jobs.AggregationJobResp((response,)).encode() == b"i" * 16 + b"\x02\x06"


def test_two_keys_of_one_id_are_malformed() -> None:
    config = messages.HpkeConfig(1, 32, 1, 1, b"k" * 32)
    with pytest.raises(Malformed, match="share an id"):
        messages.HpkeConfigList.decode(messages.HpkeConfigList((config, config)).encode())


def test_the_draft_tag_stands_in_every_context() -> None:
    assert DAP_18.context(b"t" * 32) == b"dap-18" + b"t" * 32
    assert DAP_18.input_share_info(Role.HELPER) == b"dap-18 input share\x01\x03"
    assert DAP_18.aggregate_share_info(Role.LEADER) == b"dap-18 aggregate share\x02\x00"
    assert sorted(DAP_18.report_errors.values()) == list(range(1, 12))
    with pytest.raises(Malformed):
        DAP_18.error_of(0)


def test_no_repr_shows_a_share() -> None:
    secret = b"\x5a" * 12
    sealed = messages.HpkeCiphertext(1, secret, secret)
    shown = [
        repr(messages.Report(messages.ReportMetadata(b"i" * 16, 1), secret, sealed, sealed)),
        repr(messages.PlaintextInputShare((messages.Extension(1, secret),), secret)),
        repr(jobs.VerifyResp(b"i" * 16, payload=secret)),
        repr(jobs.VerifyInit(jobs.ReportShare(messages.ReportMetadata(b"i" * 16, 1), secret, sealed), secret)),
    ]
    assert not any("ZZ" in text for text in shown)


def test_a_problem_document_names_its_type_and_task() -> None:
    problem = DapProblem(ProblemType.BATCH_OVERLAP, "was collected before", task_id=b"\xff" * 32)
    assert problem_type(problem.document()) is ProblemType.BATCH_OVERLAP
    assert b'"taskid": "' + b"_" * 42 in problem.document()
    assert (problem.status, DapProblem(ProblemType.UNRECOGNIZED_TASK, "x").status) == (400, 404)
    assert problem_type(DapProblem(None, "no token", status=401).document()) is None
    assert problem_type(b"<html>") is None
    assert problem_type(b'{"type": "urn:ietf:params:ppm:dap:error:nothing"}') is None


@given(st.binary(max_size=40), st.text(max_size=50))
def test_an_id_has_one_spelling(data: bytes, text: str) -> None:
    assert from_b64url(to_b64url(data), len(data)) == data
    found = from_b64url(text, 16)
    assert found is None or to_b64url(found) == text
