"""What a leader or an issuer does to a count of members; no aggregate comes of it, and honest reports count."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_der_private_key

from interlock.base import blind_rsa
from interlock.commons.enrolment import demand_honest_count, parse_count
from interlock.commons.memberfiles import member_file
from interlock.dap.drafts import ReportError
from interlock.dap.messages import MEMBERSHIP, Extension, Report
from interlock.dap.transport import Reply
from tests.unit.commons_world import seed, world
from tests.unit.dap_world import bits
from tests.unit.membership_mesh import Mesh, asked_of_the_helper, resealed
from tests.unit.membership_world import NAME, Organisation, token_key


class Turned(Exception):
    """The helper turned a report down: what it said."""

    def __init__(self, said: ReportError) -> None:
        super().__init__(said.value)
        self.said = said


class Count:
    """Three members, an issuer, a leader and a helper. An attack is what `act` does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mesh = Mesh(folder)
        self.act: Callable[[], object] = lambda: None

    def report(self, member: int = 0, *places: int) -> Report:
        return self.mesh.report(member, *places)

    def asks_helper(self, *reports: Report) -> None:
        """A leader of no scruples puts reports into a job. Raises: Turned, for the last that is turned down."""
        self.mesh.careless_leader()
        said = [error for error in asked_of_the_helper(self.mesh, list(reports)) if error is not None]
        if said:
            raise Turned(said[-1])

    def recovers(self) -> int:
        """The next epoch, with an honest leader and issuer: how many members are counted."""
        mesh = self.mesh
        mesh.clock.advance(3600)
        mesh.epoch = mesh.world.task.time_of(mesh.clock.now_us())
        mesh.issuer.after = lambda reply: reply
        mesh.issuer.open_epoch(mesh.epoch)
        for member in mesh.members:
            member.credentials._keys_of = mesh.issuer.keys_of
        mesh.world.restart()
        assert mesh.world.upload(*(mesh.report(i, 0) for i in range(3))) == []
        return mesh.world.collect().report_count


Attack = Callable[[Count], None]


@contextlib.contextmanager
def count_in(folder: Path) -> Iterator[Count]:
    count = Count(folder)
    try:
        yield count
    finally:
        count.mesh.close()


# --- the leader -------------------------------------------------------------------------------------------------------


def _changed(count: Count, report: Report, **fields: object) -> Report:
    metadata = dataclasses.replace(report.metadata, **fields)  # type: ignore[arg-type]
    return resealed(count.mesh, dataclasses.replace(report, metadata=metadata), extensions=metadata.extensions)


def mints(count: Count) -> None:
    """A member that is none: a key of the leader's own under another's token."""
    made = dataclasses.replace(count.mesh.proof(1), signer=seed("the leader's own"))
    report = count.mesh.world.report(bits(), proof=made)
    count.act = lambda: count.asks_helper(report)


def mints_without_token(count: Count) -> None:
    made = dataclasses.replace(count.mesh.proof(1), signer=seed("the leader's own"), signature=bytes(256))
    report = count.mesh.world.report(bits(), proof=made)
    count.act = lambda: count.asks_helper(report)


def isolates(count: Count) -> None:
    """One member among reports of the leader's own: those drop out, and what is left is too few to be collected."""
    mesh = count.mesh
    mesh.careless_leader()
    invented = [
        mesh.world.report(bits(), proof=dataclasses.replace(mesh.proof(i), signer=mesh.issuer.signer)) for i in (1, 2)
    ]
    assert mesh.world.upload(count.report(0, 5), *invented) == []

    def act() -> None:
        with contextlib.suppress(AssertionError):  # the leader is not done, and never will be
            mesh.world.collect()
            raise RuntimeError("one member's report was collected alone")
        assert mesh.world.leader_store.states(mesh.world.task.task_id).rejected == 2
        raise Turned(ReportError.REPORT_DROPPED)

    count.act = act


def repeats(count: Count) -> None:
    """One member's report once more, under another id."""
    copy = _changed(count, count.report(0, 5), report_id=secrets.token_bytes(16))
    count.act = lambda: count.asks_helper(copy)


def replays(count: Count) -> None:
    """A report that the helper has counted, in another job."""
    report = count.report(0, 5)
    count.asks_helper(report)
    count.act = lambda: count.asks_helper(report, count.report(1))


def swaps_share(count: Count) -> None:
    """A member's proof over a share of the leader's making."""
    mine, other = count.report(0, 1), count.report(1, 2)
    swapped = dataclasses.replace(mine, public_share=other.public_share)
    sealed = resealed(count.mesh, swapped, extensions=mine.metadata.extensions)
    count.act = lambda: count.asks_helper(sealed)


def moves_time(count: Count) -> None:
    """A report of this epoch put into the one before, where it would stand nearly alone."""
    count.mesh.issuer.open_epoch(count.mesh.epoch - 1)
    moved = _changed(count, count.report(), time=count.mesh.epoch - 1)
    count.act = lambda: count.asks_helper(moved)


