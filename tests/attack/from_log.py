"""What a log does that has its key, and what one witness does that has its own."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from interlock.base import canonical
from interlock.base.keys import Ed25519Signer
from interlock.commons.layout import entry_path, proof_path
from interlock.commons.pins import init_node
from interlock.commons.timefloor import read_floor
from interlock.transparency.checkpoint import Checkpoint, Cosigner, parse_checkpoint, sign_checkpoint
from interlock.transparency.log import Log, open_log
from interlock.transparency.note import Note, NoteSigner, encode_note, parse_note
from interlock.transparency.proof import parse_proof
from tests.attack.scene import Scene
from tests.attack.thief import Thief
from tests.unit.commons_world import ORIGIN, TestLog, log_policy, pack, seed
from tests.unit.log_entries import pack_entry

Attack = Callable[[Scene], None]
CHECKPOINT = "log/checkpoint"
LOG = NoteSigner(ORIGIN, seed("log"))
ONE, TWO = (Cosigner(f"w{i}.example", seed(f"witness {i}")) for i in (1, 2))


def _filled(scene: Scene, size: int, *, signer: NoteSigner = LOG, witnesses: Sequence[Cosigner] = (ONE, TWO)) -> Path:
    """Another history under a key, cosigned by these witnesses as though they had seen no other; its public folder."""
    folder = scene.commons.home / "fork"
    log = scene.stack.enter_context(open_log(folder, signer))
    log.append([pack_entry("team", i + 5, pack(i + 5).digest, at=7).data for i in range(size)])
    _publish(scene, log, witnesses)
    return folder / "public"


def _publish(scene: Scene, log: Log, witnesses: Sequence[Cosigner]) -> bytes:
    note = cosigned(scene, log.integrate(), witnesses)
    log.publish(note)
    return note


def cosigned(scene: Scene, note: bytes, witnesses: Sequence[Cosigner], seconds: int = 0) -> bytes:
    """A note with the word of these witnesses, whatever they signed before."""
    parsed, at = parse_note(note), seconds or scene.commons.clock.now_us() // 1_000_000
    lines = [w.cosign(parsed.text.encode(), at) for w in witnesses]
    return encode_note(Note(parsed.text, parsed.signatures).plus(lines))


def _shows(scene: Scene, log: Path) -> None:
    from_log = Thief(scene.commons, "as-it-is").shows(log)
    scene.shown = from_log


def fork(more: int, witnesses: Sequence[Cosigner] = (ONE, TWO)) -> Attack:
    """Another history, as long as the one that the node saw and `more` entries."""

    def attack(scene: Scene) -> None:
        _shows(scene, _filled(scene, scene.commons.log.log.size + more, witnesses=witnesses))

    return attack


def fork_for_a_newcomer(witnesses: Sequence[Cosigner]) -> Attack:
    """A node that saw nothing of the log yet is shown a fork from the start."""

    def attack(scene: Scene) -> None:
        fork(1, witnesses)(scene)
        home = scene.commons.home / "newcomer"
        init_node(home, log_policy=log_policy(), root=scene.commons.root)
        node = scene.node(home)
        node.subscribe("team", "stable")
        scene.act = node.update

    return attack


def _forked_proof(scene: Scene, entry: bytes, name: str, witnesses: Sequence[Cosigner] = (ONE, TWO)) -> bytes:
    log = scene.stack.enter_context(open_log(scene.commons.home / name, LOG))
    (index,) = log.append([entry])
    return log.prove(index, cosigned(scene, log.integrate(), witnesses)).data


def fork_behind_a_pack(scene: Scene) -> None:
    thief, made = Thief(scene.commons), pack(2)
    entry = thief.entry(made)
    proof = _forked_proof(scene, entry, "fork")
    thief.forge(made, lambda path: {entry_path(path): entry, proof_path(path): proof})
    scene.shown, scene.stolen = thief.shows(), scene.stolen + 1


def fork_behind_a_snapshot(witnesses: Sequence[Cosigner]) -> Attack:
    def attack(scene: Scene) -> None:
        thief = Thief(scene.commons)
        thief.show({})
        version = thief.repository.versions()["snapshot"]
        entry = (thief.public / f"metadata/{version}.snapshot.json.entry").read_bytes()
        thief.beside(version, entry, _forked_proof(scene, entry, "fork", witnesses))
        scene.shown = thief.shows()

    return attack


def _resigned(scene: Scene, size: int, root: bytes, witnesses: Sequence[Cosigner] = (ONE, TWO)) -> bytes:
    return cosigned(scene, sign_checkpoint(Checkpoint(ORIGIN, size, root), [LOG]), witnesses)


def shrunk(scene: Scene) -> None:
    """The log takes entries back, and signs a smaller tree anew."""
    log = scene.commons.log.log
    scene.bend({CHECKPOINT: _resigned(scene, log.size - 1, log.checkpoint_at(log.size - 1).root)})


def emptied(scene: Scene) -> None:
    scene.bend({CHECKPOINT: _resigned(scene, 0, hashlib.sha256(b"").digest())})


def leapt(scene: Scene) -> None:
    """A tree of 2^60 entries, so that no honest one is ever larger; nobody has its tiles."""
    scene.bend({CHECKPOINT: _resigned(scene, 1 << 60, bytes(range(32)))})


def leapt_by_one(scene: Scene) -> None:
    """One entry more, of which there are no tiles that lead to the root."""
    size = scene.commons.log.log.size
    scene.publish(2)
    scene.bend({CHECKPOINT: _resigned(scene, scene.commons.log.log.size, bytes(range(32)))})
    assert scene.commons.log.log.size > size


def another_key(scene: Scene) -> None:
    _shows(scene, _filled(scene, 12, signer=NoteSigner(ORIGIN, seed("another log"))))


def another_name(scene: Scene) -> None:
    _shows(scene, _filled(scene, 12, signer=NoteSigner("other.example/log", seed("log"))))


def not_cosigned(scene: Scene) -> None:
    """The log signs what no witness was shown."""
    log = scene.commons.log.log
    log.append([b"something"])
    log.publish(log.integrate())
    scene.shown = Thief(scene.commons).shows()


def flooded(scene: Scene) -> None:
    """More entries behind the newest snapshot than a node reads."""
    log = scene.commons.log
    log.log.append([b"noise %d" % i for i in range(4097)])
    log.append(b"the last")
    scene.shown = Thief(scene.commons).shows()


def noise(scene: Scene) -> None:
    """Entries that are none: nested, huge, of no known type, of a snapshot that nobody signed."""
    log = scene.commons.log
    entry = {"at": 1, "by": f"ed25519:{'ab' * 32}", "name": "snapshot", "ring": "snapshot", "sha256": "cd" * 32}
    unsigned = canonical.encode({**entry, "sig": "A" * 86 + "==", "type": "snapshot", "v": 2, "version": 9})
    log.log.append([b"[" * 60_000, b'{"v":' + b"9" * 60_000 + b"}", b"\xff" * 100, b""])
    log.append(unsigned)
    scene.shown = Thief(scene.commons).shows()


def snapshot_of_anybody(scene: Scene) -> None:
    """Whoever may append logs a snapshot by a key of its own: nobody can tell who was shown it."""
    thief = Thief(scene.commons)
    thief.log_snapshot(b"a snapshot that nobody knows", 2, seed("a stranger"))
    scene.shown = Thief(scene.commons, "as-it-is").shows()


def wrong_place(scene: Scene) -> None:
    """A proof that says another index than the entry has."""
    thief = Thief(scene.commons)
    thief.show({})
    version = thief.repository.versions()["snapshot"]
    entry, proof = (thief.public / f"metadata/{version}.snapshot.json.{end}" for end in ("entry", "tlog-proof"))
    index = parse_proof(proof.read_bytes()).index
    data = proof.read_bytes().replace(b"index %d\n" % index, b"index %d\n" % (index - 1))
    thief.beside(version, entry.read_bytes(), data)
    scene.shown = thief.shows()


# --- one witness ----------------------------------------------------------------------------------------------------


def _newest(scene: Scene) -> bytes:
    """The newest checkpoint of a log that grew, with the log's signature alone."""
    log: TestLog = scene.commons.log
    log.append(b"one more entry")
    assert log.log.published is not None
    parsed = parse_note(log.log.published)
    own = [s for s in parsed.signatures if s.name == ORIGIN]
    return encode_note(Note(parsed.text, tuple(own)))


