"""The VDAF draft's published vectors (wire version 18): every operation of every file of the five Prio3 types.

A file's list of operations is run in its order. An operation fed by an earlier one takes the vector's own bytes, so
that one difference shows where it arises; an operation marked as failing must be refused.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from interlock.dap.backend import VdafBackend, VdafError
from interlock.dap.vdaf.circuits import Circuit, Count, Histogram, MultihotCountVec, Sum, SumVec
from interlock.dap.vdaf.field import FIELD128
from interlock.dap.vdaf.prio3 import Prio3
from interlock.dap.vdaf.xof import XofTurboShake128
from interlock.native.availability import availability
from interlock.native.vdaf import NativeVdaf, chosen_vdaf

FOLDER: Final = Path(__file__).parents[2] / ".." / "shared" / "vectors" / "vdaf-18"

CIRCUITS: Final[dict[str, Callable[[dict[str, Any]], Circuit]]] = {
    "Prio3Count": lambda _: Count(),
    "Prio3Sum": lambda v: Sum(v["max_measurement"]),
    "Prio3SumVec": lambda v: SumVec(v["length"], v["max_measurement"], v["chunk_length"]),
    "Prio3Histogram": lambda v: Histogram(v["length"], v["chunk_length"]),
    "Prio3MultihotCountVec": lambda v: MultihotCountVec(v["length"], v["max_weight"], v["chunk_length"]),
}
XOF: Final = "XofTurboShake128"
LEFT_OUT: Final = {
    "IdpfBBCGGI21": "incremental point functions serve Poplar1 only",
    "Poplar1": "heavy hitters are not counted here",
    "Prio3HigherDegree": "a test circuit of the draft, of no registered type",
    "Prio3SumVecWithMultiproof": "experimental in the draft, of no registered type",
    "XofFixedKeyAes128": "serves incremental point functions only",
}

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/vectors/vdaf-18 is not here")


def _type(path: Path) -> str:
    return path.stem.split("_")[0]


FILES: Final = sorted(FOLDER.glob("*")) if FOLDER.is_dir() else []
PRIO3_FILES: Final = [path for path in FILES if _type(path) in CIRCUITS]


def _read(path: Path) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads(path.read_text())
    return vector


TWO_SHARES: Final = [path for path in PRIO3_FILES if _read(path)["shares"] == 2]


def _listed(measurement: object) -> list[int]:
    return [int(x) for x in measurement] if isinstance(measurement, list) else [int(str(measurement))]


class Replay:
    """One file: its VDAF, and each operation by its name in the file."""

    def __init__(self, vector: dict[str, Any], vdaf: VdafBackend) -> None:
        self.vector = vector
        self.vdaf = vdaf
        self.ctx = bytes.fromhex(vector["ctx"])
        self.states: dict[tuple[int, int], bytes] = {}

    def run(self, operation: dict[str, Any]) -> None:
        step = functools.partial(getattr(self, operation["operation"]), operation)
        if operation["success"]:
            step()
        else:
            with pytest.raises(VdafError):
                step()

    def report(self, operation: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self.vector["reports"][operation["report_index"]]
        return found

    def shard(self, operation: dict[str, Any]) -> None:
        report = self.report(operation)
        nonce, rand = bytes.fromhex(report["nonce"]), bytes.fromhex(report["rand"])
        public, shares = self.vdaf.shard(self.ctx, _listed(report["measurement"]), nonce, rand)
        assert public.hex() == report["public_share"]
        assert [share.hex() for share in shares] == report["input_shares"]

    def verify_init(self, operation: dict[str, Any]) -> None:
        report, agg_id = self.report(operation), operation["aggregator_id"]
        state, share = self.vdaf.verify_init(
            bytes.fromhex(self.vector["verify_key"]),
            self.ctx,
            agg_id,
            bytes.fromhex(report["nonce"]),
            bytes.fromhex(report["public_share"]),
            bytes.fromhex(report["input_shares"][agg_id]),
        )
        assert share.hex() == report["verifier_shares"][0][agg_id]
        self.states[operation["report_index"], agg_id] = state

    def verifier_shares_to_message(self, operation: dict[str, Any]) -> None:
        report = self.report(operation)
        shares = [bytes.fromhex(share) for share in report["verifier_shares"][operation["round"]]]
        message = self.vdaf.verifier_shares_to_message(self.ctx, shares)
        assert message.hex() == report["verifier_messages"][operation["round"]]

    def verify_next(self, operation: dict[str, Any]) -> None:
        report, agg_id = self.report(operation), operation["aggregator_id"]
        state = self.states[operation["report_index"], agg_id]
        message = bytes.fromhex(report["verifier_messages"][operation["round"] - 1])
        out_share = self.vdaf.verify_next(self.ctx, state, message)
        expected = report["out_shares"][agg_id]
        assert out_share.hex() == (expected if isinstance(expected, str) else "".join(expected))

    def aggregate(self, operation: dict[str, Any]) -> None:
        agg_id = operation["aggregator_id"]
        shares = [report["out_shares"][agg_id] for report in self.vector["reports"]]
        encoded = [bytes.fromhex(share if isinstance(share, str) else "".join(share)) for share in shares]
        assert self.vdaf.aggregate(encoded).hex() == self.vector["agg_shares"][agg_id]

    def unshard(self, operation: dict[str, Any]) -> None:
        shares = [bytes.fromhex(share) for share in self.vector["agg_shares"]]
        assert self.vdaf.unshard(shares, len(self.vector["reports"])) == _listed(self.vector["agg_result"])


def test_every_file_is_replayed_or_left_out_with_a_reason() -> None:
    strangers = [path.name for path in FILES if _type(path) not in {*CIRCUITS, *LEFT_OUT, XOF}]
    assert not strangers
    assert sum(_type(path) in LEFT_OUT for path in FILES) == 12
    assert {_type(path) for path in PRIO3_FILES} == set(CIRCUITS)
    assert len(PRIO3_FILES) == 22


def _reference(path: Path) -> Prio3:
    vector = _read(path)
    return Prio3(CIRCUITS[_type(path)](vector), vector["shares"])


def _replay(path: Path, vdaf: VdafBackend) -> None:
    vector = _read(path)
    replay = Replay(vector, vdaf)
    assert vector["operations"]
    for operation in vector["operations"]:
        replay.run(operation)


@pytest.mark.parametrize("path", PRIO3_FILES, ids=lambda path: path.stem)
def test_every_operation_gives_the_bytes_of_the_vector(path: Path) -> None:
    _replay(path, _reference(path))


@pytest.mark.skipif(not availability().installed, reason="interlock-native is not installed")
@pytest.mark.parametrize("path", TWO_SHARES, ids=lambda path: path.stem)
def test_every_operation_of_two_aggregators_gives_the_same_bytes_natively(path: Path) -> None:
    vdaf = chosen_vdaf(_reference(path), VdafError)
    assert isinstance(vdaf, NativeVdaf)
    _replay(path, vdaf)


def test_the_files_left_to_the_reference_are_those_of_three_or_four_aggregators() -> None:
    assert {path.stem for path in set(PRIO3_FILES) - set(TWO_SHARES)} == {f"{name}_1" for name in CIRCUITS}


def test_eight_operations_of_these_files_must_be_refused() -> None:
    refused = [op for path in PRIO3_FILES for op in _read(path)["operations"] if not op["success"]]
    assert len(refused) == 8


def test_xof_turboshake128_gives_the_seed_and_the_elements_of_the_vector() -> None:
    vector = _read(FOLDER / f"{XOF}.json")
    seed, dst, binder = (bytes.fromhex(vector[name]) for name in ("seed", "dst", "binder"))
    assert XofTurboShake128(seed, dst, binder).seed().hex() == vector["derived_seed"]
    elements = XofTurboShake128(seed, dst, binder).next_vec(FIELD128, vector["length"])
    assert FIELD128.encode(elements).hex() == vector["expanded_vec_field128"]
