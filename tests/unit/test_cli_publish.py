"""`interlock mesh publish` where a publish was cut short before the log acknowledged it."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.base.errors import EXIT_OK, EXIT_USAGE, InterlockError
from interlock.base.files import replace
from interlock.node.cli.main import main
from interlock.node.setup import LOG_POLICY, write_settings
from tests.unit.commons_world import pack, world


def test_an_operator_gives_up_a_publish_and_has_nothing_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(entry: bytes) -> bytes:
        raise InterlockError("the log is away")

    with world(tmp_path) as commons:
        monkeypatch.setattr(commons.publisher, "_append", away)
        with pytest.raises(InterlockError, match="away"):
            commons.publisher.publish(pack(), "stable")
        replace(tmp_path / "commons" / LOG_POLICY, commons.policy.text)
    home = tmp_path / "commons"
    replace(home / "log-token", b"a0" * 16)
    write_settings(home / "interlock.toml", "serve", {"dir": str(home), "log_url": "http://127.0.0.1:9"})
    command = ["mesh", "publish", "--config", str(home / "interlock.toml")]
    assert main([*command, "--resume"]) == EXIT_USAGE
    assert "does not answer" in capsys.readouterr().err
    assert main([*command, "--abandon"]) == EXIT_OK
    assert main([*command, "--resume"]) == EXIT_OK
    assert "nothing was cut short" in capsys.readouterr().out
