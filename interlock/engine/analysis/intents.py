"""What a tool call would do: the intents of a shell command or of a file tool, for policies to match on.

Pure and bounded: the same event gives the same intents, nothing on disk is looked at, and no input raises.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Final

from interlock.engine.analysis.builtins_table import BUILTINS
from interlock.engine.analysis.effects import INTENT_NAMES, Intent
from interlock.engine.analysis.interpreters import INTERPRETERS
from interlock.engine.analysis.places import PLACES
from interlock.engine.analysis.programs import Programs
from interlock.engine.analysis.programs_archives import ARCHIVES
from interlock.engine.analysis.programs_cloud import CLOUD
from interlock.engine.analysis.programs_data import DATA
from interlock.engine.analysis.programs_files import FILES
from interlock.engine.analysis.programs_net import NET
from interlock.engine.analysis.programs_system import SYSTEM
from interlock.engine.analysis.programs_vcs import VCS
from interlock.engine.analysis.shell import parse
from interlock.engine.analysis.shell_run import Call, Tables, Walk
from interlock.engine.analysis.values import Arg, without_marks
from interlock.engine.analysis.wrappers import WRAPPERS
from interlock.engine.event import SensorEvent

__all__ = ["COMMAND_ARGS", "CWD_ARGS", "INTENT_NAMES", "SHELL_TOOLS", "TABLES", "Intent", "command_tool", "intents"]

# Tools whose argument is a shell command, in lower case, without the `mcp__server__` before the name.
SHELL_TOOLS: Final = frozenset({
    "bash", "shell", "sh", "zsh", "terminal", "exec", "execute", "run", "run_shell_command", "run_command",
    "execute_command", "exec_command", "run_terminal_cmd", "run_terminal_command", "run_in_terminal", "shell_command",
    "local_shell", "container.exec", "bash_tool", "execute_bash", "execute_shell", "command", "unified_exec",
        "run_bash",
    "developer__shell", "shell_exec", "process", "run_script",
})  # fmt: skip
COMMAND_ARGS: Final = ("command", "cmd", "commandline", "CommandLine", "script", "input", "code")
CWD_ARGS: Final = ("cwd", "workdir", "working_directory", "dir_path", "Cwd")
_WRITE_TOOLS: Final = frozenset({
    "write", "edit", "multiedit", "notebookedit", "write_file", "writefile", "create_file", "edit_file", "replace",
    "str_replace_editor", "str_replace_based_edit_tool", "create", "insert", "update_file", "append_file", "save_file",
    "str_replace", "apply_diff", "write_to_file", "replace_in_file", "multi_edit", "move_file", "copy_file",
        "edit_notebook",
})  # fmt: skip
_DELETE_TOOLS: Final = frozenset({"delete", "delete_file", "remove_file", "delete_directory", "remove", "rm"})
_READ_TOOLS: Final = frozenset(
    {"read", "read_file", "readfile", "view", "cat", "open_file", "get_file_contents", "view_file"}
)
_PATH_ARGS: Final = (
    "file_path",
    "path",
    "notebook_path",
    "filename",
    "file",
    "target_file",
    "absolute_path",
    "filePath",
    "destination",
    "source",
)
_PATCH_LINE: Final = re.compile(r"^\*\*\* (Update|Add|Delete) File: (.+)$|^\+\+\+ b/(\S+)|^\*\*\* Move to: (.+)$", re.M)
_MAX_PATHS: Final = 64


TABLES: Final = Tables(
    handlers={**WRAPPERS, **INTERPRETERS, **BUILTINS},
    programs=Programs(FILES, ARCHIVES, VCS, NET, SYSTEM, CLOUD, DATA),
    places=PLACES,
)


def intents(event: SensorEvent) -> tuple[Intent, ...]:
    """What the call would do, in the order it would do it; () for a result and for tools that we do not know."""
    if event.phase != "call":
        return ()
    name = _bare(event.action)
    if command_tool(event.action):
        return _of_command(event)
    if name == "apply_patch":
        return _of_patch(event)
    kind = (
        "write"
        if name in _WRITE_TOOLS
        else "delete"
        if name in _DELETE_TOOLS
        else "read"
        if name in _READ_TOOLS
        else ""
    )
    return _of_paths(event, kind) if kind else ()


def _bare(action: str) -> str:
    return re.sub(r"^mcp__.*?__", "", action.lower())


def command_tool(action: str) -> bool:
    """Whether the tool of this name runs a shell command."""
    name = _bare(action)
    return name in SHELL_TOOLS or name.rpartition(".")[2] in SHELL_TOOLS


def _of_command(event: SensorEvent) -> tuple[Intent, ...]:
    cwd = event.cwd or next((str(event.args[n]) for n in CWD_ARGS if isinstance(event.args.get(n), str)), None)
    for name in COMMAND_ARGS:
        value = event.args.get(name)
        if (text := _text(value)) is not None:
            return _command(text, cwd, name)
        if isinstance(value, Sequence) and value:
            words = [w for w in map(_text, value) if w is not None]
            if len(words) == len(value):
                return _argv(tuple(words), cwd, name)
    return ()


def _text(value: object) -> str | None:
    """A text as a program would be started with: a string, bytes or a path; None for what starts nothing."""
    as_path = getattr(type(value), "__fspath__", None)
    if as_path is not None:
        value = as_path(value)
    if isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else None


@functools.lru_cache(maxsize=256)
def _command(command: str, cwd: str | None, attributed_to: str) -> tuple[Intent, ...]:
    """Cached, because each rule of a policy asks again."""
    walk = Walk(TABLES, cwd, attributed_to)
    walk.start(parse(command))
    return tuple(walk.found)


@functools.lru_cache(maxsize=64)
def _argv(argv: tuple[str, ...], cwd: str | None, attributed_to: str) -> tuple[Intent, ...]:
    if len(argv) == 1:
        return _command(argv[0], cwd, attributed_to)
    walk = Walk(TABLES, cwd, attributed_to)
    walk.start_argv([Arg(without_marks(a)) for a in argv])
    return tuple(walk.found)


def _of_paths(event: SensorEvent, kind: str) -> tuple[Intent, ...]:
    """A file tool: each path among its arguments."""
    if event.args.get("command") == "view":  # an editor tool that reads
        kind = "read"
    found: dict[Intent, None] = {}
    for name in _PATH_ARGS:
        value = _text(event.args.get(name))
        if value:
            found.update(dict.fromkeys(_path(kind, value, event.cwd, name, event.action)))
    return tuple(found)


def _of_patch(event: SensorEvent) -> tuple[Intent, ...]:
    found: dict[Intent, None] = {}
    for name in ("input", "patch", "diff", "command"):
        text = _text(event.args.get(name)) or ""
        for m in list(_PATCH_LINE.finditer(text[: 1 << 20]))[:_MAX_PATHS]:
            kind = "delete" if m.group(1) == "Delete" else "write"
            path = m.group(2) or m.group(3) or m.group(4)
            found.update(dict.fromkeys(_path(kind, path.strip(), event.cwd, name, event.action)))
    return tuple(found)


@functools.lru_cache(maxsize=256)
def _path(kind: str, path: str, cwd: str | None, attributed_to: str, program: str) -> tuple[Intent, ...]:
    walk = Walk(TABLES, cwd, attributed_to)
    text = without_marks(path).replace("\\", "/")
    arg = Arg("\x01" + text[1:] if text[:2] in ("~", "~/") else text)
    if kind == "write":
        walk.written(arg, program)
    elif kind == "read":
        walk.read(arg, program)
    else:
        for finding in TABLES.programs["rm"](walk, Call("rm", (Arg("--"), arg), None, "rm")):
            walk.emit(finding, program)
    return tuple(walk.found)
