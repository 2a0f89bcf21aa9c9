"""`interlock mesh indicator`: a proposal, a catalog, a statement, a pack, and what none of them says."""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
from pathlib import Path

import pytest

from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from interlock.base.files import replace
from interlock.base.keys import Ed25519Signer, dump_key
from interlock.commons.consensus import parse_consensus, stated
from interlock.commons.enrolment import dump_count
from interlock.commons.indicators import BadCatalog, build_proposal, indicator_pack, parse_catalog, parse_proposal
from interlock.commons.membership import CERTIFICATE
from interlock.commons.operators import Operator, Operators
from interlock.commons.pack import parse_pack
from interlock.dap.task import Task
from interlock.engine.detectors.indicator import indicator_of
from interlock.node.cli import mesh_dap, mesh_indicator
from interlock.node.cli.main import main
from tests.unit.commons_world import pack
from tests.unit.test_consensus import COLLECTOR, DAY, EPOCH, HOST, ISSUER, OTHER, SUMS, catalog, certified, keys, said

VALUE = "evil.example.com"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


class Typed(io.StringIO):
    """A terminal at which somebody types."""

    def isatty(self) -> bool:
        return True


def run(*words: object) -> int:
    return main(["mesh", "indicator", *map(str, words)])


# --- propose ------------------------------------------------------------------------------------------------------


def test_a_proposal_says_what_it_reveals_and_to_whom_before_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "p.json"
    monkeypatch.setattr("sys.stdin", Typed("n\n"))
    assert run("propose", "host", VALUE, "--out", out) == EXIT_REFUSED
    said = capsys.readouterr().out
    assert said.index("what it reveals") < said.index("Propose it?") < said.index("nothing was written")
    assert "who sees it" in said
    assert not out.exists()
    monkeypatch.setattr("sys.stdin", Typed("y\n"))
    assert run("propose", "host", VALUE, "--out", out) == EXIT_OK
    assert parse_proposal(out.read_bytes(), where="p") == HOST
    assert b"evil" not in out.read_bytes()


def test_a_program_says_yes_and_the_same_goes_to_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("propose", "package", "npm:evil@1.0.0", "--out", tmp_path / "p.json", "--yes") == EXIT_OK
    said = capsys.readouterr()
    assert "what it reveals" in said.err
    assert "what it reveals" not in said.out


def test_without_a_terminal_and_a_yes_nothing_is_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert run("propose", "host", VALUE, "--out", tmp_path / "p.json") == EXIT_USAGE
    assert "needs a terminal" in capsys.readouterr().err
    assert not (tmp_path / "p.json").exists()


@pytest.mark.parametrize(
    ("kind", "value"),
    [("host", v) for v in ("db.internal", "10.1.2.3", "localhost", "co.uk", "GitHub.io.", "printer", "169.254.169.254")]
    + [
        ("host", v)
        for v in ("evil.com:443", "https://evil.com/", "u:p@evil.com", "evil.com/x", "*.evil.com", "evil\n.com")
    ]
    + [
        ("host", v)
        for v in ("0xa.1", "167772161", "010.0.0.1", "[::ffff:10.0.0.1]", "[fe80::1]", "239.1.1.1", "[ff0e::1]")
    ]
    + [("host", v) for v in ("10-0-0-1.sslip.io", "x.192.168.1.1.nip.io", "1.0.0.10.in-addr.arpa", "db.localdomain")]
    + [("host", "a" * 64 + ".com"), ("host", "a." * 127 + "com"), ("host", "stra\u00dfe.de"), ("host", "x.HOME.arpa.")]
    + [("package", v) for v in ("left-pad", "npm:../../x@1", "npm:https://u:p@r.example/x@1", "pypi:x@git+ssh://h/x")]
    + [("package", v) for v in ("go:git.corp/x@v1", "go:git.acme.internal/x@*", "go:10.0.0.1/x@v1", "go:intranet/x@v1")]
    + [("package", f"npm:{name}") for name in (f"{TOKEN}@1", f"x@{TOKEN}", "a" * 300 + "@1", "x@" + "1" * 300)]
    + [("file", "report.pdf"), ("file", "A" * 64), ("file", "a" * 63), ("mcp", "my server")],
)
def test_what_is_private_shared_or_free_text_is_not_proposed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, value: str
) -> None:
    assert run("propose", kind, value, "--out", tmp_path / "p.json", "--yes") == EXIT_REFUSED
    said = capsys.readouterr()
    assert value not in said.err + said.out
    assert not (tmp_path / "p.json").exists()


