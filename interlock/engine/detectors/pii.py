"""pii_redaction: payment card numbers, US social security numbers, IBANs and, on demand, e-mail addresses.

Each number is checked before it is masked: a card has a brand's prefix and length and passes the Luhn check
(ISO/IEC 7812-1), an IBAN its country's length and the mod-97 check (ISO 13616), an SSN a range that is given out.
Numbers may be written with spaces or hyphens. Time is linear in the text.
"""

from __future__ import annotations

import functools
import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

from interlock.engine.decision import Decision
from interlock.engine.detectors.spec import DetectorSpec, checked_params
from interlock.engine.detectors.walk import MOST_FINDS, Found, TooManyFinds, mask_decision, visible, withheld
from interlock.engine.event import PHASES, SensorEvent
from interlock.engine.policy.model import RuleFunction

__all__ = ["DETECTORS", "redacted_pii"]

_PARAMS: Final[dict[str, type | tuple[type, ...]]] = {"emails": bool}
# Each pattern begins with what it reads and looks back after that: so `re` finds quickly where one may begin.
# digits in groups of four and more (the last may be shorter), so that tables of small numbers are no cards
_SPLITS: Final = r" \u00a0\u2009\u202f\u2010-\u2015-"  # what stands between two groups
_DIGITS: Final = re.compile(
    rf"\d(?<!\d\d)(?=[\d{_SPLITS}]{{12}})\d{{3,18}}(?!\d)(?:[{_SPLITS}]{{1,2}}\d{{1,19}}(?!\d)){{0,400}}"
)
_DIGIT: Final = re.compile(r"\d\d")
_GROUP: Final = re.compile(r"\d+")
# from the first sign on, since digits are many; what stands before it is looked at last
_SSN: Final = re.compile(
    r"([- ])(?!00)\d\d\1(?!0000)\d{4}(?![\w-])(?<=[0-8]\d\d.{8})(?<![\w-]\d{3}.{8})(?<!000.{8})(?<!666.{8})", re.ASCII
)
_SSN_AREA: Final = 3  # digits before that sign
_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])")
_TWICE: Final = [sum(divmod(2 * d, 10)) for d in range(10)]  # twice a digit, its digits added up
_VALUES: Final = bytes(byte - 48 if byte in b"0123456789" else 0 for byte in range(256))
_TWICE_VALUES: Final = bytes(_TWICE[value] for value in _VALUES)
_MAY_BEGIN: Final = bytes(byte in b"23456" for byte in range(256))  # first digits of a card
_IS_TENS: Final = bytes(byte % 10 == 0 for byte in range(256))
_SHORTEST: Final = 13  # digits of a card
_LONGEST: Final = 19
_LEAST: Final = 4  # digits of each group but a card's last
_FEW: Final = 256  # digits that are looked at one group after another
_ZEROS: Final = 24  # that stand between two runs: no group and no card is as long
_BETWEEN: Final = " " + "0" * _ZEROS + " "
_IBAN_LENGTHS: Final = {
    country: size
    for size, countries in {
        15: "NO",
        16: "BE",
        18: "DK FI FO GL NL",
        19: "MK SI",
        20: "AT BA EE KZ LT LU XK",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HU LB PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU",
        31: "MT SC",
        32: "LC",
    }.items()
    for country in countries.split()
}
_MAY_BE_IBAN: Final = re.compile("[A-Za-z]{2}[0-9]{2}")
# A text as IBANs are looked for in it: letters (in capitals) and digits, blanks (and hyphens) between words, line feeds
_AS_SIGNS: Final = bytes(
    ord(chr(c).upper()) if chr(c).isalnum() and c < 128 else ord(" ") if chr(c) in " -" else ord("\n")
    for c in range(256)
)
_ROWS: Final = re.compile(b"[A-Z0-9 ]{15,}+")  # no IBAN is shorter
_GAP: Final = b" " + b"\n" * 40 + b" "  # between two rows: no IBAN is as long
_AS_WORDS: Final = bytes(ord(" ") if c == ord(" ") else ord("a") for c in range(256))
_COUNTRIES: Final = {country.encode(): size for country, size in _IBAN_LENGTHS.items()}
_LETTERS: Final = tuple((bytes([code]), str(code - 55).encode()) for code in range(65, 91))  # A is 10
_ENDS: Final = ord("b")
_IS_ENDS: Final = bytes(c == _ENDS for c in range(256))
_SIZE_BITS: Final = 6
_SIZES: Final = (1 << _SIZE_BITS) - 1
_HEAD: Final = 4  # signs of an IBAN that are counted last
_TURN: Final = 1 << 11  # of what may be an IBAN or a card, so many in one turn
_Part = TypeVar("_Part", str, bytes)
_ROUNDS: Final = 8  # readings of a text: each but the last finds what a label of the one before laid open


