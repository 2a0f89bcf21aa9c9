"""`interlock mesh` for members: pin a commons, follow packs, grant, consent, report, and see what is in force."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final, TypeVar

from interlock.base.clock import SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, BadInput, InterlockError
from interlock.base.fetch import fetcher_of
from interlock.base.files import Locked, read_bounded
from interlock.commons import installed
from interlock.commons.live import LiveRow, read_live, read_subscriptions
from interlock.commons.pins import init_node, read_pins
from interlock.commons.rings import known_ring
from interlock.commons.subscribe import Subscriber, Update, read_status
from interlock.node.cli.doctor import Row, report_rows
from interlock.node.config import MeshConfig, mesh_config, settings_of, toml_text
from interlock.transparency.follow import MAX_EVIDENCE, parse_evidence

__all__ = [
    "config_of",
    "doctor",
    "grant",
    "init",
    "patiently",
    "rows",
    "status",
    "subscribe",
    "subscriber_of",
    "unsubscribe",
    "update",
]

_LIMIT: Final = 8 << 20
_T = TypeVar("_T")
_PATIENCE_S: Final = 20.0


def init(args: argparse.Namespace) -> int:
    """Pin what this node will never learn from the network."""
    config = config_of(args)
    url = args.commons or config.commons
    fetcher = fetcher_of(url) if url else None
    if args.root is None and fetcher is None:
        raise BadInput("needs --commons URL to fetch the root from", where="--root-sha256")
    root = None if args.root is None else read_bounded(Path(args.root), _LIMIT)
    policy = read_bounded(Path(args.log_policy), _LIMIT)
    pins = init_node(config.home, log_policy=policy, root=root, root_sha256=args.root_sha256, fetcher=fetcher)
    print(f"{config.home} follows {', '.join(pins.origins)} from now on")
    if (args.home or args.commons) and mesh_config(settings_of(args.config)) != replace(config, commons=url or ""):
        print("to let every command find it, put this into the configuration file (--config, INTERLOCK_CONFIG):")
        print(f"[mesh]\nhome = {toml_text(str(config.home.absolute()))}\ncommons = {toml_text(url or 'URL')}")
    return EXIT_OK


def subscribe(args: argparse.Namespace) -> int:
    """Follow packs, and bring them into force if all verify; otherwise none of the new subscriptions stays."""
    config = config_of(args)
    named = list(map(_reference, args.pack))
    new = [pair for pair in named if pair not in read_subscriptions(config.home)]
    subscriber = subscriber_of(config)
    for pair in new:
        subscriber.subscribe(*pair)
    try:
        found = patiently(subscriber.update)
    except InterlockError:
        for pair in new:
            subscriber.unsubscribe(*pair)
        raise
    print(_told(found))
    return EXIT_OK


def unsubscribe(args: argparse.Namespace) -> int:
    """Follow a pack no more, and take it out of force."""
    config = config_of(args)
    pair = _reference(args.pack)
    subscriber = subscriber_of(config)
    if pair not in read_subscriptions(config.home) and pair not in read_live(config.home).rows:
        raise BadInput("is not followed here", where=args.pack, fix="see interlock mesh status")
    subscriber.unsubscribe(*pair)
    print(f"{args.pack} is not in force any more")
    return EXIT_OK


def update(args: argparse.Namespace) -> int:
    """Look for news once; whatever does not verify leaves what is in force."""
    print(_told(patiently(subscriber_of(config_of(args)).update)))
    return EXIT_OK


def grant(args: argparse.Namespace) -> int:
    """Let rules of a pack act in full on this node, or take that back."""
    config = config_of(args)
    pack, ring = _reference(args.pack)
    rules = args.rules or None
    if args.revoke:
        _demand_granted(config, pack, args.rules)
        installed.revoke(config.home, pack, rules)
        print(f"grants of {pack} are taken back: {', '.join(rules) if rules else 'all'}")
        return EXIT_OK
    rows = installed.grant(config.home, pack, ring, rules, SystemClock().now_us())
    for row in rows:
        print(f"granted: {row.rule} of {pack}@{ring}, as it means now ({row.semantic[:16]})")
    return EXIT_OK


def status(args: argparse.Namespace) -> int:
    """What is in force; exit code 1 where the last update failed."""
    config = config_of(args)
    pins, said = read_pins(config.home), read_status(config.home)
    rows = list(read_live(config.home).rows.values())
    if args.json:
        live = [asdict(row) for row in rows]
        body = {"format": "interlock-status", "v": 1, "organisation": config.organisation, "live": live, "last": said}
        print(json.dumps(body))
    else:
        print(f"follows {', '.join(pins.origins)}")
        for row in rows:
            print(f"{_line(row)}, since {rfc3339(row.at)}")
        print(_last(said))
    return EXIT_OK if said.get("ok", False) else EXIT_REFUSED


def doctor(args: argparse.Namespace) -> int:
    """Check this node's own state; exit code 1 where a check fails."""
    return report_rows(list(rows(config_of(args))), as_json=args.json)


