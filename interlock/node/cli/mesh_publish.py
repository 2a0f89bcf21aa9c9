"""`interlock mesh pack, publish, review, promote, revoke, reviewers, export`: what a commons publishes."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Final

from interlock.base import files
from interlock.base.clock import SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, BadInput
from interlock.base.files import BadState, read_bounded
from interlock.base.keys import Ed25519Signer
from interlock.commons.consensus import MAX_CONSENSUS, parse_consensus, standing
from interlock.commons.gate import Bench
from interlock.commons.harness import corpus_digest, read_corpus
from interlock.commons.ilpack import export_ilpack
from interlock.commons.indicators import parse_catalog
from interlock.commons.keyring import named_key
from interlock.commons.pack import Pack, pack_from_policy, parse_pack
from interlock.commons.publish import Publisher
from interlock.commons.reviewers import Reviewer, Reviewers
from interlock.commons.rings import at_ring
from interlock.commons.signers import RoleSigner, read_key
from interlock.commons.steps import NeedsHolders
from interlock.engine.policy.builtins import PREFIX, builtin
from interlock.node.cli.mesh_harness import evaluator_of, progress_of
from interlock.node.cli.mesh_setup import passphrase_in
from interlock.node.cli.mesh_shared import published_text, serve_settings
from interlock.node.config import serve_config
from interlock.node.roles.curate import demand_follows, demand_of_task
from interlock.node.roles.taking import published_task
from interlock.node.wiring.publisher import publisher_of

__all__ = ["export", "pack", "promote", "publish", "review", "reviewers", "revoke"]

_LIMIT: Final = 8 << 20
_PUBLIC_FILE: Final = 0o644


def publish(args: argparse.Namespace) -> int:
    """Publish a pack or a catalog, or finish what was cut short; prints its log entry and the versions."""
    publisher = _publisher(args)
    if args.abandon:
        publisher.abandon()
        print("nothing is under way now")
        return EXIT_OK
    signer = _signer(args)
    if args.resume:
        done = publisher.resume(signer=signer)
        print("nothing was cut short" if done is None else published_text(done))
    elif args.catalog is not None:
        catalog = parse_catalog(read_bounded(Path(args.catalog), _LIMIT), where=args.catalog)
        print(published_text(publisher.publish_catalog(catalog)))
    elif args.pack is None or args.ring is None:
        told = "needs a pack and --ring, or --catalog, or --resume, or --abandon"
        raise BadInput(told, where="interlock mesh publish")
    else:
        made = _pack(args)
        _demand_founded(args, publisher, made)
        print(published_text(publisher.publish(made, args.ring, bench=_bench(args), signer=signer)))
    return EXIT_OK


def pack(args: argparse.Namespace) -> int:
    """Write a pack as one canonical file, and say its digest."""
    made = _pack(args)
    files.replace(Path(args.out), made.data, mode=_PUBLIC_FILE)
    rules = "1 rule" if len(made.rules) == 1 else f"{len(made.rules)} rules"
    print(f"{made.name} version {made.version}, {rules}, sha256 {made.digest}: {args.out}")
    return EXIT_OK


def review(args: argparse.Namespace) -> int:
    """Log a reviewer's verdict."""
    name, ring = at_ring(args.pack)
    key = _key(args)
    assert key is not None, "argparse demands it"
    print(published_text(_publisher(args).review(name, ring, args.verdict, key, note=args.note)))
    return EXIT_OK


def promote(args: argparse.Namespace) -> int:
    """Promote a version, on a gate and reviews."""
    name, version = _at_version(args.pack)
    publisher, bench = _publisher(args), _bench(args)
    done = publisher.promote(name, version, args.from_ring, args.to, bench=bench, signer=_signer(args))
    print(published_text(done))
    return EXIT_OK


def revoke(args: argparse.Namespace) -> int:
    """Take a version back, or rules of it; every version that is out where none is named."""
    name, version = _at_version(args.pack) if "@" in args.pack else (args.pack, None)
    key, rules = _key(args), tuple(args.rule)
    try:
        done = _publisher(args).revoke(name, version, why=args.why, rules=rules, removal=args.removal, key=key)
    except NeedsHolders:
        print("nobody begins to use it from now on; whoever has it in force keeps it until the removal is signed")
        raise
    print(published_text(done))
    return EXIT_OK


