"""Every role as a real process: what it refuses, how it ends, and what it still knows after kill -9."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.integration.mesh_processes import ROLES, TEAM, Mesh

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    made = Mesh(tmp_path_factory.mktemp("mesh"))
    made.set_up()
    made.start("w0", "w1")
    made.start("log", "commons")
    try:
        assert made.finish(made.publish(1)).code == 0
        made.start("mirror")
        made.wait_for_copy()
        root = ["--root", str(made.first_root), "--log-policy", str(made.root / "log-policy.txt")]
        made(*made.member("init", *root))
        made(*made.member("subscribe", TEAM))
        yield made
    finally:
        made.end()


def add(mesh: Mesh, entry: bytes, token: str | None = None) -> httpx.Response:
    headers = {"authorization": f"Bearer {mesh.token if token is None else token}"}
    return httpx.post(mesh.url("log") + "/add", content=entry, headers=headers, timeout=30, trust_env=False)


def files(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def index_of(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return answer.text.splitlines()[1]


def test_twenty_adds_at_once_stand_once_each(mesh: Mesh) -> None:
    entries = [b"entry %d" % (i % 10) for i in range(20)]
    with ThreadPoolExecutor(20) as pool:
        places = list(pool.map(lambda e: index_of(add(mesh, e)), entries))
    assert places[:10] == places[10:]
    assert len(set(places)) == 10


def test_two_publishes_and_two_subscribes_at_once_take_their_turns(mesh: Mesh) -> None:
    done = [mesh.finish(p) for p in [mesh.publish(2), mesh.publish(2)]]
    assert [d.code for d in done] == [0, 0]
    assert done[0].out == done[1].out
    begun = [mesh.begin(*mesh.member("subscribe", TEAM)) for _ in range(3)]
    assert [mesh.finish(p).code for p in begun] == [0, 0, 0]


@pytest.mark.parametrize("name", ROLES)
def test_a_second_process_on_a_folder_is_refused_in_one_line(mesh: Mesh, name: str) -> None:
    done = mesh(*mesh.serving(name), code=2)
    assert "is served by another process" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("name", ROLES)
def test_a_port_in_use_touches_nothing(mesh: Mesh, name: str) -> None:
    mesh.stop(name)
    before = files(mesh.root / name)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = mesh(*mesh.serving(name, "--port", str(port)), code=2)
    assert done.err == f"interlock: 127.0.0.1:{port}: is in use; choose another --port, or stop what listens there\n"
    assert files(mesh.root / name) == before
    mesh.start(name)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_each_role_soon_with_0_whatever_hangs_on_it(mesh: Mesh, number: signal.Signals) -> None:
    held = []
    for name in ROLES:
        for begun in (b"", b"GET / HT", b"POST /add-checkpoint HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"):
            held.append(socket.create_connection(("127.0.0.1", mesh.ports[name])))
            held[-1].sendall(begun)
    for process in mesh.running.values():
        process.send_signal(number)
    for name in ROLES:
        assert mesh.running.pop(name).wait(6) == 0, mesh.errors(name)
        assert "Traceback" not in mesh.errors(name)
    for sock in held:
        sock.close()
    mesh.start(*ROLES)


def test_what_was_acknowledged_survives_kill_9_of_every_role(mesh: Mesh) -> None:
    place = index_of(add(mesh, b"before the kill"))
    published = mesh.finish(mesh.publish(3))
    assert published.code == 0
    for name in ROLES:
        mesh.kill(name)
    mesh.start(*ROLES)
    assert index_of(add(mesh, b"before the kill")) == place
    assert index_of(add(mesh, b"after the kill")) != place
    assert mesh.finish(mesh.publish(3)).out == published.out


def test_a_log_says_nothing_of_tokens_and_is_json_line_by_line(mesh: Mesh) -> None:
    assert add(mesh, b"x", token="a-wrong-token-that-nobody-has").status_code == 403
    assert add(mesh, b"x" * 70_000).status_code == 413
    assert httpx.get(mesh.url("commons") + "/metadata/" + "a" * 300, trust_env=False).status_code == 404
    for name in ROLES:
        said = mesh.errors(name)
        rows = [json.loads(line) for line in said.splitlines()]
        assert rows
        assert all(set(row) == {"at", "level", "logger", "message"} for row in rows)
        assert mesh.token not in said
        assert "a-wrong-token" not in said


@pytest.mark.parametrize(
    ("name", "file"),
    [("log", "add-tokens.json"), ("commons", "keys/timestamp.key"), ("mirror", "node.json"), ("w0", "witness.key")],
)
def test_a_newer_format_is_refused_in_one_line(mesh: Mesh, name: str, file: str) -> None:
    mesh.stop(name)
    path = mesh.root / name / file
    kept = path.read_bytes()
    path.write_bytes(re.sub(rb'"v": \d+', b'"v": 99', kept, count=1))
    assert path.read_bytes() != kept
    try:
        done = mesh(*mesh.serving(name), code=2)
        assert "has version 99" in done.err
        assert "upgrade interlock" in done.err
    finally:
        path.write_bytes(kept)
        mesh.start(name)
