"""The argument tree of `interlock mesh ceremony`, `interlock mesh keys` and `interlock mesh operators`."""

from __future__ import annotations

import argparse
from typing import Final

from interlock.node.cli.mesh_args import Commands, add

__all__ = ["register"]

_CEREMONY: Final = "interlock.node.cli.mesh_ceremony"
_OPERATORS: Final = "interlock.node.cli.mesh_operators"
_KEYS: Final = "interlock.node.cli.mesh_keys"
_CEREMONY_EXAMPLE: Final = """\
an example, with a stick that goes from hand to hand:
  interlock mesh ceremony request --dir commons --holder ada.holder.json --holder ben.holder.json --out /stick
  interlock mesh ceremony sign /stick/request.json --key ada.ed25519.key        (ada, at home)
  interlock mesh ceremony sign /stick/request.json --key ben.ed25519.key        (ben, at home)
  interlock mesh ceremony assemble /stick/request.json
  interlock mesh ceremony install /stick/2.root.json --dir commons

what waits for the holders of targets, such as a removal, goes the same way:
  interlock mesh ceremony request --targets --dir commons --out /stick

Each keyholder reads the words and the digest that `sign` shows, and compares the digest with the others by voice.
"""
_KEYS_EXAMPLE: Final = """\
examples:
  interlock mesh keys create --holder ada --employer Acme --out keys     a keyholder's own keys, and her card
  interlock mesh keys list --dir commons --json                          which key does what, and until when
  interlock mesh keys rotate snapshot --dir commons --out /stick         a new key, and the request that names it
"""
_OPERATORS_EXAMPLE: Final = """\
an example of FILE:
  {"format": "interlock-operators", "v": 1, "version": 1, "operators": [
    {"name": "Acme log", "organisation": "Acme", "roles": {"log": ["log.acme.example+0d8d0a0b+AZ..."]}},
    {"name": "Borealis", "organisation": "Borealis e.V.", "roles": {"witness": ["w.borealis.example+1e5d+BN..."],
                                                              "leader": ["https://leader.borealis.example"]}}]}
"""


def register(group: Commands) -> None:
    """Add `ceremony`, `keys` and `operators` with their commands."""
    ceremony = _group(
        group,
        "ceremony",
        "make or change a root, or what targets say, with keyholders who sign apart",
        _CEREMONY_EXAMPLE,
    )
    _request(ceremony)
    _sign(ceremony)
    _assemble(ceremony)
    keys = _group(group, "keys", "list, create, rotate and export keys", _KEYS_EXAMPLE)
    _create(keys)
    _list(keys)
    _rotate(keys)
    _export(keys)
    _operators(_group(group, "operators", "who runs what in a commons", _OPERATORS_EXAMPLE))


