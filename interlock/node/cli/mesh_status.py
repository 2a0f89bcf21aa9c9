"""`interlock mesh status` and `mesh doctor`: what is in force on this node, what each rule may do, and what is wrong.

Both go by the same checks: a row that fails is exit code 1, and one that warns is said.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from interlock.base.clock import MICROSECONDS, SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, InterlockError
from interlock.base.files import read_bounded
from interlock.commons import installed
from interlock.commons.differ import acting
from interlock.commons.grants import Grants
from interlock.commons.live import Live, LiveRow, Subscription, read_live, read_subscriptions
from interlock.commons.offline import overdue
from interlock.commons.pins import Pins, read_pins
from interlock.commons.resolve import Standing
from interlock.commons.status import read_status, role_ends, targets_held
from interlock.commons.stepback import read_step_back
from interlock.commons.timefloor import behind
from interlock.commons.transcript import quorum
from interlock.commons.windows import shown_time
from interlock.node.cli.mesh_node import config_of, row_line
from interlock.node.cli.mesh_notices import monitor_rows
from interlock.node.cli.rows import Row, report_rows
from interlock.node.cli.task_rows import task_rows
from interlock.node.config import MeshConfig
from interlock.transparency.follow import MAX_EVIDENCE, parse_evidence

__all__ = ["doctor", "rows", "status"]

_SHOWN: Final = 12  # rules that a status lists unasked


def status(args: argparse.Namespace) -> int:
    """What is in force; exit code 1 where a check fails."""
    config = config_of(args)
    pins, now = read_pins(config.home), SystemClock().now_us()
    found = list(rows(config))
    wrong = [row for row in found if row.status != "ok"]
    if args.json:
        print(json.dumps(_as_json(config, found, now)))
    else:
        print(f"follows {', '.join(pins.origins)}")
        for line in _lines(config, now, every=args.rules):
            print(line)
        for row in wrong:
            print(f"{row.status}: {row.check}: {row.detail}" + (f"; {row.fix}" if row.fix else ""))
        if not any(row.check == "update" and row.detail == _last(_said(config)) for row in wrong):
            print(_last(_said(config)))
    return EXIT_REFUSED if any(row.status == "fail" for row in found) else EXIT_OK


def doctor(args: argparse.Namespace) -> int:
    """Check this node's own state; exit code 1 where a check fails."""
    return report_rows(list(rows(config_of(args))), as_json=args.json)


def rows(config: MeshConfig) -> Iterator[Row]:
    """The checks of one node."""
    now = SystemClock().now_us()
    try:
        pins = read_pins(config.home)
        yield Row("pins", "ok", f"root and log of {', '.join(pins.origins)}")
        yield _removals(config, pins)
        yield from _time(config, pins, now)
        yield from _freshness(config, pins, read_status(config.home), now)
    except InterlockError as e:
        yield Row("status", "fail", f"{e.where}: {e.what}", e.fix)
    try:
        live, followed = read_live(config.home), read_subscriptions(config.home)
        for subscription in followed:
            yield from _subscribed(config, subscription, live, now)
        missing = [s.name for s in followed if s.key not in live.rows]
        if missing:
            yield Row("subscriptions", "fail", f"not in force: {', '.join(missing)}", "interlock mesh update")
    except InterlockError as e:
        yield Row("state", "fail", f"{e.where}: {e.what}", e.fix)
    yield from _step_backs(config)
    yield from _split_views(config)
    yield from monitor_rows(config)
    yield from task_rows(config.home)


def _removals(config: MeshConfig, pins: Pins) -> Row:
    """Who takes rules out of force here that this operator granted."""
    circle = targets_held(config.home, pins.root)
    if circle is None:
        told = "one key of the commons takes granted rules out of force alone: it is a trial"
        return Row("removals", "warn", told, "ask the commons to name holders of targets")
    return Row("removals", "ok", f"signed by {quorum(circle)} ({', '.join(h.name for h in circle.holders)})")


