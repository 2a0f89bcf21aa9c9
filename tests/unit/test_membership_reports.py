"""Reports with proofs of membership, against leaders, members and issuers that do not keep to it."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from interlock.base.fetch import Unreachable
from interlock.commons.enrolment import OverIssued, demand_honest_count, parse_count
from interlock.commons.membership import BLIND, CERTIFICATE
from interlock.dap.batches import query_for
from interlock.dap.drafts import ReportError, Role
from interlock.dap.driver import Driver
from interlock.dap.jobs import CollectionJobReq
from interlock.dap.membership import admit_all
from interlock.dap.messages import (
    MEMBERSHIP,
    Extension,
    Report,
    UploadErrors,
    UploadRequest,
    media_type,
)
from interlock.dap.problems import ProblemType, to_b64url
from interlock.dap.shares import KeyRing, seal_input_share
from interlock.dap.task import TaskRefused
from interlock.node.roles.aggregate import leader_app
from interlock.node.roles.report import BACKLOG_MOST
from tests.unit.dap_http import free_socket, serving, table
from tests.unit.dap_world import World, bits, task, vdaf_of
from tests.unit.membership_mesh import Mesh, asked_of_the_helper, resealed
from tests.unit.membership_world import NAME, Organisation

NAMES = ("acme", "globex", "initech")


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[Mesh]:
    found = Mesh(tmp_path)
    yield found
    found.close()


@pytest.mark.parametrize("backend", [BLIND, CERTIFICATE])
def test_members_are_counted_by_their_proofs_alone(tmp_path: Path, backend: str) -> None:
    mesh = Mesh(tmp_path, backend)
    assert mesh.world.upload(*(mesh.report(i, 0, i) for i in range(3))) == []
    found = mesh.world.collect()
    assert (found.report_count, list(found.sums)[:3]) == (3, [3, 1, 1])
    demand_honest_count(parse_count(mesh.issuer.issuer.count(NAME, mesh.epoch)), reports=found.report_count)
    mesh.close()


def test_keys_are_fetched_once_an_epoch_by_each_aggregator(mesh: Mesh) -> None:
    mesh.world.upload(*(mesh.report(i) for i in range(3)))
    mesh.world.collect()
    assert mesh.fetched == [mesh.epoch]  # both share one admission in this world


def test_a_second_report_with_the_same_token_is_refused_as_a_replay(mesh: Mesh) -> None:
    assert mesh.world.upload(mesh.report(0, 1)) == []
    assert mesh.world.upload(mesh.report(0, 2)) == [ReportError.REPORT_REPLAYED]


def test_the_same_bytes_again_are_one_report(mesh: Mesh) -> None:
    report = mesh.report(0, 1)
    assert mesh.world.upload(report) == mesh.world.upload(report) == []
    assert mesh.world.leader_store.states(mesh.world.task.task_id).waiting == 1


def test_a_report_without_a_proof_is_refused_by_both(mesh: Mesh) -> None:
    bare = resealed(mesh, mesh.report(0), extensions=())
    assert mesh.world.upload(bare) == [ReportError.INVALID_MESSAGE]
    assert asked_of_the_helper(mesh, [bare]) == [ReportError.INVALID_MESSAGE]


@pytest.mark.parametrize(
    "kinds",
    [(MEMBERSHIP, MEMBERSHIP), (MEMBERSHIP, MEMBERSHIP + 1), (1, MEMBERSHIP), (MEMBERSHIP, 1), (1,)],
    ids=["twice", "unknown behind", "unknown before", "unsorted", "another"],
)
def test_any_other_list_of_extensions_is_refused_by_both(mesh: Mesh, kinds: tuple[int, ...]) -> None:
    report = mesh.report(0)
    data = report.metadata.extensions[0].data
    changed = resealed(mesh, report, extensions=tuple(Extension(kind, data) for kind in kinds))
    assert mesh.world.upload(changed) == [ReportError.INVALID_MESSAGE]
    assert asked_of_the_helper(mesh, [changed]) == [ReportError.INVALID_MESSAGE]


@pytest.mark.parametrize("data", [b"", b"\0" * 40, b"\xff" * 600])
def test_a_malformed_proof_is_refused_by_both(mesh: Mesh, data: bytes) -> None:
    changed = resealed(mesh, mesh.report(0), extensions=(Extension(MEMBERSHIP, data),))
    assert mesh.world.upload(changed) == [ReportError.REPORT_DROPPED]
    assert asked_of_the_helper(mesh, [changed]) == [ReportError.REPORT_DROPPED]


def test_a_task_without_membership_takes_no_proof(tmp_path: Path, mesh: Mesh) -> None:
    (tmp_path / "plain").mkdir()
    plain = World(tmp_path / "plain")
    report = plain.report(bits(1))
    extended = dataclasses.replace(report.metadata, extensions=mesh.report(0).metadata.extensions)
    sealed = [
        seal_input_share(plain.task, role, key.config, extended, report.public_share, b"share", secrets.token_bytes)
        for role, key in ((Role.LEADER, plain.leader_key), (Role.HELPER, plain.helper_key))
    ]
    assert plain.upload(Report(extended, report.public_share, *sealed)) == [ReportError.INVALID_MESSAGE]
    plain.close()
    with pytest.raises(ValueError, match="proof of membership"):
        plain.report(bits(1), proof=mesh.proof())
    with pytest.raises(ValueError, match="proof of membership"):
        mesh.world.report(bits(1))


def test_a_leader_that_makes_members_up_gets_no_share_of_them(mesh: Mesh) -> None:
    """It isolates one member among reports of its own; the helper drops them, and the batch is too small to collect."""
    mesh.careless_leader()
    invented = []
    for i in (1, 2):
        made = dataclasses.replace(mesh.proof(i), signer=mesh.issuer.signer)
        invented.append(mesh.world.report(bits(), proof=made))
    assert mesh.world.upload(mesh.report(0, 5), *invented) == []
    mesh.world.collector.ask(mesh.world.hour())
    mesh.world.drive()
    assert _waits_or_fails(mesh)
    assert mesh.world.leader_store.states(mesh.world.task.task_id).rejected == 2


def test_a_leader_that_repeats_a_member_gets_no_share_of_it(mesh: Mesh) -> None:
    """One member's report, three times under invented ids: the ids are not those of the token."""
    mesh.careless_leader()
    report = mesh.report(0, 5)
    copies = [
        dataclasses.replace(report, metadata=dataclasses.replace(report.metadata, report_id=secrets.token_bytes(16)))
        for _ in range(2)
    ]
    sealed = [resealed(mesh, copy, extensions=copy.metadata.extensions) for copy in copies]
    assert asked_of_the_helper(mesh, sealed) == [ReportError.REPORT_DROPPED] * 2


