"""`interlock mesh log` and `mesh gossip`: over a served log, over copies of it, and offline."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from interlock.base.clock import ManualClock, SystemClock
from interlock.base.fetch import DirectoryFetcher
from interlock.base.keys import Ed25519Signer, MlDsaSigner
from interlock.base.settings import read_settings
from interlock.node.cli.main import main
from interlock.node.config import serve_config
from interlock.node.http import Listen, serve
from interlock.node.roles import log as log_role
from interlock.node.roles import witness as witness_role
from interlock.node.tokens import Grant, TokenTable, token_hash
from interlock.node.wiring.witness import witness_of
from interlock.transparency.checkpoint import Cosigner
from interlock.transparency.follow import LogView, parse_evidence
from interlock.transparency.log import Log, open_log
from interlock.transparency.note import NoteSigner, encode_note, parse_note
from interlock.transparency.policy import parse_policy
from interlock.transparency.witness import Witness, add_checkpoint_request
from tests.unit.log_entries import pack_entry

ORIGIN = "log.example/packs"
SIGNER = NoteSigner(ORIGIN, Ed25519Signer(b"\x01" * 32))
ALSO = Cosigner(ORIGIN, MlDsaSigner(44, b"\x01" * 32))
PAIR = [Cosigner("w.example", Ed25519Signer(b"\x02" * 32)), Cosigner("w.example", MlDsaSigner(44, b"\x02" * 32))]
TOKEN = "ab" * 32


def policy_file(folder: Path, log_url: str = "", witness_url: str = "") -> Path:
    lines = [f"log {SIGNER.key.text} {log_url}".strip(), f"log {ALSO.key.text}"]
    lines += [f"witness w{k} {c.key.text} {witness_url}".strip() for k, c in enumerate(PAIR)]
    file = folder / "log-policy.txt"
    file.write_text("\n".join([*lines, "group w all w0 w1", "quorum w"]) + "\n")
    return file


@contextlib.contextmanager
def served(app: object) -> Iterator[str]:
    """An application on a free port of this machine."""
    urls: list[str] = []
    up, stop = threading.Event(), threading.Event()

    def ready(url: str) -> None:
        urls.append(url)
        up.set()

    thread = threading.Thread(target=serve, args=(app, Listen()), kwargs={"ready": ready, "stop": stop}, daemon=True)
    thread.start()
    assert up.wait(10)
    try:
        yield urls[0]
    finally:
        stop.set()
        thread.join(10)


def publish(log: Log, home: Path) -> bytes:
    """Have the log's tree cosigned by a witness of its own with both keys, and publish it."""
    note = log.integrate()
    held = Witness(home, PAIR, {ORIGIN: [SIGNER.key]}, ManualClock())
    answer = held.process(add_checkpoint_request(0, (), note))
    cosigned = note + answer.body
    log.publish(cosigned)
    return cosigned


def made(folder: Path, entries: list[bytes]) -> Path:
    """A log's folder with these entries, published, and its policy beside."""
    folder.mkdir(parents=True, exist_ok=True)
    with open_log(folder / "log", SIGNER, [ALSO]) as log:
        log.append(entries)
        publish(log, folder / f"witness-{log.size}")
    policy_file(folder)
    return folder


def entry(n: int) -> bytes:
    return pack_entry("coding-agent", n, f"{n:064x}", at=n).data