def _subscribed(config: MeshConfig, followed: Subscription, live: Live, now: int) -> Iterator[Row]:
    """What is to say of one subscription."""
    row = live.rows.get(followed.key)
    if row is None:
        return
    held = installed.standing(config.home, followed.pack, followed.ring, now)
    force = live.in_force(now).get(followed.key)
    shown = "nothing yet" if force is None else f"version {force.version}, log index {force.log_index}"
    yield Row(followed.name, "ok", f"{shown}, bytes as verified, {len(held.standings)} rules")
    if installed.stored_pack(config.home, row).status == "deprecated":
        told = f"version {row.version} is deprecated: its authors look after it no more"
        yield Row(f"{followed.name} status", "warn", told, "ask the commons what follows it")
    if row.live_at > now and live.held_back(row) is None:
        told = f"version {row.version} is watched for {shown_time(row.live_at - now)} yet"
        yield Row(f"{followed.name} window", "ok", told)
    newest = live.seen.get(followed.key, (0, ""))[0]
    if followed.pin and followed.pin != row.version:
        told = f"version {followed.pin} is wanted, and {row.version} is held"
        yield Row(f"{followed.name} pin", "warn", told, "interlock mesh update")
    if followed.pin and newest > followed.pin:
        told = f"pinned to version {followed.pin}, and {newest} is out"
        yield Row(f"{followed.name} pin", "warn", told, f"interlock mesh pin mesh:{followed.name} --clear")
    for one in {r.version: r for r in (force, row) if r is not None}.values():
        yield from _withdrawals(live, one)


def _withdrawals(live: Live, row: LiveRow) -> Iterator[Row]:
    about = [taken for taken in live.withdrawn if taken.of(row.pack, row.version, row.ring)]
    for taken in about:
        if replace(taken, scope="removal") == taken or replace(taken, scope="removal") not in about:
            stays = "stays in force here" if live.held_back(row) is None else "does not come into force here"
            done = "is out of force" if taken.scope == "removal" else f"{stays}, and no node begins it"
            fix = "look for a newer version, or unsubscribe"
            yield Row(f"{row.name} taken back", "warn", f"{taken} {done}", fix)


def _step_backs(config: MeshConfig) -> Iterator[Row]:
    try:
        pending, stepped = read_step_back(config.home).pending, _grants(config).stepped
    except InterlockError as e:
        yield Row("step back", "fail", f"{e.where}: {e.what}", e.fix)
        return
    for p in pending:
        fix = f"interlock mesh stepback apply mesh:{p.pack}@{p.ring} {p.rule}, or dismiss"
        yield Row("step back", "warn", f"{p.rule} of {p.pack}@{p.ring} {p.objections}", fix)
    for row in stepped:
        yield Row("step back", "ok", f"{row.rule} of {row.pack} is in shadow: it {row.why}")


def _split_views(config: MeshConfig) -> Iterator[Row]:
    files = sorted((config.home / "evidence").glob("*.json"))
    fix = "trust nothing new of this log; send its witnesses this"
    for file in files:
        yield Row("split view", "fail", _evidence(config, file), fix)
    if not files:
        yield Row("split view", "ok", "no evidence of two histories")


def _evidence(config: MeshConfig, file: Path) -> str:
    """What a file of evidence shows, checked with the pinned key of its log."""
    try:
        evidence = parse_evidence(read_bounded(file, MAX_EVIDENCE), where=str(file))
        keys = [log.key for log in read_pins(config.home).policy.logs if log.key.name == evidence.origin]
        if not keys:
            return f"{file.name} is of a log that is not pinned here ({evidence.origin})"
        evidence.verify(*keys)
    except InterlockError as e:
        return f"{file.name} shows nothing ({e.what})"
    return f"{file.name} proves that {evidence.origin} signed two histories"


def _time(config: MeshConfig, pins: Pins, now: int) -> Iterator[Row]:
    """The clock, and what ended by it: signatures of roles; on a node without a network the age of what it holds."""
    wrong = behind(config.home, now)
    if wrong:
        yield Row("clock", "fail", wrong, "set the clock right; or: interlock mesh clock --reset")
    if pins.offline_us:
        late = overdue(config.home, now, pins.offline_us)
        yield Row(
            "offline age",
            "fail" if late else "ok",
            late or "what is held is young enough",
            late and "bring a newer bundle",
        )
        return
    ended = sorted(f"{role} at {rfc3339(at)}" for role, at in role_ends(config.home).items() if at <= now)
    if ended:
        yield Row("expired", "fail", f"signatures have ended: {', '.join(ended)}", "interlock mesh update")


