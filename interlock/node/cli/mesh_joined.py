"""What `mesh members join, token, audit` and `mesh tally` do: an organisation, and who holds an issuer to its count.

Apart from the issuer's own commands, so that what a node runs imports no server.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from pathlib import Path
from typing import Final

from interlock.base.clock import SystemClock, rfc3339
from interlock.base.codec import Malformed
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, BadInput
from interlock.base.files import BadState, read_private, replace
from interlock.commons.enrolment import demand_honest_count
from interlock.commons.statements import MAX_STATEMENT, known_organisation
from interlock.node.cli.mesh_count import each_agreed, reporting_of
from interlock.node.cli.mesh_node import config_of, patiently, subscriber_of
from interlock.node.cli.mesh_shared import key_given
from interlock.node.parties import HttpExchange
from interlock.node.reporter import reporters_of
from interlock.node.roles import member as members
from interlock.node.roles import rollup
from interlock.node.roles.observe import kept_catalogs
from interlock.node.storage.node import open_store

__all__ = ["audit", "join", "tally", "token"]

_LIMIT: Final = 1 << 20


def join(args: argparse.Namespace) -> int:
    """Ask to be enrolled; the organisation's key is made here and never leaves."""
    config = config_of(args)
    named = args.organisation or config.organisation
    if not named:
        raise BadInput("is needed", where="--organisation NAME", fix="or name it in the section [mesh]")
    name = known_organisation(named, where="--organisation")
    code = read_private(Path(args.invite), _LIMIT).decode("ascii", "replace").strip() if args.invite else ""
    with contextlib.closing(HttpExchange()) as exchange:
        issuer = key_given(args.issuer_key, option="--issuer-key", fix="ask the issuer's operator for it")
        joined = members.join(config.home, name, args.issuer, issuer, code, exchange, os.urandom)
    if joined.certificate is None:
        print(f"{name} waits: once the issuer's operator approved it, run this again")
        return EXIT_REFUSED
    print(f"{name} is enrolled since {rfc3339(joined.certificate.at)}, with key {joined.signer.verifier.text}")
    return EXIT_OK


def token(args: argparse.Namespace) -> int:
    """Fetch what is missing, now."""
    with reporters_of(config_of(args), reporting_of(args)) as reporters:
        asking = [reporter for reporter in reporters if reporter.credentials is not None]
        if not asking:
            raise BadInput("asks for no proof of membership", where="the task", fix="a bearer token is all it takes")
        found = each_agreed(asking, lambda reporter: reporter.fetch_credentials())
    failed = False
    for held, missing in found:
        for epoch, why in missing.items():
            print(f"epoch {epoch}: none ({why})")
        print(f"tokens are here for {len(held)} epochs" + (f": {min(held)} to {max(held)}" if held else ""))
        failed = failed or bool(missing)
    return EXIT_REFUSED if failed else EXIT_OK


def audit(args: argparse.Namespace) -> int:
    """Check a count: not above the issuer's members, not below the batch's reports.

    It is in the word of the key that the published member keys name, or of one that followed it.
    """
    config = config_of(args)
    url = args.issuer or members.read_joined(config.home).url
    with contextlib.closing(HttpExchange(limit=MAX_STATEMENT)) as exchange:
        found = members.count_of(url, args.task, args.epoch, exchange)
        subscriber = subscriber_of(config)
        opener = patiently(lambda: subscriber.member_keys(args.task, args.epoch)).issuer
        ours = found.issuer == opener or found.issuer in members.successors_of(url, opener, exchange)
    if (found.task, found.epoch) != (args.task, args.epoch) or not ours:
        raise Malformed("is no count by the issuer of the published member keys", where=url)
    demand_honest_count(found, reports=args.reports)
    if args.json:
        told = {"task": found.task, "epoch": found.epoch, "issued": found.issued, "enrolled": found.enrolled}
        print(json.dumps({"format": "interlock-audit", "v": 1, **told, "final": found.final}))
        return EXIT_OK
    batch = "" if args.reports is None else f"; {args.reports} reports were collected"
    print(f"{found.issued} tokens to {found.enrolled} organisations{batch}: {'final' if found.final else 'so far'}")
    return EXIT_OK


def tally(args: argparse.Namespace) -> int:
    """Write this node's places; the node that reports names the file in [report] nodes."""
    home = config_of(args).home
    kept = kept_catalogs(home).get(args.task)
    if kept is None:
        raise BadState("was not consented to here", where=f"task {args.task}", fix="see interlock mesh consent")
    now_us = SystemClock().now_us()
    with contextlib.closing(open_store(home)) as store:
        epochs = store.places_by_epoch(args.task, kept.catalog.digest)
    replace(Path(args.out), rollup.dump_tally(kept, epochs, now_us))
    print(f"{args.task}: {sum(map(len, epochs.values()))} places of {len(epochs)} epochs, up to {rfc3339(now_us)}")
    return EXIT_OK
