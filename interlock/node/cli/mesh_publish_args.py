"""The arguments of what a commons publishes: pack, publish, review, promote, revoke, reviewers, export, verify."""

from __future__ import annotations

import argparse
from typing import Final

from interlock.node.cli.mesh_args import Commands, add

__all__ = ["register"]

_MODULE: Final = "interlock.node.cli.mesh_publish"
_VERIFY: Final = "interlock.node.cli.mesh_verify"
_RINGS: Final = ("canary", "beta", "stable")


def register(group: Commands) -> None:
    """Add the commands."""
    _publish(group)
    _rings(group)
    told = "put a pack and all that shows it into one file, which verifies offline"
    export = _operator(group, "export", told)
    export.add_argument("pack", metavar="PACK@RING", help="the pack, and the ring that it is out in")
    export.add_argument("--out", metavar="FILE", required=True, help="the file to write, such as team.ilpack")
    told = "verify a .ilpack offline: signatures, log, witnesses, promotion"
    verify = add(group, "verify", _VERIFY, "verify", told)
    verify.add_argument("file", metavar="FILE", help="the .ilpack")
    verify.add_argument("--root", metavar="FILE", help="the commons' first root, in place of what a home has pinned")
    verify.add_argument("--log-policy", metavar="FILE", help="the log, its witnesses, the quorum; with --root")
    verify.add_argument("--json", action="store_true", help="one JSON object")
    verify.epilog = "example: interlock mesh verify team.ilpack --root root.json --log-policy log-policy.txt"


def _publish(group: Commands) -> None:
    told = "publish a pack in canary or beta, or a catalog; or finish a publish that was cut short"
    publish = _operator(group, "publish", told)
    publish.add_argument("pack", metavar="PACK", nargs="?", help="a policy, a pack's source or a pack; or builtin:NAME")
    publish.add_argument("--ring", choices=_RINGS, help="where the pack comes out")
    publish.add_argument("--catalog", metavar="FILE", help="publish a task's catalog in place of a pack")
    told = "a statement of consensus that a pack of indicators rests on; each of them, for it is checked once more"
    publish.add_argument("--statement", metavar="FILE", action="append", default=[], help=told)
    publish.add_argument("--demo", action="store_true", help="let statements of demonstrations count")
    _key(publish, "sign with this key, such as a reviewer's own, in place of the role's")
    cut_short = publish.add_mutually_exclusive_group()
    cut_short.add_argument("--resume", action="store_true", help="finish what was cut short")
    cut_short.add_argument("--abandon", action="store_true", help="give it up, where the log has not acknowledged it")
    _bench(publish)
    _source(publish)
    publish.epilog = "example: interlock mesh publish team.yaml --ring beta --corpus corpora --dir commons"
    pack = add(group, "pack", _MODULE, "pack", "make a pack from its source, as one canonical file", home=False)
    pack.add_argument("pack", metavar="SOURCE", help="a policy or a pack's source, JSON or YAML; or builtin:NAME")
    pack.add_argument("--out", metavar="FILE", required=True, help="the file to write")
    _source(pack)


def _rings(group: Commands) -> None:
    review = _operator(group, "review", "log a reviewer's word on what is out in a ring")
    review.add_argument("pack", metavar="PACK@RING", help="the pack, and the ring that it is out in")
    _key(review, "the reviewer's key", required=True)
    verdict = review.add_mutually_exclusive_group(required=True)
    verdict.add_argument("--approve", dest="verdict", action="store_const", const="approve", help="let it on to stable")
    verdict.add_argument("--reject", dest="verdict", action="store_const", const="reject", help="keep it out of stable")
    review.add_argument("--note", default="", metavar="TEXT", help="one line, for whoever reads the log")
    promote = _operator(group, "promote", "bring a version that is out in a ring on to a later one")
    promote.add_argument("pack", metavar="PACK@VERSION", help="the pack, and the version that is out")
    promote.add_argument("--from", dest="from_ring", choices=_RINGS[:2], default="beta", help="default: %(default)s")
    promote.add_argument("--to", choices=_RINGS[1:], default="stable", help="default: %(default)s")
    _key(promote, "sign with this key in place of the role's")
    _bench(promote)
    promote.epilog = "example: interlock mesh promote team@3 --from beta --to stable --corpus corpora --dir commons"
    revoke = _operator(group, "revoke", "take a version of a pack back, or rules of it")
    told = "one version; PACK alone: every version that is out and has the rules"
    revoke.add_argument("pack", metavar="PACK[@VERSION]", help=told)
    revoke.add_argument("--rule", action="append", default=[], metavar="ID", help="only this rule; may be repeated")
    revoke.add_argument("--why", required=True, metavar="TEXT", help="one line, which every node says")
    _key(revoke, "the author's key; without it the rings' own say so")
    told = "and whoever has it in force takes it out, granted rules too: those who hold targets have to sign"
    revoke.add_argument("--removal", action="store_true", help=told)
    reviewers = _operator(group, "reviewers", "say who reviews, and how many approvals stable needs; or show it")
    reviewers.add_argument(
        "--add", action="append", default=[], metavar="NAME=KEY", help="a key in its text form, or its file"
    )
    reviewers.add_argument("--end", action="append", default=[], metavar="NAME", help="their word counts until now")
    reviewers.add_argument("--threshold", type=int, metavar="N", help="distinct reviewers who approve")


def _operator(group: Commands, name: str, told: str) -> argparse.ArgumentParser:
    parser = add(group, name, _MODULE, name, told, home=False)
    parser.add_argument("--dir", metavar="DIR", help="the commons' folder")
    return parser


def _key(parser: argparse.ArgumentParser, told: str, *, required: bool = False) -> None:
    parser.add_argument("--key", metavar="FILE", required=required, help=told)
    parser.add_argument("--passphrase-file", metavar="FILE", help="what opens it, where it is sealed")


def _bench(parser: argparse.ArgumentParser) -> None:
    corpus = parser.add_mutually_exclusive_group()
    corpus.add_argument("--corpus", metavar="DIR", help="the folder of the corpus that the gate measures on")
    corpus.add_argument("--no-corpus", action="store_true", help="go without one, on the record")


def _source(parser: argparse.ArgumentParser) -> None:
    """What a policy does not say of itself."""
    parser.add_argument("--version", type=int, metavar="N", help="the pack's version, where its source has none")
    parser.add_argument("--author", action="append", metavar="NAME", help="who wrote it; may be repeated")
    parser.add_argument(
        "--sign-off", action="append", metavar="NAME<MAIL>", help="an author's DCO: 'Ada <ada@a.example>'"
    )
    parser.add_argument("--licence", metavar="SPDX", help="default: the source's, or Apache-2.0")
    parser.add_argument("--status", choices=("active", "shadow", "deprecated"), help="default: the source's, or active")
    parser.add_argument("--author-key", metavar="KEY", help="with which its author may take it back, in its text form")