class _Plain(dict[int, str]):
    """What stands for each sign of a run of digits: a digit for those of any alphabet, a blank between groups."""

    def __missing__(self, code: int) -> str:
        sign = chr(code)
        self[code] = str(int(sign)) if sign.isdecimal() else " "
        return self[code]


_PLAIN: Final = _Plain()


def redacted_pii(text: str, *, emails: bool = False, most: int = MOST_FINDS) -> tuple[str, list[str]]:
    """The text with every number found replaced by its label, and the kinds found; withheld whole after `most`."""
    kinds: list[str] = []
    given, text = text, visible(text)

    def put(kind: str) -> str:
        kinds.append(kind)
        if len(kinds) > most:
            raise TooManyFinds
        return f"[REDACTED {kind}]"

    for _ in range(_ROUNDS):
        before = len(kinds)
        try:
            text = _redacted(text, put, emails=emails)
        except TooManyFinds:
            return withheld(kinds, most)
        if len(kinds) == before:
            break
    return (text if kinds else given), kinds


def _redacted(text: str, put: Callable[[str], str], *, emails: bool) -> str:
    if _DIGIT.search(text):
        text = _ibans(text, put) if _MAY_BE_IBAN.search(text) else text
        text = _cards(text, put)
        text = _ssns(text, put)
    if emails and "@" in text:
        text = _EMAIL.sub(lambda m: put("EMAIL"), text)
    return text


def _ibans(text: str, put: Callable[[str], str]) -> str:
    rows = list(_rows(text))
    finds = _found_ibans(list(dict.fromkeys(row for _, row in rows)))
    return _replaced(text, rows, finds, lambda: put("IBAN"))


def _rows(text: str) -> Iterator[tuple[int, bytes]]:
    """The parts of a text in which IBANs may stand, words of letters and digits with one sign between two of them.

    Each with where it begins.
    """
    signs = b"\n" + text.encode("ascii", "replace").translate(_AS_SIGNS) + b"\n"
    signs = signs.replace(b"  ", b"\n\n").replace(b" \n", b"\n\n").replace(b"\n ", b"\n\n")
    for row in _ROWS.finditer(signs):
        yield row.start() - 1, row.group()


def _found_ibans(rows: list[bytes]) -> Iterator[tuple[bytes, int, int]]:
    """The IBANs of some rows: the row, and where in it one begins and ends."""
    joined = _GAP.join(rows)
    words = joined.split(b" ")
    heads = {
        word: size
        for word in set(words)
        if (size := _COUNTRIES.get(word[:2])) and len(word) >= _HEAD and word[2:_HEAD].isdigit()
    }
    if not heads:
        return
    signs = joined.replace(b" ", b"")
    # of each sign whether a word ends with it
    ends = (joined + b" ").translate(_AS_WORDS).replace(b"a ", b"b") + bytes(max(_COUNTRIES.values()))
    at = list(itertools.accumulate(map(len, words), initial=0))
    sizes = list(map(heads.get, words, itertools.repeat(0)))
    # with its size in one number, since so many pairs would take longer to make than to look at
    may_be = [
        begin << _SIZE_BITS | size
        for begin, size in zip(itertools.compress(at, sizes), itertools.compress(sizes, sizes), strict=True)
        if ends[begin + size - 1] == _ENDS
    ]
    row_at = list(itertools.accumulate((len(row) + len(_GAP) for row in rows), initial=0)) if may_be else []
    for begin, end in _checked(may_be, signs):
        first, last = (sign + bisect_right(at, sign) - 1 for sign in (begin, end - 1))  # a blank before each word
        row = bisect_right(row_at, first) - 1
        yield rows[row], first - row_at[row], last + 1 - row_at[row]


def _replaced(
    text: str, parts: Iterable[tuple[int, _Part]], finds: Iterable[tuple[_Part, int, int]], put: Callable[[], str]
) -> str:
    """The text with what was found in its parts (each with where it begins) replaced, wherever such a part stands.

    A find is put when it is found, so that after too many of them nobody looks on.
    """
    held: dict[_Part, list[tuple[int, int, str]]] = {}
    for part, first, past in finds:
        held.setdefault(part, []).append((first, past, put()))
    out: list[str] = []
    copied = 0
    seen: set[_Part] = set()
    for begin, part in parts if held else ():
        for first, past, label in held.get(part, ()):
            out += [text[copied : begin + first], put() if part in seen else label]
            copied = begin + past
        seen.add(part)
    return "".join([*out, text[copied:]])


