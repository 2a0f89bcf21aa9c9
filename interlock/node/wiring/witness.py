"""A witness's wiring: its keys, what it remembers, and whose logs it cosigns; by itself it needs no server."""

from __future__ import annotations

from interlock.base.clock import Clock
from interlock.base.files import BadState, private_dir
from interlock.base.settings import BadConfig
from interlock.node.config import LOG_POLICY, ServeConfig
from interlock.node.pairs import cosigners_in
from interlock.node.wiring.parts import policy_in
from interlock.transparency.known_logs import ADDED_LOGS, KnownLogs
from interlock.transparency.witness import Witness

__all__ = ["witness_of"]


def witness_of(config: ServeConfig, clock: Clock) -> Witness:
    """The witness in a folder, of the logs that it names. Raises: BadConfig, BadState, BadKey, NotWritable."""
    if not config.name:
        raise BadConfig("is not set", where="[serve] name", fix="name the witness as policies name it")
    cosigners = cosigners_in(config.directory / "witness.key", config.name)
    pinned = [peer.key for peer in policy_in(config).logs] if (config.directory / LOG_POLICY).exists() else []
    logs = KnownLogs(pinned, config.directory / ADDED_LOGS)
    if not logs:
        raise BadState("names no log", where=str(config.directory), fix="add one with interlock mesh log cosign")
    return Witness(private_dir(config.directory / "state"), cosigners, logs, clock)
