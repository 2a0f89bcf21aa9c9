"""A whole commons in a temporary directory, with real keys, a real log and real witnesses, for tests to publish in.

No mocks: the log is a `Log` on files, the witnesses are `Witness`es asked in-process, members read the directories
through fetchers. Randomness is a counter and time a ManualClock, so a world is the same at each run.
"""

from __future__ import annotations

import functools
import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from interlock.base.clock import ManualClock
from interlock.base.fetch import DirectoryFetcher, Fetcher
from interlock.base.keys import Ed25519Signer, Ed25519Verifier
from interlock.commons.beginning import create_commons, make_commons_keys
from interlock.commons.ceremony import assemble, request_of, sign_request
from interlock.commons.gate import Bench
from interlock.commons.holders import Circle, Holder
from interlock.commons.journal import Loose
from interlock.commons.layout import DELEGATIONS, REVIEWERS_PATH, pack_path, role_of_pack, snapshot_files
from interlock.commons.mirror import Mirror
from interlock.commons.pack import Pack, build_pack, sha256_hex
from interlock.commons.pins import init_node
from interlock.commons.promotion import NEEDS_PROMOTION
from interlock.commons.publish import Publisher
from interlock.commons.records import Promotion, Review
from interlock.commons.repository import Repository
from interlock.commons.reviewers import Reviewer, Reviewers
from interlock.commons.rootplan import Plan, expiry, expiry_us, plan_of
from interlock.commons.signers import RoleSigner, load_keys
from interlock.commons.steps import Begun, Published
from interlock.commons.subscribe import Subscriber
from interlock.commons.waiting import draft_of
from interlock.transparency.checkpoint import Cosigner
from interlock.transparency.entry import signed_entry
from interlock.transparency.log import Log, open_log
from interlock.transparency.merkle import leaf_hash
from interlock.transparency.note import NoteSigner, encode_note, parse_note
from interlock.transparency.policy import TlogPolicy, parse_policy
from interlock.transparency.witness import Witness, add_checkpoint_request, parse_cosignatures, parse_size

ORIGIN = "log.example/packs"
HOLDERS = ("ada", "ben", "cleo")


def seed(name: str) -> Ed25519Signer:
    """A key that has the same bytes at each run."""
    return Ed25519Signer(hashlib.sha256(f"test key {name}".encode()).digest())


REVIEWERS = Reviewers({"rita": Reviewer(seed("reviewer").verifier.text)})
SIGN_OFF = "Signed-off-by: A. Author <a@example.org>"


class Counter:
    """Randomness that is none: each call's bytes follow from its number."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, size: int) -> bytes:
        self.calls += 1
        return hashlib.shake_128(b"rng %d" % self.calls).digest(size)


def rule(name: str, word: str, *, verdict: str = "block", reason: str = "") -> dict[str, object]:
    """A rule of a policy that meets commands holding a word, with its examples."""
    return {
        "id": name,
        "when": {"arg": "command", "contains": word},
        "verdict": verdict,
        "reason": reason or f"{word} is not for agents",
        "attributed_to": "command",
        "examples": {
            "fires": [{"action": "Bash", "args": {"command": f"run {word} now"}}],
            "passes": [{"action": "Bash", "args": {"command": "ls"}}],
        },
    }


def pack(version: int = 1, *, name: str = "team", words: tuple[str, ...] = ("zap",)) -> Pack:
    rules = [rule(f"team.{word}", word) for word in words]
    key = seed("author").verifier.text
    return build_pack(
        name,
        version,
        rules,
        licence="Apache-2.0",
        authors=["A. Author <a@example.org>"],
        signed_off_by=[SIGN_OFF],
        author_key=key,
    )


class TestLog:
    """A log with two witnesses; `append` is what a publisher calls, and counts its calls."""

    __test__ = False

    def __init__(self, log: Log, root: Path, clock: ManualClock, *, witnessed: bool = True) -> None:
        self.log = log
        self.public = root / "public"
        self.calls: list[bytes] = []
        cosigners = [Cosigner(f"w{i}.example", seed(f"witness {i}")) for i in (1, 2)]
        self._keys = {ORIGIN: [NoteSigner(ORIGIN, seed("log")).key]}
        self._witnesses = (
            [Witness(root / f"witness-{c.name}", [c], self._keys, clock) for c in cosigners] if witnessed else []
        )

    def append(self, entry: bytes) -> bytes:
        self.calls.append(entry)
        (index,) = self.log.append([entry])
        note = self.log.integrate()
        note = self._cosigned(note)
        self.log.publish(note)
        return self.log.prove(index, note).data

    def _cosigned(self, note: bytes) -> bytes:
        parsed = parse_note(note)
        for witness in self._witnesses:
            old = 0
            while True:
                proof = self.log.consistency(old, self.log.size)
                answer = witness.process(add_checkpoint_request(old, proof, note))
                if answer.status != 409:
                    break
                old = parse_size(answer.body)
            assert answer.status == 200, answer
            parsed = parsed.plus(parse_cosignatures(answer.body))
        return encode_note(parsed)


def log_policy() -> bytes:
    """What members pin: the log's key, and both witnesses."""
    lines = [f"log {NoteSigner(ORIGIN, seed('log')).key.text}"]
    for i in (1, 2):
        lines.append(f"witness w{i} {Cosigner(f'w{i}.example', seed(f'witness {i}')).key.text}")
    lines += ["group both all w1 w2", "quorum both"]
    return ("\n".join(lines) + "\n").encode()


