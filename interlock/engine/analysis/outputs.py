"""What a command would print, where its text already says so: echo, printf, cat of a here-document, base64 -d ..."""

from __future__ import annotations

import base64
import binascii
import itertools
import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from interlock.engine.analysis.options import split
from interlock.engine.analysis.shell_words import ansi_c
from interlock.engine.analysis.values import EMPTY, HOME, UNKNOWN, UNKNOWN_ARG, Arg, whole_number, without_marks

__all__ = ["printed", "rewritten"]

_FORMAT: Final = re.compile(r"%(?:%|[-+ #0]*[0-9]*(?:\.[0-9]+)?[a-zA-Z])")
_MAX: Final = 64 * 1024
_DOWNLOADERS: Final = frozenset(
    {
        "curl",
        "wget",
        "http",
        "https",
        "fetch",
        "aria2c",
        "lynx",
        "telnet",
        "xh",
        "ftp",
        "nc",
        "ncat",
        "netcat",
        "dig",
        "w3m",
        "iwr",
        "irm",
        "Invoke-WebRequest",
        "Invoke-RestMethod",
    }
)
_PASSES: Final = frozenset({"cat", "tee", "sort", "head", "tail", "uniq", "tac", "less", "more", "pv", "sponge", "bat"})
_SOME: Final = frozenset({"head", "tail"})  # they leave lines out
_FILTERS: Final = frozenset({"grep", "egrep", "fgrep", "rg"})  # they give some of the lines
_REWRITERS: Final = frozenset({
    "sed", "gsed", "awk", "gawk", "mawk", "nawk", "tr", "cut", "jq", "yq", "iconv", "fold", "fmt", "paste", "column",
    "expand", "unexpand", "strings", "colrm", "col", "pr", "join", "m4", "envsubst", "csplit", "dd",
})  # fmt: skip
_DECODERS: Final = frozenset(
    {
        "base64",
        "base32",
        "basenc",
        "xxd",
        "openssl",
        "gpg",
        "rev",
        "gunzip",
        "zcat",
        "uudecode",
        "bzcat",
        "xzcat",
        "gzip",
        "bzip2",
        "bunzip2",
        "xz",
        "unxz",
        "zstd",
        "zstdcat",
        "lz4",
        "lz4cat",
        "lzcat",
        "brotli",
        "unzip",
        "tar",
        "7z",
        "unrar",
    }
)
_ALWAYS: Final = frozenset({
    "rev", "gunzip", "zcat", "uudecode", "gpg", "bzcat", "xzcat", "bunzip2", "unxz", "zstdcat", "lz4cat", "lzcat",
    "unzip", "tar", "7z", "unrar",
})  # fmt: skip
_STRONGER: Final = frozenset({"net", "decoded", "secret", "guard"})  # taints that outlive a rewriting


def printed(program: str, args: Sequence[Arg], stdin: Arg | None) -> Arg:
    """The standard output as far as it is known; UNKNOWN with a taint where only its origin is."""
    maker = _MAKERS.get(program)
    if maker is not None:
        return maker(args, stdin)
    if program in _DOWNLOADERS:
        return Arg(UNKNOWN, taint="net")
    if program in _DECODERS:
        return _decoded(program, args, stdin)
    if program in _PASSES:
        some = program in _SOME and stdin is not None and stdin.taint == "found"
        return Arg(UNKNOWN, taint="filtered") if some else _passed(args, stdin)
    if program in _FILTERS and any(_names_files(a.text) for a in args):
        texts = [a.text for a in args if a.taint in ("found", "filtered")]
        return Arg("\n".join(texts) + "\n" if texts else UNKNOWN, taint="filtered")
    taint = stdin.taint if stdin is not None else ""
    if program in _REWRITERS:
        return rewritten(stdin)
    if not taint and program in _FILTERS and stdin is not None and stdin.known:
        taint = "text"
    return Arg(UNKNOWN, taint=taint)


