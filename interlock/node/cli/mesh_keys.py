"""`interlock mesh keys`: which keys there are, and how each is made, shown to others and put in another's place."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from interlock.base.clock import SystemClock
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, BadInput
from interlock.base.files import BadState, private_dir, replace
from interlock.base.keys import Ed25519Verifier, verifier_of
from interlock.base.settings import read_settings
from interlock.commons.ceremony import new_keys, request_of
from interlock.commons.holders import CeremonyRefused, Holder, demand_named, dump_card, families, term_of
from interlock.commons.issuer_keys import succeed
from interlock.commons.keyring import RETIRED, KeyRow, activate, has_role_keys, key_files, make_next, named_key, rows
from interlock.commons.layout import DELEGATIONS, ONLINE_ROLES, TOP_ROLES
from interlock.commons.repository import newest_root
from interlock.commons.rootplan import expiry_us, plan_of
from interlock.commons.signers import NEXT, RoleVerifier, make_keys, tuf_key
from interlock.node.cli.mesh_ceremony import write_for_others, write_request
from interlock.node.cli.mesh_setup import passphrase_in
from interlock.node.cli.mesh_shared import serve_settings
from interlock.node.cli.terminal import asked_passphrase
from interlock.node.config import CONFIG, serve_config
from interlock.node.setup import keyholder_name
from interlock.node.wiring.publisher import publisher_of
from interlock.transparency.note import COSIGNATURE, ED25519, ML_DSA_COSIGNATURE, VerifierKey

__all__ = ["create", "export", "list_keys", "rotate"]

_CARD: Final = "holder.json"


def create(args: argparse.Namespace) -> int:
    """Make a keyholder's sealed keys and her card; or the online keys of a commons that is to be."""
    if args.dir is not None:
        return _create_online(Path(args.dir), args.passphrase_file, targets=args.one_targets_key)
    if args.out is None:
        raise BadInput("is needed for a keyholder", where="--out DIR")
    name, out = keyholder_name(args.holder), Path(args.out)
    now_us = SystemClock().now_us()
    demand_named(name, args.employer)
    card = out / f"{name}.{_CARD}"
    _demand_new(card)
    made = new_keys(_new_passphrase(args.passphrase_file, name), os.urandom, hybrid=args.hybrid)
    files = [out / f"{name}.{families([verifier])[0]}.key" for verifier, _ in made]
    _demand_new(*files)
    private_dir(out)
    for file, (verifier, sealed) in zip(files, made, strict=True):
        replace(file, sealed)
        print(f"sealed key: {file}  key {tuf_key(verifier).keyid[:16]}")
    keys: tuple[RoleVerifier, ...] = tuple(verifier for verifier, _ in made)
    write_for_others(card, dump_card(Holder(name, args.employer, *term_of(now_us), keys)))
    print(f"card: {card}  give it to whoever writes the request")
    print("keep each key file and its passphrase apart, and a copy of both in another place")
    return EXIT_OK


def _demand_new(*paths: Path) -> None:
    """Raises: BadInput, before anything is written."""
    for path in paths:
        if path.exists():
            raise BadInput("is there already", where=str(path), fix="use another folder; a key is never made over")


def list_keys(args: argparse.Namespace) -> int:
    """Say which keys a folder has; 1 where one of them is not what the metadata names."""
    found = rows(Path(args.dir))
    bad = any(row.state in ("missing", "not the role's") for row in found)
    if args.json:
        print(json.dumps({"keys": [dataclasses.asdict(row) for row in found]}, indent=1))
    else:
        for row in found:
            print(_told(row))
    return EXIT_REFUSED if bad else EXIT_OK


def export(args: argparse.Namespace) -> int:
    """Print a role's public keys: as a log policy writes them for a log or witness, else as text."""
    directory = Path(args.dir)
    for file in key_files(directory, args.role):
        path = file.with_name(file.name + NEXT) if args.next else file
        if not path.exists():
            raise BadState("is not there", where=str(path), fix="make it with interlock mesh keys rotate")
        print(_exported(directory, args.role, named_key(path)))
    return EXIT_OK


def rotate(args: argparse.Namespace) -> int:
    """Make a role's new key, and either put it in place or write down what has to happen before it can be."""
    directory = Path(args.dir)
    if args.role == "root":
        fix = "interlock mesh keys create --holder NAME, then interlock mesh ceremony request --holder CARD"
        raise BadInput("a keyholder's keys are changed by a ceremony", where="root", fix=fix)
    files = key_files(directory, args.role)
    passphrase = None if args.passphrase_file is None else passphrase_in(Path(args.passphrase_file))
    if args.role == "issuer":
        return _rotate_issuer(directory, passphrase, activate=args.activate)
    if args.activate:
        return _activate(directory, args.role, files)
    if args.role in TOP_ROLES:
        return _rotate_top(directory, args, files[0], passphrase)
    if has_role_keys(directory):
        return _rotate_delegated(args, files[0], passphrase)
    for file in files:
        key = make_next(file, os.urandom, passphrase)
        print(f"next key of {args.role}: {file.with_name(file.name + NEXT)}")
        print(f"put it into the log policy beside the old one: {_exported(directory, args.role, key)}")
    print(f"once nodes have that policy: interlock mesh keys rotate {args.role} --dir {directory} --activate")
    return EXIT_OK


