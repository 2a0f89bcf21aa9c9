"""The argument tree of `interlock mesh members` and `interlock mesh tally`."""

from __future__ import annotations

import argparse
from typing import Final

from interlock.node.cli.mesh_args import Commands, add

__all__ = ["register"]

AGES: Final = (0, 30, 180)  # days; as commons.membership has them, which needs the extra
_MEMBERS: Final = "interlock.node.cli.mesh_members"
_JOINED: Final = "interlock.node.cli.mesh_joined"
_EXAMPLE: Final = """\
an example; the issuer's operator enrols acme, and acme fetches its right to report:
  interlock mesh setup --role issuer --dir issuer --operator enrol.example    prints the issuer's key
  interlock mesh members invite --dir issuer --organisation acme --out acme.invite
  interlock mesh members join --issuer https://enrol.example --issuer-key ed25519:... --invite acme.invite
  interlock mesh members keys --dir issuer --task task.json --epochs 30 --out keys
  interlock mesh members publish keys/*.json --dir commons                    by the commons' operator
  interlock mesh members token                                                `mesh run` does this by itself
  interlock mesh members audit coding-agent 20788 --reports 41                by anyone
"""


def register(group: Commands) -> None:
    """Add `members` with its commands, and `tally`."""
    members = group.add_parser(
        "members",
        help="who may report: enrol organisations, give out tokens, count them",
        description="Who may report: enrol organisations, give out tokens, count them.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    members.set_defaults(parser=members)
    commands = members.add_subparsers(title="commands", metavar="COMMAND")
    _issuer_commands(commands)
    _epoch_commands(commands)
    _organisation_commands(commands)
    tally = add(group, "tally", _JOINED, "tally", "write what this node saw, for the node that reports for all")
    tally.add_argument("task", help="the task's name")
    tally.add_argument("--out", metavar="FILE", required=True, help="where to write it; what is there is replaced")


def _issuer(commands: Commands, name: str, told: str) -> argparse.ArgumentParser:
    parser = add(commands, name, _MEMBERS, name, told, home=False, config=False)
    parser.add_argument("--dir", metavar="DIR", required=True, help="the issuer's folder")
    return parser


def _issuer_commands(commands: Commands) -> None:
    invite = _issuer(commands, "invite", "make an invite: a code that enrols one organisation, once")
    invite.add_argument(
        "--organisation", metavar="NAME", default="", help="only for this one; needed after a revocation"
    )
    invite.add_argument("--days", type=int, default=14, metavar="N", help="how long it holds (default: %(default)s)")
    invite.add_argument("--out", metavar="FILE", required=True, help="a new file for the code; only its hash is kept")
    listed = _issuer(commands, "list", "the organisations: enrolled, waiting, revoked")
    listed.add_argument("--json", action="store_true", help="one JSON object")
    approve = _issuer(commands, "approve", "enrol an organisation that waits")
    approve.add_argument("organisation", metavar="NAME", help="the organisation that waits")
    revoke = _issuer(commands, "revoke", "give an organisation no token any more")
    revoke.add_argument("organisation", metavar="NAME", help="the organisation")


def _epoch_commands(commands: Commands) -> None:
    keys = _issuer(commands, "keys", "make the keys of a task's next epochs, as files to publish")
    keys.add_argument("--task", metavar="FILE", required=True, help="the DAP task, as members have it")
    keys.add_argument("--epochs", type=int, default=30, metavar="N", help="how many (default: %(default)s)")
    keys.add_argument(
        "--least-age",
        type=int,
        choices=AGES,
        default=0,
        help="only organisations enrolled for so many days get a token (default: %(default)s)",
    )
    keys.add_argument("--first", type=int, metavar="EPOCH", help="the first one; by default the running one")
    keys.add_argument("--operators", metavar="FILE", help="the commons' list: refuse a task of our own aggregators")
    keys.add_argument("--out", metavar="DIR", required=True, help="the folder for the files")
    count = _issuer(commands, "count", "how many tokens of an epoch were given out: the issuer's signed count")
    count.add_argument("task", help="the task's name")
    count.add_argument("epoch", type=int, help="the epoch's number, as a collected batch names it")
    count.add_argument("--out", metavar="FILE", help="write it to a file, to be published once it is final")
    told = "publish member keys, or final counts, in a commons and its log"
    publish = add(commands, "publish", _MEMBERS, "publish", told, home=False)
    publish.add_argument("files", metavar="FILE", nargs="+", help="member keys, or final counts")
    publish.add_argument("--dir", metavar="DIR", required=True, help="the commons' folder")


def _organisation_commands(commands: Commands) -> None:
    join = add(commands, "join", _JOINED, "join", "enrol this organisation with an issuer")
    join.add_argument("--issuer", metavar="URL", required=True, help="where it is")
    join.add_argument("--issuer-key", metavar="KEY", required=True, help="its key, from somebody you trust")
    join.add_argument(
        "--invite", metavar="FILE", help="the invite's file; without one a person decides: join again then"
    )
    join.add_argument("--organisation", metavar="NAME", help="by default that of the [mesh] section")
    add(commands, "token", _JOINED, "token", "fetch this organisation's tokens of the epochs that it is to report")
    audit = add(commands, "audit", _JOINED, "audit", "hold an issuer's count against members, and a batch's reports")
    audit.add_argument("task", help="the task's name")
    audit.add_argument("epoch", type=int, help="the epoch's number, as a collected batch names it")
    audit.add_argument("--issuer", metavar="URL", help="by default the one that this organisation joined")
    audit.add_argument("--reports", type=int, metavar="N", help="how many reports the batch had")
    audit.add_argument("--json", action="store_true", help="one JSON object")
