"""What a node pins at init and never learns from the network: the commons' first root, the log and its witnesses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.base.codec import Malformed
from interlock.base.errors import BadInput
from interlock.base.fetch import Fetcher
from interlock.base.files import BadState, private_dir, read_bounded, replace, stamped, unstamped
from interlock.base.text import is_sha256
from interlock.commons.layout import MAX_ROOT
from interlock.commons.pack import sha256_hex
from interlock.commons.updater import demand_root, pinned_root
from interlock.transparency.policy import NONE, TlogPolicy, parse_policy

__all__ = ["Pins", "init_node", "read_pins"]

_NODE: Final = "node.json"
_ROOT: Final = "bootstrap.root.json"
_FORMAT: Final = "interlock-node"
_LIMIT: Final = 1 << 20


@dataclass(frozen=True)
class Pins:
    """A node's ground: the first root's bytes, and whose checkpoints count."""

    root: bytes
    policy: TlogPolicy

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(log.key.name for log in self.policy.logs)


def init_node(
    home: Path,
    *,
    log_policy: bytes,
    root: bytes | None = None,
    root_sha256: str | None = None,
    fetcher: Fetcher | None = None,
) -> Pins:
    """Pin a commons: its root by file (`root`) or by digest (`root_sha256`, fetched), the log and witnesses by policy.

    The policy (C2SP tlog-policy) names the log's vkey, whose name is its origin, and a quorum of witnesses.
    The same pins again change nothing. Raises: BadInput, UntrustedRoot, Unreachable, BadState, NotWritable.
    """
    policy = _policy(log_policy)
    if root_sha256 is None:
        if root is None:
            raise BadInput("needs the root to trust", where="mesh init", fix="give --root FILE or --root-sha256 HEX")
        root_sha256 = sha256_hex(root)
    if not is_sha256(root_sha256):
        raise BadInput("is not 64 hex digits in lower case", where="--root-sha256")
    if (home / _NODE).exists():
        return _demand_same(home, root_sha256, policy)
    trusted = pinned_root(root_sha256, root=root, fetcher=fetcher)
    demand_root(trusted)
    private_dir(home)
    replace(home / _ROOT, trusted)
    body: dict[str, object] = {"root_sha256": root_sha256, "log_policy": policy.text.decode("utf-8")}
    replace(home / _NODE, stamped(_FORMAT, 1, body))
    return Pins(trusted, policy)


def read_pins(home: Path) -> Pins:
    """What was pinned at init; the root's bytes are hashed again. Raises: BadState, NewerFormat, UntrustedRoot."""
    path = home / _NODE
    if not path.exists():
        raise BadState("is no node yet", where=str(home), fix="run interlock mesh init")
    body = unstamped(read_bounded(path, _LIMIT), _FORMAT, 1, where=str(path))
    digest, text = body.get("root_sha256"), body.get("log_policy")
    if not isinstance(digest, str) or not isinstance(text, str):
        raise BadState("lacks what was pinned", where=str(path))
    return Pins(pinned_root(digest, root=read_bounded(home / _ROOT, MAX_ROOT)), _policy(text.encode("utf-8")))


def _demand_same(home: Path, root_sha256: str, policy: TlogPolicy) -> Pins:
    pins = read_pins(home)
    if sha256_hex(pins.root) != root_sha256 or pins.policy.text != policy.text:
        raise BadState("follows another commons or log already", where=str(home), fix="use another home")
    return pins


def _policy(text: bytes) -> TlogPolicy:
    try:
        policy = parse_policy(text)
    except Malformed as e:
        raise BadInput(e.what, where=e.where or "log policy") from None
    if not policy.logs or policy.quorum == NONE:
        raise BadInput("names no log, or asks for no witness", where="log policy", fix="pin a log and a quorum")
    return policy