def _freshness(config: MeshConfig, pins: Pins, said: dict[str, object], now: int) -> Iterator[Row]:
    at = said.get("at")
    if not isinstance(at, int):
        yield Row("update", "fail", "there has been none", "interlock mesh update")
        return
    age_s = (now - at) // MICROSECONDS
    if said.get("ok") is not True:
        yield Row("update", "fail", _last(said), "what was in force stays in force")
    elif age_s > 10 * config.poll_s and not pins.offline_us:
        yield Row("update", "fail", f"the last was {age_s} s ago", "run interlock mesh run, or mesh update")
    else:
        yield Row("update", "ok", _last(said))
    held = said.get("held")
    for name, why in held.items() if isinstance(held, dict) else ():
        yield Row(f"{name} update", "warn", f"held back: {why}")


def _said(config: MeshConfig) -> dict[str, object]:
    try:
        return read_status(config.home)
    except InterlockError:
        return {}


def _lines(config: MeshConfig, now: int, *, every: bool) -> Iterator[str]:
    live, grants = read_live(config.home), _grants(config)
    for row in live.rows.values():
        force = live.in_force(now).get(row.key)
        if force is not None and force != row:
            yield f"{row_line(force, now)}, since {rfc3339(force.at)}"
        back = "" if live.held_back(row) is None else ", taken back while it was watched: never in force"
        yield f"{row_line(row, now)}, since {rfc3339(row.at)}{back}"
        yield from _rule_lines(_standings(config, row, now), every=every)
    if live.rows:
        told = "ask" if grants.ungranted == "escalate" else "are in shadow"
        yield f"ungranted = {grants.ungranted}: rules that would block or mask and are not granted {told}"


def _rule_lines(standings: tuple[Standing, ...], *, every: bool) -> Iterator[str]:
    counted = Counter(s.state for s in standings)
    if counted:
        yield f"  {len(standings)} rules: {', '.join(f'{count} {state}' for state, count in counted.items())}"
    told = [s for s in standings if every or s.state not in ("base", "asking", "shadow")]
    width = max((len(s.id) for s in told), default=0)
    for standing in told if every else told[:_SHOWN]:
        yield f"    {standing.id:{width}}  {standing.state}: {acting(standing)}"
    if len(told) > _SHOWN and not every:
        yield f"    and {len(told) - _SHOWN} more; --rules lists all"


def _standings(config: MeshConfig, row: LiveRow, now: int) -> tuple[Standing, ...]:
    try:
        return installed.standing(config.home, row.pack, row.ring, now).standings
    except InterlockError:  # the checks say it
        return ()


def _grants(config: MeshConfig) -> Grants:
    try:
        return installed.read_grants(config.home)
    except InterlockError:  # the checks say it
        return Grants()


def _as_json(config: MeshConfig, found: list[Row], now: int) -> dict[str, object]:
    live, grants = read_live(config.home), _grants(config)
    rules = [
        {"id": s.id, "pack": s.pack, "ring": s.ring, "version": s.version, "rule": s.rule, "semantic": s.semantic}
        | {"state": s.state, "acts": s.acts.name.lower(), "author": s.doc.verdict.name.lower()}
        for row in live.rows.values()
        for s in _standings(config, row, now)
    ]
    return {
        "format": "interlock-mesh-status",
        "v": 2,
        "ok": all(row.status != "fail" for row in found),
        "organisation": config.organisation,
        "live": [asdict(row) for row in live.in_force(now).values()],
        "watched": [asdict(row) for row in live.watched(now).values()],
        "subscriptions": [asdict(row) for row in read_subscriptions(config.home)],
        "ungranted": grants.ungranted,
        "rules": rules,
        "checks": [asdict(row) for row in found],
        "last": _said(config),
    }


def _last(said: dict[str, object]) -> str:
    at = said.get("at")
    when = rfc3339(at) if isinstance(at, int) else "never"
    trouble = said.get("trouble")
    if isinstance(trouble, dict):
        return f"last update {when} failed: {trouble.get('line')}"
    return f"last update {when}: ok" if said else "no update yet"
