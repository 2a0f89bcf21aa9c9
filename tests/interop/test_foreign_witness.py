"""Witnessing across implementations: torchwood's litewitness cosigns our log, and our witness cosigns a log of Tessera.

Slow: the programs are built from their modules first (`pytest -m slow tests/interop`).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import shutil
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from interlock.base.clock import SystemClock
from interlock.base.fetch import DirectoryFetcher
from interlock.node.http import Listen, serve
from interlock.node.roles import witness as witness_role
from interlock.node.roles.cosigners import Cosigners
from interlock.transparency.audit import audit
from interlock.transparency.follow import LogView
from interlock.transparency.log import open_log
from interlock.transparency.note import encode_note, parse_vkey
from interlock.transparency.policy import Peer, TlogPolicy
from interlock.transparency.witness import Witness
from tests.interop.go_tools import installed
from tests.interop.small_log import ALSO, ORIGIN, PAIRS, SIGNER, entry
from tests.ports import free_port

pytestmark = pytest.mark.slow

TORCHWOOD = ("filippo.io/torchwood/cmd/litewitness", "v0.6.1")
TESSERA = ("github.com/transparency-dev/tessera/cmd/examples/posix-oneshot", "v1.0.4")


@pytest.fixture
def litewitness(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A running litewitness that knows our log: its URL and its vkey."""
    if shutil.which("ssh-agent") is None:
        pytest.skip("needs ssh-agent, which holds litewitness's key")
    program = installed(*TORCHWOOD, tmp_path)
    key, sock, database = tmp_path / "id", tmp_path / "agent", tmp_path / "lite.db"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with sqlite3.connect(database) as db:  # what `witnessctl add-log` and `add-key` do
        db.execute("CREATE TABLE log (origin TEXT PRIMARY KEY, tree_size INTEGER NOT NULL, tree_hash TEXT NOT NULL)")
        db.execute(
            "CREATE TABLE key (origin TEXT NOT NULL, key TEXT NOT NULL, FOREIGN KEY(origin) REFERENCES log(origin))"
        )
        empty = base64.b64encode(hashlib.sha256(b"").digest()).decode()
        db.execute("INSERT INTO log VALUES (?, 0, ?)", (ORIGIN, empty))
        db.execute("INSERT INTO key VALUES (?, ?)", (ORIGIN, SIGNER.key.text))
    db.close()
    running: list[subprocess.Popen[str]] = []
    try:
        running.append(subprocess.Popen(["ssh-agent", "-D", "-a", str(sock)], stdout=subprocess.DEVNULL, text=True))
        _until(sock.exists)
        subprocess.run(["ssh-add", "-q", str(key)], env={"SSH_AUTH_SOCK": str(sock)}, check=True)
        printed = subprocess.run(["ssh-keygen", "-lf", str(key)], capture_output=True, text=True, check=True).stdout
        where = f"127.0.0.1:{free_port()}"
        words = ["-name", "lite.example/w", "-db", str(database), "-ssh-agent", str(sock), "-listen", where]
        process = subprocess.Popen(
            [str(program), *words, "-key", printed.split()[1]],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        running.append(process)
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if "listening" in line:
                break
        assert "vkey=" in said, said
        vkey = said.split("vkey=")[1].split()[0].strip('"')
        _until(lambda: _listens(where))
        yield f"http://{where}", vkey
    finally:
        for one in running:
            one.terminate()
            one.wait(10)
            if one.stderr is not None:
                one.stderr.close()


def _listens(where: str) -> bool:
    host, port = where.split(":")
    with socket.socket() as sock:
        return sock.connect_ex((host, int(port))) == 0


def _until(happened: object) -> None:
    assert callable(happened)
    for _ in range(500):
        if happened():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen within ten seconds")


def test_litewitness_cosigns_our_log_as_it_grows(litewitness: tuple[str, str], tmp_path: Path) -> None:
    url, vkey = litewitness
    policy = TlogPolicy((Peer(SIGNER.key), Peer(ALSO.key)), {"lite": Peer(parse_vkey(vkey), url)}, {}, "lite")
    view = LogView(tmp_path / "node", policy, SystemClock())

    async def main() -> None:
        with open_log(tmp_path / "log", SIGNER, [ALSO]) as log:
            async with httpx.AsyncClient(trust_env=False) as client:
                cosigners = Cosigners(log, policy, client)
                for size in (1, 2, 256, 700):
                    log.append([entry(n) for n in range(log.size + 1, size + 1)])
                    log.publish(encode_note(await cosigners.cosigned(log.integrate())))
                    checked = view.refresh(DirectoryFetcher(tmp_path / "log" / "public"))
                    assert (checked.checkpoint.size, list(checked.cosigned)) == (size, ["lite"])

    asyncio.run(main())


def _tessera_key() -> tuple[str, str]:
    """A key for a log of Tessera, as golang.org/x/mod writes it, and its vkey."""
    signer = PAIRS["w0"][0].signer  # any Ed25519 key
    name, seed = "tessera.example/log", b"\x10" * 32
    assert signer.verifier.public
    material = b"\x01" + signer.verifier.public
    key_id = hashlib.sha256(name.encode() + b"\n" + material).digest()[:4].hex()
    secret = base64.b64encode(b"\x01" + seed).decode()
    return f"PRIVATE+KEY+{name}+{key_id}+{secret}", f"{name}+{key_id}+{base64.b64encode(material).decode()}"


def test_our_witness_cosigns_a_log_of_tessera(tmp_path: Path) -> None:
    """With both its keys; Tessera 1.0.4 knows the Ed25519 one, and passes over the other's line."""
    program = installed(*TESSERA, tmp_path)
    secret, vkey = _tessera_key()
    log_key, pair = parse_vkey(vkey), PAIRS["w1"]
    (tmp_path / "key").write_text(secret)
    held = Witness(tmp_path / "w", pair, {log_key.name: [log_key]}, SystemClock())
    urls: list[str] = []
    up, stop = threading.Event(), threading.Event()

    def ready(url: str) -> None:
        urls.append(url)
        up.set()

    app = witness_role.app(held)
    thread = threading.Thread(target=serve, args=(app, Listen()), kwargs={"ready": ready, "stop": stop}, daemon=True)
    thread.start()
    try:
        assert up.wait(10)
        peers = {"ours": Peer(pair[0].key, urls[0])}
        policy = TlogPolicy((Peer(log_key),), peers, {}, "ours")
        (tmp_path / "policy").write_bytes(policy.text)
        view = LogView(tmp_path / "node", policy, SystemClock())
        for start in (0, 3):
            for n in range(start, start + 3):
                (tmp_path / f"entry{n}").write_bytes(b"entry %d" % n)
            words = ["--storage_dir", str(tmp_path / "log"), "--private_key", str(tmp_path / "key")]
            words += ["--witness_policy_file", str(tmp_path / "policy"), "--entries", str(tmp_path / "entry*")]
            done = subprocess.run([str(program), *words], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
            fetcher = DirectoryFetcher(tmp_path / "log")
            checked = view.refresh(fetcher)
            assert list(checked.cosigned) == ["ours"]
            assert audit(fetcher, policy).checked.checkpoint == checked.checkpoint
        assert checked.checkpoint.size >= 6
    finally:
        stop.set()
        thread.join(10)
