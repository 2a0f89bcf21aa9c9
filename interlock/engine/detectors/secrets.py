"""secrets: masks API keys, tokens, passwords and private keys.

Two ways to know one: by a form that only a key of one issuer has (a prefix, an alphabet, a length), or by what is said
of it (`password = "..."`, `X_TOKEN=...`, `Authorization: Bearer ...`, `scheme://user:secret@host`), where the value
then has to look like one: placeholders, variables and calls are left alone. Every pattern begins with a literal that is
looked for first, and every repetition is bounded, so that time is linear in the text.

A label can lay open what stood beside a secret, and a secret may stand once more where nothing speaks of it: so what
was found is masked wherever it stands, and the text is read again until nothing more is found.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from interlock.engine.decision import Decision
from interlock.engine.detectors.secret_forms import FORMS, Form
from interlock.engine.detectors.spec import DetectorSpec, checked_params
from interlock.engine.detectors.walk import MOST_FINDS, Found, TooManyFinds, mask_decision, visible, withheld
from interlock.engine.event import PHASES, SensorEvent
from interlock.engine.policy.model import RuleFunction

__all__ = ["DETECTORS", "redacted_secrets"]

_ID: Final = "secrets"
_PARAMS: Final[dict[str, type | tuple[type, ...]]] = {}
_ROUNDS: Final = 8  # readings of a text: each but the last finds what the one before laid open
_MAX_COPIED: Final = 64  # values of one reading that are looked for elsewhere
_LEAST_COPIED: Final = 8  # characters of such a value
Put = Callable[..., str]

_PEM: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[^-]{40,20000}"
    r"(?:-{1,5}END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
)
_URL_USER: Final = re.compile(r"(?<=://)([^\s:/@\"'<>]{0,100}:)([^\s/@\"'<>]{3,200})(?=@)")
_HEADER: Final = re.compile(
    r"((?:authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:bearer|basic|token|bot)?|\bbearer)\s{1,3})([^\s\"',;]{8,3000})",
    re.I,
)
_CURL_USER: Final = re.compile(r"\s(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,100}:[\"']?([^\s\"']{3,200})")
_CURL_REACH: Final = 160  # characters of one command between "curl" and the option that names a user
_COMMAND_END: Final = re.compile(r"[\n|;]")
_COOKIE: Final = re.compile(r"(_gitlab_session=)([a-f0-9]{32})")
_WORDS_LONG: Final = re.compile(r"[^\t-\r\x1c-\x20\"',]{15,}")  # of a form's match so much has none of these
_LONG: Final = 1 << 12  # characters of a text in which one sign is found many times as quickly as a literal
_SIGNS: Final = frozenset("".join(literal for form in FORMS for literal in form.literals))
# A JWT from its second part on, where a first one of so many characters at least stands before it; what is no part of
# one; and where its first part may begin
_JWT_PARTS: Final = re.compile(r"\.eyJ(?<=[\w-]{13}\.eyJ)([\w-]{4,4000}(?:\.[\w-]{4,2000})?(?![A-Za-z0-9]))?")
_NO_PART: Final = re.compile(r"[^\w-]+")
_JWT_BEGIN: Final = re.compile(r"(?<![A-Za-z0-9_])eyJ(?=[\w-]{10})")
_FIRST_PART: Final = 2003  # characters of it, at most
_LEAST_FIRST: Final = 13  # and at least
# A name that says "secret", then a value: quoted, or up to the next blank. Its first letter stands alone, as a set and
# with no case folded, since `re` finds quickly where one of a set stands; so does the set of what the name goes on
# with, which `re` then reads at once: with what Python folds to its letters (a dotted I, a dotless i, a long s, the
# Kelvin sign). What has been read of a name is never given back: no shorter one has another end.
_NAMED: Final = re.compile(
    r"(((?-i:[PSTCKApstcka\u017f\u212a])(?>(?<=p)(?:ass(?:wor[dt]|wd|phrase)?|wd?)|(?<=s)ecrets?|(?<=t)okens?"
    r"|(?<=c)redentials?|(?<=k)eys?|(?<=a)(?:pi|ccess|uth)[_.-]?keys?))"
    r"((?-i:[A-Za-z0-9_.\u0130\u0131\u017f\u212a-]{0,30}+))(?=[\"'`\])\s:=,|])[\"'`\])]{0,3}+\s{0,4}+"
    r"(?::=|={1,3}|=>|:|,|\|\|:?|\s?(?<=\s)(?=[\"']))\s{0,4}(?:new\s)?)"
    r"(?:\"([^\"\n]{3,500})\"|'([^'\n]{3,500})'|`([^`\n]{3,500})`|([^\s\"'`,;)}\]>]{6,500}))",
    re.I,
)
_SHORT_VALUE: Final = 64  # characters of a value whose characters are counted one by one
_PLAIN_VALUE: Final = 7  # the group of a value that is not quoted
_NAMES: Final = ("pass", "pw", "secret", "token", "key", "credential")
# a name that goes on like this speaks of a secret and does not hold one
_ABOUT: Final = re.compile(
    r"(?:id|ids|name|names|file|url|uri|size|length|path|alias|type|str|chars|st|vars?|variable|vault\w{0,20}|\w{0,20}secrets)\Z"
    r"|_?vault",
    re.I,
)
_ANOTHER_WORD: Final = re.compile(r"[a-z]{2}")  # keyboard, tokenizer, passenger
_SHORT: Final = frozenset({"key", "token", "pass", "pw", "pwd"})
_PLACEHOLDERS: Final = (
    "example", "placeholder", "your", "insert", "redacted", "dummy", "sample", "fake", "xxxx", "***", "...", "${", "$(",
    "{{", "%(", "put_", "abcdefghijkl", "#####",
)  # fmt: skip
_PLACEHOLDER: Final = re.compile("|".join([*map(re.escape, _PLACEHOLDERS), "change.?me", "<[^>]{1,60}>"]), re.I)
# the same of small letters, where no case is folded and none of the others stands: many times as quick
_SMALL_PLACEHOLDER: Final = re.compile("|".join(map(re.escape, _PLACEHOLDERS)))
_REFERENCE: Final = re.compile(
    r"\$[A-Za-z_{(0-9]|[%@&<{(\[]|[A-Za-z_][\w.]{0,80}[(\[]|(?:os|process|config|settings|self|this|env)\.|/|\./|https?:"
)
_DIGIT: Final = re.compile(r"\d")
_ASCII_DIGIT: Final = re.compile("[0-9]")
_ASCII_LETTER: Final = re.compile("[A-Za-z]")
_CODE_NAME: Final = re.compile(r"[A-Za-z_]+(?:[._-][A-Za-z_]+){0,10}\Z")
_STRONG: Final = ("pass", "pw", "secret")
_WORDS: Final = frozenset(
    {"pass", "password", "passwd", "pwd", "secret", "token", "none", "null", "true", "false", "string"}
)


class _Finds:
    """What was found: the kinds in their order, and the values that are masked wherever else they stand."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.kinds: list[str] = []
        self.values: dict[str, str] = {}  # each with its label

    def put(self, kind: str, value: str = "") -> str:
        """The label of a secret found; `value` where only its place told that it is one. Raises: TooManyFinds."""
        self.kinds.append(kind)
        if len(self.kinds) > self.most:
            raise TooManyFinds
        label = f"[REDACTED {kind}]"
        if len(self.values) < _MAX_COPIED and value not in self.values and _stands_out(value):
            self.values[value] = label
        return label

    def spread(self, text: str) -> str:
        """The text with each value masked wherever it stands."""
        for value, label in self.values.items():
            text = text.replace(value, label)
        return text


