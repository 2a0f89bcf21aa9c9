"""`interlock mesh setup` and `mesh token`: private folders, nothing left of a failed try, nothing made anew."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from interlock.base.files import BadState
from interlock.base.settings import read_settings
from interlock.node.cli import mesh_setup
from interlock.node.cli.main import main
from interlock.node.setup import hold_ceremony, write_settings
from interlock.node.tokens import read_tokens
from tests.unit.commons_world import ORIGIN, log_policy

CEREMONY = hold_ceremony


@pytest.fixture(autouse=True)
def _quick_and_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keys sealed with little memory, and the most careless umask: modes must not come from it."""
    monkeypatch.setattr(mesh_setup, "hold_ceremony", lambda *a, **k: CEREMONY(*a, **k, memory=1 << 20))
    before = os.umask(0)
    yield
    os.umask(before)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def passphrase(tmp_path: Path, name: str, text: str = "a phrase\n", mode: int = 0o600) -> str:
    path = tmp_path / f"{name}.phrase"
    path.write_text(text)
    path.chmod(mode)
    return f"{name}={path}"


def holders(tmp_path: Path, *names: str) -> list[str]:
    return [word for name in names for word in ("--holder", passphrase(tmp_path, name))]


def commons(tmp_path: Path, folder: str = "commons", *more: str) -> list[str]:
    return ["--role", "commons", "--dir", str(tmp_path / folder), "--log-url", "http://127.0.0.1:1", *more]


def setup(*words: str) -> int:
    return main(["mesh", "setup", *words])


def test_whatever_a_role_keeps_is_private_whatever_the_umask(tmp_path: Path) -> None:
    (tmp_path / "log-policy.txt").write_bytes(log_policy())
    made = tmp_path / "new" / "deep"
    assert setup(*commons(tmp_path, "new/deep/commons", *holders(tmp_path, "ada", "ben", "cleo"))) == EXIT_OK
    assert setup("--role", "log", "--dir", str(made / "log"), "--name", ORIGIN) == EXIT_OK
    assert setup("--role", "witness", "--dir", str(made / "w"), "--name", "w.example") == EXIT_OK
    root = made / "commons" / "public" / "metadata" / "1.root.json"
    words = ["--upstream", "http://127.0.0.1:1", "--log-url", "http://127.0.0.1:2", "--root", str(root)]
    policy = ["--log-policy", str(tmp_path / "log-policy.txt")]
    assert setup("--role", "mirror", "--dir", str(made / "mirror"), *words, *policy) == EXIT_OK
    for role in ("dap-leader", "dap-helper"):
        assert setup("--role", role, "--dir", str(made / role)) == EXIT_OK
    public = {p for p in made.rglob("*") if "public" in p.relative_to(made).parts}
    for path in (tmp_path / "new", *made.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        wanted = 0o700 if path.is_dir() else 0o644 if path in public else 0o600
        assert mode == wanted, (path, oct(mode))
        if path.name == "interlock.toml":
            assert path.read_text().startswith('format = "interlock-config"\nv = 1\n'), path


_SOME_PINS = ("--log-policy", "{none}", "--root", "{none}")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--role", "log"], "--name ORIGIN: is needed"),
        (["--role", "log", "--name", "two words"], "--name two words: is no name"),
        (["--role", "witness", "--name", "a+b"], "--name a+b: is no name"),
        (["--role", "witness"], "--name NAME: is needed"),
        (["--role", "mirror"], "--upstream URL: is needed"),
        (["--role", "commons"], "--log-url URL: is needed"),
        (["--role", "commons", "--log-url", "http://x"], "--threshold: cannot be 2 of 0"),
        (["--role", "commons", "--log-url", "localhost:8101"], "--log-url: is no address"),
        (["--role", "mirror", "--upstream", "h", "--log-url", "http://h", *_SOME_PINS], "--upstream: is no address"),
        (["--role", "monitor", "--mirror", "a=b", *_SOME_PINS], "--mirror: a: is no address"),
        (["--role", "monitor", "--mirror", "a=http://h", "--mirror", "b=http://h/", *_SOME_PINS], "b: stands twice"),
        (["--role", "log", "--name", "a.example", "--log-policy", "{bad}"], "bad.txt: log policy, line 1"),
        (["--role", "log", "--name", "a.example", "--log-policy", "{none}"], "cannot be read"),
        (["--role", "log", "--name", "a.example", "--log-policy", "{empty}"], "names no log"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    (tmp_path / "bad.txt").write_text("no policy\n")
    (tmp_path / "empty.txt").write_text("quorum none\n")
    files = {name: str(tmp_path / f"{name}.txt") for name in ("bad", "none", "empty")}
    assert setup("--dir", str(tmp_path / "new" / "deep"), *(w.format(**files) for w in words)) == EXIT_USAGE
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("names", "more", "says"),
    [
        (("ada", "ben"), ["--threshold", "3"], "cannot be 3 of 2"),
        (("ada", "ben"), ["--threshold", "1"], "cannot be 1 of 2"),
        (("ada", "ada"), [], "--holder ada: is named twice"),
        (("ada",), ["--holder", "ben"], "is not of the form NAME[@EMPLOYER]=FILE"),
        (("ada",), ["--holder", "ben={none}"], "cannot be read"),
        (("ada",), ["--holder", "ben={empty}"], "holds no passphrase"),
        (("ada",), ["--holder", "ben={open}"], "can be read by others"),
        (("ada",), ["--holder", "../ben={good}"], "is no name for a file"),
    ],
)
def test_a_ceremony_that_cannot_be_held_makes_no_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: tuple[str, ...], more: list[str], says: str
) -> None:
    files = {
        "none": str(tmp_path / "none"),
        "good": passphrase(tmp_path, "good").partition("=")[2],
        "empty": passphrase(tmp_path, "empty", "\n").partition("=")[2],
        "open": passphrase(tmp_path, "open", mode=0o644).partition("=")[2],
    }
    held = holders(tmp_path, *names)
    assert setup(*commons(tmp_path, "commons", *held, *(w.format(**files) for w in more))) == EXIT_USAGE
    assert says in capsys.readouterr().err
    assert not (tmp_path / "commons").exists()


