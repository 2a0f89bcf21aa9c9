"""The native analysis says what Python's says: the same intents in the same order, for every command there is."""

from __future__ import annotations

import functools
import gzip
import importlib
import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.limits import CASES
from interlock.engine.analysis.grammar_files import grammar_names
from interlock.engine.analysis.intents import Intent, intents
from interlock.engine.event import SensorEvent
from tests.unit import test_intents as cases
from tests.unit import test_shell_wrappers as wrappers
from tests.unit import test_shell_writes as writes

CORPORA = Path(__file__).resolve().parents[2].parent / "shared" / "corpora"
GRAMMARS = Path(__file__).resolve().parents[2] / "interlock" / "engine" / "analysis" / "grammars"


def _native() -> Callable[[str, Mapping[str, Any], str | None], Any] | None:
    try:
        return getattr(importlib.import_module("interlock_native"), "intents", None)
    except ImportError:
        return None


NATIVE = _native()
pytestmark = pytest.mark.skipif(NATIVE is None, reason="interlock-native is not installed, or has no analysis yet")

Row = tuple[object, ...]


def _python(action: str, args: Mapping[str, Any], cwd: str | None) -> list[Row]:
    found: tuple[Intent, ...] = intents(SensorEvent(action, args, cwd=cwd))
    return [(i.name, i.effect, i.target, i.scope, i.program, i.attributed_to, i.reversible) for i in found]


def _rust(action: str, args: Mapping[str, Any], cwd: str | None) -> Any:
    assert NATIVE is not None
    return NATIVE(action, dict(args), cwd)


def _same(args: Mapping[str, Any], cwd: str | None = None, action: str = "Bash") -> None:
    assert _rust(action, args, cwd) == _python(action, args, cwd), (action, args, cwd)


def _commands() -> list[str]:
    """Every text in the cases of the Python engine's own tests."""
    found: dict[str, None] = dict.fromkeys([*cases.ROOT_DELETES, *cases.HARMLESS])
    for name, test in vars(cases).items():
        for mark in getattr(test, "pytestmark", ()) if name.startswith("test_") else ():
            rows = mark.args[1] if mark.name == "parametrize" else ()
            found.update(dict.fromkeys(_texts(list(rows))))
    return list(found)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


@pytest.mark.parametrize("cwd", [None, "/checkout/project", "/home/u/project/", "/"])
def test_the_cases_of_the_reference_have_the_same_intents(cwd: str | None) -> None:
    commands = _commands()
    assert len(commands) > 200
    for command in commands:
        _same({"command": command}, cwd)


@pytest.mark.parametrize("cwd", [None, "/checkout/project", "/etc"])
def test_what_programs_write_is_told_alike(cwd: str | None) -> None:
    commands = [*(command for command, _ in writes.ROWS), *writes.READS]
    assert len(commands) > 180
    for command in commands:
        _same({"command": command}, cwd)
    for folder in ("~/.local", "~/.config", "~/src/interlock", ".github", ".claude/hooks", "~", ".", "/", "$X", "*"):
        for command in ("tar xf a -C", "unzip a -d", "cp -r x/ y ", "rsync -a h:x h:", "patch -d", "split a"):
            _same({"command": f"{command} {folder}"}, cwd)


def test_commands_inside_of_commands_are_read_alike() -> None:
    plain = [*wrappers.UNSEEN, *wrappers.TEXTS, *wrappers.GRAVE, *wrappers.TRACES]
    for command in [
        *plain,
        *(wrappers.filled(f, c) for f in wrappers.FORMS for c in [*wrappers.DESTRUCTIVE, "ls -la"]),
    ]:
        _same({"command": command}, "/checkout/project")


def test_argument_lists_are_read_alike() -> None:
    for command in cases.ROOT_DELETES:
        try:
            words = shlex.split(command)
        except ValueError:
            continue
        _same({"cmd": words, "workdir": "/work"})


_FILES = ["/etc/passwd", "~/.ssh/id_rsa", "~", "a\\b", ".claude/settings.json", "/root\n", "/w/*", "", "ſ"]


