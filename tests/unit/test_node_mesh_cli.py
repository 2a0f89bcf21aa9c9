"""`interlock mesh` for members, in this process: the happy path, and bad input in one line with nothing changed."""

from __future__ import annotations

import importlib
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.errors import EXIT_FAULT, EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from interlock.base.files import file_lock
from interlock.commons import installed
from interlock.commons.live import read_live, read_subscriptions
from interlock.node.cli import mesh, mesh_count, mesh_node, mesh_status
from interlock.node.cli.doctor import checks
from interlock.node.cli.main import main
from interlock.node.service import alone_in
from tests.unit.commons_world import World, log_policy, pack, world

TEAM = "mesh:team@stable"


class Member:
    """A member's commands, all with one configuration file."""

    def __init__(self, folder: Path, commons: World) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.config = folder / "interlock.toml"
        self.mirror = commons.mirror("copy")
        self.mirror.copy()
        self.url = f"file://{self.mirror.public}"
        self.config.write_text(f'[mesh]\nhome = "home"\norganisation = "acme"\ncommons = "{self.url}"\n')
        (folder / "log-policy.txt").write_bytes(log_policy())
        (folder / "root.json").write_bytes(commons.root)

    def __call__(self, command: str, *words: str) -> int:
        return main(["mesh", command, *words, "--config", str(self.config)])

    def init(self) -> int:
        return self("init", "--root", str(self.folder / "root.json"), "--log-policy", self.policy)

    @property
    def policy(self) -> str:
        return str(self.folder / "log-policy.txt")

    def files(self) -> dict[str, bytes]:
        found = (p for p in sorted(self.home.rglob("*")) if p.is_file() and "lock" not in p.name)
        return {str(p.relative_to(self.home)): p.read_bytes() for p in found}


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    (tmp_path / "world").mkdir()
    with world(tmp_path / "world") as made:
        made.publisher.publish(pack(), "stable")
        yield made


@pytest.fixture
def member(tmp_path: Path, commons: World, monkeypatch: pytest.MonkeyPatch) -> Member:
    for module in (mesh_node, mesh_status):
        monkeypatch.setattr(module, "SystemClock", lambda: commons.clock)
    # `mesh run` would take this process's signals and log handlers.
    monkeypatch.setattr(mesh_count, "start_logging", lambda *_: None)
    monkeypatch.setattr(mesh_count, "stop_event", lambda **_: threading.Event())
    (tmp_path / "member").mkdir()
    return Member(tmp_path / "member", commons)


@pytest.fixture
def follower(member: Member) -> Member:
    assert member.init() == EXIT_OK
    assert member("subscribe", TEAM) == EXIT_OK
    return member


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    err = capsys.readouterr().err
    assert err.startswith("interlock: ")
    assert err.count("\n") == 1
    return err


def test_a_member_inits_subscribes_grants_and_sees_its_state(
    follower: Member, capsys: pytest.CaptureFixture[str]
) -> None:
    assert follower("grant", TEAM) == EXIT_OK
    assert "granted: team.zap of team@stable" in capsys.readouterr().out
    assert follower("status", "--json") == EXIT_OK
    told = json.loads(capsys.readouterr().out)
    assert (told["organisation"], told["live"][0]["pack"], told["last"]["ok"]) == ("acme", "team", True)
    assert follower("doctor") == EXIT_OK
    assert follower("update") == EXIT_OK
    assert follower("grant", TEAM, "team.zap", "--revoke") == EXIT_OK
    assert follower("unsubscribe", TEAM) == EXIT_OK
    assert read_live(follower.home).rows == {}


def test_init_pins_by_digest_and_the_same_again_changes_nothing(member: Member, commons: World) -> None:
    words = ("--root-sha256", commons.sha256, "--log-policy", member.policy)
    assert member("init", *words) == EXIT_OK
    before = member.files()
    assert member("init", *words) == EXIT_OK
    assert member.files() == before