def strips(count: Count) -> None:
    stripped = resealed(count.mesh, count.report(), extensions=())
    count.act = lambda: count.asks_helper(stripped)


def doubles(count: Count) -> None:
    """Two proofs in one report."""
    report, other = count.report(0), count.report(1)
    both = (*report.metadata.extensions, *other.metadata.extensions)
    changed = resealed(count.mesh, report, extensions=both)
    count.act = lambda: count.asks_helper(changed)


def garbles(count: Count) -> None:
    changed = resealed(count.mesh, count.report(), extensions=(Extension(MEMBERSHIP, b"\xff" * 600),))
    count.act = lambda: count.asks_helper(changed)


def proof_of_another(count: Count) -> None:
    """One member's report under another's proof."""
    changed = resealed(count.mesh, count.report(0), extensions=count.report(1).metadata.extensions)
    count.act = lambda: count.asks_helper(changed)


# --- the issuer -------------------------------------------------------------------------------------------------------


def _next_epoch(count: Count) -> int:
    count.mesh.clock.advance(3600)
    count.mesh.epoch = count.mesh.world.task.time_of(count.mesh.clock.now_us())
    return count.mesh.epoch


def _modulus(number: int) -> int:
    key = load_der_private_key(token_key(number), None)
    assert isinstance(key, RSAPrivateKey)
    return key.public_key().public_numbers().n


def keys_apart(count: Count) -> None:
    """One member's token is signed with a key of its own, by which its report would be told from the others."""
    told, own_key = sorted((0, 1), key=_modulus)  # what is blinded for the one may be no number below the other
    own = count.mesh.issuer.open_epoch(_next_epoch(count), key=own_key)
    published = dataclasses.replace(own, token_key=blind_rsa.public_of(token_key(told)))
    count.mesh.members[0].credentials._keys_of = lambda name, epoch: published
    count.act = lambda: count.mesh.proof(0)


def keys_of_another(count: Count) -> None:
    """The commons has keys that are not this issuer's."""
    other = dataclasses.replace(count.mesh.issuer.open_epoch(_next_epoch(count)), issuer=seed("another").verifier)
    count.mesh.members[0].credentials._keys_of = lambda name, epoch: other
    count.act = lambda: count.mesh.proof(0)


def another_kind(count: Count) -> None:
    """Certificates, which can be linked, for a task that promises blind tokens."""
    count.mesh.issuer.open_epoch(_next_epoch(count), backend="certificate")
    count.act = lambda: count.mesh.proof(0)


def changes_answer(count: Count) -> None:
    count.mesh.issuer.open_epoch(_next_epoch(count))
    count.mesh.issuer.after = lambda reply: Reply(200, body=reply.body[::-1])
    count.act = lambda: count.mesh.proof(0)


def endless_answer(count: Count) -> None:
    count.mesh.issuer.open_epoch(_next_epoch(count))
    count.mesh.issuer.after = lambda reply: Reply(200, body=reply.body * 5000)
    count.act = lambda: count.mesh.proof(0)


def over_issues(count: Count) -> None:
    """Members that are none, and a count that says nothing of them."""
    mesh = count.mesh
    for name in ("shell-1", "shell-2"):
        mesh.members.append(Organisation(name, count.folder / name, mesh.issuer))
    assert mesh.world.upload(*(mesh.report(i, 0) for i in range(5))) == []
    collected = mesh.world.collect().report_count
    honest = parse_count(mesh.issuer.issuer.count(NAME, mesh.epoch))
    hiding = dataclasses.replace(honest, issued=3, enrolled=3)
    count.act = lambda: demand_honest_count(hiding, reports=collected)


def second_key(count: Count) -> None:
    """The issuer has the commons publish another key for an epoch that has one."""
    (count.folder / "commons-world").mkdir()

    def act() -> None:
        with world(count.folder / "commons-world") as commons:
            first = count.mesh.issuer.open_epoch(_next_epoch(count))
            commons.publisher.publish_members([member_file(first.data, where="x")])
            own = count.mesh.issuer.open_epoch(count.mesh.epoch, key=1)
            commons.publisher.publish_members([member_file(own.data, where="x")])

    count.act = act


def aggregates_too(count: Count) -> None:
    """The issuer's operator runs the aggregator that is to check members."""
    mine, report = count.mesh.admission(operator="enrol.example"), count.report(0, 1)
    count.act = lambda: mine(count.mesh.world.task, report.metadata, report.public_share)


def hides_keys(count: Count) -> None:
    """The issuer shows an aggregator no keys."""
    report = count.report(0, 1)
    late = count.mesh.admission()
    count.mesh.issuer.published = False

    def act() -> None:
        try:
            late(count.mesh.world.task, report.metadata, report.public_share)
        finally:
            count.mesh.issuer.published = True

    count.act = act
