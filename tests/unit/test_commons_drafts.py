"""What holders of targets are shown: no change of a draft passes unsaid, and no bytes make anything but one line."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.base.files import BadState, NewerFormat
from interlock.commons.ceremony import Request, assemble, parse_request, request_targets, sign_request
from interlock.commons.holders import CeremonyRefused
from interlock.commons.layout import REMOVALS_PATH, REVIEWERS_PATH
from interlock.commons.operators import OPERATORS_PATH, Operator, Operators
from interlock.commons.pack import sha256_hex
from interlock.commons.reviewers import Reviewer, Reviewers
from interlock.commons.rootplan import expiry_us
from interlock.commons.steps import NeedsHolders
from interlock.commons.toplevel import Draft
from interlock.commons.waiting import draft_of, read_waiting
from tests.unit.commons_world import World, hand_over, pack, seed, world


@pytest.fixture(scope="module")
def commons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Reviewers, a removal and a new key wait for the three who hold targets."""
    with world(tmp_path_factory.mktemp("commons")) as made:
        made.publisher.publish(pack(), "stable")
        hand_over(made)
        changes: tuple[Callable[[], object], ...] = (
            lambda: made.publisher.set_reviewers(Reviewers({"rob": Reviewer(seed("rob").verifier.text)})),
            lambda: made.publisher.revoke("team", 1, why="wrong", removal=True),
            lambda: made.publisher.rotate("beta", seed("another").verifier.text),
        )
        for change in changes:
            with pytest.raises(NeedsHolders):
                change()
        yield made


@pytest.fixture(scope="module")
def asked(commons: World) -> Request:
    draft = draft_of(commons.home / "commons", expiry_us("root", commons.clock.now_us()), {})
    return request_targets(commons.publisher.steps.repository.root(), draft)


