"""`interlock mesh dap`, in this process: tasks made, published, shown and taken on; reports sent, a batch collected."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from interlock.base.clock import ManualClock, SystemClock
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from interlock.base.files import replace, stamped
from interlock.commons.indicators import Catalog, build_catalog
from interlock.commons.operators import Operator, Operators
from interlock.commons.pins import init_node
from interlock.commons.signers import read_key
from interlock.dap.budget import Charge
from interlock.dap.drafts import DAP_19
from interlock.dap.messages import Extension
from interlock.dap.noise import Mechanism, Noise
from interlock.dap.task import STATEMENT_KEY, Task, TaskRefused, task_of
from interlock.dap.taskfile import dump_client_task, dump_key, load_client_task
from interlock.node.cli import mesh_dap, mesh_dap_task, mesh_node
from interlock.node.cli.main import main
from interlock.node.cli.task_rows import task_rows
from interlock.node.setup import make_aggregator, write_settings
from interlock.node.storage.dap_budget import BUDGET_FILE, BudgetStore
from interlock.node.storage.dap_tasks import TaskDirectory
from tests.unit.commons_world import World, log_policy, world
from tests.unit.dap_http import TOKENS, Deployment
from tests.unit.dap_world import LENGTH, configuration

LEADER, HELPER = "https://dap.acme.example", "https://dap.globex.example"
OPERATORS = Operators(1, (Operator("a", "Acme", {"leader": (LEADER,)}), Operator("g", "Globex", {"helper": (HELPER,)})))
URLS = ("--leader", LEADER, "--helper", HELPER)
SPEAKER = ("--collector", "ed25519:" + "ab" * 32)


def dap(*words: object) -> int:
    return main(["mesh", "dap", *map(str, words)])


def created(folder: Path, *words: object, name: str = "task-1") -> Task:
    out = folder / f"{name}.json"
    assert dap("task", "create", name, *URLS, "--out", out, *words) == EXIT_OK
    return load_client_task(out.read_bytes(), where="x")


def error(capsys: pytest.CaptureFixture[str]) -> str:
    err = capsys.readouterr().err
    assert err.count("\n") == 1, err
    return err


# --- task create ------------------------------------------------------------------------------------------------------


def test_a_task_is_made_with_proofs_a_floor_and_an_end_unless_told_otherwise(tmp_path: Path) -> None:
    task = created(tmp_path, "--length", 4)
    assert (task.shape.length, task.config.min_batch_size, task.config.time_precision) == (4, 10, 86_400)
    assert task.membership == b"\x01\x06task-1"
    assert (task.demo, task.noise, task.catalog_digest, task.draft.tag) == (False, None, None, "dap-18")
    assert task.interval is not None
    assert (task.interval.start, task.interval.duration) == (task.time_of(SystemClock().now_us()), 180)


def test_a_task_over_a_catalog_has_its_name_its_places_and_its_digest(tmp_path: Path) -> None:
    catalog = build_catalog("task-1", opens_at=0, rules=["a", "b", "c"])
    (tmp_path / "c.json").write_bytes(catalog.data)
    task = created(tmp_path, "--catalog", tmp_path / "c.json", "--members", "certificate")
    assert task.catalog_digest == bytes.fromhex(catalog.digest)
    assert (task.shape.length, task.membership) == (3, b"\x02\x06task-1")


def test_noise_and_draft_are_the_tasks_own(tmp_path: Path) -> None:
    words = ("--length", 4, "--noise", "laplace", "--cost", "1/2", "--budget", "8", "--draft", "dap-19")
    task = created(tmp_path, *words)
    assert (task.noise, task.draft) == (Noise(Mechanism.LAPLACE, Fraction(1, 2), Fraction(8)), DAP_19)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--length", 4, "--min-batch", 9), EXIT_REFUSED, "the floor is 10"),
        (("--length", 0), EXIT_USAGE, "the number of places"),
        (("--length", 4, "--epoch", 0), EXIT_USAGE, "the epoch"),
        (("--length", 4, "--days", 0), EXIT_USAGE, "how long the task counts"),
        (("--length", 4, "--noise", "laplace"), EXIT_USAGE, "are needed with --noise"),
        (("--length", 4, "--noise", "laplace", "--cost", "x", "--budget", "1"), EXIT_USAGE, "positive fractions"),
        (("--length", 4, "--noise", "laplace", "--cost", "2", "--budget", "1"), EXIT_USAGE, "pays for one release"),
        (("--length", 4, "--cost", "2"), EXIT_USAGE, "belong to --noise"),
        (("--length", 4, "--leader", "http://dap.acme.example"), EXIT_REFUSED, "neither https"),
        (("--length", 4, "--helper", f"{LEADER}/helper"), EXIT_REFUSED, "both aggregators at one address"),
        (("--catalog", "nowhere.json"), EXIT_USAGE, "nowhere.json"),
    ],
)
def test_a_task_that_nobody_could_take_part_in_is_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[object, ...], code: int, said: str
) -> None:
    assert dap("task", "create", "task-1", *URLS, "--out", tmp_path / "t.json", *words) == code
    assert said in error(capsys)
    assert list(tmp_path.iterdir()) == []


def test_a_task_of_another_name_than_its_catalog_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "c.json").write_bytes(build_catalog("other", opens_at=0, rules=["a"]).data)
    assert dap("task", "create", "task-1", *URLS, "--catalog", tmp_path / "c.json", "--out", tmp_path / "t") == 2
    assert "is the catalog of other" in error(capsys)
    assert dap("task", "create", "task-1", *URLS, "--length", 3) == EXIT_USAGE
    assert "are both missing" in error(capsys)


# --- task list, task show ---------------------------------------------------------------------------------------------


def test_a_task_is_shown_with_its_draft_unverified_where_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = created(tmp_path, "--length", 4, "--draft", "dap-20", "--noise", "gaussian", "--cost", 1, "--budget", 4)
    capsys.readouterr()
    assert dap("task", "show", tmp_path / "task-1.json") == EXIT_OK
    shown = capsys.readouterr().out
    assert "dap-20 (unverified)" in shown
    assert "rho 1 an epoch and 4 in all" in shown
    assert dap("task", "show", tmp_path / "task-1.json", "--json") == EXIT_OK
    said = json.loads(capsys.readouterr().out)
    assert (said["id"], said["name"], said["verified"]) == (task.task_id.hex(), "task-1", False)
    assert said["noise"] == {"mechanism": "gaussian", "measure": "rho", "cost": "1", "budget": "4"}


def test_a_folders_tasks_are_listed_and_what_cannot_be_read_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tasks").mkdir()
    task = created(tmp_path / "tasks", "--length", 4, "--draft", "dap-19")
    (tmp_path / "tasks" / "z.json").write_text("{}")
    capsys.readouterr()
    assert dap("task", "list", "--dir", tmp_path, "--json") == EXIT_OK
    rows = json.loads(capsys.readouterr().out)["tasks"]
    assert rows[0]["id"] == task.task_id.hex()
    assert "z.json" in rows[1]["error"]
    assert dap("task", "list", "--dir", tmp_path) == EXIT_OK
    shown = capsys.readouterr().out
    assert f"{task.task_id.hex()[:16]}  task-1  dap-19 (unverified)  4 places" in shown
    assert dap("task", "list", "--dir", tmp_path / "none") == EXIT_OK
    assert "no task is in" in capsys.readouterr().out


def test_what_an_aggregator_has_spent_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = created(tmp_path, "--length", 4, "--noise", "laplace", "--cost", "1/2", "--budget", 4)
    with contextlib.closing(BudgetStore(tmp_path / BUDGET_FILE)) as store:
        for batch in (b"1", b"2"):
            store.charge(Charge(task.task_id, batch, Fraction(1, 2), Fraction(4)), 0)
    capsys.readouterr()
    words = ("task", "show", tmp_path / "task-1.json", "--dir", tmp_path)
    assert dap(*words) == EXIT_OK
    assert "1 of 4 epsilon is spent; batches released: 2" in capsys.readouterr().out
    assert dap(*words, "--json") == EXIT_OK
    assert json.loads(capsys.readouterr().out)["spent"] == "1"


@pytest.mark.parametrize("form", [bytes, lambda d: d.hex().encode(), lambda d: b":" + base64.b64encode(d) + b":\n"])
def test_a_task_of_others_is_read_from_its_configuration_in_any_form(
    tmp_path: Path, form: Callable[[bytes], bytes]
) -> None:
    data = configuration(least=10)
    (tmp_path / "theirs").write_bytes(form(data))
    out = tmp_path / "t.json"
    assert dap("task", "import", tmp_path / "theirs", "--out", out, "--draft", "dap-19") == EXIT_OK
    found = load_client_task(out.read_bytes(), where="x")
    assert (found.configuration, found.draft) == (data, DAP_19)
    assert dap("task", "import", tmp_path / "theirs", "--out", out) == EXIT_USAGE


def test_a_task_of_others_that_is_none_is_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for data in (b"", b"abcd", configuration(least=9)):
        (tmp_path / "theirs").write_bytes(data)
        assert dap("task", "import", tmp_path / "theirs", "--out", tmp_path / "t.json") == EXIT_REFUSED
        assert error(capsys)
    assert not (tmp_path / "t.json").exists()


def test_a_nodes_status_tells_of_a_task_in_a_draft_that_nobody_verified(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    assert [*task_rows(tmp_path)] == []
    for draft in ("dap-18", "dap-19"):
        created(tmp_path / "tasks", "--length", 4, "--draft", draft, name=draft)
    (tmp_path / "tasks" / "z.json").write_text("{}")
    rows = [*task_rows(tmp_path)]
    assert [row.status for row in rows] == ["ok", "warn", "fail"]
    assert "speaks dap-18, no noise" in rows[0].detail
    assert "dap-19 (unverified)" in rows[1].detail


# --- published, and taken on ------------------------------------------------------------------------------------------


@pytest.fixture
def commons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    (tmp_path / "world").mkdir()
    with world(tmp_path / "world") as made:
        for module in (mesh_dap_task, mesh_node):
            monkeypatch.setattr(module, "SystemClock", lambda: made.clock)
        monkeypatch.setattr(mesh_dap_task, "publisher_of", lambda config, clock: made.publisher)
        made.publisher.publish_operators(OPERATORS)
        yield made


def catalog(folder: Path) -> Catalog:
    found = build_catalog("task-1", opens_at=0, rules=["a", "b"])
    (folder / "c.json").write_bytes(found.data)
    return found


def copied(commons: World) -> str:
    mirror = commons.mirror("copy")
    mirror.copy()
    return f"file://{mirror.public}"


def aggregator(folder: Path, commons: World, name: str) -> Path:
    """A folder as setup makes it, with pins of its own."""
    directory = folder / name
    make_aggregator(directory, os.urandom)
    init_node(directory, log_policy=log_policy(), root=commons.root)
    values = {"dir": str(directory), "operator": f"{name}.example", "upstream": copied(commons)}
    write_settings(directory / "interlock.toml", "serve", values)
    return directory


def key(folder: Path) -> Path:
    public = folder / "collector.pub"
    assert dap("key", "--out", folder / "collector.json", "--public", public) == EXIT_OK
    return public


def test_a_published_task_is_shown_by_name_and_taken_on_by_both_aggregators(
    commons: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog(tmp_path)
    task = created(tmp_path, *SPEAKER, "--catalog", tmp_path / "c.json", "--dir", tmp_path)
    assert commons.member("node").dap_task("task-1") == (tmp_path / "task-1.json").read_bytes()
    secret = ("--secret", tmp_path / "verify.secret", "--collector", key(tmp_path))
    held = []
    for name in ("leader", "helper"):
        folder = aggregator(tmp_path, commons, name)
        capsys.readouterr()
        assert dap("task", "add", tmp_path / "task-1.json", "--dir", folder, *secret) == EXIT_OK
        assert "it is task-1, as the commons published and logged it" in capsys.readouterr().out
        held.append(TaskDirectory(folder / "tasks")[task.task_id])
    assert held[0] == held[1]
    assert (tmp_path / "verify.secret").stat().st_mode & 0o777 == 0o600
    (tmp_path / "m.toml").write_text(f'[mesh]\nhome = "leader"\ncommons = "{copied(commons)}"\n')
    out = tmp_path / "again.json"
    assert dap("task", "show", "task-1", "--config", tmp_path / "m.toml", "--out", out) == EXIT_OK
    assert "the commons, in its log" in capsys.readouterr().out
    assert load_client_task(out.read_bytes(), where="x") == task


def test_a_task_that_nobody_would_take_part_in_is_not_published(
    commons: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog(tmp_path)
    words = ("task", "create", "task-1", *URLS, *SPEAKER, "--dir", tmp_path, "--out", tmp_path / "t.json")
    assert dap(*words, "--catalog", tmp_path / "c.json", "--members", "none") == EXIT_REFUSED
    assert "no proof of membership" in error(capsys)
    assert dap(*words, "--length", 4) == EXIT_REFUSED
    assert "places without a meaning" in error(capsys)
    bare = [word for word in words if word not in SPEAKER]
    assert dap(*bare, "--catalog", tmp_path / "c.json") == EXIT_REFUSED
    assert "names no collector" in error(capsys)
    assert not (tmp_path / "t.json").exists()


def test_an_aggregator_takes_on_no_task_but_the_published_one(
    commons: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog(tmp_path)
    created(tmp_path, *SPEAKER, "--catalog", tmp_path / "c.json", "--dir", tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    created(other, "--catalog", tmp_path / "c.json", "--epoch", 3600)
    folder, public = aggregator(tmp_path, commons, "leader"), key(tmp_path)
    capsys.readouterr()
    words = ("--dir", folder, "--collector", public, "--secret", tmp_path / "verify.secret")
    assert dap("task", "add", other / "task-1.json", *words) == EXIT_REFUSED
    assert "is not the task task-1 that the commons published" in error(capsys)
    assert len(TaskDirectory(folder / "tasks")) == 0
    assert not (tmp_path / "verify.secret").exists()


def test_an_aggregator_without_a_commons_takes_on_no_task_whose_proofs_it_could_not_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_aggregator(tmp_path / "leader", os.urandom)
    created(tmp_path, "--length", 4)
    created(tmp_path, "--length", 4, "--members", "none", "--min-batch", 3, "--demo", name="trial")
    words = ("--dir", tmp_path / "leader", "--collector", key(tmp_path), "--secret", tmp_path / "s")
    capsys.readouterr()
    assert dap("task", "add", tmp_path / "task-1.json", *words) == EXIT_REFUSED
    assert "cannot check the proofs" in error(capsys)
    assert dap("task", "add", tmp_path / "trial.json", *words) == EXIT_REFUSED
    assert "give --demo" in error(capsys)
    assert dap("task", "add", tmp_path / "trial.json", *words, "--demo") == EXIT_OK
    assert "nothing was held against a commons" in capsys.readouterr().out
    assert dap("task", "add", tmp_path / "trial.json", *words[2:], "--dir", tmp_path) == EXIT_USAGE
    assert "no aggregator's folder" in error(capsys)
    (tmp_path / "s").write_text("short")
    assert dap("task", "add", tmp_path / "trial.json", *words, "--demo") == EXIT_USAGE
    assert "not 32 bytes in hex" in error(capsys)
    (tmp_path / "s").chmod(0o644)
    assert dap("task", "add", tmp_path / "trial.json", *words, "--demo") == EXIT_USAGE
    assert "can be read by others" in error(capsys)


def test_a_collectors_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    public = key(tmp_path)
    before, first = (tmp_path / "collector.json").read_bytes(), public.read_bytes()
    assert key(tmp_path).read_bytes() == first
    assert (tmp_path / "collector.json").read_bytes() == before
    assert (tmp_path / "collector.json").stat().st_mode & 0o777 == 0o600
    assert json.loads(before)["private"] not in first.decode()


def test_a_task_names_the_key_that_speaks_for_its_collector_and_hangs_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("key", "--out", tmp_path / "collector.json", "--public", tmp_path / "collector.pub")
    assert dap(*words, "--statements", tmp_path / "collector.key") == EXIT_OK
    key = read_key(tmp_path / "collector.key").verifier
    assert f"--collector {key.text}" in capsys.readouterr().out
    assert (tmp_path / "collector.key").stat().st_mode & 0o777 == 0o600
    assert dap(*words, "--statements", tmp_path / "collector.key") == EXIT_OK
    assert read_key(tmp_path / "collector.key").verifier == key
    trial = ("--length", 4, "--members", "none")
    named, bare = created(tmp_path, *trial, "--collector", key.text), created(tmp_path, *trial, name="task-2")
    assert (named.statement_key, bare.statement_key) == (key, None)
    assert named.task_id != bare.task_id
    told = capsys.readouterr().out
    assert f"collector   {key.text}" in told
    assert "collector   none is named" in told
    config = dataclasses.replace(
        named.config, extensions=(*named.config.extensions[:1], Extension(STATEMENT_KEY, b"k"))
    )
    with pytest.raises(TaskRefused, match="an Ed25519 public key has 32 bytes"):
        task_of(config.encode())


# --- submit, collect --------------------------------------------------------------------------------------------------


class Trial:
    """Files of a member and a collector of a running deployment."""

    def __init__(self, folder: Path, deployment: Deployment) -> None:
        self.folder, self.task = folder, deployment.task
        replace(folder / "task.json", dump_client_task(deployment.task))
        replace(folder / "collector.json", dump_key(deployment.collector_key))
        (folder / "members").mkdir()
        for name in ("acme", "globex", "initech", "collector"):
            path = folder / ("members" if name != "collector" else ".") / f"{name}.token"
            replace(path, TOKENS[name].replace("-", "").encode())

    def submit(self, *words: object, token: object = None) -> int:
        return dap("submit", "--task", self.folder / "task.json", "--token", token or self.folder / "members", *words)

    def collect(self, *words: object) -> int:
        keys = ("--key", self.folder / "collector.json", "--token", self.folder / "collector.token")
        return dap("collect", "--task", self.folder / "task.json", *keys, *words)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    folder = tmp_path_factory.mktemp("dap-cli")
    known = dict(TOKENS)
    TOKENS.update({name: token.replace("-", "") for name, token in known.items()})  # as a token's file has it
    try:
        with contextlib.ExitStack() as stack:
            yield Trial(folder, Deployment(folder, stack))
    finally:
        TOKENS.update(known)


def test_a_batch_that_is_too_small_says_the_floor_and_no_number_below_it(
    trial: Trial, capsys: pytest.CaptureFixture[str]
) -> None:
    initech = trial.folder / "members" / "initech.token"
    assert trial.submit("--ones", "0", token=initech) == EXIT_OK
    assert trial.submit("--ones", "1", token=initech) == EXIT_REFUSED
    assert "1 refused: report_dropped: this token has a report in this epoch already" in capsys.readouterr().out
    assert trial.collect("--running", "--wait", "0.5") == EXIT_REFUSED
    assert "it holds fewer than 3 valid reports" in error(capsys)
    assert trial.collect() == EXIT_REFUSED
    assert "has fewer than the 3 valid reports that the task needs" in error(capsys)


def test_a_file_of_reports_goes_out_with_a_token_each_and_what_is_refused_is_told_of(
    trial: Trial, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trial.folder / "reports.txt"
    path.write_text("\n".join("1" * n + "0" * (LENGTH - n) for n in (1, 2, 3)))
    assert trial.submit("--file", path, "--json") == EXIT_REFUSED
    said = json.loads(capsys.readouterr().out)
    assert (said["stored"], sum(said["refused"].values())) == (2, 1)  # the third is initech's second


def test_all_reports_of_one_command_are_of_one_epoch(
    trial: Trial, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch = trial.task.time_of(SystemClock().now_us()) - 20
    clocks = (ManualClock(trial.task.start_us(epoch + n)) for n in range(10))
    path = trial.folder / "late.txt"
    path.write_text(f"{'1' * LENGTH}\n" * 3)
    with monkeypatch.context() as patch:
        patch.setattr(mesh_dap, "SystemClock", lambda: next(clocks))
        assert trial.submit("--file", path) == EXIT_OK
    said = capsys.readouterr().out
    named = int(said.rsplit(" ", 1)[1])
    assert "3 of 3 reports are stored" in said
    assert trial.collect("--first", named) == EXIT_OK
    assert f"epoch {named} " in capsys.readouterr().out


def test_a_trial_whose_port_is_taken_says_what_can_be_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sock = socket.create_server(("127.0.0.1", 0))
    with sock:
        port = sock.getsockname()[1]
        replace(tmp_path / "trial.json", stamped("interlock-dap-trial", 1, {"leader": port, "helper": port}))
        assert dap("pair", "--dir", tmp_path) == EXIT_USAGE
    said = error(capsys)
    assert f"127.0.0.1:{port}: is in use" in said
    assert "make a new trial in another folder" in said


def test_a_batch_is_collected_kept_and_the_same_again(trial: Trial, capsys: pytest.CaptureFixture[str]) -> None:
    out = trial.folder / "collected.json"
    assert trial.collect("--running", "--out", out) == EXIT_OK
    shown = capsys.readouterr().out
    assert "3 reports, in dap-18" in shown
    assert "place 0  3" in shown
    assert "place 1  1" in shown
    assert trial.collect("--running", "--json") == EXIT_OK
    said = json.loads(capsys.readouterr().out)
    assert said == json.loads(out.read_text())
    assert (said["format"], said["report_count"], said["sums"][:3]) == ("interlock-collected", 3, [3, 1, 0])
    assert said["task_id"] == trial.task.task_id.hex()
    assert trial.submit("--ones", "0") == EXIT_REFUSED
    assert "1 refused: batch_collected: this epoch was collected" in capsys.readouterr().out
    assert out.stat().st_mode & 0o777 == 0o600
    assert trial.collect("--running", "--out", out) == EXIT_USAGE
    assert "is there already" in error(capsys)


def test_epochs_that_overlap_what_was_collected_are_refused(trial: Trial, capsys: pytest.CaptureFixture[str]) -> None:
    assert trial.collect("--running", "--epochs", 2) == EXIT_REFUSED
    assert "was collected before, in another batch" in error(capsys)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--ones", f"0,{LENGTH}"), "is a list of places from 0 to 15"),
        (("--ones", "x"), "is a list of places"),
        (("--file", "nowhere"), "nowhere"),
    ],
)
def test_what_is_no_measurement_is_not_sent(
    trial: Trial, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert trial.submit(*words) == EXIT_USAGE
    assert said in error(capsys)


def test_a_file_with_a_bad_line_sends_nothing_and_names_the_line_alone(
    trial: Trial, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trial.folder / "bad.txt"
    path.write_text("0" * LENGTH + "\n" + "0" * (LENGTH - 1) + "2\n")
    assert trial.submit("--file", path) == EXIT_USAGE
    assert "report 2: is not 16 digits of 0 or 1" in error(capsys)
    path.write_text("\n".join(["0" * LENGTH] * 4))
    assert trial.submit("--file", path) == EXIT_USAGE
    assert "holds 3 tokens for 4 reports" in error(capsys)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--epochs", 0), "--epochs"),
        (("--first", -1), "no epoch of this task"),
        (("--first", 10**9), "give --running"),
        (("--first", 10**9, "--running"), "ask for earlier ones"),
        (("--catalog", "CATALOG"), "is not the catalog"),
        (("--key", "OPEN"), "can be read by others"),
    ],
)
def test_a_question_that_cannot_be_answered_is_not_asked(
    trial: Trial, capsys: pytest.CaptureFixture[str], words: tuple[object, ...], said: str
) -> None:
    (trial.folder / "CATALOG").write_bytes(build_catalog("c", opens_at=0, rules=["a"]).data)
    (trial.folder / "OPEN").write_bytes((trial.folder / "collector.json").read_bytes())
    (trial.folder / "OPEN").chmod(0o644)
    named = [trial.folder / str(word) if word in ("CATALOG", "OPEN") else word for word in words]
    assert trial.collect(*named) == EXIT_USAGE
    assert said in error(capsys)


def test_a_task_that_asks_for_proofs_takes_no_report_by_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(tmp_path / "t.json", dump_client_task(task_of(configuration(membership=b"\x01\x01a"), demo=True)))
    assert dap("submit", "--task", tmp_path / "t.json", "--ones", "0") == EXIT_REFUSED
    assert "interlock mesh report submit" in error(capsys)


def test_a_leader_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = configuration(leader_url="http://127.0.0.1:9", helper_url="http://127.0.0.1:9/h")
    replace(tmp_path / "t.json", dump_client_task(task_of(data, demo=True)))
    replace(tmp_path / "token", secrets.token_hex(16).encode())
    assert dap("submit", "--task", tmp_path / "t.json", "--ones", "0") == EXIT_USAGE
    assert "127.0.0.1:9" in error(capsys)


@pytest.mark.parametrize("key", ["", "ed25519:00", "ed25519:" + "AB" * 32, "collector.key", "ab" * 32])
def test_what_is_no_key_of_a_collector_makes_no_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    out = tmp_path / "task.json"
    words = ("--length", 2, "--leader", "http://127.0.0.1:1", "--helper", "http://127.0.0.1:2", "--demo", "--out", out)
    assert dap("task", "create", "task-1", *words, f"--collector={key}") == EXIT_USAGE
    assert "--collector: names no Ed25519 key" in error(capsys)
    assert not out.exists()
