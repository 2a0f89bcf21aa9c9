"""`interlock mesh ceremony`: make or change a commons' root with files that travel from keyholder to keyholder.

Each keyholder reads the same words and the same digest, and signs alone; what she leaves is one small file a key.
Files for others are written whole or not at all, also on a stick whose file system keeps no modes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from interlock.base.clock import MICROSECONDS, SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, BadInput
from interlock.base.files import BadState, read_bounded
from interlock.base.files import replace as replace_file
from interlock.base.keys import BadKey, Ed25519Signer, Ed25519Verifier, MlDsaSigner, verifier_of
from interlock.commons.ceremony import (
    MAX_REQUEST,
    MAX_SIGNATURE,
    Plan,
    Request,
    assemble,
    finish_root,
    parse_request,
    plan_of,
    request_of,
    sign_request,
    signature_of,
)
from interlock.commons.holders import (
    CeremonyRefused,
    Holder,
    default_threshold,
    demand_holders,
    families,
    is_hybrid,
    parse_card,
    read_root,
)
from interlock.commons.layout import MAX_ROOT, TOP_ROLES
from interlock.commons.pack import sha256_hex
from interlock.commons.signers import NEXT, open_key, read_key
from interlock.commons.transcript import MAX_TRANSCRIPT, aloud, demand_transcript, signers_of, words_of
from interlock.node.cli.mesh_roles import serve_settings
from interlock.node.cli.mesh_setup import passphrase_in
from interlock.node.cli.terminal import asked_passphrase
from interlock.node.config import serve_config
from interlock.node.wiring.commons import publisher_of
from interlock.transparency.policy import parse_policy

__all__ = [
    "assemble_root",
    "install",
    "newest_root",
    "read_request",
    "request",
    "sign",
    "verify",
    "write_for_others",
    "write_request",
]

_LIMIT: Final = 1 << 20
_DAY_US: Final = 86_400 * MICROSECONDS
_REQUEST: Final = "request.json"


@dataclass(frozen=True)
class _Checked:
    """What `verify` says of one root."""

    version: int
    sha256: str
    follows: str
    signed_by: tuple[str, ...]
    transcript: str


def request(args: argparse.Namespace) -> int:
    """Write the request for a root, and say in words what keyholders are asked to sign."""
    now_us = SystemClock().now_us()
    previous = _previous(args)
    plan = _planned(args, previous, now_us)
    return write_request(request_of(plan, previous, now_us), Path(args.out))


def sign(args: argparse.Namespace) -> int:
    """Show what is asked for once more, and sign it with this keyholder's keys."""
    path = Path(args.request)
    asked = read_request(path)
    if args.previous is not None and read_bounded(Path(args.previous), MAX_ROOT) != asked.previous:
        raise CeremonyRefused("changes another root than the one that you trust", where=str(path), fix="do not sign it")
    _show(asked)
    _demand_heard(args.digest, asked)
    passphrase = _asking(args.passphrase_file)
    out = path.parent if args.out is None else Path(args.out)
    for key in args.key:
        holder, family, file = _signed(asked, Path(key), passphrase, out)
        print(f"signed for {holder} with the {family} key: {file}")
    return EXIT_OK


def assemble_root(args: argparse.Namespace) -> int:
    """Put the signatures together, and write root and transcript beside the request."""
    path = Path(args.request)
    asked = read_request(path)
    out = path.parent if args.out is None else Path(args.out)
    names = [Path(name) for name in args.signature] or sorted(path.parent.glob(_signature_name(asked, "*", "*")))
    if not names:
        raise BadInput("has no signature files beside it", where=str(path), fix="name them, or let keyholders sign")
    files = [(str(name), read_bounded(name, MAX_SIGNATURE)) for name in names]
    done = assemble(asked, files, SystemClock().now_us())
    version = read_root(done.root, "root").signed.version
    root, transcript = out / f"{version}.root.json", out / f"{version}.root.transcript.json"
    if root.exists() and read_bounded(root, MAX_ROOT) != done.root:
        fix = "use it, or take it away if nobody has it yet: two files of one version would both be good"
        raise BadInput("is there already, with other signatures", where=str(root), fix=fix)
    out.mkdir(parents=True, exist_ok=True)
    write_for_others(transcript, done.transcript)
    write_for_others(root, done.root)
    print(f"root {version} is signed by {', '.join(signers_of(done.root, asked.previous))}")
    print(f"root:        {root}  sha256 {sha256_hex(done.root)}")
    print(f"transcript:  {transcript}  sha256 {sha256_hex(done.transcript)}")
    print(f"bring it into force with: interlock mesh ceremony install {root} --dir COMMONS")
    return EXIT_OK


