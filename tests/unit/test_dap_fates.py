"""What became of a report: its sender is told where it stands, why, by whom and at which step, and nobody else is."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from interlock.base.codec import Malformed
from interlock.base.errors import EXIT_OK, EXIT_USAGE
from interlock.base.fetch import Unreachable
from interlock.base.keys import Ed25519Signer
from interlock.commons.membership import BLIND, CERTIFICATE, MembershipProof, NotMember, demand_sender
from interlock.dap.client import upload
from interlock.dap.drafts import ReportError, Role
from interlock.dap.fates import Fate, FateReq, FateResp, Question, Standing, ask_fates
from interlock.dap.messages import LEADER_SELECTED, Report, UploadErrors
from interlock.dap.messages import media_type as media
from interlock.dap.problems import DapProblem
from interlock.dap.shares import KeyRing, open_input_share, seal_input_share
from interlock.dap.taskfile import dump_client_task
from interlock.dap.transport import Reply
from interlock.node.cli.main import main
from interlock.node.roles.aggregate import leader_app
from interlock.node.roles.fates import Outcome, outcomes
from interlock.node.storage.node import OutboxRow, OutboxState, open_store
from tests.unit.dap_http import TOKENS, Deployment, free_socket, serving, table, wait_until
from tests.unit.dap_stores import Stores
from tests.unit.dap_world import World, bits
from tests.unit.membership_mesh import Mesh
from tests.unit.report_world import CountedWorld, Member, catalog
from tests.unit.test_dap_repair import JOBS, each_of_nine, execute, parts, spoil


@pytest.fixture
def world(tmp_path: Path, stores: Stores) -> Iterator[World]:
    found = World(tmp_path, job_size=3, stores=stores)
    yield found
    found.close()


def fates(world: World, *reports: Report, member: str | None = "acme", proof: bytes = b"") -> list[Fate]:
    questions = tuple(Question(r.metadata.report_id, r.metadata.time, proof) for r in reports)
    body = world.leader.process_fates(world.task.task_id, FateReq(questions).encode(), member)
    return list(FateResp.decode(body).fates)


def ends(world: World, *reports: Report) -> list[tuple[str, str, str, str]]:
    """Standing, error, side and step of each."""
    return [
        (
            fate.standing.value,
            "" if fate.error is None else fate.error.value,
            "" if fate.side is None else fate.side.name.lower(),
            "" if fate.step is None else fate.step.value,
        )
        for fate in fates(world, *reports)
    ]


def standings(world: World, *reports: Report, member: str | None = "acme") -> list[Standing]:
    return [fate.standing for fate in fates(world, *reports, member=member)]


def uploaded(world: World, count: int) -> list[Report]:
    """Of one member, an hour each; the clock stands in the hour of the last."""
    found = []
    for place in range(count):
        if place:
            world.clock.advance(3600)
        found.append(world.report(bits(place)))
        assert world.upload(found[-1], member="acme") == []
    return found


# the good way


def test_a_report_is_told_of_from_its_upload_to_its_collection(world: World) -> None:
    mine = world.report(bits(0))
    assert standings(world, mine) == [Standing.UNKNOWN]
    world.upload(mine, member="acme")
    assert standings(world, mine) == [Standing.WAITING]
    world.post.before = lambda: _unreachable()
    world.drive(1)
    assert standings(world, mine) == [Standing.IN_JOB]
    world.post.before = lambda: None
    world.drive(1)
    assert standings(world, mine) == [Standing.AGGREGATED]
    world.upload(world.report(bits(1)), world.report(bits(2)))
    world.collector.ask(world.hour())
    world.drive(1)
    assert standings(world, mine) == [Standing.AGGREGATED], "its batch is closed, and not given out"
    world.collect()
    assert standings(world, mine) == [Standing.COLLECTED]
    world.restart()
    assert standings(world, mine) == [Standing.COLLECTED]


def test_of_several_reports_each_is_told_in_the_order_of_the_questions(world: World) -> None:
    first, _, third = uploaded(world, 3)
    world.drive(1)
    never = dataclasses.replace(third, metadata=dataclasses.replace(third.metadata, report_id=b"n" * 16))
    asked = fates(world, third, never, first)
    assert [fate.report_id for fate in asked] == [r.metadata.report_id for r in (third, never, first)]
    assert [fate.standing for fate in asked] == [Standing.AGGREGATED, Standing.UNKNOWN, Standing.AGGREGATED]
    assert fates(world) == []


def test_a_report_of_a_batch_that_the_leader_selects_is_told_of_too(tmp_path: Path, stores: Stores) -> None:
    world = World(tmp_path, batch_mode=LEADER_SELECTED, stores=stores)
    mine = uploaded(world, 3)
    world.clock.advance(3600)
    late = world.report(bits(9))
    world.upload(late, member="acme")
    world.drive(1)
    assert standings(world, *mine) == [Standing.AGGREGATED] * 3
    found = world.collect_next()
    assert standings(world, *mine, late) == [Standing.COLLECTED] * 3 + [Standing.AGGREGATED]
    world.collector.taken(found.place)
    assert standings(world, *mine, late) == [Standing.COLLECTED] * 3 + [Standing.AGGREGATED]
    world.close()


# what turned it down


def test_what_the_leader_cannot_open_is_turned_down_by_it_at_init(world: World) -> None:
    good = world.report(bits(0))
    bad = dataclasses.replace(good, leader_share=dataclasses.replace(good.leader_share, payload=b"x" * 64))
    world.upload(bad, member="acme")
    world.drive(1)
    assert ends(world, bad) == [("rejected", "hpke_decrypt_error", "leader", "init")]


def test_what_the_helper_cannot_open_is_turned_down_by_it_at_init(world: World) -> None:
    good = world.report(bits(0))
    bad = dataclasses.replace(good, helper_share=dataclasses.replace(good.helper_share, payload=b"x" * 64))
    world.upload(bad, member="acme")
    world.drive(1)
    assert ends(world, bad) == [("rejected", "hpke_decrypt_error", "helper", "init")]


def test_what_is_sealed_to_a_key_that_the_helper_has_no_more_is_lost_and_said_to_be(world: World) -> None:
    good = world.report(bits(0))
    lost = dataclasses.replace(good, helper_share=dataclasses.replace(good.helper_share, config_id=77))
    assert world.upload(lost, member="acme") == [], "the leader cannot tell"
    for member in ("globex", "initech"):
        assert world.upload(world.report(bits(1)), member=member) == []
    gone = [("rejected", "hpke_decrypt_error", "helper", "init")]  # dap-18 has one name for both (4.5.3.3)
    for _ in range(2):
        world.drive()
        assert ends(world, lost) == gone
        assert world.leader_store.states(world.task.task_id).aggregated == 2, "the others of its job are counted"
        assert world.upload(lost, member="acme") == [], "a retry changes nothing"


def test_what_does_not_prove_itself_is_turned_down_by_the_helper(world: World) -> None:
    good = world.report(bits(5))
    about = (good.metadata, good.public_share)
    ring = KeyRing([world.leader_key])
    payload = open_input_share(world.task, Role.LEADER, ring, *about, good.leader_share, 1 << 62)
    flipped = bytes([payload[0] ^ 1]) + payload[1:]
    sealed = seal_input_share(world.task, Role.LEADER, world.leader_key.config, *about, flipped, secrets.token_bytes)
    world.upload(dataclasses.replace(good, leader_share=sealed), member="acme")
    world.drive(1)
    assert ends(world, good) == [("rejected", "vdaf_verify_error", "helper", "init")]


def test_a_job_that_was_abandoned_turns_its_reports_down_at_the_finish(world: World) -> None:
    spoil(world, 0)
    mine = world.report(bits(0))
    world.upload(mine, member="acme")
    world.drive(1)
    assert ends(world, mine) == [("rejected", "report_dropped", "leader", "finish")]


def test_a_repair_that_leaves_a_report_out_is_told_as_one(world: World) -> None:
    each_of_nine(world)
    mine = world.report(bits(9))
    world.upload(mine, member="acme")
    world.drive(1)
    (own,) = (part for part in parts(world) if part.count == 1)
    execute(world, "UPDATE accumulators SET count = 2 WHERE job = ?", own.job_id)
    assert world.collect().report_count == 9
    assert ends(world, mine) == [("rejected", "report_dropped", "leader", "repair")]


def test_what_was_turned_down_is_told_so_also_beside_what_was_collected_of_its_hour(world: World) -> None:
    good = world.report(bits(0))
    bad = dataclasses.replace(good, leader_share=dataclasses.replace(good.leader_share, payload=b"x" * 64))
    world.upload(bad, member="acme")
    world.drive(1)
    again = world.report(bits(0))
    assert world.upload(again, member="acme") == []
    world.upload(world.report(bits(1)), world.report(bits(2)))
    assert world.collect().report_count == 3
    assert standings(world, bad, again) == [Standing.REJECTED, Standing.COLLECTED]


# who may ask


def test_others_are_told_the_same_as_of_a_report_that_never_was(world: World) -> None:
    (mine,) = uploaded(world, 1)
    world.drive(1)
    assert standings(world, mine) == [Standing.AGGREGATED]
    for other in ("globex", None):
        assert fates(world, mine, member=other) == [Fate(mine.metadata.report_id, Standing.UNKNOWN)]


@pytest.mark.parametrize("backend", [BLIND, CERTIFICATE])
def test_a_report_that_proves_membership_is_told_of_by_its_key_alone(tmp_path: Path, backend: str) -> None:
    mesh = Mesh(tmp_path, backend)
    world, mine = mesh.world, mesh.report(0)
    assert world.upload(mine) == []
    world.drive(1)
    held = mesh.proof(0)
    assert fates(world, mine, member=None, proof=held.possession)[0].standing is Standing.AGGREGATED
    shown = held.extension(world.task.task_id, mesh.epoch, mine.public_share)
    other = mesh.proof(1).possession
    cut = held.possession[:-1]
    for wrong in (b"", shown, other, cut, held.possession + b"x"):
        assert fates(world, mine, member="acme", proof=wrong)[0].standing is Standing.UNKNOWN
    mesh.close()


def test_what_was_shown_with_the_report_and_what_is_shown_with_the_question_do_for_nothing_else() -> None:
    held = MembershipProof(b"t" * 32, 5, Ed25519Signer(b"s" * 32), b"", b"signature")
    demand_sender(b"t" * 32, held.report_id, held.possession)
    for task_id, report_id, proof in (
        (b"u" * 32, held.report_id, held.possession),
        (b"t" * 32, bytes(16), held.possession),
        (b"t" * 32, held.report_id, held.extension(b"t" * 32, 5, b"")),
    ):
        with pytest.raises(NotMember):
            demand_sender(task_id, report_id, proof)


# how long


def test_what_is_swept_out_is_forgotten_and_not_unknown(world: World) -> None:
    first, *_, last = uploaded(world, 6)
    world.drive(2)
    while world.leader_store.sweep(world.task.task_id, first.metadata.time + 2, 100):
        pass
    assert standings(world, first) == [Standing.FORGOTTEN]
    assert standings(world, first, member="globex") == [Standing.FORGOTTEN], "and that is no news of anybody"
    assert standings(world, last) == [Standing.AGGREGATED]


def test_too_many_questions_or_one_twice_are_refused(world: World) -> None:
    one = Question(bytes(16), 5)
    many = tuple(Question(bytes([i]) * 16, 5) for i in range(101))
    for questions in ((one, one), many):
        with pytest.raises(DapProblem):
            world.leader.process_fates(world.task.task_id, FateReq(questions).encode(), "acme")
    with pytest.raises(DapProblem):
        world.leader.process_fates(bytes(32), FateReq((one,)).encode(), "acme")


def test_an_answer_about_other_reports_is_none(world: World) -> None:
    other = FateResp((Fate(b"o" * 16, Standing.WAITING),)).encode()

    def exchange(method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
        assert url.endswith("/interlock/fates")
        return Reply(200, media("fate-resp"), other)

    with pytest.raises(Malformed):
        ask_fates(exchange, world.task, (Question(bytes(16), 5),))


def _unreachable() -> None:
    raise Unreachable("does not answer", where="helper")


# over HTTP


def test_the_question_is_asked_with_the_members_token_and_in_a_message_of_ours(tmp_path: Path) -> None:
    world = World(tmp_path)
    (mine,) = uploaded(world, 1)
    app = leader_app(world.leader, world.driver, members=table("acme", "globex"), collectors=table("collector"))
    sock = free_socket()
    base = f"http://127.0.0.1:{sock.getsockname()[1]}"
    url = base + world.task.leader_resource("interlock", "fates").removeprefix("https://leader.test/dap")
    body = FateReq((Question(mine.metadata.report_id, mine.metadata.time),)).encode()
    typed = {"content-type": media("fate-req")}
    assert typed["content-type"] == "application/vnd.interlock.dap;message=fate-req"

    def asked(name: str, headers: dict[str, str] = typed) -> httpx.Response:
        return httpx.post(url, content=body, headers={**headers, "authorization": f"Bearer {TOKENS[name]}"})

    with serving(app, sock):
        assert httpx.post(url, content=body, headers=typed).status_code == 401
        assert asked("collector").status_code == 403
        assert asked("acme", {"content-type": "application/ppm-dap;message=fate-req"}).status_code == 415
        found, other = asked("acme"), asked("globex")
        endless = httpx.post(
            url, content=bytes(1 << 18), headers={**typed, "authorization": f"Bearer {TOKENS['acme']}"}
        )
        assert endless.status_code == 413, "a hundred questions are short"
    assert found.headers["content-type"] == media("fate-resp")
    assert FateResp.decode(found.content).fates[0].standing is not Standing.UNKNOWN
    assert FateResp.decode(other.content).fates[0].standing is Standing.UNKNOWN
    world.close()


# the node's own reports


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[CountedWorld]:
    world = CountedWorld(tmp_path, catalog())
    yield world
    world.close()


@pytest.fixture
def member(tmp_path: Path, counted: CountedWorld) -> Iterator[Member]:
    home = tmp_path / "acme"
    home.mkdir()
    found = Member(home, counted, catalog())
    found.agree()
    yield found
    found.stop()


def told(member: Member, last: int = 20) -> list[Outcome]:
    return outcomes(member.store, member.world.task, member.line, last)


def test_a_node_knows_of_each_report_what_became_of_it(counted: CountedWorld, member: Member) -> None:
    assert told(member) == []
    member.close(early=True)
    assert [outcome.standing for outcome in told(member)] == ["not sent yet"]
    assert not any("fates" in line for line in member.line.asked), "nothing was there to ask for"
    member.send()
    (waiting,) = told(member)
    assert (waiting.standing, waiting.reason, waiting.side) == ("waiting", "", "")
    assert waiting.report == member.line.uploaded()[0].metadata.report_id.hex()
    counted.drive(1)
    member.restart()
    assert [outcome.standing for outcome in told(member)] == ["aggregated"]


def test_a_node_says_where_a_report_was_turned_down(counted: CountedWorld, member: Member) -> None:
    member.close(early=True)
    member.send()
    counted.post.after = lambda reply: Reply(
        400, "application/problem+json", b'{"type": "urn:ietf:params:ppm:dap:error:invalidMessage"}'
    )
    counted.drive(1)
    (found,) = told(member)
    assert (found.standing, found.reason, found.side, found.step) == ("rejected", "report_dropped", "leader", "finish")
    assert counted.post.sent[0][0].endswith(JOBS)


def test_a_report_that_was_refused_at_upload_or_dropped_here_is_told_without_asking(
    counted: CountedWorld, member: Member
) -> None:
    member.close(early=True)
    id_ = member.store.outbox()[0].report_id
    member.line.after = lambda reply: Reply(
        200, media("upload-errors"), UploadErrors(((id_, ReportError.BATCH_COLLECTED),)).encode()
    )
    member.send()
    (found,) = told(member)
    assert (found.standing, found.reason, found.side, found.step) == ("rejected", "batch_collected", "leader", "upload")
    counted.clock.advance(7200)
    member.close()
    member.withdraw()
    assert [outcome.standing for outcome in told(member)][1:] == ["dropped here"] * 1
    assert not any("fates" in line for line in member.line.asked)


def test_what_the_leader_forgot_the_node_forgets_too(counted: CountedWorld, member: Member) -> None:
    member.close(early=True)
    member.send()
    counted.drive(1)
    time = member.line.uploaded()[0].metadata.time
    while counted.leader_store.sweep(counted.task.task_id, time + 1, 100):
        pass
    counted.leader_store.sweep(counted.task.task_id, time + 1, 100)
    with counted.leader_store._write() as tx:
        tx.execute("DELETE FROM reports")
    assert [outcome.standing for outcome in told(member)] == ["forgotten"]
    assert member.store.outbox()[0].report_id == b""
    assert [outcome.standing for outcome in told(member)] == ["sent; its id is kept no more"]


def test_a_node_forgets_by_itself_which_reports_were_its_own(counted: CountedWorld, member: Member) -> None:
    member.close(early=True)
    member.send()
    for days, kept in ((59, True), (2, False)):
        counted.clock.advance(days * 86_400)
        member.close()
        assert bool(member.store.outbox()[0].report_id) is kept


def test_reports_that_prove_membership_are_asked_for_one_by_one(tmp_path: Path) -> None:
    mesh = Mesh(tmp_path)
    store, asked = mesh.members[0].store, list[int]()
    world, mine = mesh.world, mesh.report(0)
    for n in range(3):
        start = world.task.start_us(mine.metadata.time + n)
        row = OutboxRow("rules-1", start, "c", world.task.task_id, b"report", report_id=bytes([n]) * 16, asks=b"proof")
        store.queue(row)
        store.attempt(row)
        store.settle(row, OutboxState.SENT, "", 0)

    def line(method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
        questions = FateReq.decode(body).questions
        asked.append(len(questions))
        assert [question.proof for question in questions] == [b"proof"]
        return Reply(200, media("fate-resp"), world.leader.process_fates(world.task.task_id, body))

    assert [outcome.standing for outcome in outcomes(store, world.task, line, 2)] == ["not known"] * 2
    assert asked == [1, 1], "of the last two, and the leader learns of no two that they are one member's"
    mesh.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Deployment, list[str]]]:
    """Aggregators, a member's home, and the words that ask about its reports."""
    monkeypatch.setitem(TOKENS, "acme", "acmes" * 8)  # a token that a file may hold
    with contextlib.ExitStack() as stack:
        deployment = Deployment(tmp_path, stack)
        (tmp_path / "token").write_text(TOKENS["acme"])
        (tmp_path / "token").chmod(0o600)
        (tmp_path / "task.json").write_bytes(dump_client_task(deployment.task))
        (tmp_path / "home").mkdir()
        config = tmp_path / "interlock.toml"
        lines = ("[mesh]", 'home = "home"', "[report]", 'task = "task.json"', 'token = "token"')
        config.write_text("\n".join(lines) + "\n")
        yield deployment, ["mesh", "report", "status", "--config", str(config)]


