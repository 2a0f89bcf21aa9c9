"""The issuer as a process of its own, killed between a request and its answer's use."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.blind_rsa import PythonBlindRsa
from interlock.base.clock import SystemClock
from interlock.base.fetch import Unreachable
from interlock.commons.membership import BLIND, parse_member_keys
from interlock.dap.transport import Reply
from interlock.node.config import serve_config, settings_of
from interlock.node.parties import HttpExchange
from interlock.node.roles.issuer import invite_hash
from interlock.node.roles.member import Credentials, count_of, join
from interlock.node.setup import make_issuer, write_settings
from interlock.node.storage.issuer import IssuerStore
from interlock.node.storage.node import open_store
from interlock.node.wiring.issuer import ISSUER_STORE, issuer_of
from tests.unit.dap_http import free_socket
from tests.unit.dap_world import task
from tests.unit.membership_world import NAME, membership

EPOCH = 500_000


@contextlib.contextmanager
def process(folder: Path, sock: socket.socket) -> Iterator[subprocess.Popen[bytes]]:
    """`interlock mesh serve --role issuer` on a socket that outlives it."""
    named = ["--role", "issuer", "--config", str(folder / "interlock.toml"), "--listen-fd", str(sock.fileno())]
    command = [sys.executable, "-m", "interlock", "mesh", "serve", *named, "--stop-with-stdin"]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=(sock.fileno(),))
    try:
        yield started
    finally:
        started.kill()
        started.wait(10)
        assert started.stdin is not None
        started.stdin.close()


@pytest.mark.slow
def test_an_issuer_that_is_killed_gives_the_same_answer_again(tmp_path: Path) -> None:
    folder, counted, sock = tmp_path / "issuer", task(membership=membership()), free_socket()
    make_issuer(folder, os.urandom)
    write_settings(folder / "interlock.toml", "serve", {"dir": str(folder), "operator": "enrol.example"})
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    config = serve_config(settings_of(str(folder / "interlock.toml")))
    with issuer_of(config, SystemClock()) as issuer:
        closes = SystemClock().now_us() + 3_600_000_000
        keys = parse_member_keys(issuer.open_epoch(NAME, EPOCH, BLIND, 0, closes, bits=2048), where="x")
    with contextlib.closing(IssuerStore(folder / ISSUER_STORE)) as store:
        store.add_invite(invite_hash("code"), "acme", closes)
    home = tmp_path / "acme"
    with contextlib.ExitStack() as stack:
        stack.callback(sock.close)
        http = stack.enter_context(contextlib.closing(HttpExchange()))
        answers: list[bytes] = []

        def heard(method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
            reply = http(method, url, media_type, body)
            answers.append(reply.body)
            if len(answers) == 1:
                running.send_signal(signal.SIGKILL)
                running.wait(10)
                raise Unreachable("the answer was lost", where=url)
            return reply

        with process(folder, sock) as running:
            joined = join(home, "acme", url, keys.issuer, "code", http, os.urandom)
            assert joined.certificate is not None
            member = stack.enter_context(contextlib.closing(open_store(home)))
            mine = Credentials(joined, member, lambda name, epoch: keys, heard, PythonBlindRsa(), secrets.token_bytes)
            with pytest.raises(Unreachable):
                mine.proof(counted, EPOCH)
        with process(folder, sock):
            proof = mine.proof(counted, EPOCH)
            assert answers[0] == answers[1]
            assert proof.epoch == EPOCH
            assert count_of(url, NAME, EPOCH, http).issued == 1
