"""Proofs of harmlessness: what is proven, on the text alone and on a real directory, and what a resolver forbids."""

from __future__ import annotations

import json
import os
import posixpath
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import interlock
from interlock.engine.analysis.harmless import Proof, prove
from interlock.engine.decision import Decision, Verdict
from interlock.engine.event import SensorEvent
from interlock.engine.harmless_files import FileResolver
from interlock.interceptors.enforce import decide
from tests.unit.harmless_tree import TREE, Ordinary


def _proof(command: str, resolver: Ordinary | None = None, **args: object) -> Proof | None:
    return prove(SensorEvent("Bash", {"command": command, **args}, cwd=TREE), resolver or Ordinary())


HARMLESS = [
    "ls -la",
    "cat README.md | head -20",
    "grep -rn 'rm -rf' .",
    "git status --short && git diff --stat",
    "git log --oneline -5",
    "find . -name '*.py' -type f | wc -l",
    "find . -name '*.py' -exec grep -l main {} \\;",
    "find . -name '*.py' -print0 | xargs -0 wc -l",
    "find src | xargs grep -n TODO",
    "sed -n '1,20p;/x/p' a.txt",
    "awk '{ print $1 }' a.txt | sort | uniq -c | sort -rn",
    "awk -F'|' 'NR > 1 && ($2 >= 3 || /x|y/) { n++; print $1 || $2, $3 >= 4 } END { print n }' a.txt",
    "set -euo pipefail; find . -type f | xargs -d '\\n' wc -l",
    "echo $HOME; date +%F; pwd; uname -a",
    "diff <(ls a) <(ls b)",
    "cd src && ls",
    "for f in a b; do cat $f; done",
    "x=a.txt; cat $x ${x%.txt}.md",
    "if test -f a; then cat a; fi 2>/dev/null",
    "cat <<'EOF'\nrm -rf /\nEOF",
    "timeout 5 nice -n 5 ls",
    "cat *.md",
    "jq -r .name package.json",
    "rg -n --no-config TODO src",
    "cat $(find . -name a.txt)",
    "cat /checkout/tree/a.txt",
    "grep -E 'a*(b|c)' a.txt",
    "printf '%d of %s' 3 4; [ 3 -le 4 ] && test ! -f a -o -d b",
    "cut -d / -f 2 a.txt | sort -t / -k 2",
    "find . -name *.py -mtime -1",
    "find . -type f -exec test -x {} \\; -print",
    "gzip -dc a.gz | zgrep -n x - | bc",
    "printf '%s\\n' \"$HOME\"",
    "git branch --contains HEAD && git cat-file -p HEAD && git stash list",
    "sed 's/[[:space:]]*$//; s/[^a-z]/x/g' a.txt",
    "sed -n 's;a/b;c;p; s~x~y~2;=' a.txt",
    '[[ -f a.txt ]] && cat a.txt; [[ "$HOME" == *x ]] || echo no',
    'case "$1" in a|b) cat a.txt ;; *) ls ;; esac',
    "read -r -t 5 -p 'Go on? ' answer",
    "cat $(pwd)/a.txt; find \"$(pwd)\" -name '*.py'",
    "cat a.txt | xargs -n 1 echo",
    "git symbolic-ref --short HEAD; git hash-object a.txt; git fsck --full",
    "ip -br addr show; ip r g 1.1.1.1; ip route list table all",
    "grep -rn --include=*.py TODO .",
]


@pytest.mark.parametrize("command", HARMLESS)
def test_a_command_that_only_reads_its_tree_is_proven(command: str) -> None:
    assert _proof(command) is not None


def test_a_proof_names_the_programs_and_the_tree() -> None:
    proof = _proof("cat a | sort")
    assert proof == Proof(("cat", "sort"), TREE)
    assert proof is not None
    assert proof.text == "only reads: cat, sort"


def test_without_a_directory_nothing_is_proven() -> None:
    assert prove(SensorEvent("Bash", {"command": "ls"}), Ordinary()) is None
    assert prove(SensorEvent("Bash", {"command": "ls"}, cwd="/"), Ordinary()) is None
    assert prove(SensorEvent("Bash", {"command": "ls"}, cwd="src"), Ordinary()) is None


