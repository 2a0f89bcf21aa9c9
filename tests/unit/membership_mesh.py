"""Aggregators that check members, an issuer and three organisations, and what a leader can make of their reports."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence
from pathlib import Path

from interlock.base.claims import Claim
from interlock.base.clock import ManualClock
from interlock.commons.membership import BLIND, MemberKeys, MembershipProof
from interlock.dap.drafts import ReportError, Role
from interlock.dap.hpke import unseal
from interlock.dap.jobs import AggregationJobInitReq, AggregationJobResp, ReportShare, VerifyInit
from interlock.dap.leader import Leader
from interlock.dap.messages import Extension, InputShareAad, PlaintextInputShare, Report, ReportMetadata
from interlock.dap.shares import KeyRing, seal_input_share
from interlock.dap.task import Task
from interlock.dap.vdaf.ping_pong import leader_initialized
from interlock.node.roles.admission import Admission, demand_owner
from tests.unit.dap_world import VDAF, World, bits
from tests.unit.membership_world import IssuerWorld, Organisation, membership

NAMES = ("acme", "globex", "initech")


class Mesh:
    """Aggregators that each check members, an issuer, and three organisations."""

    def __init__(self, folder: Path, backend: str = BLIND) -> None:
        self.clock = ManualClock()
        self.issuer = IssuerWorld(folder, self.clock)
        self.fetched: list[int] = []
        self.world = World(folder, admit=self.admission(), owner=demand_owner, membership=membership(backend))
        self.world.clock = self.world.helper_clock = self.clock
        self.world.restart()
        self.epoch = self.world.task.time_of(self.clock.now_us())
        self.issuer.open_epoch(self.epoch, backend=backend)
        self.members = [Organisation(name, folder / name, self.issuer) for name in NAMES]

    def admission(self, operator: str = "shares.example") -> Admission:
        def keys_of(name: str, epoch: int) -> MemberKeys:
            self.fetched.append(epoch)
            return self.issuer.keys_of(name, epoch)

        return Admission(keys_of, operator, self.clock)

    def proof(self, member: int = 0) -> MembershipProof:
        return self.members[member].proof(self.world.task, self.epoch)

    def report(self, member: int = 0, *places: int) -> Report:
        return self.world.report(bits(*places), proof=self.proof(member))

    def careless_leader(self) -> None:
        """A leader that takes whatever it likes, its own inventions first."""
        world = self.world

        def everything(task: Task, metadata: ReportMetadata, public_share: bytes) -> Sequence[Claim]:
            return ()

        tasks = {world.task.task_id: world.held}
        world.leader = Leader(tasks, KeyRing([world.leader_key]), world.leader_store, world.clock, admit=everything)

    def close(self) -> None:
        for member in self.members:
            member.close()
        self.issuer.close()
        self.world.close()


def resealed(mesh: Mesh, report: Report, *, extensions: tuple[Extension, ...]) -> Report:
    """The report with other metadata, its shares sealed anew: what a leader (or a member) can do."""
    world = mesh.world
    metadata = dataclasses.replace(report.metadata, extensions=extensions)
    shares = VDAF.shard(world.task.context, bits(3), metadata.report_id, secrets.token_bytes(VDAF.rand_size))[1]
    sealed = [
        seal_input_share(world.task, role, key.config, metadata, report.public_share, share, secrets.token_bytes)
        for role, key, share in (
            (Role.LEADER, world.leader_key, shares[0]),
            (Role.HELPER, world.helper_key, shares[1]),
        )
    ]
    return Report(metadata, report.public_share, *sealed)


def asked_of_the_helper(mesh: Mesh, reports: list[Report]) -> list[ReportError | None]:
    """What the helper says of reports that a leader puts into a job without any check of its own."""
    world, inits = mesh.world, []
    for report in reports:
        metadata = report.metadata
        aad = InputShareAad(world.task.task_id, world.task.configuration, metadata, report.public_share).encode()
        info = world.task.draft.input_share_info(Role.LEADER)
        share = report.leader_share
        plain = unseal(world.leader_key.pair, share.enc, info, aad, share.payload)
        own = PlaintextInputShare.decode(plain).payload
        step = leader_initialized(
            VDAF, world.held.verify_key, world.task.context, metadata.report_id, report.public_share, own
        )
        inits.append(VerifyInit(ReportShare(metadata, report.public_share, report.helper_share), step.outbound))
    body = AggregationJobInitReq(0, b"", (), tuple(inits)).encode()
    answer = AggregationJobResp.decode(world.helper.process_aggregation_init(world.task.task_id, body).body)
    return [response.error for response in answer.responses]
