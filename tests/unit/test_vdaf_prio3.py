"""Prio3 as its callers see it: bytes in, bytes out; honest reports add up, changed ones drop out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.dap.backend import NONCE_SIZE, VERIFY_KEY_SIZE, VdafBackend, VdafError
from interlock.dap.vdaf import ping_pong
from interlock.dap.vdaf.circuits import Count, Histogram, MultihotCountVec, Sum, SumVec
from interlock.dap.vdaf.prio3 import Prio3, prio3_of_config

CTX = b"an application"
KEY = bytes(range(VERIFY_KEY_SIZE))
NONCE = bytes(range(NONCE_SIZE))
COUNT, SUM, SUMVEC = Prio3(Count()), Prio3(Sum(20)), Prio3(SumVec(4, 1, 2))
HISTOGRAM, MULTIHOT = Prio3(Histogram(4, 2)), Prio3(MultihotCountVec(4, 2, 2))
ALL: list[tuple[VdafBackend, list[int]]] = [
    (COUNT, [1]),
    (SUM, [13]),
    (SUMVEC, [1, 0, 1, 1]),
    (HISTOGRAM, [2]),
    (MULTIHOT, [0, 1, 1, 0]),
]
EACH = pytest.mark.parametrize(("vdaf", "measurement"), ALL, ids=["count", "sum", "sumvec", "histogram", "multihot"])
WITH_JOINT_RAND = pytest.mark.parametrize(("vdaf", "measurement"), ALL[2:], ids=["sumvec", "histogram", "multihot"])


def _rand(vdaf: VdafBackend, seed: int = 0) -> bytes:
    return bytes((seed + 7 * k) % 256 for k in range(vdaf.rand_size))


def _verified(vdaf: VdafBackend, nonce: bytes, public: bytes, shares: Sequence[bytes]) -> list[bytes]:
    """Every aggregator's output share of one report, all of them honest."""
    begun = [vdaf.verify_init(KEY, CTX, agg_id, nonce, public, share) for agg_id, share in enumerate(shares)]
    message = vdaf.verifier_shares_to_message(CTX, [share for _, share in begun])
    return [vdaf.verify_next(CTX, state, message) for state, _ in begun]


def _result(vdaf: VdafBackend, measurements: Sequence[Sequence[int]]) -> list[int]:
    totals = [vdaf.aggregate([]) for _ in range(vdaf.shares)]
    for number, measurement in enumerate(measurements):
        nonce = number.to_bytes(NONCE_SIZE, "big")
        outs = _verified(vdaf, nonce, *vdaf.shard(CTX, measurement, nonce, _rand(vdaf, number)))
        totals = [vdaf.merge([total, vdaf.aggregate([out])]) for total, out in zip(totals, outs, strict=True)]
    return vdaf.unshard(totals, len(measurements))


def _flipped(data: bytes, at: int, bit: int = 0) -> bytes:
    return data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]


few = settings(max_examples=15, deadline=None)
shares_2_to_4 = st.integers(2, 4)


@few
@given(st.lists(st.integers(0, 1), max_size=4), shares_2_to_4)
def test_counts_add_up(values: list[int], shares: int) -> None:
    assert _result(Prio3(Count(), shares), [[v] for v in values]) == [sum(values)]


@few
@given(st.integers(1, 10**6), st.data())
def test_sums_add_up(most: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.integers(0, most), max_size=4))
    assert _result(Prio3(Sum(most)), [[v] for v in values]) == [sum(values)]


@few
@given(st.integers(1, 9), st.integers(1, 300), st.integers(1, 12), shares_2_to_4, st.data())
def test_vectors_add_up_place_by_place(length: int, most: int, chunk: int, shares: int, data: st.DataObject) -> None:
    vector = st.lists(st.integers(0, most), min_size=length, max_size=length)
    vectors = data.draw(st.lists(vector, min_size=1, max_size=3))
    assert _result(Prio3(SumVec(length, most, chunk), shares), vectors) == [sum(c) for c in zip(*vectors, strict=True)]


@few
@given(st.integers(1, 9), st.integers(1, 4), st.data())
def test_histograms_count_each_bucket(length: int, chunk: int, data: st.DataObject) -> None:
    buckets = data.draw(st.lists(st.integers(0, length - 1), max_size=4))
    counted = _result(Prio3(Histogram(length, chunk)), [[b] for b in buckets])
    assert counted == [buckets.count(place) for place in range(length)]


