"""A log's wiring: its keys, its files and who may add to it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from starlette.applications import Starlette

from interlock.base.clock import Clock
from interlock.base.files import BadState, private_dir
from interlock.commons.signers import read_key
from interlock.node.config import LOG_POLICY, ServeConfig
from interlock.node.pairs import log_signers_in
from interlock.node.roles import log
from interlock.node.tokens import read_tokens
from interlock.node.wiring.parts import policy_in
from interlock.transparency.log import open_log

__all__ = ["serving"]


@contextlib.contextmanager
def serving(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    """The log, and its one writer. Raises: BadState, BadKey, Locked, NotWritable."""
    policy, path = policy_in(config), config.directory / "log.key"
    public = read_key(path).verifier.public
    origin = next((p.key.name for p in policy.logs if p.key.public == public), None)
    if origin is None:
        raise BadState("names no log with the key of log.key", where=str(config.directory / LOG_POLICY))
    tokens = read_tokens(config.directory / "add-tokens.json")
    with open_log(private_dir(config.directory / "log"), *log_signers_in(path, origin)) as opened:
        yield log.app(opened, policy, tokens=tokens)