def test_a_person_sees_which_name_it_is_whatever_it_looks_like(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Typed("n\n"))
    looks_like_apple = "\u0430pple.com"
    for typed, named in ((looks_like_apple, "xn--pple-43d.com"), ("0x01010101", "1.1.1.1"), ("EVIL.com.", "evil.com")):
        assert run("propose", "host", typed, "--out", tmp_path / "p.json") == EXIT_REFUSED
        assert f"what it is        {named};" in capsys.readouterr().out


@pytest.mark.parametrize("data", [b"", b"{}", build_proposal("host", VALUE) + b" ", b"[" * 10_000])
def test_what_is_no_proposal_is_refused(data: bytes) -> None:
    with pytest.raises(BadCatalog):
        parse_proposal(data, where="p")


# --- catalog ------------------------------------------------------------------------------------------------------


def test_a_catalog_is_of_packs_rules_and_proposals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.json").write_bytes(build_proposal("host", VALUE))
    (tmp_path / "pack.json").write_bytes(pack().data)
    out = tmp_path / "c.json"
    named = ("--rules", tmp_path / "pack.json", "--proposal", tmp_path / "p.json")
    assert run("catalog", "hosts-1", *named, "--opens-in", "2h", "--out", out) == EXIT_OK
    made = parse_catalog(out.read_bytes(), where="c")
    assert (made.places, made.counts, made.kinds) == (("rule:team.zap", HOST), "sightings", ("host", "rule"))
    assert "can test guesses" in capsys.readouterr().out
    assert run("catalog", "wrong-1", *named, "--false-positives", "--out", out) == EXIT_OK
    assert parse_catalog(out.read_bytes(), where="c").counts == "false-positives"


def test_an_empty_catalog_is_not_made(tmp_path: Path) -> None:
    assert run("catalog", "hosts-1", "--out", tmp_path / "c.json") == EXIT_USAGE


# --- consensus and pack -------------------------------------------------------------------------------------------


class Folder:
    """A collector's folder: task, catalog, member keys, count, and the batch that it collected."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.task: Task = certified(catalog())
        monkeypatch.setattr(mesh_indicator, "read_task", lambda _: self.task)
        self.write("catalog.json", catalog().data)
        self.write("keys.json", keys(age=30).data)
        self.write("collector.key", dump_key(COLLECTOR))
        self.batch()

    def write(self, name: str, data: bytes) -> None:
        (self.path / name).parent.mkdir(exist_ok=True)
        replace(self.path / name, data)

    def count(self, issued: int) -> Path:
        """The issuer's signed count of the epoch, as a file."""
        data = dump_count(ISSUER, task="hosts-1", epoch=EPOCH, issued=issued, enrolled=25, final=True, at=1)
        self.write("count.json", data)
        return self.path / "count.json"

    def batch(self, **values: object) -> None:
        body = {"format": "interlock-collected", "v": 1, "task_id": self.task.task_id.hex(), "report_count": 25}
        self.write(
            "batch.json", json.dumps({**body, "start": EPOCH, "end": EPOCH + 1, "sums": list(SUMS), **values}).encode()
        )

    def consensus(self, *words: object) -> int:
        named: tuple[str, ...] = (
            "--task",
            "task.json",
            "--catalog",
            "catalog.json",
            "--member-keys",
            "keys.json",
            "--out",
            "said.json",
        )
        named += ("--key", "collector.key")
        paths = [word if word.startswith("--") else str(self.path / word) for word in named]
        return run("consensus", self.path / "batch.json", *paths, *words)

    def pack(self, *words: object) -> int:
        about = ("--version", 1, "--author", "Rita", "--out", self.path / "pack.json")
        return run("pack", "indicator-a", self.path / "said.json", *about, *self.trust(), *words)

    def check(self, *words: object) -> int:
        return run("check", self.path / "said.json", *self.trust(), *words)

    def trust(self) -> tuple[object, ...]:
        """The task, from whoever checks; and the catalog."""
        home = self.path / "home"
        return ("--task", "task.json", "--catalog", self.path / "catalog.json", "--home", home)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    return Folder(tmp_path, monkeypatch)


