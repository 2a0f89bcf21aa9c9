"""`interlock mesh publish` from the command line, up to where it asks the log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from interlock.base.clock import DAY_US
from interlock.base.errors import EXIT_OK, EXIT_USAGE, InterlockError
from interlock.base.files import replace
from interlock.base.keys import Ed25519Signer
from interlock.commons.consensus import stated
from interlock.commons.indicators import indicator_pack
from interlock.commons.membership import BLIND
from interlock.dap.taskfile import dump_client_task
from interlock.node.cli import mesh_publish
from interlock.node.cli.main import main
from interlock.node.config import LOG_POLICY
from interlock.node.setup import write_settings
from tests.unit import test_consensus as consensus
from tests.unit.commons_world import SIGN_OFF, log_policy, pack, world


def test_an_operator_gives_up_a_publish_and_has_nothing_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(entry: bytes) -> bytes:
        raise InterlockError("the log is away")

    with world(tmp_path) as commons:
        monkeypatch.setattr(commons.publisher.steps, "_append", away)
        with pytest.raises(InterlockError, match="away"):
            commons.publisher.publish(pack(), "stable")
    command = _command(tmp_path)
    assert main([*command, "--resume"]) == EXIT_USAGE
    assert "does not answer" in capsys.readouterr().err
    assert main([*command, "--abandon"]) == EXIT_OK
    assert main([*command, "--resume"]) == EXIT_OK
    assert "nothing was cut short" in capsys.readouterr().out


def test_a_reviewer_signs_with_a_key_that_does_not_lie_in_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with world(tmp_path):
        pass
    command = [*_command(tmp_path), str(tmp_path / "pack.json"), "--ring", "canary"]
    made = indicator_pack("indicator-hosts", 1, [f"host:{'ab' * 32}"], authors=["A"], signed_off_by=[SIGN_OFF])
    replace(tmp_path / "pack.json", made.data)
    own = (tmp_path / "commons" / "keys" / "reviewed.key").rename(tmp_path / "reviewer.key")
    another = tmp_path / "commons" / "keys" / "canary.key"
    for key, says in ((another, "is not the key"), (own, "does not answer")):
        assert main([*command, "--key", str(key)]) == EXIT_USAGE
        assert says in capsys.readouterr().err


def _command(tmp_path: Path) -> list[str]:
    """`mesh publish` in the world's commons, with a log that does not answer."""
    home = tmp_path / "commons"
    replace(home / LOG_POLICY, log_policy())
    replace(home / "log-token", b"a0" * 16)
    write_settings(home / "interlock.toml", "serve", {"dir": str(home), "log_url": "http://127.0.0.1:9"})
    return ["mesh", "publish", "--config", str(home / "interlock.toml")]


def test_commands_that_serve_nothing_start_without_a_server() -> None:
    """Its modules take as long to import as all else that these commands need."""
    commands = [
        "mesh_publish",
        "mesh_ceremony",
        "mesh_keys",
        "mesh_operators",
        "mesh_token",
        "mesh_dap",
        "mesh_dap_task",
        "mesh_members",
        "mesh_monitor",
        "mesh_witness",
    ]
    code = f"import importlib, sys\nfor name in {commands}: importlib.import_module('interlock.node.cli.' + name)\n"
    code += "print(*sorted({'uvicorn', 'starlette', 'asyncio'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"\n"


def test_a_pack_of_indicators_goes_out_only_with_the_statements_it_rests_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path) as commons:
        monkeypatch.setattr(mesh_publish, "SystemClock", lambda: commons.clock)
        counted = consensus.catalog(opens_at=commons.clock.now_us() + DAY_US)
        task, rival = consensus.task(counted), Ed25519Signer(b"\4" * 32)
        start = task.start_us(task.time_of(counted.opens_at))
        commons.publisher.publish_catalog(counted)
        commons.publisher.publish_dap_task("hosts-1", dump_client_task(task))
    values = {"task_id": task.task_id.hex(), "at_least": 20, "shown": BLIND, "least_age": 0, "demo": False}
    values |= {"start": start, "end": start + DAY_US, "until": start + 90 * DAY_US}
    honest, forged = (
        stated(counted, places, key, **values)
        for places, key in (((consensus.HOST,), consensus.COLLECTOR), ((consensus.HOST, consensus.OTHER), rival))
    )
    command = [*_command(tmp_path), str(tmp_path / "pack.json"), "--ring", "canary"]
    for name, data in (("honest.json", honest.data), ("forged.json", forged.data)):
        replace(tmp_path / name, data)

    def published(places: tuple[str, ...], results: tuple[str, ...], *words: str) -> str:
        made = indicator_pack(
            "indicator-a", 1, places, authors=["A"], signed_off_by=[SIGN_OFF], organisations=20, results=results
        )
        replace(tmp_path / "pack.json", made.data)
        assert main([*command, *words]) != EXIT_OK
        (line,) = capsys.readouterr().err.splitlines()
        return line

    one, both = (consensus.HOST,), (consensus.HOST, consensus.OTHER)
    by = ("--statement", str(tmp_path / "honest.json"))
    assert "rests on 1 statements of consensus" in published(one, (honest.digest,))
    assert "rests on no statements" in published(one, (), *by)
    assert "does not follow from these statements" in published(both, (honest.digest,), *by)
    told = published(both, (forged.digest,), "--statement", str(tmp_path / "forged.json"))
    assert f"and its task's collector is {consensus.COLLECTOR.verifier.text}" in told
    assert "does not answer" in published(one, (honest.digest,), *by)  # and so it would go to the log
