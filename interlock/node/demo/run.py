"""`interlock mesh demo`: the whole loop in processes of its own, each step with its evidence.

Exit code 0 only if every step held. Whatever happens, Ctrl-C included, every process that was started is gone at the
end; so is the folder, unless it was to be kept.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from interlock.base.clock import SystemClock
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, BadInput, InterlockError
from interlock.base.files import private_dir
from interlock.base.organisations import DEMO_LEAST, LEAST
from interlock.native.availability import availability
from interlock.node.demo.acts import Acts, Evidence
from interlock.node.demo.attacks import Attacks
from interlock.node.demo.cast import Cast
from interlock.node.demo.show import Show, Step, choose
from interlock.node.demo.stage import MEMBERS, Stage

__all__ = ["main"]

_FORMAT: Final = "interlock-demo"
_ABOUT: Final = ("command", "url", "file_path")  # the argument by which people know a call


def main(args: argparse.Namespace) -> int:
    """Run the demo and show it. Raises: BadInput, where --keep names something that is there."""
    show = choose(args.json)
    began = time.monotonic()
    with _folder(args.keep) as folder, _signals():
        cast = Cast(private_dir(folder / "logs"))
        steps: list[Step] = []
        try:
            show.note(availability().sentence)
            show.note(f"the floor of organisations is {DEMO_LEAST} in this demo; a real task needs {LEAST}")
            ok = _play(Stage(folder, cast, SystemClock()), show, steps)
        finally:
            cast.stop()
        seconds = time.monotonic() - began
        held = sum(step.ok for step in steps)
        summary = f"{held} of {len(steps)} steps held, in {seconds:.1f} s" + (
            f"; kept in {folder}" if args.keep else ""
        )
        result: dict[str, object] = {"format": _FORMAT, "v": 1, "ok": ok, "seconds": round(seconds, 2)}
        show.end(result | {"summary": summary, "processes": cast.pids()}, steps)
        return EXIT_OK if ok else EXIT_REFUSED


def _play(stage: Stage, show: Show, steps: list[Step]) -> bool:
    acts = Acts(stage)
    attacks = Attacks(acts)
    for name, act in _programme(acts, attacks):
        if not _step(name, act, stage.cast, show, steps):
            return False
        if act == acts.guard:
            _show_session(acts, show)
        if act == acts.collect:
            _show_counts(acts, show)
            attacks.keep_old_state()
            attacks.serve()
    return True


def _programme(acts: Acts, attacks: Attacks) -> list[tuple[str, Callable[[], Evidence]]]:
    return [
        ("root ceremony", acts.ceremony),
        ("commons, mirror, log, two witnesses, DAP leader and helper, issuer run", acts.start_roles),
        ("pack published: entry, checkpoint, proof, targets, snapshot, timestamp", acts.publish),
        ("three nodes initialised, three organisations enrolled", acts.initialise),
        ("three nodes subscribed through the mirror", acts.subscribe),
        ("catalog published, consent given", acts.agree),
        ("three agents ran under their guards", acts.guard),
        ("epoch closed, reports sent", acts.report),
        ("neither aggregator can open the other's shares", acts.cannot_read),
        ("counts collected", acts.collect),
        ("indicator pack published", acts.publish_indicator),
        ("a fresh fourth node asks, then blocks", acts.fresh_node),
        ("attack: a mirror serves an old pack", attacks.old_mirror),
        ("attack: the log is forked", attacks.forked_log),
        # Last: stolen online keys also push the node's metadata forward, past what the commons itself has.
        ("attack: a mirror serves a pack outside the log", attacks.past_the_log),
    ]


def _step(name: str, act: Callable[[], Evidence], cast: Cast, show: Show, steps: list[Step]) -> bool:
    began = time.monotonic()
    try:
        with show.working(name):
            evidence, ok = act(), True
            cast.check_alive()
    except InterlockError as e:
        evidence, ok = {"failed": str(e)}, False
    step = Step(name, ok, evidence, round((time.monotonic() - began) * 1000))
    steps.append(step)
    show.step(step)
    return ok


def _show_session(acts: Acts, show: Show) -> None:
    rows = []
    for row in acts.sessions[MEMBERS[0]]:
        args = row["args"]
        assert isinstance(args, dict)
        about = next(str(args[name]) for name in _ABOUT if name in args)
        rows.append([str(row["outcome"]), str(row["tool"]), about, str(row["policy_id"] or "")])
    show.table(f"what became of the calls of {MEMBERS[0]}'s agent", ["outcome", "tool", "call", "rule"], rows)


def _show_counts(acts: Acts, show: Show) -> None:
    rows = [[place if len(place) < 40 else place[:24] + "…", str(count)] for place, count in acts.counts]
    show.table("how many organisations saw it", ["place in the catalog", "organisations"], rows)


@contextlib.contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    if keep is None:
        place = Path(tempfile.mkdtemp(prefix="interlock-demo-"))
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)
        return
    path = Path(keep).absolute()
    if path.exists():
        raise BadInput("is there already", where=f"--keep {keep}", fix="name a folder that is not")
    yield private_dir(path)


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the demo as Ctrl-C does, through every `finally`."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
