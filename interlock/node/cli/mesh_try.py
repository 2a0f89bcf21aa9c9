"""`interlock mesh try`, `journal` and `stepback`: a pack on trial, what it is tried on, and rules that step back."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Final

from interlock.base.clock import SystemClock
from interlock.base.errors import EXIT_OK, BadInput
from interlock.base.files import read_bounded
from interlock.commons import stepback as steps
from interlock.commons.eventlog import EventLog
from interlock.commons.pack import MAX_PACK, BadPack, Pack, pack_from_policy, parse_pack
from interlock.commons.pins import read_pins
from interlock.commons.rings import at_ring
from interlock.commons.stepback import StepBack, Thresholds
from interlock.commons.trial import Tried, trial
from interlock.engine.event import SensorEvent
from interlock.interceptors.hooks.entry import guard_settings
from interlock.native.evaluator import chosen_evaluator
from interlock.node.cli.mesh_node import config_of, patiently, subscriber_of
from interlock.node.config import MeshConfig
from interlock.node.transcripts import Transcripts, transcript_files

__all__ = ["journal", "stepback", "try_pack"]

_QUIET_S: Final = 2.0
_SHOWN: Final = 20
_MIB: Final = 1 << 20


def try_pack(args: argparse.Namespace) -> int:
    """Print what a pack would have objected to."""
    config = config_of(args)
    log = EventLog(config.home)
    if not args.pack.startswith("mesh:") and not Path(args.pack).exists():
        raise BadInput("is not there", where=args.pack, fix="name a file, or a pack as mesh:PACK@RING")
    transcripts = Transcripts([f for place in args.transcripts for f in transcript_files(Path(place))])
    sources: list[Iterable[SensorEvent]] = [transcripts] if args.transcripts else []
    if log.state.size:
        sources.append(log.events())
    if not sources:
        follow = (
            f"interlock mesh subscribe {args.pack if args.pack.startswith('mesh:') else 'mesh:PACK@RING'} --window 7d"
        )
        fix = f"give --transcripts PATH, or follow it with {follow}: what it does in shadow is the evidence"
        told = "has nothing to be tried on: no --transcripts, and no event journal"
        raise BadInput(told, where=args.pack, fix=fix)
    pack = _pack(config, args.pack)
    tried = trial(pack, chain.from_iterable(sources), chosen_evaluator(), _progress())
    if args.json:
        body = {"format": "interlock-trial", "v": 1, **asdict(tried), "skipped_lines": transcripts.skipped}
        print(json.dumps(body))
    else:
        print("\n".join(_told(tried, transcripts.skipped)))
    return EXIT_OK


def journal(args: argparse.Namespace) -> int:
    """Keep events for trials, or not; or show or delete what is kept."""
    config = config_of(args)
    read_pins(config.home)
    log = EventLog(config.home)
    if args.action == "on":
        try:
            log.turn_on(args.max_mib)
        except ValueError as e:
            raise BadInput(str(e), where="--max-mib") from None
        print("on: programs that start from now on, and install a pack of the mesh, keep their events")
    elif args.action == "off":
        log.turn_off()
    elif args.action == "drop":
        log.drop()
    state = log.state
    if args.json:
        print(json.dumps({"format": "interlock-journal", "v": 1, **asdict(state)}))
    else:
        sizes = f"{state.size / _MIB:.1f} of at most {state.cap / _MIB:.0f} MiB"
        kept = f"{sizes} kept, encrypted, in {config.home / 'events'}"
        print(f"journal is {'on' if state.on else 'off'}; {kept if state.cap else 'nothing is kept'}")
    return EXIT_OK


def stepback(args: argparse.Namespace) -> int:
    """What should step back: looked for, shown, applied, dismissed, or undone."""
    config = config_of(args)
    read_pins(config.home)
    if args.action in ("apply", "dismiss", "undo"):
        _decided(config, args)
    elif args.action == "check":
        receipts = Path(args.receipts) if args.receipts else guard_settings(args.config).receipts
        if not receipts.exists():
            raise BadInput("is not there", where=str(receipts), fix="name the file of receipts with --receipts")
        for proposal in steps.weigh(config.home, receipts, SystemClock().now_us()):
            done = "is in shadow from now on" if proposal.state == "applied" else "is proposed to step back"
            print(f"{proposal.rule} of {proposal.pack}@{proposal.ring} {done}: {proposal.objections}")
    elif args.action == "set":
        _set(config, args)
    known = steps.read_step_back(config.home)
    if args.json:
        rows = [asdict(p) for p in known.proposals]
        body = {"format": "interlock-stepback-list", "v": 1, "thresholds": asdict(known.thresholds), "proposals": rows}
        print(json.dumps(body))
    else:
        print("\n".join(_step_lines(known)))
    return EXIT_OK


def _decided(config: MeshConfig, args: argparse.Namespace) -> None:
    if args.pack is None or args.rule is None:
        raise BadInput("needs mesh:PACK@RING RULE", where=f"interlock mesh stepback {args.action}")
    pack, _ = at_ring(args.pack)
    if args.action == "undo":
        steps.undo(config.home, pack, args.rule)
        print(f"{args.rule} of {pack} acts again")
        return
    proposal = steps.decide(config.home, pack, args.rule, args.action == "apply")
    print(
        f"{proposal.rule} of {pack} {'is in shadow from now on' if proposal.state == 'applied' else 'stays as it is'}"
    )


def _set(config: MeshConfig, args: argparse.Namespace) -> None:
    named = {"principals": args.principals, "spans": args.spans, "days": args.days}
    given = {name: value for name, value in named.items() if value is not None}
    try:
        steps.set_thresholds(config.home, replace(steps.read_step_back(config.home).thresholds, **given))
    except ValueError as e:
        raise BadInput(str(e), where="interlock mesh stepback set") from None


def _step_lines(known: StepBack) -> Iterator[str]:
    at: Thresholds = known.thresholds
    yield f"a rule steps back that objects to {at.principals} principals in {at.spans} runs within {at.days} days"
    for p in known.proposals:
        yield f"  {p.state:9}  mesh:{p.pack}@{p.ring} {p.rule}: {p.objections}"
    if not known.proposals:
        yield "none does"
    if known.pending:
        yield "decide with: interlock mesh stepback apply|dismiss mesh:PACK@RING RULE"


def _pack(config: MeshConfig, text: str) -> Pack:
    """A pack of the commons, verified; or of a file. Raises: BadPack, BadState; as `Subscriber.offered`."""
    if text.startswith("mesh:"):
        subscriber, key = subscriber_of(config), at_ring(text)
        return patiently(lambda: subscriber.offered(*key)).pack
    data = read_bounded(Path(text), 4 * MAX_PACK)
    try:
        return parse_pack(data, where=text)
    except BadPack as bad:
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            body = None
        kind = body.get("format") if isinstance(body, dict) else None
        if kind == "interlock-ilpack" and isinstance(body.get("pack"), str):
            return parse_pack(body["pack"].encode("utf-8"), where=text)
        if kind == "interlock-pack":
            raise bad from None
    return pack_from_policy(data, where=text, version=1, licence="Apache-2.0", authors=["unpublished"])


def _told(tried: Tried, skipped: int) -> Iterator[str]:
    yield f"{tried.pack} version {tried.version} on {tried.events} events of {tried.sessions} sessions"
    width = max((len(row.rule) for row in tried.rules), default=0)
    for row in tried.rules[:_SHOWN]:
        session, call = row.first
        seen = f"{row.sessions} sessions, {row.events} events"
        yield f"  {row.rule:{width}}  would {row.does:5}  {seen}; first in session {session or '-'}, call {call or '-'}"
    if len(tried.rules) > _SHOWN:
        yield f"  and {len(tried.rules) - _SHOWN} more; --json lists all"
    yield f"  {tried.quiet} rules would have said nothing"
    if skipped:
        yield f"  {skipped} lines could not be read, and were skipped"


def _progress() -> Callable[[int], object]:
    """Tells how far a long trial is, every two seconds, on standard error."""
    last = time.monotonic()

    def tell(done: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _QUIET_S:
            last = time.monotonic()
            print(f"try: {done} events", file=sys.stderr, flush=True)

    return tell
