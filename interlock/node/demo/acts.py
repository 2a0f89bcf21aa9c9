"""What happens in the demo, act by act; each act returns its evidence, and raises where something did not hold."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from interlock.base.clock import MICROSECONDS
from interlock.base.files import read_private
from interlock.base.keys import Ed25519Signer
from interlock.base.organisations import DEMO_LEAST, LEAST
from interlock.commons.ceremony import assemble, request_of, sign_request
from interlock.commons.consensus import agreed
from interlock.commons.enrolment import demand_honest_count
from interlock.commons.gate import Bench
from interlock.commons.holders import CeremonyRefused
from interlock.commons.indicators import Catalog, build_catalog, indicator_pack
from interlock.commons.live import read_live
from interlock.commons.pack import Pack, pack_from_policy, sha256_hex
from interlock.commons.publish import Published
from interlock.commons.rootplan import plan_of
from interlock.dap.collector import Collected, Collector
from interlock.dap.drafts import Role
from interlock.dap.messages import Interval, Report
from interlock.dap.shares import HpkeKey, KeyRing, ReportRejected, open_input_share
from interlock.dap.task import Task
from interlock.dap.taskfile import load_key
from interlock.engine.decision import Verdict
from interlock.engine.detectors.indicator import indicators_of
from interlock.engine.event import SensorEvent
from interlock.engine.policy.builtins import builtin
from interlock.engine.policy.document import parse_document
from interlock.engine.sinks import verify_file
from interlock.node.config import LOG_POLICY
from interlock.node.demo.cast import CommandFailed
from interlock.node.demo.stage import ISSUER, MEMBERS, ORIGIN, TASK, THRESHOLD, WITNESSES, Crash, Stage
from interlock.node.parties import HttpExchange, vdaf_of
from interlock.node.tokens import secret_in

__all__ = ["FOURTH", "PACK", "Acts", "Evidence", "builtin_pack"]

Evidence = dict[str, object]

_AGENT: Final = "interlock.node.demo.agent"
_NO_CORPUS: Final = Bench(without=True)  # the demo ships none, and its gate records say so
_AUTHOR: Final = "Demo <demo@example.org>"
_AGGREGATORS: Final = {Role.LEADER: "dap-leader", Role.HELPER: "dap-helper"}
_LIMIT: Final = 8 << 20
_WAIT_S: Final = 60.0  # a machine that is busy with other things takes long, and nothing is wrong
_OPENS_IN_S: Final = 4  # longer than it takes to sign the catalog, shorter than all that is to be done before it opens
PACK: Final = "coding-agent"
_INDICATORS: Final = "indicator-hosts"
FOURTH: Final = "dune"
_SESSION: Final = Path(__file__).parent / "session.jsonl"
_SEEN_HOST: Final = "cdn.pkg-mirror.example"
_UNSEEN_HOSTS: Final = ("paste.drop-zone.example", "updates.tool-cache.example")
_TO_THE_HOST: Final = ("toolu_06", "toolu_07")  # the session's calls to _SEEN_HOST: a fetch, and a fetch into a shell
# what must become of each call of the session; a call that is not listed passes
_EXPECTED: Final = {
    "toolu_07": "refused",
    "toolu_08": "blocked",
    "toolu_09": "blocked",
    "toolu_10": "blocked",
    "toolu_11": "masked",
    "toolu_12": "refused",
}


class Acts:
    """The acts in their order, and what one leaves for the next."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.cast = stage.cast
        self.root_sha256 = ""
        self.issuer_key = ""
        self.sessions: dict[str, list[dict[str, object]]] = {}
        self.seen: tuple[str, ...] = ()
        self.counts: list[tuple[str, int]] = []
        self._catalog: Catalog | None = None
        self._task: Task | None = None
        self._collector_key: HpkeKey | None = None

    # --- the commons

    def ceremony(self) -> Evidence:
        """Three keyholders, two of whom must sign; and one signature is shown not to be enough."""
        self.stage.make_log_and_witnesses()
        root = self.stage.make_commons()
        self.root_sha256 = sha256_hex(root.data)
        _demand_refused(lambda: self._lone_root(root.data), CeremonyRefused, "a root that one holder signed")
        quorum = f"{THRESHOLD} of {len(root.holders)}"
        return {"holders": ", ".join(root.holders), "threshold": quorum, "root": self.root_sha256}

    def start_roles(self) -> Evidence:
        """Log, witnesses, commons, mirror, both aggregators and the issuer, each a process with its own folder."""
        self.stage.make_mirror()
        self.stage.make_aggregators()
        self.issuer_key = self.stage.make_issuer()
        names = (*WITNESSES, "log", "commons", "mirror", "dap-leader", "dap-helper", "issuer")
        for name in names:
            self.stage.serve(name, "witness" if name in WITNESSES else name)
        return {name: self.stage.url(name).removeprefix("http://127.0.0.1") for name in names}

    def publish(self) -> Evidence:
        """The six steps, with a crash after the log has the entry; resumed, the entry stands there once."""
        pack = builtin_pack()
        self._wait_for("commons")  # its first snapshot is logged when it starts to serve
        crashed = self.stage.publisher_that_dies()
        _demand_refused(lambda: crashed.publish(pack, "beta", bench=_NO_CORPUS), Crash, "a publisher that was killed")
        self.cast.run(["mesh", "publish", "--resume", "--config", str(self.stage.config("commons"))])
        done = self._published_again(pack)
        if (done.log_index, done.tree_size) != (2, 3):
            raise CommandFailed(f"the log holds {done.tree_size} entries, expected three", where="resumed publish")
        self.stage.make_reviewer()
        return _told(self._promoted(pack)) | {
            "crash": "after step 1, resumed, logged once",
            "way": "gate, beta, review, gate, stable",
        }

    # --- the members

    def initialise(self) -> Evidence:
        """Each node pins the root's digest, the log's key and the witnesses, and its organisation is enrolled."""
        for name in MEMBERS:
            self.stage.make_member(name)
        self._wait_for("mirror")
        self._each(MEMBERS, lambda name: self._init(name))
        self._each(MEMBERS, self._join)
        nodes = {"nodes": ", ".join(MEMBERS), "root": self.root_sha256}
        return {**nodes, "log": ORIGIN, "quorum": "2 witnesses", "enrolled with": ISSUER}

    def subscribe(self) -> Evidence:
        """Each node verifies the pack through the mirror, and it goes live; then its daemon follows."""
        self._each(MEMBERS, lambda name: self._mesh(name, "subscribe", f"mesh:{PACK}@stable"))
        (row,) = {replace(read_live(self.stage.home(name)).rows[PACK, "stable"], at=0) for name in MEMBERS}
        for name in MEMBERS:
            self.cast.start(name, ["mesh", "run", "--config", str(self.stage.config(name))])
        return {"pack": f"{PACK}@stable", "version": row.version, "sha256": row.sha256, "tree size": row.tree_size}

    def agree(self) -> Evidence:
        """Catalog, task and member keys are published and logged before the epoch opens; then each one consents."""
        catalog, epoch_s = self._publish_catalog()
        self._catalog = catalog
        self._task, self._collector_key = self.stage.make_task(catalog, epoch_s)
        self.stage.publish_member_keys(self._task, self._task.time_of(catalog.opens_at))
        self._wait_for("mirror")
        self._each(MEMBERS, self._consent)
        _sleep_until(catalog.opens_at, self.stage.clock.now_us)
        return {"task": TASK, "places": len(catalog.places), "catalog": catalog.digest, "consents": len(MEMBERS)}

    def guard(self) -> Evidence:
        """Each organisation's agent runs the recorded session under its guard."""
        commands = {name: self._session(name, f"mesh:{PACK}@stable") for name in MEMBERS}
        started = {
            name: self.cast.begin(c, module=_AGENT, config=self.stage.config(name)) for name, c in commands.items()
        }
        for name, process in started.items():
            rows = json.loads(self.cast.finish(process, commands[name]))
            _demand_expected(name, rows)
            self.sessions[name] = rows
        receipts = {name: verify_file(self.stage.home(name) / "receipts.jsonl") for name in MEMBERS}
        outcomes = Counter(str(row["outcome"]) for row in self.sessions[MEMBERS[0]])
        chains = ", ".join(f"{name} {r.count}" for name, r in receipts.items())
        epochs = {_epoch(self.stage.home(name) / "receipts.jsonl") for name in MEMBERS}
        if epochs != {1}:
            raise CommandFailed(f"the receipts name the policy epochs {epochs}, expected 1", where="guard")
        return {**outcomes, "receipts": chains, "chains": "hold", "policy epoch": 1}

    # --- the counts

    def report(self) -> Evidence:
        """The epoch closes: one report of 0s and 1s an organisation, shown with a token that nobody can tie to it."""
        self._each(MEMBERS, lambda name: self._mesh(name, "report", "submit", "--close-epoch"))
        return {
            "reports": len(MEMBERS),
            "a report": "Prio3SumVec of 0s and 1s",
            "wire": "dap-18",
            "membership": "blind token, checked by both aggregators",
        }

    def cannot_read(self) -> Evidence:
        """From the sealed shares in the leader's database: each opens its own, and none of the other's."""
        task = _made(self._task)
        rings = {role: KeyRing([self._hpke(folder)]) for role, folder in _AGGREGATORS.items()}
        own = foreign = 0
        for report in self._stored_reports():
            for sealed_to, opener in ((a, b) for a in rings for b in rings):
                sealed = report.leader_share if sealed_to is Role.LEADER else report.helper_share
                metadata, now = report.metadata, self.stage.clock.now_us()
                try:
                    open_input_share(task, sealed_to, rings[opener], metadata, report.public_share, sealed, now)
                except ReportRejected:
                    foreign += sealed_to is not opener
                else:
                    own += sealed_to is opener
        if own != 2 * len(MEMBERS) or foreign != own:
            raise CommandFailed(f"{own} own shares opened, {foreign} foreign ones refused", where="stored shares")
        return {"own shares opened": own, "foreign shares refused": foreign}

    def collect(self) -> Evidence:
        """The collector adds both aggregate shares up, and reads how many organisations saw each place."""
        catalog, found = _made(self._catalog), self._collected()
        self.counts = [(p, n) for p, n in zip(catalog.places, found.sums, strict=True) if n]
        self.seen = agreed(catalog, found.sums, found.report_count, threshold=DEMO_LEAST, demo=True)
        count = self.stage.count(_made(self._task).time_of(catalog.opens_at))
        demand_honest_count(count, reports=found.report_count)
        blocked = {
            f"rule:{r['policy_id']}" for r in self.sessions[MEMBERS[0]] if r["outcome"] in ("blocked", "refused")
        }
        if not blocked <= set(self.seen):
            raise CommandFailed("a rule that all three saw is not counted three times", where="counts")
        return {
            "organisations": found.report_count,
            "tokens given out": f"{count.issued}, by the issuer's signed count",
            "places seen by all": len(self.seen),
            "floor": f"{DEMO_LEAST}, by --demo (a real task has {LEAST})",
        }

    def publish_indicator(self) -> Evidence:
        """What all three saw becomes a pack that the reviewer's key signs."""
        hosts = [place for place in self.seen if place.startswith("host:")]
        if hosts != [_host_indicator(_SEEN_HOST)]:
            raise CommandFailed("is not the one host that all three saw", where="indicators")
        pack = indicator_pack(
            _INDICATORS,
            1,
            hosts,
            authors=[_AUTHOR],
            signed_off_by=[f"Signed-off-by: {_AUTHOR}"],
            organisations=DEMO_LEAST,
        )
        self.stage.publisher().publish(pack, "beta", bench=_NO_CORPUS)
        done = self._promoted(pack)
        self._wait_for("mirror")
        return _told(done) | {"signed by": "reviewer"}

    def fresh_node(self) -> Evidence:
        """A fourth node asks about that very call; after its operator's grant it blocks it."""
        self.stage.make_member(FOURTH)
        self._init(FOURTH)
        self._mesh(FOURTH, "subscribe", f"mesh:{PACK}@stable", f"mesh:{_INDICATORS}@stable")
        before = self.calls_to_the_host(FOURTH)
        self._mesh(FOURTH, "grant", f"mesh:{_INDICATORS}@stable")
        after = self.calls_to_the_host(FOURTH)
        if (before, after) != ({"refused"}, {"blocked"}):
            raise CommandFailed(f"before the grant {before}, after it {after}", where="the fourth node")
        return {"before the grant": "asks, and with no approver refuses", "after": "blocks"}

    # --- parts

    def calls_to_the_host(self, name: str) -> set[str]:
        """What becomes of the session's calls to the reported host, on a node that follows both packs."""
        command = [*self._session(name, f"mesh:{PACK}+{_INDICATORS}@stable"), "--only", *_TO_THE_HOST]
        process = self._begin_agent(name, command)
        return {str(row["outcome"]) for row in json.loads(self.cast.finish(process, command))}

    def _lone_root(self, root: bytes) -> bytes:
        now_us = self.stage.clock.now_us()
        holder = Ed25519Signer(os.urandom(32))
        plan = plan_of(root)
        lone = replace(plan.holders[0], keys=(holder.verifier,))
        request = request_of(replace(plan, holders=(lone, *plan.holders[1:])), None, now_us)
        return assemble(request, [sign_request(request, holder)], now_us).root

    def _published_again(self, pack: Pack) -> Published:
        # the same pack again: the same answer, nothing new
        return self.stage.publisher().publish(pack, "beta", bench=_NO_CORPUS)

    def _promoted(self, pack: Pack) -> Published:
        """What is out in beta, reviewed and promoted to stable."""
        publisher = self.stage.publisher()
        publisher.review(pack.name, "beta", "approve", self.stage.reviewer())
        return publisher.promote(pack.name, pack.version, "beta", "stable", bench=_NO_CORPUS)

    def _init(self, name: str) -> None:
        policy = str(self.stage.root / LOG_POLICY)
        self._mesh(name, "init", "--root-sha256", self.root_sha256, "--log-policy", policy)

    def _join(self, name: str) -> None:
        """Enrol with the issuer, by the invite that it handed out."""
        issuer = ("--issuer", self.stage.url("issuer"), "--issuer-key", self.issuer_key)
        self._mesh(name, "members", "join", *issuer, "--invite", str(self.stage.invite(name)))

    def _consent(self, name: str) -> None:
        """Its daemon runs by now, and takes the task up at its next turn."""
        self._mesh(name, "report", "init", str(self.stage.dir(name) / "task.json"))
        self._mesh(name, "consent", "on", TASK, "--demo")

    def _mesh(self, name: str, *command: str) -> str:
        return self.cast.run(["mesh", *command, "--config", str(self.stage.config(name))])

    def _each(self, names: tuple[str, ...], act: Callable[[str], object]) -> None:
        """Do it for all members side by side."""
        with ThreadPoolExecutor(len(names)) as pool:
            list(pool.map(act, names))

    def _session(self, name: str, policy: str) -> list[str]:
        home, session = str(self.stage.home(name)), str(_SESSION)
        return ["--home", home, "--policy", policy, "--session", session, "--principal", f"{name}/agent"]

    def _begin_agent(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        return self.cast.begin(command, module=_AGENT, config=self.stage.config(name))

    def _publish_catalog(self) -> tuple[Catalog, int]:
        """The catalog, and the epoch's length: one whose next boundary, from which on it counts, is just ahead."""
        opens, epoch_s = _boundary(self.stage.clock.now_us() // MICROSECONDS + _OPENS_IN_S)
        rules = parse_document(builtin(PACK), where=PACK).rules
        masking = [r.policy_id for r in rules if r.verdict is Verdict.MODIFY]
        counted = [r.policy_id for r in rules if r.policy_id not in masking]
        candidates = map(_host_indicator, (_SEEN_HOST, *_UNSEEN_HOSTS))
        catalog = build_catalog(
            TASK, opens_at=opens * MICROSECONDS, rules=counted, indicators=candidates, redacting=masking
        )
        self.stage.publisher().publish_catalog(catalog)
        return catalog, epoch_s

    def _wait_for(self, name: str) -> None:
        """Until the mirror, or the commons itself, serves the newest state of the commons, and the log with it."""
        until = time.monotonic() + _WAIT_S
        path, source = (self.stage.dir(n) / "public" / "metadata" / "timestamp.json" for n in (name, "commons"))
        while time.monotonic() < until:
            self.cast.check_alive()
            if path.exists() and path.read_bytes() == source.read_bytes():
                return
            time.sleep(0.05)
        raise CommandFailed(f"did not serve it within {_WAIT_S:.0f} s", where=name)

    def _hpke(self, folder: str) -> HpkeKey:
        path = self.stage.dir(folder) / "hpke.json"
        return load_key(read_private(path, _LIMIT), where=str(path))

    def _stored_reports(self) -> list[Report]:
        path = self.stage.dir("dap-leader") / "leader.sqlite"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return [Report.decode(body) for (body,) in db.execute("SELECT body FROM bodies")]

    def _collected(self) -> Collected:
        task, catalog = _made(self._task), _made(self._catalog)
        token = secret_in(self.stage.dir("collector") / "leader-token")
        with contextlib.closing(HttpExchange(token)) as exchange:
            collector = Collector(task, _made(self._collector_key), vdaf_of(task), exchange)
            found = collector.ask(Interval(task.time_of(catalog.opens_at), 1))
            until = time.monotonic() + _WAIT_S
            while not isinstance(found, Collected):
                if time.monotonic() > until:
                    raise CommandFailed(f"was not ready within {_WAIT_S:.0f} s", where="collection")
                time.sleep(0.1)
                found = collector.poll(found)
        return found


def builtin_pack(version: int = 1) -> Pack:
    """The policy that ships in the wheel, as a pack."""
    return pack_from_policy(
        builtin(PACK),
        version=version,
        licence="Apache-2.0",
        authors=[_AUTHOR],
        signed_off_by=[f"Signed-off-by: {_AUTHOR}"],
        where=PACK,
    )


def _told(done: Published) -> Evidence:
    return {
        "version": done.entry.version,
        "sha256": done.entry.sha256,
        "log index": done.log_index,
        "tree size": done.tree_size,
        "snapshot": done.snapshot_version,
        "timestamp": done.timestamp_version,
    }


def _demand_refused(act: Callable[[], object], error: type[Exception], what: str) -> None:
    try:
        act()
    except error:
        return
    raise CommandFailed("was not refused", where=what)


def _demand_expected(name: str, rows: list[dict[str, object]]) -> None:
    for row in rows:
        expected = _EXPECTED.get(str(row["id"]), "passed")
        if row["outcome"] != expected:
            raise CommandFailed(
                f"{row['outcome']}, expected {expected} ({row['reason']})", where=f"{name}: {row['id']}"
            )
        if expected == "masked" and "ghp_" in json.dumps(row["args"]):
            raise CommandFailed("was sent with its secret", where=f"{name}: {row['id']}")


def _host_indicator(host: str) -> str:
    event = SensorEvent("WebFetch", {"url": f"https://{host}/"})
    return next(iter(indicators_of(event)))


def _boundary(least: int) -> tuple[int, int]:
    """A second not before `least`, and an epoch length of which it is a multiple: ten minutes to a day."""
    for second in range(least, least + 60):
        for length in range(600, 86_400):
            if second % length == 0:
                return second, length
    raise AssertionError("no second of a minute is a multiple of any such length")


def _sleep_until(us: int, now_us: Callable[[], int]) -> None:
    time.sleep(max(0, us - now_us()) / MICROSECONDS)


def _epoch(receipts: Path) -> int:
    return int(json.loads(receipts.read_bytes().splitlines()[-1])["policy_epoch"])


_T = TypeVar("_T")


def _made(value: _T | None) -> _T:
    assert value is not None, "an act before this one makes it"
    return value
