"""Tools with a small language of their own, in whose text commands stand: awk, sed, editors, make, git, tmux."""

from __future__ import annotations

import itertools
import re
from typing import Final

from interlock.engine.analysis import sed_scripts
from interlock.engine.analysis.options import Options, split
from interlock.engine.analysis.paths import join
from interlock.engine.analysis.shell_expand import Exhausted
from interlock.engine.analysis.shell_run import Call, Handler, Walk
from interlock.engine.analysis.values import EMPTY, HOME, UNKNOWN, UNKNOWN_ARG, Arg, quoted

__all__ = ["SMALL_LANGUAGES"]


def _osascript(walk: Walk, call: Call) -> Arg | None:
    for arg in (*call.args, *([call.stdin] if call.stdin is not None else [])):
        for m in re.finditer(r'do shell script\s+"((?:[^"\\]|\\.)*)"', arg.text):
            walk.code(Arg(re.sub(r"\\(.)", r"\1", m.group(1))), "osascript")
    return UNKNOWN_ARG


_MAX_AWK: Final = 8 * 1024  # characters of a program; the time to read it grows with their square


def _awk(walk: Walk, call: Call) -> Arg | None:
    opts = split(call.args, "Fvf", ("--field-separator", "--assign", "--file"))
    given = next((a for a in (_script(walk, call, opts, "-f", "--file"), *opts.operands[:1]) if a is not None), None)
    if given is None or not given.known:
        return None
    program = given.text
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


def _script(walk: Walk, call: Call, opts: Options, *names: str) -> Arg | None:
    """A program in a file that an option names: standard input, or one whose content is known."""
    path = next((opts.values[name] for name in names if name in opts.values), None)
    if path is None:
        return None
    if path.text in ("-", "/dev/stdin", "/proc/self/fd/0"):
        return call.stdin
    return walk.files.get(join(walk.env.cwd, path.text))


def _sed(walk: Walk, call: Call) -> Arg | None:
    """sed's `e` command and `w` file."""
    opts = split(call.args, "efl", ("--expression", "--file"))
    scripts = [opts.values[o].text for o in ("-e", "--expression") if o in opts.values] or [
        a.text for a in opts.operands[:1]
    ]
    file = _script(walk, call, opts, "-f", "--file")
    for script in [*scripts, *([file.text] if file is not None else [])]:
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
    values += [b for a, b in itertools.pairwise(call.args) if re.fullmatch(r"-[A-Za-z]{1,4}c", a.text)]
    values += [a._replace(text=a.text[1:]) for a in call.args if a.text.startswith("+")]
    scripted = call.program == "ex" or any(re.fullmatch(r"-[A-Za-z]{0,3}[eEs]", a.text) for a in call.args)
    if call.stdin is not None and scripted:
        values += [Arg(line) for line in call.stdin.text.split("\n")[:_MAX_LINES]]
    for value in values:
        m = re.match(r":?\s*(?:silent!?\s+|exe(?:cute)?\s+['\"])?(?:r(?:ead)?\s*)?!(.+)", value.text, re.S)
        if m:
            walk.code(Arg(m.group(1)), call.program)
        w = re.match(r":?\s*(?:silent!?\s+)?w(?:rite|q)?!?\s+(?![!])(\S+)", value.text)
        if w:
            walk.written(_home(w.group(1)), call.program)
        for n in re.finditer(r"(?:system|execute)\(\s*(['\"])(.*?)\1", value.text):
            walk.code(Arg(n.group(2)), call.program)
    return None


_MAX_LINES: Final = 200  # of what an editor or a tool reads from its input


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


_RECIPE: Final = re.compile(r"(?:\n\t|(?:^|\n)[^\s:=#][^:=#\n]*:[^=;\n]*;)[ \t]*[@-]*([^\n]+)")
_MAKE_RUNS: Final = re.compile(r"\$[({]shell\s+([^\n)}]+)")
_MAKE_SHELL: Final = re.compile(r"(?:^|\n)[ \t]*SHELL[ \t]*[:?+]*=[ \t]*([^\n]+)")


_MAKEFILES: Final = ("GNUmakefile", "makefile", "Makefile")


