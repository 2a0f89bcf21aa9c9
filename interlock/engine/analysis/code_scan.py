"""What an inline program (`python -c`, `perl -e`, `node -e` ...) would run, delete, write or read: by its calls.

A small tokenizer tells strings and comments from code; a call of a known function with literal arguments is a finding.
Names bound to a literal string in the same text are followed. Everything else stays text.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from interlock.engine.analysis.code_wide import CodeToken, emptied, last_part, listed_and_deleted
from interlock.engine.analysis.values import HOME, UNKNOWN

__all__ = ["Act", "scan", "scan_cost"]

_TOKEN: Final = re.compile(
    r"""(?P<string>[rbfuRBFU]{0,2}(?:'''(?:[^'\\]|\\.|'(?!''))*'''|\"""(?:[^"\\]|\\.|"(?!""))*\"""|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))"""
    r"|(?P<tick>`(?:[^`\\]|\\.)*`)"
    r"|(?P<quoted>(?:\b(?:qx|q|qq)|%x)\s*(?:\{[^{}]*\}|\([^()]*\)|\[[^\[\]]*\]|/[^/]*/))"
    r"|(?P<comment>(?<![\w$&])#[^\n]*|//[^\n]*)"
    r"|(?P<name>[A-Za-z_$@][\w$]*(?:(?:\.|::|->)[A-Za-z_][\w]*[!?]?)*)"
    r"|(?P<other>\S)",
    re.S,
)
_RUNS: Final = frozenset({
    "system", "popen", "exec", "execSync", "exec_command", "getoutput", "getstatusoutput", "call", "run", "check_call",
    "check_output", "Popen", "spawn", "spawnSync", "execFile", "execFileSync", "execv", "execvp", "execve", "execl",
    "execlp", "Command", "spawnl", "spawnvp", "shell_exec", "passthru", "proc_open", "execute", "capture2", "capture3",
    "popen2", "sh", "shell", "syscmd", "esyscmd", "create_subprocess_shell", "create_subprocess_exec",
    "doShellScript", "execaSync", "execa", "qx",
})  # fmt: skip
_EVALUATES: Final = frozenset({"exec", "eval", "Function", "instance_eval", "class_eval", "compile", "runInNewContext"})
_DELETES: Final = {
    "rmtree": True, "rm_rf": True, "rm_r": True, "rmSync": True, "remove_tree": True, "rimraf": True,
        "remove_dir_all": True,
    "rm": True, "rmdirSync": False, "unlinkSync": False, "unlink": False, "removedirs": True, "rmdir": False,
    "remove": False, "delete": False, "emptyDirSync": True, "removeSync": True, "rimrafSync": True,
}  # fmt: skip
_WRITES: Final = frozenset(
    {
        "writeFileSync",
        "writeFile",
        "appendFileSync",
        "appendFile",
        "write_text",
        "write_bytes",
        "file_put_contents",
        "write",
        "copyfile",
        "copy",
        "copy2",
        "move",
        "rename",
        "replace",
        "symlink",
        "renameSync",
        "copyFileSync",
        "createWriteStream",
        "chmod",
        "truncate",
    }
)
_OPENS: Final = frozenset(
    {"open", "Path", "readFileSync", "readFile", "read_text", "file_get_contents", "fopen", "slurp"}
)
_QUERIES: Final = frozenset({
    "execute", "executescript", "executemany", "query", "raw", "exec_driver_sql", "executeRawUnsafe", "queryRawUnsafe",
})  # fmt: skip
_HOMES: Final = ("Path.home", "homedir", "Dir.home", "env.HOME")
_EXPANDS: Final = frozenset({"expanduser", "expand_path", "glob"})
_ESCAPE: Final = re.compile(r"\\(.)", re.S)
_LOOP: Final = re.compile(
    r"\b(?:while\s*+\(?+\s*+(?:1|True|true)|loop\s*(?:do|\{)|for\s*\(\s*;\s*;|fork\s+while\s+fork|for\s+\w+\s+in\s+range)"
)
_ALIAS: Final = re.compile(r"\bimport\s+(\w+)\s+as\s+(\w+)")
_MAX: Final = 64 * 1024
_TOKEN_COST: Final = 3  # of a character of code
_LONG_QUOTES: Final = ("\\`", "\\'''", '\\"""')  # of strings that may hold lines


class Act(NamedTuple):
    """One thing the code would do.

    `kind` is code (of a shell), inline (of the language itself), argv, delete, delete-tree, delete-url, write, read,
    sql (statements of a database), emptied (a database or a store), fetched, hidden or fork.
    """

    kind: str
    texts: tuple[str, ...]


def scan_cost(code: str) -> int:
    """What it costs to read the code: its tokens, and each escaped quote from which a string could reach to the end."""
    cost = _TOKEN_COST * len(code)
    if "\\" in code:
        cost += sum(code.count(quote) for quote in _LONG_QUOTES) * len(code) // 64
        for line in code.split("\n"):
            cost += (line.count("\\'") + line.count('\\"')) * len(line) // 64
    return cost


def scan(code: str) -> Iterator[Act]:
    """The acts of the code, in order."""
    code = code[:_MAX]
    tokens = [CodeToken(m.lastgroup or "other", m.group()) for m in _TOKEN.finditer(code) if m.lastgroup != "comment"]
    if _LOOP.search(code) and any(t.kind == "name" and t.text.rpartition(".")[2] == "fork" for t in tokens):
        yield Act("fork", ())
    yield from _unseen(tokens)
    yield from _wide(tokens)
    names = _literals(tokens)
    aliases = {b: a for a, b in _ALIAS.findall(code)}
    for k, token in enumerate(tokens):
        if token.kind == "name":
            yield from _call(tokens, k, names, aliases)
        elif token.kind == "tick":
            yield Act("code", (token.text[1:-1],))
        elif token.kind == "quoted" and token.text[:2] in ("qx", "%x"):
            yield Act("code", (re.sub(r"^(?:qx|%x)\s*", "", token.text)[1:-1],))


def _wide(tokens: list[CodeToken]) -> Iterator[Act]:
    """What the code does to all of something."""
    if call := emptied(tokens):
        yield Act("emptied", (call,))
    for path in listed_and_deleted(tokens):
        yield Act("delete", (path,))


def _unseen(tokens: list[CodeToken]) -> Iterator[Act]:
    """Whether the code runs (exec, eval) what it downloads or decodes."""
    called = {last_part(a.text) for a, b in itertools.pairwise(tokens) if a.kind == "name" and b.text == "("}
    whole = {a.text for a in tokens if a.kind == "name"}
    downloads = called & {"urlopen", "urlretrieve", "file_get_contents"} or any(
        n.startswith(("requests.get", "httpx.get", "fetch", "Net::HTTP", "LWP")) for n in whole
    )
    if called & {"exec", "eval", "instance_eval", "Function"}:
        if downloads:
            yield Act("fetched", ())
        if called & {
            "b64decode",
            "a85decode",
            "unhexlify",
            "fromhex",
            "decompress",
            "atob",
            "base64_decode",
            "decode64",
        }:
            yield Act("hidden", ())


def _literals(tokens: list[CodeToken]) -> dict[str, str]:
    """Names that are set to one literal string."""
    found: dict[str, str] = {}
    for a, b, c in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if a.kind == "name" and b.text == "=" and c.kind == "string":
            found[a.text] = _value(c.text)
    return found


def _value(literal: str) -> str:
    body = literal.lstrip("rbfuRBFU")
    width = 3 if body[:3] in ("'''", '"""') else 1
    text = body[width:-width]
    return text if "\\" not in text else _ESCAPE.sub(lambda m: {"n": "\n", "t": "\t"}.get(m.group(1), m.group(1)), text)


def _call(tokens: list[CodeToken], k: int, names: dict[str, str], aliases: dict[str, str]) -> Iterator[Act]:
    """The act of a call that starts at token `k`, if it is a call of a known function with literal arguments."""
    function = tokens[k].text
    last = last_part(function).rstrip("!?")
    last = aliases.get(last, last)
    evaluates = last in _EVALUATES
    if last == "sync" and _of_rimraf(tokens, k):
        last = "rimraf"
    if not (evaluates or last in _RUNS or last in _DELETES or last in _WRITES or last in _OPENS or last in _QUERIES):
        return
    strings, flags = _arguments(tokens, k + 1, names)
    if not strings:
        return
    strings = _at_home(strings, flags)
    if last in _QUERIES:
        yield Act("sql", (strings[0],))
    if any(f.endswith("b64decode") or f == "atob" for f in flags):
        strings = [_decoded(s) for s in strings]
    if evaluates:
        yield Act("inline", (strings[0],))
    if last in _RUNS:
        bracketed = any(t.text == "[" for t in tokens[k + 1 : k + 4])
        several = len(strings) > 1 and (
            bracketed
            or last.startswith(("spawn", "execFile", "execl", "execv"))
            or last in ("system", "exec", "Command")
        )
        yield Act("argv", tuple(strings)) if several else Act("code", (strings[0],))
    elif last in _DELETES and "://" in strings[0]:
        yield Act("delete-url", (strings[0],))
    elif last in _DELETES:
        tree = _DELETES[last] and not (last == "rm" and "." not in function)
        recursive = tree or "recursive" in flags
        if (
            last not in ("remove", "delete", "rm")
            or "/" in strings[0]
            or recursive
            or function.startswith(("os.", "fs.", "File.", "Path"))
        ):
            yield Act("delete-tree" if recursive else "delete", (strings[0],))
    elif last in _OPENS:
        after = last_part(tokens[k + 4].text) if len(tokens) > k + 4 and tokens[k + 3].text == ")" else ""
        writes = (len(strings) > 1 and strings[1][:1] in ("w", "a", "x", ">")) or ".write_" in _rest(tokens, k)
        kind = "write" if writes else "delete" if ".unlink" in _rest(tokens, k) or after == "unlink" else "read"
        yield Act(kind, (strings[0],))
    elif last in ("copy", "copy2", "copyfile", "move", "rename", "replace", "symlink", "renameSync", "copyFileSync"):
        if len(strings) > 1 and function != last:
            yield Act("write", (strings[1],))
    elif (
        last in _WRITES
        and function != "write"
        and function != "replace"
        and not function.endswith((".write", ".replace"))
    ):
        yield Act("write", (strings[0],))


def _of_rimraf(tokens: list[CodeToken], k: int) -> bool:
    """`require('rimraf').sync(`"""
    return k > 2 and [t.text for t in tokens[k - 2 : k]] == [")", "."] and _value(tokens[k - 3].text) == "rimraf"


def _at_home(strings: list[str], flags: set[str]) -> list[str]:
    """`expanduser("~/x")` lies at home; what is put together with a home directory lies below it."""
    if any(last_part(f) in _EXPANDS for f in flags):
        strings = [HOME + s[1:] if s == "~" or s[:2] == "~/" else s for s in strings]
    if strings[0] == HOME and any(f in ("/", "+") or last_part(f) in ("join", "joinpath") for f in flags):
        return [HOME + "/" + ("/".join(s.lstrip("/") for s in strings[1:]) or UNKNOWN)]
    return strings


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4)).decode("utf-8", "replace")
    except ValueError:
        return text


