"""What somebody does who stole the commons' online keys: TUF alone would take all of it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tuf.api.metadata import Metadata, MetaFile, Targets, Timestamp  # type: ignore[attr-defined]

from interlock.base import canonical
from interlock.base.keys import ed25519_of
from interlock.commons.ceremony import assemble, request_of, sign_request
from interlock.commons.indicators import indicator_pack
from interlock.commons.keyring import make_next
from interlock.commons.layout import (
    REMOVALS_PATH,
    channel_path,
    entry_path,
    pack_path,
    promotion_path,
    proof_path,
    revoked_path,
    snapshot_files,
)
from interlock.commons.pack import Pack, sha256_hex
from interlock.commons.records import Evidence, Revocation, dump_evidence
from interlock.commons.rootplan import expiry_us, plan_of
from interlock.commons.signers import RoleSigner, read_key
from interlock.transparency.entry import signed_entry
from interlock.transparency.log import open_log
from interlock.transparency.note import NoteSigner
from tests.attack.scene import Scene
from tests.attack.thief import Files, Thief
from tests.unit.commons_world import hand_over, pack, seed

Attack = Callable[[Scene], None]
FAR = 1 << 30


def _shown(scene: Scene, thief: Thief) -> None:
    scene.shown, scene.stolen = thief.shows(), scene.stolen + 1


def forged(made: Pack) -> Attack:
    """A pack that is signed through and through, without a log entry."""

    def attack(scene: Scene) -> None:
        thief = Thief(scene.commons)
        thief.forge(made)
        _shown(scene, thief)

    return attack


def _beside(scene: Scene, thief: Thief, made: Pack, path: str, ring: str = "stable") -> Files:
    """A pack's own entry and proof, as the log gives them to whoever may append."""
    entry = thief.entry(made, ring=ring)
    return {entry_path(path): entry, proof_path(path): scene.commons.log.append(entry)}


def another_proof(scene: Scene) -> None:
    """The entry and the proof of version 1 beside version 2."""
    thief = Thief(scene.commons)
    base, old = thief.repository.versions()["stable"], pack_path("stable", "team", 1)
    found = [thief.repository.target("stable", base, at(old)) or b"" for at in (entry_path, proof_path)]
    assert all(found)
    thief.forge(pack(2), lambda path: {entry_path(path): found[0], proof_path(path): found[1]})
    _shown(scene, thief)


def proof_of_another_for_the_entry(scene: Scene) -> None:
    """The pack's own entry, with the proof of another's place."""
    thief = Thief(scene.commons)
    entry = thief.entry(pack(2))
    proof = scene.commons.log.append(thief.entry(pack(3)))
    thief.forge(pack(2), lambda path: {entry_path(path): entry, proof_path(path): proof})
    _shown(scene, thief)


def logged_by(role: str) -> Attack:
    """Logged in the word of another role's key, or of a stranger's."""

    def attack(scene: Scene) -> None:
        thief = Thief(scene.commons)
        by = None if role else seed("a stranger")
        entry = thief.entry(pack(2), by=by, role=role)
        proof = scene.commons.log.append(entry)
        thief.forge(pack(2), lambda path: {entry_path(path): entry, proof_path(path): proof})
        _shown(scene, thief)

    return attack


def in_another_log(name: str) -> Attack:
    """Logged where nobody looks: another log's name, or this name under another key."""

    def attack(scene: Scene) -> None:
        thief = Thief(scene.commons)
        entry = thief.entry(pack(2))
        log = scene.stack.enter_context(open_log(scene.commons.home / "other", NoteSigner(name, seed("other log"))))
        (index,) = log.append([entry])
        proof = log.prove(index, log.integrate()).data
        thief.forge(pack(2), lambda path: {entry_path(path): entry, proof_path(path): proof})
        _shown(scene, thief)

    return attack


def not_witnessed(scene: Scene) -> None:
    thief = Thief(scene.commons)
    entry = thief.entry(pack(2))
    log = scene.commons.log.log
    (index,) = log.append([entry])
    proof = log.prove(index, log.integrate()).data
    thief.forge(pack(2), lambda path: {entry_path(path): entry, proof_path(path): proof})
    _shown(scene, thief)


def not_promoted(borrowed: bool) -> Attack:
    """Logged as it should be, without a promotion, or with the one of version 1."""

    def attack(scene: Scene) -> None:
        thief = Thief(scene.commons)
        old = promotion_path(pack_path("stable", "team", 1))
        found = thief.repository.target("stable", thief.repository.versions()["stable"], old) or b""
        assert found

        def beside(path: str) -> Files:
            more = {promotion_path(path): found} if borrowed else {}
            return {**_beside(scene, thief, pack(2), path), **more}

        thief.forge(pack(2), beside)
        _shown(scene, thief)

    return attack


def old_index(scene: Scene) -> None:
    """The ring's index goes back to version 1, newly signed, after the node has version 2."""
    scene.publish(2)
    scene.update()
    thief = Thief(scene.commons)
    thief.forge(pack(1))
    _shown(scene, thief)