def redacted_secrets(text: str, *, most: int = MOST_FINDS) -> tuple[str, list[str]]:
    """The text with every secret found replaced by its label, and the kinds found; withheld whole after `most`."""
    kinds: list[str] = []
    given, text = text, visible(text)
    forms: list[Form] | None = None
    for _ in range(_ROUNDS):
        finds = _Finds(most - len(kinds))
        try:
            text, forms = _redacted(text, finds.put, forms)
            text = finds.spread(text)
        except TooManyFinds:
            return withheld(kinds + finds.kinds, most)
        if not finds.kinds:
            break
        kinds += finds.kinds
    return (text if kinds else given), kinds


def _redacted(text: str, put: Put, known: list[Form] | None) -> tuple[str, list[Form]]:
    """The text with what one reading finds masked, and the forms of which it held a literal: no label adds one."""
    if "PRIVATE KEY" in text:
        text = _PEM.sub(lambda m: put("PRIVATE_KEY"), text)
    words = " ".join(_WORDS_LONG.findall(text)) if known != [] else ""
    possible = _possible(words) if known is None else known
    forms = [form for form in possible if any(literal in words for literal in form.literals)]
    for form in forms:
        text = _replaced(text, form, put)
    return _named(text, put), forms


def _possible(words: str) -> Iterable[Form]:
    """The forms of which a literal may stand in a text: of a long one, those with each of a literal's signs."""
    if len(words) < _LONG:
        return FORMS if words else ()
    signs = {sign for sign in _SIGNS if sign in words}
    return [form for form in FORMS if any(signs.issuperset(literal) for literal in form.literals)]