Said = Callable[[], tuple[str, str]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def read() -> tuple[str, str]:
        found = capsys.readouterr()
        return found.out, found.err

    return read


def test_an_entry_is_appended_proven_and_verified_offline(tmp_path: Path, said: Said) -> None:
    witness = witness_role.app(Witness(tmp_path / "w", PAIR, {ORIGIN: [SIGNER.key]}, SystemClock()))
    file, token = tmp_path / "entry.json", tmp_path / "token"
    file.write_bytes(entry(1))
    token.write_text(TOKEN)
    token.chmod(0o600)
    tokens = TokenTable(lambda: {"me": Grant(token_hash(TOKEN))})
    with served(witness) as witness_url, open_log(tmp_path / "log", SIGNER, [ALSO]) as log:
        rule = parse_policy(policy_file(tmp_path, witness_url=witness_url).read_bytes())
        with served(log_role.app(log, rule, tokens=tokens, client=httpx.AsyncClient(trust_env=False))) as url:
            policy = str(policy_file(tmp_path, url, witness_url))
            assert main(["mesh", "log", "append", str(file), "--policy", policy, "--token", str(token)]) == 0
            assert said()[0].endswith("entry 0 of log.example/packs, tree of 1, cosigned by w.example\n")
            for words in (["0"], ["--entry", str(file)]):
                out = str(tmp_path / "again.tlog-proof")
                assert main(["mesh", "log", "proof", *words, "--policy", policy, "--out", out, "--json"]) == 0
                assert json.loads(said()[0])["index"] == 0
            assert main(["mesh", "log", "fsck", url, "--policy", policy, "--json"]) == 0
            assert json.loads(said()[0])["size"] == 1
            assert main(["mesh", "gossip", "--policy", policy, "--home", str(tmp_path / "node")]) == 0
            assert [row.split()[0] for row in said()[0].splitlines()] == ["agrees", "agrees"]
    for proof in ("entry.json.tlog-proof", "again.tlog-proof"):
        words = ["mesh", "log", "verify", str(tmp_path / proof), "--entry", str(file), "--policy", policy]
        assert main(words) == 0
        assert main([*words, "--json"]) == 0
        told = json.loads(said()[0].splitlines()[-1])
        assert (told["ok"], told["size"], list(told["witnesses"])) == (True, 1, ["w.example"])
    file.write_bytes(entry(2))
    assert main(words) == 1
    assert "does not lead to the root" in said()[1]


def test_appending_without_the_token_or_to_nobody_is_one_line(tmp_path: Path, said: Said) -> None:
    file = tmp_path / "entry"
    file.write_bytes(b"x")
    policy = str(policy_file(tmp_path, "http://127.0.0.1:9"))
    words = ["mesh", "log", "append", str(file), "--policy", policy, "--token", str(tmp_path / "token")]
    assert main(words) == 2
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    assert main(words) == 2
    assert main([*words[:5], str(policy_file(tmp_path)), *words[6:]]) == 2
    err = said()[1]
    assert err.count("\n") == 3
    assert "--log URL" in err
    assert not (tmp_path / "entry.tlog-proof").exists()


def test_a_proof_is_made_from_any_copy_of_the_tiles(tmp_path: Path, said: Said) -> None:
    log = made(tmp_path / "l", [entry(n) for n in range(1, 601)])
    policy, copy = str(log / "log-policy.txt"), str(log / "log" / "public")
    (tmp_path / "e").write_bytes(entry(3))
    assert main(["mesh", "log", "proof", "--entry", str(tmp_path / "e"), "--log", copy, "--policy", policy]) == 0
    out = said()[0]
    assert out.splitlines()[1] == "index 2"
    (tmp_path / "p").write_text(out)
    assert main(["mesh", "log", "verify", str(tmp_path / "p"), "--entry", str(tmp_path / "e"), "--policy", policy]) == 0
    (tmp_path / "e").write_bytes(b"never added")
    for words, code in ((["--entry", str(tmp_path / "e")], 1), (["600"], 2), (["-1"], 2), ([], 2)):
        assert main(["mesh", "log", "proof", *words, "--log", copy, "--policy", policy]) == code
    (Path(copy) / "tile" / "entries" / "002.p" / "88").write_bytes(b"\x00\x01x" * 88)
    assert main(["mesh", "log", "proof", "550", "--log", copy, "--policy", policy]) == 1
    assert main(["mesh", "log", "proof", "3", "--log", copy, "--policy", policy]) == 0


def test_fsck_reads_a_whole_log_its_journal_and_what_is_not_published_yet(tmp_path: Path, said: Said) -> None:
    log = made(tmp_path, [entry(n) for n in range(1, 301)])
    assert main(["mesh", "log", "fsck", str(log)]) == 0
    assert "300 entries in 2 bundles, 3 tiles" in said()[0]
    with open_log(log / "log", SIGNER, [ALSO]) as held:
        held.append([b"x", b"y"])
        held.integrate()
        held.append([b"z"])
    for folder in (log, log / "log"):
        assert main(["mesh", "log", "fsck", str(folder), "--json"]) == 0
        told = json.loads(said()[0])
        assert (told["size"], told["bundles"], told["tiles"], told["journal"]) == (300, 2, 3, 303)
    assert main(["mesh", "log", "fsck", str(log / "log" / "public"), "--policy", str(log / "log-policy.txt")]) == 0
    assert "no journal to read" in said()[0]


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("file", "at", "place"),
    [
        ("public/tile/entries/000", 500, "tile/0/000"),
        ("public/tile/entries/000", 0, "tile/entries/000"),
        ("public/tile/entries/001.p/44", 900, "tile/0/001.p/44|journal's entry 25|journal's entry 26"),
        ("public/tile/0/000", 70, "tile/0/000"),
        ("public/tile/0/001.p/44", 70, "tile/0/001.p/44"),
        ("public/tile/1/000.p/1", 3, "tile/1/000.p/1"),
        ("public/checkpoint", 20, ""),
        ("signed", 20, ""),
        ("journal/00000000000000000000", 9_000, "journal's entry|journal ends"),
        ("journal/00000000000000000000", 3, "journal"),
    ],
)
def test_fsck_tells_the_first_place_that_does_not_fit(
    tmp_path: Path, said: Said, file: str, at: int, place: str
) -> None:
    log = made(tmp_path, [entry(n) for n in range(1, 301)])
    good = (log / "log" / file).read_bytes()
    (log / "log" / file).write_bytes(_flipped(good, at))
    assert main(["mesh", "log", "fsck", str(log)]) in (1, 2)
    told = said()[1]
    assert told.count("\n") == 1
    assert any(p in told for p in place.split("|")) or (file.endswith("000") and "journal's entry" in told)
    (log / "log" / file).unlink()
    assert main(["mesh", "log", "fsck", str(log)]) in (1, 2)
    (log / "log" / file).write_bytes(good)
    assert main(["mesh", "log", "fsck", str(log)]) == 0


