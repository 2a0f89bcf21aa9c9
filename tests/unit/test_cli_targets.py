"""A removal from the command line: one holder's signature takes nothing out of force, two do, and the node says so."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from interlock.base.files import replace
from interlock.base.keys import dump_key
from interlock.commons import installed
from interlock.commons.publish import Publisher
from interlock.commons.signers import open_key
from interlock.commons.waiting import read_waiting
from interlock.node.cli import mesh_ceremony, mesh_keys, mesh_publish
from interlock.node.cli.main import main
from interlock.node.cli.mesh_status import rows
from interlock.node.config import MeshConfig
from tests.unit.commons_world import World, hand_over, pack, seed, world

LITTLE = 64 << 10  # bytes of memory to seal with, so that a test takes no seconds
PHRASE = b"a phrase of words"
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def commons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A pack is in stable, a node granted its rule, and three people hold the keys of targets, sealed in files."""
    with world(tmp_path) as made:
        made.publisher.publish(pack(), "stable")
        hand_over(made)
        plain = Publisher(made.home / "commons", made.log.append, made.policy, made.clock)
        for module in (mesh_publish, mesh_ceremony, mesh_keys):
            monkeypatch.setattr(module, "publisher_of", lambda config, clock: plain)
        monkeypatch.setattr(mesh_ceremony, "open_key", functools.partial(open_key, least_memory=LITTLE))
        replace(tmp_path / "phrase", PHRASE)
        for name in ("tara", "tom", "ada"):
            sealed = dump_key(seed(f"holder {name}"), passphrase=PHRASE, salt=b"s" * 16, nonce=b"n" * 24, memory=LITTLE)
            replace(tmp_path / f"{name}.key", sealed)
        node = made.member("node")
        node.subscribe("team", "stable")
        node.update()
        installed.grant(made.home / "node", "team", "stable", None, made.clock.now_us())
        yield made


@pytest.fixture
def run(commons: World, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*args: object) -> tuple[int, str]:
        code = main(["mesh", *(str(arg).replace("HOME", str(commons.home)) for arg in args)])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


def _signs(run: Run, *names: str) -> list[int]:
    words = ("ceremony", "sign", "HOME/asked.json", "--passphrase-file", "HOME/phrase")
    return [run(*words, "--key", f"HOME/{name}.key")[0] for name in names]


def _states(commons: World) -> dict[str, str]:
    now = commons.clock.now_us()
    return {s.rule: s.state for s in installed.standing(commons.home / "node", "team", "stable", now).standings}


def test_two_of_three_take_a_granted_rule_out_of_force_and_one_does_not(commons: World, run: Run) -> None:
    node = commons.member("node")
    code, said = run("revoke", "team", "--rule", "team.zap", "--why", "it blocks everybody", "--removal", "--dir",
                     "HOME/commons")  # fmt: skip
    assert code == EXIT_REFUSED
    assert "nobody begins to use it from now on" in said
    assert "2 of 3 keyholders" in said
    assert "interlock mesh ceremony request --targets" in said
    node.update()
    assert _states(commons) == {"team.zap": "granted"}

    code, said = run("ceremony", "request", "--targets", "--dir", "HOME/commons", "--out", "HOME/asked.json")
    assert code == EXIT_OK
    assert "OUT OF FORCE on every node, granted or not: team version 1 in stable" in said
    assert _signs(run, "tom", "ada") == [EXIT_OK, EXIT_REFUSED]  # ada holds keys of the root, and none of targets
    code, said = run("ceremony", "assemble", "HOME/asked.json")
    assert (code, "by tom; 2 have to sign" in said) == (EXIT_REFUSED, True)
    node.update()
    assert _states(commons) == {"team.zap": "granted"}

    assert _signs(run, "tara") == [EXIT_OK]
    assert run("ceremony", "assemble", "HOME/asked.json")[0] == EXIT_OK
    made = next(commons.home.glob("*.targets.json"))
    root = commons.public / "metadata" / "2.root.json"
    assert "signed by tara, tom" in run("ceremony", "verify", root, made)[1]
    (row,) = json.loads(run("ceremony", "verify", root, made, "--json")[1])["targets"]
    assert row["signed_by"] == ["tara", "tom"]
    for _ in range(2):
        code, said = run("ceremony", "install", made, "--dir", "HOME/commons")
        assert (code, "are in force" in said) == (EXIT_OK, True)
    assert [str(row) for row in node.update().withdrawn] == ["team version 1 in stable: team.zap (it blocks everybody)"]
    assert _states(commons) == {}
    told = [row.detail for row in rows(MeshConfig(commons.home / "node")) if row.check == "team@stable taken back"]
    assert told == ["team version 1 in stable: team.zap (it blocks everybody) is out of force"]
    assert not read_waiting(commons.home / "commons")


ASKED: list[tuple[str, int, str]] = [
    ("--targets", EXIT_USAGE, "--dir"),
    ("--targets --dir HOME/commons --remove ada", EXIT_USAGE, "goes with"),
    ("--targets --dir HOME/nowhere", EXIT_USAGE, "no root"),
    ("--dir HOME/commons --days 99999", EXIT_USAGE, "3650"),
    ("--dir HOME/commons --targets-threshold 1", EXIT_REFUSED, "lets one person change the targets"),
    ("--dir HOME/commons --targets-remove joe", EXIT_USAGE, "no keyholder"),
    ("--dir HOME/commons --targets-remove tom", EXIT_OK, "(tara, theo)"),
]


@pytest.mark.parametrize(("words", "code", "told"), ASKED)
def test_what_is_asked_for_is_what_can_be_signed(run: Run, words: str, code: int, told: str) -> None:
    said = run("ceremony", "request", *words.split(), "--out", "HOME/r")
    assert (said[0], told in said[1]) == (code, True)


def test_targets_are_verified_under_a_root(commons: World, run: Run) -> None:
    code, said = run("ceremony", "verify", commons.public / "metadata" / "2.targets.json")
    assert (code, "a root: is needed" in said) == (EXIT_USAGE, True)


def test_keys_that_people_hold_are_listed_with_them_and_not_rotated_here(run: Run) -> None:
    code, said = run("keys", "list", "--dir", "HOME/commons", "--json")
    assert code == EXIT_OK
    listed = [(row["role"], row["holder"]) for row in json.loads(said)["keys"] if row["role"] == "targets"]
    assert listed == [("targets", "tara"), ("targets", "theo"), ("targets", "tom")]
    code, said = run("keys", "rotate", "targets", "--dir", "HOME/commons", "--out", "HOME/r")
    assert (code, "has holders" in said) == (EXIT_USAGE, True)