@few
@given(st.integers(1, 9), st.integers(1, 4), st.data())
def test_multihot_vectors_add_up_place_by_place(length: int, chunk: int, data: st.DataObject) -> None:
    weight = data.draw(st.integers(1, length))
    chosen = data.draw(st.lists(st.sets(st.integers(0, length - 1), max_size=weight), min_size=1, max_size=3))
    vectors = [[int(place in places) for place in range(length)] for places in chosen]
    counted = _result(Prio3(MultihotCountVec(length, weight, chunk)), vectors)
    assert counted == [sum(c) for c in zip(*vectors, strict=True)]


@EACH
def test_a_report_with_any_byte_changed_is_refused(vdaf: VdafBackend, measurement: list[int]) -> None:
    public, (leader, helper) = vdaf.shard(CTX, measurement, NONCE, _rand(vdaf))
    whole = public + leader + helper
    ends = len(public), len(public) + len(leader)
    for at in range(len(whole)):
        bad = _flipped(whole, at, at % 8)
        with pytest.raises(VdafError):
            _verified(vdaf, NONCE, bad[: ends[0]], [bad[ends[0] : ends[1]], bad[ends[1] :]])


@EACH
def test_a_verifier_share_or_message_with_any_byte_changed_is_refused(
    vdaf: VdafBackend, measurement: list[int]
) -> None:
    public, (leader, helper) = vdaf.shard(CTX, measurement, NONCE, _rand(vdaf))
    state, share = vdaf.verify_init(KEY, CTX, 0, NONCE, public, leader)
    _, other = vdaf.verify_init(KEY, CTX, 1, NONCE, public, helper)
    for at in range(len(share)):
        with pytest.raises(VdafError):
            vdaf.verify_next(CTX, state, vdaf.verifier_shares_to_message(CTX, [_flipped(share, at), other]))
    message = vdaf.verifier_shares_to_message(CTX, [share, other])
    for bad in [message + b"\0", *[_flipped(message, at) for at in range(len(message))]]:
        with pytest.raises(VdafError):
            vdaf.verify_next(CTX, state, bad)


@EACH
def test_aggregators_that_disagree_on_key_context_or_nonce_refuse(vdaf: VdafBackend, measurement: list[int]) -> None:
    public, (leader, helper) = vdaf.shard(CTX, measurement, NONCE, _rand(vdaf))
    _, share = vdaf.verify_init(KEY, CTX, 0, NONCE, public, leader)
    for key, ctx, nonce in [(bytes(32), CTX, NONCE), (KEY, b"another", NONCE), (KEY, CTX, bytes(16))]:
        _, other = vdaf.verify_init(key, ctx, 1, nonce, public, helper)
        with pytest.raises(VdafError):
            vdaf.verifier_shares_to_message(CTX, [share, other])


@WITH_JOINT_RAND
def test_a_report_replayed_under_another_nonce_is_refused(vdaf: VdafBackend, measurement: list[int]) -> None:
    public, shares = vdaf.shard(CTX, measurement, NONCE, _rand(vdaf))
    with pytest.raises(VdafError):
        _verified(vdaf, bytes(NONCE_SIZE), public, shares)


@EACH
def test_shares_of_two_reports_do_not_go_together(vdaf: VdafBackend, measurement: list[int]) -> None:
    public, (leader, _) = vdaf.shard(CTX, measurement, NONCE, _rand(vdaf))
    _, (_, helper) = vdaf.shard(CTX, measurement, NONCE, _rand(vdaf, 99))
    with pytest.raises(VdafError):
        _verified(vdaf, NONCE, public, [leader, helper])


@EACH
@settings(max_examples=25, deadline=None)
@given(public=st.binary(max_size=70), share=st.binary(max_size=70), agg_id=st.integers(0, 1))
def test_bytes_of_the_wrong_length_raise_only_our_own_error(
    vdaf: VdafBackend, measurement: list[int], public: bytes, share: bytes, agg_id: int
) -> None:
    good_public, good = vdaf.shard(CTX, measurement, NONCE, _rand(vdaf))
    for bad_public, bad in [(good_public + b"\0", good[agg_id]), (good_public, good[agg_id] + share + b"\0")]:
        with pytest.raises(VdafError):
            vdaf.verify_init(KEY, CTX, agg_id, NONCE, bad_public, bad)
    if len(public) != len(good_public):
        with pytest.raises(VdafError):
            vdaf.verify_init(KEY, CTX, agg_id, NONCE, public, good[agg_id])
    with pytest.raises(VdafError):
        vdaf.verifier_shares_to_message(CTX, [public, share])
    with pytest.raises(VdafError):
        vdaf.aggregate([share + bytes(100)])