def _checked(may_be: list[int], signs: bytes) -> Iterator[tuple[int, int]]:
    """Those that pass the check; of two that overlap the first. In turns, for after many finds nobody reads on."""
    free = 0
    for turn in range(0, len(may_be), _TURN):
        spans = may_be[turn : turn + _TURN]
        numbers = [signs[(begin := code >> _SIZE_BITS) : begin + (code & _SIZES)] for code in spans]
        each = list(set(numbers))
        spelt = _spelt(b" ".join([number[_HEAD:] + number[:_HEAD] for number in each])).split(b" ")
        good = {number for number, value in zip(each, map(int, spelt), strict=True) if value % 97 == 1}
        for code, number in zip(spans, numbers, strict=True) if good else ():
            if (begin := code >> _SIZE_BITS) >= free and number in good:
                free = begin + len(number)
                yield begin, free


def _spelt(signs: bytes) -> bytes:
    """Letters as numbers from ten on."""
    for letter, number in _LETTERS:
        if letter in signs:
            signs = signs.replace(letter, number)
    return signs


def _ssns(text: str, put: Callable[[str], str]) -> str:
    out: list[str] = []
    copied = 0
    for match in _SSN.finditer(text):
        out += [text[copied : match.start() - _SSN_AREA], put("SSN")]
        copied = match.end()
    return "".join([*out, text[copied:]])


def _cards(text: str, put: Callable[[str], str]) -> str:
    """The text with the cards in it masked; a card begins and ends where a group of a run of digits does."""
    runs = _DIGITS.findall(text)
    if not runs:
        return text
    parts = ((run.start(), run.group()) for run in _DIGITS.finditer(text))
    return _replaced(text, parts, _found_cards(list(dict.fromkeys(runs))), lambda: put("CREDIT_CARD"))


def _found_cards(runs: list[str]) -> Iterator[tuple[str, int, int]]:
    """The cards of some runs: the run, and where in it one begins and ends."""
    joined = _spaced(_BETWEEN.join(runs)).encode()
    begun = (b" " + joined).translate(_AS_WORDS).replace(b" a", b"b").translate(_IS_ENDS)
    digits = joined.replace(b" ", b"")
    groups: list[tuple[int, int]] = []  # of the last run looked at: where in it each begins and ends
    starts: list[int] = []  # and where among the digits
    looked_at = past = 0  # the runs looked at, and where the next one begins among the digits
    free = 0
    may_be = _of_luhn(digits, begun, joined) if len(digits) > _FEW else _of_few(digits, begun)
    for begin, end in may_be:
        if begin < free or not _is_brand(digits, begin, end) or not _is_grouped(begun, begin, end):
            continue
        while past <= begin:
            groups = list(map(re.Match[str].span, _GROUP.finditer(runs[looked_at])))
            starts = list(itertools.accumulate((last - first for first, last in groups), initial=past))
            past = starts.pop() + _ZEROS
            looked_at += 1
        first, last = groups[bisect_right(starts, begin) - 1][0], groups[bisect_right(starts, end - 1) - 1][1]
        yield runs[looked_at - 1], first, last
        free = end


def _of_few(digits: bytes, begun: bytes) -> Iterator[tuple[int, int]]:
    """What `_of_luhn` finds and a brand gives out, one by one: of few digits that is sooner done."""
    begin = begun.find(1)
    while 0 <= begin <= len(digits) - _SHORTEST:
        for size in _sizes(digits[begin : begin + _LEAST]):
            end = begin + size
            if (end == len(digits) or begun[end : end + 1] == b"\1") and _luhn(digits[begin:end]):
                yield begin, end
        begin = begun.find(1, begin + 1)


def _spaced(runs: str) -> str:
    """Runs of digits with one blank between two groups."""
    runs = runs.replace("-", " ") if runs.isascii() else runs.translate(_PLAIN)
    return runs.replace("  ", " ")