@pytest.mark.parametrize("path", [*_FILES, "x/.git/hooks/y"])
@pytest.mark.parametrize("action", ["Write", "mcp__fs__read_file", "delete_file", "str_replace_editor", "other"])
def test_file_tools_are_read_alike(action: str, path: str) -> None:
    for cwd in (None, "/w"):
        _same({"file_path": path, "command": "view", "source": "b"}, cwd, action)
        _same({"path": path, "destination": path}, cwd, action)


def test_patches_are_read_alike() -> None:
    patch = "*** Begin Patch\n*** Delete File: /etc/x\n*** Move to:  ~/.bashrc \n+++ b/.git/config\r\n*** Add File: \n"
    for name in ("input", "patch", "diff", "command", "other"):
        _same({name: patch * 40}, "/w", "apply_patch")


def test_what_the_native_engine_cannot_represent_is_left_to_python() -> None:
    for value in (b"rm -rf /", "\ud800", {1: 2}, object()):
        with pytest.raises(TypeError, match="cannot represent"):
            _rust("Bash", {"command": value}, None)


def test_both_engines_give_up_at_the_same_place() -> None:
    for make in CASES.values():
        tool, args = make()
        _same(args, "/work", tool)


# -- commands that others wrote -------------------------------------------------------------------------------------