def verify(args: argparse.Namespace) -> int:
    """Check a root, or a chain of roots, each with the transcript that lies beside it; and say who signed."""
    roots = sorted(((Path(name), read_bounded(Path(name), MAX_ROOT)) for name in args.root), key=_version)
    rows, before = [], None
    for path, data in roots:
        rows.append(_verified(path, data, before))
        before = data
    if args.json:
        print(json.dumps({"roots": [asdict(row) for row in rows]}, indent=1))
        return EXIT_OK
    for row in rows:
        print(f"root {row.version}  sha256 {row.sha256}")
        print(f"  {row.follows}; signed by {', '.join(row.signed_by)}; {row.transcript}")
    print()
    print("\n".join(words_of(roots[-1][1], roots[-2][1] if len(roots) > 1 else None)))
    return EXIT_OK


def install(args: argparse.Namespace) -> int:
    """Log a root's ceremony, bring the root into force in the commons of --dir, and sign anew what it asks for."""
    path = Path(args.root)
    root = read_bounded(path, MAX_ROOT)
    version = read_root(root, str(path)).signed.version
    beside = path.with_name(f"{version}.root.transcript.json") if args.transcript is None else Path(args.transcript)
    policy = None if args.log_policy is None else read_bounded(Path(args.log_policy), _LIMIT)
    publisher = publisher_of(serve_config(serve_settings(args), args.dir), SystemClock())
    done = publisher.install_root(root, read_bounded(beside, MAX_TRANSCRIPT), log_policy=policy)
    print(f"root {done.version} is in force, sha256 {sha256_hex(root)}")
    print(f"its ceremony: record {done.entry.sha256}, log index {done.log_index}, at {rfc3339(done.entry.at)}")
    return EXIT_OK


def write_request(asked: Request, out: Path) -> int:
    """Write a request where it is to go, show it, and say what comes next."""
    path = out / _REQUEST if out.is_dir() else out
    if path.exists():
        raise BadInput("is there already", where=str(path), fix="name a new file, or take the old one away")
    write_for_others(path, asked.data)
    _show(asked)
    print(f"\nrequest: {path}")
    print(f"each keyholder, in any order: interlock mesh ceremony sign {path} --key FILE")
    print(f"then: interlock mesh ceremony assemble {path}")
    return EXIT_OK


def read_request(path: Path) -> Request:
    """Raises: CeremonyRefused, BadState, NewerFormat."""
    return parse_request(read_bounded(path, MAX_REQUEST), where=str(path))


def newest_root(commons: Path) -> bytes | None:
    """The newest root in a commons' folder; None where it has none yet."""
    found = sorted((commons / "public" / "metadata").glob("*.root.json"), key=lambda p: int(p.name.split(".")[0]))
    return read_bounded(found[-1], MAX_ROOT) if found else None


def write_for_others(path: Path, data: bytes) -> None:
    """Write a public file, whole or not at all, and let others read it where the file system has such a thing."""
    replace_file(path, data)
    with contextlib.suppress(OSError):  # a stick
        path.chmod(0o644)


def _previous(args: argparse.Namespace) -> bytes | None:
    if args.previous is not None:
        return read_bounded(Path(args.previous), MAX_ROOT)
    return None if args.dir is None else newest_root(Path(args.dir))