def test_fsck_needs_a_policy_and_a_log(tmp_path: Path, said: Said) -> None:
    log = made(tmp_path / "l", [b"a"])
    (log / "log-policy.txt").unlink()
    assert main(["mesh", "log", "fsck", str(log)]) == 2
    assert main(["mesh", "log", "fsck", str(tmp_path), "--policy", str(policy_file(tmp_path))]) == 2
    assert said()[1].count("\n") == 2


def test_gossip_finds_agreement_between_a_node_a_copy_and_files(tmp_path: Path, said: Said) -> None:
    log = made(tmp_path / "l", [entry(n) for n in range(1, 10)])
    policy = log / "log-policy.txt"
    old = tmp_path / "old.checkpoint"
    old.write_bytes((log / "log" / "public" / "checkpoint").read_bytes())
    made(log, [entry(n) for n in range(10, 300)])
    copy, home = log / "log" / "public", tmp_path / "node"
    home.mkdir()
    LogView(home / "log", parse_policy(policy.read_bytes()), ManualClock()).refresh(DirectoryFetcher(copy))
    words = ["mesh", "gossip", "--policy", str(policy), "--home", str(home)]
    assert main([*words, str(copy), str(old)]) == 0
    assert said()[0].count("agrees ") == 3
    assert main([*words, "--show"]) == 0
    (tmp_path / "theirs").write_text(said()[0])
    assert main([*words, "--show", "--json"]) == 0
    assert json.loads(said()[0]) == {"notes": [(tmp_path / "theirs").read_text()]}
    assert main([*words[:-1], str(tmp_path / "nobody"), "--show"]) == 2
    assert main([*words[:-1], str(tmp_path / "other"), str(tmp_path / "theirs"), str(copy), "--json"]) == 0
    assert [row["result"] for row in json.loads(said()[0])["places"]] == ["agrees", "agrees"]
    assert not list((home).glob("evidence/*"))


def fork(tmp_path: Path) -> tuple[Path, Path, list[str]]:
    """Two histories of one log, and the command that compares them for a node."""
    one, two = made(tmp_path / "a", [entry(n) for n in range(1, 300)]), made(tmp_path / "b", [b"fork", entry(1)])
    home = tmp_path / "node"
    home.mkdir()
    return one, two, ["mesh", "gossip", "--policy", str(one / "log-policy.txt"), "--home", str(home)]


def test_gossip_writes_evidence_of_two_histories_that_convinces_anybody(tmp_path: Path, said: Said) -> None:
    one, two, words = fork(tmp_path)
    shutil.copy(two / "log" / "public" / "checkpoint", tmp_path / "shown")
    for places in ([str(one / "log" / "public"), str(tmp_path / "shown")], [str(two / "log" / "public"), str(one)]):
        if places[1] == str(one):
            places[1] = str(one / "log" / "public")
        assert main([*words, *places]) == 1
        out = said()[0]
        assert sorted(row.split()[0] for row in out.splitlines()[:2]) == ["agrees", "split"]
        (file,) = (tmp_path / "node" / "evidence").glob("split-view-*.json")
        assert str(file) in out
        parse_evidence(file.read_bytes(), where=str(file)).verify(SIGNER.key)
        shutil.move(file, tmp_path / "handed-over")
        assert main([*words, str(tmp_path / "handed-over")]) == 1
        assert said()[0].startswith("split ")


