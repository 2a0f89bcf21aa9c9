"""Certificates of clients (mTLS): a leader shows the helper one, beside its token; a server demands one of its own CA.

    serve --tls-client-ca CA.pem       whoever comes with a token shows a certificate of this CA too; others need none
    [serve] helper_cert, helper_key    what a leader shows; helper_ca: whom the helper's own certificate is of

A stolen token alone then opens nothing. Members fetch an aggregator's public keys and send reports with proofs without
a token, so they need no certificate. Whoever the CA signs for comes in: let it be one that signs for the leader alone.
"""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from interlock.base.settings import BadConfig

__all__ = ["CertifiedProtocol", "certified", "client_context"]

_STATE = "certified"


class CertifiedProtocol(H11Protocol):
    """Tells the application whether the other end of a connection showed a certificate, which TLS has verified."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, _STATE: bool(transport.get_extra_info("peercert"))}


def certified(app: ASGIApp) -> ASGIApp:
    """An application that refuses, with 403, a token that comes without a certificate."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _bare_token(scope):
            response = PlainTextResponse("a client certificate is needed beside the token\n", status_code=403)
            await response(scope, receive, send)
            return
        await app(scope, receive, send)

    return checked


def _bare_token(scope: Scope) -> bool:
    shown = scope.get("state", {}).get(_STATE)
    return not shown and any(name.lower() == b"authorization" for name, _ in scope["headers"])


def client_context(cert: Path | None, key: Path | None, ca: Path | None) -> ssl.SSLContext | None:
    """The TLS of a client that shows a certificate, or trusts a CA of its own; None where neither is named.

    Raises: BadConfig.
    """
    if cert is None and key is None and ca is None:
        return None
    if (cert is None) != (key is None):
        raise BadConfig("need each other", where="[serve] helper_cert, helper_key", fix="name both files, or neither")
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        if cert is not None:
            context.load_cert_chain(cert, key, password="")  # an empty one, so that nobody is asked at the terminal
    except (OSError, ValueError) as e:
        why = getattr(e, "reason", None) or getattr(e, "strerror", None) or type(e).__name__
        told = f"cannot be used for TLS ({why})"
        raise BadConfig(told, where="[serve] helper_cert, helper_key, helper_ca", fix="give PEM files") from None
    return context
