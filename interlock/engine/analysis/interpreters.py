"""Programs that run code: shells and scripting languages."""

from __future__ import annotations

import re
from typing import Final

from interlock.engine.analysis.acts_net import host, is_local
from interlock.engine.analysis.code_scan import Act, scan, scan_cost
from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.options import split
from interlock.engine.analysis.outputs import rewritten
from interlock.engine.analysis.paths import join
from interlock.engine.analysis.programs_data import losses
from interlock.engine.analysis.shell_run import Call, Handler, Walk
from interlock.engine.analysis.small_languages import SMALL_LANGUAGES
from interlock.engine.analysis.values import SELF, UNKNOWN, UNKNOWN_ARG, Arg

__all__ = ["INTERPRETERS"]

_SHELLS: Final = ("sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "mksh", "rbash", "csh", "tcsh", "pwsh")
_NODE: Final = ("-e", "-p", "--eval", "--print")
# language -> options whose value is code
_LANGUAGES: Final[dict[str, tuple[str, ...]]] = {
    "python": ("-c",), "python2": ("-c",), "python3": ("-c",), "pypy": ("-c",), "pypy3": ("-c",),
    "perl": ("-e", "-E"), "ruby": ("-e",), "node": _NODE, "nodejs": _NODE, "tsx": _NODE, "bun": _NODE,
    "deno": ("eval",), "php": ("-r", "-B", "-E", "-R", "--run"), "lua": ("-e",), "luajit": ("-e",),
    "osascript": ("-e",), "Rscript": ("-e",), "groovy": ("-e",), "scala": ("-e",), "elixir": ("-e", "--eval"),
    "julia": ("-e", "-E", "--eval", "--print"), "guile": ("-c",), "erl": ("-eval",), "ipython": ("-c",),
    "jrunscript": ("-e",), "R": ("-e",), "irb": ("-e",), "pry": ("-e",), "octave": ("--eval",), "ghc": ("-e",),
    "clj": ("-e",), "bb": ("-e",),
    "zx": ("--eval", "-e"),
}  # fmt: skip
# Letters of options with another value: glued to it, or the next argument, but for those of the second table.
_RUNTIME_VALUED: Final = {
    "python": "WXm", "python2": "WXm", "python3": "WXm", "pypy": "WXm", "pypy3": "WXm", "perl": "IMmiFCDdx",
    "ruby": "rIEFKWxCiT", "node": "rC", "nodejs": "rC", "tsx": "r", "bun": "r", "php": "dcztFfS", "lua": "l",
    "luajit": "lj", "julia": "LJCpt", "osascript": "ls",
}  # fmt: skip
_NEVER_APART: Final = {"perl": "MmiFCDdx", "ruby": "FKWxiT"}
_LONG_VALUED: Final = ("--require", "--import", "--loader", "--experimental-loader", "--input-type", "--conditions")
_PYTHONS: Final = ("python", "pypy")
# Languages that read `-e'code'`.
_GLUED: Final = frozenset({
    "python", "python2", "python3", "pypy", "pypy3", "perl", "ruby", "php", "lua", "luajit", "julia", "osascript",
    "ghc",
})  # fmt: skip


def _shell(walk: Walk, call: Call) -> Arg | None:
    """`sh -c code`, `sh file`, `sh -s`, and code on standard input."""
    args = call.args
    k, wants_code, from_stdin = 0, False, False
    while k < len(args) and args[k].text[:1] in ("-", "+") and len(args[k].text) > 1:
        text = args[k].text
        k += 1
        if text == "--":
            break
        if text.startswith("--"):
            for file in args[k : k + 1] if text in ("--rcfile", "--init-file") else ():
                walk.ran(file, call.program)
                k += 1
            wants_code = wants_code or text == "--command"
            continue
        wants_code = wants_code or "c" in text[1:]
        from_stdin = from_stdin or "s" in text[1:]
        k += text[-1] in ("o", "O")
    if wants_code:
        return _with_positional(walk, call, args[k], args[k + 1 :]) if k < len(args) else None
    if k < len(args) and not from_stdin:
        return _script(walk, call, args[k], args[k + 1 :])
    if call.stdin is None:
        return Arg(UNKNOWN, taint="shell")
    out = walk.code(call.stdin, call.program)
    return out if call.stdin.known else Arg(UNKNOWN, taint="shell")


def _with_positional(walk: Walk, call: Call, code: Arg, rest: tuple[Arg, ...]) -> Arg:
    """Run code with `$0`, `$1` ... set; the first of `rest` is `$0`."""
    saved, values = walk.env.positional, walk.env.values
    walk.env.positional = rest[1:]
    walk.env.values = walk.env.copied()
    if rest:
        walk.env.values["0"] = (rest[0],)
    out = walk.code(code, call.program, call.stdin)
    walk.env.positional, walk.env.values = saved, values
    return out


def _script(walk: Walk, call: Call, path: Arg, rest: tuple[Arg, ...]) -> Arg | None:
    content = walk.files.get(join(walk.env.cwd, path.text))
    if path.text in ("/dev/stdin", "-", "/proc/self/fd/0"):
        content = call.stdin
    if SELF in path.text and (walk.parallel or walk.looping):
        walk.emit(Finding("exec.fork_bomb", "$0"), call.program)
    if content is not None:
        return _with_positional(walk, call, content, (path, *rest))
    if path.taint in ("net", "decoded"):
        walk.unreadable(path, call.program)
    walk.ran(path, call.program)
    return UNKNOWN_ARG


def _language(walk: Walk, call: Call) -> Arg | None:
    args, ran, value = call.args, False, -1
    for k, arg in enumerate(args):
        if k == value:
            continue
        kind, glued = _option(call.program, arg.text)
        own = (arg._replace(text=glued),) if glued else args[k + 1 : k + 2]
        if kind == "code" and own:
            _inline(walk, own[0], call.program)
            ran = True
        elif kind == "module" and own:
            return walk.execute([*own, *args[k + 2 - bool(glued) :]], call.stdin, functions=False)
        elif kind == "operand" and not ran:
            break
        value = k + 1 if kind in ("code", "valued") and not glued else -1
    if not ran:
        _file_or_stdin(walk, call, call.program)
    return rewritten(call.stdin) if ran else UNKNOWN_ARG


def _option(name: str, text: str) -> tuple[str, str]:
    """What an argument is (code, a module, an option with a value, an operand), and what is glued to it."""
    options, long = _LANGUAGES[name], text.partition("=")
    if text in options or long[0] in options:
        return "code", long[2]
    if text[:2] == "--":
        return "valued" if text in _LONG_VALUED else "", ""
    if text[:1] != "-":
        return "operand", ""
    if not name.startswith(_PYTHONS) and _ends_in_code(text, options):
        return "code", ""
    for k, letter in enumerate(text[1:], 2):
        if "-" + letter in options and name in _GLUED:
            return "code", text[k:]
        if letter == "m" and name.startswith(_PYTHONS):
            return "module", text[k:]
        if letter in _RUNTIME_VALUED.get(name, ""):
            return "valued" if k == len(text) and letter not in _NEVER_APART.get(name, "") else "", ""
    return "", ""


def _ends_in_code(text: str, options: tuple[str, ...]) -> bool:
    """A cluster that ends in an option for code (`-ne`)."""
    return len(text) > 2 and text[1:].isalpha() and "-" + text[-1] in options


def _file_or_stdin(walk: Walk, call: Call, name: str) -> None:
    operands = split(call.args, _RUNTIME_VALUED.get(name, "")).operands
    if operands and operands[0].text != "-":
        content = walk.files.get(join(walk.env.cwd, operands[0].text))
        if operands[0].text in ("/dev/stdin", "/proc/self/fd/0"):
            content = call.stdin
        if content is None:
            walk.ran(operands[0], call.program)
    else:
        content = call.stdin
    if content is not None:
        _inline(walk, content, call.program)


def _inline(walk: Walk, code: Arg, program: str) -> None:
    """Code of a scripting language."""
    if not code.text.strip(UNKNOWN + " \n\t"):
        if code.text.strip() and (code.taint in ("net", "decoded", "text")):
            walk.unreadable(code, program)
        return
    walk.emit(Finding("exec.inline"), program)
    walk.env.spend(scan_cost(code.text))
    _own_files(walk, code.text, program)
    if _SOCKETS.search(code.text) and _SHELLS_IN_CODE.search(code.text):
        walk.emit(Finding("net.reverse_shell", "", "remote"), program)
    for act in scan(code.text):
        if act.kind == "inline":
            _inline(walk, Arg(act.texts[0]), program)
            continue
        args = [Arg(t, glob="*" in t) for t in act.texts]
        if act.kind == "code":
            walk.code(args[0], program)
        elif act.kind == "argv":
            walk.execute(args, None, functions=False)
        elif act.kind in ("delete", "delete-tree"):
            walk.execute(
                [Arg("rm"), *([Arg("-r")] if act.kind == "delete-tree" else []), Arg("--"), *args],
                None,
                functions=False,
            )
        elif act.kind in ("sql", "emptied", "delete-url"):
            _remote(walk, act, code.text, program)
        elif act.kind == "write":
            walk.written(args[0], program)
        elif act.kind == "read":
            walk.read(args[0], program)
        elif act.kind == "fetched":
            walk.emit(Finding("net.fetch_exec", "", "remote"), program)
        elif act.kind == "hidden":
            walk.emit(Finding("exec.obfuscated"), program)
        else:
            walk.emit(Finding("exec.fork_bomb", program), program)


def _remote(walk: Walk, act: Act, code: str, program: str) -> None:
    """What code does to a database, or by a request."""
    text = act.texts[0]
    if act.kind == "delete-url":
        walk.emit(Finding("net.delete", host(text), "worktree" if is_local(text) else "remote"), program)
    elif ":memory:" in code:
        return
    elif act.kind == "emptied":
        walk.emit(Finding("db.drop", text, "unknown"), program)
    else:
        for finding in losses(walk, text):
            walk.emit(finding, program)


_OWN_FILES: Final = re.compile(
    r"\.claude\b.{0,40}settings|\.codex\b.{0,20}hooks|\.gemini\b.{0,20}settings|interlock\.toml"
    r"|\.config\b.{0,20}interlock",
    re.S,
)
_CHANGES: Final = re.compile(
    r"write|unlink|remove|rename|dump\(|['\"][wax]\+?b?['\"]|truncate|rmtree|copy|move"
    r"|symlink|rmSync"
)


_SOCKETS: Final = re.compile(
    r"[sS]ocket\b|fsockopen|TCPSocket|createServer|net\.connect|/inet/tcp/|/dev/tcp/"
    r"|stream_socket_client"
)
_SHELLS_IN_CODE: Final = re.compile(
    r"['\"`](?:/usr)?(?:/bin/)?(?:ba|z|da|k)?sh(?:\s+-i[^'\"]{0,40})?['\"`]|io\.popen|pty\.spawn|ProcessBuilder|cmd\.exe"
)


def _own_files(walk: Walk, code: str, program: str) -> None:
    """A path put together inside the code, beside a call that changes files."""
    m = _OWN_FILES.search(code)
    if m and _CHANGES.search(code):
        walk.emit(Finding("self.protect.config", m.group(), "unknown"), program)


def _iex(walk: Walk, call: Call) -> Arg | None:
    """PowerShell's Invoke-Expression: what it is given runs."""
    for code in (call.stdin, *call.args):
        if code is not None and code.taint in ("net", "decoded"):
            walk.unreadable(code, call.program)
    return UNKNOWN_ARG


INTERPRETERS: Final[dict[str, Handler]] = {
    **SMALL_LANGUAGES,
    **dict.fromkeys(_SHELLS, _shell),
    **{name: _language for name in _LANGUAGES if name not in SMALL_LANGUAGES},
    "iex": _iex,
    "invoke-expression": _iex,
}