def test_evidence_that_shows_nothing_or_of_another_log_is_told_as_such(tmp_path: Path, said: Said) -> None:
    one, two, words = fork(tmp_path)
    assert main([*words, str(one / "log" / "public"), str(two / "log" / "public")]) == 1
    (file,) = (tmp_path / "node" / "evidence").glob("*")
    body = json.loads(file.read_text())
    forged = {
        "same": {"new": body["old"], "root_then": body["root_then"], "proof": []},
        "other": {"origin": "log.else"},
    }
    said()
    for name, changed in forged.items():
        (tmp_path / name).write_text(json.dumps(body | changed))
        assert main([*words, str(tmp_path / name)]) == 1
    out = said()[0]
    assert "failed " in out
    assert "another log " in out
    assert "split " not in out


def test_two_trees_of_one_size_need_no_tiles_to_be_told_apart(tmp_path: Path, said: Said) -> None:
    one, two = made(tmp_path / "a", [b"1", b"2"]), made(tmp_path / "b", [b"1", b"3"])
    places = [str(shutil.copy(p / "log" / "public" / "checkpoint", tmp_path / p.name / "shown")) for p in (one, two)]
    words = ["mesh", "gossip", "--policy", str(one / "log-policy.txt"), "--evidence", str(tmp_path / "e")]
    assert main([*words, *places, "--json"]) == 1
    told = json.loads(said()[0])
    assert [row["result"] for row in told["places"]] == ["split", "split"]
    parse_evidence(Path(told["evidence"][0]).read_bytes(), where="").verify(ALSO.key)


def test_what_nobody_serves_tiles_of_or_only_one_place_shows_is_not_called_agreement(
    tmp_path: Path, said: Said
) -> None:
    log = made(tmp_path / "a", [entry(n) for n in range(1, 10)])
    copy = tmp_path / "copy"
    shutil.copytree(log / "log" / "public", copy)
    made(log, [entry(10)])
    newer = str(shutil.copy(log / "log" / "public" / "checkpoint", tmp_path / "newer"))
    words = ["mesh", "gossip", "--policy", str(log / "log-policy.txt"), "--home", str(tmp_path / "node")]
    assert main([*words, str(copy), newer]) == 1
    assert [row.split()[0] for row in said()[0].splitlines()[:2]] == ["agrees", "unproven"]
    assert main([*words, str(copy)]) == 1
    assert main([*words, str(copy), str(tmp_path / "missing"), "http://127.0.0.1:9"]) == 1
    assert said()[0].count("failed ") == 2


def test_a_checkpoint_of_another_log_or_a_spoilt_one_is_told_and_not_compared(tmp_path: Path, said: Said) -> None:
    log = made(tmp_path / "a", [entry(1), entry(2)])
    other = NoteSigner("log.example/else", Ed25519Signer(b"\x05" * 32))
    with open_log(tmp_path / "else", other) as held:
        (tmp_path / "else.checkpoint").write_bytes(held.integrate())
    spoilt = (log / "log" / "public" / "checkpoint").read_bytes().replace(b"\n2\n", b"\n1\n")
    (tmp_path / "spoilt").write_bytes(spoilt)
    (tmp_path / "junk").write_bytes(b"{}")
    places = [str(tmp_path / name) for name in ("else.checkpoint", "spoilt", "junk")]
    words = ["mesh", "gossip", "--policy", str(log / "log-policy.txt"), "--home", str(tmp_path / "node")]
    assert main([*words, *places]) == 1
    assert [row.split("  ")[0] for row in said()[0].splitlines()[:3]] == ["another log", "failed", "failed"]


def test_a_witness_shows_gossip_what_it_cosigned(tmp_path: Path, said: Said) -> None:
    log = made(tmp_path / "a", [entry(n) for n in range(1, 10)])
    witness = Witness(log / "witness-9", PAIR, {ORIGIN: [SIGNER.key]}, ManualClock())
    where = hashlib.sha256(ORIGIN.encode()).hexdigest()
    latest = witness.latest(where)
    assert latest is not None
    assert encode_note(parse_note(latest)) == latest
    with served(witness_role.app(witness)) as url:
        policy = str(policy_file(log, witness_url=url))
        copy = str(log / "log" / "public")
        assert main(["mesh", "gossip", "--policy", policy, "--home", str(tmp_path / "node"), copy]) == 0
    assert said()[0].count("agrees ") == 2


