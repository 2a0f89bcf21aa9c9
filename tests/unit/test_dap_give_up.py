"""A question whose batch never fills is taken back: its reports stay, and others may ask for its epochs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from interlock.base.files import replace
from interlock.dap.collector import WHILE_WAITING, Collected, GivenUp, Pending, give_up
from interlock.dap.messages import LEADER_SELECTED, Interval
from interlock.dap.problems import DapProblem, ProblemType
from interlock.dap.taskfile import dump_client_task, dump_key
from interlock.dap.transport import Reply
from interlock.node.cli.main import main
from interlock.node.parties import HttpExchange
from interlock.node.roles.aggregate import leader_app
from tests.unit.dap_http import TOKENS, Deployment, free_socket, serving, table
from tests.unit.dap_world import World, bits, unreachable


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def given_up(world: World, interval: Interval | None = None) -> GivenUp:
    return give_up(world._ask_leader, world.task, interval)


def two_then(world: World, interval: Interval) -> Interval:
    """A question about an hour with too few reports."""
    assert world.upload(world.report(bits(0)), world.report(bits(0))) == []
    assert isinstance(world.collector.ask(interval), Pending)
    world.drive()
    return interval


def test_reports_of_a_question_that_was_given_up_count_in_another_batch(world: World) -> None:
    hour = two_then(world, world.hour())
    world.clock.advance(3600)
    wide = Interval(hour.start, 2)
    with pytest.raises(DapProblem) as caught:
        world.collector.ask(wide)
    assert caught.value.kind is ProblemType.BATCH_OVERLAP
    assert given_up(world, hour) is GivenUp.DONE
    assert given_up(world, hour) is GivenUp.DONE, "again: it is found, made anew and given up"
    world.upload(world.report(bits(1)))
    found = world.collect(wide)
    assert (found.report_count, found.sums[:2]) == (3, (2, 1))


def test_the_same_question_asks_anew(world: World) -> None:
    hour = two_then(world, world.hour())
    assert given_up(world, hour) is GivenUp.DONE
    world.upload(world.report(bits(1)))
    assert world.collect(hour).report_count == 3


def test_a_result_that_is_there_stays(world: World) -> None:
    hour = world.hour()
    world.upload(*(world.report(bits(0)) for _ in range(3)))
    found = world.collect(hour)
    assert given_up(world, hour) is GivenUp.READY
    assert world.collector.ask(hour) == found


def test_a_batch_that_the_leader_has_closed_goes_on(world: World) -> None:
    hour = world.hour()
    world.upload(*(world.report(bits(0)) for _ in range(3)))
    world.drive()
    assert isinstance(world.collector.ask(hour), Pending)
    world.post.before = unreachable
    world.drive()
    assert given_up(world, hour) is GivenUp.CLOSED
    world.post.before = lambda: None
    world.drive()
    assert isinstance(world.collector.ask(hour), Collected)


def test_the_question_about_the_leaders_next_batch_is_given_up_and_no_report_is_lost(tmp_path: Path) -> None:
    world = World(tmp_path, batch_mode=LEADER_SELECTED)
    world.upload(world.report(bits(0)), world.report(bits(0)))
    assert isinstance(world.collector.ask_next(), Pending)
    world.drive()
    assert given_up(world) is GivenUp.DONE
    world.upload(world.report(bits(1)))
    found = world.collect_next()
    assert (found.report_count, found.sums[:2]) == (3, (2, 1))
    assert given_up(world) is GivenUp.READY
    assert world.collector.ask_next() == found, "it is not taken by giving up"
    world.close()


def test_a_batch_that_becomes_ready_as_its_question_is_given_up_is_not_forgotten(tmp_path: Path) -> None:
    """Where the leader selects, a DELETE of what is ready says that its result was kept; here nobody has seen it."""
    world = World(tmp_path, batch_mode=LEADER_SELECTED)
    assert world.upload(*(world.report(bits(0)) for _ in range(3))) == []

    def slowly(method: str, url: str, media_type: str = "", body: bytes = b"") -> Reply:
        if method == "DELETE":
            world.drive()
        return world._ask_leader(method, url, media_type, body)

    assert give_up(slowly, world.task, None) is GivenUp.READY
    found = world.collector.ask_next()
    assert isinstance(found, Collected)
    assert (found.report_count, found.sums[0]) == (3, 3)
    world.close()


def test_over_http_a_result_is_forgotten_when_it_was_taken_and_not_when_it_is_given_up(tmp_path: Path) -> None:
    world = World(tmp_path, batch_mode=LEADER_SELECTED)
    world.upload(*(world.report(bits(0)) for _ in range(3)))
    found, sock, exchange = world.collect_next(), free_socket(), HttpExchange(TOKENS["collector"])
    place = f"http://127.0.0.1:{sock.getsockname()[1]}{urlsplit(found.place).path.removeprefix('/dap')}"
    app = leader_app(world.leader, world.driver, members=table("acme"), collectors=table("collector"))
    with serving(app, sock):
        said = [exchange("DELETE", place + query).status for query in (f"?{WHILE_WAITING}", "", "")]
    exchange.close()
    assert said == [204, 204, 404]
    world.close()


# --- interlock mesh dap collect --give-up


class Asking:
    """A collector's files, and its command."""

    def __init__(self, folder: Path, deployment: Deployment) -> None:
        self.folder, self.deployment = folder, deployment
        replace(folder / "task.json", dump_client_task(deployment.task))
        replace(folder / "collector.json", dump_key(deployment.collector_key))
        replace(folder / "collector.token", TOKENS["collector"].encode())

    def __call__(self, *words: object, key: bool = True) -> int:
        files = ["--task", self.folder / "task.json", "--token", self.folder / "collector.token"]
        files += ["--key", self.folder / "collector.json"] * key
        return main(["mesh", "dap", "collect", *map(str, (*files, *words))])


@pytest.fixture
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asking]:
    for name, token in list(TOKENS.items()):
        monkeypatch.setitem(TOKENS, name, token.replace("-", ""))  # as a token's file has it
    with contextlib.ExitStack() as stack:
        yield Asking(tmp_path, Deployment(tmp_path, stack))


def test_a_person_takes_a_question_back_and_asks_another(asking: Asking, capsys: pytest.CaptureFixture[str]) -> None:
    assert asking("--running", "--wait", 0) == EXIT_REFUSED
    assert "or take it back with --give-up" in capsys.readouterr().err
    assert asking("--running", "--epochs", 2, "--wait", 0) == EXIT_REFUSED
    assert "or is asked for in one that is open" in capsys.readouterr().err
    assert asking("--running", "--give-up", key=False) == EXIT_OK
    assert "the question is given up; its reports stay" in capsys.readouterr().out
    assert asking("--running", "--epochs", 2, "--wait", 0) == EXIT_REFUSED
    assert "is not ready" in capsys.readouterr().err
    assert asking("--running", "--epochs", 2, "--give-up", "--json") == EXIT_OK
    said = json.loads(capsys.readouterr().out)
    assert said == {"format": "interlock-given-up", "v": 1, "task_id": asking.deployment.task.task_id.hex()}


@pytest.mark.parametrize(
    ("words", "said"), [(("--running",), "--key FILE: is needed"), (("--give-up", "--out", "x"), "--out, --catalog")]
)
def test_words_that_do_not_go_together_ask_nothing(
    words: tuple[str, ...], said: str, asking: Asking, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asking(*words, key=False) == EXIT_USAGE
    assert said in capsys.readouterr().err
    assert asking.deployment.leader_store.open_collections(asking.deployment.task.task_id, 10) == []