def _replaced(text: str, form: Form, put: Put) -> str:
    if form.kind == "JWT":
        return _jwts(text, put)
    out: list[str] = []
    copied = 0
    for begin, end in form.matches(text):
        if _varied(text[begin:end]):
            out += [text[copied:begin], put(form.kind)]
            copied = end
    return "".join([*out, text[copied:]]) if out else text


def _jwts(text: str, put: Put) -> str:
    """Many may begin within a part that no second part follows: so the first is looked for from the second."""
    out: list[str] = []
    copied = past = at = 0
    varied: dict[str, bool] = {}
    while parts := _JWT_PARTS.search(text, at):
        second = parts.start()
        at = second + 1
        if parts.lastindex is None:  # no whole one
            continue
        head = text[max(past, second - _FIRST_PART, text.rfind(".", past, second) + 1) : second]
        begun = _JWT_BEGIN.search(text, second - len(_NO_PART.split(head)[-1]), second)
        if begun is None:
            continue
        past = parts.end()
        at = past + _LEAST_FIRST
        found = text[begun.start() : past]
        if found not in varied:
            varied[found] = _varied(found)
        if varied[found]:
            out += [text[copied : begun.start()], put("JWT")]
            copied = past
    return "".join([*out, text[copied:]])


def _named(text: str, put: Put) -> str:
    """Secrets known by what is said of them."""
    low = text.lower()
    if "://" in text and "@" in text:
        text = _URL_USER.sub(lambda m: _kept(m, put, "PASSWORD", _is_written_out(m.group(2))), text)
    if "authorization" in low or "bearer" in low:
        text = _HEADER.sub(lambda m: _kept(m, put, "TOKEN", _is_random(m.group(2), 2.5)), text)
    if "curl" in text:
        text = _users_of_curl(text, put)
    if "_gitlab_session=" in text:
        text = _COOKIE.sub(lambda m: _kept(m, put, "TOKEN", True), text)
    if any(name in low for name in _NAMES):
        text = _NAMED.sub(functools.partial(_assignment, put), text)
    return text


def _kept(match: re.Match[str], put: Put, kind: str, secret: bool) -> str:
    return match.group(1) + put(kind, match.group(2)) if secret else match.group()


def _users_of_curl(text: str, put: Put) -> str:
    """The password of `curl ... -u NAME:PASSWORD`: each option is read once, however many commands stand before it."""
    out: list[str] = []
    copied = 0
    user, begun = _CURL_USER.search(text), text.find("curl")
    while user and begun >= 0:
        if user.start() < begun + 4:
            user = _CURL_USER.search(text, begun + 4)
        elif user.start() - begun - 4 > _CURL_REACH or _COMMAND_END.search(text, begun + 4, user.start()):
            begun = text.find("curl", max(begun + 4, user.start() - _CURL_REACH - 4))
        else:
            if _is_written_out(user.group(1)):
                out += [text[copied : user.start(1)], put("PASSWORD", user.group(1))]
                copied = user.end()
            begun = text.find("curl", user.end() - 4)
    return "".join([*out, text[copied:]])


