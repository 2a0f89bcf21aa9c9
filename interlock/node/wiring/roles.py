"""Each role's application from its folder; a role's own module is loaded when that role is asked for, and no other.

What all roles need together takes a second of a processor to load, and most processes serve one.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from starlette.applications import Starlette

from interlock.base.clock import Clock
from interlock.base.files import BadState
from interlock.node.config import ServeConfig
from interlock.node.service import alone_in
from interlock.node.wiring.parts import MAKE_IT

__all__ = ["ROLES", "role_app"]

# role -> the module beside this one that wires it, and the function there
ROLES: Final[Mapping[str, tuple[str, str]]] = {
    "commons": ("commons", "serving"),
    "mirror": ("mirror", "serving"),
    "monitor": ("serve_monitor", "serving"),
    "log": ("log", "serving"),
    "witness": ("serve_witness", "serving"),
    "dap-leader": ("aggregate", "serving_leader"),
    "dap-helper": ("aggregate", "serving_helper"),
    "dap-worker": ("aggregate", "serving_worker"),
    "issuer": ("serve_issuer", "serving"),
}
# what a role's folder has in it from the start; a commons says so itself
_MARKS: Final = {
    "log": "log.key",
    "witness": "witness.key",
    "issuer": "issuer.key",
    "mirror": "node.json",
    "monitor": "node.json",
    "dap-leader": "hpke.json",
    "dap-helper": "hpke.json",
    "dap-worker": "hpke.json",
}
_OF_LEADER: Final = "name the leader's folder, or on another machine a copy of it"
_MANY: Final = {"dap-worker"}  # any number of processes may serve these from one folder, beside the leader itself
Role = Callable[[ServeConfig, Clock], contextlib.AbstractContextManager[Starlette]]


@contextlib.contextmanager
def role_app(role: str, config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    """The application of a role; what it holds open is closed on leaving.

    Raises: BadConfig, BadState, BadKey, Locked, NotWritable.
    """
    fix = _OF_LEADER if role in _MANY else f"{MAKE_IT} {role}"
    if not config.directory.is_dir():
        raise BadState("is not there", where=str(config.directory), fix=fix)
    if role in _MARKS and not (config.directory / _MARKS[role]).exists():
        raise BadState(f"is no folder of the role {role}", where=str(config.directory), fix=fix)
    alone = contextlib.nullcontext() if role in _MANY else alone_in(config.directory)
    with alone, _wired(role)(config, clock) as app:
        yield app


def _wired(role: str) -> Role:
    module, function = ROLES[role]
    found: Role = getattr(importlib.import_module(f"interlock.node.wiring.{module}"), function)
    return found
