"""From words to arguments: braces, parameters, substitutions, splitting, tildes; unknown parts are marked, not guessed.

The values come from an `Environment`: the assignments seen so far in the same text and a few that every shell has.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from interlock.engine.analysis.shell_tree import Arith, Array, Lit, Part, Proc, Script, Sub, Var, Word
from interlock.engine.analysis.values import EMPTY, HOME, SELF, UNKNOWN, UNKNOWN_ARG, Arg, whole_number

__all__ = ["MAX_CHARS", "MAX_FIELDS", "MAX_VALUE", "Environment", "Exhausted", "Expander", "Runner", "braces"]

_MAX_DEPTH: Final = 100  # steps into inner words and scripts; see `shell_run.MAX_NESTED`
MAX_FIELDS: Final = 256  # words that one brace expansion may give
MAX_WORK: Final = 16 * 1024  # parts that are put together on the way there
MAX_CHARS: Final = 256 * 1024  # what one analysis may touch: a character of a value is 1, other work as it is charged
MAX_VALUE: Final = 64 * 1024  # characters of one value
_ARG_COST: Final = 8  # of an argument beside its characters
_PART_COST: Final = 8  # of a parameter or substitution in a word
_VARIABLE_COST: Final = 4  # of a variable in a copy of all of them
_MAX_WORDS: Final = 100_000  # arguments of all commands of one analysis
_MAX_TRIMMED: Final = 512  # characters of a text from which a glob is taken off
_GLOB: Final = re.compile(r"[*?\[]")
_SEQUENCE: Final = re.compile(r"(-?[0-9]{1,9}|[A-Za-z])\.\.(-?[0-9]{1,9}|[A-Za-z])(?:\.\.(-?[0-9]{1,4}))?\Z")
_SLICE: Final = re.compile(r"\s*(-?[0-9]{1,9})\s*(?::\s*(-?[0-9]{1,9}))?\s*\Z")
_REAL_HOME: Final = "/home/user"  # stands for the home directory where a part of its text is taken
_DEFAULTS: Final[dict[str, Arg]] = {
    "HOME": Arg(HOME), "IFS": Arg(" \t\n"), "PATH": Arg("/usr/local/bin:/usr/bin:/bin"), "SHELL": Arg("/bin/bash"),
    "TMPDIR": Arg("/tmp"),  # noqa: S108 - a text that is judged, no file
    "0": Arg(SELF), "BASH": Arg("/bin/bash"),
}  # fmt: skip


class Exhausted(Exception):
    """The bounds of one analysis are used up; caught where the analysis starts."""


class Environment:
    """Variables, positional parameters, and what the walk may still use."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[Arg, ...]] = {}
        self.positional: tuple[Arg, ...] = ()
        self.cwd = ""
        self.chars = MAX_CHARS
        self.words = _MAX_WORDS

    def get(self, name: str) -> tuple[Arg, ...] | None:
        """The value's elements (one for a plain variable), None where nothing is known."""
        if name in ("@", "*"):
            return self.positional
        if name == "PWD":
            return (Arg(self.cwd),)
        found = self.values.get(name)
        if found is not None:
            return found
        number = whole_number(name)
        if number:
            return (self.positional[number - 1],) if number <= len(self.positional) else None
        default = _DEFAULTS.get(name if number is None else "0")
        if default is not None:
            return (default,)
        base, bracket, index = name.partition("[")
        return self._element(base, index[:-1]) if bracket else None

    def _element(self, base: str, index: str) -> tuple[Arg, ...] | None:
        elements = self.get(base) if base else None
        if elements is None or index in ("@", "*"):
            return elements
        number = whole_number(index)
        return (elements[number],) if number is not None and number < len(elements) else None

    def set(self, name: str, value: tuple[Arg, ...]) -> None:
        if len(self.values) < 500 or name in self.values:
            self.values[name] = value

    def copied(self) -> dict[str, tuple[Arg, ...]]:
        """The variables as they are now, for a part that may change only its own copy. Raises: Exhausted."""
        self.spend(_VARIABLE_COST * len(self.values))
        return dict(self.values)

    def hand_over(self, argv: list[Arg], stdin: Arg | None) -> None:
        """Pay for a command's arguments and input, and for finding its file. Raises: Exhausted."""
        touched = len(self.cwd) + (len(stdin.text) if stdin is not None else 0)
        self.spend(_ARG_COST * len(argv) + sum(len(a.text) for a in argv) + touched // 8)

    def spend(self, chars: int) -> None:
        """Use up some of what the analysis may touch. Raises: Exhausted."""
        self.chars -= chars
        if self.chars < 0:
            raise Exhausted("too long")


class Runner(Protocol):
    """Who runs the scripts inside words; `depth` is how deep it is, which has a bound."""

    depth: int

    def substitute(self, script: Script) -> Arg: ...
    def process(self, script: Script, writes: bool) -> Arg: ...


class Expander:
    """Expands words in one environment."""

    def __init__(self, env: Environment, runner: Runner) -> None:
        self.env = env
        self.runner = runner

    def words(self, words: tuple[Word, ...]) -> list[Arg]:
        """All fields of all words, as the arguments of a command."""
        found: list[Arg] = []
        for word in words:
            if len(word) == 1 and isinstance(word[0], Lit):  # the common case, without any expansion
                lit = word[0]
                if lit.quoted or not ("{" in lit.text or lit.text[0] == "~"):
                    found.append(Arg(lit.text, not lit.quoted and bool(_GLOB.search(lit.text))))
                    continue
            elif len(word) == 1 and isinstance(word[0], Var) and word[0].quoted and not word[0].op:
                values = self._parameter(word[0])
                if len(values) == 1:
                    found.append(values[0]._replace(glob=False))
                    self.env.spend(len(values[0].text) + 8)
                    continue
            for one in braces(word):
                found.extend(self.fields(one))
        self.env.words -= len(found)
        if self.env.words < 0:
            raise Exhausted("too long")
        return found

    def single(self, word: Word) -> Arg:
        """A word's value without splitting, as in an assignment or a redirection."""
        fields = self._fields(word, split=False)
        return fields[0] if fields else EMPTY

    def fields(self, word: Word) -> list[Arg]:
        return self._fields(word, split=True)

    def _fields(self, word: Word, *, split: bool) -> list[Arg]:
        builder = _Builder()
        for index, part in enumerate(word):
            if isinstance(part, Lit):
                text = part.text
                if index == 0 and not part.quoted and text[:1] == "~":
                    text = _tilde(text)
                builder.add(text, glob=not part.quoted, quoted=part.quoted)
            elif isinstance(part, Array):
                self._deeper()
                for arg in self.words(part.words):
                    builder.add_field(arg)
                self.runner.depth -= 1
            else:
                self.env.spend(_PART_COST)
                self._expanded(builder, part, split)
            self.env.spend(builder.cost())
        builder.break_field()
        self.env.spend(builder.cost())
        return builder.fields

    def _deeper(self) -> None:
        """A step into an inner word. Raises: Exhausted."""
        if self.runner.depth >= _MAX_DEPTH:
            raise Exhausted("too deep")
        self.runner.depth += 1

    def _expanded(self, builder: _Builder, part: Part, split: bool) -> None:
        values, quoted = self._value(part)
        if not values:
            return
        if len(values) > 1 and (split or not quoted):
            for k, arg in enumerate(values):
                if k:
                    builder.break_field()
                builder.add(arg.text, glob=not quoted, quoted=True, taint=arg.taint)
            return
        text = " ".join(v.text for v in values)
        taint = next((v.taint for v in values if v.taint), "")
        if quoted or not split:
            builder.add(text, glob=False, quoted=True, taint=taint)
        else:
            separators = (self.env.get("IFS") or (EMPTY,))[0].text
            self.env.spend(len(separators) + len(text) // 8)
            builder.add_split(text, separators, taint)

    def _value(self, part: Part) -> tuple[tuple[Arg, ...], bool]:
        """The part's elements and whether it stood in quotes."""
        if isinstance(part, Sub):
            out = self.runner.substitute(part.script)
            return ((out._replace(text=out.text.rstrip("\n")),), part.quoted)
        if isinstance(part, Proc):
            return ((self.runner.process(part.script, part.writes),), True)
        if isinstance(part, Arith):
            self._deeper()
            self.single(part.inner)
            self.runner.depth -= 1
            return ((UNKNOWN_ARG,), True)
        assert isinstance(part, Var)  # Lit and Array are handled by the caller
        return (self._parameter(part), part.quoted)

    def _parameter(self, var: Var) -> tuple[Arg, ...]:
        known = self.env.get(var.name) if var.name else None
        op = var.op
        if not op:
            return known if known is not None else (UNKNOWN_ARG,)
        operand = self._operand(var.arg) if op != ":" and var.arg else EMPTY
        if op == "len":
            return (UNKNOWN_ARG,)
        if op == "!":
            target = known[0].text if known else ""
            return (self.env.get(target) if target else None) or (UNKNOWN_ARG,)
        if op.lstrip(":") in ("-", "=", "?", "+") and op != ":":
            return self._default(var.name, known, op, operand)
        if known is None:
            return (UNKNOWN_ARG,)
        self.env.spend(sum(_change_cost(arg.text, op, operand.text) for arg in known))
        return tuple(_changed(arg, op, operand.text, var.arg) for arg in known)

    def _operand(self, word: Word) -> Arg:
        self._deeper()
        value = self.single(word)
        self.runner.depth -= 1
        return value

    def _default(self, name: str, known: tuple[Arg, ...] | None, op: str, operand: Arg) -> tuple[Arg, ...]:
        kind = op[-1]
        full = known is not None and (not op.startswith(":") or any(a.text for a in known))
        if kind == "+":
            return (operand,) if full or known is None else (EMPTY,)
        if full:
            assert known is not None  # by `full`
            return known
        if kind == "=":
            self.env.set(name, (operand,))
        return (UNKNOWN_ARG,) if kind == "?" else (operand,)


def _change_cost(text: str, op: str, operand: str) -> int:
    """What a change costs; a glob is tried at each end of the text."""
    tries = op[0] in "#%" and len(text) <= _MAX_TRIMMED and bool(_GLOB.search(operand))
    return 8 + len(text) // 8 + (len(text) * (len(operand) + 2) // 2 if tries else 0)


def _changed(arg: Arg, op: str, operand: str, word: Word) -> Arg:
    """The value after `${x#p}`, `${x%p}`, `${x/p/r}`, `${x:o:l}`, `${x^^}`, `${x,,}`."""
    text = arg.text.replace(HOME, _REAL_HOME)
    if UNKNOWN in text or UNKNOWN in operand:
        return Arg(UNKNOWN, arg.glob, arg.taint)
    if op == ":":
        m = _SLICE.match("".join(p.text for p in word if isinstance(p, Lit)))
        return arg._replace(text=_sliced(text, m)) if m else Arg(UNKNOWN, arg.glob, arg.taint)
    if op in ("^^", "^", ",,", ","):
        change = str.upper if op[0] == "^" else str.lower
        return arg._replace(text=change(text) if len(op) == 2 else change(text[:1]) + text[1:])
    if op in ("/", "//"):
        pattern, _, new = operand.partition("/")
        if not pattern or _GLOB.search(pattern):
            return Arg(UNKNOWN, arg.glob, arg.taint)
        most = 1 if op == "/" else MAX_VALUE // len(new) + 1 if new else -1  # what comes after them would be cut off
        return arg._replace(text=text.replace(pattern, new, most)[:MAX_VALUE])
    if op in ("#", "##", "%", "%%"):
        return arg._replace(text=_trimmed(text, op, operand))
    return arg


def _sliced(text: str, m: re.Match[str]) -> str:
    start = int(m.group(1))
    start = max(len(text) + start, 0) if start < 0 else start
    if m.group(2) is None:
        return text[start:]
    length = int(m.group(2))
    return text[start : start + length] if length >= 0 else text[start : len(text) + length]


def _trimmed(text: str, op: str, pattern: str) -> str:
    """Remove the shortest (`#`, `%`) or longest match of a glob from one end; long texts are only tried literally."""
    if not _GLOB.search(pattern) or len(text) > _MAX_TRIMMED:
        return text.removeprefix(pattern) if op[0] == "#" else text.removesuffix(pattern)
    cuts = range(len(text) + 1) if (op in ("#", "%%")) else range(len(text), -1, -1)
    for cut in cuts:
        piece = text[:cut] if op[0] == "#" else text[cut:]
        if fnmatch.fnmatchcase(piece, pattern):
            return text[cut:] if op[0] == "#" else text[:cut]
    return text


def _tilde(text: str) -> str:
    name, slash, rest = text[1:].partition("/")
    if name == "":
        return HOME + slash + rest
    if name in ("+", "-") or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name):
        return text if name not in ("+", "-") else UNKNOWN + slash + rest
    return f"/home/{name}{slash}{rest}" if name != "root" else f"/root{slash}{rest}"


class _Builder:
    """Collects pieces into fields."""

    def __init__(self) -> None:
        self.fields: list[Arg] = []
        self.pieces: list[str] = []
        self.length = 0
        self.dropped = 0  # characters of values that are too long
        self.charged = 0
        self.glob = False
        self.taint = ""
        self.open = False

    def add(self, text: str, *, glob: bool, quoted: bool, taint: str = "") -> None:
        if self.length < MAX_VALUE:
            self.pieces.append(text)
            self.length += len(text)
        else:
            self.dropped += len(text)
        self.glob = self.glob or (glob and bool(_GLOB.search(text)))
        self.taint = self.taint or taint
        self.open = self.open or quoted or bool(text)

    def add_field(self, arg: Arg) -> None:
        self.break_field()
        self.fields.append(arg)

    def add_split(self, text: str, separators: str, taint: str) -> None:
        if text == separators:  # `$IFS` itself
            self.break_field()
            return
        piece_start = 0
        signs = frozenset(separators)
        for k, c in enumerate(text):
            if c in signs:
                self._piece(text[piece_start:k], taint)
                self.break_field()
                piece_start = k + 1
        self._piece(text[piece_start:], taint)

    def _piece(self, text: str, taint: str) -> None:
        if text:
            self.add(text, glob=True, quoted=False, taint=taint)

    def break_field(self) -> None:
        if self.open:
            self.fields.append(Arg("".join(self.pieces)[:MAX_VALUE], self.glob, self.taint))
        self.pieces, self.length, self.glob, self.taint, self.open = [], 0, False, "", False

    def cost(self) -> int:
        """The price of the fields that were added, and of what was dropped, since the last call."""
        new, dropped = self.fields[self.charged :], self.dropped
        self.charged, self.dropped = len(self.fields), 0
        return sum(len(f.text) + 8 for f in new) + dropped


# -- braces --------------------------------------------------------------------------------------------------------


def braces(word: Word) -> list[Word]:
    """The words that `{a,b}` and `{1..3}` give; a word with more than MAX_FIELDS results stays as it is."""
    if not any(isinstance(p, Lit) and not p.quoted and "{" in p.text for p in word):
        return [word]
    found = _brace_list(_tokens(word))
    return [tuple(w) for w in found] if found is not None else [word]


def _tokens(word: Word) -> Iterator[Part | str]:
    """Parts, with unquoted `{`, `,`, `}` as strings of their own."""
    for part in word:
        if isinstance(part, Lit) and not part.quoted:
            for piece in re.split(r"([{},])", part.text):
                if piece in ("{", ",", "}"):
                    yield piece
                elif piece:
                    yield Lit(piece, False)
        else:
            yield part


def _brace_list(tokens: Iterable[Part | str]) -> list[list[Part]] | None:
    """Expand from the left with an explicit stack: each open brace holds its finished alternatives.

    None where that gives too many words, takes too much work, or a brace is left that nothing closed.
    """
    stack: list[tuple[list[list[Part]], list[list[Part]]]] = []  # (what stood before the brace, alternatives)
    current: list[list[Part]] = [[]]
    waiting = work = 0
    for piece in tokens:
        work += len(current)
        if piece == "{":
            stack.append((current, []))
            current = [[]]
        elif piece == "," and stack:
            waiting += len(current)
            stack[-1][1].extend(current)
            current = [[]]
        elif piece == "}" and stack:
            before, alternatives = stack.pop()
            waiting -= len(alternatives)
            inner = _inner(alternatives, current)
            work += len(inner) * sum(map(len, before)) + len(before) * sum(map(len, inner))
            if len(before) * len(inner) > MAX_FIELDS or work > MAX_WORK:
                return None
            current = [[*a, *b] for a in before for b in inner]
        else:
            part = Lit(piece, True) if isinstance(piece, str) else piece
            for word in current:
                word.append(part)
        if len(current) > MAX_FIELDS or waiting > MAX_FIELDS or work > MAX_WORK:
            return None
    return current if not stack else None


def _inner(alternatives: list[list[Part]], last: list[list[Part]]) -> list[list[Part]]:
    """What one pair of braces stands for; braces without alternatives are text."""
    if alternatives:
        return [*alternatives, *last]
    members = _sequence(last)
    return members if members is not None else [[Lit("{", True), *w, Lit("}", True)] for w in last]


def _sequence(words: list[list[Part]]) -> list[list[Part]] | None:
    """The members of `{a..b}`, None where the braces are text."""
    if len(words) != 1 or len(words[0]) != 1:
        return None
    only = words[0][0]
    m = _SEQUENCE.match(only.text) if isinstance(only, Lit) else None
    if not m:
        return None
    first, last, letters = m.group(1), m.group(2), m.group(1).isalpha()
    if letters != m.group(2).isalpha():
        return None
    a, b = (ord(first), ord(last)) if letters else (int(first), int(last))
    step = max(abs(int(m.group(3) or 1)), 1)
    if abs(b - a) // step > MAX_FIELDS:
        return [[Lit(first, True)], [Lit(last, True)]]
    numbers = range(a, b + 1, step) if a <= b else range(a, b - 1, -step)
    return [[Lit(chr(k) if letters else str(k), True)] for k in numbers]
