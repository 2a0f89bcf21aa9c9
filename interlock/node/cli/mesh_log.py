"""`interlock mesh log`: add to a log, prove and check entries, read a whole log, tell a witness of a log."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import httpx

from interlock.base.clock import rfc3339
from interlock.base.codec import Malformed
from interlock.base.errors import EXIT_OK, BadInput
from interlock.base.fetch import DirectoryFetcher, Fetcher, HttpFetcher, HttpPoster, NotFound, fetcher_of, http_client
from interlock.base.files import BadState, read_bounded, replace
from interlock.node.config import LOG_POLICY
from interlock.node.tokens import secret_in
from interlock.transparency.audit import Audited, audit, audit_directory
from interlock.transparency.follow import tile_loader
from interlock.transparency.known_logs import ADDED_LOGS, put_logs
from interlock.transparency.merkle import HASH_SIZE, leaf_hash, prove_inclusion
from interlock.transparency.note import MAX_NOTE
from interlock.transparency.policy import MAX_POLICY, Checked, TlogPolicy, parse_policy
from interlock.transparency.proof import MAX_PROOF_FILE, TlogProof, parse_proof
from interlock.transparency.storage import JOURNAL, PUBLIC
from interlock.transparency.submit import submit
from interlock.transparency.tiles import (
    CHECKPOINT,
    ENTRIES,
    MAX_ENTRY_SIZE,
    WIDTH,
    Tile,
    TileReader,
    decode_bundle,
    tiles_of,
)

__all__ = ["append", "cosign", "fsck", "place_of", "policy_in", "proof", "verify"]

_QUIET_S: Final = 2.0  # a run that is shorter says nothing while it runs


def append(args: argparse.Namespace) -> int:
    """Add an entry, and write its proof once that was verified."""
    policy, entry = policy_in(args.policy), _entry(args.file)
    url = _log_url(args.log, policy)
    token = secret_in(Path(args.token))
    with http_client() as client:
        target = f"{url.rstrip('/')}/add"
        found = submit(entry, policy, HttpPoster(target, max_length=MAX_PROOF_FILE, token=token, client=client))
    out = args.out or (None if args.file == "-" else f"{args.file}.tlog-proof")
    return _written(args, found, found.verify(entry, policy), out)


def proof(args: argparse.Namespace) -> int:
    """Prove an entry from tiles; what is written was verified before."""
    if (args.index is None) == (args.entry is None):
        raise BadInput("needs either INDEX or --entry FILE", where="interlock mesh log proof")
    policy = policy_in(args.policy)
    with http_client() as client:
        found, checked = _proven(args, policy, place_of(_log_url(args.log, policy), client))
    return _written(args, found, checked, args.out)


def _proven(args: argparse.Namespace, policy: TlogPolicy, fetcher: Fetcher) -> tuple[TlogProof, Checked]:
    checked = policy.check(fetcher.fetch(CHECKPOINT, max_length=MAX_NOTE))
    size, load = checked.checkpoint.size, tile_loader(fetcher)
    index = args.index if args.entry is None else _found(leaf_hash(_entry(args.entry)), size, load)
    if not 0 <= index < size:
        raise BadInput(f"is not in the published tree of {size} entries", where=f"entry {index}")
    found = TlogProof(index, prove_inclusion(index, size, TileReader(size, load)), checked.note)
    bundle = Tile(ENTRIES, index // WIDTH).within(size)
    found.verify(decode_bundle(load(bundle), bundle.width)[index % WIDTH], policy)
    return found, checked


def verify(args: argparse.Namespace) -> int:
    """Check a proof offline. Raises: Malformed, UnknownLog, BadSignature, NoQuorum, BadProof."""
    found = parse_proof(read_bounded(Path(args.file), MAX_PROOF_FILE))
    checked = found.verify(_entry(args.entry), policy_in(args.policy))
    if args.json:
        print(json.dumps({"ok": True, **_told(found, checked)}))
    else:
        print(f"ok    entry {found.index} of {checked.checkpoint.origin}, in the tree of {checked.checkpoint.size}")
        print(f"      root {checked.checkpoint.root.hex()}")
        print(f"      cosigned by {_witnesses(checked)}")
    return EXIT_OK


def fsck(args: argparse.Namespace) -> int:
    """Read a whole log. Raises: what names the first bad place."""
    folder = None if "://" in args.log else _folder(Path(args.log))
    beside = [] if folder is None else [p for p in (folder / LOG_POLICY, folder.parent / LOG_POLICY) if p.exists()]
    if args.policy is None and not beside:
        raise BadInput("is needed", where="--policy FILE", fix="name the log's policy, whose key signs its checkpoints")
    policy, told = policy_in(args.policy or str(beside[0])), _progress("entries read")
    if folder is not None and (folder / JOURNAL).is_dir():
        found = audit_directory(folder, policy, told)
    elif folder is not None:
        found = audit(DirectoryFetcher(folder / PUBLIC if (folder / PUBLIC).is_dir() else folder), policy, told)
    else:
        with http_client() as client:
            found = audit(place_of(args.log, client), policy, told)
    if args.json:
        print(json.dumps(_audited(found)))
        return EXIT_OK
    checkpoint = found.checked.checkpoint
    print(f"ok    {checkpoint.origin}: {checkpoint.size} entries in {found.bundles} bundles, {found.tiles} tiles")
    print(f"      root {checkpoint.root.hex()}, cosigned by {_witnesses(found.checked)}")
    print("      " + ("no journal to read" if found.journal is None else f"journal of {found.journal} entries agrees"))
    return EXIT_OK


def cosign(args: argparse.Namespace) -> int:
    """Add logs to those that a witness cosigns for. Raises: BadInput, BadState, NotWritable."""
    folder = Path(args.dir)
    if not (folder / "witness.key").exists():
        raise BadState("is not the folder of a witness", where=str(folder), fix="make it with interlock mesh setup")
    if args.remove and not args.key:
        raise BadInput("needs a key to remove", where="interlock mesh log cosign")
    keys = put_logs(folder / ADDED_LOGS, args.key, remove=args.remove)
    if args.json:
        print(json.dumps({"logs": [key.text for key in keys]}))
        return EXIT_OK
    for key in keys:
        print(f"{key.name}  {key.text}")
    print(f"{len(keys)} keys besides those of {folder / LOG_POLICY}; a running witness knows them at once")
    return EXIT_OK


def policy_in(path: str) -> TlogPolicy:
    """The policy in a file. Raises: BadInput, BadState."""
    data = read_bounded(Path(path), MAX_POLICY)
    try:
        policy = parse_policy(data)
    except Malformed as e:
        raise BadInput(e.what, where=f"{path}: {e.where}" if e.where else path) from None
    if not policy.logs:
        raise BadInput("names no log", where=path, fix="write a line: log VKEY URL")
    return policy


def place_of(place: str, client: httpx.Client) -> Fetcher:
    """The fetcher of a URL or of a folder."""
    if place.startswith(("http://", "https://")):
        return HttpFetcher(place, client)
    return fetcher_of(place) if "://" in place else DirectoryFetcher(Path(place))


def _entry(path: str) -> bytes:
    if path != "-":
        return read_bounded(Path(path), MAX_ENTRY_SIZE)
    data = sys.stdin.buffer.read(MAX_ENTRY_SIZE + 1)
    if len(data) > MAX_ENTRY_SIZE:
        raise BadInput(f"is larger than {MAX_ENTRY_SIZE} bytes", where="standard input")
    return data


def _log_url(given: str | None, policy: TlogPolicy) -> str:
    url = given or next((log.url for log in policy.logs if log.url), "")
    if not url:
        raise BadInput("is not said by the policy", where="the log's URL", fix="give --log URL")
    return url


def _found(leaf: bytes, size: int, load: Callable[[Tile], bytes]) -> int:
    """The place of an entry, looked for in the tiles from the newest on. Raises: NotFound."""
    told, read = _progress("entries searched"), 0
    for tile in reversed([t for t in tiles_of(size, entries=False) if t.level == 0]):
        data = load(tile)
        for place in range(0, len(data), HASH_SIZE):
            if data[place : place + HASH_SIZE] == leaf:
                return tile.index * WIDTH + place // HASH_SIZE
        read += tile.width
        told(read)
    raise NotFound(f"is not among the log's {size} published entries", where="the entry")


def _folder(given: Path) -> Path:
    """Where a log's files are: the folder that has `public`, or one with a copy of what is served."""
    for folder in (given / "log", given):
        if (folder / PUBLIC / CHECKPOINT).exists():
            return folder
    if not (given / CHECKPOINT).exists():
        raise BadState("holds no log that has published", where=str(given), fix="name a log's folder, or a copy's")
    return given


