"""What a mirror does that serves other bytes than it should. It has no key."""

from __future__ import annotations

import json
from collections.abc import Callable

from tuf.api.metadata import Metadata, Timestamp  # type: ignore[attr-defined]

from interlock.base.fetch import DirectoryFetcher, Fetcher, TooLarge
from interlock.commons.layout import entry_path, pack_path, proof_path, snapshot_files
from interlock.commons.signers import RoleSigner
from interlock.transparency.tiles import decode_bundle, encode_bundle
from tests.attack.scene import Scene, changed
from tests.unit.commons_world import pack, seed

Attack = Callable[[Scene], None]
DAY_S = 24 * 3600
TIMESTAMP, CHECKPOINT = "metadata/timestamp.json", "log/checkpoint"
DEEP = b"[" * 100_000
HUGE = b'{"signed": {"version": ' + b"9" * 100_000 + b"}}"


def _moved_on(scene: Scene) -> Fetcher:
    """The commons publishes version 2 and the node takes it; what the mirror had before."""
    old = scene.kept()
    scene.publish(2)
    scene.update()
    return DirectoryFetcher(old)


def old_state(scene: Scene) -> None:
    scene.shown = _moved_on(scene)


def old_files(*paths: str) -> Attack:
    """After the node has moved on: these as they were, the rest as it is."""

    def attack(scene: Scene) -> None:
        old = _moved_on(scene)
        scene.bend({path: old.fetch(path, max_length=1 << 20) for path in paths})

    return attack


def held_back(*paths: str) -> Attack:
    """Before the node has moved on: these as they were, the rest new."""

    def attack(scene: Scene) -> None:
        old: dict[str, bytes | None] = {path: scene.file(path) for path in paths}
        scene.publish(2)
        scene.bend(old)

    return attack


def frozen(hours: int) -> Attack:
    """The whole state as it was, although the commons has published since."""

    def attack(scene: Scene) -> None:
        old = scene.kept()
        scene.publish(2)
        scene.shown = DirectoryFetcher(old)
        scene.clock.advance(hours * 3600)

    return attack


def in_place_of(path: str, other: str) -> Attack:
    """One file's bytes under another's name; `{n}` in a name is the version of the new snapshot."""

    def attack(scene: Scene) -> None:
        scene.publish(2)
        scene.bend({path: scene.file(other)})

    return attack


def old_pack(scene: Scene) -> None:
    made = scene.publish(2)
    scene.bend({f"targets/packs/stable/team/{made.digest}.2.json": pack(1).data})


def old_index(scene: Scene) -> None:
    folder = scene.mirror.public / "targets" / "channels"
    (old,) = folder.glob("*.stable.json")
    scene.publish(2)
    (new,) = set(folder.glob("*.stable.json")) - {old}
    scene.bend({f"targets/channels/{new.name}": old.read_bytes()})


def proof_of_another(which: Callable[[str], str]) -> Attack:
    """In place of the new pack's entry or proof, as a target, that of the pack before."""

    def attack(scene: Scene) -> None:
        folder = (scene.mirror.public / "targets" / pack_path("stable", "team", 1)).parent
        ending = which(pack_path("stable", "team", 1)).rpartition("/")[2]
        (old,) = folder.glob(f"*.{ending}")
        scene.publish(2)
        (new,) = folder.glob(f"*.{which(pack_path('stable', 'team', 2)).rpartition('/')[2]}")
        scene.bend({str(new.relative_to(scene.mirror.public)): old.read_bytes()})

    return attack


def entry_of_another(scene: Scene) -> None:
    proof_of_another(entry_path)(scene)


def pack_proof_of_another(scene: Scene) -> None:
    proof_of_another(proof_path)(scene)


def snapshot_file_of_another(number: int) -> Attack:
    """Beside the new snapshot, the entry (0) or the proof (1) of the one before."""

    def attack(scene: Scene) -> None:
        scene.publish(2)
        scene.bend({snapshot_files(3)[number]: scene.file(snapshot_files(2)[number])})

    return attack


def swapped_hash_tile(scene: Scene) -> None:
    scene.publish(2)
    (path,) = {p for p in scene.paths_of_an_update() if p.startswith("log/tile/0/")}
    good = scene.file(path)
    scene.bend({path: good[32:64] + good[:32] + good[64:]})


