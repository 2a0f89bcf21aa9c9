"""A service's keys at rest: private, or sealed and opened with a passphrase from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from interlock.base.files import BadState
from interlock.base.keys import BadKey, Ed25519Signer, MlDsaSigner, dump_key
from interlock.commons.signers import open_key, read_key, tuf_key, tuf_signature, verifier_of_tuf

SIGNER: Final = Ed25519Signer(bytes(range(32)))
LITTLE: Final = 64 << 10  # bytes of memory, so that a test takes no seconds


@pytest.fixture
def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sealed online key, and a service that has been given no passphrase."""
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    monkeypatch.delenv("INTERLOCK_PASSPHRASE_FILE", raising=False)
    path = tmp_path / "snapshot.key"
    path.write_bytes(dump_key(SIGNER, passphrase=b"a phrase", salt=bytes(16), nonce=bytes(24), memory=LITTLE))
    return path


def _phrase(path: Path, text: str = "a phrase\n", mode: int = 0o600) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_sealed_key_without_a_passphrase_stays_closed(sealed: Path) -> None:
    with pytest.raises(BadKey, match="sealed with a passphrase"):
        read_key(sealed, least_memory=LITTLE)


@pytest.mark.parametrize("name", ["snapshot.passphrase", "interlock.passphrase"])
def test_a_service_credential_opens_it(
    sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    _phrase(tmp_path / "credentials" / name, mode=0o440)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "credentials"))
    assert read_key(sealed, least_memory=LITTLE) == SIGNER


def test_the_next_key_of_a_role_has_its_role_s_credential(
    sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = sealed.rename(tmp_path / "snapshot.key.next")
    _phrase(tmp_path / "credentials" / "snapshot.passphrase")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "credentials"))
    assert read_key(following, least_memory=LITTLE) == SIGNER


def test_a_named_file_opens_it_unless_others_can_read_the_file(
    sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_PASSPHRASE_FILE", str(tmp_path / "phrase"))
    with pytest.raises(BadState, match="cannot be read"):
        read_key(sealed, least_memory=LITTLE)
    _phrase(tmp_path / "phrase", mode=0o644)
    with pytest.raises(BadState, match="can be read by others"):
        read_key(sealed, least_memory=LITTLE)
    _phrase(tmp_path / "phrase", "another phrase")
    with pytest.raises(BadKey, match="passphrase is wrong"):
        read_key(sealed, least_memory=LITTLE)
    _phrase(tmp_path / "phrase")
    assert read_key(sealed, least_memory=LITTLE) == SIGNER


def test_a_service_opens_no_key_that_is_sealed_weakly(sealed: Path) -> None:
    with pytest.raises(BadKey, match="more weakly"):
        read_key(sealed, b"a phrase")


def test_a_key_of_either_family_is_named_in_tuf_metadata_and_read_back() -> None:
    for signer in (SIGNER, MlDsaSigner(65, SIGNER.seed)):
        key = tuf_key(signer.verifier)
        assert verifier_of_tuf(key) == signer.verifier
        key.verify_signature(tuf_signature(signer, b"metadata"), b"metadata")


def test_a_tuf_key_under_another_id_or_of_another_kind_is_refused() -> None:
    key, other = tuf_key(SIGNER.verifier), tuf_key(MlDsaSigner(65, SIGNER.seed).verifier)
    key.keyid = "0" * 64
    other.keyval["public"] = other.keyval["public"].replace("\n", "\r\n")
    for bad in (key, other):
        with pytest.raises(BadKey, match="no key that interlock makes"):
            verifier_of_tuf(bad)
    with pytest.raises(BadKey, match="ML-DSA-65 is"):
        tuf_key(MlDsaSigner(44, SIGNER.seed).verifier)


def test_an_ml_dsa_key_is_opened_where_either_family_will_do(tmp_path: Path) -> None:
    path = tmp_path / "x.key"
    path.write_bytes(dump_key(MlDsaSigner(65, SIGNER.seed)))
    path.chmod(0o600)
    assert open_key(path) == MlDsaSigner(65, SIGNER.seed)
    with pytest.raises(BadKey, match="is an ML-DSA key"):
        read_key(path)