def _planned(args: argparse.Namespace, previous: bytes | None, now_us: int) -> Plan:
    """What the new root is to say: the old one's plan with what the arguments change."""
    before = None if previous is None else plan_of(previous)
    cards = [parse_card(read_bounded(Path(name), _LIMIT), where=name) for name in args.holder]
    holders = _circle(before.holders if before else (), cards, args.remove)
    online = {**(before.online if before else {}), **_online(args)}
    missing = [role for role in TOP_ROLES if role not in online]
    if missing:
        fix = "give --dir with the commons' folder, or --online ROLE=KEY"
        raise BadInput(f"has no key for {', '.join(missing)}", where="the first root", fix=fix)
    policy = before.log_policy if before else ""
    if args.log_policy is not None:
        data = read_bounded(Path(args.log_policy), _LIMIT)
        parse_policy(data)
        policy = sha256_hex(data)
    ends = (now_us // MICROSECONDS) * MICROSECONDS + args.days * _DAY_US
    return Plan(holders, online, _threshold(args.threshold, before, holders), ends, policy)


def _circle(before: Sequence[Holder], joining: Sequence[Holder], leaving: Sequence[str]) -> tuple[Holder, ...]:
    """The keyholders from now on; a card of somebody who is one already stands in her old card's place."""
    names = [holder.name for holder in before]
    for name in leaving:
        if name not in names:
            raise BadInput("is no keyholder of the root before", where=f"--remove {name}")
    cards = {holder.name: holder for holder in joining}
    if len(cards) != len(joining):
        raise BadInput("names one keyholder twice", where="--holder")
    stay = [cards.pop(holder.name, holder) for holder in before if holder.name not in leaving]
    return (*stay, *cards.values())


def _threshold(asked: int | None, before: Plan | None, holders: Sequence[Holder]) -> int:
    if asked is not None:
        return asked
    same = before is not None and (len(before.holders), is_hybrid(before.holders)) == (len(holders), is_hybrid(holders))
    return before.threshold if before is not None and same else default_threshold(holders)


def _online(args: argparse.Namespace) -> dict[str, Ed25519Verifier]:
    """Online keys that the arguments name: key files of a commons' folder, where a next key goes before, and texts."""
    found: dict[str, Ed25519Verifier] = {}
    for role in TOP_ROLES if args.dir is not None else ():
        path = Path(args.dir) / "keys" / f"{role}.key"
        for file in (path.with_name(path.name + NEXT), path):
            if file.exists():
                found[role] = read_key(file).verifier
                break
    for text in args.online:
        role, _, key = text.partition("=")
        if role not in TOP_ROLES:
            raise BadInput(f"names no role of {', '.join(TOP_ROLES)}", where=f"--online {text[:40]}")
        verifier = verifier_of(key)
        if not isinstance(verifier, Ed25519Verifier):
            raise BadKey("has to be an Ed25519 key", where=f"--online {role}")
        found[role] = verifier
    return found


def _show(asked: Request) -> None:
    print("\n".join(asked.words))
    print("\nThe digest of what is signed, for reading aloud:")
    for line in aloud(asked.digest):
        print(f"  {line}")


def _demand_heard(heard: str | None, asked: Request) -> None:
    """Raises: CeremonyRefused, where the digest that others read aloud is another one."""
    digits = "".join((heard or asked.digest).split()).lower()
    if len(digits) < 16 or not asked.digest.startswith(digits):
        raise CeremonyRefused(
            "is not this request's digest (at least its first four groups)", where="--digest", fix="do not sign it"
        )


def _asking(file: str | None) -> Callable[[Path], bytes]:
    """Where passphrases come from: a file for all keys, or the keyholder, asked once a key."""
    if file is not None:
        phrase = passphrase_in(Path(file))
        return lambda path: phrase
    return lambda path: asked_passphrase(f"passphrase of {path} (empty to stop): ")


def _signed(asked: Request, key: Path, passphrase: Callable[[Path], bytes], out: Path) -> tuple[str, str, Path]:
    """Sign with one key; returns the holder, the key's family and the new file."""
    phrase = passphrase(key)
    if not phrase:
        raise CeremonyRefused("nothing was signed", where=str(key))
    signer: Ed25519Signer | MlDsaSigner = open_key(key, phrase)
    holder, data = sign_request(asked, signer)
    (family,) = families([signer.verifier])
    file = out / _signature_name(asked, "".join(c if c.isalnum() else "-" for c in holder), family)
    if file.exists() and _is_whole(asked, file):
        raise CeremonyRefused("is there already: this key has signed", where=str(file))
    out.mkdir(parents=True, exist_ok=True)
    write_for_others(file, data)
    return holder, family, file


def _is_whole(asked: Request, file: Path) -> bool:
    try:
        signature_of(asked, str(file), read_bounded(file, MAX_SIGNATURE))
    except (CeremonyRefused, BadState):
        return False
    return True


def _signature_name(asked: Request, holder: str, family: str) -> str:
    return f"{asked.digest[:8]}.{holder}.{family}.signature.json"


def _version(row: tuple[Path, bytes]) -> int:
    return read_root(row[1], str(row[0])).signed.version


def _verified(path: Path, data: bytes, before: bytes | None) -> _Checked:
    """Check one root of a chain. Raises: CeremonyRefused, which names the file."""
    version = _version((path, data))
    with _where(path):
        if before is None and version > 1:
            demand_holders(data)
            follows = "follows a root that was not given"
        else:
            finish_root(data, previous=before)
            follows = "the first root" if before is None else f"follows root {version - 1}"
        beside = path.with_name(f"{version}.root.transcript.json")
        transcript = "no transcript beside it"
        if beside.exists() and (before is not None or version == 1):
            demand_transcript(read_bounded(beside, MAX_TRANSCRIPT), data, before)
            transcript = "its transcript is right"
    return _Checked(version, sha256_hex(data), follows, signers_of(data, before), transcript)


@contextlib.contextmanager
def _where(path: Path) -> Iterator[None]:
    try:
        yield
    except CeremonyRefused as e:
        raise CeremonyRefused(f"{e.where}: {e.what}" if e.where else e.what, where=str(path), fix=e.fix) from None
