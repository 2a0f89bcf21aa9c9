"""What the shell's own commands change in a walk: directory, variables, functions, and text that they run."""

from __future__ import annotations

import itertools
import re
from typing import Final

from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.options import split
from interlock.engine.analysis.paths import join
from interlock.engine.analysis.shell_run import Call, Handler, Walk
from interlock.engine.analysis.values import EMPTY, HOME, UNKNOWN, UNKNOWN_ARG, Arg, whole_number

__all__ = ["BUILTINS"]

_MAX_LINES: Final = 32


def _cd(walk: Walk, call: Call) -> Arg | None:
    operands = [a for a in call.args if a.text not in ("--", "-L", "-P", "-e")]
    target = operands[0] if operands else Arg(HOME)
    if call.program == "popd" or target.text in ("-", "") or target.text.startswith("+"):
        walk.env.cwd = UNKNOWN
    else:
        walk.env.spend(len(walk.env.cwd) // 2)
        walk.env.cwd = join(walk.env.cwd, target.text)
    return EMPTY


def _declare(walk: Walk, call: Call) -> Arg | None:
    """export, local, declare, readonly, typeset: `name=value` arguments."""
    for arg in call.args:
        name, equals, value = arg.text.partition("=")
        if equals and name.rstrip("+").isidentifier():
            walk.env.spend(8)
            walk.env.set(name.rstrip("+"), (arg._replace(text=value),))
            handler = walk.tables.handlers.get("=" + name)
            if handler is not None:
                handler(walk, Call(name, (arg._replace(text=value),), None, name))
    return EMPTY


def _read(walk: Walk, call: Call) -> Arg | None:
    opts = split(call.args, "adinNptu")
    names = [a.text for a in opts.operands] or ["REPLY"]
    if "-a" in opts.values:
        names = [opts.values["-a"].text]
    lines = [line for line in call.stdin.text.split("\n") if line] if call.stdin is not None else []
    taint = call.stdin.taint if call.stdin is not None else ""
    value = tuple(Arg(line, taint=taint) for line in lines[:_MAX_LINES]) or (Arg(UNKNOWN, taint=taint),)
    for name in names:
        walk.env.set(name, value)
    return EMPTY


def _unset(walk: Walk, call: Call) -> Arg | None:
    for arg in call.args:
        walk.env.values.pop(arg.text, None)
        walk.functions.pop(arg.text, None)
    return EMPTY


def _alias(walk: Walk, call: Call) -> Arg | None:
    for arg in call.args:
        name, equals, value = arg.text.partition("=")
        if equals and len(walk.aliases) < 200:
            walk.aliases[name] = value
    return EMPTY if call.args else None


def _eval(walk: Walk, call: Call) -> Arg | None:
    args = [a for a in call.args if a.text != "--"]
    taint = next((a.taint for a in args if a.taint), "")
    return walk.code(Arg(" ".join(a.text for a in args), taint=taint), "eval", call.stdin)


def _source(walk: Walk, call: Call) -> Arg | None:
    if not call.args:
        return None
    content = walk.files.get(join(walk.env.cwd, call.args[0].text))
    if content is None and call.args[0].text in ("/dev/stdin", "-"):
        content = call.stdin
    if content is not None:
        return walk.code(content, "source")
    return UNKNOWN_ARG


def _trap(walk: Walk, call: Call) -> Arg | None:
    args = [a for a in call.args if a.text != "--"]
    if len(args) > 1 and args[0].text not in ("-", "-l", "-p", ""):
        walk.code(args[0], "trap")
    return EMPTY


def _exec(walk: Walk, call: Call) -> Arg | None:
    rest = split(call.args, "a", leading=True).operands
    return walk.execute(list(rest), call.stdin, functions=False) if rest else EMPTY


def _command(walk: Walk, call: Call) -> Arg | None:
    opts = split(call.args, "", leading=True)
    if opts.has("-v", "-V"):
        return Arg(opts.operands[0].text) if opts.operands else EMPTY
    return walk.execute(list(opts.operands), call.stdin, functions=False) if opts.operands else EMPTY


def _set(walk: Walk, call: Call) -> Arg | None:
    texts = [a.text for a in call.args]
    if "--" in texts:
        walk.env.positional = call.args[texts.index("--") + 1 :]
    elif call.args and not texts[0].startswith(("-", "+")):
        walk.env.positional = call.args
    return EMPTY


def _shift(walk: Walk, call: Call) -> Arg | None:
    count = whole_number(call.args[0].text) if call.args else 1
    walk.env.spend(2 * len(walk.env.positional))
    walk.env.positional = walk.env.positional[1 if count is None else count :]
    return EMPTY


def _printf(walk: Walk, call: Call) -> Arg | None:
    """`printf -v name ...` sets a variable."""
    if len(call.args) > 2 and call.args[0].text == "-v":
        value = walk.execute([Arg("printf"), *call.args[2:]], None, functions=False)
        walk.env.set(call.args[1].text, (value,))
        return EMPTY
    return None


def _mapfile(walk: Walk, call: Call) -> Arg | None:
    names = split(call.args, "dnOsuCc").operands
    lines = call.stdin.text.splitlines() if call.stdin is not None else []
    walk.env.set(names[-1].text if names else "MAPFILE", tuple(Arg(x) for x in lines[:_MAX_LINES]) or (UNKNOWN_ARG,))
    return EMPTY


def _runs_value(walk: Walk, call: Call) -> Arg | None:
    """A variable whose value is a command that some program runs."""
    if call.program == "PROMPT_COMMAND":  # of each shell that starts, and not instead of something
        walk.emit(Finding("exec.inline"), call.program)
    for arg in call.args:
        walk.code(arg, call.program)
    return None


def _runs_file(walk: Walk, call: Call) -> Arg | None:
    """A variable whose value is a file, or several, whose code the next program runs."""
    for path in [p for arg in call.args for p in re.split(r"[: \t\n]", arg.text) if p][:_MAX_LINES]:
        content = walk.files.get(join(walk.env.cwd, path))
        if content is not None and call.program in _SHELL_FILES:
            walk.code(content, call.program)
        walk.ran(Arg(path), call.program)
    return None


_LOADED: Final = re.compile(
    r"(?:^|[ \t\n])(?:--(?:require|import|loader|experimental-loader)[= ]|-javaagent:|-agentpath:|-[rMmI] ?)([^ \t\n]+)"
)


def _runs_loaded(walk: Walk, call: Call) -> Arg | None:
    """A variable of options, of which some name code that is loaded (`NODE_OPTIONS=--require x.js`)."""
    for arg in call.args:
        walk.env.spend(len(arg.text) // 4)
        for m in itertools.islice(_LOADED.finditer(arg.text), _MAX_LINES):
            walk.ran(Arg(m.group(1)), call.program)
    return None


def _own_setting(walk: Walk, call: Call) -> Arg | None:
    walk.emit(Finding("self.protect.command", call.program, "home"), call.program)
    return None


def _nothing(walk: Walk, call: Call) -> Arg | None:
    return EMPTY


_COMMAND_VARIABLES: Final = (
    "GIT_SSH_COMMAND", "GIT_PAGER", "PAGER", "MANPAGER", "EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR",
    "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND", "GIT_ASKPASS", "SSH_ASKPASS", "SUDO_ASKPASS", "LESSOPEN", "LESSCLOSE",
    "PROMPT_COMMAND", "BROWSER", "RSYNC_RSH", "TAR_OPTIONS",
)  # fmt: skip
_SHELL_FILES: Final = ("BASH_ENV", "ENV")
_FILE_VARIABLES: Final = (
    *_SHELL_FILES, "PYTHONSTARTUP", "PYTHONHOME", "PYTHONPATH", "PERL5LIB", "RUBYLIB", "NODE_PATH", "ZDOTDIR",
    "LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH", "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR", "OPENSSL_CONF",
)  # fmt: skip
_LOADING_VARIABLES: Final = ("PERL5OPT", "RUBYOPT", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS")
_OWN_VARIABLES: Final = ("INTERLOCK_CONFIG", "INTERLOCK_POLICY", "INTERLOCK_DISABLE", "INTERLOCK_HOME")

BUILTINS: Final[dict[str, Handler]] = {
    ".": _source,
    "alias": _alias,
    "builtin": _command,
    "cd": _cd,
    "chdir": _cd,
    "command": _command,
    "declare": _declare,
    "eval": _eval,
    "exec": _exec,
    "export": _declare,
    "local": _declare,
    "mapfile": _mapfile,
    "popd": _cd,
    "printf": _printf,
    "pushd": _cd,
    "read": _read,
    "readarray": _mapfile,
    "readonly": _declare,
    "set": _set,
    "setenv": _nothing,
    "shift": _shift,
    "source": _source,
    "trap": _trap,
    "typeset": _declare,
    "unalias": _nothing,
    "unset": _unset,
    **{"=" + name: _runs_value for name in _COMMAND_VARIABLES},
    **{"=" + name: _runs_file for name in _FILE_VARIABLES},
    **{"=" + name: _runs_loaded for name in _LOADING_VARIABLES},
    **{"=" + name: _own_setting for name in _OWN_VARIABLES},
}
