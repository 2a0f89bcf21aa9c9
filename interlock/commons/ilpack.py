"""`.ilpack`: a pack and all that shows it, in one file that verifies offline.

    {"format": "interlock-ilpack", "v": 1, "pack": TEXT, "entry": TEXT, "proof": TEXT, "promotion": TEXT or null,
     "metadata": {"1.root.json": TEXT, ..., "timestamp.json": TEXT, "7.snapshot.json": TEXT,
                  "7.snapshot.json.entry": TEXT, "7.snapshot.json.tlog-proof": TEXT,
                  "3.targets.json": TEXT, "4.stable.json": TEXT, "reviewers.json": TEXT}}

A ring in hash bins has those of its bins beside it that name the pack and what lies beside the pack.

It is canonical JSON, and each TEXT is a file of the commons as it was served. Whoever reads it brings the root and the
log policy that they pinned; nothing in the file is trusted for being there. Metadata that has ended since counts at
the time at which witnesses cosigned its snapshot, and what came after that time is not known offline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import Targets  # type: ignore[attr-defined]

from interlock.base import canonical
from interlock.base.canonical import NotCanonical
from interlock.base.clock import MICROSECONDS
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError, one_line
from interlock.base.files import read_bounded
from interlock.base.primitives import BadSignature
from interlock.commons.bins import bin_of
from interlock.commons.holders import Circle, demand_holders, demand_targets, targets_of
from interlock.commons.layout import (
    REVIEWERS_PATH,
    entry_path,
    pack_path,
    promotion_path,
    proof_path,
    role_of_pack,
    snapshot_files,
)
from interlock.commons.pack import BadPack, Pack, kind_of, parse_pack, sha256_hex
from interlock.commons.promotion import NEEDS_PROMOTION, Promoted, demand_promotion
from interlock.commons.repository import Repository, metadata_files
from interlock.commons.signers import key_texts
from interlock.commons.speakers import Speakers, former_keys
from interlock.commons.tufset import TrustedMetadataSet, judge_at, trust_in
from interlock.transparency.entry import LogEntry, known_entry
from interlock.transparency.merkle import BadProof
from interlock.transparency.policy import Checked, TlogPolicy
from interlock.transparency.proof import parse_proof

__all__ = ["MAX_ILPACK", "BadIlpack", "Shown", "export_ilpack", "verify_ilpack"]

MAX_ILPACK: Final = 16 << 20  # bytes
_FORMAT: Final = "interlock-ilpack"
_FIELDS: Final = frozenset({"format", "v", "pack", "entry", "proof", "promotion", "metadata"})
_MAX_METADATA: Final = 5_000_000
_MAX_FILES: Final = 1024


class BadIlpack(InterlockError):
    """A file that does not show what it says."""

    code = "check-failed"


@dataclass(frozen=True)
class _Bundle:
    """The file taken apart; nothing of it is verified."""

    pack: bytes = field(repr=False)
    entry: bytes = field(repr=False)
    proof: bytes = field(repr=False)
    promotion: bytes | None = field(repr=False)
    metadata: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True)
class Shown:
    """What a file shows. `cosigned_us` is the time that its witnesses vouch for, in microseconds."""

    pack: Pack
    ring: str
    root_version: int
    snapshot_version: int
    origin: str
    log_index: int
    tree_size: int
    witnesses: tuple[str, ...]
    cosigned_us: int
    promoted: Promoted | None
    targets: Circle | None  # who holds the keys of targets; None: one key alone


def export_ilpack(public: Path, name: str, version: int, ring: str) -> bytes:
    """The file of a version that lies in a ring of the commons in `public`. Raises: BadIlpack, BadState."""
    repository = Repository(public)
    versions, path, role = repository.versions(), pack_path(ring, name, version), role_of_pack(ring, kind_of(name))

    def target(of: str, named: str) -> bytes:
        data = repository.target(of, versions[of], named)
        if data is None:
            raise BadIlpack(f"has no {named}", where=f"{name} version {version}", fix="check name, version and ring")
        return data

    names = [path.name for path in metadata_files(public, "root")]
    names += ["timestamp.json", f"{versions['snapshot']}.snapshot.json"]
    names += [Path(file).name for file in snapshot_files(versions["snapshot"])]
    beside = (path, entry_path(path), proof_path(path), promotion_path(path))
    names += [f"{versions['targets']}.targets.json", *repository.files_of(role, versions[role], beside)]
    metadata = {file: _text(read_bounded(public / "metadata" / file, _MAX_METADATA)) for file in names}
    promotion = None
    if ring in NEEDS_PROMOTION:
        promotion = _text(target(role, promotion_path(path)))
        metadata[REVIEWERS_PATH] = _text(target("targets", REVIEWERS_PATH))
    body = {
        "format": _FORMAT,
        "v": 1,
        "pack": _text(target(role, path)),
        "entry": _text(target(role, entry_path(path))),
        "proof": _text(target(role, proof_path(path))),
        "promotion": promotion,
        "metadata": metadata,
    }
    return canonical.encode(body)


def verify_ilpack(data: bytes, root: bytes, policy: TlogPolicy, where: str) -> Shown:
    """Check all that a file says, by the root and the log policy that the reader pinned. Raises: BadIlpack."""
    bundle = _parsed(data, where)
    try:
        pack = parse_pack(bundle.pack, where="pack")
        entry = known_entry(bundle.entry)
        place = parse_proof(bundle.proof)
        trusted, version, cosigned_us = _trusted(bundle, root, policy)
        ring, role = entry.ring, role_of_pack(entry.ring, pack.kind)
        _demand_signed(trusted, bundle, pack, ring, role)
        keys = Speakers(_keys(trusted, role), former_keys(trusted.get(role)))
        named = ("pack", pack.name, pack.version, pack.digest)
        if (entry.type, entry.name, entry.version, entry.sha256) != named or not keys.may_say(entry.by, place.index):
            raise BadIlpack("has the log entry of something else", where="entry")
        checked = place.verify(bundle.entry, policy)
        promoted = _promoted(bundle, pack, ring, keys, policy)
    except (BadPack, Malformed, BadSignature, BadProof) as e:
        raise BadIlpack(e.what, where=f"{where}: {e.where}" if e.where else where) from None
    except RepositoryError as e:
        raise BadIlpack(f"metadata does not verify ({one_line(str(e), 200)})", where=where) from None
    except InterlockError as e:
        raise BadIlpack(e.what, where=f"{where}: {e.where}" if e.where else where, fix=e.fix) from None
    return Shown(
        pack=pack,
        ring=ring,
        root_version=trusted.root.version,
        snapshot_version=version,
        origin=checked.checkpoint.origin,
        log_index=place.index,
        tree_size=checked.checkpoint.size,
        witnesses=tuple(sorted(checked.cosigned)),
        cosigned_us=cosigned_us,
        promoted=promoted,
        targets=targets_of(trusted.root),
    )


def _trusted(bundle: _Bundle, root: bytes, policy: TlogPolicy) -> tuple[TrustedMetadataSet, int, int]:
    """The metadata from the pinned root down to the targets, the snapshot's version, and when that was cosigned."""
    files = bundle.metadata
    version = _snapshot_version(files)
    snapshot = _file(files, f"{version}.snapshot.json")
    entry_data, proof = (_file(files, Path(path).name) for path in snapshot_files(version))
    entry = known_entry(entry_data)
    cosigned_us = _cosigned_us(parse_proof(proof).verify(entry_data, policy))
    demand_holders(root)
    trusted, trusted_root = trust_in(root), root
    judge_at(trusted, cosigned_us)
    if files.get(f"{trusted.root.version}.root.json", root) != root:
        raise BadIlpack("is another than the root that is trusted here", where=f"{trusted.root.version}.root.json")
    while (name := f"{trusted.root.version + 1}.root.json") in files:
        demand_holders(files[name], trusted_root)
        trusted.update_root(files[name])
        trusted_root = files[name]
    trusted.update_timestamp(_file(files, "timestamp.json"))
    trusted.update_snapshot(snapshot)
    targets = _file(files, f"{trusted.snapshot.meta['targets.json'].version}.targets.json")
    trusted.update_targets(targets)
    demand_targets(targets, trusted_root)
    _demand_snapshot(entry, trusted, version, snapshot)
    return trusted, version, cosigned_us


