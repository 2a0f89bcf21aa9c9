"""A publisher's wiring, for commands and for a commons that is served; by itself it needs no server."""

from __future__ import annotations

from interlock.base.clock import Clock
from interlock.base.fetch import HttpPoster
from interlock.base.files import BadState
from interlock.base.settings import BadConfig
from interlock.commons.publish import Publisher
from interlock.node.config import ServeConfig
from interlock.node.tokens import secret_in
from interlock.node.wiring.parts import MAKE_IT, policy_in
from interlock.transparency.proof import MAX_PROOF_FILE
from interlock.transparency.submit import submit

__all__ = ["publisher_of"]


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