def _rows(name: str) -> list[str]:
    with gzip.open(CORPORA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as f:
        return [row["command"] for row in map(json.loads, f) if isinstance(row.get("command"), str)]


@pytest.mark.skipif(not CORPORA.is_dir(), reason="../shared/corpora is not there")
@pytest.mark.parametrize("name", ["destructive_spellings", "gtfobins", "lolbas", "atomic_posix", "atomic_windows"])
def test_the_commands_of_a_corpus_have_the_same_intents(name: str) -> None:
    for k, command in enumerate(_rows(name)):
        _same({"command": command}, "/checkout/project" if k % 2 else None)


@pytest.mark.slow
@pytest.mark.skipif(not CORPORA.is_dir(), reason="../shared/corpora is not there")
def test_ordinary_commands_have_the_same_intents() -> None:
    for command in _rows("benign_commands"):
        _same({"command": command}, "/checkout/project")


# -- commands that nobody wrote -------------------------------------------------------------------------------------


@functools.cache
def _words_of(program: str) -> list[str]:
    """Options, subcommands and patterns of a program's grammar."""

    def of(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from key.split("|")
                yield from of(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from of(inner)
        elif isinstance(value, str):
            yield from value.lstrip("^").split()

    document = json.loads((GRAMMARS / f"{grammar_names()[program]}.json").read_text(encoding="utf-8"))
    return sorted(set(of({k: document.get(k) for k in ("values", "attached", "help", "effects", "commands")})))


PATHS = [
    "/", "/*", "~", "~/", "$HOME", "/etc/passwd", "/dev/sda", "/dev/null", "/dev/tcp/h/1", "a.txt", "../..", "$X/*",
    "~/.ssh/id_rsa", "~/.bashrc", ".git/hooks/pre-commit", ".claude/settings.json", ".cl*/set*", "/tmp/*", "'a b'", "-",
    "https://x.com/y", "http://localhost:80/z", "u@h:/x", "169.254.169.254/a", "@/etc/shadow", "s3://b/k", "{}", "²",
    "ſudo", "\x1c", "a\u2028b", "٣", "interlock", "-v", "/:/x", "--mount=src=/,dst=/x", "/root\n", "x=@y", "'' ",
]  # fmt: skip
CODES = [
    "rm -rf /", "import os as o\no.system('rm -rf /')", "import shutil; shutil.rmtree(\"/etc\")", "1e rm -rf /",
    "require('child_process').execSync(`rm -rf ~`)", "s/x/rm -rf \\//ge;w /etc/x", "DROP TABLE x; DELETE FROM y",
    "select 'drop table x' -- c\n; delete from y where 1 = 1", "!rm -rf /", ":!sh", "BEGIN{system(\"rm -rf /\")}",
    "exec(base64.b64decode('cm0='))", "a='''x'y''' # c\nopen(a,'w')", "File.delete(q(/etc/x)); qx{rm -rf /}",
    "FLUSHALL",
    "* * * * * rm -rf /", "db:drop", "socket.socket(); pty.spawn('/bin/sh')", "while True: os.fork()", "$1 $0 $@",
]  # fmt: skip
NAMES = sorted({
    *grammar_names(), "sudo", "env", "xargs", "bash", "sh", "python3", "perl", "node", "sed", "awk", "vim", "find",
    "tar", "jar", "7z", "cpio", "ar", "unzip", "patch", "ed",
    "psql", "sqlite3", "ssh", "eval", "exec", "read", "set", "shift", "cd", "export", "printf", "crontab", "parallel",
    "redis-cli", "socat", "nc", "watch", "nix-shell", "su", "timeout", "fd", "kubectl", "docker", "interlock", "mc",
    "doppler", "rclone", "heroku", "passwd", "kill", "pkill", "pip", "osascript", "make", "gdb", "tmux", "ansible",
})  # fmt: skip


@st.composite
def _simple(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(NAMES))
    own = _words_of(name) if name in grammar_names() else ["-c", "-e", "-rf"]
    word = st.one_of(
        st.sampled_from(own or ["x"]),
        st.sampled_from(PATHS),
        st.sampled_from(CODES).map(shlex.quote),
        st.text("-abcdefrnixvsXoO=", min_size=1, max_size=4),
        st.sampled_from(NAMES),
    )
    prefix = draw(st.sampled_from(["", "", "", "X=/ ", "PAGER='rm -rf /' ", "sudo ", "INTERLOCK_HOME=x "]))
    suffix = draw(st.sampled_from(["", "", "", " > /etc/x", " <<< '/'", " < ~/.netrc", " 2>&1", " <<E\nrm -rf /\nE\n"]))
    return prefix + " ".join([name, *draw(st.lists(word, max_size=5))]) + suffix


_FORMS = ["{0}", "{0} | {1}", "{0}; {1}", "{0} && {1} &", "echo $({0}) {1}", "for i in / ~; do {0} $i; done; {1}"]
_FORMS += ["f() {{ {0}; }}; f /; {1}", "if {0}; then {1}; fi", "( {0} ); {1}", "{0} <({1})", "bash -c '{0}' a b; {1}"]


@settings(max_examples=400, derandomize=True, deadline=None)
@given(_simple(), _simple(), st.sampled_from(_FORMS), st.sampled_from([None, "/checkout/project", "/"]))
def test_commands_put_together_have_the_same_intents(a: str, b: str, form: str, cwd: str | None) -> None:
    _same({"command": form.format(a, b)}, cwd)


_JUNK = [*"\"'`$(){}[]<>|&;\\ \n\t#!*?~=-,/%:@", "rm", "-rf", "sh", "²", "\x00", "\x01", "\u0301", "\x1c", "K", "9"]


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(_JUNK), st.sampled_from(NAMES)), max_size=40).map("".join))
def test_junk_has_the_same_intents(text: str) -> None:
    _same({"command": text}, "/checkout/project")


_PIECES = ["(", ")", "'/etc/x'", '"', "'", "`ls`", "qx", "q", "%x", "{", "}", "/", "#", "\n", " ", ",", "=", "x"]
_PIECES += ["os.remove", "shutil.rmtree", "open", "'w'", "system", "import os as o", "o.system", "fork", "while True"]
_PIECES += ["exec", "b64decode", "s", "e", "w", ";", "|", "DROP TABLE x", "DELETE FROM y", "--", "/*", "*/", "$a$"]
_PIECES += ["WHERE 1=1", "!", ":", "é", "²"]
_RUNTIMES = ["python3 -c", "perl -e", "node -e", "ruby -e", "sed -e", "psql -c", "awk", "vim -c", "osascript -e"]


@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    st.sampled_from(_RUNTIMES),
    st.lists(st.sampled_from(_PIECES), max_size=14).map("".join),
)
def test_code_inside_a_command_has_the_same_intents(program: str, code: str) -> None:
    _same({"command": f"{program} {shlex.quote(code)}"}, "/checkout/project")
    _same({"command": [*program.split(), code]})