def _demand_snapshot(entry: LogEntry, trusted: TrustedMetadataSet, version: int, data: bytes) -> None:
    if (entry.type, entry.version, entry.sha256) != ("snapshot", version, sha256_hex(data)):
        raise BadIlpack("is not what its log entry says", where=f"snapshot {version}")
    if entry.by not in key_texts(trusted.root.keys, trusted.root.roles["snapshot"].keyids):
        raise BadIlpack("was logged by a key that is not the snapshot role's", where=f"snapshot {version}")


def _demand_signed(trusted: TrustedMetadataSet, bundle: _Bundle, pack: Pack, ring: str, role: str) -> None:
    """The pack, its entry and proof, and its promotion are the targets of the role that may name them."""
    path = pack_path(ring, pack.name, pack.version)
    top: Targets = trusted.targets
    found = [] if top.delegations is None else list(top.delegations.get_roles_for_target(path))
    if not found or found[0][0] != role:
        raise BadIlpack(f"is not what role {role} may sign", where=path)
    signed = {"": _delegated(trusted, bundle, role, "targets")}
    files = {path: bundle.pack, entry_path(path): bundle.entry, proof_path(path): bundle.proof}
    if bundle.promotion is not None:
        files[promotion_path(path)] = bundle.promotion
    for name, data in files.items():
        of = bin_of(signed[""], name)
        if of not in signed:
            signed[of] = _delegated(trusted, bundle, of, role)
        _demand_target(signed[of], name, data)
    if bundle.promotion is not None:
        _demand_target(top, REVIEWERS_PATH, _file(bundle.metadata, REVIEWERS_PATH))


