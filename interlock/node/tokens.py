"""Bearer tokens of those who may ask: only their SHA-256 is kept, and comparing takes the same time for all.

table = TokenTable({"acme": token_hash(token)})
table.name_of("Bearer ...") == "acme"
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from interlock.base.errors import InterlockError
from interlock.base.text import is_sha256

__all__ = ["TOKEN_LEAST", "NotAllowed", "TokenTable", "token_hash"]

TOKEN_LEAST: Final = 16  # characters; a hash without salt is enough only for what cannot be guessed


class NotAllowed(InterlockError):
    """A request by somebody who may not make it; `status` is what HTTP calls that."""

    code = "not-allowed"

    def __init__(self, what: str, status: int) -> None:
        super().__init__(what)
        self.status = status


def token_hash(token: str) -> str:
    """What is kept of a token, in hex. Raises: ValueError, for one short enough to be guessed."""
    if len(token) < TOKEN_LEAST:
        raise ValueError(f"a bearer token has at least {TOKEN_LEAST} characters")
    return hashlib.sha256(token.encode("utf-8")).hexdigest()


class TokenTable:
    """Who may ask: names, and the hash of each one's token."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        for name, digest in hashes.items():
            if not is_sha256(digest):
                raise ValueError(f"the token of {name} is not kept as a SHA-256 in lower-case hex")
        self._hashes = dict(hashes)

    def name_of(self, authorization: str | None) -> str:
        """Whose token an Authorization header carries.

        Raises: NotAllowed, with status 401 where there is no token and 403 where nobody has it.
        """
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise NotAllowed("a bearer token is needed", 401)
        digest = hashlib.sha256(token.strip().encode("utf-8", "surrogatepass")).hexdigest()
        found = [name for name, known in self._hashes.items() if hmac.compare_digest(known, digest)]
        if not found:
            raise NotAllowed("this token opens nothing here", 403)
        return found[0]
