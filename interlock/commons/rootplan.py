"""What a root is to say, and whether one says just that: the plan from which a ceremony makes it.

Refused: a root that does not follow the one before, that says more than its words would tell, or that too few signed.
"""

from __future__ import annotations

import datetime as _dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tuf.api.metadata import Root  # type: ignore[attr-defined]

from interlock.base.clock import MICROSECONDS
from interlock.base.keys import BadKey, Ed25519Verifier
from interlock.base.text import is_sha256
from interlock.commons.holders import (
    HOLDERS_FIELD,
    TARGETS_FIELD,
    CeremonyRefused,
    Circle,
    Holder,
    demand_circle,
    demand_holders,
    holders_of,
    read_root,
    table_of,
    targets_of,
)
from interlock.commons.layout import LIFETIME_DAYS, LOG_POLICY_FIELD, ONLINE_ROLES, TOP_ROLES
from interlock.commons.pack import sha256_hex
from interlock.commons.signers import tuf_key, verifier_of_tuf
from interlock.commons.transcript import PREVIOUS_FIELD

__all__ = ["Plan", "demand_followable", "expiry", "expiry_us", "finish_root", "plan_of", "root_of"]

_ROOT: Final = "root"
_TARGETS: Final = "targets"


@dataclass(frozen=True)
class Plan:
    """What a root is to say: who holds keys, how many sign, the top roles' keys, its end, the log policy's SHA-256.

    `targets` are the holders of that role; without them `online` has its one key too.
    """

    holders: tuple[Holder, ...]
    online: Mapping[str, Ed25519Verifier]
    threshold: int
    expires_us: int
    log_policy: str = ""
    targets: Circle | None = None


def plan_of(root: bytes) -> Plan:
    """What a root says, to be changed into what the next one will say. Raises: CeremonyRefused."""
    signed = read_root(root, "root").signed
    return Plan(
        holders=holders_of(signed),
        online={role: _online_key(signed, role) for role in _online_roles(targets_of(signed))},
        threshold=signed.roles[_ROOT].threshold,
        expires_us=int(signed.expires.timestamp()) * MICROSECONDS,
        log_policy=str(signed.unrecognized_fields.get(LOG_POLICY_FIELD, "")),
        targets=targets_of(signed),
    )


def root_of(plan: Plan, version: int, previous: bytes | None) -> Root:
    """The root that says what a plan says; nobody has signed it. Raises: CeremonyRefused."""
    demand_circle(plan.holders, plan.threshold)
    extra: dict[str, object] = {HOLDERS_FIELD: table_of(plan.holders)}
    if plan.targets is not None:
        demand_circle(plan.targets.holders, plan.targets.threshold, _TARGETS)
        extra[TARGETS_FIELD] = table_of(plan.targets.holders)
    if previous is not None:
        extra[PREVIOUS_FIELD] = sha256_hex(previous)
    if plan.log_policy:
        extra[LOG_POLICY_FIELD] = plan.log_policy
    root = Root(version=version, expires=_moment(plan.expires_us), consistent_snapshot=True, unrecognized_fields=extra)
    circles = {_ROOT: Circle(plan.holders, plan.threshold), **({_TARGETS: plan.targets} if plan.targets else {})}
    for role, circle in circles.items():
        for holder in circle.holders:
            for key in holder.keys:
                root.add_key(tuf_key(key), role)
        root.roles[role].threshold = circle.threshold
    online = _online_roles(plan.targets)
    if set(plan.online) != set(online):
        raise CeremonyRefused(f"needs a key for each of {', '.join(online)}", where="root")
    for role in online:
        root.add_key(tuf_key(plan.online[role]), role)
    return root


def demand_followable(data: bytes, previous: bytes | None) -> None:
    """Raises: CeremonyRefused, for a root that does not follow the one before, or that no node of ours could follow."""
    signed = read_root(data, "root").signed
    before = None if previous is None else read_root(previous, "previous root").signed
    if signed.version != (1 if before is None else before.version + 1):
        told = "there is none" if before is None else f"that has version {before.version}"
        raise CeremonyRefused(f"has version {signed.version} and does not follow the root before: {told}", where="root")
    named = None if previous is None else sha256_hex(previous)
    if signed.unrecognized_fields.get(PREVIOUS_FIELD) != named:
        raise CeremonyRefused("follows another root than this one", where="root", fix="give the root that it changes")
    policy = signed.unrecognized_fields.get(LOG_POLICY_FIELD)
    if policy is not None and not is_sha256(policy):
        raise CeremonyRefused("names a log policy by no SHA-256", where="root")
    plan = plan_of(data)
    anew = root_of(plan, signed.version, previous)
    anew.spec_version = signed.spec_version
    if anew.to_dict() != signed.to_dict():
        raise CeremonyRefused("says more than can be told of it in words", where="root", fix="do not sign it")
    held = {keyid for holder in (*plan.holders, *(plan.targets.holders if plan.targets else ()))
            for keyid in holder.keyids}  # fmt: skip
    for role, key in plan.online.items():
        if tuf_key(key).keyid in held:
            raise CeremonyRefused("a root key may not be an online key too", where=role)


def finish_root(root: bytes, *, previous: bytes | None = None) -> bytes:
    """A root that a quorum signed, of its own keyholders and of those before; the bytes to publish.

    Raises: CeremonyRefused.
    """
    demand_followable(root, previous)
    demand_holders(root, previous)
    return root


def expiry(role: str, now_us: int) -> _dt.datetime:
    """When a role's signature made now ends; whole seconds, as TUF writes them."""
    return _moment(now_us) + _dt.timedelta(days=LIFETIME_DAYS[role])


def expiry_us(role: str, now_us: int) -> int:
    """As `expiry`, in microseconds."""
    return int(expiry(role, now_us).timestamp()) * MICROSECONDS


def _online_roles(targets: Circle | None) -> tuple[str, ...]:
    """The roles with one key on the commons' machine."""
    return TOP_ROLES if targets is None else ONLINE_ROLES


def _online_key(root: Root, role: str) -> Ed25519Verifier:
    try:
        (keyid,) = root.roles[role].keyids
        key = verifier_of_tuf(root.keys[keyid])
    except (ValueError, KeyError, BadKey):
        key = None
    if not isinstance(key, Ed25519Verifier) or root.roles[role].threshold != 1:
        raise CeremonyRefused("has not one Ed25519 key", where=f"role {role}")
    return key


def _moment(us: int) -> _dt.datetime:
    return _dt.datetime.fromtimestamp(us // MICROSECONDS, tz=_dt.UTC)
