"""Blind RSA by the native wheel: constant in time where a key is secret, and without the GIL."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final, TypeVar

from interlock.base.blind_rsa import BlindRsa, PythonBlindRsa
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.keys import BadKey
from interlock.base.primitives import BadSignature, Rng
from interlock.native.availability import availability

__all__ = ["NativeBlindRsa", "chosen_blind_rsa"]

_T = TypeVar("_T")
# what the wheel says of an input that it refuses -> the error that Python raises for the same
_TOLD: Final[dict[str, type[InterlockError]]] = {
    "RSA key cannot be used": BadKey,
    "signature does not verify": BadSignature,
}


class NativeBlindRsa:
    """As base.blind_rsa.BlindRsa says; `rng` is not used, for signing draws its own randomness."""

    name = "native"

    def __init__(self) -> None:
        """Raises: ImportError, where the wheel is not there."""
        self._native: Any = importlib.import_module("interlock_native")

    def blind(self, public: bytes, prepared: bytes, salt: bytes, factor: bytes) -> tuple[bytes, bytes]:
        blinded, inverse = _told(lambda: self._native.rsabssa_blind(public, prepared, salt, factor))
        return bytes(blinded), bytes(inverse)

    def blind_sign(self, private: bytes, blinded: bytes, rng: Rng) -> bytes:
        return _told(lambda: bytes(self._native.rsabssa_blind_sign(private, blinded)))

    def finalize(self, public: bytes, prepared: bytes, blind_signature: bytes, inverse: bytes) -> bytes:
        return _told(lambda: bytes(self._native.rsabssa_finalize(public, prepared, blind_signature, inverse)))

    def verify(self, public: bytes, prepared: bytes, signature: bytes) -> None:
        _told(lambda: self._native.rsabssa_verify(public, prepared, signature))


def chosen_blind_rsa() -> BlindRsa:
    """The native implementation where the wheel is here and has it, else Python's."""
    if availability().installed and hasattr(importlib.import_module("interlock_native"), "rsabssa_verify"):
        return NativeBlindRsa()
    return PythonBlindRsa()


def _told(call: Callable[[], _T]) -> _T:
    try:
        return call()
    except ValueError as e:
        raise _TOLD.get(str(e), Malformed)(str(e)) from None
