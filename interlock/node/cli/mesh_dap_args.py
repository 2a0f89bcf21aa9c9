"""The argument tree of `interlock mesh dap`: tasks, a trial pair, reports sent by hand, and collecting."""

from __future__ import annotations

import argparse
from typing import Final

from interlock.node.cli.mesh_args import Commands, add, add_service

__all__ = ["DRAFTS", "register"]

DRAFTS: Final = ("dap-18", "dap-19", "dap-20")
_VDAFS: Final = ("sumvec", "count", "sum", "histogram", "multihot")
_BATCH_MODES: Final = ("time-interval", "leader-selected")
_TASK: Final = "interlock.node.cli.mesh_dap_task"
_DAP: Final = "interlock.node.cli.mesh_dap"
_WITHDRAW: Final = "interlock.node.cli.mesh_dap_withdraw"
_PAIR: Final = "interlock.node.cli.mesh_dap_pair"
_EXAMPLE: Final = """\
an example; both aggregators on this machine, for a trial, then a report and a result by hand:
  interlock mesh dap pair --dir trial                                prints the lines to submit and to collect
a real task, of a commons whose catalog is out, run by two operators:
  interlock mesh dap key --out collector.json --public collector.pub --statements collector.key    by the collector
  interlock mesh dap task create hosts-1 --catalog hosts-1.json --collector ed25519:HEX \\
      --leader https://dap.acme.example --helper https://dap.globex.example \\
      --dir commons --out task.json                                        by the commons: signed and logged
  interlock mesh dap task add task.json --dir leader --collector collector.pub --secret verify.secret
  interlock mesh dap task add task.json --dir helper --collector collector.pub --secret verify.secret
  interlock mesh dap collect --task task.json --key collector.json --token collector.token
"""


