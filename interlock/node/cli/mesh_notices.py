"""`interlock mesh consent --monitor`, and what status and doctor say of it: who is told which checkpoints are seen."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import Final

from interlock.base.clock import SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, BadInput, InterlockError
from interlock.commons.consent import give_consent, read_consents, withdraw_consent
from interlock.commons.notices import (
    DIFFERS,
    PROVEN,
    PURPOSE,
    Said,
    agreed,
    forget_told,
    read_said,
    terms_of,
    untold,
)
from interlock.node.cli.rows import Row
from interlock.node.config import MeshConfig
from interlock.node.roles.tell import tell_soon

__all__ = ["monitor_consent", "monitor_rows", "telling"]

_AGREE: Final = "interlock mesh consent on --monitor"
_TOLD: Final = """\
each update, taken or refused, then posts the log's origin, its size and its root; nothing of this node or its packs.
The checkpoint that the log signed goes too where the monitor's own tree differs, or this node saw two histories."""


def monitor_consent(args: argparse.Namespace, config: MeshConfig) -> int:
    """Say yes or no to telling the monitor that [monitor] names, or show what was said."""
    if args.task:
        raise BadInput("goes without a task", where="--monitor", fix="the monitor is named in [mesh] monitor")
    given = sorted(subject for purpose, subject in read_consents(config.home) if purpose == PURPOSE)
    if args.answer == "on":
        if not config.monitor:
            raise BadInput("is not set", where="[mesh] monitor", fix='name it in the configuration: monitor = "URL"')
        if agreed(config.home, config.monitor) is None:
            forget_told(config.home)  # what was seen before the yes is not told
        for other in given:
            if other != config.monitor:  # one is told, and no other
                withdraw_consent(config.home, other)
        consent = give_consent(config.home, terms_of(config.monitor), SystemClock().now_us())
        print(f"{config.monitor}: yes since {rfc3339(consent.at)}")
        print(_TOLD)
        return EXIT_OK
    if args.answer == "off":
        for monitor in given:
            withdraw_consent(config.home, monitor)
            print(f"{monitor}: no; what waited is dropped")
        forget_told(config.home)
    for monitor in given if args.answer == "show" else ():
        print(f"{monitor}: yes")
    if not given:
        print(f"no monitor is told anything; to change that: {_AGREE}")
    return EXIT_OK


def monitor_rows(config: MeshConfig) -> Iterator[Row]:
    """How telling the monitor stands; nothing where there is neither one named nor a consent."""
    try:
        given = {subject for purpose, subject in read_consents(config.home) if purpose == PURPOSE}
        for other in sorted(given - {config.monitor}):
            told = f"{other} was agreed to, and the configuration names {config.monitor or 'none'}: it is told nothing"
            yield Row("monitor", "warn", told, f"[mesh] monitor, or {_AGREE}")
        if not config.monitor:
            return
        if config.monitor not in given:
            yield Row("monitor", "ok", f"{config.monitor} is told nothing: no consent ({_AGREE})")
            return
        said = read_said(config.home, config.monitor)
        yield _row(said, len(untold(config.home, said)))
    except InterlockError as e:
        yield Row("monitor", "warn", f"{e.where}: {e.what}", e.fix)


def _row(said: Said, waiting: int) -> Row:
    tree = f"the tree of {said.size} entries"
    if said.result == PROVEN:
        told = f"{said.monitor} holds proof that the log signed two histories ({tree})"
        return Row("monitor", "fail", told, "ask it for the evidence; trust nothing new of this log until then")
    if said.result == DIFFERS:
        told = f"{said.monitor} says that {tree} has another root"
        return Row("monitor", "warn", told, "compare what others see: interlock mesh gossip")
    if said.trouble:
        return Row("monitor", "warn", f"could not be told since {rfc3339(said.at)}: {said.trouble}; {waiting} wait")
    if waiting:
        return Row("monitor", "ok", f"{said.monitor}: what the last update saw waits to be told")
    if not said.result:
        return Row("monitor", "ok", f"{said.monitor} is told with the next update")
    return Row("monitor", "ok", f"{said.monitor} was told of {tree} at {rfc3339(said.at)}: {said.result}")


@contextlib.contextmanager
def telling(config: MeshConfig) -> Iterator[None]:
    """Tell the monitor after the block, however that ends; where there is none or no consent, nothing happens."""
    try:
        yield
    finally:
        with contextlib.suppress(InterlockError):  # a consent that cannot be read is none; status says it
            if config.monitor and agreed(config.home, config.monitor) is not None:
                tell_soon(config.home, config.monitor, SystemClock())
