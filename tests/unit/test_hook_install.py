"""`interlock install-hook`: shows the change, asks, keeps what is there, and undoes itself byte for byte."""

from __future__ import annotations

import argparse
import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.base.errors import InterlockError
from interlock.base.files import NotWritable, replace
from interlock.node.cli.hook import hook_command, register
from tests.unit.hook_process import bash

Run = Callable[..., int]
ORIGINAL = b'{\n    "model" : "x",\n    "hooks": {"Stop": [ ]}\n}'


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.delenv("INTERLOCK_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(home: Path) -> Run:
    """The command as the console runs it; an error of ours is its exit code."""

    def go(*words: str) -> int:
        parser = argparse.ArgumentParser()
        register(parser.add_subparsers())
        args = parser.parse_args(["install-hook", "claude-code", *words])
        try:
            code = args.run(args)
        except InterlockError as e:
            return e.exit_code
        assert isinstance(code, int)
        return code

    return go


@pytest.fixture
def file(home: Path) -> Path:
    path = home / "settings.json"
    path.write_bytes(ORIGINAL)
    path.chmod(0o640)
    return path


def test_install_and_uninstall_restore_the_file_byte_for_byte(run: Run, file: Path) -> None:
    assert run("--settings", str(file), "--yes") == 0
    assert file.read_bytes() != ORIGINAL
    assert run("--settings", str(file), "--yes", "--uninstall") == 0
    assert file.read_bytes() == ORIGINAL
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_file_that_was_not_there_is_made_and_goes_again(run: Run, home: Path) -> None:
    assert run("--yes") == 0
    path = home / ".claude" / "settings.json"
    assert set(json.loads(path.read_bytes())["hooks"]) == {"PreToolUse", "PostToolUse"}
    assert run("--yes", "--uninstall") == 0
    assert not path.exists()


@pytest.mark.parametrize("scope", ["user", "project", "local"])
def test_each_scope_has_its_file(run: Run, home: Path, scope: str) -> None:
    assert run("--scope", scope, "--yes") == 0
    name = "settings.local.json" if scope == "local" else "settings.json"
    assert (home / ".claude" / name).exists()


def test_twice_is_once(run: Run, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("--settings", str(file), "--yes")
    once = file.read_bytes()
    capsys.readouterr()
    assert run("--settings", str(file), "--yes") == 0
    assert "nothing to do" in capsys.readouterr().out
    assert file.read_bytes() == once
    run("--settings", str(file), "--yes", "--uninstall")
    assert file.read_bytes() == ORIGINAL


def test_what_somebody_changed_since_is_kept_and_only_our_entries_go(run: Run, file: Path) -> None:
    run("--settings", str(file), "--yes")
    file.write_bytes(file.read_bytes().replace(b'"x"', b'"y"'))
    assert run("--settings", str(file), "--yes", "--uninstall") == 0
    assert file.read_bytes() == ORIGINAL.replace(b'"x"', b'"y"')


def test_a_second_install_after_an_edit_still_comes_out_clean(run: Run, file: Path, home: Path) -> None:
    run("--settings", str(file), "--yes")
    file.write_bytes(file.read_bytes().replace(b'"x"', b'"y"'))
    assert run("--settings", str(file), "--yes", "--config", str(home / "other.toml")) == 0
    assert b"other.toml" in file.read_bytes()
    run("--settings", str(file), "--yes", "--uninstall")
    assert file.read_bytes() == ORIGINAL.replace(b'"x"', b'"y"')


def test_uninstall_without_an_install_changes_nothing(run: Run, file: Path, home: Path) -> None:
    assert run("--settings", str(file), "--yes", "--uninstall") == 0
    assert file.read_bytes() == ORIGINAL
    assert run("--settings", str(home / "absent.json"), "--yes", "--uninstall") == 0
    assert not (home / "absent.json").exists()


def test_a_dry_run_shows_the_change_and_makes_none(run: Run, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--settings", str(file), "--dry-run") == 0
    out = capsys.readouterr().out
    assert f"--- {file}" in out
    assert any(line.startswith("+") and '"onFailure": "block"' in line for line in out.splitlines())
    assert file.read_bytes() == ORIGINAL


def test_without_a_terminal_it_needs_yes(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert run("--settings", str(file)) == 2
    assert file.read_bytes() == ORIGINAL


@pytest.mark.parametrize(("said", "code"), [("y", 0), ("yes", 0), ("n", 2), ("", 2)])
def test_at_a_terminal_it_asks(run: Run, file: Path, monkeypatch: pytest.MonkeyPatch, said: str, code: int) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(said + "\n"))
    assert run("--settings", str(file)) == code
    assert (file.read_bytes() == ORIGINAL) is (code == 2)


@pytest.mark.parametrize("data", [b"not json", b"[]", b'{"hooks": 3}', b"\xff\xfe", b'{"hooks": {"PreToolUse": 1}}'])
def test_a_file_that_cannot_be_edited_safely_is_left_alone(run: Run, file: Path, data: bytes) -> None:
    file.write_bytes(data)
    assert run("--settings", str(file), "--yes") == 2
    assert file.read_bytes() == data


def test_links_are_followed_and_a_loop_or_a_folder_is_refused(run: Run, file: Path, home: Path) -> None:
    link, loop, dangling = home / "link.json", home / "loop.json", home / "dangling.json"
    link.symlink_to(file)
    loop.symlink_to(loop)
    dangling.symlink_to(home / "nowhere")
    assert run("--settings", str(link), "--yes") == 0
    assert link.is_symlink()
    assert b"onFailure" in file.read_bytes()
    assert run("--settings", str(loop), "--yes") == 2
    assert run("--settings", str(dangling), "--yes") == 2
    assert run("--settings", str(home), "--yes") == 2


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_refused(run: Run, file: Path, home: Path) -> None:
    home.chmod(0o500)
    try:
        assert run("--settings", str(file), "--yes") == 2
    finally:
        home.chmod(0o700)
    assert file.read_bytes() == ORIGINAL


def test_a_damaged_backup_is_said_and_nothing_is_guessed(run: Run, file: Path, home: Path) -> None:
    run("--settings", str(file), "--yes")
    installed = file.read_bytes()
    (backup,) = (home / "state" / "interlock" / "hooks").iterdir()
    backup.write_text("{}", encoding="utf-8")
    assert run("--settings", str(file), "--yes", "--uninstall") == 2
    assert file.read_bytes() == installed


def test_the_state_that_is_kept_is_private(run: Run, file: Path, home: Path) -> None:
    run("--settings", str(file), "--yes")
    folder = home / "state" / "interlock" / "hooks"
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())


def test_the_command_names_everything_by_absolute_path_and_is_quoted(home: Path) -> None:
    words = shlex.split(hook_command(home / "a b.toml"))
    assert words[1] == "-I"
    assert all(Path(words[n]).is_absolute() for n in (0, 2, 6))
    assert words[3:6] == ["hook", "claude-code", "--config"]


def test_a_configuration_of_the_environment_is_written_into_the_command(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--config" not in hook_command()
    monkeypatch.setenv("INTERLOCK_CONFIG", "here.toml")
    assert shlex.split(hook_command())[-2:] == ["--config", str(home / "here.toml")]


def test_the_installed_command_runs_from_any_folder(run: Run, file: Path, home: Path) -> None:
    run("--settings", str(file), "--yes")
    command = json.loads(file.read_bytes())["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    done = subprocess.run(
        ["/bin/sh", "-c", command], input=bash("rm -rf /"), capture_output=True, timeout=30, cwd="/", check=False
    )
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_a_settings_file_that_cannot_be_written_leaves_no_backup(
    run: Run, file: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes, **more: int) -> None:
        if path == file:
            raise NotWritable("cannot be written (No space left on device)", where=str(path))
        replace(path, data, **more)

    monkeypatch.setattr("interlock.node.cli.hook.replace", full)
    assert run("--settings", str(file), "--yes") == 2
    assert file.read_bytes() == ORIGINAL
    assert not list((home / "state" / "interlock" / "hooks").iterdir())
    monkeypatch.undo()


def test_a_later_install_that_fails_keeps_the_backup_of_the_first(
    run: Run, file: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("--settings", str(file), "--yes") == 0
    installed = file.read_bytes()

    def full(path: Path, data: bytes, **more: int) -> None:
        if path == file:
            raise NotWritable("cannot be written (No space left on device)", where=str(path))
        replace(path, data, **more)

    with monkeypatch.context() as m:
        m.setattr("interlock.node.cli.hook.replace", full)
        assert run("--settings", str(file), "--yes", "--config", "other.toml") == 2
    assert file.read_bytes() == installed
    assert run("--settings", str(file), "--yes", "--uninstall") == 0
    assert file.read_bytes() == ORIGINAL


def test_a_file_that_changes_while_the_question_stands_is_left_alone(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(prompt: str) -> str:
        file.write_bytes(b'{"other": 1}')
        return "y"

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", answer)
    assert run("--settings", str(file)) == 2
    assert file.read_bytes() == b'{"other": 1}'
