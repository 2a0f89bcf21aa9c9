"""Serving: who may listen where, what a port in use says, and how much of a body is taken."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.types import Message

from interlock.base.errors import BadInput
from interlock.node import http
from interlock.node.http import BadBody, BodyTooLarge, Listen, PortInUse, body_of, open_socket


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_a_loopback_address_needs_nothing(host: str) -> None:
    Listen(host).check()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org", "", "127.0.0.1.example.org"])
def test_any_other_address_needs_tls_or_a_proxy(host: str) -> None:
    with pytest.raises(BadInput, match="not a loopback address"):
        Listen(host).check()
    Listen(host, behind_proxy=True).check()


def test_half_of_a_key_pair_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="needs both"):
        Listen(tls_cert=tmp_path / "cert.pem").check()
    with pytest.raises(BadInput, match="needs both"):
        Listen(tls_key=tmp_path / "key.pem").check()


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_tls_files_that_cannot_be_used_are_found_before_listening(tmp_path: Path, content: bytes | None) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    if content is not None:
        cert.write_bytes(content)
        key.write_bytes(content)
    with pytest.raises(BadInput, match="cannot be used for TLS") as caught:
        open_socket(Listen("0.0.0.0", tls_cert=cert, tls_key=key))
    assert str(cert) in str(caught.value)


def test_a_port_in_use_is_said_with_its_address() -> None:
    with open_socket(Listen()) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=f"127.0.0.1:{port}: is in use"):
            open_socket(Listen(port=port))


@pytest.mark.parametrize("listen", [Listen(port=70_000), Listen(port=-1), Listen("no host", behind_proxy=True)])
def test_what_cannot_be_listened_on_is_bad_input(listen: Listen) -> None:
    with pytest.raises(BadInput, match="cannot be listened on"):
        open_socket(listen)


def test_a_socket_that_was_handed_down_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as given:
        address = given.getsockname()
        with open_socket(Listen(fd=given.detach())) as taken:
            assert taken.getsockname() == address


def test_what_was_handed_down_must_be_a_listening_tcp_socket(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--listen-fd 999: is no socket"):
        open_socket(Listen(fd=999))
    idle, datagrams = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
    with pytest.raises(BadInput, match="no listening TCP socket"):
        open_socket(Listen(fd=idle.detach()))
    with pytest.raises(BadInput, match="no listening TCP socket"):
        open_socket(Listen(fd=datagrams.detach()))


def test_a_handed_down_socket_that_others_can_reach_needs_tls_or_a_proxy_too() -> None:
    with pytest.raises(BadInput, match="not a loopback address"):
        open_socket(Listen(fd=socket.create_server(("0.0.0.0", 0)).detach()))
    open_socket(Listen(fd=socket.create_server(("0.0.0.0", 0)).detach(), behind_proxy=True)).close()


def request_of(messages: Sequence[Message], *, then_wait: bool = False) -> Request:
    left = list(messages)

    async def receive() -> Message:
        if not left and then_wait:
            await asyncio.Event().wait()
        return left.pop(0)

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


def part(data: bytes, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": data, "more_body": more}


def test_a_body_up_to_the_limit_is_taken_whole() -> None:
    messages = [part(b"ab"), part(b"cd", more=False)]
    assert asyncio.run(body_of(request_of(messages), 4)) == b"abcd"


def test_a_body_over_the_limit_is_refused_before_its_end() -> None:
    with pytest.raises(BodyTooLarge) as caught:
        asyncio.run(body_of(request_of([part(b"abcd"), part(b"e")], then_wait=True), 4))
    assert caught.value.status == 413


def test_a_client_that_leaves_in_the_middle_is_no_fault_of_ours() -> None:
    with pytest.raises(BadBody) as caught:
        asyncio.run(body_of(request_of([part(b"ab"), {"type": "http.disconnect"}]), 4))
    assert caught.value.status == 400


def test_a_body_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BODY_S", 0.01)
    with pytest.raises(BadBody):
        asyncio.run(body_of(request_of([part(b"ab")], then_wait=True), 4))


@pytest.mark.skipif(
    subprocess.run(["sh", "-c", "command -v openssl"], capture_output=True, check=False).returncode != 0,
    reason="needs openssl to make a certificate",
)
def test_a_good_key_pair_opens_any_address_and_a_sealed_key_does_not_ask(tmp_path: Path) -> None:
    cert, key, sealed = (tmp_path / name for name in ("cert.pem", "key.pem", "sealed.pem"))
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    subprocess.run([*make, "-subj", "/CN=x", "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    seal = ["openssl", "ec", "-aes256", "-passout", "pass:secret", "-in", str(key), "-out", str(sealed)]
    subprocess.run(seal, check=True, capture_output=True)
    Listen("0.0.0.0", tls_cert=cert, tls_key=key).check()
    with pytest.raises(BadInput, match="cannot be used for TLS"):
        Listen("0.0.0.0", tls_cert=cert, tls_key=sealed).check()
