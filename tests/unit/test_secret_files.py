"""Files with secrets: one that others of the machine's users may read is refused in one line, wherever it is read."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.base.clock import ManualClock
from interlock.base.files import BadState, replace, stamped
from interlock.base.settings import read_settings
from interlock.commons.eventlog import EventLog
from interlock.commons.signers import own_key, read_key
from interlock.commons.status import read_status, say_update
from interlock.dap.shares import new_key
from interlock.dap.task import AggregatorTask, verify_key_of
from interlock.dap.taskfile import dump_client_task
from interlock.node.cli.mesh_dap_task import read_any
from interlock.node.cli.mesh_indicator import read_batch
from interlock.node.config import serve_config
from interlock.node.hpke_file import HpkeKeyFile
from interlock.node.roles.observe import keep_catalog, kept_catalogs
from interlock.node.roles.rollup import dump_tally, gather
from interlock.node.storage.dap_tasks import TaskDirectory, hpke_key_in
from interlock.node.storage.node import open_store
from interlock.node.tokens import secret_in
from tests.unit.dap_world import PRECISION, task
from tests.unit.report_world import catalog

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are no such modes")
Case = tuple[Path, Callable[[], object]]


def hpke_key(home: Path) -> Case:
    path = home / "hpke.json"
    hpke_key_in(path, secrets.token_bytes)
    return path, lambda: (hpke_key_in(path, secrets.token_bytes), HpkeKeyFile(path))


def aggregators_keys(home: Path) -> Case:
    path, _ = hpke_key(home)
    return path, lambda: HpkeKeyFile(path)


def aggregators_task(home: Path) -> Case:
    config = new_key(9, secrets.token_bytes).config
    held = AggregatorTask(task(), verify_key_of(secrets.token_bytes(32), task().task_id), config)
    TaskDirectory(home, demo=True).add(held)
    (path,) = home.glob("*.task.json")
    return path, lambda: TaskDirectory(home, demo=True)[held.task.task_id]


def task_to_look_at(home: Path) -> Case:
    path, _ = aggregators_task(home)
    return path, lambda: read_any(path)


def token(home: Path) -> Case:
    replace(home / "token", secrets.token_hex(16).encode())
    return home / "token", lambda: secret_in(home / "token")


def member_key(home: Path) -> Case:
    own_key(home / "member.key", secrets.token_bytes)
    return home / "member.key", lambda: read_key(home / "member.key")


def tally(home: Path) -> Case:
    """Of another node of the organisation: it says what that one saw."""
    counted = catalog()
    keep_catalog(home, counted, time_precision=PRECISION)
    kept, now = kept_catalogs(home)[counted.task], ManualClock().now_us()
    path = home / "second.tally"
    replace(path, dump_tally(kept, {}, now))

    def read() -> int:
        with contextlib.closing(open_store(home)) as store:
            return gather(store, home, counted.task, [path], [kept.epoch_of(now) - kept.epoch_us], now)

    return path, read


def batch(home: Path) -> Case:
    """What a collector has: exact sums."""
    body: dict[str, object] = {"report_count": 3, "start": 1, "end": 2, "sums": [3], "task_id": task().task_id.hex()}
    replace(home / "batch.json", stamped("interlock-collected", 1, body))
    return home / "batch.json", lambda: read_batch(home / "batch.json", task())


def journal(home: Path) -> Case:
    EventLog(home).turn_on(1)
    (path,) = home.rglob("key*")
    return path, lambda: EventLog(home).state


def status_key(home: Path) -> Case:
    say_update(home, 1, {})
    (path,) = (p for p in home.glob("*key*"))
    return path, lambda: read_status(home)


def password(home: Path) -> Case:
    """A configuration with a password in it."""
    path = home / "interlock.toml"
    replace(
        path, b'format = "interlock-config"\nv = 1\n[serve]\ndir = "."\nstore = "postgresql://me:secret@db/counts"\n'
    )
    return path, lambda: serve_config(read_settings(path))


CASES = [hpke_key, aggregators_keys, aggregators_task, task_to_look_at, token, member_key, tally, batch, journal]
CASES += [status_key, password]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666], ids=oct)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_secret_that_others_may_read_is_refused_in_one_line(
    tmp_path: Path, case: Callable[[Path], Case], mode: int
) -> None:
    path, read = case(tmp_path)
    read()
    before = path.read_bytes()
    path.chmod(mode)
    with pytest.raises(BadState, match="can be read by others") as caught:
        read()
    assert f"chmod 600 {path}" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    path.chmod(0o600)
    read()


def test_a_configuration_without_a_password_may_be_read_by_all(tmp_path: Path) -> None:
    path = tmp_path / "interlock.toml"
    path.write_bytes(b'format = "interlock-config"\nv = 1\n[serve]\ndir = "."\nstore = "postgresql://db/counts"\n')
    path.chmod(0o644)
    assert serve_config(read_settings(path)).store == "postgresql://db/counts"


def test_a_members_task_is_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "task.json"
    path.write_bytes(dump_client_task(task()))
    path.chmod(0o644)
    assert read_any(path) == task()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of root's")
@pytest.mark.parametrize(("mode", "taken"), [(0o440, True), (0o640, True), (0o660, False), (0o644, False)])
def test_a_group_may_read_a_secret_of_roots_that_is_handed_to_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, taken: bool
) -> None:
    path, read = member_key(tmp_path)
    path.chmod(mode)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with contextlib.nullcontext() if taken else pytest.raises(BadState, match="can be read by others"):
        read()
