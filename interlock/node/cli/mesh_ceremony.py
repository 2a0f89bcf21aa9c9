"""`interlock mesh ceremony`: make or change a commons' root with files that travel from keyholder to keyholder.

Each keyholder reads the same words and the same digest, and signs alone; what she leaves is one small file a key.
Files for others are written whole or not at all, also on a stick whose file system keeps no modes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from interlock.base.clock import SystemClock, rfc3339
from interlock.base.errors import EXIT_OK, BadInput
from interlock.base.files import BadState, read_bounded
from interlock.base.files import replace as replace_file
from interlock.base.keys import Ed25519Signer, MlDsaSigner
from interlock.commons.ceremony import (
    MAX_REQUEST,
    MAX_SIGNATURE,
    Assembled,
    Request,
    assemble,
    parse_request,
    request_of,
    request_targets,
    sign_request,
    signatures_of,
)
from interlock.commons.holders import (
    MAX_TARGETS,
    CeremonyRefused,
    demand_holders,
    demand_targets,
    families,
    read_root,
    read_targets,
)
from interlock.commons.layout import MAX_ROOT
from interlock.commons.pack import sha256_hex
from interlock.commons.repository import newest_root
from interlock.commons.rootplan import finish_root
from interlock.commons.signers import open_key
from interlock.commons.transcript import MAX_TRANSCRIPT, aloud, demand_transcript, signers_of, words_of
from interlock.commons.waiting import draft_of
from interlock.node.cli.mesh_ceremony_plan import draft_for, ends_us, planned
from interlock.node.cli.mesh_setup import passphrase_in
from interlock.node.cli.mesh_shared import serve_settings
from interlock.node.cli.terminal import asked_passphrase
from interlock.node.config import serve_config
from interlock.node.wiring.publisher import publisher_of

__all__ = [
    "assemble_root",
    "install",
    "read_request",
    "request",
    "sign",
    "verify",
    "write_for_others",
    "write_request",
]

_LIMIT: Final = 1 << 20
_REQUEST: Final = "request.json"


@dataclass(frozen=True)
class _Checked:
    """What `verify` says of one root."""

    version: int
    sha256: str
    follows: str
    signed_by: tuple[str, ...]
    transcript: str


@dataclass(frozen=True)
class _Signed:
    """What `verify` says of targets."""

    version: int
    sha256: str
    signed_by: tuple[str, ...]


def request(args: argparse.Namespace) -> int:
    """Write the request for a root, for targets or for both, and say in words what keyholders are asked to sign."""
    now_us = SystemClock().now_us()
    if args.targets:
        return _request_targets(args, now_us)
    previous = _previous(args)
    plan = planned(args, previous, now_us)
    return write_request(request_of(plan, previous, now_us, draft_for(args, plan, previous)), Path(args.out))


def _request_targets(args: argparse.Namespace, now_us: int) -> int:
    """Ask the holders of targets for what waits for them, or only for a later end of what they signed."""
    changes = (args.holder, args.remove, args.online, args.log_policy, args.targets_holder, args.targets_remove)
    if args.dir is None or any(changes):
        raise BadInput("goes with --dir, --days and --out only", where="--targets", fix="change the root without it")
    root = newest_root(Path(args.dir) / "public")
    if root is None:
        raise BadState("has no root yet", where=args.dir, fix="leave --targets away")
    return write_request(request_targets(root, draft_of(Path(args.dir), ends_us(args, now_us), {})), Path(args.out))


def sign(args: argparse.Namespace) -> int:
    """Show what is asked for once more, and sign it with this keyholder's keys."""
    path = Path(args.request)
    asked = read_request(path)
    trusted = asked.previous if "root" in asked.payloads else asked.root
    if args.previous is not None and read_bounded(Path(args.previous), MAX_ROOT) != trusted:
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
    out.mkdir(parents=True, exist_ok=True)
    written = [*_write_root(out, done, asked.previous), *_write_targets(out, done)]
    print(f"bring it into force with: interlock mesh ceremony install {' '.join(map(str, written))} --dir COMMONS")
    return EXIT_OK


def _write_root(out: Path, done: Assembled, previous: bytes | None) -> list[Path]:
    if not done.transcript:
        return []
    version = read_root(done.root, "root").signed.version
    root, transcript = out / f"{version}.root.json", out / f"{version}.root.transcript.json"
    _demand_same(root, done.root)
    write_for_others(transcript, done.transcript)
    write_for_others(root, done.root)
    print(f"root {version} is signed by {', '.join(signers_of(done.root, previous))}")
    print(f"root:        {root}  sha256 {sha256_hex(done.root)}")
    print(f"transcript:  {transcript}  sha256 {sha256_hex(done.transcript)}")
    return [root]


