"""Tokens are for tasks, over real HTTP: another task's token opens no resource of this one, at either aggregator."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from interlock.base.errors import EXIT_OK, EXIT_USAGE
from interlock.base.fetch import http_client
from interlock.base.files import replace
from interlock.dap.batches import query_for
from interlock.dap.fates import FATES
from interlock.dap.jobs import CollectionJobReq
from interlock.dap.messages import media_type
from interlock.dap.problems import problem_type, to_b64url
from interlock.dap.repair import REPAIRS
from interlock.dap.taskfile import dump_client_task
from interlock.node.cli.main import main
from interlock.node.roles.aggregate import helper_app, leader_app
from interlock.node.tokens import (
    Grant,
    NotAllowed,
    TokenTable,
    add_token,
    read_tokens,
    take_back,
    token_hash,
)
from tests.unit.dap_http import TOKENS, free_socket, serving
from tests.unit.dap_world import World, task

OTHER = bytes([7] * 32)
NOWHERE = to_b64url(bytes(16))


def bound(*tasks: bytes) -> TokenTable:
    """Everybody's token, good for these tasks alone."""
    return TokenTable(lambda: {name: Grant(token_hash(token), frozenset(tasks)) for name, token in TOKENS.items()})


@contextlib.contextmanager
def served(world: World, tokens: TokenTable) -> Iterator[tuple[str, str]]:
    """The URLs of both aggregators' resources of the world's task."""
    urls = []
    with contextlib.ExitStack() as stack:
        leader = leader_app(world.leader, world.driver, members=tokens, collectors=tokens)
        for app in (leader, helper_app(world.helper, leaders=tokens)):
            sock = free_socket()
            urls.append(f"http://127.0.0.1:{sock.getsockname()[1]}/tasks/{to_b64url(world.task.task_id)}")
            stack.enter_context(serving(app, sock))
        yield urls[0], urls[1]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with http_client() as client:
        client.headers["authorization"] = f"Bearer {TOKENS['collector']}"
        yield client


def test_a_token_of_another_task_opens_no_resource_of_this_one(world: World, http: httpx.Client) -> None:
    with served(world, bound(OTHER)) as (leader, helper):
        asked = [
            *(("POST", f"{leader}/{name}") for name in ("reports", "collection_jobs", "/".join(FATES))),
            *(("POST", f"{helper}/{name}") for name in ("aggregation_jobs", "aggregate_shares", "/".join(REPAIRS))),
            *((verb, f"{leader}/collection_jobs/{NOWHERE}") for verb in ("GET", "DELETE")),
            *((verb, f"{helper}/aggregation_jobs/{NOWHERE}") for verb in ("GET", "POST", "DELETE")),
            *((verb, f"{helper}/aggregate_shares/{NOWHERE}") for verb in ("GET", "DELETE")),
        ]
        answers = [http.request(verb, url) for verb, url in asked]
    assert {answer.status_code for answer in answers} == {403}
    # dap-18, 3.6: nothing outside of the registry may stand in DAP's name space, and it has no such type any more
    assert {problem_type(answer.content) for answer in answers} == {None}
    assert all("for other tasks" in answer.text and TOKENS["collector"] not in answer.text for answer in answers)


def test_a_collectors_token_of_another_task_closes_no_batch(world: World, http: httpx.Client) -> None:
    world.upload(*(world.report([1] * 16) for _ in range(3)))
    body = CollectionJobReq(query_for(world.hour())).encode()
    headers = {"content-type": media_type("collection-job-req")}
    with served(world, bound(OTHER)) as (leader, _):
        assert http.post(f"{leader}/collection_jobs", headers=headers, content=body).status_code == 403
    world.restart()  # the application's driver ended with it
    assert world.leader_store.open_collections(world.task.task_id, 10) == []
    assert world.collect().report_count == 3, "nobody closed it before"


def test_a_token_of_this_task_is_let_in_to_it(world: World, http: httpx.Client) -> None:
    body = CollectionJobReq(query_for(world.hour())).encode()
    headers = {"content-type": media_type("collection-job-req")}
    with served(world, bound(OTHER, world.task.task_id)) as (leader, helper):
        assert http.post(f"{leader}/collection_jobs", headers=headers, content=body).status_code == 202
        assert http.get(f"{helper}/aggregation_jobs/{NOWHERE}?step=0").status_code == 404
        mistyped = leader.rsplit("/", 1)[0] + "/not-a-task/collection_jobs"
        assert http.post(mistyped, headers=headers, content=body).status_code == 403


def test_a_token_that_is_taken_back_is_refused_by_a_running_server(
    world: World, http: httpx.Client, tmp_path: Path
) -> None:
    table = tmp_path / "collectors.json"
    add_token(table, "collector", TOKENS["collector"], [world.task.task_id])
    with served(world, read_tokens(table)) as (leader, _):
        asked = f"{leader}/collection_jobs/{NOWHERE}"
        assert http.get(asked).status_code == 404
        take_back(table, "collector")
        assert http.get(asked).status_code == 403