def _create_online(directory: Path, passphrase_file: str | None, *, targets: bool) -> int:
    if newest_root(directory / "public") is not None:
        raise BadState("is a commons already", where=str(directory), fix="use interlock mesh keys rotate")
    passphrase = None if passphrase_file is None else passphrase_in(Path(passphrase_file))
    private_dir(directory)
    roles = (*(TOP_ROLES if targets else ONLINE_ROLES), *DELEGATIONS)
    for role, signer in make_keys(directory / "keys", roles, os.urandom, passphrase).items():
        print(f"{role:<10} {signer.verifier.text}")
    print(
        "targets: one key, here, which is for a trial" if targets else "targets: whom the ceremony names hold its keys"
    )
    return EXIT_OK


def _rotate_top(directory: Path, args: argparse.Namespace, file: Path, passphrase: bytes | None) -> int:
    """A key that the root names: the new one is made, and the keyholders are asked to name it."""
    root = newest_root(directory / "public")
    if root is None:
        raise BadState("has no root yet", where=str(directory))
    if args.out is None:
        raise BadInput("is needed: the root names this key, so its keyholders have to sign", where="--out FILE|DIR")
    plan = plan_of(root)
    if args.role not in plan.online:
        fix = "interlock mesh ceremony request --targets-holder CARD, with her new card"
        raise BadInput("has holders, each with keys of her own", where=args.role, fix=fix)
    key = verifier_of(make_next(file, os.urandom, passphrase))
    if not isinstance(key, Ed25519Verifier):
        raise BadState("is no Ed25519 key", where=str(file))
    now_us = SystemClock().now_us()
    plan = dataclasses.replace(plan, online={**plan.online, args.role: key}, expires_us=expiry_us("root", now_us))
    return write_request(request_of(plan, root, now_us), Path(args.out))


def _rotate_delegated(args: argparse.Namespace, file: Path, passphrase: bytes | None) -> int:
    """A key that targets names: made, named and used in one publish."""
    publisher = publisher_of(serve_config(serve_settings(args), args.dir), SystemClock())
    done = publisher.rotate(args.role, make_next(file, os.urandom, passphrase))
    print(f"the key of {args.role} is now {named_key(file)}; the old one lies in {file.parent / 'retired'}")
    print(f"snapshot {done.snapshot_version}, timestamp {done.timestamp_version}")
    print("what the old key logged before counts as it did; nothing that is logged with it from now on does")
    return EXIT_OK


def _rotate_issuer(directory: Path, passphrase: bytes | None, *, activate: bool) -> int:
    """An issuer's key, that members trust: the old one names the new one, and they go on by its word."""
    if activate:
        raise BadInput("is not for an issuer's key", where="--activate", fix="it is put in place at once")
    done = succeed(directory, os.urandom, SystemClock().now_us(), passphrase)
    print(f"issuer has a new key: {done.successor.text}")
    print(f"the old one, {done.issuer.text}, signs for the epochs that it opened; it lies in {directory / RETIRED}")
    print("restart the issuer; where the commons lists its operators, have it list the new key beside the old one")
    return EXIT_OK


def _activate(directory: Path, role: str, files: Sequence[Path]) -> int:
    if has_role_keys(directory):
        fix = "targets, snapshot and timestamp: interlock mesh ceremony install; others: without --activate"
        raise BadInput("is not for the keys of a commons", where="--activate", fix=fix)
    due = [file for file in files if file.with_name(file.name + NEXT).exists()]
    for file in due or files:
        key = activate(file)
        print(f"{role} has a new key: {_exported(directory, role, key)}")
    print(f"the old ones lie in {directory / RETIRED}; restart the role")
    return EXIT_OK


def _exported(directory: Path, role: str, text: str) -> str:
    """A public key as text, or as a vkey where it is a log's or witness's of a name that its folder says."""
    settings, key = directory / CONFIG, verifier_of(text)
    name = read_settings(settings).tables.get("serve", {}).get("name", "") if settings.exists() else ""
    if role == "issuer" or has_role_keys(directory) or not isinstance(name, str) or not name:
        return text
    if not isinstance(key, Ed25519Verifier):
        return VerifierKey(name, ML_DSA_COSIGNATURE, key.public).text
    return VerifierKey(name, COSIGNATURE if role == "witness" else ED25519, key.public).text


def _told(row: KeyRow) -> str:
    whose = f"  {row.holder}, {row.employer or 'employed by nobody'}" if row.holder else ""
    until = f"  until {row.until}" if row.until else ""
    sealed = "  sealed" if row.sealed else ""
    return f"{row.role:<10} {row.family:<10} {row.key_id[:16]}  {row.state}{whose}{until}{sealed}"


def _new_passphrase(file: str | None, name: str) -> bytes:
    if file is not None:
        return passphrase_in(Path(file))
    first = asked_passphrase(f"a new passphrase for {name}'s keys: ")
    if first != asked_passphrase("the same once more: "):
        raise CeremonyRefused("the two passphrases differ", where=name)
    return first