def _written(args: argparse.Namespace, found: TlogProof, checked: Checked, out: str | None) -> int:
    if out is not None:
        replace(Path(out), found.data)
    if args.json:
        where = {"out": out} if out is not None else {"proof": found.data.decode("utf-8")}
        print(json.dumps({**_told(found, checked), **where}))
    elif out is None:
        print(found.data.decode("utf-8"), end="")
    else:
        tree = f"{checked.checkpoint.origin}, tree of {checked.checkpoint.size}"
        print(f"{out}: entry {found.index} of {tree}, cosigned by {_witnesses(checked)}")
    return EXIT_OK


def _told(found: TlogProof, checked: Checked) -> dict[str, object]:
    return {"index": found.index, **_seen(checked)}


def _seen(checked: Checked) -> dict[str, object]:
    checkpoint = checked.checkpoint
    return {
        "origin": checkpoint.origin,
        "size": checkpoint.size,
        "root": checkpoint.root.hex(),
        "witnesses": {name: rfc3339(seconds * 1_000_000) for name, seconds in sorted(checked.witnesses.items())},
    }


def _audited(found: Audited) -> dict[str, object]:
    counts = {"bundles": found.bundles, "tiles": found.tiles, "journal": found.journal}
    return {"ok": True, **_seen(found.checked), **counts}


def _witnesses(checked: Checked) -> str:
    return ", ".join(sorted(checked.witnesses)) or "no witness"


def _progress(what: str) -> Callable[[int], object]:
    """Tells how far a long run is, every two seconds, on standard error."""
    last = time.monotonic()

    def tell(done: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _QUIET_S:
            last = time.monotonic()
            print(f"{done} {what}", file=sys.stderr, flush=True)

    return tell