class Releasing(Publisher):
    """A publisher to whom each ring is one step: without a corpus, and with a review at once where it needs one."""

    def publish(
        self, pack: Pack, ring: str, *, bench: Bench | None = None, signer: RoleSigner | None = None
    ) -> Published:
        bench = bench or Bench(without=True)
        if ring not in NEEDS_PROMOTION:
            return super().publish(pack, ring, bench=bench, signer=signer)
        path, role = pack_path(ring, pack.name, pack.version), role_of_pack(ring, pack.kind)

        def begin(base: Mapping[str, int]) -> Begun:
            key = self._key_of(role, base, signer)
            self._demand_newer(pack, ring, base)
            of = (pack.name, pack.version, ring)
            gate = self._gate(pack, ring, base, bench, key)
            said = Review(pack.digest, pack.name, pack.version, "beta", "approve", "").data
            review = self.steps.record_item("review", pack.name, pack.version, "beta", said, seed("reviewer"))
            leaves = [leaf_hash(item.entry.data).hex() for item in (gate, review)]
            promotion = Promotion(pack.digest, pack.name, pack.version, "beta", ring, leaves[0], (leaves[1],))
            promoted = self.steps.record_item("promote", *of, promotion.data, key.key)
            last = self.steps.item("pack", *of, pack.data, path, role, key)
            listed = Loose(REVIEWERS_PATH, "targets", REVIEWERS.data)
            known = self.steps.repository.target("targets", base["targets"], REVIEWERS_PATH)
            loose = (listed,) if known is None else ()
            return Begun((gate, review, promoted, last), loose, (sha256_hex(said),))

        return self.steps.run((("pack", f"{ring}/{path}", pack.data),), begin, signer)


class World:
    """The commons at `home`, its log, and what members need of both; made if it is not there yet."""

    def __init__(self, home: Path, log: TestLog, clock: ManualClock) -> None:
        self.home = home
        self.clock = clock
        self.log = log
        self.public = home / "commons" / "public"
        self.policy: TlogPolicy = parse_policy(log_policy())
        self.publisher = Releasing(home / "commons", log.append, self.policy, clock)
        root = self.public / "metadata" / "1.root.json"
        if root.exists():
            self.root = root.read_bytes()
            return
        online = make_commons_keys(home / "commons", Counter())
        self.root = root_of(online, clock)
        create_commons(home / "commons", self.root, clock.now_us())
        self.publisher.renew()  # logs the first snapshot, and names it

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.root).hexdigest()

    def member(self, name: str, fetcher: Fetcher | None = None, log: Fetcher | None = None) -> Subscriber:
        """An initialised node that reads the commons itself, or what it is given in its place."""
        home = self.home / name
        init_node(home, log_policy=log_policy(), root=self.root)
        return Subscriber(
            home,
            fetcher or DirectoryFetcher(self.public),
            self.clock,
            log=log or DirectoryFetcher(self.log.public),
        )

    def mirror(self, name: str = "mirror") -> Mirror:
        pins = init_node(self.home / f"{name}-pins", log_policy=log_policy(), root=self.root)
        log = DirectoryFetcher(self.log.public)
        return Mirror(self.home / name, DirectoryFetcher(self.public), pins, self.clock, log=log)


def holder(name: str) -> Holder:
    """A keyholder with a classical key, who works for an employer of her own."""
    return Holder(name, f"{name}'s employer", "2026-01-01", "2036-01-01", (seed(f"holder {name}").verifier,))


def plan(online: Mapping[str, Ed25519Verifier], now_us: int, names: tuple[str, ...] = HOLDERS) -> Plan:
    """A root of these holders, two of whom sign."""
    ends = int(expiry("root", now_us).timestamp()) * 1_000_000
    return Plan(tuple(holder(name) for name in names), online, 2, ends)


