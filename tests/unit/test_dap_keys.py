"""HPKE keys of an aggregator: replaced while it is at work; the old one opens for a stated time, and no longer."""

from __future__ import annotations

import dataclasses
import json
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.clock import DAY_US
from interlock.base.errors import BadInput
from interlock.base.files import BadState, NewerFormat
from interlock.dap.drafts import ReportError
from interlock.dap.hpke import P256, X25519
from interlock.dap.leader import Leader
from interlock.dap.messages import HpkeConfigList
from interlock.dap.shares import HpkeKey, KeyRing, new_key, rotated
from interlock.dap.task import task_of
from interlock.dap.taskfile import dump_key, dump_keys, load_keys
from interlock.node.cli import main
from interlock.node.hpke_file import HpkeKeyFile
from interlock.node.storage.dap_tasks import TaskDirectory
from tests.unit.dap_world import World, bits

T0 = 1_700_000_000_000_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "hpke.json"
    path.write_bytes(dump_key(new_key(1, secrets.token_bytes)))
    path.chmod(0o600)
    return path


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def ids(keys: object) -> list[tuple[int, int | None]]:
    assert isinstance(keys, list | tuple)
    return [(key.id, key.until_us) for key in keys]


def test_a_fresh_key_comes_first_and_the_old_one_opens_for_a_stated_time() -> None:
    first = [new_key(1, secrets.token_bytes)]
    second = rotated(first, T0, 14 * DAY_US, secrets.token_bytes, X25519)
    third = rotated(second, T0 + DAY_US, 14 * DAY_US, secrets.token_bytes, P256)
    assert ids(second) == [(2, None), (1, T0 + 14 * DAY_US)]
    assert ids(third) == [(3, None), (2, T0 + 15 * DAY_US), (1, T0 + 14 * DAY_US)]
    last = rotated(third, T0 + 15 * DAY_US, DAY_US, secrets.token_bytes, X25519)
    assert ids(last) == [(4, None), (3, T0 + 16 * DAY_US)]
    ring = KeyRing(third)
    assert [c.id for c in ring.configs.configs] == [3]
    assert [(ring.find(i, T0 + 14 * DAY_US - 1) is not None) for i in (1, 2, 3, 9)] == [True, True, True, False]
    assert [(ring.find(i, T0 + 14 * DAY_US) is not None) for i in (1, 2, 3)] == [False, True, True]


def test_an_id_is_not_used_again_while_its_key_opens() -> None:
    keys = [new_key(255, secrets.token_bytes)]
    for expected in (0, 1, 2):
        keys = rotated(keys, T0, DAY_US, secrets.token_bytes, X25519)
        assert keys[0].id == expected
    full = [dataclasses.replace(keys[0], id=i, until_us=T0 + DAY_US) for i in range(256)]
    with pytest.raises(ValueError, match="every id"):
        rotated(full, T0, DAY_US, secrets.token_bytes, X25519)


def test_a_report_to_the_old_key_is_counted_until_its_time_is_over(world: World, file: Path) -> None:
    keys = HpkeKeyFile(file)
    tasks = {world.task.task_id: world.held}
    world.leader = Leader(tasks, KeyRing(read=keys), world.leader_store, world.clock)
    (world.leader_key,) = keys()
    early, late = world.report(bits(1)), world.report(bits(2))
    keys.rotate(world.clock.now_us(), DAY_US, secrets.token_bytes, X25519)
    offered = HpkeConfigList.decode(world.leader.hpke_configs()).configs
    assert [c.id for c in offered] == [2], "the running leader offers the fresh key at once"
    assert world.upload(early) == []
    world.clock.advance(86400)
    assert world.upload(late) == [ReportError.OUTDATED_CONFIG]
    world.leader_key = keys()[0]
    assert world.upload(world.report(bits(3))) == []


def test_keys_survive_their_file_and_stay_private(file: Path) -> None:
    keys = HpkeKeyFile(file)
    rotated_keys = keys.rotate(T0, DAY_US, secrets.token_bytes, P256)
    assert list(keys()) == list(rotated_keys) == load_keys(file.read_bytes(), where="f")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [k.pair.kem for k in rotated_keys] == [P256, X25519]