def test_init_without_a_configuration_says_what_to_write_into_one(
    member: Member, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_CONFIG", "/dev/null")
    home = member.folder / "other"
    words = ["--root", str(member.folder / "root.json"), "--log-policy", member.policy, "--commons", member.url]
    assert main(["mesh", "init", "--home", str(home), *words]) == EXIT_OK
    said = capsys.readouterr().out
    member.config.write_text(said[said.index("[mesh]") :])
    assert member("subscribe", TEAM) == EXIT_OK
    assert (home / "live.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--root", "{bad}", "--log-policy", "{policy}"),
        ("--root", "{none}", "--log-policy", "{policy}"),
        ("--root", "{root}", "--log-policy", "{bad}"),
        ("--root", "{root}", "--log-policy", "{none}"),
        ("--root-sha256", "ff", "--log-policy", "{policy}"),
        ("--root-sha256", "0" * 64, "--log-policy", "{policy}"),
        ("--root-sha256", "0" * 64, "--log-policy", "{policy}", "--commons", "http://127.0.0.1:1"),
        ("--root-sha256", "0" * 64, "--log-policy", "{policy}", "--commons", "gopher://x"),
    ],
)
def test_an_init_that_cannot_be_trusted_pins_nothing(
    member: Member, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    (member.folder / "bad").write_text('{"signed": {}}\n')
    names = {"bad": "bad", "none": "none", "root": "root.json", "policy": "log-policy.txt"}
    files = {name: str(member.folder / file) for name, file in names.items()}
    assert member("init", *(word.format(**files) for word in words)) in (EXIT_REFUSED, EXIT_USAGE)
    one_line(capsys)
    assert not member.home.exists()


def test_another_commons_is_not_pinned_over_the_first(follower: Member, capsys: pytest.CaptureFixture[str]) -> None:
    before = follower.files()
    assert follower("init", "--root-sha256", "0" * 64, "--log-policy", follower.policy) == EXIT_USAGE
    assert "follows another commons" in one_line(capsys)
    assert follower.files() == before


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("subscribe", "mesh:other@stable"), EXIT_REFUSED, "is not published in ring stable"),
        (("subscribe", "mesh:team"), EXIT_USAGE, "not of the form mesh:PACK@RING"),
        (("subscribe", "mesh:team@golden"), EXIT_USAGE, "'golden' is not a ring"),
        (("subscribe", "mesh:../up@stable"), EXIT_USAGE, "name is not of"),
        (("unsubscribe", "mesh:other@stable"), EXIT_USAGE, "is not followed here"),
        (("grant", "mesh:other@stable"), EXIT_USAGE, "is not live on this node"),
        (("grant", TEAM, "team.zpa"), EXIT_USAGE, "is no rule of this pack"),
        (("grant", TEAM, "team.zap", "--revoke"), EXIT_USAGE, "team.zap: is not granted here"),
        (("consent", "on"), EXIT_USAGE, "needs the task's name"),
        (("consent", "on", "x"), EXIT_USAGE, "reports for no task"),
        (("report", "submit"), EXIT_USAGE, "reports for no task"),
    ],
)
def test_bad_input_changes_nothing(
    follower: Member, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, says: str
) -> None:
    kept = {"live": read_live(follower.home), "subscriptions": read_subscriptions(follower.home)}
    grants = installed.read_grants(follower.home)
    capsys.readouterr()
    assert follower(*words) == code
    assert says in one_line(capsys)
    assert kept == {"live": read_live(follower.home), "subscriptions": read_subscriptions(follower.home)}
    assert installed.read_grants(follower.home) == grants


def test_a_misspelt_rule_is_not_taken_for_a_grant_taken_back(follower: Member) -> None:
    assert follower("grant", TEAM, "team.zap") == EXIT_OK
    assert follower("grant", TEAM, "team.zpa", "--revoke") == EXIT_USAGE
    assert [row.rule for row in installed.read_grants(follower.home).rows] == ["team.zap"]


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("update",),
        ("subscribe", TEAM),
        ("unsubscribe", TEAM),
        ("grant", TEAM),
        ("grant", TEAM, "--revoke"),
        ("ledger",),
        ("consent", "show"),
        ("consent", "off", "x"),
        ("run",),
    ],
)
def test_a_folder_that_is_no_node_is_left_alone(member: Member, words: tuple[str, ...]) -> None:
    assert member(*words) == EXIT_USAGE
    assert not member.home.exists()


