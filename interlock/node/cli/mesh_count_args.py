"""The argument tree of `interlock mesh consent`, `report` and `ledger`."""

from __future__ import annotations

import argparse
from typing import Final

from interlock.node.cli.mesh_args import Commands, add

__all__ = ["register"]

_COUNT: Final = "interlock.node.cli.mesh_count"
_REPORT: Final = "interlock.node.cli.mesh_report"
_EXAMPLE: Final = """\
an example; acme takes part in a task, and calls a block a false positive:
  interlock mesh report init coding-agent          keeps the task here; nothing is counted yet
  interlock mesh consent show coding-agent         what a yes would be a yes to
  interlock mesh consent on coding-agent
  interlock mesh run                               reports by itself, at a random time in the epoch after each
  interlock mesh report submit                     or by hand
  interlock mesh report status                     what became of each report
  interlock mesh report fp 3f2a9c                  receipt 3f2a9c was a false positive
  interlock mesh ledger                            what was told, when, and what protects it
"""


def register(group: Commands) -> None:
    """Add `consent`, `report` with its commands, and `ledger`."""
    consent = add(group, "consent", _COUNT, "consent", "say whether this node reports counts; no is the default")
    consent.add_argument("answer", choices=("on", "off", "show"), help="yes, no, or what a yes would be to")
    consent.add_argument("task", nargs="?", help="the task's name; off without one is off for all")
    told = "say whether the monitor of the configuration is told which checkpoints this node sees"
    consent.add_argument("--monitor", action="store_true", help=told)
    consent.add_argument("--demo", action="store_true", help="agree to a task with the floor of a demo")
    consent.add_argument("--json", action="store_true", help="one JSON object, for show")
    _report_commands(group)
    ledger = add(group, "ledger", _REPORT, "ledger", "what was sent, when, under which task, mechanism and noise")
    ledger.add_argument("--json", action="store_true", help="one JSON object")


def _report_commands(group: Commands) -> None:
    told = "report counts: join a task, make and send what is due, call a block a false positive"
    report = group.add_parser(
        "report",
        help=told,
        description=told[0].upper() + told[1:] + ".",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    report.set_defaults(parser=report)
    commands = report.add_subparsers(title="commands", metavar="COMMAND")
    init = add(commands, "init", _REPORT, "init", "keep a task here, and say what it counts; no consent yet")
    init.add_argument("file", metavar="TASK|FILE", help="the task's name in the commons, or its file")
    build = add(commands, "build", _REPORT, "build", "make the reports of the epochs that have ended; sends nothing")
    submit = add(commands, "submit", _REPORT, "submit", "make the reports that are due, and send what has its time")
    for parser in (build, submit):
        parser.add_argument("--close-epoch", action="store_true", help="end the running epoch early; it goes at once")
    submit.add_argument("--now", action="store_true", help="send all that is queued, and not at its random time")
    told = (
        "ask the leader what became of this node's reports: where each stands, or who turned it down, and at which step"
    )
    status = add(commands, "status", _REPORT, "status", told)
    status.add_argument("--last", metavar="N", type=int, default=20, help="of each task the last N reports (20)")
    status.add_argument("--json", action="store_true", help="one JSON object")
    called = add(commands, "fp", _REPORT, "fp", "call a block or a question of a community rule a false positive")
    called.add_argument(
        "id", metavar="RECEIPT", help="a call id (its first digits will do), or #N for the N-th receipt"
    )
    called.add_argument("--receipts", dest="file", metavar="FILE", help="the receipts (those of the configuration)")
    called.add_argument("--key", metavar="FILE", help="the chain's key file (FILE.key)")