def test_a_report_that_the_helper_counted_is_not_counted_again_in_another_job(mesh: Mesh) -> None:
    report = mesh.report(0, 5)
    assert asked_of_the_helper(mesh, [report]) == [None]
    assert asked_of_the_helper(mesh, [report, mesh.report(1)]) == [ReportError.REPORT_REPLAYED, None]


def test_a_leader_that_swaps_the_public_share_is_told_so_by_the_helper(mesh: Mesh) -> None:
    """With it the leader could give the helper a share of its own making under a member's proof."""
    mine, other = mesh.report(0, 1), mesh.world.report(bits(2), proof=mesh.proof(1))
    swapped = dataclasses.replace(mine, public_share=other.public_share)
    sealed = resealed(mesh, swapped, extensions=mine.metadata.extensions)
    assert asked_of_the_helper(mesh, [sealed]) == [ReportError.REPORT_DROPPED]


def test_a_proof_for_another_time_is_refused(mesh: Mesh) -> None:
    mesh.issuer.open_epoch(mesh.epoch - 1, key=0)
    report = mesh.report(0)
    earlier = dataclasses.replace(report, metadata=dataclasses.replace(report.metadata, time=mesh.epoch - 1))
    moved = resealed(mesh, earlier, extensions=report.metadata.extensions)
    assert mesh.world.upload(moved) == [ReportError.REPORT_DROPPED]