@pytest.mark.parametrize(
    "words", [("status",), ("update",), ("ledger",), ("report", "submit"), ("consent", "show"), ("run",)]
)
def test_an_unknown_key_stops_every_command(
    follower: Member, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    follower.config.write_text(follower.config.read_text() + "pol_seconds = 1\n")
    before = follower.files()
    capsys.readouterr()
    assert follower(*words) == EXIT_USAGE
    assert "[mesh] pol_seconds: is not a setting" in one_line(capsys)
    assert follower.files() == before


def test_a_commons_that_does_not_answer_leaves_the_last_good_pack(
    follower: Member, capsys: pytest.CaptureFixture[str]
) -> None:
    before = read_live(follower.home)
    follower.config.write_text(follower.config.read_text().replace(follower.url, "http://127.0.0.1:1"))
    capsys.readouterr()
    assert follower("update") == EXIT_USAGE
    assert "http://127.0.0.1:1/metadata/2.root.json: does not answer" in one_line(capsys)
    assert read_live(follower.home) == before
    assert follower("status") == EXIT_REFUSED
    assert "does not answer" in capsys.readouterr().out


def test_a_damaged_pack_fails_the_doctor(follower: Member, capsys: pytest.CaptureFixture[str]) -> None:
    (stored,) = (follower.home / "store").glob("*")
    stored.write_bytes(stored.read_bytes() + b" ")
    assert follower("doctor") == EXIT_REFUSED
    assert "is not the pack that was verified" in capsys.readouterr().out


def test_an_update_waits_for_the_one_under_way(follower: Member) -> None:
    done = threading.Event()

    def hold() -> None:
        with file_lock(follower.home / "lock"):
            held.set()
            done.wait(0.3)

    held = threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(5)
    assert follower("update") == EXIT_OK
    thread.join()


def test_a_second_daemon_on_one_home_is_refused(follower: Member, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    with alone_in(follower.home):
        assert follower("run") == EXIT_USAGE
    assert "is served by another process" in one_line(capsys)


def test_a_command_without_the_extra_names_the_extra(
    member: Member, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'tuf'", name="tuf.api")

    monkeypatch.setattr(importlib, "import_module", missing)
    assert member.init() == EXIT_USAGE
    assert "needs tuf; install it with: pip install 'interlock[mesh]'" in one_line(capsys)
    assert not member.home.exists()


def test_doctor_says_that_a_node_cannot_be_checked_without_the_extra(
    follower: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'tuf'", name="tuf.api")

    monkeypatch.setattr(importlib, "import_module", missing)
    (row,) = mesh.node(str(follower.config))
    assert (row.status, row.fix) == ("fail", "pip install 'interlock[mesh]'")
    assert str(follower.home) in row.detail


def test_doctor_names_an_unknown_key_of_any_section(follower: Member, capsys: pytest.CaptureFixture[str]) -> None:
    follower.config.write_text(follower.config.read_text() + "[serve]\nport = 1\n")
    (row,) = checks(str(follower.config), [mesh.node])
    assert (row.check, row.status) == ("configuration", "fail")
    assert "[serve] port" in row.detail


def test_a_fault_of_ours_is_one_line_with_its_place(
    member: Member, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise AssertionError("secret-value")

    monkeypatch.setattr(mesh_node, "init_node", broken)
    assert member.init() == EXIT_FAULT
    said = one_line(capsys)
    assert "a fault of interlock: AssertionError in tests.unit.test_node_mesh_cli" in said
    assert "secret-value" not in said


def test_windows_is_refused_in_one_line(
    member: Member, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert member.init() == EXIT_USAGE
    assert "does not run on Windows" in one_line(capsys)
