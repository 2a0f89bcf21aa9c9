"""The argument tree of `interlock mesh log` and `interlock mesh gossip`."""

from __future__ import annotations

import argparse
from typing import Final

from interlock.node.cli.mesh_args import Commands, add

__all__ = ["register"]

_LOG: Final = "interlock.node.cli.mesh_log"
_GOSSIP: Final = "interlock.node.cli.mesh_gossip"
_LOG_EXAMPLE: Final = """\
examples:
  interlock mesh log append entry.json --policy log-policy.txt --token token     writes entry.json.tlog-proof
  interlock mesh log verify entry.json.tlog-proof --entry entry.json --policy log-policy.txt     needs no network
  interlock mesh log proof 7 --policy log-policy.txt --log http://mirror.example/log --out 7.tlog-proof
  interlock mesh log fsck /srv/log                                               the whole log, made again
  interlock mesh log cosign --dir w0 log.example/packs+0d8d0a0b+AZ...            a witness takes one more log

The policy (C2SP tlog-policy) names the log, where it is, its witnesses and the quorum.
"""
_GOSSIP_EXAMPLE: Final = """\
examples:
  interlock mesh gossip --policy log-policy.txt http://mirror.example/log friend.checkpoint
  interlock mesh gossip --home node --show > mine.checkpoint                     to give to somebody else

The log and the witnesses that the policy has a URL of are asked too. Nothing is sent to anybody but these requests:
what this node saw is given to others only by whoever runs --show and hands it over. A log that signed two histories
is shown by an evidence file, and the exit code is 1; so it is where a checkpoint cannot be compared.
"""


def register(group: Commands) -> None:
    """Add `log` with its commands, and `gossip`."""
    told = "add to a log, prove and check entries, read a whole log, tell a witness of a log"
    log = group.add_parser(
        "log",
        help=told,
        description=told[0].upper() + told[1:] + ".",
        epilog=_LOG_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    log.set_defaults(parser=log)
    commands = log.add_subparsers(title="commands", metavar="COMMAND")
    _append(commands)
    _proof(commands)
    _verify(commands)
    _fsck(commands)
    _cosign(commands)
    _gossip(group)


def _added(group: Commands, name: str, told: str, example: str) -> argparse.ArgumentParser:
    parser = add(group, name, _LOG, name, told, home=False, config=False)
    parser.epilog, parser.formatter_class = f"example:\n  {example}\n", argparse.RawDescriptionHelpFormatter
    return parser


def _policy(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument("--policy", metavar="FILE", required=required, help="the log, its witnesses, the quorum")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def _append(group: Commands) -> None:
    example = "interlock mesh log append entry.json --policy log-policy.txt --token token"
    append = _added(group, "append", "add an entry to a log; writes its proof, once that verifies", example)
    append.add_argument("file", metavar="FILE|-", help="the entry's bytes; - is standard input")
    append.add_argument("--token", metavar="FILE", required=True, help="the publisher's bearer token (0600)")
    append.add_argument("--log", metavar="URL", help="the log; by default the policy says where it is")
    append.add_argument("--out", metavar="FILE", help="the proof; by default FILE.tlog-proof, or standard output for -")
    _policy(append)


def _proof(group: Commands) -> None:
    example = "interlock mesh log proof --entry entry.json --policy log-policy.txt --out entry.json.tlog-proof"
    proof = _added(group, "proof", "prove an entry from a log's tiles, wherever they are served", example)
    proof.add_argument("index", metavar="INDEX", nargs="?", type=int, help="the entry's number")
    proof.add_argument("--entry", metavar="FILE", help="the entry's bytes, to be looked for in the whole log")
    proof.add_argument("--log", metavar="URL|DIR", help="the log or a copy; by default the policy says where")
    proof.add_argument("--out", metavar="FILE", help="the proof; standard output by default")
    _policy(proof)


def _verify(group: Commands) -> None:
    example = "interlock mesh log verify entry.json.tlog-proof --entry entry.json --policy log-policy.txt"
    verify = _added(group, "verify", "check a proof offline: the log, the quorum, the entry's place", example)
    verify.add_argument("file", metavar="FILE.tlog-proof", help="the proof")
    verify.add_argument("--entry", metavar="FILE", required=True, help="the entry's bytes")
    _policy(verify)


def _fsck(group: Commands) -> None:
    example = "interlock mesh log fsck http://mirror.example/log --policy log-policy.txt"
    told = "make a log's whole tree again from its entries, and say the first place that does not fit"
    fsck = _added(group, "fsck", told, example)
    fsck.add_argument("log", metavar="DIR|URL", help="a log's folder (its journal is read too), or a served copy")
    _policy(fsck, required=False)


def _cosign(group: Commands) -> None:
    example = "interlock mesh log cosign --dir w0 log.example/packs+0d8d0a0b+AZ..."
    cosign = _added(group, "cosign", "let a witness cosign for more logs, also while it runs; lists them", example)
    cosign.add_argument("key", metavar="VKEY", nargs="*", help="a log's key, as its line in a policy has it")
    cosign.add_argument("--dir", metavar="DIR", required=True, help="the witness's folder")
    cosign.add_argument("--remove", action="store_true", help="take the keys out again")
    cosign.add_argument("--json", action="store_true", help="one JSON object")


def _gossip(group: Commands) -> None:
    told = "compare what several places show of a log: mirrors, witnesses, files of other nodes"
    gossip = add(group, "gossip", _GOSSIP, "gossip", told)
    gossip.epilog, gossip.formatter_class = _GOSSIP_EXAMPLE, argparse.RawDescriptionHelpFormatter
    gossip.add_argument(
        "place", metavar="PLACE", nargs="*", help="a mirror's log, a witness, a checkpoint, a proof, evidence"
    )
    gossip.add_argument("--policy", metavar="FILE", help="the log and its witnesses; by default what this node pinned")
    gossip.add_argument("--evidence", metavar="DIR", help="where evidence goes; by default the node's, or this folder")
    gossip.add_argument("--show", action="store_true", help="print the checkpoint that this node saw last, and no more")
    gossip.add_argument("--json", action="store_true", help="one JSON object")
