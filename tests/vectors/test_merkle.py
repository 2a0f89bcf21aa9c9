"""Replays the RFC 6962 proof vectors of transparency-dev/merkle (Apache-2.0): every file, or a reason."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from interlock.transparency.merkle import BadProof, verify_consistency, verify_inclusion

FOLDER = Path(__file__).parents[3] / "shared" / "vectors" / "merkle-rfc6962"

FAKE_HASH = "its hashes are not 32 bytes; a verifier of SHA-256 trees refuses it"
LEFT_OUT = {
    "consistency/additional/sizes-are-equal-one-and-proof-is-empty.json": FAKE_HASH,
    "inclusion/single-entry/empty-root-and-leaf.json": FAKE_HASH,
}
LEFT_OUT_FOLDERS = {
    "subtreeinclusion": "subtree proofs belong to Merkle tree certificates, which interlock has not",
    "subtreeconsistency": "subtree proofs belong to Merkle tree certificates, which interlock has not",
}

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/vectors/merkle-rfc6962 is not there")


def _files() -> list[str]:
    return sorted(str(p.relative_to(FOLDER)) for p in FOLDER.rglob("*") if p.is_file())


def _replayed() -> list[str]:
    return [f for f in _files() if f not in LEFT_OUT and Path(f).parts[0] not in LEFT_OUT_FOLDERS]


def _b64(text: str) -> bytes:
    return base64.b64decode(text)


def _verify(name: str, body: dict[str, object]) -> None:
    proof = body["proof"] or []
    assert isinstance(proof, list)
    hashes = [_b64(p) for p in proof]

    def raw(key: str) -> bytes:
        return _b64(str(body[key]))

    def number(key: str) -> int:
        value = body[key]
        assert isinstance(value, int)
        return value

    if name.startswith("inclusion/"):
        verify_inclusion(raw("leafHash"), number("leafIdx"), number("treeSize"), hashes, raw("root"))
    else:
        verify_consistency(number("size1"), raw("root1"), number("size2"), raw("root2"), hashes)


@pytest.mark.parametrize("name", _replayed())
def test_the_verifier_agrees_with_the_vector(name: str) -> None:
    body = json.loads((FOLDER / name).read_bytes())
    if body["wantErr"]:
        with pytest.raises(BadProof):
            _verify(name, body)
    else:
        _verify(name, body)


def test_every_file_is_replayed_or_listed_with_a_reason() -> None:
    assert not [f for f in _replayed() if Path(f).parts[0] not in ("inclusion", "consistency")]
    assert set(LEFT_OUT) <= set(_files())
    assert len(_replayed()) >= 190


@pytest.mark.parametrize("name", sorted(LEFT_OUT))
def test_a_vector_with_fake_hashes_is_refused(name: str) -> None:
    with pytest.raises(BadProof):
        _verify(name, json.loads((FOLDER / name).read_bytes()))