def _of_luhn(digits: bytes, begun: bytes, joined: bytes) -> Iterator[tuple[int, int]]:
    """The parts of whole groups that pass the Luhn check and are as long as a card, of each begin the longest first.

    The sums of all parts of one length are added up at once, in the bytes of one number: none is larger than 171.
    """
    ended = (joined + b" ").translate(_AS_WORDS).replace(b"a ", b"b").translate(_IS_ENDS)
    plain, twice, branded = (
        int.from_bytes(digits.translate(table), "little") for table in (_VALUES, _TWICE_VALUES, _MAY_BEGIN)
    )
    begins, ends = int.from_bytes(begun, "little") & branded, int.from_bytes(ended, "little")
    found: list[int] = []
    summed = 0
    for size in range(1, _LONGEST + 1):  # of a card's digits the last stands as it is, the one before it is doubled
        summed = (summed >> 8) + (plain if size % 2 else twice)
        if size < _SHORTEST or not (whole := begins & (ends >> 8 * (size - 1))):
            continue
        tens = summed.to_bytes(len(digits) + 1, "little").translate(_IS_TENS)
        held = (whole & int.from_bytes(tens, "little")).to_bytes(len(digits) + 1, "little")
        first, past = held.find(1), held.rfind(1) + 1
        found += [(at << 5) - size for at in itertools.compress(range(first, past), held[max(first, 0) : past])]
    for code in sorted(found):
        begin = (code + 31) >> 5
        yield begin, begin + (-code & 31)


def _is_brand(digits: bytes, begin: int, end: int) -> bool:
    return end - begin in _sizes(digits[begin : begin + _LEAST])


def _is_grouped(begun: bytes, begin: int, end: int) -> bool:
    """Whether each group of a part but the last has so many digits that it is no table of small numbers."""
    while (after := begun.find(1, begin + 1, end)) >= 0:
        if after - begin < _LEAST:
            return False
        begin = after
    return True


def _is_card(digits: bytes) -> bool:
    return len(digits) in _sizes(digits[:_LEAST]) and _luhn(digits)


@functools.cache
def _sizes(four: bytes) -> tuple[int, ...]:
    """The lengths of a card that begins with these digits, the longest first."""
    return _lengths(four.decode())[::-1]


def _lengths(plain: str) -> tuple[int, ...]:
    """The lengths of the brand that a number's prefix belongs to."""
    two, three, four = int(plain[:2]), int(plain[:3]), int(plain[:4])
    if plain[0] == "4":
        return (13, 16, 19)  # Visa
    if 51 <= two <= 55 or 2221 <= four <= 2720:
        return (16,)  # Mastercard
    if two in (34, 37):
        return (15,)  # American Express
    if four == 6011 or 644 <= three <= 649 or two == 65:
        return (16, 19)  # Discover
    if 300 <= three <= 305 or two in (36, 38, 39):
        return (14, 16)  # Diners Club
    if 3528 <= four <= 3589:
        return (16, 19)  # JCB
    return (16, 17, 18, 19) if two == 62 else ()  # UnionPay


def _luhn(digits: bytes) -> bool:
    return (sum(digits[::-2].translate(_VALUES)) + sum(digits[-2::-2].translate(_TWICE_VALUES))) % 10 == 0


def _build(params: Mapping[str, object]) -> RuleFunction:
    given = checked_params("pii_redaction", params, {**_PARAMS, "finds": int})
    emails, most = bool(given.get("emails", False)), int(str(given.get("finds", MOST_FINDS)))

    def mask(value: object) -> Found | None:
        if isinstance(value, int) and not isinstance(value, bool):
            return ("[REDACTED CREDIT_CARD]", "CREDIT_CARD") if 0 < value < 10**19 and _is_card(b"%d" % value) else None
        text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        if not isinstance(text, str):
            return None
        new, kinds = redacted_pii(text, emails=emails, most=most)
        if not kinds:
            return None
        kept: object = new.encode("utf-8", "surrogateescape") if isinstance(value, bytes) else new
        return kept, ", ".join(dict.fromkeys(kinds))

    def holds(text: str) -> bool:
        return bool(redacted_pii(text, emails=emails, most=1)[1])

    def pii_redaction(event: SensorEvent) -> Decision | None:
        return mask_decision(event, mask, "pii_redaction", holds)

    return pii_redaction


DETECTORS: Final = {
    "pii_redaction": DetectorSpec(
        "pii_redaction",
        _build,
        _PARAMS,
        redacts=True,
        phases=PHASES,
        summary="masks payment card numbers, US social security numbers, IBANs and, with emails, e-mail addresses",
        template="masked {kinds}",
    )
}