@EACH
def test_a_state_of_another_length_is_refused(vdaf: VdafBackend, measurement: list[int]) -> None:
    public, (leader, helper) = vdaf.shard(CTX, measurement, NONCE, _rand(vdaf))
    state, share = vdaf.verify_init(KEY, CTX, 0, NONCE, public, leader)
    message = vdaf.verifier_shares_to_message(CTX, [share, vdaf.verify_init(KEY, CTX, 1, NONCE, public, helper)[1]])
    for bad in (b"", state[:-1], state + b"\0", message):
        with pytest.raises(VdafError, match="a state does not decode"):
            vdaf.verify_next(CTX, bad, message)


@EACH
def test_the_callers_own_mistakes_are_value_errors(vdaf: VdafBackend, measurement: list[int]) -> None:
    public, (leader, helper) = vdaf.shard(CTX, measurement, NONCE, _rand(vdaf))
    for key, agg_id, nonce in [(KEY[1:], 0, NONCE), (KEY, 2, NONCE), (KEY, -1, NONCE), (KEY, 0, NONCE[1:])]:
        with pytest.raises(ValueError, match=r"bytes where|numbered from"):
            vdaf.verify_init(key, CTX, agg_id, nonce, public, leader)
    for nonce, rand in [(NONCE + b"\0", _rand(vdaf)), (NONCE, _rand(vdaf)[1:])]:
        with pytest.raises(ValueError, match="bytes where"):
            vdaf.shard(CTX, measurement, nonce, rand)
    with pytest.raises(ValueError, match="1 shares"):
        vdaf.verifier_shares_to_message(CTX, [helper])
    with pytest.raises(ValueError, match="3 shares"):
        vdaf.unshard([vdaf.aggregate([])] * 3, 0)
    with pytest.raises(ValueError, match="not negative"):
        vdaf.unshard([vdaf.aggregate([])] * 2, -1)


@pytest.mark.parametrize("shares", [1, 256])
def test_prio3_has_two_to_255_shares(shares: int) -> None:
    with pytest.raises(ValueError, match="2 to 255"):
        Prio3(Count(), shares)


@EACH
def test_an_output_share_is_the_aggregate_share_of_one_report(vdaf: VdafBackend, measurement: list[int]) -> None:
    public, shares = vdaf.shard(CTX, measurement, NONCE, _rand(vdaf))
    for out in _verified(vdaf, NONCE, public, shares):
        assert vdaf.aggregate([out]) == out
        assert vdaf.merge([out, out]) == vdaf.aggregate([out, out])


@EACH
def test_a_tasks_configuration_gives_the_same_vdaf_back(vdaf: VdafBackend, measurement: list[int]) -> None:
    again = prio3_of_config(vdaf.algorithm_id, vdaf.vdaf_config)
    assert again.vdaf_config == vdaf.vdaf_config
    assert again.shard(CTX, measurement, NONCE, _rand(vdaf)) == vdaf.shard(CTX, measurement, NONCE, _rand(vdaf))


def test_configurations_are_spelt_as_dap_spells_them() -> None:
    assert COUNT.vdaf_config == b""
    assert SUM.vdaf_config.hex() == "0000000000000014"
    assert SUMVEC.vdaf_config.hex() == "00000004" + "0000000000000001" + "00000002"
    assert HISTOGRAM.vdaf_config.hex() == "00000004" + "00000002"
    assert MULTIHOT.vdaf_config.hex() == "00000004" + "00000002" + "0000000000000002"


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 7), st.binary(max_size=20))
def test_a_configuration_is_taken_in_its_one_spelling_or_refused(algorithm_id: int, config: bytes) -> None:
    try:
        vdaf = prio3_of_config(algorithm_id, config)
    except VdafError:
        return
    assert (vdaf.algorithm_id, vdaf.vdaf_config) == (algorithm_id, config)