def _delegated(trusted: TrustedMetadataSet, bundle: _Bundle, role: str, parent: str) -> Targets:
    """A role below another, in the version that the snapshot names."""
    meta = trusted.snapshot.meta.get(f"{role}.json")
    if meta is None:
        raise BadIlpack("is not in the snapshot", where=role)
    found: Targets = trusted.update_delegated_targets(
        _file(bundle.metadata, f"{meta.version}.{role}.json"), role, parent
    )
    return found


def _promoted(bundle: _Bundle, pack: Pack, ring: str, keys: Speakers, policy: TlogPolicy) -> Promoted | None:
    """How it came to its ring, where that takes a promotion. Raises: NotPromoted, and what the log's side raises."""
    if ring not in NEEDS_PROMOTION:
        return None
    return demand_promotion(
        bundle.promotion or b"[]",
        pack,
        ring,
        keys=keys,
        reviewers=bundle.metadata.get(REVIEWERS_PATH, b""),
        check=lambda e, p: parse_proof(p).verify(e, policy),
    )


def _demand_target(signed: Targets, path: str, data: bytes) -> None:
    info = signed.targets.get(path)
    if info is None:
        raise BadIlpack("is not signed by its role", where=path)
    info.verify_length_and_hashes(data)


def _keys(trusted: TrustedMetadataSet, role: str) -> frozenset[str]:
    """The keys of a delegated role, in the form that log entries name them."""
    top = trusted.targets.delegations
    if top is None or not top.roles or role not in top.roles:
        return frozenset()
    return key_texts(top.keys, top.roles[role].keyids)


def _cosigned_us(checked: Checked) -> int:
    """The earliest of the witnesses' times, in microseconds."""
    return min(checked.cosigned.values(), default=0) * MICROSECONDS


def _snapshot_version(files: Mapping[str, bytes]) -> int:
    found = [name.partition(".")[0] for name in files if name.endswith(".snapshot.json")]
    if len(found) != 1 or not found[0].isdecimal() or len(found[0]) > 10:
        raise BadIlpack("holds no snapshot, or several", where="metadata")
    return int(found[0])


def _file(files: Mapping[str, bytes], name: str) -> bytes:
    if name not in files:
        raise BadIlpack("is not in the file", where=name)
    return files[name]


def _parsed(data: bytes, where: str) -> _Bundle:
    """Raises: BadIlpack."""
    try:
        body = canonical.known_object(data, _FORMAT, 1, most=MAX_ILPACK, where=where)
    except NotCanonical as e:
        raise BadIlpack(e.what, where=where) from None
    if set(body) != _FIELDS:
        raise BadIlpack("has other fields than it should", where=where)
    metadata, promotion = body["metadata"], body["promotion"]
    if not isinstance(metadata, dict) or len(metadata) > _MAX_FILES:
        raise BadIlpack("holds no metadata, or too much", where=where)
    return _Bundle(
        pack=_bytes(body["pack"], where),
        entry=_bytes(body["entry"], where),
        proof=_bytes(body["proof"], where),
        promotion=None if promotion is None else _bytes(promotion, where),
        metadata={name: _bytes(text, where) for name, text in metadata.items()},
    )


def _bytes(value: object, where: str) -> bytes:
    if not isinstance(value, str):
        raise BadIlpack("has a file that is not a text", where=where)
    return value.encode("utf-8")


def _text(data: bytes) -> str:
    return data.decode("utf-8")
