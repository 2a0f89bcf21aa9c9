"""`interlock mesh monitor`: set up by command, silent or loud with an exit code, with alarms that can be closed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.clock import ManualClock
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from interlock.base.settings import read_settings
from interlock.commons.mirror import Mirror
from interlock.node.cli.main import main
from interlock.node.config import serve_config
from interlock.node.roles import monitor as monitor_role
from interlock.node.wiring.monitor import monitor_of
from tests.unit.commons_world import World, log_policy, pack, world
from tests.unit.test_commons_serving import ask


class Setup:
    """Two mirrors on disk, and a monitor's folder made by command."""

    def __init__(self, folder: Path, commons: World) -> None:
        self.commons = commons
        self.dir = folder / "monitor"
        self.mirrors: list[Mirror] = [commons.mirror(name) for name in ("east", "west")]
        for mirror in self.mirrors:
            mirror.copy()
        (folder / "log-policy.txt").write_bytes(log_policy())
        (folder / "root.json").write_bytes(commons.root)
        self.pins = ("--log-policy", str(folder / "log-policy.txt"), "--root", str(folder / "root.json"))

    def setup(self, *mirrors: str) -> int:
        named = [word for mirror in mirrors for word in ("--mirror", mirror)]
        return main(["mesh", "setup", "--role", "monitor", "--dir", str(self.dir), *named, *self.pins])

    def both(self) -> int:
        return self.setup(*(f"{m.public.parent.name}=file://{m.public}" for m in self.mirrors))

    def __call__(self, *words: str) -> int:
        return main(["mesh", "monitor", "--dir", str(self.dir), *words])


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    clock = ManualClock()
    for module in ("interlock.node.cli.mesh_monitor", "interlock.node.cli.mesh_setup"):
        monkeypatch.setattr(f"{module}.SystemClock", lambda: clock)
    with world(tmp_path) as commons:
        clock.advance((commons.clock.now_us() - clock.now_us()) / 1_000_000)
        commons.publisher.publish(pack(), "canary")
        yield Setup(tmp_path, commons)


def test_a_monitor_whose_folder_is_not_there_is_said_to_be_missing(
    made: Setup, capsys: pytest.CaptureFixture[str]
) -> None:
    assert made() == EXIT_USAGE
    assert "monitor: is not there; make it with" in capsys.readouterr().err


def test_a_monitor_looks_says_that_all_fits_and_ends_well(made: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    assert made.both() == EXIT_OK
    assert made() == EXIT_OK
    said = capsys.readouterr().out
    assert "interlock mesh serve --role monitor" in said
    assert said.endswith("all of it fits\n")


def test_an_open_alarm_is_told_of_ends_badly_and_can_be_closed(made: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    made.both()
    made.commons.log.append(b"junk")
    for mirror in made.mirrors:
        mirror.copy()
    assert made() == EXIT_REFUSED
    assert "unexpected: entry" in capsys.readouterr().out
    assert made("--close", "2") == EXIT_USAGE
    assert made("--close", "1") == EXIT_OK
    assert made("--json") == EXIT_OK
    body = json.loads(capsys.readouterr().out.partition("\n")[2])
    assert body["tree_size"] == made.commons.log.log.size
    assert [alarm["closed"] is None for alarm in body["alarms"]] == [False]


@pytest.mark.parametrize("mirrors", [(), ("east=file:///x",), ("east=file:///x", "west=file:///x"), ("file:///x",) * 2])
def test_a_monitor_of_fewer_than_two_named_mirrors_is_refused_and_nothing_is_made(
    made: Setup, mirrors: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert made.setup(*mirrors) == EXIT_USAGE
    assert capsys.readouterr().err.count("\n") == 1
    assert not made.dir.exists()


def test_a_watchdog_reads_from_the_status_whether_an_alarm_is_open(made: Setup) -> None:
    made.both()
    config = serve_config(read_settings(made.dir / "interlock.toml"))
    watching = monitor_of(config, made.commons.clock)
    app = monitor_role.app(watching, made.commons.clock, every_s=60)
    assert ask(app, "/alarms").status == 503, "what nobody has looked at is not well"
    watching.look()
    assert ask(app, "/alarms").status == 200
    made.commons.clock.advance(3600)
    assert ask(app, "/alarms").status == 503, "nor is what nobody has looked at for long"
    watching.look()
    assert ask(app, "/alarms").status == 200
    made.commons.log.append(b"junk")
    for mirror in made.mirrors:
        mirror.copy()
    watching.look()
    answer = ask(app, "/alarms")
    assert answer.status == 503
    assert [alarm["kind"] for alarm in json.loads(answer.body)["alarms"]] == ["unexpected"]
    watching.close()
