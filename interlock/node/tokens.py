"""Bearer tokens: of those who may ask, only the SHA-256 is kept, and comparing takes the same time for all.

table = TokenTable(lambda: {"acme": Grant(token_hash(token), frozenset({task_id}))})
table.name_of("Bearer ...", task_id) == "acme"
table.name_of("Bearer ...", another_id)    # NotAllowed, 403: a token is good for the tasks that it was made for
table = read_tokens(path)                  # of a file, read again once it is replaced

A file says of each token which tasks it is for, or "all", and since when (microseconds; 0 where the file is of before
that was kept). The files of version 1, which said nothing, meant all.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from interlock.base import files
from interlock.base.errors import BadInput, InterlockError
from interlock.base.files import BadState, file_lock, read_bounded, read_private, stamped, unstamped
from interlock.base.text import is_sha256
from interlock.dap.messages import TASK_ID_SIZE
from interlock.dap.problems import from_b64url, to_b64url
from interlock.node.reread import Reread

__all__ = [
    "TOKEN_LEAST",
    "Grant",
    "NotAllowed",
    "TokenTable",
    "add_token",
    "grants_in",
    "let_into",
    "read_tokens",
    "secret_in",
    "take_back",
    "token_hash",
]

TOKEN_LEAST: Final = 16  # characters; a hash without salt is enough only for what cannot be guessed
_FORMAT: Final = "interlock-tokens"
_VERSION: Final = 3
_ALL: Final = "all"
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


@dataclass(frozen=True)
class Grant:
    """What is kept of one token: its SHA-256 in hex, and the ids of the tasks that it is good for; None is any.

    `at` is when it was made, in microseconds; 0 where nobody knows.
    """

    digest: str
    tasks: frozenset[bytes] | None = None
    at: int = 0

    def __post_init__(self) -> None:
        if not is_sha256(self.digest):
            raise ValueError("is not kept as a SHA-256 in lower-case hex")

    @property
    def id(self) -> str:
        """What a token is called by where it is listed; it opens nothing."""
        return self.digest[:16]

    def allows(self, task_id: bytes | None) -> bool:
        """Whether it lets its bearer in for this task; None is what belongs to no task."""
        return self.tasks is None or task_id in self.tasks


class TokenTable:
    """Who may ask: names, and what is kept of each one's token."""

    def __init__(self, grants: Callable[[], Mapping[str, Grant]]) -> None:
        """`grants` is asked at each use, so that the table may change while the role is at work."""
        self._grants = grants

    def name_of(self, authorization: str | None, task_id: bytes | None = None) -> str:
        """Whose token an Authorization header carries, for a request about this task.

        Raises: NotAllowed, with status 401 where there is no token, and 403 where nobody has it or it is for others.
        """
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise NotAllowed("a bearer token is needed", 401)
        digest = hashlib.sha256(token.strip().encode("utf-8", "surrogatepass")).hexdigest()
        found = [item for item in self._grants().items() if hmac.compare_digest(item[1].digest, digest)]
        if not found:
            raise NotAllowed("this token opens nothing here", 403)
        allowed = next((name for name, grant in found if grant.allows(task_id)), None)
        if allowed is None:
            raise NotAllowed("this token is for other tasks", 403)
        return allowed


def add_token(
    path: Path, name: str, token: str, tasks: Iterable[bytes] | None = None, *, at: int = 0, new: bool = False
) -> None:
    """Let whoever has `token` in under `name`, for these tasks or, with None, for all; only its hash is kept, and since
    when, `at` (microseconds).

    Raises: NotWritable, BadState, NewerFormat; BadInput, where it has to be `new` and the name has a token.
    """
    grant = Grant(token_hash(token), None if tasks is None else frozenset(tasks), at)
    with _changing(path):
        grants = grants_in(path) if path.exists() else {}
        if new and name in grants:
            fix = "choose another name; or leave --out out to widen the one that it has"
            raise BadInput("has a token already", where=f"{path}: {name}", fix=fix)
        _write(path, {**grants, name: grant})