def _with(scene: Scene, note: bytes) -> None:
    """The log as it is, with this checkpoint."""
    scene.mirror.copy()
    scene.bend({CHECKPOINT: note})


def silent(scene: Scene) -> None:
    """One of two witnesses does not cosign."""
    note = _newest(scene)
    _with(scene, cosigned(scene, note, [ONE]))


def twice(scene: Scene) -> None:
    """One witness cosigns twice, at two times, to be counted as two."""
    note = cosigned(scene, _newest(scene), [ONE])
    _with(scene, cosigned(scene, note, [ONE], scene.commons.clock.now_us() // 1_000_000 + 1))


def as_the_other(scene: Scene) -> None:
    """One witness signs a second line under the other's name, with its own key."""
    note = cosigned(scene, _newest(scene), [ONE])
    _with(scene, cosigned(scene, note, [Cosigner(TWO.name, ONE.signer)]))


def forged_line(scene: Scene) -> None:
    """A line with the other's name and key id, and a signature that is none."""
    note = cosigned(scene, _newest(scene), [ONE])
    line = TWO.cosign(b"another text\n1\nAAAA\n", 7)
    parsed = parse_note(note)
    _with(scene, encode_note(parsed.plus([line])))


def stranger(scene: Scene) -> None:
    note = cosigned(scene, _newest(scene), [ONE])
    _with(scene, cosigned(scene, note, [Cosigner("w3.example", Ed25519Signer(b"3" * 32))]))


def time_ahead(years: int) -> Attack:
    """One witness states a time far away; the floor under the node's clock stays with the other's."""

    def attack(scene: Scene) -> None:
        note, now = _newest(scene), scene.commons.clock.now_us()
        before = read_floor(scene.home)
        seconds = now // 1_000_000 + years * 365 * 86_400
        note = cosigned(scene, cosigned(scene, note, [TWO]), [ONE], seconds)
        assert parse_checkpoint(parse_note(note).text).size == scene.commons.log.log.size
        _with(scene, note)

        def act() -> None:
            scene.update()
            assert before <= read_floor(scene.home) <= now, "one witness moved the floor under the clock"

        scene.act = act

    return attack