def reviewers(args: argparse.Namespace) -> int:
    """Change who reviews, or show it."""
    publisher, now_us = _publisher(args), SystemClock().now_us()
    try:
        listed = publisher.reviewers()
    except BadState:
        listed = Reviewers({})
    rows = dict(listed.rows)
    for text in args.add:
        name, eq, key = text.partition("=")
        if not eq:
            raise BadInput("is not of the form NAME=KEY", where=f"--add {text}")
        rows[name] = Reviewer(key if ":" in key else named_key(Path(key)))
    for name in args.end:
        if name not in rows:
            raise BadInput("is no reviewer", where=f"--end {name}")
        rows[name] = replace(rows[name], until=now_us)
    wanted = Reviewers(rows, args.threshold or listed.threshold)
    if wanted != listed:
        publisher.set_reviewers(wanted)
    for name, row in rows.items():
        print(f"{name}: {row.key}" + (f", until {rfc3339(row.until)}" if row.until else ""))
    print(f"stable needs {wanted.threshold} of them; a pack's author never counts")
    return EXIT_OK


def export(args: argparse.Namespace) -> int:
    """Write a .ilpack of what is out in a ring."""
    name, ring = at_ring(args.pack)
    config = serve_config(serve_settings(args), args.dir)
    version = _publisher(args).newest(name, ring)
    files.replace(Path(args.out), export_ilpack(config.directory / "public", name, version, ring), mode=_PUBLIC_FILE)
    print(f"{name}@{ring} version {version}: {args.out}; verify it with interlock mesh verify {args.out}")
    return EXIT_OK


def _demand_founded(args: argparse.Namespace, publisher: Publisher, pack: Pack) -> None:
    """A pack of indicators that rests on statements goes out with them in hand, each of its own task's collector.

    Raises: BadInput; Unfounded; and what refuses a statement.
    """
    rests = pack.kind == "indicator" and bool(pack.results)
    if rests != bool(args.statement):
        told = f"rests on {len(pack.results) or 'no'} statements of consensus"
        raise BadInput(told, where=pack.name, fix=f"{'give each with' if rests else 'leave out'} --statement FILE")
    if not rests:
        return
    said = [parse_consensus(read_bounded(Path(name), MAX_CONSENSUS), where=name) for name in args.statement]
    operators = publisher.operators()
    for statement in said:
        demand_of_task(statement, published_task(publisher, statement.task), operators)
    catalogs = [publisher.catalog(name) for name in sorted({statement.task for statement in said})]
    demand_follows(pack, said, standing(said, catalogs, SystemClock().now_us(), demo=args.demo))


def _publisher(args: argparse.Namespace) -> Publisher:
    return publisher_of(serve_config(serve_settings(args), args.dir), SystemClock())


def _key(args: argparse.Namespace) -> Ed25519Signer | None:
    if args.key is None:
        return None
    phrase = None if args.passphrase_file is None else passphrase_in(Path(args.passphrase_file))
    return read_key(Path(args.key), phrase)


def _signer(args: argparse.Namespace) -> RoleSigner | None:
    key = _key(args)
    return None if key is None else RoleSigner(key)


def _bench(args: argparse.Namespace) -> Bench:
    evaluator = evaluator_of("auto")
    if args.corpus is None:
        return Bench(without=args.no_corpus, evaluator=evaluator)
    folder = Path(args.corpus)
    rows = read_corpus(folder)
    return Bench(rows, corpus_digest(folder), evaluator=evaluator, progress=progress_of(len(rows)))


def _pack(args: argparse.Namespace) -> Pack:
    """The pack of a file, or what its source and the options say together. Raises: BadPack, BadState."""
    name: str = args.pack
    data = builtin(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else read_bounded(Path(name), _LIMIT)
    given: dict[str, object] = {
        "version": args.version,
        "authors": args.author,
        "signed_off_by": args.sign_off and [f"Signed-off-by: {who}" for who in args.sign_off],
        "licence": args.licence,
        "status": args.status,
        "author_key": args.author_key,
    }
    said = {key: value for key, value in given.items() if value is not None}
    if data.startswith(b"{") and not said and b'"format":"interlock-pack"' in data:
        return parse_pack(data, where=name)
    return pack_from_policy(data, where=name, **said)


def _at_version(text: str) -> tuple[str, int]:
    name, _, version = text.partition("@")
    if not version.isdecimal() or not 1 <= len(version) <= 10:
        raise BadInput("is not PACK@VERSION, such as team@3", where=text)
    return name, int(version)
