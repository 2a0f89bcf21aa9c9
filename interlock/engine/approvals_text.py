"""What an approver sees of a request: the whole call, with nothing in it that a screen could hide or act on.

    document_of(request) -> bytes     what a queue keeps, bound to the request's digest; opened again with `opened`
    card(document) -> str             the same for people

Every character that does not stand for itself on a screen (controls, escape sequences, bidi and zero-width characters,
combining marks, blanks that are no space) is written as ⟨U+XXXX⟩, and ⟨ itself too, so that nothing can pass for such a
mark. Whatever is left out is counted.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final

from interlock.base.canonical import NotCanonical, encode, json_object
from interlock.base.errors import InterlockError
from interlock.engine.approvals import ApprovalRequest, Script, binding

__all__ = ["MAX_CALL", "TooLarge", "card", "document_of", "opened", "visible"]

MAX_CALL: Final = 1 << 20  # bytes of a call's canonical encoding that an approver can be asked about
_MAX_EVIDENCE: Final = 64 << 10  # bytes
_HEAD: Final = 3000  # characters of a long text that are shown, from its start
_TAIL: Final = 1000  # and from its end
_FIRST: Final = 45  # lines of one text that are shown, from its start: blank ones must not push it off the screen
_LAST: Final = 15  # and from its end
_ITEMS: Final = 50  # members of a list or an object that are shown
_DEEP: Final = 6  # levels that are shown
_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # printable by category, and empty on a screen
_MARKS: Final = frozenset({"Mn", "Me"})  # accents and variation selectors of their own, stacked without end
_ASCII: Final = 0x7F


class TooLarge(InterlockError):
    """A call that nobody could read before approving it."""

    code = "too-large"


def visible(text: str) -> str:
    """A text with every character that a screen could hide, act on or confuse written as ⟨U+XXXX⟩; one line."""
    return "".join(c if c.isascii() and c.isprintable() else _shown(c) for c in text)


def _shown(c: str) -> str:
    plain = c.isprintable() and c not in _BLANK and c != "⟨" and unicodedata.category(c) not in _MARKS
    return c if plain else f"⟨U+{ord(c):04X}⟩"


def document_of(request: ApprovalRequest) -> bytes:
    """Everything that is bound, and everything that is shown, as JSON. Raises: TooLarge, NotCanonical."""
    args = encode(request.args)
    if len(args) > MAX_CALL:
        told = f"the call has {len(args):,} bytes, and an approver can be asked about {MAX_CALL:,} at most"
        raise TooLarge(told)
    body = {
        "action": request.action,
        "phase": request.phase,
        "args": args.decode("utf-8"),
        "rewritten": sorted(request.rewritten),
        "principal": request.principal,
        "parent_principal": request.parent_principal,
        "reason": request.reason,
        "rules": sorted(request.rules),
        "policy_id": request.policy_id,
        "attributed_to": request.attributed_to,
        "policy_digest": request.policy_digest,
        "cwd": request.cwd,
        "server_pin": request.server_pin,
        "scripts": [[s.path, s.sha256, s.state] for s in request.scripts],
        "evidence": _evidence(request.evidence),
        "span_id": request.span_id,
        "call_id": request.call_id,
    }
    return encode(body)


def _evidence(evidence: Mapping[str, object] | None) -> str:
    """The canonical text of what a rule gave as evidence, or a word on why it is not there."""
    if not evidence:
        return ""
    try:
        encoded = encode(evidence)
    except NotCanonical as e:
        return encode({"left out": e.what}).decode("utf-8")
    if len(encoded) > _MAX_EVIDENCE:
        return encode({"left out": f"{len(encoded):,} bytes, more than {_MAX_EVIDENCE:,}"}).decode("utf-8")
    return encoded.decode("utf-8")


def opened(document: bytes, digest: str) -> dict[str, object]:
    """A kept document, after checking that it says what the digest binds. Raises: NotCanonical, where it does not."""
    body = {name: _plain(value) for name, value in json_object(document, "the request").items()}
    try:
        same = _digest_of(body) == digest
    except (KeyError, TypeError, ValueError, AttributeError):
        same = False
    if not same:
        raise NotCanonical("does not say what the digest binds", where="the request")
    return body


def _digest_of(body: Mapping[str, object]) -> str:
    names = ("action", "phase", "reason", "principal", "parent_principal", "cwd", "server_pin", "policy_digest")
    said = {name: body[name] for name in names}
    more = {"policy_id": None, "attributed_to": None, "evidence": None, "span_id": None, "call_id": ""}
    rules, scripts, args = body["rules"], body["scripts"], body["args"]
    if not isinstance(rules, list) or not isinstance(scripts, list) or not isinstance(args, str):
        raise TypeError("a part is of another type")
    found = tuple(Script(*row) for row in scripts)
    request = ApprovalRequest(**said, **more, args={}, rules=tuple(rules), scripts=found)  # type: ignore[arg-type]
    return binding(request, args.encode("utf-8"))


def card(body: Mapping[str, object], *, full: bool = False) -> str:
    """A request for people: who would do what, where, by which rules, and the call. `full` leaves nothing out."""
    args = _text(body, "args")
    lines = [
        *_line("action", f"{_text(body, 'action')} ({_text(body, 'phase')})"),
        *_line("by", _text(body, "principal") or "(nobody named)"),
        *_line("on behalf of", _text(body, "parent_principal")),
        *_line("in", _text(body, "cwd")),
        *_line("reason", _text(body, "reason") or "(none given)"),
        *_line("rules", ", ".join(map(str, _list(body, "rules")))),
        *_line("policy", _text(body, "policy_digest")[:16]),
        *_line("about", _text(body, "attributed_to")),
        *_line("server pin", _text(body, "server_pin")),
        *(line for row in _list(body, "scripts") if isinstance(row, list) for line in _script(row)),
        f"call        {len(args.encode('utf-8')):,} bytes, SHA-256 {hashlib.sha256(args.encode('utf-8')).hexdigest()}",
        *_arguments(json.loads(args), {str(name) for name in _list(body, "rewritten")}, full),
    ]
    if evidence := _text(body, "evidence"):
        lines += ["evidence", *_value(json.loads(evidence), 1, full)]
    return "\n".join(lines)


def _line(name: str, text: str) -> Iterator[str]:
    if text:
        yield f"{name:<12}{visible(text)}{_foreign(text)}"


def _script(row: list[object]) -> Iterator[str]:
    path, sha256, state = (str(cell) for cell in row)
    yield f"{'script':<12}{visible(path)}  {'SHA-256 ' + sha256 if sha256 else state}{_foreign(path)}"


def _arguments(args: object, rewritten: set[str], full: bool) -> Iterator[str]:
    if not isinstance(args, dict):
        yield from _value(args, 1, full)
        return
    for name, value in args.items():
        mark = "  (rewritten by a rule)" if name in rewritten or rewritten == {"result"} else ""
        yield f"  {visible(name)}:{mark}{_foreign(name)}"
        yield from _value(value, 2, full)


def _value(value: object, level: int, full: bool) -> Iterator[str]:
    pad = "  " * level
    value = _text_of(value)
    if isinstance(value, str):
        yield from (f"{pad}| {line}" for line in _lines(value, full))
        return
    if not isinstance(value, dict | list) or not value:
        yield f"{pad}{visible(json.dumps(value, ensure_ascii=False))}"
        return
    if level > _DEEP and not full:
        yield f"{pad}⟨{_size(value)} left out⟩"
        return
    pairs = list(value.items()) if isinstance(value, dict) else [(f"[{n}]", item) for n, item in enumerate(value)]
    for name, item in pairs if full else pairs[:_ITEMS]:
        yield f"{pad}{visible(str(name))}:{_foreign(str(name))}"
        yield from _value(item, level + 1, full)
    if len(pairs) > _ITEMS and not full:
        yield f"{pad}⟨{len(pairs) - _ITEMS:,} more members left out⟩"


def _plain(value: object) -> object:
    return [_plain(item) for item in value] if isinstance(value, list) else _text_of(value)


def _text_of(value: object) -> object:
    """A text without a UTF-8 form is spelt {"$il": ["utf16", HEX]} in canonical JSON; here its units are a text again.

    Each unit stays on its own: two lone surrogates side by side are not the character that a pair would be.
    """
    match value:
        case {"$il": ["utf16", str(units)]}:
            return "".join(chr(int(units[n : n + 4], 16)) for n in range(0, len(units), 4))
    return value


def _lines(text: str, full: bool) -> Iterator[str]:
    """A text by its lines, each after a bar of its own; a long one with its middle left out and counted."""
    lines = text.split("\n")
    if full or (len(text) <= _HEAD + _TAIL and len(lines) <= _FIRST + _LAST):
        yield from map(visible, lines)
    else:
        head = "\n".join(lines[:_FIRST])[:_HEAD]
        tail = text[len(head) :][-_TAIL:].split("\n")[-_LAST:]
        left = len(text) - len(head) - len("\n".join(tail))
        whole = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        yield from map(visible, head.split("\n"))
        yield f"⟨{left:,} characters left out, of {len(lines):,} lines; SHA-256 of the whole text {whole}⟩"
        yield from map(visible, tail)
    if foreign := _foreign(text):
        yield foreign.strip()


def _foreign(text: str) -> str:
    """A note on characters outside ASCII, some of which look like letters that they are not."""
    found = sorted({c for c in text if ord(c) > _ASCII})
    if not found:
        return ""
    named = " ".join(f"U+{ord(c):04X}" for c in found[:8])
    return f"  ⟨outside ASCII: {named}{f' and {len(found) - 8:,} more' if len(found) > 8 else ''}⟩"


def _size(value: dict[str, object] | list[object]) -> str:
    return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value):,}"


def _text(body: Mapping[str, object], name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else ""


def _list(body: Mapping[str, object], name: str) -> list[object]:
    value = body.get(name)
    return value if isinstance(value, list) else []
