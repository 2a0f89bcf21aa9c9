"""`interlock receipts`: the chain is checked, read, and a receipt proved to have been decided by a logged policy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from interlock.base.files import BadState
from interlock.base.keys import Ed25519Signer
from interlock.engine import ambient
from interlock.engine.sinks import FileSink, verify_file
from interlock.node.cli.main import main
from tests.unit.commons_world import log_policy, pack, world

EXAMPLES: dict[str, object] = {
    "examples": {"fires": [{"action": "bad", "args": {}}], "passes": [{"action": "good", "args": {}}]}
}
SIGNER = Ed25519Signer(bytes(range(32)))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    config = tmp_path / "interlock.toml"
    config.write_text('[mesh]\nhome = "node"\n[guard]\nreceipts = "receipts.jsonl"\n')
    monkeypatch.setenv("INTERLOCK_CONFIG", str(config))
    yield tmp_path
    ambient.install(None)


def called(folder: Path, *names: str) -> Path:
    path = folder / "receipts.jsonl"
    interlock.install(rules=[interlock.deny_when(lambda e: e.action == "bad", "no", "never.bad")], sink=FileSink(path))
    for name in names:
        try:
            interlock.enforce_tool_call(name, {"secret": "hunter22"}, principal="acme/bot")
        except interlock.Blocked:
            continue
    return path


def test_a_chain_verifies_and_tells_the_head_to_keep(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = called(folder, "good", "bad")
    head = verify_file(path).head
    assert main(["receipts", "verify"]) == EXIT_OK
    assert f"2 receipts, each bound to the one before it\nhead  {head}" in capsys.readouterr().out
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert main(["receipts", "verify", str(path)]) == EXIT_OK
    capsys.readouterr()
    assert main(["receipts", "verify", str(path), "--head", head]) == EXIT_REFUSED
    assert "cut off" in capsys.readouterr().err


def test_the_last_receipts_are_a_line_each_and_never_a_value(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    called(folder, "good", "good", "bad")
    assert main(["receipts", "tail", "-n", "2"]) == EXIT_OK
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()] == ["#2", "#3"]
    assert "blocked       bad call by acme/bot: never.bad" in out
    assert main(["receipts", "tail", "--json"]) == EXIT_OK
    out = capsys.readouterr().out
    assert [json.loads(line)["outcome"] for line in out.splitlines()] == ["proceeded", "proceeded", "blocked"]
    assert "hunter22" not in out


def test_what_rules_in_shadow_would_have_done_is_told_and_counted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, policy = folder / "receipts.jsonl", folder / "policy.json"
    rules = [
        {"id": rule, "verdict": verdict, "when": {"action": action}, "reason": "odd", "shadow": True, **EXAMPLES}
        for rule, verdict, action in (("team.quiet", "block", "bad"), ("team.asks", "escalate", "b*"))
    ]
    policy.write_text(json.dumps({"format": "interlock-policy", "v": 1, "name": "team", "rules": rules}))
    interlock.install(policy=policy, sink=FileSink(path))
    for name, principal in (("bad", "acme/bot"), ("bad", "acme/bot"), ("bland", "acme/cat"), ("good", "acme/bot")):
        with interlock.span(principal=principal):
            interlock.enforce_tool_call(name, {})
    assert main(["receipts", "tail"]) == EXIT_OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == [
        "    in shadow, team.quiet would have blocked this",
        "    in shadow, team.asks would have asked about this",
    ]
    assert main(["receipts", "shadows"]) == EXIT_OK
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("team.asks  would have asked about 3 (by 2 principals in 3 runs; last ")
    assert out[1].startswith("team.quiet  would have blocked 2 (by 1 principals in 2 runs; last ")
    assert main(["receipts", "shadows", "--json"]) == EXIT_OK
    first = json.loads(capsys.readouterr().out)["shadows"][0]
    assert (first["rule"], first["verdict"], first["calls"], first["principals"]) == ("team.asks", "ESCALATE", 3, 2)
    path.unlink()
    assert main(["receipts", "shadows", str(called(folder, "good"))]) == EXIT_OK
    assert "no rule in shadow objected" in capsys.readouterr().out


def test_one_receipt_is_shown_by_number_or_by_the_start_of_its_call_id(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called(folder, "good", "bad")
    assert main(["receipts", "show", "#2", "--json"]) == EXIT_OK
    shown = json.loads(capsys.readouterr().out)
    assert (shown["action"], shown["seq"]) == ("bad", 2)
    assert main(["receipts", "show", shown["call_id"][:6]]) == EXIT_OK
    assert "policy_id         never.bad" in capsys.readouterr().out
    assert main(["receipts", "show", "#9"]) == EXIT_USAGE
    assert "is the id of no receipt here" in capsys.readouterr().err


def test_a_proof_shows_offline_which_logged_pack_decided(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, bundle = folder / "receipts.jsonl", folder / "proof.json"
    policy = folder / "log-policy"
    policy.write_bytes(log_policy())
    public = f"ed25519:{SIGNER.verifier.public.hex()}"
    with world(folder) as commons:
        commons.publisher.publish(pack(words=("zap",)), "stable")
        member = commons.member("node")
        member.subscribe("team", "stable")
        (row,) = member.update().rows
        interlock.install(policy="mesh:team@stable", sink=FileSink(path, signer=SIGNER))
        with pytest.raises(interlock.Blocked):
            interlock.enforce_tool_call("Bash", {"command": "zap it"})
        interlock.enforce_tool_call("Bash", {"command": "ls"})
    prove = ["receipts", "prove", str(path), "--public", public]
    assert main([*prove[:2], "#1", *prove[2:], "--out", str(bundle)]) == EXIT_OK
    assert main(["receipts", "verify", str(bundle), "--log-policy", str(policy), "--public", public]) == EXIT_OK
    out = capsys.readouterr().out
    assert f"team 1 (stable) stands in the log at index {row.log_index}" in out
    assert "cosigned by w1, w2" in out
    assert "the receipt itself is signed by the given key" in out
    assert main([*prove[:2], "#2", *prove[2:]]) == EXIT_REFUSED
    assert "was decided by no community rule" in capsys.readouterr().err
    _forged(bundle, policy, public, row.log_index, capsys)


def _forged(bundle: Path, policy: Path, public: str, index: int, capsys: pytest.CaptureFixture[str]) -> None:
    whole = bundle.read_text()
    command = ["receipts", "verify", str(bundle), "--log-policy", str(policy), "--public", public]
    for a, b in (
        ('\\"outcome\\":\\"not-approved', '\\"outcome\\":\\"approved'),
        (f'\\"log_index\\":{index}', f'\\"log_index\\":{index + 1}'),
    ):
        assert a in whole
        bundle.write_text(whole.replace(a, b))
        assert main(command) == EXIT_REFUSED
        assert "was changed after it was written" in capsys.readouterr().err
    bundle.write_text(whole)
    policy.write_text(policy.read_text().replace("quorum both", "quorum none"))
    assert main(command) == EXIT_OK
    policy.write_text("log other.example/x+00000000+AAAA\nquorum none\n")
    assert main(command) == EXIT_REFUSED


def test_a_key_that_is_none_is_said_in_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = called(folder, "good")
    for text in ("ed25519:00", "rsa:" + "00" * 32, "ed25519:" + "zz" * 32):
        assert main(["receipts", "verify", str(path), "--public", text]) == EXIT_USAGE
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert "key" in err


@pytest.mark.parametrize("size", [16, 32, 64])
def test_a_chain_under_a_key_of_the_programs_own_verifies_with_that_key_in_hex(
    size: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, secret, given = folder / "receipts.jsonl", bytes(range(size)), folder / "given"
    given.touch(0o600)
    interlock.install(sink=FileSink(path, key=secret))
    interlock.enforce_tool_call("good", {})
    for spelt in (secret.hex(), f"{secret.hex().upper()}\n"):
        given.write_text(spelt)
        assert main(["receipts", "verify", "--key", str(given)]) == EXIT_OK
        assert main(["receipts", "prove", "#1", "--key", str(given)]) == EXIT_REFUSED
        assert "was decided by no community rule" in capsys.readouterr().err
    given.write_text(secret[::-1].hex())
    for command in (["receipts", "verify"], ["receipts", "prove", "#1"]):
        assert main([*command, "--key", str(given)]) == EXIT_REFUSED
        assert "header that this key did not make" in capsys.readouterr().err
    assert main(["receipts", "verify"]) == EXIT_USAGE  # there is none beside the receipts
    assert "receipts.jsonl.key" in capsys.readouterr().err


def test_a_key_file_of_ours_may_be_named_too(folder: Path) -> None:
    path = called(folder, "good")
    (folder / "receipts.jsonl.key").rename(folder / "kept.key")
    assert main(["receipts", "verify", str(path), "--key", str(folder / "kept.key")]) == EXIT_OK


@pytest.mark.parametrize("named", [True, False], ids=["named", "beside"])
def test_a_key_that_others_may_read_seals_nothing(
    named: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever can read it can write a chain that holds: neither verifying nor writing goes on under it."""
    path = called(folder, "good")
    key = folder / "receipts.jsonl.key"
    key.chmod(0o644)
    assert main(["receipts", "verify", *(["--key", str(key)] if named else [])]) == EXIT_USAGE
    assert f"{key}: can be read by others; chmod 600" in capsys.readouterr().err
    before = path.read_bytes()
    with pytest.raises(BadState, match="can be read by others"):
        FileSink(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("held", ["", "00" * 15, "00" * 65, "0" * 33, "zz" * 32, "{}"])
def test_a_file_that_holds_no_key_is_said_in_one_line(
    held: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    called(folder, "good")
    (folder / "given").touch(0o600)
    (folder / "given").write_text(held)
    assert main(["receipts", "verify", "--key", str(folder / "given")]) == EXIT_USAGE
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert ("is not a file of format" if held == "{}" else "holds neither a key file's JSON nor a key") in said


def test_a_missing_file_of_receipts_is_said_in_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("verify", "tail"):
        assert main(["receipts", verb]) == EXIT_USAGE
        assert "receipts.jsonl: cannot be read" in capsys.readouterr().err  # and not: its key
