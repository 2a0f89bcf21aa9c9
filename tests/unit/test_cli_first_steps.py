"""What a newcomer meets on the command line who takes a step too early, or names the wrong place."""

from __future__ import annotations

import getpass
import warnings
from pathlib import Path

import pytest

from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE, InterlockError
from interlock.commons.gate import Bench
from interlock.node.cli import mesh_status, terminal
from interlock.node.cli.main import main
from interlock.node.cli.mesh_pins import shortened
from interlock.node.cli.mesh_shared import published_text
from interlock.node.wiring.roles import ROLES
from tests.unit.commons_world import REVIEWERS, pack, seed, world

Said = pytest.CaptureFixture[str]


@pytest.mark.parametrize("role", sorted(ROLES))
def test_a_folder_that_is_not_the_role_s_is_refused_by_name_and_left_alone(
    role: str, tmp_path: Path, capsys: Said
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    assert main(["mesh", "serve", "--role", role, "--dir", str(folder)]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert str(folder) in said
    fix = "name the leader's folder" if role == "dap-worker" else f"make it with interlock mesh setup --role {role}"
    assert fix in said
    assert not list(folder.iterdir())


@pytest.mark.parametrize(("party", "own"), [("publisher", "log.key"), ("member", "hpke.json"), ("leader", "hpke.json")])
def test_a_token_is_made_only_where_it_lets_somebody_in(party: str, own: str, tmp_path: Path, capsys: Said) -> None:
    command = ["mesh", "token", "--dir", str(tmp_path), "--party", party, "--name", "acme"]
    command += ["--all-tasks", "--out"] if party == "leader" else ["--out"]
    assert main([*command, str(tmp_path / "token")]) == EXIT_USAGE
    assert f"lets a {party} in" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    (tmp_path / own).touch()
    assert main([*command, str(tmp_path / "token")]) == EXIT_OK


def test_who_joins_without_a_name_is_told_that_one_is_needed(tmp_path: Path, capsys: Said) -> None:
    issuer = ["--issuer", "http://127.0.0.1:9", "--issuer-key", seed("issuer").verifier.text]
    assert main(["mesh", "members", "join", *issuer, "--home", str(tmp_path / "home")]) == EXIT_USAGE
    assert "--organisation NAME: is needed" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["publish", "--resume"], ["monitor"], ["serve", "--role", "log"]])
def test_a_folder_that_is_not_there_is_refused_and_not_made(words: list[str], tmp_path: Path, capsys: Said) -> None:
    assert main(["mesh", *words, "--dir", str(tmp_path / "nowhere")]) == EXIT_USAGE
    assert "make it with interlock mesh setup" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_option_that_a_command_does_not_have_leads_to_that_command_s_help(capsys: Said) -> None:
    assert main(["mesh", "ceremony", "assemble", "request.json", "--previous", "root.json"]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert "--previous" in said
    assert said.endswith("see interlock mesh ceremony assemble --help\n")


def _shows_what_is_typed(prompt: str) -> str:
    warnings.warn("can not control echo on the terminal", getpass.GetPassWarning, stacklevel=1)
    return "secret"


def _has_ended(prompt: str) -> str:
    raise EOFError


@pytest.mark.parametrize("asks", [_shows_what_is_typed, _has_ended])
def test_a_passphrase_is_never_asked_for_where_it_would_be_seen(
    asks: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    monkeypatch.setattr(getpass, "getpass", asks)
    with pytest.raises(terminal.NoTerminal, match="--passphrase-file"):
        terminal.asked_passphrase("passphrase: ")
    assert main(["mesh", "keys", "create", "--holder", "ada", "--out", str(tmp_path / "ada")]) == EXIT_REFUSED
    assert "--passphrase-file" in capsys.readouterr().err
    assert not list(tmp_path.glob("ada/*.key"))


def test_a_trial_says_that_its_file_is_missing_before_all_else(tmp_path: Path, capsys: Said) -> None:
    assert main(["mesh", "try", str(tmp_path / "team.yaml"), "--home", str(tmp_path)]) == EXIT_USAGE
    assert "team.yaml: is not there" in capsys.readouterr().err


def test_a_line_of_a_policy_is_shown_without_the_kilobytes_of_its_ml_dsa_key() -> None:
    ed25519, ml_dsa = "log.example+a1f0ed6e+" + "A" * 44, "log.example+c6838c03+" + "B" * 1750 + "=="
    assert shortened(f"log {ed25519} https://log.example") == f"log {ed25519} https://log.example"
    assert shortened(f"log {ml_dsa} https://log.example") == f"log {ml_dsa[:65]}... https://log.example"


def test_a_review_and_a_revocation_are_not_told_as_if_a_pack_was_published(tmp_path: Path) -> None:
    with world(tmp_path) as commons:
        publisher = commons.publisher
        publisher.publish(pack(), "beta", bench=Bench(without=True))
        publisher.set_reviewers(REVIEWERS)
        review = publisher.review("team", "beta", "approve", seed("reviewer"))
        assert published_text(review).startswith("review of team@beta version 1, record ")
        revoked = publisher.revoke("team", 1, why="it is wrong")
        assert published_text(revoked).startswith("taken back in each of its rings, the last of them team@beta ")


def test_a_status_says_once_why_the_last_update_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said
) -> None:
    with world(tmp_path) as commons:
        member = commons.member("member")
        member.subscribe("team", "stable")
        with pytest.raises(InterlockError, match="is not published"):
            member.update()
        monkeypatch.setattr(mesh_status, "SystemClock", lambda: commons.clock)
        assert main(["mesh", "status", "--home", str(commons.home / "member")]) == EXIT_REFUSED
    said = capsys.readouterr().out
    assert said.count("is not published") == 1
    assert "what was in force stays in force" in said
