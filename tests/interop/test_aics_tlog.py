"""Our log in the eyes of aics-tlog, others' implementation in Python; it needs Python 3.12 and a venv of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from interlock.transparency.log import open_log
from tests.interop.small_log import ALSO, ORIGIN, PAIRS, SIGNER, cosigned, entry

pytestmark = pytest.mark.slow

PACKAGE = "aics-tlog==0.2.1"
CHECK = """
import sys
from pathlib import Path
from aics_tlog import *
root, origin, vkey, *witnesses = sys.argv[1:]
note = parse_note(Path(root, "checkpoint").read_bytes())
keys = [parse_vkey(w) for w in witnesses]
result = verify_checkpoint(note, parse_vkey(vkey), keys, len(keys), expected_origin=origin)
assert result.ok, result
size, tree = result.size, result.root
reader = FileSystemTileReader(root)
report = audit_tiles(reader, size, tree)
for index in range(0, size, 37):
    proof = inclusion_proof_from_tiles(reader, index, size)
    assert verify_inclusion(leaf_hash(read_entry(reader, index, size)), index, size, proof, tree)
print("agrees", size, tree.hex())
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of a venv that has it. Skips where there is no Python 3.12 or the package does not come."""
    found = shutil.which("python3.12")
    works = found and subprocess.run([found, "-c", "import venv"], capture_output=True).returncode == 0
    if not works:
        pytest.skip("needs Python 3.12")
    venv = tmp_path_factory.mktemp("aics") / "venv"
    subprocess.run([str(found), "-m", "venv", str(venv)], check=True, capture_output=True)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "-q", PACKAGE]
    if subprocess.run(pip, capture_output=True, timeout=240).returncode:
        pytest.skip(f"{PACKAGE} could not be had")
    return str(venv / "bin" / "python")


def agrees(python: str, root: Path, *words: str) -> bool:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run([python, "-c", CHECK, str(root), *words], capture_output=True, text=True, env=env)
    assert done.returncode == 0 or "Traceback" in done.stderr
    assert done.returncode == 0 or "Error" in done.stderr.splitlines()[-1], done.stderr
    return done.stdout.startswith("agrees")


def test_aics_tlog_agrees_with_our_log_and_with_no_damaged_one(python: str, tmp_path: Path) -> None:
    public = tmp_path / "log" / "public"
    words = [ORIGIN, SIGNER.key.text, *(pair[0].key.text for pair in PAIRS.values())]
    with open_log(tmp_path / "log", SIGNER, [ALSO]) as log:
        for size in (1, 256, 700):
            log.append([entry(n) for n in range(log.size + 1, size + 1)])
            cosigned(log, tmp_path)
            assert agrees(python, public, *words)
    for name in ("checkpoint", "tile/0/001", "tile/0/002.p/188", "tile/1/000.p/2", "tile/entries/000"):
        good = (public / name).read_bytes()
        (public / name).write_bytes(good[:40] + bytes([good[40] ^ 1]) + good[41:])
        assert not agrees(python, public, *words), name
        (public / name).write_bytes(good)
    assert agrees(python, public, *words)
