"""Serving a Starlette application: loopback by default, anything else only with TLS or behind a proxy.

A server prints nothing until it listens, then one line on stderr; SIGTERM and Ctrl-C end it within a few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp

from interlock.base.errors import BadInput, InterlockError
from interlock.node.certified import CertifiedProtocol, certified
from interlock.node.posts import protocol_of

__all__ = ["BadBody", "BodyTooLarge", "Listen", "PortInUse", "body_of", "open_socket", "serve"]

GRACE_S: Final = 3  # how long requests under way may take once the server was asked to stop
BODY_S: Final = 60.0  # how long a request's body may take to come
KEEP_ALIVE_S: Final = 5  # how long a connection may wait for its next request
BACKLOG: Final = 128


class PortInUse(InterlockError):
    """Another program listens there."""

    code = "port-in-use"


class BadBody(InterlockError):
    """A request whose body did not come whole; `status` is the answer."""

    code = "malformed"
    status: ClassVar[int] = 400


class BodyTooLarge(BadBody):
    """A request whose body is larger than its handler takes."""

    code = "too-large"
    status: ClassVar[int] = 413


@dataclass(frozen=True)
class Listen:
    """Where to listen. `fd` is a listening socket handed down by whoever started us (socket activation)."""

    host: str = "127.0.0.1"
    port: int = 0
    fd: int | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False
    tls_client_ca: Path | None = None

    def check(self) -> None:
        """Raises: BadInput, for an address that others can reach without TLS or a proxy in front, or a bad key pair."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise BadInput("TLS needs both", where="--tls-cert, --tls-key")
        if self.tls_cert is not None and self.tls_key is not None:
            _demand_pair(self.tls_cert, self.tls_key)
        if self.tls_client_ca is not None:
            _demand_ca(self)
        if self.fd is None and not _is_loopback(self.host) and self.tls_cert is None and not self.behind_proxy:
            raise BadInput(
                "is not a loopback address", where=self.host, fix="give --tls-cert and --tls-key, or --behind-proxy"
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _demand_pair(cert: Path, key: Path) -> None:
    """Raises: BadInput, for a certificate and key that no TLS server could be started with."""
    try:
        # An empty passphrase keeps OpenSSL from asking the terminal for one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password="")
    except (OSError, ValueError) as e:
        why = getattr(e, "reason", None) or getattr(e, "strerror", None) or type(e).__name__
        raise BadInput(
            f"cannot be used for TLS ({why})", where=f"{cert}, {key}", fix="give a PEM certificate and its open key"
        ) from None


def _demand_ca(listen: Listen) -> None:
    """Raises: BadInput, for a CA without TLS, behind a proxy, which ends it, or that is none."""
    if listen.tls_cert is None or listen.behind_proxy:
        told = "needs --tls-cert and --tls-key, and TLS that ends here and in no proxy"
        raise BadInput(told, where="--tls-client-ca")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(listen.tls_client_ca)
    except (OSError, ValueError) as e:
        why = getattr(e, "reason", None) or getattr(e, "strerror", None) or type(e).__name__
        raise BadInput(f"is no CA ({why})", where=f"--tls-client-ca {listen.tls_client_ca}") from None


def open_socket(listen: Listen) -> socket.socket:
    """A listening socket. Raises: PortInUse, BadInput."""
    listen.check()
    if listen.fd is not None:
        return _handed_down(listen, listen.fd)
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((listen.host, listen.port))
        sock.listen(BACKLOG)
    except (OSError, OverflowError) as e:
        sock.close()
        where = f"{listen.host}:{listen.port}"
        if getattr(e, "errno", None) == errno.EADDRINUSE:
            raise PortInUse("is in use", where=where, fix="choose another --port, or stop what listens there") from None
        raise BadInput(f"cannot be listened on ({e})", where=where, fix="choose another --host or --port") from None
    return sock


def _handed_down(listen: Listen, fd: int) -> socket.socket:
    where = f"--listen-fd {fd}"
    try:
        sock = socket.socket(fileno=fd)
    except OSError as e:
        raise BadInput(f"is no socket ({e.strerror})", where=where, fix="hand a listening socket down") from None
    tcp = sock.family in (socket.AF_INET, socket.AF_INET6) and sock.type == socket.SOCK_STREAM
    try:
        if not tcp or not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise BadInput("is no listening TCP socket", where=where, fix="hand a listening socket down")
        replace(listen, host=sock.getsockname()[0], fd=None).check()
    except BaseException:
        sock.close()
        raise
    return sock


def serve(
    app: ASGIApp,
    listen: Listen,
    *,
    sock: socket.socket | None = None,
    ready: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Serve until SIGTERM, Ctrl-C or `stop`; on `sock`, where that was opened before, which is closed in the end.

    `ready` is called with the base URL once the socket listens. Raises: PortInUse, BadInput.
    """
    with sock or open_socket(listen) as sock:
        host, port = sock.getsockname()[:2]
        scheme = "https" if listen.tls_cert else "http"
        url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        client_ca = listen.tls_client_ca
        config = uvicorn.Config(
            app if client_ca is None else certified(app),
            http=protocol_of(app, BODY_S) if client_ca is None else CertifiedProtocol,
            log_config=None,
            access_log=False,
            lifespan="on",
            proxy_headers=listen.behind_proxy,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=GRACE_S,
            timeout_keep_alive=KEEP_ALIVE_S,
            ssl_certfile=str(listen.tls_cert) if listen.tls_cert else None,
            ssl_keyfile=str(listen.tls_key) if listen.tls_key else None,
            ssl_ca_certs=None if client_ca is None else str(client_ca),
            ssl_cert_reqs=ssl.CERT_NONE if client_ca is None else ssl.CERT_OPTIONAL,
        )
        if ready is not None:
            ready(url)
        server = uvicorn.Server(config)
        if stop is not None:
            threading.Thread(target=_stop_with, args=(server, stop), daemon=True).start()
        server.run(sockets=[sock])


def _stop_with(server: uvicorn.Server, stop: threading.Event) -> None:
    stop.wait()
    server.should_exit = True


async def body_of(request: Request, limit: int) -> bytes:
    """A request's whole body. Raises: BodyTooLarge, as soon as more than `limit` bytes came or are told of; BadBody."""
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told[:18]) > limit:  # whatever a server lets through, it is not read whole
        raise BodyTooLarge(f"the body is larger than {limit} bytes")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_S), contextlib.aclosing(request.stream()) as stream:
            async for part in stream:
                size += len(part)
                if size > limit:
                    raise BodyTooLarge(f"the body is larger than {limit} bytes")
                parts.append(part)
    except (ClientDisconnect, TimeoutError):
        raise BadBody("the body did not come whole") from None
    return b"".join(parts)
