"""The demo's stage: whose folder is whose, who listens where, and the configuration files of all."""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from interlock.base.clock import MICROSECONDS, Clock
from interlock.base.fetch import HttpPoster
from interlock.base.files import private_dir, replace
from interlock.base.keys import Ed25519Signer, dump_key
from interlock.base.organisations import DEMO_LEAST
from interlock.base.settings import FORMAT, VERSION
from interlock.commons.enrolment import IssuedCount
from interlock.commons.indicators import Catalog
from interlock.commons.memberfiles import member_file
from interlock.commons.membership import BLIND, TaskMembership
from interlock.commons.pack import sha256_hex
from interlock.commons.pins import init_node
from interlock.commons.publish import Publisher
from interlock.commons.reviewers import Reviewer, Reviewers
from interlock.commons.signers import own_key, read_key
from interlock.dap.shares import HpkeKey
from interlock.dap.task import Task, new_configuration, task_of
from interlock.dap.taskfile import dump_client_task
from interlock.dap.vdaf.circuits import SumVec, best_chunk_length
from interlock.dap.vdaf.prio3 import Prio3
from interlock.node.config import LOG_POLICY, ServeConfig
from interlock.node.demo.cast import Address, Cast
from interlock.node.parties import HttpExchange
from interlock.node.roles.issuer import invite_hash
from interlock.node.roles.member import count_of
from interlock.node.setup import (
    Root,
    hold_ceremony,
    make_aggregator,
    make_issuer,
    make_log,
    make_witness,
    put_task,
    write_settings,
)
from interlock.node.storage.dap_tasks import hpke_key_in
from interlock.node.storage.issuer import IssuerStore
from interlock.node.tokens import add_token, let_into, secret_in
from interlock.node.wiring.issuer import ISSUER_STORE, issuer_of
from interlock.node.wiring.publisher import publisher_of
from interlock.transparency.policy import TlogPolicy, parse_policy
from interlock.transparency.proof import MAX_PROOF_FILE
from interlock.transparency.submit import submit

__all__ = ["HOLDERS", "ISSUER", "MEMBERS", "ORIGIN", "TASK", "THRESHOLD", "WITNESSES", "Crash", "Stage"]

ORIGIN: Final = "log.demo.example/packs"
HOLDERS: Final = ("ada", "ben", "cleo")
THRESHOLD: Final = 2
MEMBERS: Final = ("acme", "borealis", "cobalt")
WITNESSES: Final = ("witness-a.example", "witness-b.example")
TASK: Final = "coding-agent-demo"
# The ceremony's keys are sealed with less memory than real ones, so that three take no second.
_ARGON2_MEMORY: Final = 16 << 20
ISSUER: Final = "enrol.demo.example"  # the operator of the issuer, who is neither of the aggregators'
_OPERATORS: Final = {"dap-leader": "leader.demo.example", "dap-helper": "helper.demo.example"}
_ROLES: Final = ("commons", "mirror", "log", *WITNESSES, "dap-leader", "dap-helper", "issuer", "evil")


class Crash(Exception):
    """A process that ends in the middle of its work."""


