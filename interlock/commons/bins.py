"""A large ring in hash bins (TUF 4.7, succinct): a publish then touches one small file, and a node reads one.

    targets -> ring -> ring-00 ... ring-3f

Packs and what lies beside them are in the bin that the SHA-256 of their path says; what each poll reads (the channel
index, revocations) stays in the ring's own file. Bins have the ring's key and its lifetime. The ring's signed part says
in a field of ours which version each bin has, so that a version of a ring is one state of all its bins.
"""

from __future__ import annotations

import datetime as _dt
from collections.abc import Callable, Mapping
from typing import Final

from tuf.api.metadata import Delegations, Key, SuccinctRoles, TargetFile, Targets  # type: ignore[attr-defined]

from interlock.commons.layout import DELEGATIONS, LIFETIME_DAYS
from interlock.commons.rootplan import expiry

__all__ = ["bin_of", "bin_versions", "half_over", "spread"]

GROWS_AT: Final = 256  # targets in one file
_BITS: Final = 7  # 128 bins: at 20,000 targets a bin and the snapshot, which names each bin, cost a poll the same
_FIELD: Final = "x-interlock-bins"
_BINNED: Final = "packs/"
_Read = Callable[[str, int], Targets]


def bin_versions(ring: Targets) -> dict[str, int]:
    """The version of each bin of a ring; {} for one that has none."""
    named = ring.unrecognized_fields.get(_FIELD, {})
    return dict(named) if isinstance(named, dict) else {}


def bin_of(ring: Targets, path: str) -> str:
    """The bin that has a path, '' where it would be in the ring's own file."""
    roles = None if ring.delegations is None else ring.delegations.succinct_roles
    return "" if roles is None or not path.startswith(_BINNED) else roles.get_role_for_target(path)


def half_over(signed: Targets, role: str, now_us: int) -> bool:
    """Whether half of the time of a ring's or a bin's signature is over."""
    return bool(expiry(role, now_us) - signed.expires > _dt.timedelta(days=LIFETIME_DAYS[role]) / 2)


def spread(
    role: str, ring: Targets, named: Mapping[str, TargetFile], key: Key, now_us: int, read: _Read
) -> dict[str, Targets]:
    """Name targets in a ring; returns the bins that are to be signed with it, at their new versions.

    A ring that has become large is parted into bins. Bins half of whose time is over are signed again, and all of
    them where the ring's key is another now. `read` brings a bin's version.
    """
    before = bin_versions(ring)
    if not before:
        ring.targets.update(named)
        if role not in DELEGATIONS or len(ring.targets) <= GROWS_AT:
            return {}
        bins = _parted(role, ring, key, now_us)
    else:
        bins = _changed(role, ring, named, key, now_us, read)
    ring.unrecognized_fields[_FIELD] = {**before, **{name: one.version for name, one in bins.items()}}
    return bins


def _parted(role: str, ring: Targets, key: Key, now_us: int) -> dict[str, Targets]:
    roles = _delegate(role, ring, key)
    bins = {name: Targets(version=1, expires=expiry(role, now_us)) for name in roles.get_roles()}
    for path in [path for path in ring.targets if path.startswith(_BINNED)]:
        bins[roles.get_role_for_target(path)].targets[path] = ring.targets.pop(path)
    return bins


def _changed(
    role: str, ring: Targets, named: Mapping[str, TargetFile], key: Key, now_us: int, read: _Read
) -> dict[str, Targets]:
    roles = None if ring.delegations is None else ring.delegations.succinct_roles
    rekeyed = roles is None or roles.keyids != [key.keyid]
    if rekeyed:
        _delegate(role, ring, key)
    wanted: dict[str, dict[str, TargetFile]] = {}
    for path, info in named.items():
        wanted.setdefault(bin_of(ring, path), {})[path] = info
    ring.targets.update(wanted.pop("", {}))
    bins: dict[str, Targets] = {}
    for name, version in bin_versions(ring).items():
        one = read(name, version)
        if rekeyed or name in wanted or half_over(one, role, now_us):
            one.targets.update(wanted.get(name, {}))
            one.version, one.expires = version + 1, expiry(role, now_us)
            bins[name] = one
    return bins


def _delegate(role: str, ring: Targets, key: Key) -> SuccinctRoles:
    roles = SuccinctRoles([key.keyid], 1, _BITS, role)
    ring.delegations = Delegations(keys={key.keyid: key}, succinct_roles=roles)
    return roles