def register(group: Commands) -> None:
    """Add `dap` with its commands."""
    dap = group.add_parser(
        "dap",
        help="tasks that are counted by two aggregators, a trial pair, and collecting",
        description="Counts that no one can read alone: the tasks, a trial pair, and what a batch comes to.",
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    dap.set_defaults(parser=dap)
    commands = dap.add_subparsers(title="commands", metavar="COMMAND")
    task = commands.add_parser("task", help="make tasks, look at them, and take them on as an aggregator")
    task.set_defaults(parser=task)
    _task_commands(task.add_subparsers(title="commands", metavar="COMMAND"))
    _key(commands)
    _submit(commands)
    _collect(commands)
    _pair(commands)


def _task_commands(commands: Commands) -> None:
    _create(commands)
    told = "the tasks in an aggregator's folder, or those of this node"
    listed = add(commands, "list", _TASK, "list", told)
    listed.epilog = "example: interlock mesh dap task list --dir leader"
    listed.add_argument("--dir", metavar="DIR", help="an aggregator's folder; by default this node's home")
    listed.add_argument("--json", action="store_true", help="one JSON object")
    show = add(commands, "show", _TASK, "show", "what a task says, from its file or, by name, from the commons")
    show.epilog = "example: interlock mesh dap task show hosts-1 --out task.json"
    show.add_argument("task", metavar="FILE|NAME", help="a task's file; else its name in the commons this node follows")
    show.add_argument("--dir", metavar="DIR", help="an aggregator's folder: show what of the budget is spent there")
    show.add_argument("--out", metavar="FILE", help="keep the task in this file")
    show.add_argument("--json", action="store_true", help="one JSON object")
    told = "take a published task back, for ever: signed and logged in that commons"
    withdrawn = add(commands, "withdraw", _WITHDRAW, "withdraw", told, home=False)
    withdrawn.epilog = "example: interlock mesh dap task withdraw hosts-1 --why 'its key was lost' --dir commons"
    withdrawn.add_argument("name", metavar="NAME", help="its name in the commons")
    withdrawn.add_argument("--why", metavar="TEXT", required=True, help="one line, for whoever took part")
    withdrawn.add_argument("--dir", metavar="DIR", required=True, help="the commons' folder")
    told = "a task of others, from its TaskConfiguration as DAP has it: bytes, hex or Base 64"
    taken = add(commands, "import", _TASK, "taken", told, home=False, config=False)
    taken.epilog = "example: interlock mesh dap task import taskprov.txt --draft dap-18 --out task.json"
    taken.add_argument("file", metavar="FILE", help="the configuration")
    taken.add_argument("--draft", choices=DRAFTS, default=DRAFTS[0], help="of DAP; all but %(default)s are unverified")
    taken.add_argument("--demo", action="store_true", help="take a floor of less than ten reports")
    _batch_size(taken)
    taken.add_argument("--out", metavar="FILE", required=True, help="the task's file")
    adds = add(commands, "add", _TASK, "add", "take a task on as an aggregator, once its checks hold", home=False)
    adds.epilog = (
        "example: interlock mesh dap task add task.json --dir leader --collector collector.pub --secret verify.secret"
    )
    adds.add_argument("task", metavar="FILE", help="the task's file")
    adds.add_argument("--dir", metavar="DIR", required=True, help="the folder of a leader or a helper")
    adds.add_argument("--collector", metavar="FILE", required=True, help="the collector's public key")
    told = "what leader and helper share; made here if it is not there, then handed to the other operator"
    adds.add_argument("--secret", metavar="FILE", required=True, help=told)
    adds.add_argument("--demo", action="store_true", help="take a task with the floor of a demo")


def _create(commands: Commands) -> None:
    create = add(
        commands, "create", _TASK, "create", "make a task; with --dir, sign and log it in that commons", home=False
    )
    create.epilog = (
        "example: interlock mesh dap task create hosts-1 --catalog hosts-1.json --leader https://dap.acme.example"
        " --helper https://dap.globex.example --collector ed25519:HEX --dir commons --out task.json"
    )
    create.add_argument("name", metavar="NAME", help="its name in the commons: that of its catalog")
    create.add_argument(
        "--leader",
        metavar="URL",
        required=True,
        help="which members send to",
    )
    create.add_argument("--helper", metavar="URL", required=True, help="another operator's")
    told = "the key that speaks for the collector, as ed25519:HEX: nobody else may say what the sums show"
    create.add_argument("--collector", metavar="KEY", help=told)
    what = create.add_mutually_exclusive_group()
    what.add_argument("--catalog", metavar="FILE", help="what its places mean")
    what.add_argument("--length", type=int, metavar="N", help="so many places without a meaning, for a trial")
    _vdaf(create)
    told = "least number of reports in a batch (default: %(default)s, the floor of a real task)"
    create.add_argument("--min-batch", type=int, metavar="N", default=10, help=told)
    told = "seconds; one report of each organisation in each (default: a day)"
    create.add_argument("--epoch", type=int, metavar="S", default=86_400, help=told)
    create.add_argument("--days", type=int, metavar="N", default=180, help="how long it counts (default: %(default)s)")
    create.add_argument("--draft", choices=DRAFTS, default=DRAFTS[0], help="of DAP; all but %(default)s are unverified")
    told = "how reports prove that members sent them (default: %(default)s); none is for trials"
    create.add_argument("--members", choices=("blind-token", "certificate", "none"), default="blind-token", help=told)
    told = "what a batch is: some epochs, or what the leader puts together (default: %(default)s)"
    create.add_argument("--batch-mode", choices=_BATCH_MODES, default=_BATCH_MODES[0], help=told)
    _batch_size(create)
    noise = create.add_argument_group("differential privacy")
    noise.add_argument("--noise", choices=("gaussian", "laplace"), help="each aggregator adds it in full")
    told = "what the release of one epoch costs: rho (gaussian) or epsilon (laplace), such as 1/2"
    noise.add_argument("--cost", metavar="Q", help=told)
    noise.add_argument("--budget", metavar="Q", help="what all releases of the task may cost together")
    create.add_argument("--demo", action="store_true", help="a task with the floor of a demo")
    create.add_argument("--out", metavar="FILE", help="the task's file, for aggregators, collector and members")
    create.add_argument("--dir", metavar="DIR", help="the commons' folder")


def _batch_size(parser: argparse.ArgumentParser) -> None:
    told = "reports that the leader fills a batch with, where it selects them (default: the least that one needs)"
    parser.add_argument("--batch-size", type=int, metavar="N", help=told)


def _vdaf(parser: argparse.ArgumentParser) -> None:
    told = "what is counted (default: %(default)s, the one of a catalog): Prio3 of this type"
    parser.add_argument("--vdaf", choices=_VDAFS, default=_VDAFS[0], help=told)
    told = "sum, sumvec: the largest number; multihot: how many ones a report has at most (default: %(default)s)"
    parser.add_argument("--most", type=int, metavar="N", default=1, help=told)


def _key(commands: Commands) -> None:
    key = add(commands, "key", _TASK, "key", "make a collector's keys", home=False, config=False)
    key.epilog = (
        "example: interlock mesh dap key --out collector.json --public collector.pub --statements collector.key"
    )
    key.add_argument("--out", metavar="FILE", required=True, help="the new private key; kept as it is if it is there")
    key.add_argument("--public", metavar="FILE", required=True, help="what the aggregators get")
    told = "a second key, which signs what is told of the sums; made if it is not there, and printed for the task"
    key.add_argument("--statements", metavar="FILE", help=told)


def _submit(commands: Commands) -> None:
    told = "send measurements to a task by hand, for a trial or a task of others"
    submit = add(commands, "submit", _DAP, "submit", told, home=False, config=False)
    submit.epilog = "example: interlock mesh dap submit --task task.json --token member.token --ones 0,3"
    submit.add_argument("--task", metavar="FILE", required=True, help="the task's file")
    told = "the leader's bearer token, where it asks for one; a folder has one for each report"
    submit.add_argument("--token", metavar="FILE|DIR", help=told)
    what = submit.add_mutually_exclusive_group(required=True)
    what.add_argument("--ones", metavar="PLACES", help="one report: 1 at these places, such as 0,3; 0 elsewhere")
    told = "one report: its number (count, sum), its bucket (histogram), or a number a place, such as 3,0,1"
    what.add_argument("--measurement", metavar="NUMBERS", help=told)
    told = "one report a line: a 0 or 1 a place, such as 1001, or numbers as --measurement has them; - is stdin"
    what.add_argument("--file", metavar="FILE", help=told)
    submit.add_argument("--json", action="store_true", help="one JSON object")


def _collect(commands: Commands) -> None:
    collect = add(commands, "collect", _DAP, "collect", "ask for what a batch comes to", home=False, config=False)
    collect.epilog = "example: interlock mesh dap collect --task task.json --key collector.json --token collector.token"
    collect.add_argument("--task", metavar="FILE", required=True, help="the task's file")
    collect.add_argument("--key", metavar="FILE", help="the collector's private key; giving up needs none")
    collect.add_argument("--token", metavar="FILE", required=True, help="the leader's bearer token for the collector")
    collect.add_argument("--first", type=int, metavar="EPOCH", help="its first epoch (default: the last complete one)")
    collect.add_argument("--epochs", type=int, metavar="N", default=1, help="how many (default: %(default)s)")
    collect.add_argument("--running", action="store_true", help="up to the epoch that is under way, and close it")
    told = "take the question back, of a batch that never fills: its reports stay, and other epochs may be asked for"
    collect.add_argument("--give-up", action="store_true", help=told)
    told = "the leader's next batch, in a task whose leader selects them; told once, or kept in --out"
    collect.add_argument("--next", action="store_true", help=told)
    collect.add_argument("--wait", type=float, metavar="S", default=60, help="seconds to wait (default: %(default)s)")
    collect.add_argument("--catalog", metavar="FILE", help="show what each place means")
    collect.add_argument("--out", metavar="FILE", help="keep the result in this new private file")
    collect.add_argument("--json", action="store_true", help="one JSON object")


def _pair(commands: Commands) -> None:
    told = "a trial: leader, helper and collector on this machine, until Ctrl-C"
    pair = add(commands, "pair", _PAIR, "pair", told, home=False, config=False)
    pair.epilog = "example: interlock mesh dap pair --dir trial"
    pair.add_argument("--dir", metavar="DIR", required=True, help="a folder for all of it; made at the first start")
    pair.add_argument("--length", type=int, metavar="N", default=8, help="places (default: %(default)s)")
    _vdaf(pair)
    pair.add_argument("--min-batch", type=int, metavar="N", default=3, help="reports a batch (default: %(default)s)")
    pair.add_argument("--epoch", type=int, metavar="S", default=300, help="seconds (default: %(default)s)")
    pair.add_argument("--batch-mode", choices=_BATCH_MODES, default=_BATCH_MODES[0], help="what a batch is")
    _batch_size(pair)
    pair.add_argument("--draft", choices=DRAFTS, default=DRAFTS[0], help="of DAP; all but %(default)s are unverified")
    pair.add_argument("--noise", choices=("gaussian", "laplace"), help="each aggregator adds it in full")
    pair.add_argument("--cost", metavar="Q", help="of one epoch: rho (gaussian) or epsilon (laplace), such as 1/2")
    pair.add_argument("--budget", metavar="Q", help="of all releases together")
    add_service(pair)