def test_a_batch_becomes_a_statement_without_numbers_and_then_a_pack(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert folder.consensus() == EXIT_OK
    said = parse_consensus((folder.path / "said.json").read_bytes(), where="s")
    assert (said.at_least, said.least_age, len(said.places)) == (15, 30, 2)
    told = capsys.readouterr()
    assert "each by at least 15" in told.out
    assert "was not held to its count" in told.err
    for number in (12, 19, 20, 25):
        assert f" {number} " not in told.out
    monkeypatch.setattr("interlock.node.cli.mesh_indicator.SystemClock", lambda: _At((EPOCH + 2) * DAY))
    assert folder.pack("--sign-off", "Rita <rita@example.org>") == EXIT_OK
    made = parse_pack((folder.path / "pack.json").read_bytes(), where="p")
    assert [doc.id for doc in made.rules] == ["indicator-a.host"]
    assert made.results == (said.digest,)


@pytest.mark.parametrize(
    ("issued", "told"),
    [(26, "26 credentials were given out to 25 organisations"), (24, "25 reports were collected, and 24 credentials")],
)
def test_an_issuer_that_made_members_up_is_found_by_its_public_count(
    folder: Folder, capsys: pytest.CaptureFixture[str], issued: int, told: str
) -> None:
    assert folder.consensus("--count", folder.count(issued)) == EXIT_REFUSED
    assert told in capsys.readouterr().err
    assert folder.consensus("--count", folder.count(25)) == EXIT_OK
    assert "was not held" not in capsys.readouterr().err


def test_an_indicator_that_has_ended_comes_into_no_pack(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert folder.consensus("--days", 1) == EXIT_OK
    monkeypatch.setattr("interlock.node.cli.mesh_indicator.SystemClock", lambda: _At((EPOCH + 3) * DAY))
    assert folder.pack() == EXIT_USAGE
    assert "2 indicators have ended" in capsys.readouterr().err
    assert not (folder.path / "pack.json").exists()


def test_a_threshold_below_what_trust_asks_is_said_to_bring_nothing(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert folder.consensus("--at-least", 10) == EXIT_OK
    assert "it takes 15 of members this young" in capsys.readouterr().err
    assert folder.pack() == EXIT_USAGE
    assert "too weak" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"report_count": 9, "sums": [9, 9, 9, 9]}, EXIT_REFUSED),
        ({"report_count": 9}, EXIT_USAGE),
        ({"task_id": "00" * 32}, EXIT_USAGE),
        ({"sums": [1, 2]}, EXIT_USAGE),
        ({"sums": ["1"]}, EXIT_USAGE),
        ({"end": EPOCH}, EXIT_USAGE),
        ({"end": EPOCH + 2}, EXIT_USAGE),
        ({"start": True}, EXIT_USAGE),
    ],
)
def test_a_batch_that_cannot_be_is_refused_in_one_line(
    folder: Folder, capsys: pytest.CaptureFixture[str], values: dict[str, object], code: int
) -> None:
    folder.batch(**values)
    assert folder.consensus() == code
    assert capsys.readouterr().err.count("\n") == 1
    assert not (folder.path / "said.json").exists()