HELD = Circle(tuple(holder(name) for name in ("tara", "theo", "tom")), 2)


def hand_over(commons: World) -> None:
    """From now on two of these three sign what targets say, under a root that names them."""
    home, now = commons.home / "commons", commons.clock.now_us()
    online = {role: key for role, key in plan_of(commons.root).online.items() if role != "targets"}
    wanted = replace(plan_of(commons.root), online=online, targets=HELD)
    request = request_of(wanted, commons.root, now, draft_of(home, expiry_us("root", now), {}))
    files = [sign_request(request, seed(f"holder {name}")) for name in ("ada", "ben", "tara", "tom")]
    done = assemble(request, files, now)
    commons.publisher.install_root(done.root, done.transcript, targets=done.targets)
    (home / "keys" / "targets.key").unlink()


def root_by(wanted: Plan, previous: bytes | None, now_us: int, *names: str) -> bytes:
    """The root of a plan, signed by these holders."""
    request = request_of(wanted, previous, now_us)
    return assemble(request, [sign_request(request, seed(f"holder {name}")) for name in names], now_us).root


def root_of(online: Mapping[str, Ed25519Verifier], clock: ManualClock) -> bytes:
    """A root that two of three keyholders signed."""
    return root_by(plan(online, clock.now_us()), None, clock.now_us(), *HOLDERS[:2])


def sign_past_the_log(commons: World, *paths: str) -> None:
    """Whoever has the online keys names targets that the log has not; only the snapshot is logged."""
    repository = Repository(commons.public)
    keys = load_keys(commons.home / "commons" / "keys", ("targets",))
    now, version = commons.clock.now_us(), repository.versions()["targets"] + 1
    repository.add_targets("targets", version, dict.fromkeys(paths, b"{}"), keys["targets"], now)
    show_roles(commons, {"targets": version})


def show_roles(commons: World, changed: Mapping[str, int]) -> None:
    """Put versions of roles before clients, with the online keys: a snapshot, logged, and the timestamp of it."""
    repository = Repository(commons.public)
    keys = load_keys(commons.home / "commons" / "keys", ("snapshot", "timestamp"))
    now, base = commons.clock.now_us(), repository.versions()
    version = base["snapshot"] + 1
    data = repository.snapshot(version, dict(changed), keys["snapshot"], now)
    key, digest = keys["snapshot"].key, sha256_hex(data)
    entry = signed_entry(
        key, type="snapshot", name="snapshot", version=version, ring="snapshot", sha256=digest, at=now
    ).data
    for path, content in zip(snapshot_files(version), (entry, commons.log.append(entry)), strict=True):
        (commons.public / path).write_bytes(content)
    repository.timestamp(base["timestamp"] + 1, version, keys["timestamp"], now)


@contextmanager
def world(tmp_path: Path) -> Iterator[World]:
    """A commons in this folder: the one that is there, or a new one."""
    logged: tuple[bytes, ...] = ()
    if not (tmp_path / "commons").exists():
        files, logged = _new(tuple(DELEGATIONS.items()))
        tmp_path.mkdir(parents=True, exist_ok=True)
        for name, mode, data in files:
            path = tmp_path / name
            if data is None:
                path.mkdir(mode, exist_ok=True)
            else:
                path.write_bytes(data)
                path.chmod(mode)
    with _opened(tmp_path) as made:
        made.log.calls += logged
        yield made


@functools.cache
def _new(_layout: object) -> tuple[list[tuple[Path, int, bytes | None]], tuple[bytes, ...]]:
    """The files of a new commons (None for a folder), and what it logged. Writing them takes a fifth of making them.

    `_layout` is which roles there are, as a test may have them: another one makes another commons.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with _opened(home) as made:
            logged = tuple(made.log.calls)
        paths = sorted(home.rglob("*"))
        modes = [(path.relative_to(home), path.stat().st_mode & 0o777) for path in paths]
        datas = [None if path.is_dir() else path.read_bytes() for path in paths]
    return [(*named, data) for named, data in zip(modes, datas, strict=True)], logged


@contextmanager
def _opened(home: Path) -> Iterator[World]:
    clock = ManualClock()
    with open_log(home / "log", NoteSigner(ORIGIN, seed("log"))) as log:
        yield World(home, TestLog(log, home / "log", clock), clock)


def status(home: Path) -> dict[str, object]:
    body = json.loads((home / "status.json").read_text())
    assert isinstance(body, dict)
    return body