def test_an_argument_that_is_not_known_leaves_nothing_proven() -> None:
    assert _proof("ls", description="list", timeout=5) is not None
    assert _proof("ls", env={"PATH": "."}) is None
    assert _proof("ls", script="rm x") is None
    assert prove(SensorEvent("Bash", {"command": ["ls"]}, cwd=TREE), Ordinary()) is None
    assert prove(SensorEvent("Write", {"command": "ls"}, cwd=TREE), Ordinary()) is None
    assert prove(SensorEvent("Bash", {"command": "ls"}, phase="result", cwd=TREE), Ordinary()) is None


class _Without(Ordinary):
    """An ordinary checkout in which one answer is another one."""

    def __init__(self, **changed: object) -> None:
        self.changed = changed

    def real(self, path: str) -> str | None:
        return "/etc/passwd" if path == posixpath.join(TREE, str(self.changed.get("link"))) else super().real(path)

    def expand(self, pattern: str) -> Sequence[str] | None:
        return ["/checkout/tree/-ok", "/checkout/tree/a.md"] if self.changed.get("glob") else super().expand(pattern)

    def clean(self, path: str) -> bool:
        return self.changed.get("clean") != path and super().clean(path)

    def names(self, directory: str) -> bool:
        return self.changed.get("names") is not False

    def program(self, name: str) -> str | None:
        return f"{TREE}/bin/{name}" if name == self.changed.get("own") else super().program(name)

    def plain(self, settings: str, directory: str) -> bool:
        return settings != self.changed.get("set")


@pytest.mark.parametrize(
    ("command", "changed"),
    [
        ("cat notes", {"link": "notes"}),
        ("cat *.md", {"glob": True}),
        ("grep -r x .", {"clean": TREE}),
        ("git diff", {"clean": TREE}),
        ("find . | xargs cat", {"names": False}),
        ("cat $(find . -name x)", {"names": False}),
        ("jq . a.json", {"own": "jq"}),
        ("echo hi", {"own": "echo"}),
        ("[[ -f a ]] && ls", {"own": "[["}),
        ("git status", {"set": "git"}),
        ("rg x", {"set": "rg"}),
        ("ls", {"set": "shell"}),
    ],
)
def test_what_the_machine_says_otherwise_ends_the_proof(command: str, changed: dict[str, object]) -> None:
    assert _proof(command) is not None
    assert _proof(command, _Without(**changed)) is None


# -- a real directory ------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "src").mkdir(parents=True)
    (tree / "src" / "a.py").write_text("x = 1\n")
    (tree / "out").symlink_to("/etc/passwd")
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    return tree


def _real(checkout: Path, command: str, **environ: str) -> bool:
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(checkout.parent), **environ}
    return prove(SensorEvent("Bash", {"command": command}, cwd=str(checkout)), FileResolver(env)) is not None


def test_a_link_that_leads_out_is_not_read(checkout: Path) -> None:
    assert _real(checkout, "cat src/a.py")
    assert not _real(checkout, "cat out")
    assert not _real(checkout, "cat src/../out")
    assert not _real(checkout, "grep -r x .")
    assert _real(checkout, "grep -r x src")


def test_a_link_is_followed_before_the_dots_behind_it(checkout: Path) -> None:
    (checkout / "etc").symlink_to("/etc/init.d")
    (checkout / "passwd").write_text("mine\n")
    assert _real(checkout, "cat src/../passwd")
    assert not _real(checkout, "cat etc/../passwd")
    assert not _real(checkout, "ls etc/..")


def test_a_secret_in_the_tree_is_not_read(checkout: Path) -> None:
    (checkout / "src" / ".env").write_text("TOKEN=1\n")
    assert not _real(checkout, "cat src/.env")
    assert not _real(checkout, "grep -r x src")
    assert _real(checkout, "ls -a src")