def test_a_witness_learns_of_a_log_by_command_while_it_runs(tmp_path: Path, said: Said) -> None:
    folder = tmp_path / "w"
    words = ["mesh", "log", "cosign", "--dir", str(folder)]
    assert main(words) == 2
    assert main(["mesh", "setup", "--role", "witness", "--dir", str(folder), "--name", "w.example"]) == 0
    said()
    assert main([*words, SIGNER.key.text, ALSO.key.text, "--json"]) == 0
    assert json.loads(said()[0])["logs"] == [SIGNER.key.text, ALSO.key.text]
    assert main([*words, "--remove", ALSO.key.text]) == 0
    assert main([*words]) == 0
    assert said()[0].splitlines()[-1].startswith("1 keys besides")
    for bad in (["junk"], [PAIR[0].key.text], ["--remove", ALSO.key.text], ["--remove"]):
        assert main([*words, *bad]) == 2
    assert said()[1].count("\n") == 4


def test_a_witness_on_anothers_commons_is_one_command(tmp_path: Path) -> None:
    with open_log(tmp_path / "log", SIGNER, [ALSO]) as log:
        log.append([b"a"])
        note = log.integrate()
    other = NoteSigner("log.example/else", Ed25519Signer(b"\x05" * 32))
    policy = tmp_path / "theirs.txt"
    policy.write_text(f"log {other.key.text}\nquorum none\n")
    words = ["--role", "witness", "--dir", str(tmp_path / "w"), "--name", "w.example", "--log-policy", str(policy)]
    for turn in (1, 2):  # the second time the folder is there, and so is what was added
        command = [sys.executable, "-m", "interlock", "mesh", "serve", *words, "--stop-with-stdin"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, text=True, **pipes)  # type: ignore[call-overload]
        try:
            url = process.stderr.readline().split(" at ")[1].strip() + "/add-checkpoint"
            body = add_checkpoint_request(turn - 1, (), note)
            if turn == 1:
                assert httpx.post(url, content=body, trust_env=False).status_code == 404
                assert main(["mesh", "log", "cosign", "--dir", str(tmp_path / "w"), SIGNER.key.text]) == 0
            answer = httpx.post(url, content=body, trust_env=False)
            assert (answer.status_code, answer.text.count("w.example")) == (200, 2)  # a line of each key
        finally:
            out, err = process.communicate()
        assert (process.returncode, err) == (0, "")
        assert out.count("its line in a log policy: witness w.example/") == (2 if turn == 1 else 0)


def test_a_witness_whose_clock_stood_in_the_future_is_told_of_and_reset(
    tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    monkeypatch.setattr("interlock.node.cli.mesh_witness.SystemClock", lambda: clock)
    (tmp_path / "policy.txt").write_text(f"log {SIGNER.key.text}\nquorum none\n")
    words = ["--role", "witness", "--name", "w.example", "--log-policy", str(tmp_path / "policy.txt")]
    assert main(["mesh", "setup", "--dir", str(tmp_path / "w"), *words]) == 0
    command = ["mesh", "clock", "--dir", str(tmp_path / "w")]
    assert main(command) == 0
    with open_log(tmp_path / "log", SIGNER, [ALSO]) as log:
        log.append([b"a"])
        note = log.integrate()
    clock.advance(86_400 * 365)
    config = serve_config(read_settings(tmp_path / "w" / "interlock.toml"))
    assert witness_of(config, clock).process(add_checkpoint_request(0, (), note)).status == 200
    clock.advance(-86_400 * 365)
    said()
    assert main(command) == 1
    assert "lies ahead" in said()[0]
    assert main([*command, "--reset", "--json"]) == 0
    body = json.loads(said()[0])
    assert (list(body["reset"]), body["ahead"]) == ([SIGNER.name], [])
    assert main(command) == 0
    assert main(["mesh", "clock", "--dir", str(tmp_path)]) == 2


def test_a_log_is_not_made_by_serving_it_nor_a_witness_of_half_of_what_it_needs(tmp_path: Path, said: Said) -> None:
    for words in (["--role", "log", "--name", "x"], ["--role", "witness", "--log-policy", "x"], ["--role", "witness"]):
        where = [] if words == ["--role", "witness"] else ["--dir", str(tmp_path / "w")]
        assert main(["mesh", "serve", *words, *where]) == 2
    assert main(["mesh", "serve", "--role", "witness", "--dir", str(tmp_path / "w"), "--name", "a b"]) == 2
    assert said()[1].count("\n") == 4
    assert not (tmp_path / "w").exists()