def _rest(tokens: list[CodeToken], k: int) -> str:
    return "".join(t.text for t in tokens[k + 1 : k + 8] if t.kind in ("name", "other"))


def _character(tokens: list[CodeToken], k: int) -> str:
    """`chr(47)` and its like: a literal in all but spelling; "" for other names."""
    if last_part(tokens[k].text) not in ("chr", "fromCharCode"):
        return ""
    rest = [t.text for t in tokens[k + 1 : k + 6]]
    digits = "".join(itertools.takewhile(lambda text: text.isascii() and text.isdigit(), rest[1:]))
    number = int(digits) if rest[:1] == ["("] and 0 < len(digits) < 4 else 0
    return chr(number) if 32 <= number < 127 else ""


def _arguments(tokens: list[CodeToken], k: int, names: dict[str, str]) -> tuple[list[str], set[str]]:
    """Literal strings of an argument list (with or without parentheses), and the names that stand in it."""
    strings: list[str] = []
    flags: set[str] = set()
    level = 0
    for j, token in enumerate(tokens[k : k + 40], k):
        if token.text in "([{" and token.kind == "other":
            level += 1
        elif token.text in ")]}" and token.kind == "other":
            level -= 1
            if level <= 0:
                break
        elif token.kind == "string":
            strings.append(_value(token.text))
        elif token.kind == "quoted":
            strings.append(re.sub(r"^(?:qx|%x|qq?)\s*", "", token.text)[1:-1])
        elif token.kind == "name":
            flags.add(token.text)
            if token.text in names:
                strings.append(names[token.text])
            elif token.text.endswith(_HOMES):
                strings.append(HOME)
            elif character := _character(tokens, j):
                strings.append(character)
            elif level == 0 and token.text not in ("glob", "qw"):
                break
        elif level == 0 and token.text != ",":
            break
        elif token.text in ("/", "+"):
            flags.add(token.text)
    return strings, flags