def rows(config: MeshConfig) -> Iterator[Row]:
    """The checks of one node."""
    try:
        pins = read_pins(config.home)
        yield Row("pins", "ok", f"root and log of {', '.join(pins.origins)}")
        said, live = read_status(config.home), read_live(config.home).rows
        yield _freshness(config, said)
        for (pack, ring), row in live.items():
            installed.load(config.home, pack, ring)
            yield Row(f"{pack}@{ring}", "ok", f"version {row.version}, log index {row.log_index}, bytes as verified")
        missing = [f"{p}@{r}" for p, r in read_subscriptions(config.home) if (p, r) not in live]
        if missing:
            yield Row("subscriptions", "fail", f"not in force: {', '.join(missing)}", "interlock mesh update")
    except InterlockError as e:
        yield Row("state", "fail", f"{e.where}: {e.what}", e.fix)
    files = sorted((config.home / "evidence").glob("*.json"))
    for file in files:
        yield Row(
            "split view", "fail", _evidence(config, file), "trust nothing new of this log; send its witnesses this"
        )
    if not files:
        yield Row("split view", "ok", "no evidence of two histories")


def _evidence(config: MeshConfig, file: Path) -> str:
    """What a file of evidence shows, checked with the pinned key of its log."""
    try:
        evidence = parse_evidence(read_bounded(file, MAX_EVIDENCE), where=str(file))
        keys = [log.key for log in read_pins(config.home).policy.logs if log.key.name == evidence.origin]
        if not keys:
            return f"{file.name} is of a log that is not pinned here ({evidence.origin})"
        evidence.verify(keys[0])
    except InterlockError as e:
        return f"{file.name} shows nothing ({e.what})"
    return f"{file.name} proves that {evidence.origin} signed two histories"


def _freshness(config: MeshConfig, said: dict[str, object]) -> Row:
    at = said.get("at")
    if not isinstance(at, int):
        return Row("update", "fail", "there has been none", "interlock mesh update")
    if said.get("ok") is not True:
        return Row("update", "fail", _last(said), "the last good packs stay in force; see what the line says")
    age_s = (SystemClock().now_us() - at) // 1_000_000
    if age_s > 10 * config.poll_s:
        return Row("update", "fail", f"the last was {age_s} s ago", "run interlock mesh run, or mesh update")
    return Row("update", "ok", _last(said))


def config_of(args: argparse.Namespace) -> MeshConfig:
    """The [mesh] section, with --home in the place of its own. Raises: BadConfig."""
    return mesh_config(settings_of(args.config), args.home)


def subscriber_of(config: MeshConfig) -> Subscriber:
    """Raises: BadConfig, BadState."""
    read_pins(config.home)
    return Subscriber(config.home, fetcher_of(config.commons_url()), SystemClock())


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


def _demand_granted(config: MeshConfig, pack: str, rules: list[str]) -> None:
    """A misspelt name must not look like a grant that was taken back. Raises: BadState, BadInput."""
    read_pins(config.home)
    held = {row.rule for row in installed.read_grants(config.home).rows if row.pack == pack}
    unknown = [rule for rule in rules if rule not in held]
    if unknown or not held:
        raise BadInput("is not granted here", where=f"{pack}: {unknown[0]}" if unknown else pack)


def _reference(text: str) -> tuple[str, str]:
    pack, at, ring = text.removeprefix("mesh:").rpartition("@")
    if not (pack and at and text.startswith("mesh:")):
        raise BadInput("is not of the form mesh:PACK@RING", where=text)
    try:
        known_ring(ring)
    except ValueError as e:
        raise BadInput(str(e), where=text) from None
    return pack, ring


def _told(found: Update) -> str:
    news = ", ".join(map(_line, found.changed)) or "no news"
    return f"{news} (log of {found.tree_size} entries, snapshot {found.snapshot_version})"


def _line(row: LiveRow) -> str:
    return f"{row.pack}@{row.ring} version {row.version}, sha256 {row.sha256[:16]}, log index {row.log_index}"


def _last(said: dict[str, object]) -> str:
    at = said.get("at")
    when = rfc3339(at) if isinstance(at, int) else "never"
    trouble = said.get("trouble")
    if isinstance(trouble, dict):
        return f"last update {when} failed: {trouble.get('line')}"
    return f"last update {when}: ok" if said else "no update yet"