@pytest.mark.parametrize(
    ("algorithm_id", "config"), [(1, "00"), (2, ""), (2, "00" * 8), (3, "ff" * 16), (4, "00000004"), (6, "0010")]
)
def test_a_configuration_that_we_have_not_is_refused(algorithm_id: int, config: str) -> None:
    with pytest.raises(VdafError, match=f"VDAF {algorithm_id} cannot be set up"):
        prio3_of_config(algorithm_id, bytes.fromhex(config))


@EACH
def test_two_aggregators_finish_a_report_in_two_messages(vdaf: VdafBackend, measurement: list[int]) -> None:
    public, (leader, helper) = vdaf.shard(CTX, measurement, NONCE, _rand(vdaf))
    first = ping_pong.leader_initialized(vdaf, KEY, CTX, NONCE, public, leader)
    answer = ping_pong.helper_initialized(vdaf, KEY, CTX, NONCE, public, helper, first.outbound)
    last = ping_pong.leader_continued(vdaf, CTX, first.state, answer.outbound)
    assert [last.out_share, answer.out_share] == _verified(vdaf, NONCE, public, [leader, helper])
    assert first.outbound[0] == 0
    assert answer.outbound[0] == 2


def test_the_finish_message_of_a_count_carries_nothing() -> None:
    public, (leader, helper) = COUNT.shard(CTX, [1], NONCE, _rand(COUNT))
    first = ping_pong.leader_initialized(COUNT, KEY, CTX, NONCE, public, leader)
    answer = ping_pong.helper_initialized(COUNT, KEY, CTX, NONCE, public, helper, first.outbound)
    assert answer.outbound.hex() == "0200000000"


@EACH
def test_a_ping_pong_message_with_any_byte_changed_is_refused(vdaf: VdafBackend, measurement: list[int]) -> None:
    public, (leader, helper) = vdaf.shard(CTX, measurement, NONCE, _rand(vdaf))
    first = ping_pong.leader_initialized(vdaf, KEY, CTX, NONCE, public, leader)
    answer = ping_pong.helper_initialized(vdaf, KEY, CTX, NONCE, public, helper, first.outbound)
    for at in range(len(first.outbound)):
        with pytest.raises(VdafError):
            ping_pong.helper_initialized(vdaf, KEY, CTX, NONCE, public, helper, _flipped(first.outbound, at))
    for at in range(len(answer.outbound)):
        with pytest.raises(VdafError):
            ping_pong.leader_continued(vdaf, CTX, first.state, _flipped(answer.outbound, at))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60))
def test_a_made_up_ping_pong_message_raises_only_our_own_error(frame: bytes) -> None:
    public, (leader, helper) = SUMVEC.shard(CTX, [1, 0, 0, 0], NONCE, _rand(SUMVEC))
    state = ping_pong.leader_initialized(SUMVEC, KEY, CTX, NONCE, public, leader).state
    with pytest.raises(VdafError):
        ping_pong.helper_initialized(SUMVEC, KEY, CTX, NONCE, public, helper, frame)
    with pytest.raises(VdafError):
        ping_pong.leader_continued(SUMVEC, CTX, state, frame)


@EACH
def test_no_repr_and_no_error_shows_a_share_or_a_measurement(vdaf: VdafBackend, measurement: list[int]) -> None:
    public, (leader, helper) = vdaf.shard(CTX, measurement, NONCE, _rand(vdaf))
    first = ping_pong.leader_initialized(vdaf, KEY, CTX, NONCE, public, leader)
    answer = ping_pong.helper_initialized(vdaf, KEY, CTX, NONCE, public, helper, first.outbound)
    last = ping_pong.leader_continued(vdaf, CTX, first.state, answer.outbound)
    assert [repr(step) for step in (first, answer, last)] == ["Continued()", "FinishedWithOutbound()", "Finished()"]
    with pytest.raises(ValueError, match="a measurement has") as told:
        vdaf.shard(CTX, [987654321, *measurement[1:]], NONCE, _rand(vdaf))
    assert "987654321" not in str(told.value)
    with pytest.raises(VdafError) as refused:
        vdaf.verify_init(KEY, CTX, 0, NONCE, public, b"\xff" * len(leader))
    assert str(refused.value) in {"a number outside Field64", "a number outside Field128"}