def let_into(path: Path, name: str, tasks: Iterable[bytes] | None) -> None:
    """Make a token that was given out good for these tasks as well or, with None, for all.

    Raises: NotWritable, BadState, NewerFormat, BadInput.
    """
    with _changing(path):
        grants = grants_in(path)
        if name not in grants:
            raise BadInput("has no token here", where=f"{path}: {name}", fix="make one: name a new file with --out")
        before = grants[name]
        wider = None if tasks is None or before.tasks is None else before.tasks | frozenset(tasks)
        _write(path, {**grants, name: replace(before, tasks=wider)})


def take_back(path: Path, name: str) -> tuple[Grant, list[str]]:
    """Let nobody in by this name any more: what was taken back, and other names under which the same token stays good.

    Raises: NotWritable, BadState, NewerFormat; BadInput, where the name has no token.
    """
    with _changing(path):
        grants = grants_in(path)
        if name not in grants:
            known = ", ".join(sorted(grants)) or "nobody"
            raise BadInput("has no token here", where=f"{path}: {name}", fix=f"{known} has")
        taken = grants.pop(name)
        _write(path, grants)
    return taken, sorted(other for other, grant in grants.items() if grant.digest == taken.digest)


def read_tokens(path: Path) -> TokenTable:
    """The table of a file, which may change. Raises: BadState, NewerFormat."""
    return TokenTable(Reread(path, grants_in))


def grants_in(path: Path) -> dict[str, Grant]:
    """The table in a file, as it is now. Raises: BadState, NewerFormat."""
    if not path.exists():
        raise BadState("is missing", where=str(path), fix="let somebody in with interlock mesh token")
    body = unstamped(read_bounded(path, _LIMIT), _FORMAT, _VERSION, where=str(path))
    rows = body.get("tokens")
    if not isinstance(rows, dict):
        raise BadState("holds no table of tokens", where=str(path))
    return {str(name): _grant(row, body["v"], where=f"{path}: {name}") for name, row in rows.items()}


def _grant(row: object, version: object, *, where: str) -> Grant:
    """A row of a table; in version 1 it was the hash alone, and version 2 kept no time. Raises: BadState."""
    held = {"sha256": row, "tasks": _ALL} if version == 1 else row
    if not isinstance(held, dict) or held.keys() != {"sha256", "tasks"} | ({"at"} if version == _VERSION else set()):
        raise BadState("does not say which token it keeps, for which tasks", where=where)
    at = held.get("at", 0)
    if type(at) is not int or not 0 <= at < 1 << 62:
        raise BadState("does not say since when", where=where)
    try:
        return Grant(held["sha256"], _task_ids(held["tasks"], where), at)
    except ValueError as e:
        raise BadState(str(e), where=where) from None


def _task_ids(given: object, where: str) -> frozenset[bytes] | None:
    """The ids of the tasks that a token is for, None where that is all. Raises: BadState."""
    if given == _ALL:
        return None
    texts = [text for text in given if isinstance(text, str)] if isinstance(given, list) else []
    known = frozenset(found for text in texts if (found := from_b64url(text, TASK_ID_SIZE)) is not None)
    if not isinstance(given, list) or len(known) != len(given):
        raise BadState(f'is for neither "{_ALL}" nor a list of task ids, each once', where=where)
    return known


def _changing(path: Path) -> contextlib.AbstractContextManager[None]:
    """Held while a table is read and written: of two commands at once, neither loses what the other let in."""
    return file_lock(path.with_name(f"{path.name}.lock"), wait=True)


def _write(path: Path, grants: Mapping[str, Grant]) -> None:
    rows = {
        name: {
            "sha256": grant.digest,
            "tasks": _ALL if grant.tasks is None else sorted(map(to_b64url, grant.tasks)),
            "at": grant.at,
        }
        for name, grant in grants.items()
    }
    files.replace(path, stamped(_FORMAT, _VERSION, {"tokens": rows}))


def secret_in(path: Path) -> str:
    """A bearer token in a file that only its owner may read. Raises: BadState, BadInput."""
    text = read_private(path, _TOKEN_LIMIT).decode("ascii", "replace").strip()
    if not text.isalnum():
        raise BadInput("holds no token", where=str(path))
    return text
