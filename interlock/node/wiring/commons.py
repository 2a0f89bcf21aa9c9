"""The commons' wiring: publishing in its folder, and serving what was published."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from starlette.applications import Starlette

from interlock.base.clock import Clock
from interlock.base.fetch import HttpPoster
from interlock.base.files import BadState
from interlock.base.settings import BadConfig
from interlock.commons.publish import Publisher
from interlock.commons.signers import load_keys
from interlock.node.config import ServeConfig
from interlock.node.roles import commons
from interlock.node.tokens import secret_in
from interlock.node.wiring.parts import MAKE_IT, in_background, policy_in
from interlock.transparency.proof import MAX_PROOF_FILE
from interlock.transparency.submit import submit

__all__ = ["publisher_of", "serving"]


def publisher_of(config: ServeConfig, clock: Clock) -> Publisher:
    """Publishing in a commons' folder, through the log it names. Raises: BadConfig, BadState."""
    if not config.directory.is_dir():
        raise BadState("is not there", where=str(config.directory), fix=f"{MAKE_IT} commons")
    policy = policy_in(config)
    if not config.log_url:
        raise BadConfig("is not set", where="[serve] log_url", fix="name the log that this commons publishes to")
    token = secret_in(config.directory / "log-token")
    post = HttpPoster(f"{config.log_url.rstrip('/')}/add", max_length=MAX_PROOF_FILE, token=token)
    return Publisher(config.directory, lambda entry: submit(entry, policy, post).data, policy, clock)


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
