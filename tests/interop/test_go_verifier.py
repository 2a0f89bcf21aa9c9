"""Our log in the eyes of golang.org/x/mod, transparency-dev/formats and transparency-dev/merkle: accepted as it is, and
refused with one bit changed."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest

from interlock.transparency.log import Log, open_log
from tests.interop.go_tools import built
from tests.interop.small_log import ALSO, ORIGIN, PAIRS, SIGNER, Cosigned, cosigned, entry, policy, spoilt_line

KEYS = [c.key.text for pair in PAIRS.values() for c in pair]


class Go:
    """The verifier, and a folder for what it reads."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program = program
        self.folder = folder

    def file(self, data: bytes) -> str:
        path = self.folder / f"f{len(list(self.folder.iterdir()))}"
        path.write_bytes(data)
        return str(path)

    def says(self, *words: str) -> bool:
        """Whether it accepts; a usage error or a panic is neither."""
        done = subprocess.run([str(self.program), *words], capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        assert done.stdout.startswith(("accepted", "refused")), done.stdout
        return done.returncode == 0

    def checkpoint(self, note: bytes, key: str = SIGNER.key.text, witnesses: list[str] = KEYS) -> bool:
        return self.says("checkpoint", ORIGIN, key, self.file(note), *witnesses)

    def policy(self, note: bytes, text: bytes) -> bool:
        return self.says("policy", self.file(text), self.file(note))

    def proof(self, proof: bytes, data: bytes, key: str = SIGNER.key.text) -> bool:
        return self.says("proof", ORIGIN, key, self.file(policy().text), self.file(proof), self.file(data))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(Path("verify"), tmp_path_factory.mktemp("go") / "verify")


@pytest.fixture
def go(program: Path, tmp_path: Path) -> Go:
    (tmp_path / "files").mkdir()
    return Go(program, tmp_path / "files")


def grown(log: Log, home: Path, size: int) -> Cosigned:
    log.append([entry(n) for n in range(log.size + 1, size + 1)])
    return cosigned(log, home)


def test_it_accepts_our_checkpoint_with_both_keys_of_log_and_witnesses(go: Go, tmp_path: Path) -> None:
    with open_log(tmp_path / "log", SIGNER, [ALSO]) as log:
        for size in (1, 2, 255, 256, 300):
            shown = grown(log, tmp_path, size)
            for key in (SIGNER.key.text, ALSO.key.text):
                assert go.checkpoint(shown.note, key)
            assert go.policy(shown.note, policy().text)


def test_it_refuses_our_checkpoint_with_one_bit_changed(go: Go, tmp_path: Path) -> None:
    with open_log(tmp_path / "log", SIGNER, [ALSO]) as log:
        note = grown(log, tmp_path, 7).note
    head = note.index(b"\n\n")
    for at in (0, 5, head - 3, head - 30, note.index(b"\n7\n") + 1):
        for key in (SIGNER.key.text, ALSO.key.text):
            assert not go.checkpoint(note[:at] + bytes([note[at] ^ 1]) + note[at + 1 :], key)
    for line in range(6):  # both of the log, both of each witness
        for at in (0, 3, 4, 11, 12, 60, -1):
            key = ALSO.key.text if line == 1 else SIGNER.key.text
            assert not go.checkpoint(spoilt_line(note, line, at), key)


def test_it_reads_our_policy_and_sees_when_the_quorum_is_not_there(go: Go, tmp_path: Path) -> None:
    with open_log(tmp_path / "log", SIGNER, [ALSO]) as log:
        note = grown(log, tmp_path, 7).note
    lines = note.splitlines(keepends=True)
    assert go.policy(note, policy().text)
    for missing in range(-4, 0):  # any one of the four cosignatures
        short = b"".join(line for line in lines if line != lines[missing])
        assert not go.policy(short, policy().text)
        assert go.policy(short, policy().text.replace(b"quorum q", b"quorum none"))
    for line in range(2, 6):
        assert not go.policy(spoilt_line(note, line, 40), policy().text)


def test_it_accepts_our_proofs_and_refuses_each_with_one_bit_changed(go: Go, tmp_path: Path) -> None:
    with open_log(tmp_path / "log", SIGNER, [ALSO]) as log:
        note = grown(log, tmp_path, 300).note
        proofs = {index: log.prove(index, note).data for index in (0, 1, 255, 256, 299)}
    for index, proof in proofs.items():
        for key in (SIGNER.key.text, ALSO.key.text):
            assert go.proof(proof, entry(index + 1), key)
        assert not go.proof(proof, entry(index + 2))
    proof = proofs[255]
    hashes = proof.index(b"\nindex 255\n") + len(b"\nindex 255\n")
    for at in (5, hashes - 2, hashes + 1, hashes + 50, proof.index(b"\n\n") + 3):
        assert not go.proof(proof[:at] + bytes([proof[at] ^ 1]) + proof[at + 1 :], entry(256))
    data = bytearray(entry(256))
    data[20] ^= 1
    assert not go.proof(proof, bytes(data))


def test_it_accepts_our_consistency_proofs_and_refuses_each_with_one_bit_changed(go: Go, tmp_path: Path) -> None:
    shown: list[Cosigned] = []
    with open_log(tmp_path / "log", SIGNER, [ALSO]) as log:
        for size in (1, 3, 256, 300):
            shown.append(grown(log, tmp_path, size))
        for old, new in itertools.pairwise(shown):
            proof = [h.hex() for h in log.consistency(old.size, new.size)]
            words = ["consistency", str(old.size), old.root.hex(), str(new.size), new.root.hex(), *proof]
            assert go.says(*words)
            for place in (2, 4, *range(5, len(words))):
                spoilt = f"{int(words[place][:2], 16) ^ 1:02x}" + words[place][2:]
                assert not go.says(*words[:place], spoilt, *words[place + 1 :])
