"""`interlock mesh ceremony` and `mesh keys`, as keyholders with sticks use them."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path

import pytest

from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from interlock.base.keys import ARGON2_MEMORY
from interlock.commons.ceremony import new_keys
from interlock.commons.pack import sha256_hex
from interlock.commons.rootplan import plan_of
from interlock.commons.signers import open_key
from interlock.node.cli import mesh_ceremony, mesh_keys
from interlock.node.cli.main import main

LITTLE = 64 << 10  # bytes of memory to seal with, so that a test takes no seconds


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ARGON2_MEMORY > LITTLE
    monkeypatch.setattr(mesh_keys, "new_keys", functools.partial(new_keys, memory=LITTLE))
    monkeypatch.setattr(mesh_ceremony, "open_key", functools.partial(open_key, least_memory=LITTLE))


class Circle:
    """Keyholders with their folders, a commons that is to be, and a stick."""

    def __init__(self, folder: Path, *names: str, hybrid: bool = False) -> None:
        self.folder, self.stick, self.commons = folder, folder / "stick", folder / "commons"
        self.hybrid = hybrid
        self.stick.mkdir()
        self.phrase = folder / "phrase"
        self.phrase.write_text("a phrase of words\n")
        self.phrase.chmod(0o600)
        for name in names:
            assert self.joins(name) == EXIT_OK
        assert run("keys", "create", "--dir", self.commons) == EXIT_OK

    def joins(self, name: str, employer: str = "") -> int:
        words = ["--hybrid"] if self.hybrid else []
        given = ["--employer", employer or f"{name} Ltd", "--passphrase-file", self.phrase, *words]
        return run("keys", "create", "--holder", name, "--out", self.folder / name, *given)

    def card(self, name: str) -> Path:
        return self.folder / name / f"{name}.holder.json"

    def keys(self, name: str) -> list[object]:
        found = sorted((self.folder / name).glob("*.key"))
        return [word for key in found for word in ("--key", key)]

    def asks(self, *names: str, out: str = "request.json", more: tuple[object, ...] = ()) -> int:
        cards = [word for name in names for word in ("--holder", self.card(name))]
        return run("ceremony", "request", "--dir", self.commons, *cards, "--out", self.stick / out, *more)

    def signs(self, name: str, *more: object, request: str = "request.json") -> int:
        words = ["--passphrase-file", self.phrase, *self.keys(name), *more]
        return run("ceremony", "sign", self.stick / request, *words)

    def assembles(self, *more: object, request: str = "request.json") -> int:
        return run("ceremony", "assemble", self.stick / request, *more)

    def root(self, version: int = 1) -> Path:
        return self.stick / f"{version}.root.json"

    def begins(self) -> int:
        """The commons is made under the first root."""
        words = ("--dir", self.commons, "--root", self.root(), "--log-url", "http://127.0.0.1:1")
        return run("setup", "--role", "commons", *words)


def run(*words: object) -> int:
    return main(["mesh", *map(str, words)])


@pytest.fixture
def circle(tmp_path: Path) -> Circle:
    return Circle(tmp_path, "ada", "ben", "cleo")


def digest(circle: Circle, request: str = "request.json") -> str:
    said: str = json.loads((circle.stick / request).read_text())["digest"]
    return said


# a first root


def test_keyholders_sign_apart_and_in_any_order(circle: Circle, capsys: pytest.CaptureFixture[str]) -> None:
    assert circle.asks("ada", "ben", "cleo") == EXIT_OK
    asked = capsys.readouterr().out
    assert circle.signs("cleo") == EXIT_OK
    signed = capsys.readouterr().out
    for words in ("ada, of ada Ltd", "2 of 3 keyholders", "The digest of what is signed, for reading aloud"):
        assert words in asked
        assert words in signed
    assert circle.signs("ada") == EXIT_OK
    assert circle.assembles() == EXIT_OK
    assert "signed by ada, cleo" in capsys.readouterr().out
    assert run("ceremony", "verify", circle.root(), "--json") == EXIT_OK
    (row,) = json.loads(capsys.readouterr().out)["roots"]
    assert (row["version"], row["signed_by"], row["transcript"]) == (1, ["ada", "cleo"], "its transcript is right")
    assert row["sha256"] == sha256_hex(circle.root().read_bytes())


def test_five_hybrid_keyholders_need_four_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    circle = Circle(tmp_path, "ada", "ben", "cleo", "dora", "emil", hybrid=True)
    circle.asks("ada", "ben", "cleo", "dora", "emil")
    assert "8 of 10 keys, so 4 of 5 keyholders" in capsys.readouterr().out
    for name in ("emil", "ada", "dora"):
        assert circle.signs(name) == EXIT_OK
    assert circle.assembles() == EXIT_REFUSED
    assert "6 of its own keys, by ada, dora, emil; 8 have to sign" in capsys.readouterr().err
    assert circle.signs("ben") == EXIT_OK
    assert circle.assembles() == EXIT_OK
    assert run("ceremony", "verify", circle.root()) == EXIT_OK


def test_signatures_come_from_sticks_of_their_own(circle: Circle, tmp_path: Path) -> None:
    circle.asks("ada", "ben", "cleo")
    files: list[Path] = []
    for name in ("ben", "cleo"):
        assert circle.signs(name, "--out", tmp_path / f"stick of {name}") == EXIT_OK
        files += (tmp_path / f"stick of {name}").iterdir()
    assert circle.assembles("--out", tmp_path / "done") == EXIT_USAGE  # none beside the request
    assert circle.assembles(*files, "--out", tmp_path / "done") == EXIT_OK
    assert (tmp_path / "done" / "1.root.json").exists()


def test_a_keyholder_is_asked_for_her_passphrase(circle: Circle, monkeypatch: pytest.MonkeyPatch) -> None:
    circle.asks("ada", "ben", "cleo")
    answers = iter(["wrong", "", "a phrase of words"])
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(answers))
    words = ("ceremony", "sign", circle.stick / "request.json", *circle.keys("ada"))
    assert [run(*words), run(*words), run(*words)] == [EXIT_USAGE, EXIT_REFUSED, EXIT_OK]


def test_what_was_heard_has_to_be_the_digest(circle: Circle, capsys: pytest.CaptureFixture[str]) -> None:
    circle.asks("ada", "ben", "cleo")
    heard = digest(circle)
    groups = " ".join(heard[i : i + 4] for i in range(0, 16, 4))
    other = "0" * 15 + ("1" if heard[15] == "0" else "0")
    assert circle.signs("ada", "--digest", other) == EXIT_REFUSED
    assert circle.signs("ada", "--digest", heard[:8]) == EXIT_REFUSED
    assert "is not this request's digest" in capsys.readouterr().err
    assert circle.signs("ada", "--digest", groups.upper()) == EXIT_OK


def test_a_key_signs_once_and_a_stranger_not_at_all(circle: Circle, capsys: pytest.CaptureFixture[str]) -> None:
    circle.joins("mallory")
    circle.asks("ada", "ben", "cleo")
    assert [circle.signs("ada"), circle.signs("ada"), circle.signs("mallory")] == [EXIT_OK, EXIT_REFUSED, EXIT_REFUSED]
    told = capsys.readouterr().err.splitlines()
    assert "this key has signed" in told[0]
    assert "no key of this root" in told[1]


def test_a_copied_signature_is_a_second_one(circle: Circle, capsys: pytest.CaptureFixture[str]) -> None:
    circle.asks("ada", "ben", "cleo")
    circle.signs("ada")
    (file,) = circle.stick.glob("*.signature.json")
    shutil.copy(file, circle.stick / file.name.replace("ada", "ben"))
    assert circle.assembles() == EXIT_REFUSED
    assert "this key's second signature" in capsys.readouterr().err


@pytest.mark.parametrize("size", [0, 1, 100, -2])
def test_a_half_written_file_on_the_stick_is_said_to_be_one_and_written_anew(
    circle: Circle, capsys: pytest.CaptureFixture[str], size: int
) -> None:
    circle.asks("ada", "ben", "cleo")
    circle.signs("ada")
    circle.signs("ben")
    file = next(circle.stick.glob("*.ada.*"))
    file.write_bytes(file.read_bytes()[:size])
    assert circle.assembles() == EXIT_REFUSED
    assert "half-written" in capsys.readouterr().err
    assert not circle.root().exists()
    assert circle.signs("ada") == EXIT_OK
    assert circle.assembles() == EXIT_OK


def test_who_is_stopped_between_transcript_and_root_begins_again(
    circle: Circle, monkeypatch: pytest.MonkeyPatch
) -> None:
    circle.asks("ada", "ben", "cleo")
    circle.signs("ada")
    circle.signs("ben")
    write = mesh_ceremony.write_for_others

    def killed(path: Path, data: bytes) -> None:
        if path.name == "1.root.json":
            raise KeyboardInterrupt
        write(path, data)

    monkeypatch.setattr(mesh_ceremony, "write_for_others", killed)
    assert circle.assembles() == EXIT_REFUSED
    assert not circle.root().exists()
    monkeypatch.setattr(mesh_ceremony, "write_for_others", write)
    assert circle.assembles() == EXIT_OK
    assert run("ceremony", "verify", circle.root()) == EXIT_OK


def test_a_root_that_is_out_is_not_assembled_again_with_other_signatures(circle: Circle) -> None:
    circle.asks("ada", "ben", "cleo")
    circle.signs("ada")
    circle.signs("ben")
    assert circle.assembles() == EXIT_OK
    assert circle.assembles() == EXIT_OK
    before = circle.root().read_bytes()
    circle.signs("cleo")
    assert circle.assembles() == EXIT_USAGE
    assert circle.root().read_bytes() == before


def test_a_request_is_never_written_over(circle: Circle) -> None:
    assert [circle.asks("ada", "ben", "cleo"), circle.asks("ada", "ben")] == [EXIT_OK, EXIT_USAGE]


def test_a_request_that_was_changed_on_the_way_is_not_signed(
    circle: Circle, capsys: pytest.CaptureFixture[str]
) -> None:
    circle.asks("ada", "ben", "cleo")
    path = circle.stick / "request.json"
    body = json.loads(path.read_text())
    body["text"][0] = "Root 1: nothing to see."
    path.write_text(json.dumps(body))
    assert circle.signs("ada") == EXIT_REFUSED
    assert "other words or another digest" in capsys.readouterr().err
    assert not list(circle.stick.glob("*.signature.json"))


# the next root


@pytest.fixture
def rooted(circle: Circle) -> Circle:
    circle.asks("ada", "ben", "cleo")
    circle.signs("ada")
    circle.signs("ben")
    circle.assembles()
    assert circle.begins() == EXIT_OK
    return circle


def test_one_holder_is_replaced_with_the_old_circle_s_word(rooted: Circle, capsys: pytest.CaptureFixture[str]) -> None:
    rooted.joins("dora")
    more = ("--previous", rooted.root(), "--remove", "cleo")
    assert rooted.asks("dora", out="2.json", more=more) == EXIT_OK
    said = capsys.readouterr().out
    assert "leaves: cleo" in said
    assert "joins: dora" in said
    for name in ("dora", "ada"):
        assert rooted.signs(name, "--previous", rooted.root(), request="2.json") == EXIT_OK
    assert rooted.assembles(request="2.json") == EXIT_REFUSED
    assert "of root 1's keys" in capsys.readouterr().err
    assert rooted.signs("cleo", request="2.json") == EXIT_OK
    assert rooted.assembles(request="2.json") == EXIT_OK
    capsys.readouterr()
    assert run("ceremony", "verify", rooted.root(2), rooted.root(1), "--json") == EXIT_OK
    rows = json.loads(capsys.readouterr().out)["roots"]
    assert [row["signed_by"] for row in rows] == [["ada", "ben"], ["ada", "cleo", "dora"]]
    assert rows[1]["follows"] == "follows root 1"


def test_who_trusts_another_root_does_not_sign(rooted: Circle, tmp_path: Path) -> None:
    rooted.asks(out="2.json", more=("--previous", rooted.root(), "--days", 30))
    (tmp_path / "other.json").write_bytes(b"{}")
    assert rooted.signs("ada", "--previous", tmp_path / "other.json", request="2.json") == EXIT_REFUSED


def test_a_root_whose_predecessor_is_not_given_is_checked_by_itself(
    rooted: Circle, capsys: pytest.CaptureFixture[str]
) -> None:
    rooted.asks(out="2.json", more=("--previous", rooted.root()))
    rooted.signs("ada", request="2.json")
    rooted.signs("cleo", request="2.json")
    rooted.assembles(request="2.json")
    capsys.readouterr()
    assert run("ceremony", "verify", rooted.root(2), "--json") == EXIT_OK
    (row,) = json.loads(capsys.readouterr().out)["roots"]
    assert row["follows"] == "follows a root that was not given"


def test_a_gap_in_a_chain_is_refused(rooted: Circle, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for version in (2, 3):
        request = f"{version}.json"
        rooted.asks(out=request, more=("--previous", rooted.root(version - 1), "--days", 10 * version))
        rooted.signs("ada", request=request)
        rooted.signs("ben", request=request)
        assert rooted.assembles(request=request) == EXIT_OK
    assert run("ceremony", "verify", *(rooted.root(n) for n in (1, 2, 3))) == EXIT_OK
    assert run("ceremony", "verify", rooted.root(1), rooted.root(3)) == EXIT_REFUSED
    assert "does not follow" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (("--remove", "nobody"), EXIT_USAGE),
        (("--threshold", 1), EXIT_REFUSED),
        (("--threshold", 4), EXIT_REFUSED),
        (("--days", 0), EXIT_REFUSED),
        (("--online", "root=ed25519:00"), EXIT_USAGE),
        (("--online", "targets=ed25519:00"), EXIT_USAGE),
    ],
)
def test_a_change_that_cannot_be_is_refused_before_anything_is_written(
    rooted: Circle, more: tuple[object, ...], code: int
) -> None:
    assert rooted.asks(out="2.json", more=("--previous", rooted.root(), *more)) == code
    assert not (rooted.stick / "2.json").exists()


# keys


def test_a_keyholder_s_keys_are_sealed_private_and_never_made_over(circle: Circle) -> None:
    key = circle.folder / "ada" / "ada.ed25519.key"
    before = key.read_bytes()
    assert "sealed" in json.loads(before)
    assert key.stat().st_mode & 0o077 == 0
    assert circle.joins("ada") == EXIT_USAGE
    assert key.read_bytes() == before


def test_two_passphrases_that_differ_make_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["one", "two"])
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(answers))
    assert run("keys", "create", "--holder", "ada", "--out", tmp_path / "ada") == EXIT_REFUSED
    assert not (tmp_path / "ada").exists()


def test_a_stick_that_keeps_no_modes_may_carry_a_sealed_key_and_no_other(circle: Circle) -> None:
    circle.asks("ada", "ben", "cleo")
    for name in ("ada", "ben"):
        (circle.folder / name / f"{name}.ed25519.key").chmod(0o755)
    assert circle.signs("ada") == EXIT_OK
    online = circle.commons / "keys" / "snapshot.key"
    online.chmod(0o644)
    assert circle.asks("ada", "ben", out="again.json") == EXIT_USAGE


def test_a_new_snapshot_key_is_made_and_asked_for(rooted: Circle, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("keys", "rotate", "snapshot", "--dir", rooted.commons) == EXIT_USAGE  # nowhere to ask
    out = rooted.stick / "2.json"
    assert run("keys", "rotate", "snapshot", "--dir", rooted.commons, "--out", out) == EXIT_OK
    capsys.readouterr()
    assert run("keys", "export", "snapshot", "--dir", rooted.commons, "--next") == EXIT_OK
    new = capsys.readouterr().out.strip()
    for name in ("ada", "ben"):
        rooted.signs(name, request="2.json")
    assert rooted.assembles(request="2.json") == EXIT_OK
    assert plan_of(rooted.root(2).read_bytes()).online["snapshot"].text == new


def test_keys_are_listed_with_their_holders_and_terms(rooted: Circle, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run("keys", "list", "--dir", rooted.commons, "--json") == EXIT_OK
    listed = json.loads(capsys.readouterr().out)["keys"]
    assert [row["holder"] for row in listed if row["role"] == "root"] == ["ada", "ben", "cleo"]
    assert {row["role"] for row in listed} >= {"targets", "snapshot", "timestamp", "canary", "reviewed"}
    assert {row["state"] for row in listed} == {"in use"}
    (rooted.commons / "keys" / "stable.key").unlink()
    shutil.copy(rooted.commons / "keys" / "beta.key", rooted.commons / "keys" / "canary.key")
    assert run("keys", "list", "--dir", rooted.commons) == EXIT_REFUSED
    told = capsys.readouterr().out
    assert "not the role's" in told
    assert "missing" in told


def test_a_root_is_adopted_only_with_the_keys_that_it_names(rooted: Circle, tmp_path: Path) -> None:
    words = ["--root", str(rooted.root()), "--log-url", "http://127.0.0.1:1"]
    other = tmp_path / "other"
    assert main(["mesh", "setup", "--role", "commons", "--dir", str(other), *words]) == EXIT_USAGE
    assert not other.exists()
    run("keys", "create", "--dir", other)
    assert main(["mesh", "setup", "--role", "commons", "--dir", str(other), *words]) == EXIT_USAGE
    assert not (other / "public" / "metadata").exists()


@pytest.mark.parametrize("role", ["log", "witness"])
def test_the_keys_of_a_log_or_witness_are_replaced_in_two_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], role: str
) -> None:
    folder = tmp_path / role
    assert main(["mesh", "setup", "--role", role, "--dir", str(folder), "--name", "x.example"]) == EXIT_OK

    def exported(*more: str) -> list[str]:
        capsys.readouterr()
        assert run("keys", "export", role, "--dir", folder, *more) == EXIT_OK
        return capsys.readouterr().out.splitlines()

    def listed() -> list[tuple[str, str, str]]:
        capsys.readouterr()
        assert run("keys", "list", "--dir", folder, "--json") == EXIT_OK
        rows = json.loads(capsys.readouterr().out)["keys"]
        return [(Path(row["file"]).stem, row["family"], row["key_id"][:16]) for row in rows]

    old, before = exported(), listed()
    assert [(stem, family) for stem, family, _ in before] == [(role, "ed25519"), (f"{role}-ml-dsa", "ml-dsa-44")]
    assert all(line.startswith("x.example+") for line in old)
    assert run("keys", "rotate", role, "--dir", folder, "--activate") == EXIT_USAGE
    assert run("keys", "rotate", role, "--dir", folder) == EXIT_OK
    new = exported("--next")
    assert exported() == old
    assert run("keys", "rotate", role, "--dir", folder, "--activate") == EXIT_OK
    assert exported() == new
    assert not set(old) & set(new)
    assert {path.stem for path in (folder / "retired").iterdir()} == {f"{stem}-{key}" for stem, _, key in before}


@pytest.mark.parametrize("role", ["root", "nobody", "log"])
def test_a_role_without_a_key_here_is_refused(rooted: Circle, role: str) -> None:
    assert run("keys", "rotate", role, "--dir", rooted.commons) == EXIT_USAGE
