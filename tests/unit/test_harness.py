"""The harness: figures of a policy on a corpus, with bounds, a line a rule and a detector."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from interlock.base.errors import BadInput
from interlock.commons.harness import Row, measure, read_corpus, wilson
from interlock.engine.evaluate import PythonEvaluator
from interlock.engine.policy.builtins import builtin, resolver
from interlock.engine.policy.load import load_policy
from interlock.engine.policy.model import Policy, Source
from interlock.node.cli.main import main

SPELLINGS = [
    {"command": "rm -rf /", "expect": "block", "tier": "core", "shell": "posix"},
    {"command": "terraform destroy", "expect": "block", "tier": "core", "shell": "posix"},
    {"command": "true", "expect": "block", "tier": "core", "shell": "posix"},
    {"command": "echo rm -rf /", "expect": "allow", "tier": "core", "shell": "posix"},
    {"command": "rm -rf /", "expect": "block", "tier": "peer-default", "shell": "posix"},
    {"command": "Remove-Item C:\\", "expect": "block", "tier": "core", "shell": "powershell"},
]
BENIGN = [
    {"command": "ls -la", "class": "benign", "shell": "posix"},
    {"command": "npm publish", "class": "benign", "shell": "posix"},
    {"command": "make", "class": "benign", "shell": "posix", "maybe": "desc-says-delete"},
    {"command": "mkfs.ext4 /dev/sda1", "class": "destructive-doc", "grade": "catastrophic", "shell": "posix"},
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for name, rows in (("destructive_spellings", SPELLINGS), ("benign_commands", BENIGN)):
        with gzip.open(tmp_path / f"{name}.jsonl.gz", "wt", encoding="utf-8") as f:
            f.writelines(json.dumps(row) + "\n" for row in rows)
    return tmp_path


def _policy() -> Policy:
    source = Source("builtin", "coding-agent")
    return load_policy(builtin("coding-agent"), where="p", source=source, resolve=resolver(None))


def test_the_figures_count_the_rows_of_their_group_only(corpus: Path) -> None:
    report = measure(_policy(), read_corpus(corpus), PythonEvaluator())
    counted = {f.name: (f.hits, f.of) for f in report.figures}
    assert counted == {
        "block rows met": (2, 3),
        "block rows blocked": (1, 3),
        "allow rows stopped": (0, 1),
        "benign rows blocked": (0, 2),
        "benign rows escalated": (1, 2),
        "catastrophic rows met": (1, 1),
        "benign rows proven harmless": (1, 2),
        "other rows proven harmless": (1, 4),
    }
    rows = {"block": 3, "allow": 1, "benign": 2, "catastrophic": 1, "documented": 0}
    for rule, group in (("publish", "benign"), ("fs.destroy", "block")):
        assert {name: (f.hits, f.of) for name, f in report.rules[rule].items()} == {
            name: (int(name == group), of) for name, of in rows.items()
        }
    assert all((f.low, f.high) == wilson(f.hits, f.of) for groups in report.rules.values() for f in groups.values())


def test_a_detector_counts_each_row_at_which_a_rule_that_asks_it_objected() -> None:
    document = {
        "format": "interlock-policy",
        "v": 1,
        "name": "p",
        "rules": [
            {
                "id": "s",
                "when": {"any": [{"arg": "command", "contains": "zz"}, {"detector": "secrets"}]},
                "verdict": "block",
                "reason": "a secret",
            }
        ],
    }
    policy = load_policy(json.dumps(document).encode(), where="p", source=Source("file", "p"), resolve=resolver(None))
    report = measure(policy, [Row("echo zz", "block"), Row("echo", "block")], PythonEvaluator())
    assert report.detectors.keys() == {"secrets"}
    assert report.detectors["secrets"]["block"] == ("block", 1, 2, *wilson(1, 2))
    assert report.detectors["secrets"]["benign"] == ("benign", 0, 0, 0.0, 1.0)


def test_bounds_hold_the_share_and_narrow_with_more_rows() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(0, 100) == pytest.approx((0.0, 0.037), abs=0.001)
    assert wilson(50, 100) == pytest.approx((0.404, 0.596), abs=0.001)
    assert wilson(500, 1000)[0] > wilson(50, 100)[0]


def test_progress_is_told_now_and_then() -> None:
    told: list[int] = []
    measure(_policy(), [Row("ls", "benign")] * 1100, PythonEvaluator(), told.append)
    assert told == [500, 1000]


def test_a_folder_without_a_corpus_and_a_cut_file_are_refused(
    corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.raises(BadInput, match="holds no corpus"):
        read_corpus(corpus / "none")
    path = corpus / "benign_commands.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadInput, match="not readable"):
        read_corpus(corpus)


def test_the_command_prints_lines_or_one_object(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["mesh", "harness", "builtin:coding-agent", "--corpus", str(corpus), "--evaluator", "python"]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert "block rows met" in out
    heads = r"rule +block of 3 +allow of 1 +benign of 2 +catastrophic of 1 +documented of 0\n"
    assert re.search(heads, out)
    assert re.search(r"  fs\.destroy +1 \(6\.15% to 79\.23%\) +0 \(0\.00% to 79\.35%\).* no rows\n", out)
    assert main([*argv, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["format"], report["v"], report["evaluator"]) == ("interlock-harness", 2, "python")
    assert report["figures"][0] == pytest.approx(
        {"name": "block rows met", "hits": 2, "of": 3, "share": 2 / 3, "low": 0.2077, "high": 0.9385}, abs=0.001
    )
    assert set(report["rules"]["publish"]) == {"block", "allow", "benign", "catastrophic", "documented"}
    assert report["rules"]["publish"]["benign"] == pytest.approx(
        {"hits": 1, "of": 2, "share": 0.5, "low": 0.0945, "high": 0.9055}, abs=0.001
    )
    assert {"hits", "of", "share", "low", "high"} == report["detectors"]["secrets"]["block"].keys()


def test_the_native_evaluator_is_refused_where_it_is_not(
    corpus: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_NATIVE", "0")
    argv = ["mesh", "harness", "builtin:coding-agent", "--corpus", str(corpus)]
    assert main([*argv, "--evaluator", "native"]) == 2
    assert "the Python engine is in use" in capsys.readouterr().err
    assert main([*argv, "--evaluator", "auto"]) == 0
    assert "python evaluator" in capsys.readouterr().out


def test_the_command_without_a_corpus_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mesh", "harness", "builtin:coding-agent", "--corpus", str(tmp_path)]) == 2
    assert "holds no corpus" in capsys.readouterr().err
