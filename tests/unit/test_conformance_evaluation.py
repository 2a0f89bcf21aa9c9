"""tests/conformance/evaluation.json: the same policies, events and decisions in Python, in Rust and in C."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.evaluate import evaluate
from interlock.native.availability import availability
from tests.conformance.cases import FILE, event_of, policy_of, told, vectors

ROOT = Path(__file__).parents[2]
CASES: list[dict[str, Any]] = json.loads(FILE.read_text("utf-8"))["cases"]


def test_the_file_is_what_the_python_engine_says() -> None:
    """Where this fails, a decision or a plan has changed: `python -m tests.conformance.cases` writes the file anew."""
    assert json.loads(json.dumps(vectors())) == json.loads(FILE.read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_the_wheel_decides_as_the_vectors_say(case: dict[str, Any]) -> None:
    if not availability().installed:
        pytest.skip(availability().sentence)
    native = pytest.importorskip("interlock.native.evaluator").NativeEvaluator()
    policy = policy_of(case["document"], case["links"])
    for row in case["events"]:
        event = event_of(row["event"])
        assert json.loads(json.dumps(told(native.evaluate(policy, event)))) == row["decision"]
        assert native.evaluate(policy, event).decision == evaluate(policy, event).decision


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C program, compiled against the header and linked to the static library."""
    cargo, cc = shutil.which("cargo"), shutil.which("cc")
    if cargo is None or cc is None:
        pytest.skip(f"{'cargo' if cargo is None else 'a C compiler'} is not here")
    native = ROOT / "native"
    build = [cargo, "build", "--quiet", "--package", "interlock-capi"]
    subprocess.run(build, cwd=native, check=True, capture_output=True, timeout=900)
    library = Path(os.environ.get("CARGO_TARGET_DIR", native / "target")) / "debug" / "libinterlock_capi.a"
    program = tmp_path_factory.mktemp("c") / "replay"
    source = ROOT / "tests" / "conformance" / "replay.c"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", str(native / "capi" / "include")]
    libraries = [str(library), "-lpthread", "-ldl", "-lm"]
    done = subprocess.run([cc, *flags, str(source), *libraries, "-o", str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


def _run(replay: Path, folder: Path, plan: object, events: list[str]) -> subprocess.CompletedProcess[str]:
    (folder / "plan").write_text(json.dumps(plan), "utf-8")
    (folder / "events").write_text("\n".join(events), "utf-8")
    return subprocess.run([replay, folder / "plan", folder / "events"], capture_output=True, text=True, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_a_c_program_decides_as_the_vectors_say(replay: Path, tmp_path: Path, case: dict[str, Any]) -> None:
    done = _run(replay, tmp_path, case["plan"], [json.dumps(row["event"]) for row in case["events"]])
    assert done.returncode == 0, done.stdout
    assert [json.loads(line) for line in done.stdout.splitlines()] == [row["decision"] for row in case["events"]]


@pytest.mark.slow
def test_a_c_program_is_asked_where_paths_lead(replay: Path, tmp_path: Path) -> None:
    case = next(case for case in CASES if case["name"] == "links")
    event = {key: held for key, held in case["events"][0]["event"].items() if key != "links"}
    links = {"links": {"/home/dev/app/out": "/etc/cron.d"}}
    done = _run(replay, tmp_path, case["plan"], [json.dumps(event), json.dumps(event | links)])
    assert done.returncode == 0, done.stdout
    asked, told = map(json.loads, done.stdout.splitlines())
    assert (asked["verdict"], asked["leads"]) == ("block", ["/home/dev/app/out"])
    assert told == case["events"][0]["decision"]


@pytest.mark.slow
def test_a_c_program_is_told_what_is_wrong(replay: Path, tmp_path: Path) -> None:
    plan = CASES[0]["plan"]
    done = _run(replay, tmp_path, plan, ["no event", '{"action": "x", "args": {"n": 36893488147419103232}}'])
    assert done.returncode == 0
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["refused", "refused"]
    done = _run(replay, tmp_path, plan | {"abi": 1}, [])
    assert (done.returncode, done.stdout) == (1, "refused: is no plan of this version\n")
