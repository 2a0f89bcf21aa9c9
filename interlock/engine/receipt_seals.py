"""What binds a chain of receipts: a MAC under a local key, or signatures that anybody can check.

Both digest arguments under a key that stays here, in a domain of its own: no digest that leaves this machine shares it.
One secret gives every key, each from a domain of its own.
"""

from __future__ import annotations

import hmac
from typing import Any, Final, Protocol

from interlock.base.errors import InterlockError

__all__ = ["BadChain", "Checker", "PrivateKey", "PublicSeal", "ReceiptKeys", "Seal", "SigningSeal"]

_MIN_KEY: Final = 16
_DOMAIN: Final = b"interlock/receipt/signature/v1\n"


class BadChain(InterlockError):
    """A chain of receipts that was changed, or that this key did not make."""

    code = "check-failed"


class Checker(Protocol):
    """Checks what a seal made. `field` names where a line carries it, `header` what the first line says of it."""

    @property
    def field(self) -> str: ...

    @property
    def header(self) -> dict[str, str]: ...

    def check(self, body: bytes, seal: str) -> None:
        """Raises: BadChain."""


class Seal(Checker, Protocol):
    """Makes what binds a line."""

    def seal(self, body: bytes) -> str: ...

    def args_digest(self, encoded: bytes) -> str: ...


class ReceiptKeys:
    """HMAC-SHA256 under a secret. Raises: ValueError, for a secret shorter than 16 bytes."""

    field: Final = "mac"

    def __init__(self, secret: bytes) -> None:
        if len(secret) < _MIN_KEY:
            raise ValueError(f"a receipt key has at least {_MIN_KEY} bytes")
        # keyed once, and copied for each message: that is what costs most of a short MAC
        self._mac, self._args = (
            _keyed(hmac.digest(secret, domain, "sha256"))
            for domain in (b"interlock/receipt/mac/v1", b"interlock/receipt/args/v1")
        )

    @property
    def header(self) -> dict[str, str]:
        return {}

    def seal(self, body: bytes) -> str:
        mac = self._mac.copy()
        mac.update(body)
        return str(mac.hexdigest())

    def check(self, body: bytes, seal: str) -> None:
        if not hmac.compare_digest(self.seal(body), seal):
            raise BadChain("was changed after it was written, or by another key")

    def args_digest(self, encoded: bytes) -> str:
        mac = self._args.copy()
        mac.update(encoded)
        return str(mac.hexdigest())


def _keyed(key: bytes) -> Any:
    """HMAC-SHA256 under a key; what does the work alone, where Python wraps it: a third of the time of a short MAC."""
    wrapped = hmac.new(key, digestmod="sha256")
    return getattr(wrapped, "_hmac", None) or wrapped


class _PublicKey(Protocol):
    @property
    def public(self) -> bytes: ...

    def verify(self, message: bytes, signature: bytes) -> None: ...


class PrivateKey(Protocol):
    """A key that signs, as base.keys has them."""

    @property
    def verifier(self) -> _PublicKey: ...

    def sign(self, message: bytes) -> bytes: ...


class PublicSeal:
    """Checks Ed25519 signatures of one key: whoever verifies needs no secret of the writer's."""

    field: Final = "signature"

    def __init__(self, verifier: _PublicKey) -> None:
        self._verifier = verifier

    @property
    def header(self) -> dict[str, str]:
        return {"alg": "ed25519", "public": self._verifier.public.hex()}

    def check(self, body: bytes, seal: str) -> None:
        try:
            self._verifier.verify(_DOMAIN + body, bytes.fromhex(seal))
        except (ValueError, InterlockError):
            raise BadChain("was changed after it was written, or by another key") from None


class SigningSeal(PublicSeal):
    """Ed25519 signatures with a key of base.keys; the secret serves the digests of arguments."""

    def __init__(self, signer: PrivateKey, secret: bytes) -> None:
        super().__init__(signer.verifier)
        self._signer = signer
        self._keys = ReceiptKeys(secret)

    def seal(self, body: bytes) -> str:
        return self._signer.sign(_DOMAIN + body).hex()

    def args_digest(self, encoded: bytes) -> str:
        return self._keys.args_digest(encoded)
