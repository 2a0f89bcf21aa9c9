"""Telling a monitor over HTTP: by consent alone, beside the updates; and a monitor that takes what it should alone."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from interlock.base.clock import SystemClock
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from interlock.base.fetch import HttpPoster, http_client
from interlock.commons.monitor import Monitor
from interlock.commons.notices import AGREES, DIFFERS, MAX_NOTICE, PROVEN, Notice, parse_answer, read_said
from interlock.node.cli import mesh_count, mesh_monitor, mesh_node, mesh_notices, mesh_setup, mesh_status
from interlock.node.cli.main import main
from interlock.node.roles import monitor as monitor_role
from interlock.node.roles import tell as tell_role
from interlock.node.roles.tell import keep_telling
from interlock.transparency.checkpoint import Checkpoint, sign_checkpoint
from tests.unit.commons_world import ORIGIN, World, pack, seed, world
from tests.unit.test_commons_monitor import Watched
from tests.unit.test_commons_notices import LOG, forked
from tests.unit.test_node_mesh_cli import Member
from tests.unit.test_transparency_cli import served


@dataclass
class Scene:
    """A monitor that listens, and a member whose configuration names it."""

    monitor: Monitor
    url: str
    member: Member
    commons: World

    def post(self, body: bytes) -> httpx.Response:
        return httpx.post(f"{self.url}/notices", content=body, trust_env=False)

    def named(self, url: str) -> None:
        text = self.member.config.read_text().split("monitor =")[0].rstrip() + "\n"
        self.member.config.write_text(f'{text}monitor = "{url}"\n')

    def checks(self, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
        """What doctor says of the monitor: status -> detail."""
        capsys.readouterr()
        self.member("doctor", "--json")
        rows = json.loads(capsys.readouterr().out)["rows"]
        return {row["status"]: row["detail"] for row in rows if row["check"] == "monitor"}


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    (tmp_path / "world").mkdir()
    with world(tmp_path / "world") as commons:
        for module in (mesh_node, mesh_status, mesh_notices, mesh_monitor, mesh_setup, tell_role):
            monkeypatch.setattr(module, "SystemClock", lambda: commons.clock)
        commons.publisher.publish(pack(), "canary")
        watched = Watched(commons)
        watched.look()
        with served(monitor_role.app(watched.monitor, commons.clock, every_s=60)) as url:
            made = Scene(watched.monitor, url, Member(tmp_path, commons), commons)
            made.named(url)
            made.member.init()
            yield made
        watched.monitor.close()


def test_nothing_is_told_before_a_yes_nor_after_a_no(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.member("update")
    assert scene.monitor.notices.told().counts == {}
    assert "no consent" in scene.checks(capsys)["ok"]
    assert scene.member("consent", "on", "--monitor") == EXIT_OK
    assert "nothing of this node" in capsys.readouterr().out
    assert scene.monitor.notices.told().counts == {}, "what was seen before the yes is not told"
    scene.member("update")
    assert scene.monitor.notices.told().counts == {AGREES: 1}
    assert scene.member("consent", "show", "--monitor") == EXIT_OK
    assert f"{scene.url}: yes" in capsys.readouterr().out
    assert scene.member("consent", "off", "--monitor") == EXIT_OK
    scene.commons.publisher.publish(pack(2), "canary")
    scene.member.mirror.copy()
    scene.member("update")
    assert scene.monitor.notices.told().counts == {AGREES: 1}


def test_a_no_to_everything_is_one_to_the_monitor_too(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.member("consent", "on", "--monitor")
    scene.member("update")
    assert scene.member("consent", "off") == EXIT_OK
    assert f"{scene.url}: no" in capsys.readouterr().out
    assert list((scene.member.home / "told").iterdir()) == []
    assert "no consent" in scene.checks(capsys)["ok"]


def test_status_and_doctor_say_how_telling_stands(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.member("consent", "on", "--monitor")
    assert "is told with the next update" in scene.checks(capsys)["ok"]
    scene.member("update")
    assert "agrees" in scene.checks(capsys)["ok"]
    scene.named("https://other.example")
    assert "is told nothing" in scene.checks(capsys)["warn"]
    scene.member("consent", "on", "--monitor")
    assert "warn" not in scene.checks(capsys), "a yes to another is a no to the one before"
    scene.named(scene.url)
    scene.member("consent", "on", "--monitor")
    scene.member("update")
    said = scene.member.home / "told" / "said.json"
    for result, status, code in ((DIFFERS, "warn", EXIT_OK), (PROVEN, "fail", EXIT_REFUSED)):
        scene.named(scene.url)
        said.write_bytes(said.read_bytes().replace(b'"agrees"', f'"{result}"'.encode()))
        assert status in scene.checks(capsys)
        assert scene.member("status") == code
        assert "monitor: " in capsys.readouterr().out
        said.write_bytes(said.read_bytes().replace(f'"{result}"'.encode(), b'"agrees"'))


def test_a_monitor_that_hangs_slows_no_update_and_stands_in_the_status(
    scene: Scene, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tell_role, "_PATIENCE_S", 0.2)
    monkeypatch.setattr(tell_role, "_WAIT_S", 0.5)
    with socket.socket() as hangs:
        hangs.bind(("127.0.0.1", 0))
        hangs.listen()
        scene.named(f"http://127.0.0.1:{hangs.getsockname()[1]}")
        scene.member("consent", "on", "--monitor")
        before = time.monotonic()
        assert scene.member("update") == EXIT_OK
        assert time.monotonic() - before < 2
        waiting = scene.checks(capsys)
        assert "waits to be told" in waiting.get("ok", "") or "could not be told" in waiting.get("warn", "")
        found = ""
        for _ in range(100):
            found = found or scene.checks(capsys).get("warn", "")
            time.sleep(0 if found else 0.02)
        assert "could not be told" in found
        assert scene.member("status") == EXIT_OK


def test_the_daemon_tells_what_updates_left_and_goes_on_after_whatever_it_meets(scene: Scene) -> None:
    scene.member("consent", "on", "--monitor")
    home, stop = scene.member.home, threading.Event()
    with contextlib.suppress(FileExistsError):
        (home / "told").mkdir()
    (home / "told" / "seen.json").write_bytes(b"damaged")
    thread = threading.Thread(target=keep_telling, args=(home, scene.url, stop), kwargs={"every_s": 0.02})
    thread.start()
    try:
        time.sleep(0.1)
        note = scene.commons.log.log.published
        assert note is not None
        (home / "told" / "seen.json").write_bytes(Notice.of(note).data)
        for _ in range(200):
            if read_said(home, scene.url).result == AGREES:
                break
            time.sleep(0.02)
    finally:
        stop.set()
        thread.join(10)
    assert scene.monitor.notices.told().counts == {AGREES: 1}


def test_mesh_run_tells_beside_its_updates(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.member("consent", "on", "--monitor")
    scene.member.config.write_text(scene.member.config.read_text() + "poll_seconds = 0.1\n")
    stop = threading.Event()
    monkeypatch.setattr(mesh_count, "start_logging", lambda *_: None)
    monkeypatch.setattr(mesh_count, "stop_event", lambda **_: stop)

    def end_once_told() -> None:
        for _ in range(400):
            if scene.monitor.notices.told().counts:
                break
            time.sleep(0.02)
        stop.set()

    watching = threading.Thread(target=end_once_told)
    watching.start()
    assert scene.member("run") == EXIT_OK
    watching.join(10)
    assert scene.monitor.notices.told().counts == {AGREES: 1}


def test_a_server_that_sets_a_cookie_does_not_know_who_comes_again() -> None:
    """Of a monitor, an aggregator, a mirror alike: one client may be kept for as long as a node runs."""
    seen: list[str] = []

    class Marks(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.headers.get("Cookie", ""))
            self.send_response(200)
            self.send_header("Set-Cookie", "who=you; Path=/")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Marks) as server, http_client() as client:

        def twice() -> None:
            for _ in range(2):
                server.handle_request()

        thread = threading.Thread(target=twice)
        thread.start()
        post = HttpPoster(f"http://127.0.0.1:{server.server_port}/notices", max_length=9, client=client)
        for _ in range(2):
            post(b"")
        thread.join(10)
    assert seen == ["", ""]


def test_a_victim_of_another_history_is_found_though_it_never_saw_the_first(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.member("consent", "on", "--monitor")
    (scene.member.home / "told").mkdir()
    seen = Notice.of(forked(scene.commons, tmp_path / "fork", 1))
    (scene.member.home / "told" / "seen.json").write_bytes(seen.data)
    tell_role.tell_soon(scene.member.home, scene.url, SystemClock())
    assert "holds proof" in scene.checks(capsys)["fail"]
    answer = httpx.get(f"{scene.url}/alarms", trust_env=False)
    assert (answer.status_code, [a["kind"] for a in answer.json()["alarms"]]) == (503, ["split-view"])


def test_a_claim_without_a_note_is_shown_and_is_no_alarm(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    lie = Notice(ORIGIN, 2, b"\x07" * 32)
    assert parse_answer(scene.post(lie.data).content) == DIFFERS
    answer = httpx.get(f"{scene.url}/alarms", trust_env=False)
    assert answer.status_code == 200
    (claim,) = answer.json()["notices"]["unproven"]
    assert (claim["size"], claim["root"], claim["count"]) == (2, "07" * 32, 1)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{}", 400),
        (Notice("log.example/else", 2, b"\x07" * 32).data, 404),
        (Notice.of(sign_checkpoint(Checkpoint(ORIGIN, 2, b"\x07" * 32), [type(LOG)(ORIGIN, seed("x"))])).data, 403),
        (b"x" * (MAX_NOTICE + 1), 413),
    ],
)
def test_what_is_no_notice_is_refused_in_one_line(scene: Scene, body: bytes, status: int) -> None:
    answer = scene.post(body)
    assert (answer.status_code, answer.text.count("\n")) == (status, 1)
    assert scene.monitor.store.alarms() == []


def test_too_many_notices_are_turned_away_whoever_sends_them(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_role, "PER_SECOND", 0.001)
    monkeypatch.setattr(monitor_role, "AT_ONCE", 10)
    lie = Notice(ORIGIN, 2, b"\x07" * 32)
    with (
        served(monitor_role.app(scene.monitor, scene.commons.clock, every_s=60)) as url,
        httpx.Client(trust_env=False) as client,
    ):
        codes = [client.post(f"{url}/notices", content=lie.data).status_code for _ in range(15)]
    assert codes == [200] * 10 + [429] * 5
    assert scene.monitor.notices.told().counts == {DIFFERS: 10}


def test_long_notices_that_never_come_whole_keep_no_short_one_out(scene: Scene) -> None:
    host, port = scene.url.removeprefix("http://").split(":")
    head = f"POST /notices HTTP/1.1\r\nHost: {host}\r\nContent-Length: {MAX_NOTICE}\r\n\r\n".encode()
    with contextlib.ExitStack() as held:
        for _ in range(monitor_role.BODIES):
            held.enter_context(socket.create_connection((host, int(port)))).sendall(head + b"x")
        for _ in range(200):
            if scene.post(b"x" * (monitor_role.SHORT + 1)).status_code == 429:
                break
        else:
            raise AssertionError("the long ones are not inside")
        assert parse_answer(scene.post(Notice(ORIGIN, 2, b"\x07" * 32).data).content) == DIFFERS


@pytest.mark.parametrize(
    "url", ["http://monitor.example", "ftp://x", "https://", "monitor.example", "http://127.0.0.1.example", "http://[x"]
)
def test_a_monitor_that_is_told_in_the_clear_is_refused(scene: Scene, url: str) -> None:
    scene.named(url)
    assert scene.member("consent", "on", "--monitor") == EXIT_USAGE


def test_a_consent_needs_a_monitor_that_is_named(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.member.config.write_text(scene.member.config.read_text().split("monitor =")[0])
    assert scene.member("consent", "on", "--monitor") == EXIT_USAGE
    assert "[mesh] monitor: is not set" in capsys.readouterr().err
    assert scene.member("consent", "on", "task", "--monitor") == EXIT_USAGE


def test_the_monitor_s_own_command_shows_what_was_told(
    tmp_path: Path, scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.post(Notice(ORIGIN, 2, b"\x07" * 32).data)
    scene.monitor.close()
    folder = scene.commons.home / "monitor"
    mirrors = [f"{name}=file://{scene.commons.home / name / 'public'}" for name in ("east", "west")]
    pins = ["--log-policy", scene.member.policy, "--root", str(tmp_path / "root.json")]
    named = [word for mirror in mirrors for word in ("--mirror", mirror)]
    assert main(["mesh", "setup", "--role", "monitor", "--dir", str(folder), *named, *pins]) == EXIT_OK
    capsys.readouterr()
    assert main(["mesh", "monitor", "--dir", str(folder)]) == EXIT_OK
    said = capsys.readouterr().out
    assert "told by nodes: 1 differs; 0 trees wait" in said
    assert f"unproven: {ORIGIN}: somebody names another root of 2 entries, 0707070707070707 (1x)" in said
    assert main(["mesh", "monitor", "--dir", str(folder), "--json"]) == EXIT_OK
    assert json.loads(capsys.readouterr().out)["notices"]["counts"] == {DIFFERS: 1}
