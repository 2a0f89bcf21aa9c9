"""An issuer's key in another's place: old epochs stay as they were, and members follow the old key's word alone."""

from __future__ import annotations

import dataclasses
import itertools
import json
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from interlock.base.blind_rsa import PythonBlindRsa
from interlock.base.claims import failing
from interlock.base.clock import ManualClock
from interlock.base.codec import Malformed
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from interlock.base.fetch import NotFound, Unreachable
from interlock.base.files import replace
from interlock.base.keys import BadKey, Ed25519Verifier, dump_key
from interlock.base.primitives import BadSignature
from interlock.commons import issuer_keys
from interlock.commons.enrolment import dump_enrolment, dump_token_request, parse_certificate, parse_count
from interlock.commons.issuer_keys import ISSUER_KEY, IssuerKeys, read_issuer_keys, succeed
from interlock.commons.membership import (
    BLIND,
    CERTIFICATE,
    MembershipProof,
    certificate_message,
    owed_by,
    parse_member_keys,
)
from interlock.commons.succession import CHAIN_MOST, dump_succession, parse_chain
from interlock.dap.task import Task, TaskRefused
from interlock.dap.transport import Reply
from interlock.node.cli import mesh_joined
from interlock.node.cli.main import main
from interlock.node.roles.issuer import Issuer
from interlock.node.roles.issuer_http import app
from interlock.node.roles.member import Credentials, IssuerRefused, read_joined, successors_of
from interlock.node.storage.issuer import Refused
from tests.sim.reaper import Killed
from tests.unit.commons_world import seed
from tests.unit.dap_http import free_socket, serving
from tests.unit.dap_world import lost, task
from tests.unit.membership_world import DAY_US, NAME, OPERATOR, URL, IssuerWorld, Organisation, membership

EPOCH = 500_000
BOTH = pytest.mark.parametrize("backend", [BLIND, CERTIFICATE])