def _assignment(put: Put, match: re.Match[str]) -> str:
    held = match.lastindex or 0  # the value's group
    value = match[held]
    if "[REDACTED" in value:
        return match[0]
    head, name, rest = match.group(1, 2, 3)
    if rest and _speaks_of_it(name, rest):
        return match[0]
    quoted, low = held < _PLAIN_VALUE, name.lower()
    secret = _is_password(value, quoted) if low.startswith(_STRONG) else _is_random(value, 3.0 if quoted else 3.2)
    if not secret:
        return match[0]
    label = put("PASSWORD" if low.startswith(("pass", "pw")) else "SECRET", value)
    return match[0].replace(value, label, 1) if value not in head else head + label


def _speaks_of_it(name: str, rest: str) -> bool:
    """Whether the word of a name goes on so that it speaks of a secret and holds none, or is another word."""
    return bool(_ABOUT.search(rest) or (_ANOTHER_WORD.match(rest) and name.lower() in _SHORT))


def _stands_out(value: str) -> bool:
    """True of a value that is nothing else where it stands once more: no word, no number, no part of a label."""
    return (
        len(value) >= _LEAST_COPIED
        and _ASCII_DIGIT.search(value) is not None
        and _ASCII_LETTER.search(value) is not None
        and value not in "[REDACTED INTRA42_SECRET]"
    )


def _is_written_out(value: str) -> bool:
    """True of a value that stands for itself, and not for a variable or a placeholder."""
    low = value.lower()
    known = low.strip("<>\"'") in _WORDS or "[REDACTED" in value
    return not known and not _is_placeholder(value, low) and not _REFERENCE.match(value)


def _is_placeholder(value: str, low: str) -> bool:
    """Of a value, and the same in small letters."""
    if "<" in value or not value.isascii():
        return _PLACEHOLDER.search(value) is not None
    small = _PLACEHOLDER if "change" in low else _SMALL_PLACEHOLDER
    return small.search(low) is not None


def _is_password(value: str, quoted: bool) -> bool:
    """True of what may be a password: written out, and neither a word, a type nor a name in code."""
    if not _is_written_out(value) or len(set(value)) < 4:
        return False
    if quoted and len(value) >= 6:
        return not _CODE_NAME.match(value) or _is_random(value, 3.0)
    return len(value) >= 8 and " " not in value and bool(_DIGIT.search(value)) and bool(_ASCII_LETTER.search(value))


def _is_random(value: str, bits: float) -> bool:
    """True of a long value with letters and digits whose characters carry at least `bits` bits each."""
    plain = value.strip("\"'")
    return (
        len(plain) >= 16
        and _is_written_out(plain)
        and any(map(str.isdigit, plain))
        and any(map(str.isalpha, plain))
        and _entropy(plain) >= bits
    )


def _varied(key: str) -> bool:
    """False of a placeholder in a key's form: AKIAXXXXXXXXXXXXXXXX, ghp_xxxx, EXAMPLE."""
    return _entropy(key[-24:]) >= 2.2 and not _is_placeholder(key, key.lower())


def _entropy(text: str) -> float:
    """Bits a character (Shannon)."""
    size = len(text)
    each = Counter(text).values() if size > _SHORT_VALUE else map(text.count, dict.fromkeys(text))
    shares = [count / size for count in each]
    return -sum([share * math.log2(share) for share in shares])


def _build(params: Mapping[str, object]) -> RuleFunction:
    most = int(str(checked_params(_ID, params, {**_PARAMS, "finds": int}).get("finds", MOST_FINDS)))

    def mask(value: object) -> Found | None:
        text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        if not isinstance(text, str) or len(text) < 6:
            return None
        new, kinds = redacted_secrets(text, most=most)
        if not kinds:
            return None
        kept: object = new.encode("utf-8", "surrogateescape") if isinstance(value, bytes) else new
        return kept, ", ".join(dict.fromkeys(kinds))

    def secrets(event: SensorEvent) -> Decision | None:
        return mask_decision(event, mask, _ID, lambda text: bool(redacted_secrets(text, most=1)[1]))

    return secrets


DETECTORS: Final = {
    _ID: DetectorSpec(
        _ID,
        _build,
        _PARAMS,
        redacts=True,
        phases=PHASES,
        summary="masks API keys, tokens, passwords and private keys",
        template="masked {kinds}",
    )
}
