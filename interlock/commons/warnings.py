"""Warning lists: what no rule of a shared pack may hit, as signed packs of kind `warning`.

    hosts       names of hosts                   fetched, and named in a command
    digests     in hex, or `host:HEX` and alike  as an indicator's own; in a command and in a text
    packages    names, or `pypi:NAME`, `npm:NAME` and the like      installed
    commands    whole commands of a shell        run
    strings     any text, such as canaries       in a command, written to a file, read in a result

From each row come events; a rule of a pack that says anything of one, in shadow or not, has hit the row. Such a pack
passes no gate.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from interlock.commons.pack import LISTS, Pack
from interlock.engine.evaluate import Evaluator
from interlock.engine.event import SensorEvent
from interlock.engine.policy.load import compile_rules
from interlock.engine.policy.model import Policy, Source

__all__ = ["Hit", "first_hit"]

_CWD: Final = "/checkout/tree"
_INSTALLERS: Final[Mapping[str, str]] = {
    "pypi": "pip install {}",
    "npm": "npm install {}",
    "cargo": "cargo add {}",
    "gem": "gem install {}",
    "go": "go get {}",
}


class Hit(NamedTuple):
    """A rule hit a row of a list of a warning pack; the row itself may be a secret, so it is told by its number."""

    rule: str
    pack: str
    list: str
    row: int


def first_hit(pack: Pack, warnings: Iterable[Pack], evaluator: Evaluator) -> Hit | None:
    """The first row of the warning packs that a rule of the pack hits, if any."""
    policy = Policy(compile_rules(pack.rules, Source("pack", pack.name, pack.digest)), pack.digest)
    digests = _indicated(pack)
    for warning in warnings:
        for name in LISTS:
            for number, row in enumerate(warning.lists.get(name, ())):
                named = digests.get(row.rpartition(":")[2]) if name == "digests" else None
                rule = named or _hit(policy, _EVENTS[name](row), evaluator)
                if rule:
                    return Hit(rule, f"{warning.name} version {warning.version}", name, number)
    return None


def _hit(policy: Policy, events: Iterable[SensorEvent], evaluator: Evaluator) -> str:
    """The rule that says something of one of the events, "" for none."""
    for event in events:
        outcome = evaluator.evaluate(policy, event)
        said = [*outcome.fired, *(rule for rule, _ in outcome.shadows)]
        if said or outcome.cause is not None:
            return said[0].id if said else "(a rule that cannot judge it)"
    return ""


def _indicated(pack: Pack) -> dict[str, str]:
    """The digests that a pack's indicators name, and the rule of each."""
    found: dict[str, str] = {}
    for doc in pack.rules:
        found.update(dict.fromkeys(_texts_under(doc.when, "digests"), doc.id))
    return found


def _texts_under(value: object, key: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name == key and isinstance(inner, Sequence) and not isinstance(inner, str):
                yield from (text for text in inner if isinstance(text, str))
            else:
                yield from _texts_under(inner, key)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts_under(inner, key)


def _call(command: str) -> SensorEvent:
    return SensorEvent("Bash", {"command": command}, cwd=_CWD)


def _of_host(row: str) -> Iterator[SensorEvent]:
    yield SensorEvent("WebFetch", {"url": f"https://{row}/", "prompt": "read it"}, cwd=_CWD)
    yield _call(f"curl -sS https://{row}/")


def _of_package(row: str) -> Iterator[SensorEvent]:
    kind, _, name = row.rpartition(":")
    for installer, command in _INSTALLERS.items():
        if kind in ("", installer):
            yield _call(command.format(shlex.quote(name)))


def _of_text(row: str) -> Iterator[SensorEvent]:
    yield _call(f"echo {shlex.quote(row)}")
    yield SensorEvent("Write", {"file_path": f"{_CWD}/notes.txt", "content": row}, cwd=_CWD)
    yield SensorEvent("Read", {"result": row}, phase="result", cwd=_CWD)


_EVENTS: Final[Mapping[str, Callable[[str], Iterable[SensorEvent]]]] = {
    "hosts": _of_host,
    "digests": _of_text,
    "packages": _of_package,
    "commands": lambda row: (_call(row),),
    "strings": _of_text,
}