def test_a_file_that_is_damaged_while_the_role_runs_takes_no_key_away(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = HpkeKeyFile(file)
    before = list(keys())
    file.write_bytes(b"{}")
    assert list(keys()) == before
    assert "holds on" in caplog.text
    with pytest.raises(BadState):
        HpkeKeyFile(file)
    with pytest.raises(BadState):
        keys.rotate(T0, DAY_US, secrets.token_bytes, X25519)
    assert file.read_bytes() == b"{}"


def test_a_file_of_keys_that_is_none_is_refused_in_one_line() -> None:
    good = [new_key(i, secrets.token_bytes) for i in range(2)]
    text = dump_keys(good)
    body = json.loads(text)
    bad: dict[str, bytes] = {
        "two keys of one id": dump_keys([good[0], good[0]]),
        "offers no key": dump_keys([dataclasses.replace(key, until_us=T0) for key in good]),
        "no list of keys": json.dumps({**body, "keys": []}).encode(),
        "until_us is not a number": text.replace(b'"id": 1', b'"until_us": -1, "id": 1'),
        "id is not a number": text.replace(b'"id": 1', b'"id": true'),
        "of no KEM": text.replace(good[0].pair.public.hex().encode(), b"00"),
        "not a pair": text.replace(good[0].pair.public.hex().encode(), good[1].pair.public.hex().encode()),
    }
    for why, data in bad.items():
        with pytest.raises(BadState, match=why) as caught:
            load_keys(data, where="f")
        assert good[0].pair.private.hex() not in str(caught.value)
    with pytest.raises(NewerFormat):
        load_keys(text.replace(b'"v": 1', b'"v": 2'), where="f")


def test_the_command_shows_and_replaces_keys_and_prints_no_private_one(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(file.parent)
    assert main.main(["mesh", "hpke", "--dir", folder]) == 0
    assert "key 1  x25519" in capsys.readouterr().out
    assert main.main(["mesh", "hpke", "--dir", folder, "--rotate", "--kem", "p256", "--keep-days", "2", "--json"]) == 0
    out = capsys.readouterr().out
    rows = json.loads(out)["keys"]
    assert [(r["id"], r["kem"], r["state"]) for r in rows] == [("2", "p256", "offered"), ("1", "x25519", "opens")]
    assert not any(key.pair.private.hex() in out for key in load_keys(file.read_bytes(), where="f"))
    before = file.read_bytes()
    assert main.main(["mesh", "hpke", "--dir", folder, "--rotate", "--keep-days", "0"]) == 2
    assert main.main(["mesh", "hpke", "--dir", folder + "/nothing"]) == 2
    told = capsys.readouterr().err
    assert "--keep-days 0: is not 1 to 365" in told
    assert "interlock mesh setup" in told
    assert file.read_bytes() == before


def test_a_key_is_not_replaced_for_less_time_than_reports_to_it_are_under_way(
    file: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    long = dataclasses.replace(world.task.config, time_precision=10 * 86_400).encode()
    held = dataclasses.replace(world.held, task=task_of(long, demo=True))
    TaskDirectory(file.parent / "tasks", demo=True).add(held)
    before = file.read_bytes()
    assert main.main(["mesh", "hpke", "--dir", str(file.parent), "--rotate"]) == 2
    assert "--keep-days 14: is shorter than two epochs of a task here" in capsys.readouterr().err
    assert file.read_bytes() == before
    assert main.main(["mesh", "hpke", "--dir", str(file.parent), "--rotate", "--keep-days", "20"]) == 0


def test_no_room_for_a_key_is_said_in_one_line(file: Path) -> None:
    (key,) = load_keys(file.read_bytes(), where="f")
    file.write_bytes(dump_keys([key, *(HpkeKey(i, key.pair, T0 + DAY_US) for i in range(256) if i != key.id)]))
    with pytest.raises(BadInput, match="every id of a key is in use"):
        HpkeKeyFile(file).rotate(T0, DAY_US, secrets.token_bytes, X25519)
