"""Programs that run code: shells, scripting languages, and tools with a small language of their own."""

from __future__ import annotations

import itertools
import re
from typing import Final

from interlock.engine.analysis import sed_scripts
from interlock.engine.analysis.code_scan import scan, scan_cost
from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.options import split
from interlock.engine.analysis.paths import join
from interlock.engine.analysis.shell_expand import Exhausted
from interlock.engine.analysis.shell_run import Call, Handler, Walk
from interlock.engine.analysis.values import HOME, SELF, UNKNOWN, UNKNOWN_ARG, Arg

__all__ = ["INTERPRETERS"]

_SHELLS: Final = ("sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "mksh", "rbash", "csh", "tcsh", "pwsh")
# language -> options whose value is code
_LANGUAGES: Final[dict[str, tuple[str, ...]]] = {
    "python": ("-c",), "python2": ("-c",), "python3": ("-c",), "pypy": ("-c",), "pypy3": ("-c",),
    "perl": ("-e", "-E"), "ruby": ("-e",), "node": ("-e", "-p", "--eval", "--print"), "nodejs": ("-e", "-p"),
    "bun": ("-e", "--eval"), "deno": ("eval",), "php": ("-r", "-B", "-E"), "lua": ("-e",), "luajit": ("-e",),
    "osascript": ("-e",), "Rscript": ("-e",), "groovy": ("-e",), "scala": ("-e",), "elixir": ("-e",), "julia": ("-e",),
    "guile": ("-c",), "erl": ("-eval",), "tsx": ("-e",), "ipython": ("-c",), "jrunscript": ("-e",),
}  # fmt: skip
_RUNTIME_VALUED: Final = {
    "python": "WXm",
    "python2": "WXm",
    "python3": "WXm",
    "perl": "IMmiFl0CDdx",
    "ruby": "rIEFKWx",
    "node": "rC",
}


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
    name = call.program
    options = _LANGUAGES[name]
    args = call.args
    ran = False
    for k, arg in enumerate(args):
        if _is_code_option(arg.text, options) and k + 1 < len(args):
            _inline(walk, args[k + 1], call.program)
            ran = True
        elif arg.text == "-m" and name.startswith(("python", "pypy")) and k + 1 < len(args):
            return walk.execute(list(args[k + 1 :]), call.stdin, functions=False)
        elif arg.text[:1] != "-" and not ran:
            break
    if not ran:
        _file_or_stdin(walk, call, name)
    return UNKNOWN_ARG


def _is_code_option(text: str, options: tuple[str, ...]) -> bool:
    """`-c`, or a cluster that ends in it (`-ne`)."""
    if text in options:
        return True
    return len(text) > 2 and text[0] == "-" and text[1].isalpha() and text[1:].isalpha() and "-" + text[-1] in options


def _file_or_stdin(walk: Walk, call: Call, name: str) -> None:
    operands = split(call.args, _RUNTIME_VALUED.get(name, "")).operands
    if operands and operands[0].text != "-":
        content = walk.files.get(join(walk.env.cwd, operands[0].text))
        if content is None:
            walk.ran(operands[0], call.program)
    else:
        content = call.stdin
    if content is not None:
        _inline(walk, content, call.program)


def _inline(walk: Walk, code: Arg, program: str) -> None:
    """Code of a scripting language."""
    if not code.text.strip(UNKNOWN + " \n\t"):
        if code.text.strip() and (code.taint in ("net", "decoded")):
            walk.unreadable(code, program)
        return
    walk.emit(Finding("exec.inline"), program)
    walk.env.spend(scan_cost(code.text))
    _own_files(walk, code.text, program)
    if _SOCKETS.search(code.text) and _SHELLS_IN_CODE.search(code.text):
        walk.emit(Finding("net.reverse_shell", "", "remote"), program)
    for act in scan(code.text):
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


def _osascript(walk: Walk, call: Call) -> Arg | None:
    for arg in call.args:
        for m in re.finditer(r'do shell script\s+"((?:[^"\\]|\\.)*)"', arg.text):
            walk.code(Arg(re.sub(r"\\(.)", r"\1", m.group(1))), "osascript")
    return UNKNOWN_ARG


_MAX_AWK: Final = 8 * 1024  # characters of a program; the time to read it grows with their square


def _awk(walk: Walk, call: Call) -> Arg | None:
    operands = split(call.args, "Fvf", ("--field-separator", "--assign", "--file")).operands
    if not operands or not operands[0].known:
        return None
    program = operands[0].text
    if len(program) > _MAX_AWK:
        raise Exhausted("too long")
    walk.env.spend(len(program) ** 2 // 256)
    for m in re.finditer(
        r'system\s*\(\s*"((?:[^"\\]|\\.)*)"(\s*\))?|\|\s*"((?:[^"\\]|\\.)*)"|"((?:[^"\\]|\\.)*)"\s*\|\s*getline',
        program,
    ):
        code = next(g for g in (m.group(1), m.group(3), m.group(4)) if g is not None)
        code = re.sub(r"\\(.)", r"\1", code)
        walk.code(Arg(code if m.group(1) is None or m.group(2) else code + UNKNOWN), "awk")
    for m in re.finditer(
        r'print\s*+\(?+\s*+"((?:[^"\\]|\\.)*)"\s*+\)?+\s*+\|\s*+"(?:/bin/)?(?:ba|da|z|k)?sh"', program
    ):
        walk.code(Arg(re.sub(r"\\(.)", r"\1", m.group(1))), "awk")
    for m in re.finditer(r'print[^;\n]*?>>?\s*"([^"]+)"', program):
        walk.written(Arg(m.group(1)), "awk")
    return None


def _sed(walk: Walk, call: Call) -> Arg | None:
    """sed's `e` command and `w` file."""
    opts = split(call.args, "efl", ("--expression", "--file"))
    scripts = [opts.values[o].text for o in ("-e", "--expression") if o in opts.values] or [
        a.text for a in opts.operands[:1]
    ]
    for script in scripts:
        starts = 1 + sum(script.count(sign) for sign in ";\n{}")
        walk.env.spend(starts * min(len(script), 1000) // 4)
        for code in sed_scripts.commands(script):
            walk.code(Arg(code), "sed")
        for code in sed_scripts.substitutions(script):
            walk.code(Arg(re.sub(r"\\(.)", r"\1", code)), "sed")
        for path in sed_scripts.writes(script):
            walk.written(Arg(path), "sed")
    return None


def _editor(walk: Walk, call: Call) -> Arg | None:
    """vim -c ':!cmd', +'!cmd'."""
    values = [b for a, b in zip(call.args, call.args[1:], strict=False) if a.text in ("-c", "--cmd", "-S", "-s")]
    values += [a._replace(text=a.text[1:]) for a in call.args if a.text.startswith("+")]
    for value in values:
        m = re.match(r":?\s*(?:silent!?\s+|exe(?:cute)?\s+['\"])?(?:r(?:ead)?\s*)?!(.+)", value.text, re.S)
        if m:
            walk.code(Arg(m.group(1)), call.program)
        w = re.match(r":?\s*(?:silent!?\s+)?w(?:rite|q)?!?\s+(?![!])(\S+)", value.text)
        if w:
            walk.written(_home(w.group(1)), call.program)
        for n in re.finditer(r"system\(\s*(['\"])(.*?)\1", value.text):
            walk.code(Arg(n.group(2)), call.program)
    return None


def _home(text: str) -> Arg:
    return Arg(HOME + text[1:] if text[:2] == "~/" else text)


def _lines_of_code(pattern: str) -> Handler:
    """A tool that runs the shell commands that `pattern` finds in its arguments and input."""
    compiled = re.compile(pattern)

    def handler(walk: Walk, call: Call) -> Arg | None:
        for text in [a.text for a in call.args] + ([call.stdin.text] if call.stdin is not None else []):
            for m in compiled.finditer(text):
                walk.code(Arg(m.group(1)), call.program)
        return None

    return handler


def _ansible(walk: Walk, call: Call) -> Arg | None:
    opts = split(call.args, "amiulf", ("--args", "--module-name"))
    code = opts.values.get("-a") or opts.values.get("--args")
    module = opts.values.get("-m") or opts.values.get("--module-name")
    if code is not None and (module is None or module.text.rpartition(".")[2] in ("shell", "command", "raw")):
        walk.code(code, "ansible")
    return None


def _tmux(walk: Walk, call: Call) -> Arg | None:
    """tmux new, run-shell, send-keys, split-window: the words after the options are a command."""
    opts = split(call.args, "fLSTctsnexyF", leading=True)
    if opts.operands and opts.operands[0].text in _TMUX:
        rest = split(opts.operands[1:], "ctsnexyFlpR", leading=True).operands
        keys = [a.text for a in rest if a.text not in ("Enter", "C-m")]
        if keys:
            walk.code(Arg(" ".join(keys)), "tmux")
    return None


_TMUX: Final = (
    "new",
    "new-session",
    "neww",
    "new-window",
    "splitw",
    "split-window",
    "run",
    "run-shell",
    "send",
    "send-keys",
    "respawn-pane",
)


def _tar(walk: Walk, call: Call) -> Arg | None:
    for arg in call.args:
        m = re.match(
            r"--(?:checkpoint-action=exec|to-command|use-compress-program|rsh-command|info-script|new-volume-script)=(.+)",
            arg.text,
            re.S,
        )
        if m:
            walk.code(Arg(m.group(1)), "tar")
    opts = split(call.args, "fCIXTbgF")
    for option in ("-I", "-F"):
        if option in opts.values and " " in opts.values[option].text:
            walk.code(opts.values[option], "tar")
    return None


def _rsync(walk: Walk, call: Call) -> Arg | None:
    value = split(call.args, "ef", ("--rsh", "--rsync-path")).values
    for option in ("-e", "--rsh"):
        if option in value and " " in value[option].text:
            walk.code(value[option], "rsync")
    return None


_GIT_COMMANDS: Final = re.compile(
    r"(?:core\.(?:pager|editor|sshcommand|fsmonitor|askpass|gitproxy)|pager\.\w+|sequence\.editor|diff\.external"
    r"|(?:diff|merge|filter|difftool|mergetool)\.[\w-]+\.(?:command|driver|textconv|smudge|clean|process|cmd)"
    r"|credential\.helper|gpg\.program|alias\.([\w-]+))=(.*)",
    re.I | re.S,
)


def _git(walk: Walk, call: Call) -> Arg | None:
    """Commands that git itself would run: `-c core.pager=...`, an alias with `!`, `submodule foreach`, `bisect run`."""
    args = call.args
    texts = [a.text for a in args]
    walk.env.spend(8 * len(args))
    for a, b in itertools.pairwise(args):
        m = _GIT_COMMANDS.match(b.text) if a.text in ("-c", "--config-env") else None
        if m:
            walk.env.spend(len(args) // 4)
            following = _after_alias(args, texts, m.group(1)) if m.group(1) else ()
            _git_command(walk, " ".join([m.group(2), *(a.text for a in following)]), bool(m.group(1)))
    for arg in args:
        if arg.text.startswith("ext::"):
            walk.code(arg._replace(text=arg.text[5:]), "git")
    for words in (["submodule", "foreach"], ["bisect", "run"], ["rebase", "--exec"], ["rebase", "-x"]):
        if words[0] in texts and words[1] in texts:
            rest = [a for a in args[texts.index(words[1]) + 1 :] if a.text not in ("--recursive", "-q", "--quiet")]
            if words[0] == "rebase":
                rest = rest[:1]
            if rest:
                walk.code(Arg(" ".join(a.text for a in rest)), "git")
    if "config" in texts:
        pair = [a.text for a in args[texts.index("config") + 1 :] if not a.text.startswith("-")]
        m = _GIT_COMMANDS.match("=".join(pair[:2])) if len(pair) > 1 else None
        if m:
            _git_command(walk, m.group(2), bool(m.group(1)))
    for flag in ("--upload-pack", "--receive-pack", "--exec", "-u"):
        value = split(args, "", (flag,)).values.get(flag)
        if value is not None and " " in value.text:
            walk.code(value, "git")
    return None


def _after_alias(args: tuple[Arg, ...], texts: list[str], alias: str) -> tuple[Arg, ...]:
    """What follows the alias where the same command line uses it."""
    return args[texts.index(alias) + 1 :] if alias in texts else ()


def _iex(walk: Walk, call: Call) -> Arg | None:
    """PowerShell's Invoke-Expression: what it is given runs."""
    for code in (call.stdin, *call.args):
        if code is not None and code.taint in ("net", "decoded"):
            walk.unreadable(code, call.program)
    return UNKNOWN_ARG


def _git_command(walk: Walk, value: str, alias: bool) -> None:
    if not alias:
        walk.code(Arg(value), "git")
    elif value.startswith("!"):
        walk.code(Arg(value[1:]), "git")
    else:
        walk.code(Arg("git " + value), "git")


def _psql(walk: Walk, call: Call) -> Arg | None:
    """Shell escapes of database shells: `\\! cmd`, `.shell cmd`, `.system cmd`."""
    texts = [a.text for a in call.args] + ([call.stdin.text] if call.stdin is not None else [])
    for text in texts:
        for m in re.finditer(r"(?:^|\n)[^\S\n]*(?:\\!|\.shell|\.system|system)\s+([^\n]+)", text):
            walk.code(Arg(m.group(1)), call.program)
    return None


def _socat(walk: Walk, call: Call) -> Arg | None:
    for arg in call.args:
        m = re.match(r"(?:exec|system):([^,]+)", arg.text, re.I)
        if m:
            walk.code(Arg(m.group(1).strip("'\"")), "socat")
    return None


def _man(walk: Walk, call: Call) -> Arg | None:
    value = split(call.args, "P", ("--pager",)).values
    for option in ("-P", "--pager"):
        if option in value:
            walk.code(value[option], "man")
    return None


INTERPRETERS: Final[dict[str, Handler]] = {
    **dict.fromkeys(_SHELLS, _shell),
    **dict.fromkeys(_LANGUAGES, _language),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    **dict.fromkeys(("vim", "vi", "nvim", "ex", "view", "rvim"), _editor),
    **dict.fromkeys(("expect", "tclsh"), _lines_of_code(r"(?:^|[;\n{])[^\S\n]*(?:spawn|exec)\s+([^\n;}]+)")),
    **dict.fromkeys(("psql", "sqlite3", "mysql", "mariadb"), _psql),
    "ansible": _ansible,
    "ed": _lines_of_code(r"(?:^|\n)[^\S\n]*!([^\n]+)"),
    "emacs": _lines_of_code(r'\((?:async-)?shell-command(?:-to-string)?\s+"((?:[^"\\]|\\.)*)"'),
    "gdb": _lines_of_code(r"^\s*(?:shell|!)\s*(.+)"),
    "git": _git,
    "gmake": _lines_of_code(r"\n\t[@-]*([^\n]+)"),
    "make": _lines_of_code(r"\n\t[@-]*([^\n]+)"),
    "tmux": _tmux,
    "iex": _iex,
    "invoke-expression": _iex,
    "gsed": _sed,
    "gtar": _tar,
    "less": _lines_of_code(r"^\+!(.+)"),
    "man": _man,
    "osascript": _osascript,
    "rsync": _rsync,
    "sed": _sed,
    "socat": _socat,
    "tar": _tar,
}
