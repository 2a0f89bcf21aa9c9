"""Bearer tokens: of those who may ask, only the SHA-256 is kept, and comparing takes the same time for all.

table = TokenTable({"acme": token_hash(token)})
table.name_of("Bearer ...") == "acme"
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from interlock.base.errors import BadInput, InterlockError
from interlock.base.files import BadState, read_bounded, read_private, replace, stamped, unstamped
from interlock.base.text import is_sha256

__all__ = [
    "TOKEN_LEAST",
    "NotAllowed",
    "TokenTable",
    "add_token",
    "read_tokens",
    "secret_in",
    "token_hash",
    "token_hashes",
]

TOKEN_LEAST: Final = 16  # characters; a hash without salt is enough only for what cannot be guessed
_FORMAT: Final = "interlock-tokens"
_LIMIT: Final = 1 << 20
_TOKEN_LIMIT: Final = 1 << 16


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


def add_token(path: Path, name: str, token: str) -> None:
    """Let whoever has `token` in under `name`; only its hash is kept. Raises: NotWritable, BadState."""
    tokens = token_hashes(path) if path.exists() else {}
    replace(path, stamped(_FORMAT, 1, {"tokens": {**tokens, name: token_hash(token)}}))


def read_tokens(path: Path) -> TokenTable:
    """Raises: BadState, NewerFormat."""
    try:
        return TokenTable(token_hashes(path))
    except ValueError as e:
        raise BadState(str(e), where=str(path)) from None


def token_hashes(path: Path) -> dict[str, str]:
    """A table of tokens: name to SHA-256 in hex. Raises: BadState, NewerFormat."""
    if not path.exists():
        raise BadState("is missing", where=str(path), fix="let somebody in with interlock mesh token")
    tokens = unstamped(read_bounded(path, _LIMIT), _FORMAT, 1, where=str(path)).get("tokens")
    if not isinstance(tokens, dict) or not all(isinstance(v, str) for v in tokens.values()):
        raise BadState("holds no table of tokens", where=str(path))
    return tokens


def secret_in(path: Path) -> str:
    """A bearer token in a file that only its owner may read. Raises: BadState, BadInput."""
    text = read_private(path, _TOKEN_LIMIT).decode("ascii", "replace").strip()
    if not text.isalnum():
        raise BadInput("holds no token", where=str(path))
    return text