def _names_files(text: str) -> bool:
    """`-l`, `-rl`, `--files-with-matches`: grep prints names of files."""
    letters = text[1:] if text[:1] == "-" and text[:2] != "--" and text.isascii() else ""
    return "l" in letters or "L" in letters or text.startswith("--files-with")


def rewritten(stdin: Arg | None) -> Arg:
    """What a program makes of its input, or of a file: unknown, and no longer what it was."""
    stronger = stdin is not None and stdin.taint in _STRONGER
    return Arg(UNKNOWN, taint=stdin.taint if stdin is not None and stronger else "text")


def _echo(args: Sequence[Arg], stdin: Arg | None) -> Arg:
    words, escapes, newline = list(args), False, True
    while words and re.fullmatch(r"-[neE]+", words[0].text):
        flag = words.pop(0).text
        escapes = escapes or "e" in flag
        newline = newline and "n" not in flag
    text = " ".join(w.text for w in words)
    taint = next((w.taint for w in words if w.taint), "")
    return Arg((ansi_c(text) if escapes else text) + ("\n" if newline else ""), taint=taint)


def _printf(args: Sequence[Arg], stdin: Arg | None) -> Arg:
    words = list(args)
    if words and words[0].text == "--":
        words.pop(0)
    if len(words) > 1 and words[0].text == "-v":
        return EMPTY
    if not words:
        return EMPTY
    form, values = ansi_c(words[0].text), deque(words[1:])
    taint = next((w.taint for w in words if w.taint), "")
    pieces: list[str] = []
    total = 0
    while True:
        before = len(values)
        piece = _FORMAT.sub(lambda m: _formatted(m.group(), values), form)
        pieces.append(piece)
        total += len(piece)
        if not values or len(values) == before or total > _MAX:
            break
    return Arg("".join(pieces)[:_MAX], taint=taint)


def _formatted(spec: str, values: deque[Arg]) -> str:
    if spec == "%%":
        return "%"
    value = values.popleft().text if values else ""
    return ansi_c(value) if spec[-1] == "b" else value


def _passed(args: Sequence[Arg], stdin: Arg | None) -> Arg:
    """cat and its like: the input, where no file is named."""
    files = [a for a in args if not a.text.startswith("-") and whole_number(a.text) is None]
    if stdin is not None and (not files or any(a.text == "-" for a in args)):
        return stdin
    if stdin is not None and stdin.taint:  # tee, or a file that does not matter
        return stdin
    return Arg(UNKNOWN, taint="file")


def _decoded(program: str, args: Sequence[Arg], stdin: Arg | None) -> Arg:
    opts = split(args, "wi")
    decodes = program in _ALWAYS or opts.has("-d", "-D", "--decode", "-r", "--reverse", "--decompress")
    if not decodes:
        return Arg(UNKNOWN, taint=stdin.taint if stdin is not None else "file")
    if stdin is None or not stdin.known:
        kept = stdin is not None and stdin.taint in ("net", "secret")
        return Arg(UNKNOWN, taint=stdin.taint if stdin is not None and kept else "decoded")
    text = _plain(program, stdin.text)
    return Arg(UNKNOWN if text is None else text, taint="decoded")


def _plain(program: str, text: str) -> str | None:
    """The decoded text, None where it is not decoded here."""
    compact = "".join(text.split())
    try:
        if program in ("base64", "openssl"):
            data = base64.b64decode(compact + "=" * (-len(compact) % 4))
        elif program == "base32":
            data = base64.b32decode(compact)
        elif program == "xxd":
            data = bytes.fromhex(compact)
        elif program == "rev":
            return "\n".join(line[::-1] for line in text.split("\n"))
        else:
            return None
    except (ValueError, binascii.Error):
        return None
    return without_marks(data.decode("utf-8", "replace"))


def _tee(args: Sequence[Arg], stdin: Arg | None) -> Arg:
    return stdin if stdin is not None else UNKNOWN_ARG


def _dirname(args: Sequence[Arg], stdin: Arg | None) -> Arg:
    path = args[-1].text.rstrip("/") if args else ""
    if path == HOME:
        return Arg("/home")
    parent, slash, _ = path.rpartition("/")
    return Arg(parent or ("/" if slash else "."))


