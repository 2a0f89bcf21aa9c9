"""What a node pins at init: the commons' first root, the log and its witnesses, and whether it has a network.

The log policy changes in two ways only: by the keyholders' threshold, in a root that names another one by its digest
(reading.py), or by the operator (`interlock mesh pins --log-policy FILE`). HOME/node.json says which it was, and when.
"""

from __future__ import annotations

import dataclasses
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

__all__ = ["PINS", "Pins", "adopt_log_policy", "init_node", "read_pins", "set_log_policy"]

PINS: Final = "node.json"
_ROOT: Final = "bootstrap.root.json"
_FORMAT: Final = "interlock-node"
_VERSION: Final = 2  # 1 knew neither offline mode nor a log policy that changes
_LIMIT: Final = 1 << 20
_INIT: Final = "init"


@dataclass(frozen=True)
class Pins:
    """A node's ground: the first root's bytes, and whose checkpoints count.

    `root_log_policy` is the digest of a log policy that the newest root named when this node last looked, '' for none;
    `policy_from` says where `policy` is from (init, operator, root N), since `policy_at`. `offline_us` is how old what
    an offline node holds may be, 0 for a node with a network.
    """

    root: bytes
    policy: TlogPolicy
    root_log_policy: str = ""
    policy_from: str = _INIT
    policy_at: int = 0
    offline_us: int = 0

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(log.key.name for log in self.policy.logs))


def init_node(
    home: Path,
    *,
    log_policy: bytes,
    root: bytes | None = None,
    root_sha256: str | None = None,
    fetcher: Fetcher | None = None,
    offline_us: int = 0,
) -> Pins:
    """Pin a commons: its root by file (`root`) or by digest (`root_sha256`, fetched), the log and witnesses by policy.

    The policy (C2SP tlog-policy) names the log's vkey, whose name is its origin, and a quorum of witnesses.
    `offline_us` makes it an offline node, whose bundles may be that old. The same pins again change nothing.
    Raises: BadInput, UntrustedRoot, Unreachable, BadState, NotWritable.
    """
    policy = _policy(log_policy)
    if root_sha256 is None:
        if root is None:
            raise BadInput("needs the root to trust", where="mesh init", fix="give --root FILE or --root-sha256 HEX")
        root_sha256 = sha256_hex(root)
    if not is_sha256(root_sha256):
        raise BadInput("is not 64 hex digits in lower case", where="--root-sha256")
    if (home / PINS).exists():
        return _demand_same(home, root_sha256, policy, offline_us)
    trusted = pinned_root(root_sha256, root=root, fetcher=fetcher)
    named = demand_root(trusted)
    private_dir(home)
    replace(home / _ROOT, trusted)
    return _write(home, Pins(trusted, policy, named, offline_us=offline_us))


def read_pins(home: Path) -> Pins:
    """What was pinned; the root's bytes are hashed again. Raises: BadState, NewerFormat, UntrustedRoot."""
    path = home / PINS
    if not path.exists():
        raise BadState("is no node yet", where=str(home), fix="run interlock mesh init")
    body = unstamped(read_bounded(path, _LIMIT), _FORMAT, _VERSION, where=str(path))
    digest, text = body.get("root_sha256"), body.get("log_policy")
    named, source = body.get("root_log_policy", ""), body.get("policy_from", _INIT)
    at, offline_us = body.get("policy_at", 0), body.get("offline_us", 0)
    if not (isinstance(digest, str) and isinstance(text, str) and isinstance(named, str) and isinstance(source, str)):
        raise BadState("lacks what was pinned", where=str(path))
    if type(at) is not int or type(offline_us) is not int or offline_us < 0:
        raise BadState("has a time of the wrong form", where=str(path))
    root = pinned_root(digest, root=read_bounded(home / _ROOT, MAX_ROOT))
    return Pins(root, _policy(text.encode("utf-8")), named, source, at, offline_us)


def adopt_log_policy(home: Path, data: bytes, sha256: str, root_version: int, now_us: int) -> Pins:
    """Take the log policy that a root names by this digest. Raises: BadInput, BadState, NotWritable."""
    before, policy = read_pins(home), _policy(data)
    if policy.text == before.policy.text:
        return _write(home, dataclasses.replace(before, root_log_policy=sha256))
    return _write(
        home,
        dataclasses.replace(
            before, policy=policy, root_log_policy=sha256, policy_from=f"root {root_version}", policy_at=now_us
        ),
    )


def set_log_policy(home: Path, data: bytes, now_us: int) -> Pins:
    """Take another log policy, by the operator's word. Raises: BadInput, BadState, NotWritable."""
    before = read_pins(home)
    return _write(home, dataclasses.replace(before, policy=_policy(data), policy_from="operator", policy_at=now_us))


def _write(home: Path, pins: Pins) -> Pins:
    body: dict[str, object] = {
        "root_sha256": sha256_hex(pins.root),
        "log_policy": pins.policy.text.decode("utf-8"),
        "root_log_policy": pins.root_log_policy,
        "policy_from": pins.policy_from,
        "policy_at": pins.policy_at,
        "offline_us": pins.offline_us,
    }
    replace(home / PINS, stamped(_FORMAT, _VERSION, body))
    return pins


def _demand_same(home: Path, root_sha256: str, policy: TlogPolicy, offline_us: int) -> Pins:
    pins = read_pins(home)
    if sha256_hex(pins.root) != root_sha256 or pins.policy.text != policy.text:
        raise BadState("follows another commons or log already", where=str(home), fix="use another home")
    if pins.offline_us != offline_us:
        raise BadState("is a node with another offline age already", where=str(home), fix="use another home")
    return pins


def _policy(text: bytes) -> TlogPolicy:
    try:
        text.decode("utf-8")  # a policy may have any bytes, and is kept here as text
        policy = parse_policy(text)
    except UnicodeDecodeError as e:
        raise BadInput(f"is not UTF-8 (byte {e.start})", where="log policy") from None
    except Malformed as e:
        raise BadInput(e.what, where=e.where or "log policy") from None
    if not policy.logs or policy.quorum == NONE:
        raise BadInput("names no log, or asks for no witness", where="log policy", fix="pin a log and a quorum")
    return policy
