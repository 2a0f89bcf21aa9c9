"""RFC 9180's published test vectors, every encryption of each, against interlock.dap.hpke."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Final

import pytest

from interlock.base.primitives import BadSignature
from interlock.dap import hpke

FOLDER: Final = Path(__file__).parents[2] / ".." / "shared" / "vectors" / "hpke-rfc9180"
OURS: Final = {(0, kem, hpke.KDF_ID, hpke.AEAD_ID) for kem in hpke.KEMS}  # mode, kem, kdf, aead
REPLAYED: Final = {
    # file -> how many encryptions each of its entries of our suites has
    "rfc9180_x25519_hkdfsha256_aes128gcm_base.json": [257],
    "rfc9180_x25519_hkdfsha256_aes128gcm_allmodes.json": [257],  # modes 1 to 3 (PSK, authenticated) are not in DAP
    "rfc9180_base_p256_x25519_trimmed4.json": [4, 4],  # HKDF-SHA512, AES-256 and ChaCha20 are not spoken here
}

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/vectors/hpke-rfc9180 is not here")


@functools.cache
def entries(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / name).read_text())
    return [e for e in found if (e["mode"], e["kem_id"], e["kdf_id"], e["aead_id"]) in OURS]


def test_every_file_of_the_folder_is_replayed() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(REPLAYED)


@pytest.mark.parametrize("name", sorted(REPLAYED))
def test_keys_and_every_encryption_are_those_of_the_vector(name: str) -> None:
    assert [len(entry["encryptions"]) for entry in entries(name)] == REPLAYED[name]
    for entry in entries(name):
        pair = hpke.derive_key_pair(bytes.fromhex(entry["ikmR"]), hpke.KEMS[entry["kem_id"]])
        assert (pair.private.hex(), pair.public.hex()) == (entry["skRm"], entry["pkRm"])
        info = bytes.fromhex(entry["info"])
        enc, sending = hpke.sender(pair.public, info, ikm=bytes.fromhex(entry["ikmE"]))
        assert enc.hex() == entry["enc"]
        receiving = hpke.receiver(pair, enc, info)
        for step in entry["encryptions"]:
            aad, plaintext = bytes.fromhex(step["aad"]), bytes.fromhex(step["pt"])
            payload = sending.seal(aad, plaintext)
            assert payload.hex() == step["ct"]
            assert receiving.open(aad, payload) == plaintext


def test_a_vector_with_one_changed_bit_does_not_open() -> None:
    entry = entries("rfc9180_x25519_hkdfsha256_aes128gcm_base.json")[0]
    pair = hpke.derive_key_pair(bytes.fromhex(entry["ikmR"]))
    step = entry["encryptions"][0]
    payload = bytearray.fromhex(step["ct"])
    payload[-1] ^= 1
    with pytest.raises(BadSignature):
        hpke.unseal(
            pair, bytes.fromhex(entry["enc"]), bytes.fromhex(entry["info"]), bytes.fromhex(step["aad"]), bytes(payload)
        )
