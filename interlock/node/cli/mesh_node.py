"""`interlock mesh` for members: pin a commons, follow packs and see what they change, grant, stay or return."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final, TypeVar

from interlock.base.clock import SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, BadInput, InterlockError
from interlock.base.files import Locked, read_bounded
from interlock.commons import installed
from interlock.commons.differ import Changes
from interlock.commons.live import LiveRow, read_live, read_subscriptions
from interlock.commons.offline import age_us
from interlock.commons.pins import init_node, read_pins
from interlock.commons.rings import at_ring
from interlock.commons.subscribe import Subscriber, Update
from interlock.commons.turns import mirrors_of
from interlock.commons.windows import parse_window, shown_time
from interlock.node.cli.mesh_notices import telling
from interlock.node.config import MeshConfig, mesh_config, settings_of, toml_text

__all__ = [
    "config_of",
    "diff",
    "grant",
    "init",
    "patiently",
    "pin",
    "rollback",
    "row_line",
    "settings",
    "subscribe",
    "subscriber_of",
    "unsubscribe",
    "update",
]

_LIMIT: Final = 8 << 20
_T = TypeVar("_T")
_OFFLINE_AGE: Final = "30d"
_PATIENCE_S: Final = 20.0


def init(args: argparse.Namespace) -> int:
    """Pin what this node will never learn from the network."""
    config = config_of(args)
    url = args.commons or config.commons
    fetcher = mirrors_of(url) if url else None
    if args.root is None and fetcher is None:
        raise BadInput("needs --commons URL to fetch the root from", where="--root-sha256")
    root = None if args.root is None else read_bounded(Path(args.root), _LIMIT)
    policy = read_bounded(Path(args.log_policy), _LIMIT)
    if args.max_offline_age and not args.offline:
        raise BadInput("is for a node without a network", where="--max-offline-age", fix="give --offline too")
    pins = init_node(
        config.home,
        log_policy=policy,
        root=root,
        root_sha256=args.root_sha256,
        fetcher=fetcher,
        offline_us=age_us(args.max_offline_age or _OFFLINE_AGE) if args.offline else 0,
    )
    print(f"{config.home} follows {', '.join(pins.origins)} from now on")
    if (args.home or args.commons) and mesh_config(settings_of(args.config)) != replace(config, commons=url or ""):
        print("to let every command find it, put this into the configuration file (--config, INTERLOCK_CONFIG):")
        print(f"[mesh]\nhome = {toml_text(str(config.home.absolute()))}\ncommons = {toml_text(url or 'URL')}")
    return EXIT_OK


def subscribe(args: argparse.Namespace) -> int:
    """Follow packs, and bring them into force if all verify; otherwise none of the new subscriptions stays."""
    config = config_of(args)
    keys = list(map(at_ring, args.pack))
    window = None if args.window is None else parse_window(args.window)
    subscriber = subscriber_of(config)
    known = {row.key for row in read_subscriptions(config.home)}
    for key in keys:
        subscriber.subscribe(*key, window)
    with telling(config):
        try:
            found = patiently(subscriber.update)
        except InterlockError:
            for key in keys:
                if key not in known:
                    subscriber.unsubscribe(*key)
            raise
        _tell(found)
    live, now = read_live(config.home), SystemClock().now_us()
    for row in (live.rows[key] for key in keys if live.rows[key] not in found.changed):
        print(row_line(row, now))  # known before: what its window is now
    return EXIT_OK


def unsubscribe(args: argparse.Namespace) -> int:
    """Follow a pack no more, and take it out of force."""
    config, key = config_of(args), at_ring(args.pack)
    subscriber = subscriber_of(config)
    if key not in {row.key for row in read_subscriptions(config.home)} and key not in read_live(config.home).rows:
        raise BadInput("is not followed here", where=args.pack, fix="see interlock mesh status")
    subscriber.unsubscribe(*key)
    print(f"{args.pack} is not in force any more")
    return EXIT_OK


def update(args: argparse.Namespace) -> int:
    """Look for news once; whatever does not verify leaves what is in force."""
    config = config_of(args)
    with telling(config):
        found = patiently(subscriber_of(config).update)
        if args.json:
            changed, held = [asdict(row) for row in found.changed], dict(found.held)
            changes = list(map(asdict, found.changes))
            _print_json("interlock-update", {"changed": changed, "changes": changes, "held": held})
        else:
            _tell(found)
    return EXIT_OK


def diff(args: argparse.Namespace) -> int:
    """Say what taking the newest would change; nothing in force changes."""
    config = config_of(args)
    subscriber = subscriber_of(config)
    keys = list(map(at_ring, args.pack)) or [row.key for row in read_subscriptions(config.home)]
    if not keys:
        raise BadInput("follows nothing", where=str(config.home), fix="name a pack: interlock mesh diff mesh:PACK@RING")
    changes = [patiently(lambda key=key: subscriber.offered(*key)).changes for key in keys]  # type: ignore[misc]
    if args.json:
        _print_json("interlock-diff", {"changes": [asdict(c) for c in changes]})
        return EXIT_OK
    for change in changes:
        news = change.rules or change.before != change.after
        print("\n".join(change.lines()) if news else f"{change.name}: version {change.after} is in force, no news")
    return EXIT_OK


def pin(args: argparse.Namespace) -> int:
    """Stay at one version, or follow the newest again; the next update goes there."""
    config, key = config_of(args), at_ring(args.pack)
    if args.clear == (args.version is not None):
        raise BadInput("needs VERSION, or --clear", where="interlock mesh pin")
    if args.version is not None and args.version < 1:
        raise BadInput("is no version", where=str(args.version), fix="see interlock mesh status")
    subscriber = subscriber_of(config)
    before = next((row.pin for row in read_subscriptions(config.home) if row.key == key), 0)
    subscriber.pin(*key, 0 if args.clear else args.version)
    try:
        found = patiently(subscriber.update)
    except InterlockError:
        subscriber.pin(*key, before)
        raise
    print(f"{args.pack} follows the newest again" if args.clear else f"{args.pack} stays at version {args.version}")
    _tell(found)
    return EXIT_OK


def rollback(args: argparse.Namespace) -> int:
    """Return to the version before, which no update undoes until the pin is cleared."""
    config, key = config_of(args), at_ring(args.pack)
    subscriber = subscriber_of(config)
    last, back = patiently(lambda: subscriber.rollback(*key))
    print(f"{args.pack} is ROLLED BACK from version {last.version} to {back.version}", file=sys.stderr)
    print(f"no update brings a newer one into force until: interlock mesh pin {args.pack} --clear", file=sys.stderr)
    print(row_line(back, SystemClock().now_us()))
    return EXIT_OK


def grant(args: argparse.Namespace) -> int:
    """Let rules of a pack act in full on this node, or take that back."""
    config = config_of(args)
    pack, ring = at_ring(args.pack)
    rules = args.rules or None
    if args.revoke:
        _demand_granted(config, pack, args.rules)
        installed.revoke(config.home, pack, rules)
        print(f"grants of {pack} are taken back: {', '.join(rules) if rules else 'all'}")
        return EXIT_OK
    now = SystemClock().now_us()
    for row in installed.grant(config.home, pack, ring, rules, now, watched=args.watched):
        print(f"granted: {row.rule} of {pack}@{ring}, as it means in version {row.version} ({row.semantic[:16]})")
    if ring != "stable":
        print(f"no rule blocks or masks in ring {ring}; the grant counts once the pack is followed in stable")
    return EXIT_OK


def settings(args: argparse.Namespace) -> int:
    """What holds for all packs of this node: shown, or changed."""
    config = config_of(args)
    read_pins(config.home)
    if args.ungranted is not None:
        installed.change_grants(config.home, lambda grants: replace(grants, ungranted=args.ungranted))
    grants = installed.read_grants(config.home)
    if args.json:
        _print_json("interlock-mesh-settings", {"ungranted": grants.ungranted})
    else:
        told = "ask" if grants.ungranted == "escalate" else "are in shadow"
        print(f"ungranted = {grants.ungranted}: rules that would block or mask and are not granted {told}")
    return EXIT_OK


def config_of(args: argparse.Namespace) -> MeshConfig:
    """The [mesh] section, with --home in the place of its own. Raises: BadConfig."""
    return mesh_config(settings_of(args.config), args.home)


def subscriber_of(config: MeshConfig) -> Subscriber:
    """Raises: BadConfig, BadState."""
    read_pins(config.home)
    return Subscriber(config.home, mirrors_of(config.commons_url()), SystemClock())


def patiently(act: Callable[[], _T]) -> _T:
    """Do it after whoever else works in this home just now, most often the daemon. Raises: Locked, after a while."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return act()
        except Locked:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def row_line(row: LiveRow, now_us: int) -> str:
    """A held version in one line."""
    told = f"{row.name} version {row.version}, sha256 {row.sha256[:16]}, log index {row.log_index}"
    if row.live_at > now_us:
        return f"{told}, in its monitor window until {rfc3339(row.live_at)} ({shown_time(row.live_at - now_us)} left)"
    return told