def _make(walk: Walk, call: Call) -> Arg | None:
    """Recipes and `$(shell ...)` of a makefile that is given or known, and a SHELL that is a command."""
    opts = split(call.args, "fCIEjlWo", ("--eval", "--file", "--makefile", "--directory"))
    file = _script(walk, call, opts, "-f", "--file", "--makefile")
    if file is None and not opts.has("-f", "--file", "--makefile"):
        file = next((f for n in _MAKEFILES if (f := walk.files.get(join(walk.env.cwd, n))) is not None), None)
    for text in (*(a.text for a in call.args), *([file.text] if file is not None else [])):
        walk.env.spend(len(text) // 2)
        for pattern in (_RECIPE, _MAKE_RUNS, _MAKE_SHELL):
            for m in itertools.islice(pattern.finditer(text), _MAX_LINES):
                if pattern is not _MAKE_SHELL or " " in m.group(1):
                    walk.code(Arg(m.group(1)), call.program)
    return None


def _ansible(walk: Walk, call: Call) -> Arg | None:
    opts = split(call.args, "amiulf", ("--args", "--module-name"))
    code = opts.values.get("-a") or opts.values.get("--args")
    module = opts.values.get("-m") or opts.values.get("--module-name")
    if code is not None and (module is None or module.text.rpartition(".")[2] in ("shell", "command", "raw")):
        walk.code(code._replace(text=code.text.removeprefix("cmd=")), "ansible")
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
    "pipe-pane",
    "if-shell",
)


_TAR_COMMANDS: Final = (
    "--checkpoint-action", "--to-command", "--use-compress-program", "--rsh-command", "--info-script",
    "--new-volume-script",
)  # fmt: skip


def _tar(walk: Walk, call: Call) -> Arg | None:
    for arg in call.args:
        m = re.match(
            r"--(?:checkpoint-action=exec|to-command|use-compress-program|rsh-command|info-script|new-volume-script)=(.+)",
            arg.text,
            re.S,
        )
        if m:
            walk.code(Arg(m.group(1)), "tar")
    opts = split(call.args, "fCIXTbgF", _TAR_COMMANDS)
    checkpoint = opts.values.get("--checkpoint-action", EMPTY).text
    if checkpoint.startswith("exec=") and "--checkpoint-action" in (a.text for a in call.args):
        walk.code(Arg(checkpoint[5:]), "tar")
    for option in ("-I", "-F", *(o for o in _TAR_COMMANDS[1:] if o in (a.text for a in call.args))):
        if option in opts.values and " " in opts.values[option].text:
            walk.code(opts.values[option], "tar")
    return None


def _rsync(walk: Walk, call: Call) -> Arg | None:
    value = split(call.args, "ef", ("--rsh", "--rsync-path")).values
    for option in ("-e", "--rsh", "--rsync-path"):
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
        m = _GIT_COMMANDS.match(b.text) if a.text in ("-c", "--config-env", "--config") else None
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
                walk.code(rest[0] if len(rest) == 1 else Arg(" ".join(map(quoted, rest))), "git")
    if "config" in texts:
        pair = [a.text for a in args[texts.index("config") + 1 :] if not a.text.startswith("-")]
        m = _GIT_COMMANDS.match("=".join(pair[:2])) if len(pair) > 1 else None
        if m:
            _git_command(walk, m.group(2), bool(m.group(1)))
    for flag in _GIT_PROGRAMS:
        value = split(args, "", (flag,)).values.get(flag)
        if value is not None and " " in value.text:
            walk.code(value, "git")
    return None


_GIT_PROGRAMS: Final = (
    "--upload-pack", "--receive-pack", "--exec", "-u", "--to-cmd", "--cc-cmd", "--header-cmd", "--smtp-server",
)  # fmt: skip


def _after_alias(args: tuple[Arg, ...], texts: list[str], alias: str) -> tuple[Arg, ...]:
    """What follows the alias where the same command line uses it."""
    return args[texts.index(alias) + 1 :] if alias in texts else ()


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
        for m in re.finditer(r"(?i:\b(?:to|from)\s+program)\s+'([^']+)'", text):
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


SMALL_LANGUAGES: Final[dict[str, Handler]] = {
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk"), _awk),
    **dict.fromkeys(("vim", "vi", "nvim", "ex", "view", "rvim"), _editor),
    **dict.fromkeys(("expect", "tclsh"), _lines_of_code(r"(?:^|[;\n{])[^\S\n]*(?:spawn|exec|system)\s+\{?([^\n;}]+)")),
    **dict.fromkeys(("psql", "sqlite3", "mysql", "mariadb", "duckdb"), _psql),
    "ansible": _ansible,
    "ed": _lines_of_code(r"(?:^|\n)[^\S\n]*!([^\n]+)"),
    **dict.fromkeys(("byobu", "tmux"), _tmux),
    **dict.fromkeys(
        ("emacs", "emacsclient"), _lines_of_code(r'\((?:async-)?shell-command(?:-to-string)?\s+"((?:[^"\\]|\\.)*)"')
    ),
    "gdb": _lines_of_code(r"^\s*(?:shell|!)\s*(.+)"),
    "git": _git,
    **dict.fromkeys(("make", "gmake"), _make),
    "gsed": _sed,
    "gtar": _tar,
    **dict.fromkeys(("less", "more"), _lines_of_code(r"^\+!(.+)")),
    "man": _man,
    "osascript": _osascript,
    "rsync": _rsync,
    "sed": _sed,
    "socat": _socat,
    "tar": _tar,
}
