"""`interlock mesh report build` and `submit`, `ledger` and `consent off`, as a person types them, over HTTP."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.base.clock import SystemClock
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from interlock.base.fetch import Unreachable
from interlock.base.files import replace
from interlock.commons.consent import Ended, withdraw_consent
from interlock.commons.indicators import Catalog, build_catalog
from interlock.commons.subscribe import Subscriber
from interlock.dap.messages import Extension, Interval
from interlock.dap.task import TASK_INTERVAL, new_configuration, task_of
from interlock.dap.taskfile import dump_client_task
from interlock.engine.decision import Decision
from interlock.node import reporter
from interlock.node.cli import mesh_count
from interlock.node.cli.main import main
from interlock.node.reporter import keep_task
from interlock.node.roles.observe import TallyObserver
from interlock.node.roles.report import agree
from interlock.node.storage.node import OutboxState, open_store
from tests.unit import dap_http
from tests.unit.dap_http import TOKENS, Deployment
from tests.unit.dap_world import VDAF_CONFIG
from tests.unit.report_world import CALL, RULES, Publishing, task_over

Said = Callable[..., str]


def counted() -> Catalog:
    return build_catalog("rules-1", opens_at=0, rules=RULES)


def configuration(*, leader_url: str, helper_url: str, precision: int, batch_mode: int) -> bytes:
    """As dap_world's, over a catalog that there is; open since the epoch that runs began."""
    return new_configuration(
        catalog_digest=bytes.fromhex(counted().digest),
        leader_url=leader_url,
        helper_url=helper_url,
        time_precision=precision,
        min_batch_size=3,
        vdaf_config=VDAF_CONFIG,
        batch_mode=batch_mode,
    )


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.setattr(dap_http, "configuration", configuration)
    monkeypatch.setitem(TOKENS, "acme", "acmes" * 8)  # a token that a file may hold
    with contextlib.ExitStack() as stack:
        made = Deployment(tmp_path, stack)

        monkeypatch.setattr(reporter, "Subscriber", lambda *_: Publishing(made.task))
        yield made


