"""A pack's way through the rings from the command line, and what a .ilpack of it shows offline."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from interlock.base.files import replace
from interlock.base.keys import dump_key
from interlock.commons.indicators import build_catalog
from interlock.commons.publish import Publisher
from interlock.node.cli import mesh_publish
from interlock.node.cli.main import main
from interlock.node.cli.mesh_status import rows
from interlock.node.config import MeshConfig
from tests.unit.commons_world import World, log_policy, pack, seed, world

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def commons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A commons whose log answers in this process; team version 1 lies in a file."""
    with world(tmp_path) as made:
        home = made.home / "commons"
        plain = Publisher(home, made.log.append, made.policy, made.clock)
        monkeypatch.setattr(mesh_publish, "publisher_of", lambda config, clock: plain)
        replace(tmp_path / "team.json", pack().data)
        replace(tmp_path / "log-policy.txt", log_policy())
        replace(tmp_path / "root.json", made.root)
        for name in ("reviewer", "author", "stranger"):
            replace(tmp_path / f"{name}.key", dump_key(seed(name)))
        yield made


@pytest.fixture
def run(commons: World, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*args: str) -> tuple[int, str]:
        place = ["--dir", str(commons.home / "commons")] if args[0] not in ("verify", "pack") else []
        code = main(["mesh", *(a.replace("HOME", str(commons.home)) for a in args), *place])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def _to_stable(run: Run) -> None:
    for args in (
        ("publish", "HOME/team.json", "--ring", "beta", "--no-corpus"),
        ("reviewers", "--add", "rita=HOME/reviewer.key"),
        ("review", "team@beta", "--key", "HOME/reviewer.key", "--approve"),
        ("promote", "team@1", "--from", "beta", "--to", "stable", "--no-corpus"),
    ):
        assert run(*args)[0] == EXIT_OK


def test_a_pack_comes_to_stable_by_gate_review_and_promotion(commons: World, run: Run) -> None:
    code, said = run("publish", "HOME/team.json", "--ring", "stable", "--no-corpus")
    assert (code, "by promotion only" in said) == (EXIT_REFUSED, True)
    code, said = run("publish", "HOME/team.json", "--ring", "beta")
    assert (code, "--no-corpus" in said) == (EXIT_REFUSED, True)
    _to_stable(run)
    node = commons.member("node")
    node.subscribe("team", "stable")
    assert node.update().rows[0].version == 1


def test_without_a_review_nothing_is_promoted(run: Run) -> None:
    run("publish", "HOME/team.json", "--ring", "beta", "--no-corpus")
    code, said = run("promote", "team@1", "--no-corpus")
    assert (code, "list reviewers" in said) == (EXIT_USAGE, True)
    code, said = run("reviewers", "--add", "rita=HOME/reviewer.key", "--add", "ann=HOME/author.key")
    assert "stable needs 1 of them" in said
    code, said = run("promote", "team@1", "--no-corpus")
    assert (code, "approved by 0 reviewers" in said) == (EXIT_REFUSED, True)
    code, said = run("review", "team@beta", "--key", "HOME/author.key", "--approve")
    assert (code, "author's own" in said) == (EXIT_USAGE, True)
    code, said = run("review", "team@beta", "--key", "HOME/stranger.key", "--approve")
    assert (code, "no reviewer's key" in said) == (EXIT_USAGE, True)
    run("review", "team@beta", "--key", "HOME/reviewer.key", "--reject", "--note", "too wide")
    code, said = run("promote", "team@1", "--no-corpus")
    assert (code, "rejected by rita" in said) == (EXIT_REFUSED, True)


def test_an_ilpack_verifies_offline_and_says_what_cannot_be_known(commons: World, run: Run) -> None:
    _to_stable(run)
    assert run("export", "team@stable", "--out", "HOME/team.ilpack")[0] == EXIT_OK
    pins = ("--root", "HOME/root.json", "--log-policy", "HOME/log-policy.txt")
    code, said = run("verify", "HOME/team.ilpack", *pins)
    assert code == EXIT_OK
    for words in ("team version 1", "promoted: from beta, approved by rita", "seen by w1, w2", "not known offline"):
        assert words in said
    code, said = run("verify", "HOME/team.ilpack", *pins, "--json")
    assert json.loads(said)["promoted"] == {"from": "beta", "reviewers": ["rita"]}
    commons.member("node")
    assert run("verify", "HOME/team.ilpack", "--home", str(commons.home / "node"))[0] == EXIT_OK
    file = commons.home / "team.ilpack"
    file.write_bytes(file.read_bytes().replace(b"zap", b"zip"))
    code, said = run("verify", "HOME/team.ilpack", *pins)
    assert (code, said.count("\n")) == (EXIT_REFUSED, 1)


def test_what_was_revoked_is_not_promoted_and_the_author_alone_cannot_remove(commons: World, run: Run) -> None:
    _to_stable(run)
    code, said = run("revoke", "team@1", "--why", "wrong", "--key", "HOME/stranger.key")
    assert (code, "not the author's key" in said) == (EXIT_USAGE, True)
    code, said = run("revoke", "team@1", "--why", "wrong", "--rule", "team.none")
    assert (code, "no such rule" in said) == (EXIT_USAGE, True)
    assert run("revoke", "team@1", "--why", "wrong", "--key", "HOME/author.key")[0] == EXIT_OK
    code, said = run("promote", "team@1", "--no-corpus")
    assert code != EXIT_OK
    code, said = run("revoke", "team@7", "--why", "wrong")
    assert (code, "no version 7" in said) == (EXIT_USAGE, True)


def test_a_catalog_and_a_packed_source_are_one_command_each(commons: World, run: Run) -> None:
    opens = commons.clock.now_us() + 60_000_000
    replace(commons.home / "catalog.json", build_catalog("task-1", opens_at=opens, rules=["a.b"]).data)
    code, said = run("publish", "--catalog", "HOME/catalog.json")
    assert (code, "task-1@tasks" in said) == (EXIT_OK, True)
    code, said = run(
        "pack", "builtin:coding-agent", "--version", "1", "--author", "Ada", "--sign-off", "Ada <a@a.example>",
        "--out", "HOME/made.json",
    )  # fmt: skip
    assert (code, "coding-agent version 1" in said) == (EXIT_OK, True)
    assert run("publish", "HOME/made.json", "--ring", "canary")[0] == EXIT_OK


def test_a_deprecated_pack_says_so_in_a_node_s_checks(commons: World, run: Run) -> None:
    run("pack", "HOME/team.json", "--status", "deprecated", "--version", "2", "--out", "HOME/old.json")
    assert run("publish", "HOME/old.json", "--ring", "canary")[0] == EXIT_OK
    node = commons.member("node")
    node.subscribe("team", "canary")
    node.update()
    told = [(row.status, row.detail) for row in rows(MeshConfig(commons.home / "node")) if "status" in row.check]
    assert told == [("warn", "version 2 is deprecated: its authors look after it no more")]