def _same(args: Sequence[Arg], stdin: Arg | None) -> Arg:
    """realpath, readlink -f: the path itself, as far as its text says."""
    return next((a for a in reversed(args) if a.text[:1] != "-"), UNKNOWN_ARG)


def _pgrep(args: Sequence[Arg], stdin: Arg | None) -> Arg:
    return Arg(UNKNOWN, taint="guard" if any("interlock" in a.text for a in args) else "")


def _mktemp(args: Sequence[Arg], stdin: Arg | None) -> Arg:
    return Arg("/tmp/" + UNKNOWN)  # noqa: S108 - a text that is judged, no file


def _pwd(args: Sequence[Arg], stdin: Arg | None) -> Arg:
    return Arg(".")


def _find(args: Sequence[Arg], stdin: Arg | None) -> Arg:
    """The roots of a search, each with an unknown below; "filtered" where the search was narrowed."""
    roots: list[Arg] = []
    for arg in args:
        if arg.text[:1] in ("-", "(", "!"):
            break
        roots.append(arg)
    names = [a.text for a in args[len(roots) :]]
    cut = next((k for k, n in enumerate(names) if n in ("-exec", "-execdir", "-ok", "-okdir")), len(names))
    names = names[:cut]
    narrowed = any(
        n.startswith("-")
        and n not in ("-name", "-print0", "-print", "-type", "-depth", "-delete", "-maxdepth", "-mindepth")
        for n in names
    ) or any(a == "-name" and b not in ("*", ".*", "*.*") for a, b in itertools.pairwise(names))
    texts = [r.text.rstrip("/") + "/" + UNKNOWN for r in roots] or ["./" + UNKNOWN]
    return Arg("\n".join(texts) + "\n", taint="filtered" if narrowed else "found")


def _fd(args: Sequence[Arg], stdin: Arg | None) -> Arg:
    return Arg(UNKNOWN, taint="found")


def _ls(args: Sequence[Arg], stdin: Arg | None) -> Arg:
    """ls without a name: everything that is here."""
    named = any(a.text[:1] != "-" and a.text not in ("*", "*/", ".", "./", "./*") for a in args)
    return Arg(UNKNOWN if named else f"./{UNKNOWN}\n", taint="found")


def _containers(args: Sequence[Arg], stdin: Arg | None) -> Arg:
    """docker ps -aq, docker images -q: all that there are."""
    words = [a.text for a in args if a.text[:1] != "-"]
    lists = bool({"ps", "images", "ls"} & set(words[:2]))
    narrowed = any(a.text.startswith(("-f", "--filter", "--last")) for a in args)
    return Arg(UNKNOWN, taint="found" if lists and not narrowed else "")


def _keys(args: Sequence[Arg], stdin: Arg | None) -> Arg:
    """redis-cli KEYS x, redis-cli --scan."""
    words = {a.text.upper() for a in args}
    return Arg(UNKNOWN, taint="found" if {"KEYS", "--SCAN"} & words else "")


def _nothing(args: Sequence[Arg], stdin: Arg | None) -> Arg:
    return EMPTY


def _which(args: Sequence[Arg], stdin: Arg | None) -> Arg:
    names = [a for a in args if not a.text.startswith("-")]
    return Arg(names[0].text if names else "")


_MAKERS: Final[dict[str, Callable[[Sequence[Arg], Arg | None], Arg]]] = {
    "echo": _echo, "printf": _printf, "mktemp": _mktemp, "pwd": _pwd, "tee": _tee, "dirname": _dirname,
        "realpath": _same, "readlink": _same, "pgrep": _pgrep, "pidof": _pgrep, "find": _find, "fd": _fd, "ls": _ls,
    "which": _which, "true": _nothing, "false": _nothing, ":": _nothing, "cd": _nothing, "export": _nothing,
    "sleep": _nothing, "mkdir": _nothing, "rm": _nothing, "docker": _containers, "nerdctl": _containers,
    "podman": _containers, "redis-cli": _keys, "valkey-cli": _keys,
}  # fmt: skip