def test_a_statement_of_a_place_that_was_never_proposed_makes_no_pack(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert folder.consensus() == EXIT_OK
    said = (folder.path / "said.json").read_bytes()
    rival = indicator_of("host", "rival.example.com")
    folder.write("said.json", said.replace(HOST.encode(), rival.encode()))
    assert folder.pack() == EXIT_REFUSED
    assert "said.json: was changed after it was signed" in capsys.readouterr().err
    signed = dataclasses.replace(parse_consensus(said, where="s"), places=(rival,))
    values = {name: getattr(signed, name) for name in ("task_id", "at_least", "shown", "least_age", "start", "end")}
    forged = stated(catalog(), (rival,), COLLECTOR, **values, until=signed.until, demo=False)
    folder.write("said.json", forged.data)
    assert folder.pack() == EXIT_REFUSED
    assert "names a place that its catalog does not have" in capsys.readouterr().err


def test_a_pack_is_made_of_what_each_tasks_own_collector_said_and_of_nothing_else(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("interlock.node.cli.mesh_indicator.SystemClock", lambda: _At((EPOCH + 2) * DAY))
    assert folder.consensus() == EXIT_OK
    key, rival = COLLECTOR.verifier.text, Ed25519Signer(b"\4" * 32)
    assert f"signed by {key}, the collector that the task names" in capsys.readouterr().out
    honest = (folder.path / "said.json").read_bytes()
    listed = Operators(1, (Operator("shares.example", "Shares", {"collector": (key, rival.verifier.text)}),))
    folder.write("home/operators.json", listed.data)
    fields = ("task_id", "at_least", "shown", "least_age", "start", "end", "until", "demo")
    values = {name: getattr(parse_consensus(honest, where="s"), name) for name in fields}
    folder.write("said.json", stated(catalog(), (HOST, OTHER), rival, **values).data)
    assert folder.pack() == EXIT_REFUSED  # the commons lists it as a collector's, only of another task
    assert f"and its task's collector is {key}" in capsys.readouterr().err
    assert not (folder.path / "pack.json").exists()
    folder.write("said.json", honest)
    folder.write("home/operators.json", Operators(2, (Operator("a", "A", {"issuer": (key,)}),)).data)
    assert folder.pack() == EXIT_REFUSED
    assert "lists as no collector's" in capsys.readouterr().err
    folder.write("home/operators.json", listed.data)
    assert folder.pack() == EXIT_OK
    told = capsys.readouterr()
    assert "in the word of shares" in told.out
    assert "without --sign-off 'NAME <MAIL>' no commons publishes it" in told.err


def test_a_demonstrations_statement_counts_only_where_that_is_asked_for(
    folder: Folder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.node.cli.mesh_indicator.SystemClock", lambda: _At((EPOCH + 2) * DAY))
    config = dataclasses.replace(folder.task.config, min_batch_size=3)
    folder.task = dataclasses.replace(folder.task, config=config, demo=True)
    made = said(HOST, at_least=3, demo=True, shown=CERTIFICATE, task_id=folder.task.task_id.hex())
    folder.write("said.json", made.data)
    assert folder.check() == EXIT_OK
    told = capsys.readouterr()
    assert ("is a demonstration's (--demo lets it count)" in told.err, HOST in told.out) == (True, False)
    assert folder.check("--demo") == EXIT_OK
    assert f"{HOST}  at least 3 organisations" in capsys.readouterr().out


def test_anyone_can_check_a_statement_and_whether_a_pack_follows_from_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("interlock.node.cli.mesh_indicator.SystemClock", lambda: _At((EPOCH + 2) * DAY))
    assert folder.consensus() == EXIT_OK
    assert folder.pack("--sign-off", "Rita <rita@example.org>") == EXIT_OK
    capsys.readouterr()
    assert folder.check() == EXIT_OK
    told = capsys.readouterr().out
    assert f"{HOST}  at least 15 organisations" in told
    assert "sightings of hosts-1" in told
    assert folder.check("--pack", folder.path / "pack.json") == EXIT_OK
    assert "follows from these 1 statements, and from nothing else" in capsys.readouterr().out
    more = indicator_pack("indicator-a", 1, [HOST, OTHER], authors=["Rita"])
    folder.write("pack.json", more.data)
    assert folder.check("--pack", folder.path / "pack.json") == EXIT_REFUSED
    assert "does not follow from these statements" in capsys.readouterr().err


class _At:
    """A clock that stands."""

    def __init__(self, us: int) -> None:
        self.us = us

    def now_us(self) -> int:
        return self.us


def test_a_collector_takes_the_last_epoch_whose_reports_have_all_had_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mesh_dap, "SystemClock", lambda: _At((EPOCH + 5) * DAY + 1))

    def first(task: Task, *, running: bool = False, given: int | None = None) -> int:
        return mesh_dap._interval(argparse.Namespace(epochs=1, running=running, first=given), task).start

    bare = certified(catalog())
    object.__setattr__(bare.config, "task_info", b"trial")
    assert first(bare) == EPOCH + 4
    counted = certified(catalog())
    assert (first(counted), first(counted, running=True)) == (EPOCH + 3, EPOCH + 5)
    assert first(counted, given=EPOCH + 4) == EPOCH + 4
