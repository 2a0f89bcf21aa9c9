"""The root ceremony: only enough different keyholders together make a root."""

from __future__ import annotations

import json

import pytest

from interlock.base.clock import ManualClock
from interlock.base.keys import BadKey, Ed25519Verifier, load_key
from interlock.commons.ceremony import (
    CeremonyRefused,
    Holder,
    draft_next,
    draft_root,
    finish_root,
    holders_of,
    new_holder,
    sign_root,
)
from interlock.commons.layout import TOP_ROLES
from tests.unit.commons_world import HOLDERS, Counter, seed

NOW = ManualClock().now_us()


def _holders(*names: str) -> list[Holder]:
    return [Holder(name, seed(f"holder {name}").verifier) for name in names]


def _online(generation: int = 1) -> dict[str, Ed25519Verifier]:
    return {role: seed(f"{role} {generation}").verifier for role in TOP_ROLES}


def _draft(threshold: int = 2, names: tuple[str, ...] = HOLDERS) -> bytes:
    return draft_root(_holders(*names), _online(), threshold=threshold, now_us=NOW)


def _signed(draft: bytes, *names: str, previous: bytes | None = None) -> bytes:
    for name in names:
        draft = sign_root(draft, seed(f"holder {name}"), previous=previous)
    return draft


def test_two_of_three_keyholders_make_a_root() -> None:
    root = finish_root(_signed(_draft(), "ada", "cleo"))
    assert holders_of(root) == tuple(_holders(*HOLDERS))
    assert json.loads(root)["signed"]["roles"]["root"]["threshold"] == 2


def test_one_keyholder_alone_makes_no_root() -> None:
    with pytest.raises(CeremonyRefused, match="signed by 1 keyholders, and 2 have to"):
        finish_root(_signed(_draft(), "ada"))


def test_a_quorum_of_one_is_refused() -> None:
    with pytest.raises(CeremonyRefused, match="quorum of 1"):
        _draft(threshold=1)


def test_a_quorum_of_one_is_refused_at_the_end_too() -> None:
    body = json.loads(_draft())
    body["signed"]["roles"]["root"]["threshold"] = 1
    with pytest.raises(CeremonyRefused, match="single keyholder"):
        finish_root(_signed(json.dumps(body).encode(), "ada"))


def test_a_quorum_larger_than_the_circle_is_refused() -> None:
    with pytest.raises(CeremonyRefused, match="4 have to sign"):
        _draft(threshold=4)


def test_the_same_name_twice_is_refused() -> None:
    with pytest.raises(CeremonyRefused, match="keyholder's name"):
        _draft(names=("ada", "ada", "ben"))


def test_the_same_key_under_two_names_is_refused() -> None:
    holders = [*_holders("ada", "ben"), Holder("cleo", seed("holder ada").verifier)]
    with pytest.raises(CeremonyRefused, match="keyholder's key"):
        draft_root(holders, _online(), threshold=2, now_us=NOW)


def test_the_same_holder_signing_twice_is_refused() -> None:
    with pytest.raises(CeremonyRefused, match="signed already"):
        _signed(_draft(), "ada", "ada")


def test_a_stranger_s_signature_is_refused() -> None:
    with pytest.raises(CeremonyRefused, match="no key of this root"):
        _signed(_draft(), "mallory")


def test_a_root_key_may_not_be_an_online_key() -> None:
    online = {**_online(), "timestamp": seed("holder ada").verifier}
    with pytest.raises(CeremonyRefused, match="online key too"):
        draft_root(_holders(*HOLDERS), online, threshold=2, now_us=NOW)


def test_a_changed_draft_loses_its_signatures() -> None:
    body = json.loads(_signed(_draft(), "ada", "ben"))
    body["signed"]["expires"] = "2099-01-01T00:00:00Z"
    with pytest.raises(CeremonyRefused, match="signed by 0"):
        finish_root(json.dumps(body).encode())


def test_a_new_circle_needs_the_old_one_s_quorum_and_its_own() -> None:
    first = finish_root(_signed(_draft(), "ada", "ben"))
    draft = draft_next(first, _holders("cleo", "dora", "emil"), _online(2), threshold=2, now_us=NOW)
    only_new = _signed(draft, "dora", "emil", previous=first)
    with pytest.raises(CeremonyRefused):
        finish_root(only_new, previous=first)
    both = _signed(only_new, "ada", "ben", previous=first)
    assert json.loads(finish_root(both, previous=first))["signed"]["version"] == 2


def test_a_root_that_skips_a_version_is_refused() -> None:
    first = finish_root(_signed(_draft(), "ada", "ben"))
    with pytest.raises(CeremonyRefused, match="does not follow"):
        finish_root(first, previous=first)


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b"[1]", b'{"signed": {"_type": "timestamp"}}'])
def test_what_is_no_root_is_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(CeremonyRefused) as caught:
        finish_root(data)
    assert "\n" not in str(caught.value)


def test_a_ceremony_key_opens_with_its_passphrase_only() -> None:
    holder, sealed = new_holder("ada", b"correct horse", Counter(), memory=1 << 16)
    opened = load_key(sealed, where="ada.key", passphrase=b"correct horse", least_memory=1 << 16)
    assert opened.verifier == holder.key
    assert b"seed" not in sealed
    for wrong in (b"correct hors", None):
        with pytest.raises(BadKey):
            load_key(sealed, where="ada.key", passphrase=wrong, least_memory=1 << 16)


def test_a_ceremony_key_without_passphrase_is_refused() -> None:
    with pytest.raises(CeremonyRefused, match="passphrase"):
        new_holder("ada", b"", Counter(), memory=1 << 16)