def other_bytes(scene: Scene) -> None:
    """Other rules under the version that is in force."""
    thief = Thief(scene.commons)
    thief.forge(pack(1, words=("other",)))
    _shown(scene, thief)


def index_of(data: bytes) -> Attack:
    def attack(scene: Scene) -> None:
        thief = Thief(scene.commons)
        thief.targets("stable", {channel_path("stable"): data})
        _shown(scene, thief)

    return attack


def index_ahead(scene: Scene) -> None:
    """The index names a version that no honest one will reach, which is not there."""
    thief = Thief(scene.commons)
    thief.forge(pack(2), index=_index(FAR, pack(FAR).digest))
    _shown(scene, thief)


def _index(version: int, sha256: str) -> Files:
    rows = {"team": {"version": version, "sha256": sha256}}
    body: dict[str, object] = {"format": "interlock-channel", "v": 1, "ring": "stable", "packs": rows}
    return {channel_path("stable"): canonical.encode(body)}


def digest_of_another(scene: Scene) -> None:
    """The index says another digest than the ring's target has."""
    thief = Thief(scene.commons)
    thief.forge(pack(2), index=_index(2, "ab" * 32))
    _shown(scene, thief)


def bad_pack(data: bytes, version: int = 2) -> Attack:
    """Signed and logged bytes in the place of a pack."""

    def attack(scene: Scene) -> None:
        thief = Thief(scene.commons)
        made = replace(pack(version), data=data)
        thief.forge(made, lambda path: _beside(scene, thief, made, path))
        _shown(scene, thief)

    return attack


def edited(**fields: object) -> bytes:
    """Version 2 of the pack, with other fields."""
    return canonical.encode({**json.loads(pack(2).data), **fields})


def indicator_by_the_ring(scene: Scene) -> None:
    """A ring's key names an indicator pack, which is another role's to sign."""
    made = indicator_pack("indicator-hosts", 1, ["host:" + "ab" * 32], authors=["R"])
    thief = Thief(scene.commons)
    thief.forge(made, lambda path: _beside(scene, thief, made, path), index={})
    node = scene.node()
    node.subscribe("indicator-hosts", "stable")
    scene.mend = lambda: node.unsubscribe("indicator-hosts", "stable")
    _shown(scene, thief)


def forward(*, withheld: bool = False, logged: bool = False) -> Attack:
    """Versions that no honest publish will reach."""

    def attack(scene: Scene) -> None:
        thief = Thief(scene.commons)
        folder = thief.public / "metadata"
        data = thief.repository.snapshot(_next(thief), {}, thief.keys["snapshot"], scene.clock.now_us())
        md = Metadata.from_bytes(data)
        md.signed.version = FAR
        md.sign(thief.keys["snapshot"])
        data = md.to_bytes()
        if not withheld:
            (folder / f"{FAR}.snapshot.json").write_bytes(data)
        if logged:
            thief.log_snapshot(data, FAR)
        stamp = Metadata[Timestamp].from_file(str(folder / "timestamp.json"))
        stamp.signed.version, stamp.signed.snapshot_meta = FAR, MetaFile.from_data(FAR, data, ["sha256"])
        stamp.sign(thief.keys["timestamp"])
        (folder / "timestamp.json").write_bytes(stamp.to_bytes())
        _shown(scene, thief)
        if logged:
            scene.mend = lambda: _new_keys(scene)

    return attack


def _new_keys(scene: Scene) -> None:
    """Two keyholders sign a root that names other keys for snapshot and timestamp: what the old ones said is void."""
    commons, roles = scene.commons, ("snapshot", "timestamp")
    keys, now = commons.home / "commons" / "keys", commons.clock.now_us()
    new = {role: ed25519_of(make_next(keys / f"{role}.key", secrets.token_bytes)) for role in roles}
    plan = plan_of(commons.root)
    request = request_of(replace(plan, online={**plan.online, **new}), commons.root, now)
    made = assemble(request, [sign_request(request, seed(f"holder {name}")) for name in ("ada", "ben")], now)
    commons.publisher.install_root(made.root, made.transcript)


def _next(thief: Thief) -> int:
    return thief.repository.versions()["snapshot"] + 1


def unlogged_snapshot(scene: Scene) -> None:
    thief = Thief(scene.commons)
    thief.show({}, logged=False)
    _shown(scene, thief)


def snapshot_of_another(scene: Scene) -> None:
    """The new snapshot with the entry and the proof of the one before."""
    thief = Thief(scene.commons)
    thief.show({}, logged=False)
    version = thief.repository.versions()["snapshot"]
    thief.beside(version, *((thief.public / path).read_bytes() for path in snapshot_files(version - 1)))
    _shown(scene, thief)


def snapshot_by_another(scene: Scene) -> None:
    """The snapshot's entry is in the word of the timestamp's key."""
    thief = Thief(scene.commons)
    thief.show({}, by=thief.keys["timestamp"].key)
    _shown(scene, thief)