def _bundle(scene: Scene) -> tuple[str, list[bytes]]:
    """The path of the log's entries, of which there is one bundle, and what is in it."""
    size = scene.commons.log.log.size
    path = f"log/tile/entries/000.p/{size}"
    return path, list(decode_bundle(scene.file(path), size))


def swapped_entries(scene: Scene) -> None:
    scene.publish(2)
    scene.commons.log.append(b"by somebody else")
    scene.mirror.copy()
    path, entries = _bundle(scene)
    scene.bend({path: encode_bundle([*entries[:-2], entries[-1], entries[-2]])})


def hidden_entry(scene: Scene) -> None:
    """The old timestamp, and in the place of the newer snapshot's entry one of something else."""
    old = scene.file(TIMESTAMP)
    scene.publish(2)
    path, entries = _bundle(scene)
    scene.bend({TIMESTAMP: old, path: encode_bundle([*entries[:-1], entries[0]])})


def withheld(matches: str) -> Attack:
    """A file is not served: the one path of the next update that begins so."""

    def attack(scene: Scene) -> None:
        scene.publish(2)
        paths = [p for p in scene.paths_of_an_update() if p.startswith(matches)]
        assert paths, matches
        scene.bend(dict.fromkeys(paths, None))

    return attack


def other_bytes(path: str, data: bytes) -> Attack:
    def attack(scene: Scene) -> None:
        scene.publish(2)
        scene.bend({path: data})

    return attack


def cut_short(path: str) -> Attack:
    def attack(scene: Scene) -> None:
        scene.publish(2)
        scene.bend({path: scene.file(path)[:-40]})

    return attack


def raised_version(scene: Scene) -> None:
    scene.publish(2)
    scene.bend({TIMESTAMP: changed(scene.file(TIMESTAMP), version=1 << 40)})


def raised_expiry(scene: Scene) -> None:
    """A timestamp that has ended, made to last."""
    scene.bend({TIMESTAMP: changed(scene.file(TIMESTAMP), expires="2099-01-01T00:00:00Z")})
    scene.clock.advance(2 * DAY_S)


def raised_tree(scene: Scene) -> None:
    note = scene.file(CHECKPOINT)
    origin, _, rest = note.partition(b"\n")
    scene.bend({CHECKPOINT: origin + b"\n" + str(1 << 60).encode() + b"\n" + rest.partition(b"\n")[2]})


def huge_tree(scene: Scene) -> None:
    origin, _, rest = scene.file(CHECKPOINT).partition(b"\n")
    scene.bend({CHECKPOINT: origin + b"\n" + b"9" * 5000 + b"\n" + rest.partition(b"\n")[2]})


def many_cosignatures(scene: Scene) -> None:
    note = scene.file(CHECKPOINT)
    line = note.rstrip(b"\n").rpartition(b"\n")[2] + b"\n"
    scene.bend({CHECKPOINT: note + line * 200})


def own_root(scene: Scene) -> None:
    root = json.loads(scene.commons.root)
    root["signed"]["version"] = 2
    scene.bend({"metadata/2.root.json": json.dumps(root).encode()})


def endless(matches: str) -> Attack:
    """A file that does not end: whoever asks for it with a bound is told so."""

    def attack(scene: Scene) -> None:
        scene.publish(2)
        (path, *_) = [p for p in scene.paths_of_an_update() if p.startswith(matches)]
        honest = scene.honest

        class Endless:
            def fetch(self, asked: str, *, max_length: int) -> bytes:
                if asked != path:
                    return honest.fetch(asked, max_length=max_length)
                assert max_length <= 1 << 20, "what has no end is asked for within bounds"
                raise TooLarge(f"is larger than {max_length} bytes", where=asked)

        scene.shown = Endless()

    return attack


def signed_by_a_stranger(scene: Scene) -> None:
    md = Metadata[Timestamp].from_bytes(scene.file(TIMESTAMP))
    md.signed.version += 1
    md.signatures.clear()
    md.sign(RoleSigner(seed("a stranger")))
    scene.bend({TIMESTAMP: md.to_bytes()})