@dataclass
class Stage:
    """Everything below one folder; `add` holds who listens where."""

    root: Path
    cast: Cast
    clock: Clock
    at: dict[str, Address] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.at = {name: self.cast.address() for name in _ROLES}

    def url(self, name: str) -> str:
        return self.at[name].url

    def dir(self, name: str) -> Path:
        return self.root / name

    def home(self, name: str) -> Path:
        return self.root / name / "home"

    def config(self, name: str) -> Path:
        return self.root / name / "interlock.toml"

    # --- making folders

    def make_log_and_witnesses(self) -> TlogPolicy:
        """Keys of the log and of both witnesses, and the policy that names them."""
        lines = list(make_log(self.dir("log"), ORIGIN, os.urandom, url=self.url("log")).lines)
        for i, name in enumerate(WITNESSES):
            lines += make_witness(self.dir(name), name, os.urandom, url=self.url(name), called=f"w{i}")
        lines += ["group both all w0 w1", "quorum both"]
        policy = ("\n".join(lines) + "\n").encode("ascii")
        for name in ("log", *WITNESSES):
            replace(self.dir(name) / LOG_POLICY, policy)
            write_settings(self.config(name), "serve", {"dir": str(self.dir(name)), "name": name})
        replace(self.root / LOG_POLICY, policy)
        return parse_policy(policy)

    def make_commons(self) -> Root:
        """The ceremony, and what the commons needs to publish."""
        home = private_dir(self.dir("commons"))
        phrases = {name: secrets.token_hex(16).encode("ascii") for name in HOLDERS}
        root = hold_ceremony(
            home, phrases, threshold=THRESHOLD, now_us=self.clock.now_us(), rng=os.urandom, memory=_ARGON2_MEMORY
        )
        replace(home / LOG_POLICY, (self.root / LOG_POLICY).read_bytes())
        replace(home / "log-token", (self.dir("log") / "token").read_bytes())
        write_settings(self.config("commons"), "serve", {"dir": str(home), "log_url": self.url("log")})
        replace(self.root / "root.json", root.data)
        return root

    def make_aggregators(self) -> None:
        """Both aggregators' folders, each with pins of its own, and the tokens of collector and leader.

        Members have none: their reports prove what is needed. No task is there yet, and each token is for none.
        """
        leader, helper = self.dir("dap-leader"), self.dir("dap-helper")
        policy, root = (self.root / LOG_POLICY).read_bytes(), (self.root / "root.json").read_bytes()
        for name, operator in _OPERATORS.items():
            directory = self.dir(name)
            make_aggregator(directory, os.urandom)
            init_node(directory, log_policy=policy, root=root)
            values = {"dir": str(directory), "operator": operator, "upstream": self.url("mirror")}
            # Reports wait for the collector, so that the sealed shares can be looked at in the leader's database.
            write_settings(directory / "interlock.toml", "serve", values | {"patience_seconds": 3600})
        private_dir(self.dir("collector"))
        tokens = {name: secrets.token_hex(32) for name in ("collector", "leader")}
        add_token(leader / "collectors.json", "collector", tokens["collector"], ())
        replace(self.dir("collector") / "leader-token", tokens["collector"].encode("ascii"))
        add_token(helper / "leaders.json", "leader", tokens["leader"], ())
        replace(leader / "helper-token", tokens["leader"].encode("ascii"))

    def make_issuer(self) -> str:
        """The issuer's folder; returns its key's text."""
        key = make_issuer(self.dir("issuer"), os.urandom)
        write_settings(self.config("issuer"), "serve", {"dir": str(self.dir("issuer")), "operator": ISSUER})
        return key

    def invite(self, name: str) -> Path:
        """A file with an invite for one organisation, in its folder."""
        code = secrets.token_hex(16)
        with contextlib.closing(IssuerStore(self.dir("issuer") / ISSUER_STORE)) as store:
            store.add_invite(invite_hash(code), name, self.clock.now_us() + 3600 * MICROSECONDS)
        path = private_dir(self.dir(name)) / "invite"
        replace(path, code.encode("ascii"))
        return path

    def publish_member_keys(self, task: Task, epoch: int) -> None:
        """The key of one epoch's tokens, made by the issuer, published and logged by the commons."""
        with issuer_of(ServeConfig(self.dir("issuer"), operator=ISSUER), self.clock) as issuer:
            keys = issuer.open_epoch(TASK, epoch, BLIND, task.start_us(epoch), task.start_us(epoch + 2))
        self.publisher().publish_members([member_file(keys, where="issuer")])

    def count(self, epoch: int) -> IssuedCount:
        """What the issuer says of an epoch's tokens, to whoever asks."""
        with contextlib.closing(HttpExchange()) as exchange:
            return count_of(self.url("issuer"), TASK, epoch, exchange)

    def make_member(self, name: str) -> None:
        """A member's folder with its one configuration file."""
        private_dir(self.dir(name))
        lines = [
            f'format = "{FORMAT}"',
            f"v = {VERSION}",
            "[mesh]",
            f'home = "{self.home(name)}"',
            f'organisation = "{name}"',
            f'commons = "{self.url("mirror")}"',
        ]
        replace(self.config(name), ("\n".join(lines) + "\n").encode("utf-8"))

    def make_mirror(self) -> None:
        """The mirror's folder, with pins of its own."""
        home, policy = private_dir(self.dir("mirror")), (self.root / LOG_POLICY).read_bytes()
        init_node(home, log_policy=policy, root=(self.root / "root.json").read_bytes())
        values: dict[str, str | float] = {"dir": str(home), "upstream": self.url("commons"), "log_url": self.url("log")}
        write_settings(self.config("mirror"), "serve", values | {"poll_seconds": 0.3})

    def make_task(self, catalog: Catalog, epoch_s: int) -> tuple[Task, HpkeKey]:
        """The DAP task of a catalog, published, and handed to leader, helper, members and collector."""
        length = len(catalog.places)
        configuration = new_configuration(
            catalog_digest=bytes.fromhex(sha256_hex(catalog.data)),
            leader_url=self.url("dap-leader"),
            helper_url=self.url("dap-helper"),
            time_precision=epoch_s,
            min_batch_size=DEMO_LEAST,
            vdaf_config=Prio3(SumVec(length, 1, best_chunk_length(length))).vdaf_config,
            membership=TaskMembership(BLIND, TASK).encode(),
            statement_key=own_key(self.dir("collector") / "collector.key", os.urandom).verifier,
        )
        task = task_of(configuration, demo=True)
        key = hpke_key_in(self.dir("collector") / "hpke.json", os.urandom)
        self.publisher().publish_dap_task(TASK, dump_client_task(task))
        put_task([self.dir("dap-leader"), self.dir("dap-helper")], task, key, os.urandom)
        let_into(self.dir("dap-leader") / "collectors.json", "collector", [task.task_id])
        let_into(self.dir("dap-helper") / "leaders.json", "leader", [task.task_id])
        for name in (*MEMBERS, "collector"):
            replace(self.dir(name) / "task.json", dump_client_task(task))
        return task, key

    # --- working

    def publisher(self) -> Publisher:
        home = self.dir("commons")
        return publisher_of(ServeConfig(home, log_url=self.url("log")), self.clock)

    def make_reviewer(self) -> None:
        """A reviewer's key, and the list that names it."""
        path = private_dir(self.dir("reviewer")) / "reviewer.key"
        replace(path, dump_key(Ed25519Signer(os.urandom(32))))
        self.publisher().set_reviewers(Reviewers({"rita": Reviewer(self.reviewer().verifier.text)}))

    def reviewer(self) -> Ed25519Signer:
        return read_key(self.dir("reviewer") / "reviewer.key")

    def publisher_that_dies(self) -> Publisher:
        """One that is killed when the log has the entry, before it has kept the proof."""
        home = self.dir("commons")
        policy = parse_policy((home / LOG_POLICY).read_bytes())
        post = HttpPoster(self.url("log") + "/add", max_length=MAX_PROOF_FILE, token=secret_in(home / "log-token"))

        def append(entry: bytes) -> bytes:
            submit(entry, policy, post)
            raise Crash

        return Publisher(home, append, policy, self.clock)

    def serve(self, name: str, role: str) -> None:
        args = ["mesh", "serve", "--role", role, "--config", str(self.config(name))]
        self.cast.start(name, [*args, "--demo"] if role.startswith("dap-") else args, self.at[name])