def split_snapshots(scene: Scene) -> None:
    """Two snapshots are logged, each to show to one victim; this one is shown the first."""
    first, second = Thief(scene.commons, "first"), Thief(scene.commons, "second")
    first.show({})
    second.targets("stable", {"packs/stable/other/1.json": b"{}"})
    _shown(scene, first)


def grown_past(scene: Scene) -> None:
    """The victim has taken the first snapshot, and is shown it again when the second is in the log."""
    first, second = Thief(scene.commons, "first"), Thief(scene.commons, "second")
    first.show({})
    _shown(scene, first)
    scene.update()
    second.targets("stable", {"packs/stable/other/1.json": b"{}"})


def _beta(scene: Scene) -> None:
    """The node follows a ring in which no promotion is needed too."""
    scene.commons.publisher.publish(pack(1), "beta")
    scene.mirror.copy()
    scene.node().subscribe("team", "beta")
    scene.update()


def _logged_in_beta(scene: Scene, word: str, base: Path | None = None) -> Thief:
    thief, made = Thief(scene.commons, word, base), pack(2, words=(word,))
    thief.forge(made, lambda path: _beside(scene, thief, made, path, "beta"), ring="beta")
    return thief


def split_packs_first(scene: Scene) -> None:
    """Two packs of one version, each logged, in two logged snapshots: a victim is shown the first."""
    _beta(scene)
    first, _ = (_logged_in_beta(scene, word) for word in ("left", "right"))
    _shown(scene, first)


def split_packs_second(scene: Scene) -> None:
    """Who took the first before the second was in the log is shown the second."""
    _beta(scene)
    first = _logged_in_beta(scene, "left")
    _shown(scene, first)
    scene.update()
    _shown(scene, _logged_in_beta(scene, "right", first.public))
    scene.mend = lambda: _renumber_beta(scene)


def _renumber_beta(scene: Scene) -> None:
    """The commons raises the ring's version over the thief's: else TUF calls all of it a rollback."""
    for version in (5, 6, 7):
        scene.commons.publisher.publish(pack(version), "beta")


def leads_out(path: str) -> Attack:
    """A role names a target whose path leads out of where it is put; a mirror copies that commons."""

    def attack(scene: Scene) -> None:
        thief = Thief(scene.commons)
        thief.name("stable", path)
        _shown(scene, thief)
        scene.act = scene.mirror_of(scene).copy

    return attack


def revocation_dropped(scene: Scene) -> None:
    """What was taken back, and is held back here, is taken off the ring's list again."""
    scene.commons.publisher.publish(pack(2), "stable")
    scene.commons.publisher.revoke("team", 2, why="it blocks too much")
    scene.mirror.copy()
    scene.update()
    thief = Thief(scene.commons)
    thief.targets("stable", {revoked_path("stable"): dump_evidence([])})
    _shown(scene, thief)


def removal_by_holders(*names: str) -> Attack:
    """A removal of what is in force, logged, and signed with the keys of these holders of targets."""

    def attack(scene: Scene) -> None:
        commons = scene.commons
        hand_over(commons)
        scene.mirror.copy()
        scene.update()
        thief = Thief(commons)
        base, now = thief.repository.versions(), commons.clock.now_us()
        record = Revocation(pack().digest, "team", 1, "stable", (), "evil", "removal").data
        of = {"name": "team", "version": 1, "ring": "stable", "sha256": sha256_hex(record), "at": now}
        entry = signed_entry(thief.keys["stable"].key, type="revoke", **of).data  # type: ignore[arg-type]
        rows = dump_evidence([Evidence(entry, commons.log.append(entry), record)])
        draft = thief.repository.draft(base["targets"], {REMOVALS_PATH: rows}, {}, expiry_us("targets", now))
        md = Metadata[Targets].from_bytes(draft.data)
        for name in names:
            md.sign(RoleSigner(seed(f"holder {name}")), append=True)
        (thief.public / "metadata" / f"{draft.version}.targets.json").write_bytes(md.to_bytes())
        thief.show({"targets": draft.version})
        _shown(scene, thief)

    return attack


def logged_by_a_former_key(scene: Scene) -> None:
    """The ring's key was replaced, and the old one is stolen: the log takes what it says, and it counts no more."""
    commons, file = scene.commons, scene.commons.home / "commons" / "keys" / "stable.key"
    old = read_key(file)
    commons.publisher.rotate("stable", make_next(file, secrets.token_bytes))
    scene.mirror.copy()
    scene.update()
    thief, made, path = Thief(commons), pack(2), pack_path("stable", "team", 2)
    entry = thief.entry(made, by=old)
    thief.forge(made, lambda _: {entry_path(path): entry, proof_path(path): commons.log.append(entry)})
    _shown(scene, thief)


def revocation_of_another(scene: Scene) -> None:
    """On the ring's list stands the promotion of the pack that is in force, as though it were a revocation."""
    thief = Thief(scene.commons)
    old = promotion_path(pack_path("stable", "team", 1))
    found = thief.repository.target("stable", thief.repository.versions()["stable"], old) or b""
    thief.targets("stable", {revoked_path("stable"): found})
    _shown(scene, thief)