def test_a_file_that_is_no_root_is_not_pinned(tmp_path: Path) -> None:
    (tmp_path / "log-policy.txt").write_bytes(log_policy())
    (tmp_path / "root.json").write_text("{}")
    words = ["--upstream", "http://x", "--log-url", "http://x", "--log-policy", str(tmp_path / "log-policy.txt")]
    folder = tmp_path / "mirror"
    assert (
        setup("--role", "mirror", "--dir", str(folder), *words, "--root", str(tmp_path / "root.json")) == EXIT_REFUSED
    )
    assert not folder.exists()


def test_setup_again_keeps_every_key_and_brings_the_policy(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    words = ["--role", "log", "--dir", str(folder), "--name", ORIGIN]
    assert setup(*words) == EXIT_OK
    before = tree(folder)
    (tmp_path / "policy").write_bytes(log_policy())
    assert setup(*words, "--log-policy", str(tmp_path / "policy")) == EXIT_OK
    after = tree(folder)
    assert after.pop("log-policy.txt") == log_policy()
    assert after == before


def test_a_folder_belongs_to_one_role_under_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "log"
    assert setup("--role", "log", "--dir", str(folder), "--name", ORIGIN) == EXIT_OK
    before = tree(folder)
    assert setup("--role", "log", "--dir", str(folder), "--name", "other.example/log") == EXIT_USAGE
    assert "has another name already" in capsys.readouterr().err
    assert setup("--role", "witness", "--dir", str(folder), "--name", "w.example") == EXIT_USAGE
    assert "is the folder of a log" in capsys.readouterr().err
    assert tree(folder) == before


def test_a_second_ceremony_over_a_commons_changes_nothing(tmp_path: Path) -> None:
    words = commons(tmp_path, "commons", *holders(tmp_path, "ada", "ben"))
    assert setup(*words) == EXIT_OK
    before = tree(tmp_path / "commons")
    (tmp_path / "policy").write_bytes(log_policy())
    assert setup(*words, "--log-policy", str(tmp_path / "policy")) == EXIT_USAGE
    assert tree(tmp_path / "commons") == before


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert setup("--role", "log", "--dir", str(tmp_path / "file" / "log"), "--name", ORIGIN) == EXIT_USAGE
    assert "cannot be made a private directory" in capsys.readouterr().err


def test_a_failed_setup_leaves_what_was_there_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise BadState("is out of order")

    folder = tmp_path / "helper"
    folder.mkdir()
    (folder / "notes").write_text("mine")
    monkeypatch.setattr(mesh_setup, "make_aggregator", fails)
    assert setup("--role", "dap-helper", "--dir", str(folder)) == EXIT_USAGE
    assert tree(folder) == {"notes": b"mine"}


def test_a_token_lets_its_bearer_in_and_only_its_hash_stays(tmp_path: Path) -> None:
    folder, out = tmp_path / "leader", tmp_path / "acme.token"
    assert setup("--role", "dap-leader", "--dir", str(folder)) == EXIT_OK
    words = ["mesh", "token", "--dir", str(folder), "--party", "member", "--name", "acme"]
    assert main([*words, "--out", str(out)]) == EXIT_OK
    token = out.read_text()
    assert read_tokens(folder / "members.json").name_of(f"Bearer {token}") == "acme"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert all(token.encode() not in data for data in tree(folder).values())


def test_a_token_is_never_printed_nor_given_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = tmp_path / "leader", tmp_path / "acme.token"
    setup("--role", "dap-leader", "--dir", str(folder))
    words = ["mesh", "token", "--dir", str(folder), "--party", "member"]
    main([*words, "--name", "acme", "--out", str(out)])
    token, before = out.read_text(), tree(folder)
    assert main([*words, "--name", "acme", "--out", str(tmp_path / "again")]) == EXIT_USAGE
    assert main([*words, "--name", "globex", "--out", str(out)]) == EXIT_USAGE
    assert (out.read_text(), tree(folder)) == (token, before)
    assert not (tmp_path / "again").exists()
    said = capsys.readouterr()
    assert token not in said.out + said.err


def test_a_token_for_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    words = ["--party", "leader", "--name", "x", "--out", str(tmp_path / "t")]
    assert main(["mesh", "token", "--dir", str(tmp_path / "none"), "--all-tasks", *words]) == EXIT_USAGE
    assert list(tmp_path.iterdir()) == []


def test_a_role_that_lets_nobody_in_says_how_to(tmp_path: Path) -> None:
    with pytest.raises(BadState, match="interlock mesh token") as caught:
        read_tokens(tmp_path / "leaders.json")
    assert caught.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize("drive", [False, True])
def test_settings_are_read_as_they_were_written(tmp_path: Path, drive: bool) -> None:
    values: dict[str, str | float | list[str]] = {
        "dir": 'a "b" \\ c\n',
        "keep_days": 3,
        "poll_seconds": 0.3,
        "drive": drive,
        "mirrors": ["a", "b=c"],
    }
    write_settings(tmp_path / "interlock.toml", "serve", values)
    assert read_settings(tmp_path / "interlock.toml").section("serve") == values
