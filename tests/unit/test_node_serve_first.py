"""`interlock mesh serve` as one command on another operator's commons: an empty folder at first, the same one later."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from interlock.base.clock import SystemClock
from interlock.base.errors import EXIT_USAGE
from interlock.base.files import file_lock
from interlock.node.cli.main import main
from tests.unit.commons_world import World, log_policy, pack, world


@dataclass
class Theirs:
    """What another operator hands out, and two mirrors of it that anybody runs."""

    folder: Path
    commons: World
    mirrors: tuple[str, str]

    @property
    def upstream(self) -> list[str]:
        log = self.commons.log.public
        return ["--upstream", f"file://{self.commons.public}", "--log-url", f"file://{log}"]

    @property
    def both(self) -> list[str]:
        return [w for name, url in zip("ab", self.mirrors, strict=True) for w in ("--mirror", f"{name}={url}")]

    @property
    def policy(self) -> list[str]:
        return ["--log-policy", str(self.folder / "log-policy.txt")]

    @property
    def pins(self) -> list[str]:
        return [*self.policy, "--root", str(self.folder / "root.json")]

    def words(self, role: str) -> list[str]:
        own = {"mirror": [*self.upstream, *self.pins], "monitor": [*self.both, *self.pins]}
        given = own.get(role) or ["--name", "w9.example", *self.policy]
        return ["mesh", "serve", "--role", role, "--dir", str(self.dir(role)), *given]

    def dir(self, role: str) -> Path:
        return self.folder / "mine" / role


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Theirs]:
    with world(tmp_path) as commons:
        commons.clock.advance((SystemClock().now_us() - commons.clock.now_us()) / 1_000_000)
        commons.publisher.publish(pack(), "canary")
        (tmp_path / "log-policy.txt").write_bytes(log_policy())
        (tmp_path / "root.json").write_bytes(commons.root)
        places = []
        for name in ("east", "west"):
            mirror = commons.mirror(name)
            mirror.copy()
            places.append(f"file://{mirror.public}")
        yield Theirs(tmp_path, commons, (places[0], places[1]))


@contextlib.contextmanager
def serving(words: list[str]) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A process that serves, and its address, until the block ends."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-m", "interlock", *words, "--stop-with-stdin"]
    process = subprocess.Popen(command, text=True, **pipes)  # type: ignore[call-overload]
    try:
        yield process.stderr.readline().partition(" at ")[2].strip(), process
    finally:
        process.communicate(timeout=20)


def seen(url: str, status: int) -> str:
    """The body of an answer, once it has this status; a role may be at its first pass yet."""
    for _ in range(200):
        with contextlib.suppress(httpx.TransportError):
            answer = httpx.get(url, trust_env=False, timeout=5)
            if answer.status_code == status:
                return answer.text
    raise AssertionError(f"{url} does not answer {status}")


SHOWS = {"mirror": ("/log/checkpoint", 200), "monitor": ("/alarms", 200), "witness": ("/nothing/checkpoint", 404)}


@pytest.mark.parametrize("role", SHOWS)
def test_a_role_is_one_command_from_an_empty_folder_and_the_same_one_the_second_time(theirs: Theirs, role: str) -> None:
    path, status = SHOWS[role]
    words, made = theirs.words(role), dict[str, bytes]()
    for _ in range(2):
        with serving(words) as (url, _):
            assert url.startswith("http://127.0.0.1:")
            seen(url + path, status)
        kept = {p.name: p.read_bytes() for p in theirs.dir(role).iterdir() if p.suffix in (".toml", ".key", ".txt")}
        assert made in ({}, kept)
        made = kept
    with serving(["mesh", "serve", "--role", role, "--dir", str(theirs.dir(role))]) as (url, _):
        seen(url + path, status)


def test_a_root_can_be_pinned_by_its_digest_and_is_fetched(theirs: Theirs) -> None:
    digest = ["--root-sha256", theirs.commons.sha256, *theirs.policy]
    for role, places in (("mirror", theirs.upstream), ("monitor", theirs.both)):
        words = ["mesh", "serve", "--role", role, "--dir", str(theirs.dir(role)), *places, *digest]
        for _ in range(2):
            with serving(words) as (url, _):
                seen(url + SHOWS[role][0], 200)


def test_a_digest_that_the_root_has_not_makes_nothing(theirs: Theirs, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["mesh", "serve", "--role", "monitor", "--dir", str(theirs.dir("monitor")), *theirs.both, *theirs.policy]
    assert main([*words, "--root-sha256", "ab" * 32]) != 0
    assert "is trusted" in capsys.readouterr().err
    assert not theirs.dir("monitor").exists()


@pytest.mark.parametrize(
    ("role", "other", "told"),
    [
        ("mirror", ["--upstream", "https://other.example"], "has another upstream already"),
        ("mirror", ["--log-url", "https://other.example"], "has another log_url already"),
        ("monitor", ["--mirror", "c=https://c.example"], "has another mirrors already"),
        ("witness", ["--name", "other.example"], "has another name already"),
        ("mirror", ["--log-policy", "{folder}/other.txt"], "is another log policy than was given"),
        ("monitor", ["--log-policy", "{folder}/other.txt"], "is another log policy than was given"),
        ("witness", ["--log-policy", "{folder}/other.txt"], "is another log policy than was given"),
        ("mirror", ["--root", "{folder}/other.json"], "follows another commons already"),
        ("monitor", ["--root", "{folder}/other.json"], "follows another commons already"),
    ],
)
def test_an_option_that_says_otherwise_is_refused_in_one_line_and_changes_nothing(
    theirs: Theirs, role: str, other: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = [word for word in theirs.words(role) if word not in ("mesh", "serve")]
    assert main(["mesh", "setup", *setup]) == 0
    (theirs.folder / "other.txt").write_bytes(log_policy().replace(b"quorum both", b"quorum w1"))
    (theirs.folder / "other.json").write_bytes(b"another root")
    before = {p: p.read_bytes() for p in theirs.dir(role).rglob("*") if p.is_file()}
    words = [word.format(folder=theirs.folder) for word in other]
    capsys.readouterr()
    assert main(["mesh", "serve", "--role", role, "--dir", str(theirs.dir(role)), *words]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
    assert {p: p.read_bytes() for p in theirs.dir(role).rglob("*") if p.is_file()} == before


@pytest.mark.parametrize(
    "words",
    [
        ["--role", "mirror", "--upstream", "https://commons.example"],
        ["--role", "monitor", "--mirror", "a=https://a.example", "--root", "x", "--log-policy", "{policy}"],
        ["--role", "commons", "--root", "x"],
        ["--role", "witness", "--name", "w.example", "--config", "x"],
    ],
)
def test_what_a_role_lacks_is_said_in_one_line_and_nothing_is_made(
    theirs: Theirs, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    named = [word.format(policy=theirs.folder / "log-policy.txt") for word in words]
    assert main(["mesh", "serve", "--dir", str(theirs.folder / "mine"), *named]) == EXIT_USAGE
    assert capsys.readouterr().err.count("\n") == 1
    assert not (theirs.folder / "mine").exists()


def test_a_start_that_is_refused_ends_in_its_line_though_its_starter_still_holds_standard_input(theirs: Theirs) -> None:
    words = [*theirs.words("witness"), "--log-url", "not a place"]
    command = [sys.executable, "-m", "interlock", *words, "--stop-with-stdin"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.wait(30) == EXIT_USAGE
        assert process.stderr is not None
        assert process.stderr.read().count("\n") == 1


def test_a_folder_that_somebody_else_is_making_is_left_alone(
    theirs: Theirs, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = theirs.dir("witness")
    folder.mkdir(parents=True)
    with file_lock(folder / "setup.lock"):
        assert main(theirs.words("witness")) == EXIT_USAGE
        assert "in use by another process" in capsys.readouterr().err
    assert [p.name for p in folder.iterdir()] == ["setup.lock"]


def test_a_mirror_finds_the_log_by_the_policy_or_below_its_upstream(theirs: Theirs) -> None:
    for name, url in (("named", "https://log.example"), ("below", "")):
        policy = theirs.folder / f"{name}.txt"
        first, rest = log_policy().decode().split("\n", 1)
        policy.write_text(f"{first} {url}".rstrip() + "\n" + rest)
        words = ["--upstream", theirs.mirrors[0], "--log-policy", str(policy), "--root", theirs.pins[-1]]
        assert main(["mesh", "setup", "--role", "mirror", "--dir", str(theirs.folder / name), *words]) == 0
        said = (theirs.folder / name / "interlock.toml").read_text()
        assert f'log_url = "{url or theirs.mirrors[0] + "/log"}"' in said
