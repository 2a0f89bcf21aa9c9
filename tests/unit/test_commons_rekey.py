"""A new root, or a delegated role's new key, comes into force: logged, whole or taken up again, and members follow."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuf.api.metadata import Metadata, Snapshot, Targets  # type: ignore[attr-defined]

from interlock.base.errors import BadInput, InterlockError
from interlock.base.files import BadState
from interlock.base.keys import Ed25519Signer, Ed25519Verifier, dump_key
from interlock.commons import keyring, repository, steps
from interlock.commons.ceremony import Assembled, assemble, request_of, sign_request
from interlock.commons.holders import CeremonyRefused
from interlock.commons.ilpack import export_ilpack, verify_ilpack
from interlock.commons.keyring import make_next, named_key
from interlock.commons.known_operators import known_operators
from interlock.commons.layout import TOP_ROLES, entry_path, pack_path, proof_path
from interlock.commons.live import read_live
from interlock.commons.logged import NotLogged
from interlock.commons.operators import Operator, Operators
from interlock.commons.pack import sha256_hex
from interlock.commons.rootplan import Plan, plan_of
from interlock.commons.signers import load_keys
from interlock.commons.speakers import Speakers, former_keys
from interlock.commons.transcript import transcript_of
from interlock.transparency.entry import known_entry
from tests.attack.thief import Thief
from tests.unit.commons_world import World, log_policy, pack, seed, world


class Killed(Exception):
    """The process ends here."""


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        made.publisher.publish(pack(), "stable")
        yield made


def key_path(commons: World, role: str) -> Path:
    return commons.home / "commons" / "keys" / f"{role}.key"


def key_of(commons: World, role: str) -> str:
    return named_key(key_path(commons, role))


def next_key(commons: World, role: str) -> Ed25519Verifier:
    text = make_next(key_path(commons, role), lambda size: seed(f"next {role}").seed[:size])
    return Ed25519Verifier(bytes.fromhex(text.removeprefix("ed25519:")))


def signed(commons: World, plan: Plan, previous: bytes) -> Assembled:
    """The root of a plan, signed by ada and ben, with its transcript."""
    now_us = commons.clock.now_us()
    request = request_of(plan, previous, now_us)
    return assemble(request, [sign_request(request, seed(f"holder {name}")) for name in ("ada", "ben")], now_us)


def with_keys(commons: World, *roles: str) -> Assembled:
    plan = plan_of(commons.root)
    online = {**plan.online, **{role: next_key(commons, role) for role in roles}}
    return signed(commons, replace(plan, online=online), commons.root)


def follows(commons: World, name: str = "node") -> tuple[int, ...]:
    """A member updates; the versions of the packs in force."""
    member = commons.member(name)
    member.subscribe("team", "stable")
    return tuple(row.version for row in member.update().rows)


# a root


@pytest.mark.parametrize("roles", [(), ("timestamp",), ("snapshot",), ("targets",), TOP_ROLES])
def test_a_root_with_new_keys_comes_into_force_and_members_follow(commons: World, roles: tuple[str, ...]) -> None:
    assert follows(commons) == (1,)
    before = {role: key_of(commons, role) for role in TOP_ROLES}
    made = with_keys(commons, *roles)
    done = commons.publisher.install_root(made.root, made.transcript)
    assert done.version == 2
    assert {role for role in TOP_ROLES if key_of(commons, role) != before[role]} == set(roles)
    commons.publisher.publish(pack(2), "stable")
    assert follows(commons) == (2,)


def test_the_ceremony_of_a_root_is_a_logged_record(commons: World) -> None:
    made = with_keys(commons, "snapshot")
    by = key_of(commons, "snapshot")
    done = commons.publisher.install_root(made.root, made.transcript)
    record = commons.public / "records" / f"{sha256_hex(made.transcript)}.json"
    assert record.read_bytes() == made.transcript
    assert known_entry(record.with_suffix(".entry").read_bytes()) == done.entry
    assert (done.entry.type, done.entry.name, done.entry.version) == ("root", "root", 2)
    assert (done.entry.sha256, done.entry.by) == (sha256_hex(made.transcript), by)
    assert json.loads(made.transcript)["root"] == sha256_hex(made.root)


def test_a_root_is_installed_and_logged_once(commons: World) -> None:
    made = with_keys(commons, *TOP_ROLES)
    done = commons.publisher.install_root(made.root, made.transcript)
    entries = len([e for e in commons.log.calls if known_entry(e).type == "root"])
    assert commons.publisher.install_root(made.root, made.transcript) == done
    assert len([e for e in commons.log.calls if known_entry(e).type == "root"]) == entries == 1


def test_the_first_root_s_ceremony_is_logged_afterwards(commons: World) -> None:
    transcript = transcript_of(commons.root, None, commons.clock.now_us())
    done = commons.publisher.install_root(commons.root, transcript)
    assert (done.version, done.entry.sha256) == (1, sha256_hex(transcript))


def test_a_root_for_keys_that_nobody_here_has_changes_nothing(commons: World) -> None:
    plan = plan_of(commons.root)
    made = signed(commons, replace(plan, online={**plan.online, "snapshot": seed("elsewhere").verifier}), commons.root)
    before = len(commons.log.calls)
    with pytest.raises(BadState, match="holds no key of snapshot that the root names"):
        commons.publisher.install_root(made.root, made.transcript)
    assert len(commons.log.calls) == before
    assert not (commons.public / "metadata" / "2.root.json").exists()


def test_a_root_without_its_own_transcript_is_not_installed(commons: World) -> None:
    made = with_keys(commons, "snapshot")
    with pytest.raises(CeremonyRefused, match="not that of this root"):
        commons.publisher.install_root(made.root, transcript_of(commons.root, None, 1))
    assert not (commons.public / "metadata" / "2.root.json").exists()


def test_a_second_root_of_the_same_version_is_refused(commons: World) -> None:
    made = with_keys(commons)
    commons.publisher.install_root(made.root, made.transcript)
    other = signed(
        commons, replace(plan_of(commons.root), expires_us=plan_of(made.root).expires_us + 10**6), commons.root
    )
    with pytest.raises(CeremonyRefused, match="another root 2 is in force"):
        commons.publisher.install_root(other.root, other.transcript)


def test_a_root_that_names_a_log_policy_comes_with_it(commons: World) -> None:
    policy = log_policy() + b"# two witnesses\n"
    plan = replace(plan_of(commons.root), log_policy=sha256_hex(policy))
    made = signed(commons, plan, commons.root)
    with pytest.raises(BadInput, match="names a log policy"):
        commons.publisher.install_root(made.root, made.transcript)
    commons.publisher.install_root(made.root, made.transcript, log_policy=policy)
    assert commons.publisher.install_root(made.root, made.transcript).version == 2
    assert follows(commons) == (1,)


# a delegated role


@pytest.mark.parametrize("role", ["stable", "canary", "reviewed", "tasks"])
def test_a_delegated_role_gets_a_new_key_and_members_follow(commons: World, role: str) -> None:
    assert follows(commons) == (1,)
    before, text = key_of(commons, role), next_key(commons, role).text
    commons.publisher.rotate(role, text)
    assert key_of(commons, role) == text != before
    assert len(list((key_path(commons, role).parent / "retired").glob(f"{role}-*.key"))) == 1
    commons.publisher.publish(pack(2), "stable")
    assert follows(commons) == (2,)


def test_what_the_old_key_signs_is_worth_nothing_any_more(commons: World) -> None:
    old = key_path(commons, "stable").read_bytes()
    commons.publisher.rotate("stable", next_key(commons, "stable").text)
    key_path(commons, "stable").write_bytes(old)
    with pytest.raises(InterlockError, match="is not the key of role stable"):
        commons.publisher.publish(pack(2), "stable")


def test_a_second_rotation_makes_a_second_key(commons: World) -> None:
    seen = [key_of(commons, "beta")]
    for number in (1, 2):
        path = key_path(commons, "beta")
        following = path.with_name(path.name + ".next")
        following.write_bytes(dump_key(Ed25519Signer(bytes([number]) * 32)))
        following.chmod(0o600)
        commons.publisher.rotate("beta", named_key(following))
        seen.append(key_of(commons, "beta"))
    assert len(set(seen)) == 3


def test_a_top_role_is_not_rotated_without_its_keyholders(commons: World) -> None:
    with pytest.raises(BadInput, match="no delegated role"):
        commons.publisher.rotate("snapshot", next_key(commons, "snapshot").text)


# what a former key said


@pytest.mark.parametrize("times", [1, 2])
def test_a_new_node_takes_what_the_old_key_logged_before_it_was_replaced(commons: World, times: int) -> None:
    for number in range(times):
        path = key_path(commons, "stable")
        following = path.with_name(path.name + ".next")
        following.write_bytes(dump_key(Ed25519Signer(bytes([number + 1]) * 32)))
        following.chmod(0o600)
        commons.publisher.rotate("stable", named_key(following))
    assert follows(commons, "new") == (1,)
    data = export_ilpack(commons.public, "team", 1, "stable")
    assert verify_ilpack(data, commons.root, commons.policy, "f").pack.version == 1


def test_a_new_node_takes_a_list_that_a_former_snapshot_key_logged(commons: World) -> None:
    commons.publisher.publish_operators(Operators(1, (Operator("Acme", "Acme", {"commons": ("https://c.example",)}),)))
    made = with_keys(commons, "snapshot")
    commons.publisher.install_root(made.root, made.transcript)
    assert follows(commons, "new") == (1,)
    assert known_operators(commons.home / "new") is not None


def test_a_retired_key_that_was_stolen_logs_nothing_that_counts(commons: World) -> None:
    old = load_keys(commons.home / "commons" / "keys", ("stable",))["stable"].key
    commons.publisher.rotate("stable", next_key(commons, "stable").text)
    thief = Thief(commons)
    made = pack(2)
    late = thief.entry(made, by=old)
    path = pack_path("stable", "team", 2)
    thief.forge(made, lambda _: {entry_path(path): late, proof_path(path): commons.log.append(late)})
    for name in ("old", "new"):
        member = commons.member(name, thief.shows())
        member.subscribe("team", "stable")
        with pytest.raises(NotLogged, match="logged by a key that does not sign it"):
            member.update()


def test_all_that_a_former_snapshot_key_logged_counts_and_nothing_after(commons: World) -> None:
    old = key_of(commons, "snapshot")
    made = with_keys(commons, "snapshot")
    commons.clock.advance(5 * 86_400)  # so that a snapshot is due between the request and the root
    commons.publisher.renew()
    commons.publisher.install_root(made.root, made.transcript)
    commons.publisher.publish(pack(2), "stable")
    by = [known_entry(entry).by for entry in commons.log.calls]
    version = commons.publisher.steps.repository.versions()["snapshot"]
    former = former_keys(
        Metadata[Snapshot].from_bytes(commons.publisher.steps.repository.metadata(f"{version}.snapshot")).signed
    )
    last = max(index for index, key in enumerate(by) if key == old)
    assert last < former[old] <= next(index for index, key in enumerate(by) if key == key_of(commons, "snapshot"))


@given(st.integers(0, 30), st.integers(0, 30))
def test_a_former_key_counts_below_the_index_where_it_ended_and_nowhere_else(index: int, until: int) -> None:
    speakers = Speakers(frozenset({"now"}), {"former": until})
    assert speakers.may_say("now", index)
    assert speakers.may_say("former", index) == (index < until)
    assert not speakers.may_say("nobody", index)


@pytest.mark.parametrize("rows", [None, [], "x", {"k": "1"}, {"k": -1}, {"k": True}, {"k": 1.5}])
def test_a_row_of_former_keys_that_is_none_gives_no_key_a_word(rows: object) -> None:
    signed = Targets(unrecognized_fields={"x-interlock-former-keys": rows})
    assert former_keys(signed) == {}


# killed anywhere


def _kill_at(monkeypatch: pytest.MonkeyPatch, number: int) -> list[int]:
    """The process ends at its `number`th write below the commons; the count of writes that it came to."""
    count = [0]

    def counted(write: Callable[..., None]) -> Callable[..., None]:
        def call(*args: object, **more: object) -> None:
            count[0] += 1
            if count[0] == number:
                raise Killed
            write(*args, **more)

        return call

    for module, name in ((steps, "replace_file"), (repository, "replace"), (keyring, "replace"), (keyring, "activate")):
        monkeypatch.setattr(module, name, counted(getattr(module, name)))
    return count


INSTALL, ROTATE = 26, 15  # writes of each, as the last test counts them


def _points(writes: int, step: int) -> list[object]:
    """Every write, most of them slow; the quick ones are `step` apart."""
    return [pytest.param(n, marks=[] if n % step == 1 else pytest.mark.slow) for n in range(1, writes + 1)]


def _keeps_what_it_has(commons: World) -> None:
    """An update in the middle of it is refused or not; what was in force is."""
    with contextlib.suppress(InterlockError):
        follows(commons)
    assert [row.version for row in read_live(commons.home / "node").rows.values()] == [1]


@pytest.mark.parametrize("number", _points(INSTALL, 5))
def test_an_install_that_was_killed_anywhere_is_taken_up_again(
    commons: World, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    assert follows(commons) == (1,)
    made = with_keys(commons, *TOP_ROLES)
    with monkeypatch.context() as patch:
        _kill_at(patch, number)
        with pytest.raises(Killed):
            commons.publisher.install_root(made.root, made.transcript)
    _keeps_what_it_has(commons)
    assert commons.publisher.install_root(made.root, made.transcript).version == 2
    commons.publisher.publish(pack(2), "stable")
    assert follows(commons) == (2,)
    assert len([e for e in set(commons.log.calls) if known_entry(e).type == "root"]) == 1


@pytest.mark.parametrize("number", _points(ROTATE, 5))
def test_a_rotation_that_was_killed_anywhere_is_taken_up_by_the_next_renewal(
    commons: World, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    assert follows(commons) == (1,)
    text = next_key(commons, "stable").text
    with monkeypatch.context() as patch:
        _kill_at(patch, number)
        with pytest.raises(Killed):
            commons.publisher.rotate("stable", text)
    _keeps_what_it_has(commons)
    commons.publisher.renew()
    assert follows(commons) == (1,)
    commons.publisher.rotate("stable", text)
    commons.publisher.publish(pack(2), "stable")
    assert follows(commons) == (2,)
    assert key_of(commons, "stable") == text


def test_there_are_as_many_writes_as_the_tests_above_visit(commons: World, monkeypatch: pytest.MonkeyPatch) -> None:
    made, text = with_keys(commons, *TOP_ROLES), next_key(commons, "stable").text
    count = _kill_at(monkeypatch, 0)
    commons.publisher.install_root(made.root, made.transcript)
    assert count == [INSTALL]
    commons.publisher.rotate("stable", text)
    assert count == [INSTALL + ROTATE]
