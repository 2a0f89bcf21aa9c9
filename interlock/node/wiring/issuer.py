"""The issuer's wiring: its keys and its store, in a folder where nobody's shares lie; it needs no server."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

from interlock.base.clock import Clock
from interlock.base.settings import BadConfig
from interlock.commons.issuer_keys import read_issuer_keys
from interlock.native.blind_rsa import chosen_blind_rsa
from interlock.node.config import ServeConfig
from interlock.node.roles import issuer
from interlock.node.storage.issuer import IssuerStore
from interlock.node.wiring.parts import APART

__all__ = ["ISSUER_STORE", "issuer_of"]

ISSUER_STORE: Final = "issuer.sqlite"
_SHARES: Final = ("hpke.json", "members.json", "leaders.json", "collectors.json")  # an aggregator's or a collector's


@contextlib.contextmanager
def issuer_of(config: ServeConfig, clock: Clock) -> Iterator[issuer.Issuer]:
    """The issuer in a folder. Raises: BadConfig, where no operator is named or it would hold shares too; BadState."""
    place = config.directory
    if not config.operator:
        raise BadConfig("is not set", where="[serve] operator", fix="name who runs this issuer")
    both = [name for name in _SHARES if (place / name).exists()]
    if both:
        raise BadConfig(f"is an aggregator's or a collector's too ({both[0]})", where=str(place), fix=APART)
    keys = read_issuer_keys(place)
    with contextlib.closing(IssuerStore(place / ISSUER_STORE)) as store:
        yield issuer.Issuer(store, keys, config.operator, chosen_blind_rsa(), clock, os.urandom)