def _leaves(node: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    if isinstance(node, dict | list):
        rows = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in rows:
            yield from _leaves(value, (*path, key))
    else:
        yield path


def _changed(body: object, path: tuple[object, ...]) -> bytes:
    """The JSON with one leaf changed."""
    made = copy.deepcopy(body)
    node: object = made
    for key in path[:-1]:
        node = node[key]  # type: ignore[index]
    was = node[path[-1]]  # type: ignore[index]
    other = not was if isinstance(was, bool) else was + 1 if isinstance(was, int) else f"{was}x"
    node[path[-1]] = other  # type: ignore[index]
    return json.dumps(made).encode()


def test_whatever_is_changed_in_a_draft_is_refused_or_said(asked: Request) -> None:
    assert asked.draft is not None
    body, words = json.loads(asked.draft.data), asked.words
    paths = list(_leaves(body))
    assert len(paths) > 50
    for path in paths:
        draft = Draft(_changed(body, path), asked.draft.before, asked.draft.files)
        with contextlib.suppress(CeremonyRefused):
            assert request_targets(asked.root, draft).words != words, path


@pytest.mark.parametrize("where", ["signed", "delegations", "roles", "keys", "targets"])
def test_a_field_that_no_words_tell_is_refused_wherever_it_stands(asked: Request, where: str) -> None:
    assert asked.draft is not None
    body = json.loads(asked.draft.data)
    signed = body["signed"]
    node = {
        "signed": signed,
        "delegations": signed["delegations"],
        "roles": signed["delegations"]["roles"][0],
        "keys": next(iter(signed["delegations"]["keys"].values())),
        "targets": signed["targets"][REVIEWERS_PATH],
    }[where]
    node["x-more"] = 1
    draft = Draft(json.dumps(body).encode(), asked.draft.before, asked.draft.files)
    with pytest.raises(CeremonyRefused, match="says more than can be told"):
        request_targets(asked.root, draft)


def test_targets_name_no_file_that_is_none_of_a_commons_and_no_pack(asked: Request) -> None:
    assert asked.draft is not None
    body = json.loads(asked.draft.data)
    body["signed"]["targets"]["packs/stable/team/9.json"] = {"length": 1, "hashes": {"sha256": "ab" * 32}}
    draft = Draft(json.dumps(body).encode(), asked.draft.before, asked.draft.files)
    with pytest.raises(CeremonyRefused, match="none of a commons'"):
        request_targets(asked.root, draft)


def test_a_request_without_a_file_that_is_new_is_refused(asked: Request) -> None:
    assert asked.draft is not None
    with pytest.raises(CeremonyRefused, match="does not hold"):
        request_targets(asked.root, Draft(asked.draft.data, asked.draft.before, ()))


def test_what_changes_is_told_beside_targets_that_were_signed_and_no_others(asked: Request) -> None:
    """Whoever asks could put the change into targets "before", and holders would read of a later end alone."""
    assert asked.draft is not None
    assert asked.draft.before is not None
    lie, before = json.loads(asked.draft.data), json.loads(asked.draft.before)
    lie["signed"]["version"] = before["signed"]["version"]
    for signatures in (list[object](), before["signatures"]):
        body = json.dumps({**lie, "signatures": signatures}).encode()
        with pytest.raises(CeremonyRefused, match="are not those that were signed"):
            request_targets(asked.root, Draft(asked.draft.data, body))


def test_a_removal_is_not_dropped_unsaid(commons: World, asked: Request) -> None:
    """A draft without the list as it was would have holders take a shorter list for all there ever was."""
    assert asked.draft is not None
    done = assemble(asked, [sign_request(asked, seed(f"holder {name}")) for name in ("tara", "tom")], 7)
    body, empty = json.loads(asked.draft.data), b"[]"
    was = body["signed"]["targets"][REMOVALS_PATH]["hashes"]["sha256"]
    body["signed"]["targets"][REMOVALS_PATH] = {"length": len(empty), "hashes": {"sha256": sha256_hex(empty)}}
    body["signed"]["version"] += 1
    data = json.dumps(body).encode()
    with pytest.raises(CeremonyRefused, match="as it was"):
        request_targets(asked.root, Draft(data, done.targets, (empty,)))
    old = next(file for file in asked.draft.files if sha256_hex(file) == was)
    words = request_targets(asked.root, Draft(data, done.targets, (empty, old))).words
    assert any("no longer lists the removal of team version 1" in line for line in words)


def test_a_list_of_operators_is_told_with_each_key_and_address(commons: World) -> None:
    listed = Operators(
        1, (Operator("log", "Acme", {"log": (seed("log").verifier.text,), "issuer": ("https://i.example",)}),)
    )
    draft = draft_of(commons.home / "commons", expiry_us("root", commons.clock.now_us()), {OPERATORS_PATH: listed.data})
    words = "\n".join(request_targets(commons.publisher.steps.repository.root(), draft).words)
    assert f"log: {seed('log').verifier.text}" in words
    assert "issuer: https://i.example" in words


def test_any_byte_of_a_request_that_is_changed_is_one_line(asked: Request) -> None:
    good = asked.data
    assert parse_request(good, where="r") == asked
    for at in range(0, len(good), max(1, len(good) // 300)):
        bad = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
        with contextlib.suppress(CeremonyRefused, NewerFormat):
            assert parse_request(bad, where="r") == asked, "it reads as what it was, or not at all"


def test_a_damaged_list_of_what_waits_is_one_line_and_changes_nothing(commons: World, tmp_path: Path) -> None:
    good = (commons.home / "commons" / "waiting.json").read_bytes()
    file = tmp_path / "waiting.json"
    for bad in (b"", b"{}", good[:-5], good.replace(b"ed25519:", b"ed25518:"), good.replace(b'"files"', b'"x"')):
        file.write_bytes(bad)
        with pytest.raises(BadState) as caught:
            read_waiting(tmp_path)
        assert "\n" not in str(caught.value)
        assert file.read_bytes() == bad