def _write_targets(out: Path, done: Assembled) -> list[Path]:
    if done.targets is None:
        return []
    version = read_targets(done.targets, "targets").signed.version
    path = out / f"{version}.targets.json"
    _demand_same(path, done.targets)
    write_for_others(path, done.targets)
    print(f"targets {version} are signed by {', '.join(demand_targets(done.targets, done.root))}")
    print(f"targets:     {path}  sha256 {sha256_hex(done.targets)}")
    return [path]


def _demand_same(path: Path, data: bytes) -> None:
    """Raises: BadInput, where a file with other signatures is there."""
    if path.exists() and read_bounded(path, MAX_TARGETS) != data:
        fix = "use it, or take it away if nobody has it yet: two files of one version would both be good"
        raise BadInput("is there already, with other signatures", where=str(path), fix=fix)


def verify(args: argparse.Namespace) -> int:
    """Check a root, or a chain of roots, each with the transcript that lies beside it, and targets; say who signed."""
    given = [(Path(name), read_bounded(Path(name), MAX_TARGETS)) for name in args.root]
    roots = sorted((row for row in given if not _is_targets(row[1])), key=_version)
    if not roots:
        raise BadInput("is needed: who may sign targets stands in it", where="a root")
    rows, before = [], None
    for path, data in roots:
        rows.append(_verified(path, data, before))
        before = data
    signed = [_verified_targets(*row, root=roots[-1][1]) for row in given if _is_targets(row[1])]
    if args.json:
        shown = {"roots": [asdict(row) for row in rows], "targets": [asdict(row) for row in signed]}
        print(json.dumps(shown, indent=1))
        return EXIT_OK
    for row in rows:
        print(f"root {row.version}  sha256 {row.sha256}")
        print(f"  {row.follows}; signed by {', '.join(row.signed_by)}; {row.transcript}")
    for one in signed:
        whom = ", ".join(one.signed_by) or "one key on the commons' machine, which is for a trial"
        print(f"targets {one.version}  sha256 {one.sha256}\n  signed by {whom}")
    print()
    print("\n".join(words_of(roots[-1][1], roots[-2][1] if len(roots) > 1 else None)))
    return EXIT_OK


def install(args: argparse.Namespace) -> int:
    """Bring a root into force in the commons of --dir, with its ceremony logged, or targets, or both."""
    given = [(Path(name), read_bounded(Path(name), MAX_TARGETS)) for name in args.root]
    targets = [data for _, data in given if _is_targets(data)]
    roots = [row for row in given if not _is_targets(row[1])]
    if len(roots) > 1 or len(targets) > 1:
        raise BadInput("takes one root, one file of targets, or one of each", where="install")
    publisher = publisher_of(serve_config(serve_settings(args), args.dir), SystemClock())
    if not roots:
        done = publisher.install_targets(targets[0])
        version = read_targets(targets[0], "targets").signed.version
        print(f"targets {version} are in force, sha256 {sha256_hex(targets[0])}, in snapshot {done.snapshot_version}")
        return EXIT_OK
    ((path, root),) = roots
    version = read_root(root, str(path)).signed.version
    beside = path.with_name(f"{version}.root.transcript.json") if args.transcript is None else Path(args.transcript)
    transcript = read_bounded(beside, MAX_TRANSCRIPT)
    policy = None if args.log_policy is None else read_bounded(Path(args.log_policy), _LIMIT)
    installed = publisher.install_root(root, transcript, log_policy=policy, targets=targets[0] if targets else None)
    print(f"root {installed.version} is in force, sha256 {sha256_hex(root)}")
    print(f"its ceremony: record {installed.entry.sha256}, log index {installed.log_index}, at "
          f"{rfc3339(installed.entry.at)}")  # fmt: skip
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


def write_for_others(path: Path, data: bytes) -> None:
    """Write a public file, whole or not at all, and let others read it where the file system has such a thing."""
    replace_file(path, data)
    with contextlib.suppress(OSError):  # a stick
        path.chmod(0o644)


def _previous(args: argparse.Namespace) -> bytes | None:
    if args.previous is not None:
        return read_bounded(Path(args.previous), MAX_ROOT)
    return None if args.dir is None else newest_root(Path(args.dir) / "public")


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
        signatures_of(asked, str(file), read_bounded(file, MAX_SIGNATURE))
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


def _is_targets(data: bytes) -> bool:
    try:
        read_targets(data, "targets")
    except CeremonyRefused:
        return False
    return True


def _verified_targets(path: Path, data: bytes, *, root: bytes) -> _Signed:
    """Check targets by the root that names their holders. Raises: CeremonyRefused, which names the file."""
    with _where(path):
        names = demand_targets(data, root)
    return _Signed(read_targets(data, str(path)).signed.version, sha256_hex(data), names)


@contextlib.contextmanager
def _where(path: Path) -> Iterator[None]:
    try:
        yield
    except CeremonyRefused as e:
        raise CeremonyRefused(f"{e.where}: {e.what}" if e.where else e.what, where=str(path), fix=e.fix) from None