# --- interlock mesh token


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An aggregator's folder, and beside it two tasks' files."""
    found = tmp_path / "leader"
    assert main(["mesh", "setup", "--role", "dap-leader", "--dir", str(found)]) == EXIT_OK
    for name, least in (("one", 3), ("two", 4)):
        replace(tmp_path / f"{name}.json", dump_client_task(task(least)))
    return found


def token(folder: Path, *words: str, party: str = "collector") -> int:
    return main(["mesh", "token", "--dir", str(folder), "--party", party, "--name", "carol", *words])


def test_a_token_is_made_for_the_tasks_that_are_named_and_widened_later(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "carol.token"
    assert token(folder, "--task", str(tmp_path / "one.json"), "--out", str(out)) == EXIT_OK
    assert "carol may come as collector for 1 task; the token is in" in capsys.readouterr().out
    secret, table = out.read_text(), read_tokens(folder / "collectors.json")
    one, two = task(3).task_id, task(4).task_id
    assert table.name_of(f"Bearer {secret}", one) == "carol"
    with pytest.raises(NotAllowed):
        table.name_of(f"Bearer {secret}", two)
    assert token(folder, "--task", str(tmp_path / "two.json")) == EXIT_OK
    assert "for 1 more task, with the token that it has" in capsys.readouterr().out
    assert table.name_of(f"Bearer {secret}", two) == "carol", "the role is at work and sees it"
    assert out.read_text() == secret


@pytest.mark.parametrize("party", ["collector", "leader"])
def test_who_could_close_a_batch_or_commit_reports_is_never_let_into_all_tasks_by_default(
    party: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "t"
    assert token(folder, "--out", str(out), party=party) == EXIT_USAGE
    assert "--all-tasks" in capsys.readouterr().err
    assert not out.exists()
    assert token(folder, "--all-tasks", "--out", str(out), party=party) == EXIT_OK
    assert "for every task of this aggregator" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--task", "{}/one.json"), "has no token here"),
        (("--task", "{}/one.json", "--all-tasks", "--out", "{}/t"), ""),
        (("--task", "{}/none.json", "--out", "{}/t"), "none.json"),
    ],
)
def test_what_cannot_be_let_in_is_said_and_nothing_is_written(
    words: tuple[str, ...], said: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token(folder, "--all-tasks", "--out", str(tmp_path / "other"), party="leader")
    (folder / "leaders.json").rename(folder / "collectors.json")
    (folder / "collectors.json").write_text((folder / "collectors.json").read_text().replace("carol", "dave"))
    before = (folder / "collectors.json").read_bytes()
    with contextlib.suppress(SystemExit):  # argparse refuses the second of them
        assert token(folder, *(word.format(tmp_path) for word in words)) == EXIT_USAGE
    assert said in capsys.readouterr().err
    assert (folder / "collectors.json").read_bytes() == before
    assert not (tmp_path / "t").exists()


def test_a_token_is_taken_back_by_a_command_that_says_what_opens_nothing_any_more(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "carol.token"
    token(folder, "--task", str(tmp_path / "one.json"), "--out", str(out))
    secret, table = out.read_text(), read_tokens(folder / "collectors.json")
    capsys.readouterr()
    assert token(folder, "--take-back") == EXIT_OK
    told = capsys.readouterr().out
    assert (
        f"carol comes as collector no more, for {task(3).task_id.hex()[:16]}: token {token_hash(secret)[:16]}" in told
    )
    assert secret not in told
    with pytest.raises(NotAllowed):
        table.name_of(f"Bearer {secret}", task(3).task_id)
    assert token(folder, "--take-back") == EXIT_USAGE
    assert "carol: has no token here; nobody has" in capsys.readouterr().err
    assert token(folder, "--take-back", party="publisher") == EXIT_USAGE
    assert "is no folder of a role that lets a publisher in" in capsys.readouterr().err
    for words in (("--take-back", "--out", str(tmp_path / "x")), ("--take-back", "--all-tasks"), ("--json",)):
        assert token(folder, *words) == EXIT_USAGE
        assert capsys.readouterr().err.count("\n") == 1


def test_tokens_are_listed_by_id_and_name_and_never_shown(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listing = ["mesh", "token", "--dir", str(folder), "--list"]
    assert main(listing) == EXIT_OK
    assert "nobody has a token" in capsys.readouterr().out
    secrets = []
    for party, words in (("collector", ("--task", str(tmp_path / "one.json"))), ("member", ("--all-tasks",))):
        token(folder, *words, "--out", str(tmp_path / party), party=party)
        secrets.append((tmp_path / party).read_text())
    add_token(folder / "members.json", "elder", "a-token-of-some-length", [])
    capsys.readouterr()
    assert main(listing) == EXIT_OK
    shown = capsys.readouterr().out
    assert f"{token_hash(secrets[0])[:16]}  collector  carol  since 20" in shown
    assert "elder  since nobody knows when, for no task" in shown
    assert main([*listing, "--party", "member", "--json"]) == EXIT_OK
    told = capsys.readouterr().out
    rows = json.loads(told)["tokens"]
    assert [(row["name"], row["party"], row["tasks"]) for row in rows] == [
        ("carol", "member", None),
        ("elder", "member", []),
    ]
    assert not any(secret in text for secret in secrets for text in (shown, told))
    assert main([*listing, "--name", "carol"]) == EXIT_USAGE
    assert main(listing[:-1]) == EXIT_USAGE
    assert "say whose token it is; or --list them" in capsys.readouterr().err
