"""A store in PostgreSQL: how it is named, what is said where it cannot be used, and its versions."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interlock.base.errors import EXIT_USAGE
from interlock.base.fetch import Unreachable
from interlock.base.files import BadState, NewerFormat, replace
from interlock.base.settings import BadConfig, Settings
from interlock.dap.storage import Accepted
from interlock.node.config import ServeConfig, serve_config
from interlock.node.storage import postgres
from interlock.node.storage.postgres import PostgresHelperStorage, PostgresLeaderStorage
from tests.postgres import private_postgres, psycopg_or_skip
from tests.unit.dap_http import wait_until
from tests.unit.dap_stores import PostgresStores
from tests.unit.test_dap_storage import TASK, report

SECRET = "a-secret-of-the-operator"


def settings(folder: Path, **values: object) -> Settings:
    """What a configuration file of its owner alone says."""
    replace(folder / "interlock.toml", b"")
    return Settings(folder / "interlock.toml", {"serve": {"dir": "leader", **values}})


def test_a_store_is_named_by_url_and_its_password_is_shown_nowhere(tmp_path: Path) -> None:
    url = f"postgresql://leader:{SECRET}@db.example/counts"
    config = serve_config(settings(tmp_path, store=url, drive=False, patience_seconds=2, keep_days=7))
    assert (config.store, config.drive, config.patience_s, config.keep_s) == (url, False, 2, 7 * 86_400)
    assert SECRET not in repr(config)
    assert serve_config(settings(tmp_path)) == ServeConfig(tmp_path / "leader")
    with pytest.raises(BadConfig, match=r"\[serve\] store: is no database") as caught:
        serve_config(settings(tmp_path, store=f"mysql://leader:{SECRET}@db.example"))
    assert SECRET not in str(caught.value)
    with pytest.raises(BadConfig, match="keep_days: has to be from 1 to"):
        serve_config(settings(tmp_path, keep_days=0))


@pytest.mark.parametrize("password", [f"leader:{SECRET}@db.example/counts", f"db.example/counts?password={SECRET}"])
def test_a_password_is_read_from_no_file_that_others_read_and_a_url_without_one_is(
    tmp_path: Path, password: str
) -> None:
    known, plain = settings(tmp_path, store=f"postgresql://{password}"), "postgresql://leader@db.example/counts"
    assert serve_config(known).store
    (tmp_path / "interlock.toml").chmod(0o640)
    with pytest.raises(BadState, match="can be read by others") as caught:
        serve_config(known)
    assert SECRET not in str(caught.value)
    assert serve_config(Settings(known.path, {"serve": {"dir": "leader", "store": plain}})).store == plain


def test_without_psycopg_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(BadConfig) as caught:
        PostgresLeaderStorage("postgresql:///x")
    assert str(caught.value) == (
        "[serve] store: needs psycopg, which is not installed; pip install 'interlock[postgres]', "
        "or leave [serve] store out for one SQLite file"
    )
    assert caught.value.exit_code == EXIT_USAGE


def test_a_server_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    psycopg_or_skip()
    with pytest.raises(Unreachable, match="database counts: cannot be reached") as caught:
        PostgresLeaderStorage(f"postgresql://leader:{SECRET}@/counts?host={tmp_path}")
    assert SECRET not in str(caught.value)
    with pytest.raises(BadConfig, match="is no URL of a database") as refused:
        PostgresLeaderStorage(f"postgresql://leader:{SECRET}@host:port:no/x?y=%zz")
    assert SECRET not in str(refused.value)


def test_a_schema_of_a_newer_version_is_refused_in_one_line_and_left_alone() -> None:
    stores = PostgresStores()
    stores.leader().close()
    schema = f"{stores.name}_leader"
    psycopg = psycopg_or_skip()
    with contextlib.closing(psycopg.connect(stores.url, autocommit=True)) as db:
        db.execute(f'UPDATE "{schema}".version SET number = 9')
        with pytest.raises(NewerFormat, match=r"has version 9.*upgrade interlock") as caught:
            stores.leader()
        assert "\n" not in str(caught.value)
        assert db.execute(f'SELECT number FROM "{schema}".version').fetchall() == [(9,)]
    stores.drop()


def test_an_older_schema_is_brought_forward_whole_or_not_at_all() -> None:
    class Later(PostgresHelperStorage):
        MIGRATIONS = (*PostgresHelperStorage.MIGRATIONS, "CREATE TABLE more (x INTEGER)")

    class Broken(PostgresHelperStorage):
        MIGRATIONS = (
            *PostgresHelperStorage.MIGRATIONS,
            "CREATE TABLE more (x INTEGER); CREATE TABLE answers (y INTEGER)",
        )

    stores = PostgresStores()
    stores.helper().close()
    schema = f"{stores.name}_helper"
    with pytest.raises(Exception, match="already exists"):
        Broken(stores.url, schema=schema)
    stores.helper().close()  # nothing of the broken migration stayed
    Later(stores.url, schema=schema).close()
    with pytest.raises(NewerFormat):
        stores.helper()
    stores.drop()


def test_both_roles_can_live_in_one_database() -> None:
    stores = PostgresStores()
    with contextlib.closing(stores.leader()) as leader, contextlib.closing(stores.helper()) as helper:
        leader.add_reports(TASK, [report(1)], 0)
        assert helper.newest(TASK) is None
    stores.drop()


def test_a_server_that_was_started_again_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    psycopg = psycopg_or_skip()
    monkeypatch.setattr(postgres, "FRESH_S", 0)  # each connection has lain idle for long
    with private_postgres() as url:
        store = PostgresLeaderStorage(url)
        store.add_reports(TASK, [report(1)], 0)
        with contextlib.closing(psycopg.connect(url, autocommit=True)) as db:
            db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        assert store.states(TASK).waiting == 1, "the cut connection is left, and another one made"
        store.close()
    with pytest.raises(Unreachable):
        store.states(TASK)


def test_a_server_that_dies_once_it_let_us_in_is_named_too_and_its_connection_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    psycopg, closed = psycopg_or_skip(), list[bool]()

    class Dying:
        def execute(self, _sql: str) -> None:
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        def close(self) -> None:
            closed.append(True)

    monkeypatch.setattr(psycopg, "connect", lambda *_args, **_kwargs: Dying())
    with pytest.raises(Unreachable, match="cannot be reached"):
        PostgresLeaderStorage("postgresql://tester@localhost/nowhere")
    assert closed == [True]


def test_two_uploads_of_a_member_for_the_same_hours_wait_for_one_another_and_not_both() -> None:
    psycopg, stores = psycopg_or_skip(), PostgresStores()
    one = [report(n, hour, "acme") for n, hour in enumerate((0, 1, 2))]
    other = [report(n, hour, "acme") for n, hour in enumerate((2, 1, 0), 3)]
    third = (
        f'INSERT INTO "{stores.name}_leader".reports (task, id, bucket, at, digest, member)'
        " VALUES (%s, 'x', 1, 0, '', 'acme')"
    )
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT INTO reports%%'"
    )
    with contextlib.closing(stores.leader()) as leader, ThreadPoolExecutor(2) as pool:
        with psycopg.connect(stores.url) as held, psycopg.connect(stores.url, autocommit=True) as look:
            held.execute(third, (TASK,))  # holds both up, wherever each has come to
            under_way = [pool.submit(leader.add_reports, TASK, of, 0) for of in (one, other)]
            wait_until(lambda: look.execute(waiting).fetchone() == (2,))
            held.rollback()
        found = Counter(told for each in under_way for told in each.result())
    assert found == {Accepted.STORED: 3, Accepted.SECOND: 3}
    stores.drop()


def test_nothing_that_is_kept_in_bytes_is_tried_to_be_compressed() -> None:
    psycopg, stores = psycopg_or_skip(), PostgresStores()
    stores.leader().close()
    stores.helper().close()
    try:
        with psycopg.connect(stores.url) as connection:
            columns = connection.execute(
                "SELECT attname, attstorage FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid"
                " WHERE relnamespace::regnamespace::text LIKE %s AND relkind = 'r' AND atttypid = 'bytea'::regtype",
                [f"{stores.name}%"],
            ).fetchall()
    finally:
        stores.drop()
    assert {"body", "request", "kept", "share"} <= {name for name, _ in columns}
    assert {str(storage) for _, storage in columns} == {"e"}
