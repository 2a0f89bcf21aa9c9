"""`interlock mesh monitor`: look once at a commons through its mirrors, show what does not fit, close an alarm."""

from __future__ import annotations

import argparse
import contextlib
import json
from dataclasses import asdict
from pathlib import Path

from interlock.base.clock import SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, BadInput
from interlock.base.files import BadState
from interlock.commons.monitor import Looked
from interlock.commons.monitor_notices import Told
from interlock.commons.monitor_store import Alarm
from interlock.node.cli.mesh_shared import serve_settings
from interlock.node.config import serve_config
from interlock.node.wiring.monitor import monitor_of

__all__ = ["monitor"]


def monitor(args: argparse.Namespace) -> int:
    """Look once; exit code 1 while an alarm is open."""
    clock = SystemClock()
    if args.dir and not Path(args.dir).is_dir():
        raise BadState("is not there", where=args.dir, fix="make it with interlock mesh setup --role monitor")
    config = serve_config(serve_settings(args), args.dir)
    with contextlib.closing(monitor_of(config, clock)) as watching:
        if args.close is not None:
            alarm = _numbered(watching.store.alarms(), args.close)
            watching.store.close_alarm(alarm, clock.now_us())
            print(f"closed: {_line(alarm)}")
            return EXIT_OK
        looked = watching.look()
        alarms, told = watching.store.alarms(), watching.notices.told()
    if args.json:
        body = {"tree_size": looked.tree_size, "places": looked.places, "alarms": [asdict(a) for a in alarms]}
        print(json.dumps({**body, "notices": told.body}, indent=1))
    else:
        _show(looked, alarms)
        if any(alarm.kind == "split-view" for alarm in looked.open):
            print(f"what proves two histories lies in {config.directory / 'evidence'}: send it to the log's witnesses")
        _show_told(told)
    return EXIT_REFUSED if looked.open else EXIT_OK


def _numbered(alarms: list[Alarm], number: int) -> Alarm:
    open_ones = [alarm for alarm in alarms if alarm.closed is None]
    if not 1 <= number <= len(open_ones):
        raise BadInput(f"is none of the {len(open_ones)} open alarms", where=f"--close {number}")
    return open_ones[number - 1]


def _show(looked: Looked, alarms: list[Alarm]) -> None:
    print(f"{looked.tree_size} entries read; {looked.places} files looked at in this pass")
    for number, alarm in enumerate((a for a in alarms if a.closed is None), 1):
        print(f"{number:3}  {rfc3339(alarm.since)}  {_line(alarm)}")
    closed = sum(alarm.closed is not None for alarm in alarms)
    if looked.open:
        print(f"{len(looked.open)} open, {closed} closed; one that is dealt with: interlock mesh monitor --close N")
    else:
        print("all of it fits" + (f"; {closed} alarms of before are closed" if closed else ""))


def _show_told(told: Told) -> None:
    """What nodes told; a root that the log has not signed is a claim, and is shown as one."""
    if told.counts:
        counts = ", ".join(f"{count} {result}" for result, count in told.counts.items())
        print(f"told by nodes: {counts}; {told.waiting} trees wait until this monitor has read that far")
    for tree in told.unproven:
        root = tree.root.hex()[:16]
        print(f"unproven: {tree.origin}: somebody names another root of {tree.size} entries, {root} ({tree.count}x)")


def _line(alarm: Alarm) -> str:
    return f"{alarm.kind}: {alarm.where}: {alarm.what}"