def _group(group: Commands, name: str, told: str, example: str) -> Commands:
    parser = group.add_parser(
        name,
        help=told,
        description=told[0].upper() + told[1:] + ".",
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(parser=parser)
    return parser.add_subparsers(title="commands", metavar="COMMAND")


def _add(group: Commands, name: str, module: str, function: str, told: str) -> argparse.ArgumentParser:
    return add(group, name, module, function, told, home=False, config=False)


def _request(group: Commands) -> None:
    request = _add(
        group, "request", _CEREMONY, "request", "write what keyholders are asked to sign, and say it in words"
    )
    request.add_argument("--dir", metavar="DIR", help="the commons' folder: its newest root and its online keys")
    request.add_argument("--previous", metavar="FILE", help="the root to change, where it is not in --dir")
    request.add_argument(
        "--holder", action="append", default=[], metavar="CARD", help="who joins, or has new keys; may be repeated"
    )
    request.add_argument("--remove", action="append", default=[], metavar="NAME", help="who leaves; may be repeated")
    request.add_argument(
        "--online",
        action="append",
        default=[],
        metavar="ROLE=KEY",
        help="the public key of targets, snapshot or timestamp, where it is not in --dir",
    )
    request.add_argument(
        "--threshold",
        type=int,
        metavar="N",
        help="signatures that a root needs (default: as before; else a majority, also where a family is broken)",
    )
    _request_of_targets(request)
    request.add_argument(
        "--days", type=int, default=365, metavar="N", help="the life of what is signed (default: %(default)s)"
    )
    request.add_argument("--log-policy", metavar="FILE", help="the log policy that the root names by its digest")
    request.add_argument("--out", metavar="FILE|DIR", required=True, help="where the request goes")


def _request_of_targets(request: argparse.ArgumentParser) -> None:
    told = "ask for no root: for what waits for the holders of targets, or only a later end"
    request.add_argument("--targets", action="store_true", help=told)
    told = "who holds keys of targets, where these are not the root's keyholders; may be repeated"
    request.add_argument("--targets-holder", action="append", default=[], metavar="CARD", help=told)
    told = "who holds none of them any more; may be repeated"
    request.add_argument("--targets-remove", action="append", default=[], metavar="NAME", help=told)
    told = "signatures that targets need (default: as before; else as for a root)"
    request.add_argument("--targets-threshold", type=int, metavar="N", help=told)


def _sign(group: Commands) -> None:
    sign = _add(group, "sign", _CEREMONY, "sign", "show the request's words and digest, and sign it with your keys")
    sign.add_argument("request", metavar="REQUEST", help="the request's file")
    sign.add_argument(
        "--key", action="append", required=True, metavar="FILE", help="your sealed key; twice for a hybrid root"
    )
    sign.add_argument("--passphrase-file", metavar="FILE", help="your passphrase; you are asked otherwise")
    sign.add_argument(
        "--previous", metavar="FILE", help="the root that you trust; the request has to change just this one"
    )
    sign.add_argument("--digest", metavar="GROUPS", help="the digest that you heard, or its first groups")
    sign.add_argument("--out", metavar="DIR", help="where your signature goes (default: beside the request)")


def _assemble(group: Commands) -> None:
    assemble = _add(
        group, "assemble", _CEREMONY, "assemble_root", "put the signatures together to a root, to targets or to both"
    )
    assemble.add_argument("request", metavar="REQUEST", help="the request's file; signatures lie beside it")
    assemble.add_argument(
        "signature", metavar="FILE", nargs="*", help="signature files (default: those of this request beside it)"
    )
    assemble.add_argument("--out", metavar="DIR", help="where they go (default: beside the request)")
    verify = _add(
        group, "verify", _CEREMONY, "verify", "check a chain of roots, and targets under it, and say who signed"
    )
    verify.add_argument("root", metavar="FILE", nargs="+", help="roots, and targets")
    verify.add_argument("--json", action="store_true", help="one JSON object")
    install = _add(group, "install", _CEREMONY, "install", "bring a root, or targets, into force in a commons")
    install.add_argument("root", metavar="FILE", nargs="+", help="a root, whose ceremony is logged; targets; or both")
    install.add_argument("--dir", metavar="DIR", help="the commons' folder")
    install.add_argument("--config", metavar="FILE", help="the configuration file")
    install.add_argument("--transcript", metavar="FILE", help="its transcript (default: the one beside it)")
    install.add_argument("--log-policy", metavar="FILE", help="the log policy that the root names, to be published")


def _create(group: Commands) -> None:
    create = _add(group, "create", _KEYS, "create", "make a keyholder's keys, or the online keys of a commons")
    whose = create.add_mutually_exclusive_group(required=True)
    whose.add_argument("--holder", metavar="NAME", help="a keyholder of the root")
    whose.add_argument("--dir", metavar="DIR", help="the folder of a commons, before its first root")
    told = "with --dir, a key of targets too: whoever has it decides alone, so only for a trial"
    create.add_argument("--one-targets-key", action="store_true", help=told)
    create.add_argument("--employer", metavar="NAME", default="", help="for whom the keyholder works (default: nobody)")
    create.add_argument("--hybrid", action="store_true", help="an ML-DSA-65 key beside the Ed25519 key")
    create.add_argument("--out", metavar="DIR", help="where the keyholder's keys and card go")
    create.add_argument(
        "--passphrase-file", metavar="FILE", help="seal with this passphrase; a keyholder is asked otherwise"
    )


def _list(group: Commands) -> None:
    listed = _add(group, "list", _KEYS, "list_keys", "which keys a role's folder has, whose they are and until when")
    listed.add_argument("--dir", metavar="DIR", required=True, help="the folder of a commons, log, witness or issuer")
    listed.add_argument("--json", action="store_true", help="one JSON object")


def _rotate(group: Commands) -> None:
    rotate = _add(group, "rotate", _KEYS, "rotate", "put a new key in an old one's place")
    rotate.add_argument(
        "role",
        metavar="ROLE",
        help="snapshot, timestamp, a ring's or other delegated role; log; witness; issuer; targets' one key",
    )
    rotate.add_argument("--dir", metavar="DIR", required=True, help="the folder of the commons, log, witness or issuer")
    rotate.add_argument(
        "--out", metavar="FILE|DIR", help="targets, snapshot, timestamp: where the request to the keyholders goes"
    )
    rotate.add_argument("--activate", action="store_true", help="log, witness: use the key that was made before")
    rotate.add_argument("--config", metavar="FILE", help="the configuration file")
    rotate.add_argument("--passphrase-file", metavar="FILE", help="seal the new key with this passphrase")


def _export(group: Commands) -> None:
    export = _add(group, "export", _KEYS, "export", "print a role's public key")
    export.add_argument("role", metavar="ROLE", help="the role whose public key is written")
    export.add_argument("--dir", metavar="DIR", required=True, help="the folder of the commons, log, witness or issuer")
    export.add_argument("--next", action="store_true", help="the key that is made and not yet used")


def _operators(group: Commands) -> None:
    publish = _add(group, "publish", _OPERATORS, "publish", "sign, log and publish the list of operators")
    publish.add_argument("file", metavar="FILE", help="the list of operators")
    publish.add_argument("--dir", metavar="DIR", help="the commons' folder")
    publish.add_argument("--config", metavar="FILE", help="the configuration file")
    policy = _add(
        group, "policy", _OPERATORS, "policy", "print the log policy that a list suggests: two witnesses of others"
    )
    policy.add_argument("file", metavar="FILE", help="the list of operators")
