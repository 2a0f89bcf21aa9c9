"""A member node against a real leader and helper in one process, over a catalog of 16 places."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.base.fetch import Unreachable
from interlock.base.primitives import Rng
from interlock.commons.consent import Terms
from interlock.commons.indicators import SIGHTINGS, Catalog, build_catalog
from interlock.dap.messages import Report, UploadRequest
from interlock.dap.messages import media_type as media
from interlock.dap.task import AggregatorTask, Task, new_configuration, task_of, verify_key_of
from interlock.dap.taskfile import dump_client_task
from interlock.dap.transport import Reply
from interlock.dap.vdaf.circuits import SumVec
from interlock.dap.vdaf.prio3 import Prio3
from interlock.engine.decision import Decision
from interlock.engine.event import SensorEvent
from interlock.node.roles.observe import TallyObserver
from interlock.node.roles.report import Sent, agree, close_epochs, send_due, withdraw
from interlock.node.roles.sealing import ProofOf, Sealer
from interlock.node.storage.node import NodeStore, open_store
from tests.unit.dap_world import CHUNK, LENGTH, PRECISION, VDAF, World

RULES = [f"rule-{i}" for i in range(LENGTH)]
CALL = SensorEvent("Bash", {"command": "rm -rf /srv/secret-project"})


def catalog(opens_at: int = 0, task: str = "rules-1", counts: str = SIGHTINGS) -> Catalog:
    return build_catalog(task, opens_at=opens_at, rules=RULES, counts=counts)


def terms(counted: Catalog) -> Terms:
    """What a yes to a catalog is, where nobody asks to whom and how."""
    return Terms(counted.counts, counted.task, kinds=counted.kinds, catalog=counted.digest)


def task_over(
    counted: Catalog, precision: int = PRECISION, *, membership: bytes | None = None, places: int | None = None
) -> Task:
    """A task that counts by this very catalog (or by a number of `places` that it has not), of made-up aggregators."""
    length = len(counted.places) if places is None else places
    vdaf = Prio3(SumVec(length, 1, min(length, CHUNK)))
    configuration = new_configuration(
        catalog_digest=bytes.fromhex(counted.digest),
        leader_url="https://leader.test/dap",
        helper_url="https://helper.test/dap",
        time_precision=precision,
        min_batch_size=3,
        vdaf_config=vdaf.vdaf_config,
        membership=membership,
    )
    return task_of(configuration, demo=True)


class CountedWorld(World):
    """The aggregators of a task over this very catalog."""

    def __init__(
        self, folder: Path, counted: Catalog, *, precision: int = PRECISION, membership: bytes | None = None
    ) -> None:
        super().__init__(folder)
        self.close()
        self.task = task_over(counted, precision, membership=membership, places=LENGTH)
        verify_key = verify_key_of(secrets.token_bytes(32), self.task.task_id)
        self.held = AggregatorTask(self.task, verify_key, self.collector_key.config)
        self.start()


@pytest.fixture(name="world")
def counted_world(tmp_path: Path) -> Iterator[CountedWorld]:
    """The fixture `world` of a module that imports this."""
    made = CountedWorld(tmp_path, catalog())
    yield made
    made.close()


class Line:
    """A member's line to both aggregators: no network, and whatever fault a test sets."""

    def __init__(self, world: World, member: str | None = None) -> None:
        self.world = world
        self.member = member
        self.uploads: list[bytes] = []
        self.asked: list[str] = []
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[Reply], Reply] = lambda reply: reply

    def __call__(self, method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
        self.asked.append(f"{method} {url}")
        if method == "GET":
            side = self.world.leader if url.startswith("https://leader.test/") else self.world.helper
            return Reply(200, media("hpke-config-list"), side.hpke_configs())
        self.before()
        if url.endswith("fates"):
            found = self.world.leader.process_fates(self.world.task.task_id, body, self.member)
            return self.after(Reply(200, media("fate-resp"), found))
        self.uploads.append(body)
        answer = self.world.leader.process_upload(self.world.task.task_id, body, self.member)
        return self.after(Reply(200, media("upload-errors") if answer else "", answer))

    def uploaded(self) -> list[Report]:
        return [report for body in self.uploads for report in UploadRequest.decode(body).reports]


class Member:
    """One organisation's node: home, store, observer and its line; `restart` is what a new process finds."""

    def __init__(self, home: Path, world: World, counted: Catalog) -> None:
        self.home = home
        self.world = world
        self.catalog = counted
        self.redacting: set[str] = set()
        self.community: dict[str, frozenset[str]] = {}
        self.line = Line(world, home.name)
        self.rights: ProofOf = lambda epoch: None
        self.start()

    def start(self) -> None:
        self.store: NodeStore = open_store(self.home)
        self.observer = TallyObserver(
            self.home, self.world.clock, redacting=lambda: self.redacting, community=lambda: self.community
        )

    def stop(self) -> None:
        self.observer.close()
        self.store.close()

    def restart(self) -> None:
        self.stop()
        self.start()

    def agree(self) -> None:
        agree(self.home, self.store, self.world.task, self.catalog, self.world.clock.now_us())

    def withdraw(self) -> int:
        return withdraw(self.home, self.store, self.catalog.task, self.world.clock.now_us())

    def blocked(self, *places: int) -> None:
        for place in places:
            self.observer(CALL, Decision.block("no", policy_id=RULES[place]))

    def bits(self) -> frozenset[int]:
        """The places of the running epoch."""
        task = self.world.task
        start = task.start_us(task.time_of(self.world.clock.now_us()))
        return self.store.bits(self.catalog.task, self.catalog.digest, start)

    def close(self, *, early: bool = False) -> int:
        return close_epochs(self.home, self.store, self.sealer(), self.world.clock, early=early)

    def send(self, *, at_once: bool = True) -> Sent:
        return send_due(self.home, self.store, self.line, self.sealer(), self.world.clock, at_once=at_once)

    def sealer(self, rng: Rng = secrets.token_bytes) -> Sealer:
        return Sealer(self.world.task, VDAF, self.line, rng, self.rights)

    def states(self) -> list[str]:
        return [row.state.value for row in self.store.outbox()]


@pytest.fixture(name="member")
def agreed_member(tmp_path: Path, world: CountedWorld) -> Iterator[Member]:
    """The fixture `member` of a module that imports this: one that has consented."""
    made = Member(tmp_path / "acme", world, catalog())
    made.agree()
    yield made
    made.stop()


class Publishing:
    """A commons of now that publishes one task, under whatever name; and what was asked of it."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.asked: list[str] = []

    def dap_task(self, task: str) -> bytes:
        self.asked.append(task)
        return dump_client_task(self.task)


def down() -> None:
    raise Unreachable("does not answer", where="leader")