def test_a_program_in_the_tree_is_not_run(checkout: Path) -> None:
    own = checkout / "bin" / "cat"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    assert not _real(checkout, "cat src/a.py", PATH=f"{own.parent}:/usr/bin:/bin")
    assert not _real(checkout, "cat src/a.py", PATH=":/usr/bin:/bin")
    assert not _real(checkout, "bin/cat src/a.py")


@pytest.mark.parametrize(
    "setting",
    [
        "[core]\n\tfsmonitor = ./x\n",
        "[core]\n\tpager = ./x\n",
        "[diff]\n\texternal = ./x\n",
        "[include]\n\tpath = x\n",
        '[filter "x"]\n\tclean = ./x\n',
        "[core]\n\thooksPath = x\n",
    ],
)
def test_git_is_proven_only_where_its_configuration_runs_nothing(checkout: Path, setting: str) -> None:
    assert _real(checkout, "git status")
    assert not _real(checkout, "git status", GIT_EXTERNAL_DIFF="./x")
    with (checkout / ".git" / "config").open("a") as f:
        f.write(setting)
    assert not _real(checkout, "git status")


def test_git_is_not_proven_where_it_would_look_into_another_repository(checkout: Path) -> None:
    bare = checkout / "bare"
    subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True)
    assert not _real(checkout, "cd bare && git status")
    subprocess.run(["git", "init", "-q", str(checkout / "sub")], check=True)
    assert not _real(checkout, "git status")


def test_an_environment_that_runs_code_ends_every_proof(checkout: Path) -> None:
    assert not _real(checkout, "ls", BASH_ENV="./x")
    assert not _real(checkout, "ls", LD_PRELOAD="./x.so")
    assert not _real(checkout, "ls", **{"BASH_FUNC_ls%%": "() { rm x; }"})
    assert not _real(checkout, "rg x", RIPGREP_CONFIG_PATH="x")


def test_names_that_xargs_would_split_end_the_proof(checkout: Path) -> None:
    assert _real(checkout, "find src | xargs wc")
    (checkout / "src" / "b -o c").write_text("")
    assert not _real(checkout, "find src | xargs wc")
    assert _real(checkout, "find src -print0 | xargs -0 wc")


def test_a_tree_that_cannot_be_read_whole_is_not_clean(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.engine.harmless_files._MAX_ENTRIES", 1)
    assert os.listdir(checkout / "src") == ["a.py"]
    assert _real(checkout, "grep -r x src")
    (checkout / "src" / "b.py").write_text("")
    assert not _real(checkout, "grep -r x src")


# -- at the door -----------------------------------------------------------------------------------------------------


def _installed(tmp_path: Path, **fields: object) -> None:
    document = {
        "format": "interlock-policy",
        "v": 1,
        "name": "p",
        "rules": [
            {
                "id": "no-readme",
                "when": {"arg": "command", "contains": "README"},
                "verdict": "escalate",
                "reason": "not that file",
            }
        ],
        **fields,
    }
    (tmp_path / "p.json").write_text(json.dumps(document))
    interlock.install(policy=tmp_path / "p.json")


def _decided(checkout: Path, command: str) -> Decision:
    return decide(SensorEvent("Bash", {"command": command}, cwd=str(checkout))).decision


@pytest.fixture
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs these tests may have a variable that ends every proof, as PYTHONPATH or LESSOPEN does."""
    for name in set(os.environ) - {"PATH", "HOME"}:
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("_plain_environment")
def test_a_policy_that_asks_for_proofs_gets_them_for_calls_that_nothing_objects_to(
    checkout: Path, tmp_path: Path
) -> None:
    _installed(tmp_path, harmless="prove")
    assert _decided(checkout, "ls src").proven == "only reads: ls"
    assert _decided(checkout, "rm src/a.py").proven is None
    asked = _decided(checkout, "ls README.md")
    assert (asked.verdict, asked.proven) == (Verdict.ESCALATE, None)


def test_without_being_asked_nothing_is_proven(checkout: Path, tmp_path: Path) -> None:
    _installed(tmp_path)
    assert _decided(checkout, "ls src").proven is None