def _demand_granted(config: MeshConfig, pack: str, rules: list[str]) -> None:
    """A misspelt name must not look like a grant that was taken back. Raises: BadState, BadInput."""
    read_pins(config.home)
    held = {row.rule for row in installed.read_grants(config.home).rows if row.pack == pack}
    unknown = [rule for rule in rules if rule not in held]
    if unknown or not held:
        raise BadInput("is not granted here", where=f"{pack}: {unknown[0]}" if unknown else pack)


def _tell(found: Update) -> None:
    """What an update changed, in words, then the state that vouches for it."""
    now = SystemClock().now_us()
    for row in found.changed:
        print(row_line(row, now))
    for changes in found.changes:
        _tell_changes(changes)
    for taken in found.withdrawn:
        print(f"TAKEN BACK ({taken.scope}): {taken}", file=sys.stderr)
    for name, why in found.held:
        print(f"{name}: held back: {why}")
    news = "" if found.changed else "no news; "
    print(f"{news}log of {found.tree_size} entries, snapshot {found.snapshot_version}")


def _tell_changes(changes: Changes) -> None:
    lines = list(changes.lines())
    if not changes.before:  # every rule is new: how many is enough
        lines = [f"{lines[0]}, {len(changes.rules)} rules (interlock mesh status --rules lists them)"]
    print("\n".join(lines))


def _print_json(name: str, body: dict[str, object]) -> None:
    print(json.dumps({"format": name, "v": 1, **body}))
