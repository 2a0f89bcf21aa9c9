"""Tasks, their files, tokens and stores: what is refused before any report is touched."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import secrets
import sqlite3
import stat
from pathlib import Path

import pytest

from interlock.base.errors import InterlockError
from interlock.base.files import BadState, NewerFormat
from interlock.dap.drafts import ReportError
from interlock.dap.messages import Extension, HpkeConfig, Interval, TaskConfiguration
from interlock.dap.shares import new_key, time_error
from interlock.dap.task import AggregatorTask, TaskRefused, new_configuration, task_of, verify_key_of
from interlock.dap.taskfile import dump_key, dump_task, load_key, load_task
from interlock.node.storage.dap import SqliteHelperStorage
from interlock.node.storage.dap_leader import SqliteLeaderStorage
from interlock.node.storage.dap_tasks import TaskDirectory
from tests.unit.dap_world import VDAF_CONFIG, configuration


def held() -> AggregatorTask:
    task = task_of(configuration(), demo=True)
    return AggregatorTask(task, b"v" * 32, HpkeConfig(9, 32, 1, 1, b"k" * 32))


def changed(**changes: object) -> bytes:
    """A good configuration with some fields replaced."""
    good = TaskConfiguration.decode(configuration(least=10))
    return dataclasses.replace(good, **changes).encode()  # type: ignore[arg-type]


def test_the_task_id_is_a_hash_of_the_configuration() -> None:
    data = configuration(least=10)
    tag = hashlib.sha256(b"dap-taskprov task id").digest()
    assert task_of(data).task_id == hashlib.sha256(tag + data).digest()
    assert task_of(data).configuration == data


def test_the_catalogs_digest_stands_in_the_task() -> None:
    assert task_of(configuration(least=10)).catalog_digest == hashlib.sha256(b"catalog").digest()
    assert task_of(changed(task_info=b"something else")).catalog_digest is None


def test_url_bytes_stay_as_they_are() -> None:
    one, two = (task_of(changed(leader_url=url)) for url in (b"https://a.test/x", b"https://a.test/x/"))
    assert one.task_id != two.task_id
    assert one.leader_resource("reports").startswith("https://a.test/x/tasks/")
    assert two.config.leader_url == b"https://a.test/x/"


def test_the_floor_of_ten_falls_only_in_a_demonstration() -> None:
    assert task_of(configuration(least=10)).demo is False
    with pytest.raises(TaskRefused, match="floor is 10"):
        task_of(configuration(least=9))
    assert task_of(configuration(least=3), demo=True).demo is True
    with pytest.raises(TaskRefused, match="floor is 3"):
        task_of(configuration(least=2), demo=True)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "early"),
        (configuration(least=10) + b"\x00", "too many"),
        (changed(batch_mode=3), "batch mode 3 is not spoken here"),
        (changed(batch_config=b"x"), "batch mode"),
        (changed(vdaf_type=1), "VDAF 1"),
        (changed(vdaf_configuration=b"x"), "early"),
        (changed(vdaf_configuration=bytes(4) + VDAF_CONFIG[4:]), "0 places"),
        (changed(vdaf_configuration=VDAF_CONFIG[:4] + bytes(7) + b"\x02" + VDAF_CONFIG[12:]), "more than 0 or 1"),
        (changed(time_precision=0), "time precision"),
        (changed(time_precision=1 << 63), "time precision"),
        (changed(leader_url=b"http://leader.test"), "neither https nor on this machine"),
        (changed(helper_url=b"ftp://127.0.0.1"), "neither https nor on this machine"),
        (changed(helper_url="https://hélper.test".encode()), "not a URL in ASCII"),
        (changed(helper_url=b"https://[bad"), "not a URL in ASCII"),
        (changed(helper_url=b"https://user:word@helper.test"), "not a base for resources"),
        (changed(helper_url=b"https://helper.test/?q"), "not a base"),
        (changed(extensions=(Extension(7, b""),)), "extension 7"),
        (changed(extensions=(Extension(1, bytes(16)), Extension(1, bytes(16)))), "increasing order"),
        (changed(extensions=(Extension(1, b"short"),)), "early"),
    ],
)
def test_a_task_that_is_not_safe_or_not_spoken_is_refused_in_one_line(data: bytes, why: str) -> None:
    with pytest.raises(TaskRefused, match=why) as caught:
        task_of(data)
    assert "\n" not in str(caught.value)


def test_plain_http_is_for_this_machine_only() -> None:
    task = task_of(changed(leader_url=b"http://127.0.0.1:8080", helper_url=b"http://[::1]:9/dap"))
    assert task.helper_resource("aggregation_jobs").startswith("http://[::1]:9/dap/tasks/")


def test_a_tasks_interval_bounds_the_times_of_its_reports() -> None:
    data = new_configuration(
        catalog_digest=bytes(32),
        leader_url="https://l.test",
        helper_url="https://h.test",
        time_precision=10,
        min_batch_size=10,
        vdaf_config=VDAF_CONFIG,
        interval=Interval(100, 5),
    )
    task = task_of(data)
    now = 10**12
    errors = {time: time_error(task, time, now) for time in (99, 100, 104, 105)}
    assert errors == {99: ReportError.TASK_NOT_STARTED, 100: None, 104: None, 105: ReportError.TASK_EXPIRED}
    assert time_error(task, 10**12 // 10**7 + 31, now) is ReportError.REPORT_TOO_EARLY
    assert time_error(task, 2**64 - 1, now) is ReportError.REPORT_TOO_EARLY


def test_a_catalogs_digest_of_another_size_is_our_callers_mistake() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        new_configuration(
            catalog_digest=b"x",
            leader_url="https://l.test",
            helper_url="https://h.test",
            time_precision=1,
            min_batch_size=10,
            vdaf_config=VDAF_CONFIG,
        )
    with pytest.raises(ValueError, match="32 bytes"):
        AggregatorTask(task_of(configuration(least=10)), b"short", held().collector)


def test_a_collector_whose_key_cannot_be_sealed_to_is_refused() -> None:
    good = held()
    for wrong in (HpkeConfig(9, 16, 1, 1, b"k" * 32), HpkeConfig(9, 32, 1, 1, b"k" * 31)):
        with pytest.raises(TaskRefused, match="collector"):
            dataclasses.replace(good, collector=wrong)


def test_verification_keys_differ_by_task_and_secret() -> None:
    keys = {verify_key_of(secret, task_id) for secret in (b"a" * 32, b"b" * 32) for task_id in (b"1" * 32, b"2" * 32)}
    assert len(keys) == 4
    assert {len(key) for key in keys} == {32}


def test_a_resource_id_depends_on_task_kind_and_bytes() -> None:
    one = held()
    ids = {one.resource_id("job", b"x"), one.resource_id("job", b"y"), one.resource_id("share", b"x")}
    assert len(ids) == 3
    assert one.resource_id("job", b"x") in ids


def test_a_task_survives_its_file() -> None:
    assert load_task(dump_task(held()), where="f") == held()


def test_a_key_survives_its_file() -> None:
    key = new_key(3, secrets.token_bytes)
    assert load_key(dump_key(key), where="f") == key


@pytest.mark.parametrize("old", ["configuration", "verify_key", "collector", "verify_key_id"])
def test_a_damaged_task_file_is_refused_and_shows_no_secret(old: str) -> None:
    data = dump_task(held()).replace(f'"{old}"'.encode(), b'"other"')
    with pytest.raises(InterlockError) as caught:
        load_task(data, where="the file")
    assert (b"v" * 32).hex() not in str(caught.value)
    assert "the file" in str(caught.value)


def test_a_damaged_key_file_is_refused() -> None:
    key = new_key(3, secrets.token_bytes)
    other = dataclasses.replace(key, pair=dataclasses.replace(key.pair, public=b"p" * 32))
    with pytest.raises(BadState, match="not a pair"):
        load_key(dump_key(other), where="f")
    with pytest.raises(NewerFormat):
        load_key(dump_key(key).replace(b'"v": 1', b'"v": 2'), where="f")
    with pytest.raises(BadState, match="private is not hex"):
        load_key(dump_key(key).replace(b'"private": "', b'"private": "?'), where="f")


def test_a_folder_of_tasks_is_a_live_mapping(tmp_path: Path) -> None:
    tasks = TaskDirectory(tmp_path / "tasks", demo=True)
    assert (len(tasks), tasks.get(b"x" * 32)) == (0, None)
    tasks.add(held())
    assert dict(tasks) == {held().task.task_id: held()}
    (path,) = (tmp_path / "tasks").glob("*.task.json")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.rename(path.with_name("00" * 32 + ".task.json"))
    with pytest.raises(BadState, match="another task"):
        tasks[bytes(32)]


def test_no_repr_shows_a_key() -> None:
    key = new_key(1, secrets.token_bytes)
    assert key.pair.private.hex() not in repr(key)
    assert repr(key.pair.private) not in repr(key)
    assert "vvvv" not in repr(held())


STORES = pytest.mark.parametrize("store", [SqliteLeaderStorage, SqliteHelperStorage])


@STORES
def test_a_store_is_private_and_durable(store: type[SqliteHelperStorage], tmp_path: Path) -> None:
    path = tmp_path / "dap.db"
    opened = store(path)
    opened.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    store(path).close()
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone() == (len(store.MIGRATIONS),)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()


@STORES
def test_a_store_of_a_newer_version_is_refused_in_one_line(store: type[SqliteHelperStorage], tmp_path: Path) -> None:
    path = tmp_path / "dap.db"
    store(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 9")
    db.close()
    before = path.read_bytes()
    with pytest.raises(NewerFormat, match="version 9") as caught:
        store(path)
    assert "upgrade interlock" in str(caught.value)
    assert path.read_bytes() == before


@STORES
def test_a_store_of_before_accumulators_is_refused_in_one_line_and_left_alone(
    store: type[SqliteHelperStorage], tmp_path: Path
) -> None:
    path = tmp_path / "dap.db"
    store(path).close()
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 1")
    before = path.read_bytes()
    with pytest.raises(BadState, match="version 1, which no longer can be brought forward; keep it") as caught:
        store(path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


def test_a_store_of_the_other_role_or_of_no_role_is_refused(tmp_path: Path) -> None:
    SqliteLeaderStorage(tmp_path / "leader.db").close()
    with pytest.raises(BadState, match="another role"):
        SqliteHelperStorage(tmp_path / "leader.db")
    (tmp_path / "text").write_text("this is not a database at all" * 50)
    with pytest.raises(BadState, match="not a database"):
        SqliteHelperStorage(tmp_path / "text")


def test_an_older_store_is_copied_and_brought_forward_in_one_go(tmp_path: Path) -> None:
    class Later(SqliteHelperStorage):
        MIGRATIONS = (*SqliteHelperStorage.MIGRATIONS, "CREATE TABLE more (x INTEGER)")

    class Broken(SqliteHelperStorage):
        MIGRATIONS = (
            *SqliteHelperStorage.MIGRATIONS,
            "CREATE TABLE more (x INTEGER); CREATE TABLE answers (y INTEGER)",
        )

    path = tmp_path / "dap.db"
    SqliteHelperStorage(path).close()
    with pytest.raises(BadState):
        Broken(path)
    SqliteHelperStorage(path).close()  # nothing of the broken migration stayed
    Later(path).close()
    assert (tmp_path / f"dap.db.v{len(SqliteHelperStorage.MIGRATIONS)}").exists()
    with pytest.raises(NewerFormat):
        SqliteHelperStorage(path)


def test_a_folder_serves_a_task_with_the_floor_of_a_demo_only_when_told_so(tmp_path: Path) -> None:
    TaskDirectory(tmp_path / "tasks").add(held())
    assert held().task.demo
    with pytest.raises(TaskRefused, match="--demo"):
        TaskDirectory(tmp_path / "tasks")[held().task.task_id]
    assert TaskDirectory(tmp_path / "tasks", demo=True)[held().task.task_id] == held()