class RotatingWorld(IssuerWorld):
    """An issuer whose keys lie in a folder, as they do where one is served."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        super().__init__(folder, clock)
        self.folder = folder
        replace(folder / ISSUER_KEY, dump_key(self.signer))

    def rotate(self) -> Ed25519Verifier:
        """A new key, and the issuer started again with it."""
        succeed(self.folder, self.rng, self.clock.now_us())
        return self.restart()

    def restart(self) -> Ed25519Verifier:
        keys = read_issuer_keys(self.folder)
        self.signer = keys.signer
        self.issuer = Issuer(self.store, keys, OPERATOR, PythonBlindRsa(), self.clock, self.rng)
        return self.signer.verifier


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RotatingWorld]:
    found = RotatingWorld(tmp_path, ManualClock())
    yield found
    found.close()


@pytest.fixture
def acme(tmp_path: Path, world: RotatingWorld) -> Iterator[Organisation]:
    found = Organisation("acme", tmp_path / "acme", world)
    yield found
    found.close()


def counted(backend: str = BLIND) -> Task:
    return task(membership=membership(backend))


def holds(world: IssuerWorld, proof: MembershipProof, task_id: bytes) -> bool:
    """Whether an aggregator takes a report with this proof, by the member keys that the commons has published."""
    owed = owed_by(
        world.keys_of(NAME, proof.epoch),
        task_id=task_id,
        report_id=proof.report_id,
        time=proof.epoch,
        public_share=b"share",
        proof=proof.extension(task_id, proof.epoch, b"share"),
    )
    return not failing([owed])


# between two epochs


@BOTH
def test_a_member_follows_to_the_new_key_and_still_gets_what_the_old_one_opened(
    world: RotatingWorld, acme: Organisation, backend: str
) -> None:
    counts, old = counted(backend), world.signer.verifier
    before = world.open_epoch(EPOCH, backend=backend)
    new = world.rotate()
    after = world.open_epoch(EPOCH + 1, backend=backend, key=1)
    assert (before.issuer, after.issuer) == (old, new)
    assert holds(world, acme.proof(counts, EPOCH + 1), counts.task_id)
    found = read_joined(acme.home)
    assert (found.issuer, found.former) == (new, (old,))
    assert found.certificate is not None
    assert (found.certificate.issuer, found.certificate.organisation) == (new, "acme")
    assert holds(world, acme.proof(counts, EPOCH), counts.task_id)  # the old epoch, by a member that went on
    assert world.store.counts(NAME, EPOCH) == world.store.counts(NAME, EPOCH + 1) == (1, 1)


@BOTH
def test_a_member_that_does_not_know_of_it_is_served_in_the_old_epoch(
    world: RotatingWorld, acme: Organisation, backend: str
) -> None:
    old = world.open_epoch(EPOCH, backend=backend).issuer
    world.rotate()
    assert holds(world, acme.proof(counted(backend), EPOCH), counted(backend).task_id)
    assert read_joined(acme.home).issuer == old
    count = parse_count(world.issuer.count(NAME, EPOCH))
    assert (count.issuer, count.issued) == (old, 1)


def test_a_request_whose_answer_was_lost_is_answered_after_the_rotation(
    world: RotatingWorld, acme: Organisation
) -> None:
    world.open_epoch(EPOCH)
    world.after = lost
    with pytest.raises(Unreachable):
        acme.proof(counted(), EPOCH)
    world.after = lambda reply: reply
    world.rotate()
    assert holds(world, acme.proof(counted(), EPOCH), counted().task_id)
    assert world.store.counts(NAME, EPOCH) == (1, 1)


def test_a_member_that_missed_two_rotations_follows_both(world: RotatingWorld, acme: Organisation) -> None:
    old, between = world.signer.verifier, world.rotate()
    new = world.rotate()
    world.open_epoch(EPOCH, backend=CERTIFICATE)
    acme.proof(counted(CERTIFICATE), EPOCH)
    found = read_joined(acme.home)
    assert (found.issuer, found.former) == (new, (old, between))
    again = Credentials(found, acme.store, world.keys_of, world, PythonBlindRsa(), acme.rng)
    assert again.held(counted(CERTIFICATE), EPOCH) is not None
    world.signer = seed("issuer")  # an epoch that the first key opened
    world.open_epoch(EPOCH + 1, backend=CERTIFICATE)
    assert again.proof(counted(CERTIFICATE), EPOCH + 1).epoch == EPOCH + 1


def test_another_process_of_the_organisation_need_not_ask_again(world: RotatingWorld, acme: Organisation) -> None:
    other = Credentials(acme.joined, acme.store, world.keys_of, world, PythonBlindRsa(), acme.rng)
    world.rotate()
    for epoch in (EPOCH, EPOCH + 1):
        world.open_epoch(epoch, backend=CERTIFICATE)
    acme.proof(counted(CERTIFICATE), EPOCH)
    asked = len(world.asked)
    other.proof(counted(CERTIFICATE), EPOCH + 1)
    assert len(world.asked) == asked + 1  # for the credential


def test_one_that_was_revoked_does_not_come_back_by_a_rotation(world: RotatingWorld, acme: Organisation) -> None:
    old = world.signer.verifier
    world.store.revoke("acme", world.clock.now_us())
    world.rotate()
    world.open_epoch(EPOCH)
    with pytest.raises(IssuerRefused, match="revoked"):
        acme.proof(counted(), EPOCH)
    assert read_joined(acme.home).issuer == old


# without the old key's word


def _by_a_thief(old: Ed25519Verifier, new: Ed25519Verifier) -> bytes:
    return dump_succession(seed("thief"), new, 7)


def _with_another_successor(old: Ed25519Verifier, new: Ed25519Verifier) -> bytes:
    body = json.loads(dump_succession(seed("issuer"), seed("honest").verifier, 7))
    return json.dumps({**body, "successor": new.text}, sort_keys=True, separators=(",", ":")).encode()


def _to_another(old: Ed25519Verifier, new: Ed25519Verifier) -> bytes:
    return dump_succession(seed("issuer"), seed("honest").verifier, 7)


def _with_a_gap(old: Ed25519Verifier, new: Ed25519Verifier) -> bytes:
    return dump_succession(seed("issuer"), seed("honest").verifier, 7) + b"\n" + _by_a_thief(old, new)


def _nothing(old: Ed25519Verifier, new: Ed25519Verifier) -> bytes:
    return b""


@pytest.mark.parametrize("forged", [_by_a_thief, _with_another_successor, _to_another, _with_a_gap, _nothing])
def test_a_key_that_the_old_one_did_not_name_is_refused(
    world: RotatingWorld, acme: Organisation, forged: Callable[[Ed25519Verifier, Ed25519Verifier], bytes]
) -> None:
    before = (acme.home / "member.json").read_bytes()
    old, thief = world.signer.verifier, seed("thief")
    keys = dataclasses.replace(world.open_epoch(EPOCH), issuer=thief.verifier)
    acme.credentials._keys_of = lambda name, epoch: keys
    world.after = lambda reply: Reply(200, body=forged(old, thief.verifier))
    world.issuer.successors = lambda key: b"x"  # type: ignore[method-assign]
    with pytest.raises(TaskRefused, match="issuer"):
        acme.proof(counted(), EPOCH)
    assert (acme.home / "member.json").read_bytes() == before
    assert world.store.counts(NAME, EPOCH) == (0, 1)


def test_an_issuer_that_knows_no_successor_is_followed_nowhere(world: RotatingWorld, acme: Organisation) -> None:
    keys = dataclasses.replace(world.open_epoch(EPOCH), issuer=seed("thief").verifier)
    acme.credentials._keys_of = lambda name, epoch: keys
    with pytest.raises(TaskRefused):
        acme.proof(counted(), EPOCH)


def test_a_chain_is_bounded_and_never_comes_back() -> None:
    keys = [seed(f"key {i}") for i in range(CHAIN_MOST + 2)]
    lines = [dump_succession(a, b.verifier, 7) for a, b in itertools.pairwise(keys)]
    found = parse_chain(b"\n".join(lines[:CHAIN_MOST]), keys[0].verifier)
    assert found == tuple(key.verifier for key in keys[1 : CHAIN_MOST + 1])
    with pytest.raises(Malformed, match="more than 32"):
        parse_chain(b"\n".join(lines), keys[0].verifier)
    circle = b"\n".join([lines[0], dump_succession(keys[1], keys[0].verifier, 7)])
    with pytest.raises(Malformed, match="comes back"):
        parse_chain(circle, keys[0].verifier)
    with pytest.raises(Malformed, match="own successor"):
        parse_chain(dump_succession(keys[0], keys[0].verifier, 7), keys[0].verifier)


# what a former key is good for at the issuer


def test_a_request_is_taken_only_under_the_key_that_opened_its_epoch(world: RotatingWorld, acme: Organisation) -> None:
    old = world.signer.verifier
    world.open_epoch(EPOCH, backend=CERTIFICATE)
    new = world.rotate()
    world.open_epoch(EPOCH + 1, backend=CERTIFICATE)
    for epoch, wrong in ((EPOCH, new), (EPOCH + 1, old)):
        request = dump_token_request(
            acme.joined.signer, task=NAME, epoch=epoch, task_id=bytes(32), blinded=b"", issuer=wrong
        )
        with pytest.raises(Refused, match="is not of the key"):
            world.issuer.process_request(request)


def test_a_former_key_enrols_until_its_epochs_are_over(world: RotatingWorld) -> None:
    old = world.open_epoch(EPOCH, lasts_us=DAY_US).issuer
    new = world.rotate()
    asked = dump_enrolment(seed("globex"), "globex", world.invite(days=9), old)
    assert parse_certificate(world.issuer.process_enrolment(asked)).issuer == old
    world.clock.advance(86_400)
    with pytest.raises(Refused, match="former key") as told:
        world.issuer.process_enrolment(asked)
    assert new.text in str(told.value)


def test_without_the_former_keys_file_its_counts_are_in_the_word_of_the_new_one(
    world: RotatingWorld, acme: Organisation
) -> None:
    old = world.open_epoch(EPOCH, backend=CERTIFICATE).issuer
    blind = world.open_epoch(EPOCH + 1).issuer
    assert blind == old
    new = world.rotate()
    (kept,) = (world.folder / "retired").iterdir()
    assert kept.stat().st_mode & 0o077 == 0
    kept.unlink()
    world.restart()
    assert parse_count(world.issuer.count(NAME, EPOCH)).issuer == new
    assert successors_of(URL, old, world) == (new,)  # which is what an audit asks for
    assert acme.proof(counted(), EPOCH + 1).signature  # a blind signature needs the epoch's own key alone
    with pytest.raises(IssuerRefused, match="not here any more"):
        acme.proof(counted(CERTIFICATE), EPOCH)
    assert world.store.counts(NAME, EPOCH)[0] == 0


def test_http_serves_the_chain_of_a_former_key(world: RotatingWorld) -> None:
    old, new = world.signer.verifier, world.rotate()
    sock = free_socket()
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    with serving(app(world.issuer), sock), httpx.Client(base_url=url, trust_env=False) as http:
        assert parse_chain(http.get(f"/successors/{old.public.hex()}").content, old) == (new,)
        for unknown in (new.public.hex(), "x", "0" * 5000):
            assert http.get(f"/successors/{unknown}").status_code == 404


def test_an_audit_takes_a_count_in_the_word_of_a_key_that_followed_and_of_no_other(
    world: RotatingWorld, acme: Organisation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = world.open_epoch(EPOCH, backend=CERTIFICATE)
    acme.proof(counted(CERTIFICATE), EPOCH)
    settings, sock = tmp_path / "interlock.toml", free_socket()
    settings.write_text(f'[mesh]\nhome = "{acme.home}"\norganisation = "acme"\ncommons = "https://mirror.test"\n')
    subscriber = types.SimpleNamespace(member_keys=lambda name, epoch: published)
    monkeypatch.setattr(mesh_joined, "subscriber_of", lambda config: subscriber)
    issuer = f"http://127.0.0.1:{sock.getsockname()[1]}"
    audit = ["mesh", "members", "audit", NAME, str(EPOCH), "--issuer", issuer, "--config", str(settings)]
    world.rotate()
    (kept,) = (world.folder / "retired").iterdir()
    with serving(app(world.issuer), sock):
        assert main(audit) == EXIT_OK  # in the word of the old key
        kept.unlink()
        for keys, code in ((read_issuer_keys(world.folder), EXIT_OK), (IssuerKeys(seed("stranger")), EXIT_REFUSED)):
            other = Issuer(world.store, keys, OPERATOR, PythonBlindRsa(), world.clock, world.rng)
            world.issuer.count = other.count  # type: ignore[method-assign]
            assert main(audit) == code  # the one that followed it, and one that did not


# killed anywhere


WRITES = 4


def _kill_at(monkeypatch: pytest.MonkeyPatch, number: int) -> list[int]:
    """The process ends at its `number`th write; the count of writes that it came to."""
    count = [0]

    def counted_call(write: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **more: object) -> object:
            count[0] += 1
            if count[0] == number:
                raise Killed
            return write(*args, **more)

        return call

    for name in ("replace", "make_next", "sync_dir"):
        monkeypatch.setattr(issuer_keys, name, counted_call(getattr(issuer_keys, name)))
    return count


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_rotation_that_was_killed_before_its_end_leaves_the_old_key_and_is_finished_by_the_next(
    world: RotatingWorld, acme: Organisation, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    old = world.open_epoch(EPOCH, backend=CERTIFICATE).issuer
    with monkeypatch.context() as patch:
        _kill_at(patch, number)
        with pytest.raises(Killed):
            world.rotate()
    assert world.restart() == old
    made = (world.folder / "issuer.key.next").read_bytes() if number > 1 else b""
    assert acme.proof(counted(CERTIFICATE), EPOCH).signature
    new = world.rotate()
    assert new != old
    assert made in (b"", (world.folder / ISSUER_KEY).read_bytes())
    assert parse_chain(world.issuer.successors(old.public.hex()), old) == (new,)
    assert not (world.folder / "issuer.key.next").exists()


def test_a_rotation_that_was_killed_at_its_end_is_whole(world: RotatingWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    old = world.signer.verifier
    with monkeypatch.context() as patch:
        count = _kill_at(patch, WRITES)
        with pytest.raises(Killed):
            world.rotate()
    assert count == [WRITES]
    new = world.restart()
    assert new != old
    assert parse_chain(world.issuer.successors(old.public.hex()), old) == (new,)


def test_a_next_key_that_got_lost_is_made_again_and_named_in_its_place(
    world: RotatingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = world.signer.verifier
    with monkeypatch.context() as patch:
        _kill_at(patch, 3)
        with pytest.raises(Killed):
            world.rotate()
    (world.folder / "issuer.key.next").unlink()
    new = world.rotate()
    assert parse_chain(world.issuer.successors(old.public.hex()), old) == (new,)


def test_a_statement_that_was_changed_stops_the_issuer(world: RotatingWorld) -> None:
    world.rotate()
    (told,) = (world.folder / "successors").iterdir()
    good = told.read_bytes()
    for bad in (b"", good[:-9], good.replace(b"ed25519:", b"ed25519:0", 1), good.replace(b'"at":', b'"at":1')):
        told.write_bytes(bad)
        with pytest.raises((Malformed, BadSignature)):
            read_issuer_keys(world.folder)


# from the command line


def run(*argv: str | Path) -> int:
    return main(["mesh", "keys", *map(str, argv)])


def test_the_commands_list_rotate_and_export_an_issuers_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, phrase = tmp_path / "issuer", tmp_path / "phrase"
    replace(phrase, b"a long passphrase of several words")
    assert main(["mesh", "setup", "--role", "issuer", "--dir", str(folder), "--operator", OPERATOR]) == EXIT_OK
    old = read_issuer_keys(folder).signer.verifier
    capsys.readouterr()
    assert run("list", "--dir", folder, "--json") == EXIT_OK
    (row,) = json.loads(capsys.readouterr().out)["keys"]
    assert (row["role"], row["state"], row["sealed"]) == ("issuer", "in use", False)
    assert run("rotate", "issuer", "--dir", folder, "--activate") == EXIT_USAGE
    assert read_issuer_keys(folder).signer.verifier == old
    capsys.readouterr()
    assert run("rotate", "issuer", "--dir", folder, "--passphrase-file", phrase) == EXIT_OK
    said = capsys.readouterr().out
    assert run("export", "issuer", "--dir", folder) == EXIT_OK
    new = capsys.readouterr().out.strip()
    assert new != old.text
    assert f"new key: {new}" in said
    assert "restart the issuer" in said
    assert run("list", "--dir", folder) == EXIT_OK
    assert "sealed" in capsys.readouterr().out
    with pytest.raises(BadKey):
        read_issuer_keys(folder)
    monkeypatch.setenv("INTERLOCK_PASSPHRASE_FILE", str(phrase))  # one passphrase opens both
    keys = read_issuer_keys(folder)
    assert keys.signer.verifier.text == new
    assert list(keys.former) == list(keys.successions) == [old.text]
    assert run("rotate", "issuer", "--dir", tmp_path) == EXIT_USAGE


def test_a_certificate_of_an_old_epoch_is_signed_with_its_key(world: RotatingWorld, acme: Organisation) -> None:
    old = world.open_epoch(EPOCH, backend=CERTIFICATE).issuer
    new = world.rotate()
    proof = acme.proof(counted(CERTIFICATE), EPOCH)
    message = certificate_message(proof.task_id, EPOCH, acme.joined.signer.verifier.public)
    old.verify(message, proof.signature)
    with pytest.raises(BadSignature):
        new.verify(message, proof.signature)
    with pytest.raises(NotFound):
        world.issuer.successors(new.public.hex())


@BOTH
def test_member_keys_of_a_rotated_issuer_show_which_keys_it_followed(world: RotatingWorld, backend: str) -> None:
    before = world.signer.verifier
    old = parse_member_keys(opened(world, EPOCH, backend), where="old")
    between = world.rotate()
    world.rotate()
    new = parse_member_keys(opened(world, EPOCH + 1, backend), where="new")
    assert (old.issuer, old.former) == (before, ())
    assert new.former == (before, between)
    assert b"follows" not in old.data


def opened(world: RotatingWorld, epoch: int, backend: str) -> bytes:
    return world.issuer.open_epoch(NAME, epoch, backend, 0, DAY_US, bits=2048)