def test_an_issuer_that_over_issues_shows_in_its_own_count(tmp_path: Path, mesh: Mesh) -> None:
    """It can make members up, with organisations that are none; not without its count, or the batch's, saying so."""
    for name in ("shell-1", "shell-2"):
        mesh.members.append(Organisation(name, tmp_path / name, mesh.issuer))
    assert mesh.world.upload(*(mesh.report(i, 0) for i in range(5))) == []
    found = mesh.world.collect()
    honest = parse_count(mesh.issuer.issuer.count(NAME, mesh.epoch))
    assert honest.issued == 5  # five organisations, for all to see; its list has three that anyone has heard of
    hiding = dataclasses.replace(honest, issued=3, enrolled=3)
    with pytest.raises(OverIssued, match="5 reports were collected, and 3 credentials"):
        demand_honest_count(hiding, reports=found.report_count)


def test_keys_that_are_not_published_yet_turn_nothing_down_for_good(mesh: Mesh) -> None:
    report = mesh.report(0, 1)
    late = Mesh.admission(mesh)
    mesh.issuer.published = False
    with pytest.raises(Unreachable, match="not published here yet"):
        late(mesh.world.task, report.metadata, report.public_share)
    with pytest.raises(Unreachable):
        late(mesh.world.task, report.metadata, report.public_share)
    assert mesh.fetched == [mesh.epoch]  # and are not asked for again at once
    mesh.issuer.published = True
    mesh.clock.advance(30)
    late(mesh.world.task, report.metadata, report.public_share)


def test_a_leader_that_cannot_tell_now_stores_nothing_and_the_member_tries_again(mesh: Mesh) -> None:
    report = mesh.report(0, 1)
    mesh.issuer.published = False
    with pytest.raises(Unreachable):
        mesh.world.upload(report)
    assert mesh.world.leader_store.states(mesh.world.task.task_id).waiting == 0
    mesh.issuer.published = True
    mesh.clock.advance(30)
    assert mesh.world.upload(report) == []


def test_reports_far_in_the_past_are_refused_without_asking_for_keys(mesh: Mesh) -> None:
    report = mesh.report(0, 1)
    mesh.clock.advance((BACKLOG_MOST + 1) * 3600)
    assert mesh.world.upload(report) == [ReportError.REPORT_DROPPED]
    assert mesh.fetched == []


def test_an_aggregator_refuses_members_that_its_own_operator_enrolled(mesh: Mesh) -> None:
    mine = mesh.admission(operator="enrol.example")
    report = mesh.report(0, 1)
    with pytest.raises(Exception, match="issuer's too"):
        mine(mesh.world.task, report.metadata, report.public_share)


def test_an_aggregator_that_cannot_check_serves_no_task_with_membership(mesh: Mesh) -> None:
    report = mesh.report(0)
    with pytest.raises(TaskRefused):
        admit_all(mesh.world.task, report.metadata, report.public_share)
    admit_all(task(), report.metadata, report.public_share)


def test_nobody_is_asked_for_a_bearer_token_where_reports_prove_membership(mesh: Mesh) -> None:
    """A token would tell the leader whose report it is."""
    world, sock = mesh.world, free_socket()
    tasks = {world.task.task_id: world.held}
    driver = Driver(
        tasks, KeyRing([world.leader_key]), world.leader_store, vdaf_of, world.clock, secrets.token_bytes, world.post
    )
    served = leader_app(world.leader, driver, members=table("acme"), collectors=table("collector"))
    url = f"http://127.0.0.1:{sock.getsockname()[1]}/tasks/{to_b64url(world.task.task_id)}/reports"
    headers = {"content-type": media_type("upload-req")}
    with serving(served, sock), httpx.Client(trust_env=False, headers=headers) as http:
        body = UploadRequest((mesh.report(0, 1), resealed(mesh, mesh.report(1), extensions=()))).encode()
        answer = http.post(url, content=body)
        assert answer.status_code == 200
        (refused,) = UploadErrors.decode(answer.content).errors
        assert refused[1] is ReportError.INVALID_MESSAGE
        other = url.replace(to_b64url(world.task.task_id), to_b64url(bytes(32)))
        assert http.post(other, content=body).status_code == 401


def _waits_or_fails(mesh: Mesh) -> bool:
    """Whether the batch of this hour has no result."""
    world = mesh.world
    body = CollectionJobReq(query_for(world.hour())).encode()
    try:
        return world.leader.process_collection_init(world.task.task_id, body).body == b""
    except Exception as e:
        return getattr(e, "kind", None) is ProblemType.INVALID_BATCH_SIZE
