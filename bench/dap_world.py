"""A task, its keys and its members' reports, as a folder on disk: what the aggregators and clients of `bench.dap` have.

Each report has a token. The issuer's signature is made here without the blinding, which gives the same token for a part
of the time; nothing that is measured can tell.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import load_der_private_key

from interlock.base import blind_rsa
from interlock.base.clock import SystemClock
from interlock.base.codec import Writer
from interlock.base.keys import Ed25519Signer
from interlock.commons.membership import (
    BLIND,
    MemberKeys,
    MembershipProof,
    TaskMembership,
    build_member_keys,
    parse_member_keys,
    token_message,
)
from interlock.dap.backend import VdafBackend
from interlock.dap.client import build_report
from interlock.dap.collector import Collected, Collector, Pending
from interlock.dap.messages import Interval, Report
from interlock.dap.shares import HpkeKey, new_key
from interlock.dap.task import AggregatorTask, Task, new_configuration, task_of, verify_key_of
from interlock.dap.taskfile import dump_key, load_key
from interlock.dap.vdaf.circuits import best_chunk_length
from interlock.node.storage.dap_leader import SqliteLeaderStorage
from interlock.node.storage.dap_tasks import TaskDirectory
from interlock.node.storage.postgres import PostgresLeaderStorage

__all__ = ["OPERATOR", "TOKEN", "World", "collected", "is_url", "keys_of", "leader_storage", "made", "ring_key"]

TOKEN: Final = "bench-" + "ab" * 16
OPERATOR: Final = "shares.example"
_ISSUER: Final = "issuer.example"
_NAME: Final = "bench-1"
_PRECISION: Final = 1 << 24  # seconds: all reports of a run are of one batch
_LASTS_US: Final = 86_400_000_000
_TOKEN_BITS: Final = 2048
_PSS: Final = padding.PSS(padding.MGF1(hashes.SHA384()), blind_rsa.SALT_SIZE)
_MEMBERS: Final = "members.json"
_WAIT_S: Final = 600
_ASK_EVERY_S: Final = 0.05  # each question costs the leader half a millisecond


@dataclass(frozen=True)
class World:
    """Everything of one task; `private` is the issuer's key of its tokens."""

    length: int
    held: AggregatorTask
    leader: HpkeKey
    helper: HpkeKey
    collector: HpkeKey
    members: MemberKeys
    private: rsa.RSAPrivateKey

    @property
    def task(self) -> Task:
        return self.held.task

    def reports(self, vdaf: VdafBackend, count: int) -> list[Report]:
        """Reports of bits that are drawn the same on every run; keys and seeds are fresh."""
        draw, now_us = random.Random(7), SystemClock().now_us()  # noqa: S311 - measurements, no secrets
        return [
            build_report(
                self.task,
                vdaf,
                [draw.randrange(2) for _ in range(self.length)],
                self.leader.config,
                self.helper.config,
                now_us=now_us,
                rng=os.urandom,
                proof=self._proof(),
            )
            for _ in range(count)
        ]

    def _proof(self) -> MembershipProof:
        signer, epoch = Ed25519Signer(os.urandom(32)), self.members.epoch
        message = token_message(self.task.task_id, epoch, signer.verifier.public)
        prepared = blind_rsa.prepare(message, os.urandom)
        signature = self.private.sign(prepared, _PSS, hashes.SHA384())
        return MembershipProof(self.task.task_id, epoch, signer, prepared[: blind_rsa.PREFIX_SIZE], signature)


def made(root: Path, length: int, leader_url: str, helper_url: str, *, precision: int = _PRECISION) -> World:
    """Write down what two aggregators at these URLs need, below `root`."""
    der = blind_rsa.new_private_key(_TOKEN_BITS)
    private = load_der_private_key(der, None)
    assert isinstance(private, rsa.RSAPrivateKey)
    leader, helper, collector = (new_key(n, os.urandom) for n in (1, 2, 9))
    task = task_of(
        new_configuration(
            catalog_digest=hashlib.sha256(b"bench").digest(),
            leader_url=leader_url,
            helper_url=helper_url,
            time_precision=precision,
            min_batch_size=10,
            vdaf_config=Writer().u32(length).u64(1).u32(best_chunk_length(length)).done(),
            membership=TaskMembership(BLIND, _NAME).encode(),
        )
    )
    now_us = SystemClock().now_us()
    members = build_member_keys(
        Ed25519Signer(os.urandom(32)),
        task=_NAME,
        epoch=task.time_of(now_us),
        backend=BLIND,
        operator=_ISSUER,
        closes_at=now_us + _LASTS_US,
        token_key=blind_rsa.public_of(der),
    )
    held = AggregatorTask(task, verify_key_of(os.urandom(32), task.task_id), collector.config)
    TaskDirectory(root / "tasks").add(held)
    for role, key in (("leader", leader), ("helper", helper)):
        (root / f"{role}.key").write_bytes(dump_key(key))
    (root / _MEMBERS).write_bytes(members.data)
    return World(length, held, leader, helper, collector, members, private)


def keys_of(root: Path) -> Callable[[str, int], MemberKeys]:
    """What an aggregator's admission fetches member keys with."""
    found = parse_member_keys((root / _MEMBERS).read_bytes(), where=_MEMBERS)
    return lambda task, epoch: found


def ring_key(root: Path, role: str) -> HpkeKey:
    path = root / f"{role}.key"
    return load_key(path.read_bytes(), where=str(path))


def is_url(store: str) -> bool:
    """Whether a store is a database, and not a file."""
    return store.startswith("postgresql:")


def leader_storage(store: str) -> SqliteLeaderStorage | PostgresLeaderStorage:
    return PostgresLeaderStorage(store) if is_url(store) else SqliteLeaderStorage(Path(store))


def collected(collector: Collector, interval: Interval) -> Collected:
    """Ask until all that was uploaded is counted."""
    found: Collected | Pending = collector.ask(interval)
    until = time.monotonic() + _WAIT_S
    while isinstance(found, Pending):
        if time.monotonic() > until:
            raise TimeoutError("the pair did not count what it was sent")
        time.sleep(_ASK_EVERY_S)
        found = collector.poll(found)
    return found