@pytest.fixture
def said(deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    """What a command of a member says; the member has consented, and its guard objected once."""
    home, task = tmp_path / "home", deployment.task
    home.mkdir()
    replace(tmp_path / "token", TOKENS["acme"].encode())
    replace(tmp_path / "task.json", dump_client_task(task))
    lines = ["[mesh]", 'home = "home"', 'commons = "https://commons.test"']
    lines += ["[report]", 'task = "task.json"', 'token = "token"']
    (tmp_path / "interlock.toml").write_text("\n".join(lines) + "\n")
    with contextlib.closing(open_store(home)) as store:
        agree(home, store, task, counted(), SystemClock().now_us())
    observer = TallyObserver(home, SystemClock(), redacting=lambda: ())
    observer(CALL, Decision.block("no", policy_id=RULES[3]))
    observer.close()

    def say(*words: str, code: int = EXIT_OK) -> str:
        capsys.readouterr()
        assert main(["mesh", *words, "--config", str(tmp_path / "interlock.toml")]) == code
        found = capsys.readouterr()
        return found.out + found.err

    return say


def test_a_report_is_made_sent_and_stands_in_the_ledger(deployment: Deployment, said: Said) -> None:
    assert said("ledger") == "nothing was ever sent\n"
    assert said("report", "build") == "0 reports made, 0 queued\n", "the epoch is not over"
    made = said("report", "build", "--close-epoch")
    assert made.startswith("1 reports made, 1 queued\n  rules-1, epoch ")
    assert "rules-1  queued goes out at" in said("ledger")
    assert said("report", "submit") == "0 reports made, 1 sent, 0 refused, 0 dropped\n"
    ledger = said("ledger")
    assert "rules-1  sent at" in ledger
    assert "Prio3SumVec, no noise, bearer" in ledger
    assert "rules-1: 1 reports sent; no noise, no budget" in ledger
    assert "add reports of its own" in ledger, "what protects it, and what does not"
    told = json.loads(said("ledger", "--json"))
    (row,), (cost,) = told["rows"], told["tasks"]
    assert (row["state"], row["remade"], row["dap_task"]) == ("sent", 0, deployment.task.task_id.hex())
    assert (cost["sent"], cost["measure"]) == (1, "")
    assert said("report", "submit", "--now", "--close-epoch") == "0 reports made, 0 sent, 0 refused, 0 dropped\n"
    assert "rules-1  waiting" in said("report", "status") or "rules-1  aggregated" in said("report", "status")


def test_consent_off_drops_what_is_queued_and_forgets_what_was_seen(
    deployment: Deployment, said: Said, tmp_path: Path
) -> None:
    said("report", "build", "--close-epoch")
    assert said("consent", "off") == "rules-1: no; 1 reports that were queued are dropped\n"
    assert "rules-1  dropped (consent was withdrawn)" in said("ledger")
    assert "was not consented to" in said("report", "submit", "--now", code=EXIT_USAGE)
    with contextlib.closing(open_store(tmp_path / "home")) as store:
        (row,) = store.outbox()
        assert (row.report, row.measurement) == (b"", b"")
        assert store.places_by_epoch("rules-1", counted().digest) == {}
    assert deployment.leader_store.states(deployment.task.task_id).waiting == 0
    assert said("consent", "off") == "no consent is given: nothing is counted and nothing is sent\n"


def test_consent_off_completes_one_that_was_cut_short(said: Said, tmp_path: Path) -> None:
    said("report", "build", "--close-epoch")
    withdraw_consent(tmp_path / "home", "rules-1")  # and here it was killed
    assert "was cut short; 1 reports that it left queued are dropped" in said("consent", "off")
    with contextlib.closing(open_store(tmp_path / "home")) as store:
        (row,) = store.outbox()
        assert (row.state, row.report, row.measurement) == (OutboxState.DROPPED, b"", b"")


def test_what_ended_is_shown_also_where_the_commons_does_not_answer_or_has_nothing_to_agree_to(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere(_: object) -> Subscriber:
        raise Unreachable("does not answer", where="the commons")

    monkeypatch.setattr(mesh_count, "subscriber_of", nowhere)
    home, why = tmp_path / "home", "was withdrawn by the commons (its key was lost)"
    withdraw_consent(home, "rules-1")
    assert "does not answer" in said("consent", "show", "rules-1", code=EXIT_USAGE)
    withdraw_consent(home, "rules-1", Ended("rules-1", why, 1_000_000))
    told = f"rules-1: no since 1970-01-01T00:00:01Z: it {why}\n"
    assert said("consent", "show", "rules-1") == said("consent", "show") == told


@pytest.mark.parametrize("published", [0, 1])
def test_of_two_tasks_of_one_catalog_that_are_kept_the_published_one_is_agreed_to(
    deployment: Deployment, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, published: int
) -> None:
    ends = Extension(TASK_INTERVAL, Interval(0, 1 << 40).encode())
    config = dataclasses.replace(deployment.task.config, extensions=(ends, *deployment.task.config.extensions))
    tasks = [deployment.task, task_of(config.encode(), demo=True)]
    keep_task(tmp_path / "home", tasks[1])

    class Commons(Publishing):
        def catalog(self, task: str) -> Catalog:
            return counted()

    monkeypatch.setattr(mesh_count, "subscriber_of", lambda _: Commons(tasks[published]))
    assert "rules-1: yes from" in said("consent", "on", "rules-1", "--demo")
    monkeypatch.setattr(mesh_count, "subscriber_of", lambda _: Commons(task_over(counted(), 7)))
    assert "is not the task rules-1 that the commons published" in said(
        "consent", "on", "rules-1", "--demo", code=EXIT_REFUSED
    )


def test_a_report_whose_key_was_replaced_says_so_in_the_ledger(
    deployment: Deployment, said: Said, tmp_path: Path
) -> None:
    said("report", "build", "--close-epoch")
    with contextlib.closing(open_store(tmp_path / "home")) as store:
        (row,) = store.queued(deployment.task.task_id)
        assert store.remake(row, row.report) is not None
    said("report", "submit")
    assert "sent (sealed anew for a key that was replaced) at" in said("ledger")
