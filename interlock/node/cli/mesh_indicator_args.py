"""The argument tree of `interlock mesh indicator`."""

from __future__ import annotations

import argparse
from typing import Final

from interlock.node.cli.mesh_args import Commands, add

__all__ = ["register"]

_INDICATOR: Final = "interlock.node.cli.mesh_indicator"
_KINDS: Final = ("file", "host", "mcp", "package")
_EXAMPLE: Final = """\
an example; a host that one met becomes a rule that all have:
  interlock mesh indicator propose host evil.example --out evil.proposal.json     by whoever met it
  interlock mesh indicator catalog hosts-1 --proposal evil.proposal.json --opens-in 1d --out catalog.json
  interlock mesh publish --catalog catalog.json --dir commons                     by a curator
  interlock mesh indicator consensus collected.json --task task.json --key collector.key --out said.json
  interlock mesh indicator pack indicator-hosts said.json --version 1 --author Rita \\
      --sign-off 'Rita <rita@example.org>' --out pack.json
  interlock mesh publish pack.json --ring beta --dir commons                      then a person reviews it:
  interlock mesh indicator check said.json --pack pack.json                       by the reviewer, or by anyone
"""


def register(group: Commands) -> None:
    """Add `indicator` with its commands."""
    told = "what many saw: propose candidates, say what enough of them saw, make a pack of it"
    indicator = group.add_parser(
        "indicator",
        help=told,
        description=told[0].upper() + told[1:] + ".",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    indicator.set_defaults(parser=indicator)
    commands = indicator.add_subparsers(title="commands", metavar="COMMAND")
    _propose(commands)
    _catalog(commands)
    _consensus(commands)
    _pack(commands)
    _check(commands)


def _propose(commands: Commands) -> None:
    told = "propose a candidate to a curator: says what that reveals, asks, and writes its digest"
    propose = add(commands, "propose", _INDICATOR, "propose", told, home=False, config=False)
    propose.add_argument("kind", choices=_KINDS, help="what the candidate is")
    propose.add_argument(
        "value", help="a public host; ECOSYSTEM:NAME@VERSION, or @* for all; of file and mcp the SHA-256"
    )
    propose.add_argument("--out", metavar="FILE", required=True, help="where to write the proposal")
    propose.add_argument("--yes", action="store_true", help="do not ask; the same is said on standard error")


def _catalog(commands: Commands) -> None:
    told = "make a task's catalog of rules and proposals, to be published before it opens"
    catalog = add(commands, "catalog", _INDICATOR, "catalog", told, home=False, config=False)
    catalog.add_argument("task", help="the task's new name")
    catalog.add_argument("--rules", metavar="PACK", action="append", default=[], help="a pack, whose rules it counts")
    catalog.add_argument("--proposal", metavar="FILE", action="append", default=[], help="a candidate; may be repeated")
    catalog.add_argument(
        "--opens-in", metavar="TIME", default="1d", help="when it opens, as 90m, 12h, 7d (%(default)s)"
    )
    catalog.add_argument(
        "--false-positives",
        action="store_true",
        help="count what people call false positives, not what guards object to",
    )
    catalog.add_argument("--out", metavar="FILE", required=True, help="the catalog's new file")


def _consensus(commands: Commands) -> None:
    told = "say of a collected epoch what at least so many organisations saw, and nothing else"
    consensus = add(commands, "consensus", _INDICATOR, "consensus", told)
    consensus.add_argument(
        "collected", metavar="FILE", help="what `interlock mesh dap collect` gave: keep it to yourself"
    )
    consensus.add_argument("--task", metavar="FILE", required=True, help="the task, as the collector has it")
    consensus.add_argument(
        "--key", metavar="FILE", required=True, help="the statement key that the task names (`dap key --statements`)"
    )
    consensus.add_argument("--catalog", metavar="FILE", help="its catalog; by default as the commons has it")
    consensus.add_argument("--member-keys", metavar="FILE", help="of the batch's epoch; by default likewise")
    consensus.add_argument("--count", metavar="FILE", help="the issuer's signed count of the epoch")
    consensus.add_argument("--at-least", type=int, metavar="K", help="by default what it takes for its members' age")
    consensus.add_argument("--days", type=int, default=90, metavar="N", help="how long it holds (default: %(default)s)")
    consensus.add_argument("--out", metavar="FILE", required=True, help="the statement's new file")


def _pack(commands: Commands) -> None:
    told = "make an indicator pack of all statements there are: what holds, what is disputed, not what has ended"
    pack = add(commands, "pack", _INDICATOR, "pack", told)
    pack.add_argument("name", help="the pack's name, indicator-...")
    _statements(pack)
    pack.add_argument("--version", type=int, required=True, metavar="N", help="the pack's; above what is out")
    pack.add_argument("--author", action="append", required=True, metavar="NAME", help="may be repeated")
    pack.add_argument("--sign-off", action="append", default=[], metavar="NAME<MAIL>", help="an author's DCO")
    pack.add_argument("--proposal", metavar="FILE", help="where to write what a person should look at")
    pack.add_argument("--out", metavar="FILE", required=True, help="the pack's new file")


def _check(commands: Commands) -> None:
    told = "say what statements say and in whose word, and whether a pack follows from just them"
    check = add(commands, "check", _INDICATOR, "check", told)
    _statements(check)
    check.add_argument("--pack", metavar="FILE", help="the pack that is said to follow from them")


def _statements(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("statements", metavar="FILE", nargs="+", help="what `indicator consensus` wrote")
    told = "the task of a statement, whose collector alone may speak; again for each. By default as it was published"
    parser.add_argument("--task", metavar="FILE", action="append", default=[], help=told)
    parser.add_argument(
        "--catalog",
        metavar="FILE",
        action="append",
        default=[],
        help="its catalog; again for each. By default as it was published",
    )
    parser.add_argument("--demo", action="store_true", help="let statements of demonstrations count")
