"""The commons' wiring: serving what was published, and keeping it fresh."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from starlette.applications import Starlette

from interlock.base.clock import Clock
from interlock.base.files import BadState
from interlock.commons.signers import load_keys
from interlock.node.config import ServeConfig
from interlock.node.roles import commons
from interlock.node.wiring.parts import MAKE_IT, in_background
from interlock.node.wiring.publisher import publisher_of

__all__ = ["serving"]


@contextlib.contextmanager
def serving(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    """What was published; renewed in time, where the keys for that lie there. Raises: BadConfig, BadState, BadKey."""
    public = config.directory / "public"
    if not public.is_dir():
        raise BadState("holds no commons", where=str(config.directory), fix=f"{MAKE_IT} commons")
    app = commons.app(public)
    if not (config.directory / "keys" / "timestamp.key").exists():
        yield app  # a copy without keys: served as it is
        return
    publisher = publisher_of(config, clock)
    load_keys(config.directory / "keys", ("snapshot", "timestamp"))  # say now what could not be signed at night
    with in_background("renew", lambda stop: commons.keep_fresh(publisher, stop)):
        yield app