def sent(deployment: Deployment, home: Path) -> str:
    """One report to the leader, and what a node keeps of it."""
    report = deployment.report(bits(0))
    assert upload(deployment.exchange("acme"), deployment.task, [report]) == {}
    start, id_ = deployment.task.start_us(report.metadata.time), report.metadata.report_id
    with contextlib.closing(open_store(home)) as store:
        row = OutboxRow("rules-1", start, "c", deployment.task.task_id, b"report", report_id=id_)
        store.queue(row)
        store.attempt(row)
        store.settle(row, OutboxState.SENT, "", 0)
    return id_.hex()


def test_the_command_says_what_became_of_each_report(
    home: tuple[Deployment, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment, words = home
    assert main(words) == EXIT_OK
    assert "no report was made yet" in capsys.readouterr().out
    id_ = sent(deployment, tmp_path / "home")
    wait_until(lambda: deployment.leader_store.states(deployment.task.task_id).aggregated == 1)
    assert main(words) == EXIT_OK
    assert "rules-1  aggregated" in capsys.readouterr().out
    assert main([*words, "--json"]) == EXIT_OK
    told = json.loads(capsys.readouterr().out)
    assert (told["format"], told["v"]) == ("interlock-report-status", 1)
    (row,) = told["reports"]
    assert (row["report"], row["standing"], row["side"], row["step"]) == (id_, "aggregated", "", "")


def test_the_command_line_refuses_what_it_cannot_do(
    home: tuple[Deployment, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    _, words = home
    assert main([*words, "--last", "0"]) == EXIT_USAGE
    assert "--last" in capsys.readouterr().err
