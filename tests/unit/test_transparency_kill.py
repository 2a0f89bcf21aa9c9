"""kill -9 of a served log with its witness, over a real socket: every proof that was handed out stays true."""

from __future__ import annotations

import contextlib
import itertools
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.clock import ManualClock
from interlock.base.fetch import HttpFetcher, HttpPoster, Unreachable, http_client
from interlock.base.keys import Ed25519Signer
from interlock.transparency.checkpoint import Cosigner
from interlock.transparency.follow import LogView
from interlock.transparency.note import NoteSigner
from interlock.transparency.policy import Peer, TlogPolicy
from interlock.transparency.proof import MAX_PROOF_FILE, TlogProof
from interlock.transparency.submit import submit
from tests.unit.log_entries import pack_entry

SIGNER = NoteSigner("log.example/packs", Ed25519Signer(b"\x01" * 32))
COSIGNER = Cosigner("witness.example/w", Ed25519Signer(b"\x02" * 32))
POLICY = TlogPolicy((Peer(SIGNER.key),), {"w": Peer(COSIGNER.key, "http://witness")}, {}, "w")

SERVER = """
import sys
from pathlib import Path
import httpx
from interlock.base.clock import SystemClock
from interlock.node.http import Listen, serve
from interlock.node.roles import log, witness
from interlock.node.tokens import Grant, TokenTable, token_hash
from interlock.transparency.log import open_log
from interlock.transparency.witness import Witness
from tests.unit.test_transparency_kill import COSIGNER, POLICY, SIGNER
home = Path(sys.argv[1])
cosigning = witness.app(Witness(home / "witness", [COSIGNER], {SIGNER.name: [SIGNER.key]}, SystemClock()))
client = httpx.AsyncClient(transport=httpx.ASGITransport(cosigning))
with open_log(home / "log", SIGNER) as held:
    grants = {"publisher": Grant(token_hash("a-token-of-some-length"))}
    app = log.app(held, POLICY, tokens=TokenTable(lambda: grants), client=client)
    serve(app, Listen(), ready=lambda url: print(url, flush=True))
"""


def entry(version: int) -> bytes:
    return pack_entry("coding-agent", version, "ab" * 32, at=0).data


def submit_until_killed(url: str, versions: Iterator[int], proofs: dict[int, TlogProof]) -> None:
    """Add one entry after the other; the one whose answer a kill has eaten is left to be sent again."""
    with http_client() as client, contextlib.suppress(Unreachable):
        post = HttpPoster(f"{url}/add", max_length=MAX_PROOF_FILE, token="a-token-of-some-length", client=client)
        for version in versions:
            proofs[version] = submit(entry(version), POLICY, post)


@pytest.mark.slow
def test_kill_9_of_a_served_log_takes_back_no_proof_of_any_batch(tmp_path: Path) -> None:
    rng = random.Random(5)
    view = LogView(tmp_path / "node", POLICY, ManualClock())
    proofs: dict[int, TlogProof] = {}
    checked: set[int] = set()
    versions = itertools.count(1)
    for round_ in range(4):
        command = [sys.executable, "-c", SERVER, str(tmp_path)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        assert child.stdout is not None
        with child.stdout, http_client() as client:
            url = child.stdout.readline().strip()
            lost = [v for v in range(1, next(versions)) if v not in proofs]
            submit_until_killed(url, iter(lost), proofs)  # acknowledged or not, each has one place
            if proofs:
                view.refresh(HttpFetcher(url, client))
            for old in {*(proofs.keys() - checked), *rng.sample(sorted(checked), min(10, len(checked)))}:
                view.check_entry(entry(old), proofs[old].data, HttpFetcher(url, client))
            checked = set(proofs)
            threads = [threading.Thread(target=submit_until_killed, args=(url, versions, proofs)) for _ in range(6)]
            timer = threading.Timer(rng.uniform(0.1, 0.5) if round_ else 0.6, child.kill)
            for thread in (*threads, timer):
                thread.start()
            for thread in (*threads, timer):
                thread.join()
        child.wait()
    assert len(proofs) >= 12
    assert len({p.index for p in proofs.values()}) == len(proofs)
