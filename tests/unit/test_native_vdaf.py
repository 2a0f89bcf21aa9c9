"""The native VDAF and the Python reference are one function: the same bytes, and the same kind of refusal.

Each case goes through both; what comes out is compared byte for byte, states included.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.base.claims import Claim
from interlock.base.keys import Ed25519Signer
from interlock.dap import hpke
from interlock.dap.backend import NONCE_SIZE, VERIFY_KEY_SIZE, SealedShare, VdafBackend, VdafError, Verdict
from interlock.dap.messages import PlaintextInputShare
from interlock.dap.vdaf import ping_pong
from interlock.dap.vdaf.circuits import Circuit, Count, Histogram, MultihotCountVec, Sum, SumVec, best_chunk_length
from interlock.dap.vdaf.prio3 import Prio3, prio3_of_config
from interlock.native.availability import availability
from interlock.native.vdaf import NativeVdaf, chosen_vdaf
from interlock.node.parties import vdaf_of
from tests.unit import dap_world

NATIVE = pytest.mark.skipif(not availability().installed, reason="interlock-native is not installed")
CTX = b"an application"
KEY = bytes(range(VERIFY_KEY_SIZE))
NONCE = bytes(range(NONCE_SIZE))
few = settings(max_examples=25, deadline=None)
T = TypeVar("T")

LARGE: list[tuple[Circuit, list[int]]] = [
    (Count(), [1]),
    (Sum(2**63 - 1), [2**62 + 5]),
    (SumVec(100, 1, best_chunk_length(100)), [k % 3 % 2 for k in range(100)]),
    (SumVec(40, 1000, best_chunk_length(400)), [25 * k for k in range(40)]),
    (SumVec(3, 2**64 - 1, 7), [2**64 - 1, 0, 2**63]),
    (Histogram(1000, best_chunk_length(1000)), [999]),
    (MultihotCountVec(300, 7, best_chunk_length(303)), [int(k % 50 == 0) for k in range(300)]),
]
EACH = pytest.mark.parametrize(
    ("circuit", "measurement"), LARGE, ids=[f"{type(c).__name__}-{c.meas_len}" for c, _ in LARGE]
)


def _pair(circuit: Circuit) -> tuple[VdafBackend, VdafBackend]:
    reference = Prio3(circuit)
    native = chosen_vdaf(reference, VdafError)
    assert isinstance(native, NativeVdaf)
    return reference, native


def _tried(call: Callable[[], T]) -> T | type[Exception]:
    try:
        return call()
    except (VdafError, ValueError) as e:
        return type(e)


def _same(pair: Sequence[VdafBackend], step: Callable[[VdafBackend], T]) -> T | type[Exception]:
    """What both give, or the kind of error that both raise."""
    by_reference, by_native = (_tried(lambda vdaf=vdaf: step(vdaf)) for vdaf in pair)  # type: ignore[misc]
    assert by_native == by_reference
    return by_native


def _whole(pair: Sequence[VdafBackend], measurement: list[int], seed: int, damage: int | None) -> None:
    """One report through every step of both, with one bit of what the client sent changed, or none."""
    draw = random.Random(seed)
    nonce, rand = draw.randbytes(NONCE_SIZE), draw.randbytes(pair[0].rand_size)
    sharded = _same(pair, lambda v: v.shard(CTX, measurement, nonce, rand))
    if isinstance(sharded, type):
        return
    public, shares = sharded
    whole = bytearray(public + b"".join(shares))
    if damage is not None:
        whole[damage // 8 % len(whole)] ^= 1 << damage % 8
    end = len(public)
    public, inputs = bytes(whole[:end]), []
    for share in shares:
        inputs.append(bytes(whole[end : end + len(share)]))
        end += len(share)
    _verified(pair, nonce, public, inputs)


def _verified(pair: Sequence[VdafBackend], nonce: bytes, public: bytes, inputs: Sequence[bytes]) -> None:
    begun = []
    for agg_id, share in enumerate(inputs):
        step = _same(pair, lambda v, a=agg_id, s=share: v.verify_init(KEY, CTX, a, nonce, public, s))  # type: ignore[misc]
        if isinstance(step, type):
            return
        begun.append(step)
    message = _same(pair, lambda v: v.verifier_shares_to_message(CTX, [share for _, share in begun]))
    if isinstance(message, type):
        return
    outs = [_same(pair, lambda v, s=state: v.verify_next(CTX, s, message)) for state, _ in begun]  # type: ignore[misc]
    good = [out for out in outs if isinstance(out, bytes)]
    totals = [_same(pair, lambda v, o=out: v.aggregate([o, o, o])) for out in good]  # type: ignore[misc]
    _same(pair, lambda v: v.unshard([total for total in totals if isinstance(total, bytes)], 3))


@NATIVE
@EACH
def test_a_report_gives_the_same_bytes_at_every_step(circuit: Circuit, measurement: list[int]) -> None:
    _whole(_pair(circuit), measurement, 1, None)


@NATIVE
@EACH
def test_a_report_with_a_bit_changed_ends_at_the_same_step(circuit: Circuit, measurement: list[int]) -> None:
    pair, draw = _pair(circuit), random.Random(2)
    for seed in range(12):
        _whole(pair, measurement, seed, draw.randrange(1 << 30))


@st.composite
def drawn(draw: st.DrawFn) -> tuple[Circuit, list[int]]:
    """A small circuit of any type, and a measurement that it takes; now and then one that it does not."""
    length, chunk, most = draw(st.integers(1, 9)), draw(st.integers(1, 12)), draw(st.integers(1, 300))
    circuit = draw(
        st.sampled_from(
            [
                Count(),
                Sum(most),
                SumVec(length, most, chunk),
                Histogram(length, chunk),
                MultihotCountVec(length, draw(st.integers(1, length)), chunk),
            ]
        )
    )
    places = circuit.output_len if circuit.algorithm_id in (3, 5) else 1
    top = {1: 1, 2: most, 3: most, 4: length - 1, 5: 1}[circuit.algorithm_id]
    return circuit, draw(st.lists(st.integers(0, top), min_size=places, max_size=places))


@NATIVE
@few
@given(drawn(), st.integers(0, 2**32), st.none() | st.integers(0, 1 << 20))
def test_drawn_reports_good_and_damaged_go_the_same_way(
    case: tuple[Circuit, list[int]], seed: int, damage: int | None
) -> None:
    circuit, measurement = case
    _whole(_pair(circuit), measurement, seed, damage)


@NATIVE
@few
@given(drawn(), st.lists(st.integers(-3, 400) | st.integers(2**63, 2**70), max_size=10))
def test_a_measurement_outside_the_range_is_refused_by_both(
    case: tuple[Circuit, list[int]], measurement: list[int]
) -> None:
    pair = _pair(case[0])
    _same(pair, lambda v: v.shard(CTX, measurement, NONCE, bytes(v.rand_size)))


@NATIVE
@few
@given(drawn(), st.integers(0, 1), st.integers(-2, 2), st.binary(max_size=4))
def test_what_is_too_short_or_too_long_is_refused_by_both(
    case: tuple[Circuit, list[int]], agg_id: int, cut: int, more: bytes
) -> None:
    pair = _pair(case[0])
    public, shares = pair[0].shard(CTX, [0] * len(case[1]), NONCE, bytes(pair[0].rand_size))
    bent = [data[: len(data) + cut] + more if cut < 0 else data + more for data in (public, shares[agg_id])]
    for given_public, given_share in ((bent[0], shares[agg_id]), (public, bent[1])):
        _same(pair, lambda v, p=given_public, s=given_share: v.verify_init(KEY, CTX, agg_id, NONCE, p, s))  # type: ignore[misc]
    _same(pair, lambda v: v.verifier_shares_to_message(CTX, [more, more]))
    _same(pair, lambda v: v.verify_next(CTX, more, more))
    for count in range(4):
        _same(pair, lambda v, n=count: v.merge([more] * n))  # type: ignore[misc]
        _same(pair, lambda v, n=count: v.unshard([v.merge([])] * n, 1))  # type: ignore[misc]
    _same(pair, lambda v: v.decode_agg_share(b"\xff" * len(v.merge([]))))


@NATIVE
def test_the_callers_own_mistakes_are_value_errors_in_both() -> None:
    pair = _pair(Histogram(4, 2))
    public, (leader, _) = pair[0].shard(CTX, [2], NONCE, bytes(128))
    for key, agg_id, nonce in [(KEY[1:], 0, NONCE), (KEY, 2, NONCE), (KEY, -1, NONCE), (KEY, 0, NONCE[1:])]:
        step = _same(pair, lambda v, k=key, a=agg_id, n=nonce: v.verify_init(k, CTX, a, n, public, leader))  # type: ignore[misc]
        assert step is ValueError
    assert _same(pair, lambda v: v.shard(CTX, [2], NONCE, bytes(127))) is ValueError
    assert _same(pair, lambda v: v.shard(bytes(0x10000), [2], NONCE, bytes(128))) is ValueError
    assert _same(pair, lambda v: v.unshard([v.merge([])] * 2, -1)) is ValueError
    assert _same(pair, lambda v: v.verifier_shares_to_message(CTX, [leader])) is ValueError


@NATIVE
@few
@given(st.integers(0, 6), st.binary(max_size=16))
def test_both_set_up_the_same_tasks(algorithm_id: int, config: bytes) -> None:
    by_reference = _tried(lambda: prio3_of_config(algorithm_id, config).rand_size)
    by_native = _tried(lambda: NativeVdaf(algorithm_id, config, VdafError).rand_size)
    assert by_native == by_reference


@NATIVE
@pytest.mark.parametrize(
    ("algorithm_id", "config"),
    [
        (2, (2**63 - 1).to_bytes(8, "big")),
        (2, (2**63).to_bytes(8, "big")),
        (3, bytes.fromhex("00100000" + "0000000000000001" + "00000001")),
        (3, bytes.fromhex("00100000" + "0000000000000002" + "00000001")),
        (3, bytes.fromhex("00004000" + "ffffffffffffffff" + "00100000")),
        (4, bytes.fromhex("00100000" + "00100001")),
        (4, bytes.fromhex("00100001" + "00000001")),
        (5, bytes.fromhex("00000004" + "00000001" + "0000000000000005")),
        (5, bytes.fromhex("00000004" + "00000001" + "0000000000000000")),
    ],
)
def test_both_draw_the_same_line_between_tasks(algorithm_id: int, config: bytes) -> None:
    by_reference = _tried(lambda: prio3_of_config(algorithm_id, config).rand_size)
    by_native = _tried(lambda: NativeVdaf(algorithm_id, config, VdafError).rand_size)
    assert by_native == by_reference


@NATIVE
@EACH
def test_a_report_begun_on_one_is_finished_on_the_other(circuit: Circuit, measurement: list[int]) -> None:
    """A leader keeps states between two messages; the wheel may come or go in between."""
    for begins, finishes in [(p := _pair(circuit)), p[::-1]]:
        public, (leader, helper) = begins.shard(CTX, measurement, NONCE, bytes(begins.rand_size))
        first = ping_pong.leader_initialized(begins, KEY, CTX, NONCE, public, leader)
        answer = ping_pong.helper_initialized(finishes, KEY, CTX, NONCE, public, helper, first.outbound)
        last = ping_pong.leader_continued(finishes, CTX, first.state, answer.outbound)
        expected = Prio3(circuit).unshard([last.out_share, answer.out_share], 1)
        assert begins.unshard([last.out_share, answer.out_share], 1) == expected


INFO = b"dap-18 input share"


def _job(circuit: Circuit, measurement: list[int], role: int, count: int) -> list[SealedShare]:
    """Reports of a job of an aggregator, sealed to two keys of its ring, the helper's with the leader's messages."""
    reference, draw = Prio3(circuit), random.Random(role)
    pairs = [hpke.derive_key_pair(draw.randbytes(32)) for _ in range(2)]
    reports = []
    for number in range(count):
        nonce, aad, pair = draw.randbytes(NONCE_SIZE), draw.randbytes(number), pairs[number % 2]
        public, shares = reference.shard(CTX, measurement, nonce, draw.randbytes(reference.rand_size))
        first = ping_pong.leader_initialized(reference, KEY, CTX, nonce, public, shares[0])
        plaintext = PlaintextInputShare((), shares[role]).encode()
        enc, payload = hpke.seal(pair.public, INFO, aad, plaintext, ikm=draw.randbytes(32))
        inbound = first.outbound if role else b""
        reports.append(SealedShare(nonce, public, pair.public, pair.private, enc, payload, aad, inbound))
    return reports


def _run(vdaf: VdafBackend, role: int, reports: Sequence[SealedShare]) -> list[Verdict]:
    return (vdaf.helper_job if role else vdaf.leader_job)(KEY, CTX, INFO, reports)


@NATIVE
@EACH
@pytest.mark.parametrize("role", [0, 1])
def test_a_job_gives_the_same_answers_in_the_same_order(circuit: Circuit, measurement: list[int], role: int) -> None:
    pair, reports = _pair(circuit), _job(circuit, measurement, role, 13)
    for count in (0, 1, 13):
        found = _same(pair, lambda v, n=count: _run(v, role, reports[:n]))  # type: ignore[misc]
        assert not isinstance(found, type)
        assert [isinstance(verdict, tuple) for verdict in found] == [True] * count


@NATIVE
@few
@given(st.integers(0, 1), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1 << 16)), min_size=1, max_size=6))
def test_damaged_reports_drop_out_of_a_job_for_the_same_reason(role: int, damage: list[tuple[int, int]]) -> None:
    circuit = SumVec(4, 3, 3)
    pair, reports = _pair(circuit), _job(circuit, [1, 0, 3, 2], role, 4)
    fields = ("nonce", "public_share", "private_key", "enc", "payload", "aad", "inbound")
    for number, (field, bit) in enumerate(damage):
        report = reports[number % 4]
        data = bytearray(getattr(report, fields[field]))
        if data:
            data[bit // 8 % len(data)] ^= 1 << bit % 8
            changed: dict[str, Any] = {fields[field]: bytes(data)}
            reports[number % 4] = replace(report, **changed)
    _same(pair, lambda v: _run(v, role, reports))


@NATIVE
@pytest.mark.parametrize("role", [0, 1])
def test_a_bad_report_is_a_value_and_stops_no_other(role: int) -> None:
    pair, [good, *others] = _pair(Count()), _job(Count(), [1], role, 8)
    key = hpke.KeyPair(good.public_key, good.private_key)
    plain = hpke.unseal(key, good.enc, INFO, good.aad, good.payload)

    def sealing(plaintext: bytes) -> SealedShare:
        enc, payload = hpke.seal(key.public, INFO, good.aad, plaintext, ikm=bytes(32))
        return replace(good, enc=enc, payload=payload)

    owed = (Claim("ed25519", bytes(32), b"", bytes(64)),)
    bad = {
        "unsigned": [
            replace(good, claims=owed),
            replace(good, claims=owed, payload=b""),  # what is signed comes first
            replace(good, claims=(Claim("rsabssa", b"", b"", b""),)),
        ],
        "sealed": [
            replace(good, payload=good.payload[:15]),
            replace(good, payload=b""),
            replace(good, enc=bytes(32)),  # of small order
            replace(good, enc=good.enc[:31]),
            replace(good, aad=b"another task"),
        ],
        "malformed": [
            sealing(b""),
            sealing(plain + b"\0"),
            sealing(plain[:-1]),
            sealing(bytes(6)),
            sealing(bytes.fromhex("0004ff010000") + plain[2:]),
        ],
        "invalid": [sealing(plain[:5] + b"\1\0"), replace(good, public_share=b"\0")]
        + [replace(good, inbound=bent) for bent in (b"", b"\2" + good.inbound[1:], good.inbound + b"\0") if role],
    }
    for fault, reports in bad.items():
        found = _same(pair, lambda v, r=reports: _run(v, role, [good, *r, *others]))  # type: ignore[misc]
        assert not isinstance(found, type)
        assert found[1:-7] == [fault] * len(reports)
        assert all(isinstance(verdict, tuple) for verdict in (found[0], *found[-7:]))


@NATIVE
def test_a_report_whose_signatures_hold_is_worked_on() -> None:
    signer = Ed25519Signer(bytes(32))
    owed = (Claim("ed25519", signer.verifier.public, b"let in", signer.sign(b"let in")),) * 2
    reports = [replace(report, claims=owed) for report in _job(Count(), [1], 1, 3)]
    found = _same(_pair(Count()), lambda v: _run(v, 1, reports))
    assert not isinstance(found, type)
    assert all(isinstance(verdict, tuple) for verdict in found)


@NATIVE
def test_a_job_under_a_key_of_the_wrong_size_is_the_callers_mistake() -> None:
    pair, reports = _pair(Count()), _job(Count(), [1], 1, 2)
    assert _same(pair, lambda v: v.helper_job(KEY[1:], CTX, INFO, reports)) is ValueError


def test_a_sealed_share_never_shows_a_key_or_a_share() -> None:
    [report] = _job(Count(), [1], 1, 1)
    assert repr(report) == f"SealedShare(nonce={report.nonce!r}, public_key={report.public_key!r})"


@NATIVE
def test_no_error_of_the_native_vdaf_shows_a_measurement_or_a_share() -> None:
    _, native = _pair(SumVec(2, 10, 1))
    with pytest.raises(ValueError, match="a measurement has") as told:
        native.shard(CTX, [987654321, 1], NONCE, bytes(native.rand_size))
    assert "987654321" not in str(told.value)
    with pytest.raises(VdafError) as refused:
        native.verify_init(KEY, CTX, 0, NONCE, bytes(64), b"\xff" * 500)
    assert str(refused.value) == "input share does not decode"


@NATIVE
def test_a_nodes_aggregators_count_natively_what_members_sharded_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dap_world, "vdaf_of", vdaf_of)
    world = dap_world.World(tmp_path)
    assert isinstance(vdaf_of(world.task), NativeVdaf)
    assert world.upload(*(world.report(dap_world.bits(0, i)) for i in (1, 2, 2))) == []
    assert list(world.collect().sums) == [3, 1, 2] + [0] * 13
    world.close()


@NATIVE
def test_three_aggregators_are_the_references_own() -> None:
    three = Prio3(Count(), 3)
    assert chosen_vdaf(three, VdafError) is three


def test_without_the_wheel_or_with_one_that_has_no_vdaf_the_reference_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = Prio3(Count())
    monkeypatch.setenv("INTERLOCK_NATIVE", "0")
    assert chosen_vdaf(reference, VdafError) is reference
    monkeypatch.delenv("INTERLOCK_NATIVE")
    monkeypatch.setattr("interlock.native.vdaf.availability", lambda: type("Here", (), {"installed": True}))
    monkeypatch.setitem(sys.modules, "interlock_native", ModuleType("interlock_native"))
    assert chosen_vdaf(reference, VdafError) is reference


def test_a_panic_of_the_native_code_refuses_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    class Panicked(Exception):
        pass

    class Fails:
        def __init__(self, algorithm_id: int, vdaf_config: bytes) -> None:
            pass

        def verify_next(self, state: bytes, message: bytes) -> bytes:
            raise Panicked

    module = ModuleType("interlock_native")
    vars(module).update(Vdaf=Fails, Panicked=Panicked, RefusedShare=type("RefusedShare", (Exception,), {}))
    monkeypatch.setitem(sys.modules, "interlock_native", module)
    with pytest.raises(VdafError, match="failed on it"):
        NativeVdaf(1, b"", VdafError).verify_next(CTX, b"", b"")
