"""pii_redaction: payment card numbers, US social security numbers, IBANs and, on demand, e-mail addresses.

Each number is checked before it is masked: a card has a brand's prefix and length and passes the Luhn check
(ISO/IEC 7812-1), an IBAN its country's length and the mod-97 check (ISO 13616), an SSN a range that is given out.
Numbers may be written with spaces or hyphens. Time is linear in the text.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from interlock.engine.decision import Decision
from interlock.engine.detectors.spec import DetectorSpec, checked_params
from interlock.engine.detectors.walk import MOST_FINDS, Found, TooManyFinds, mask_decision, visible, withheld
from interlock.engine.event import PHASES, SensorEvent
from interlock.engine.policy.model import RuleFunction

__all__ = ["DETECTORS", "redacted_pii"]

_PARAMS: Final[dict[str, type | tuple[type, ...]]] = {"emails": bool}
# Each pattern begins with what it reads and looks back after that: so `re` finds quickly where one may begin.
# digits in groups of four and more (the last may be shorter), so that tables of small numbers are no cards
_DIGITS: Final = re.compile(
    r"\d(?<!\d\d)\d{3,18}(?!\d)(?:[ \u00a0\u2009\u202f\u2010-\u2015-]{1,2}\d{1,19}(?!\d)){0,400}"
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
_DOUBLED: Final = {str(d): twice for d, twice in enumerate(_TWICE)}
_VALUES: Final = bytes(max(byte - 48, 0) for byte in range(256))
_TWICE_VALUES: Final = bytes(_TWICE[byte] if byte < 10 else 0 for byte in range(256))
_NO_BRAND: Final = frozenset("01789")  # first digits of no card
_SHORTEST: Final = 13  # digits of a card
_LONGEST: Final = 19
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
_HEAD: Final = 4  # signs of an IBAN that are counted last
_TURN: Final = 1 << 11  # IBANs that may be, in one turn
_ROUNDS: Final = 8  # readings of a text: each but the last finds what a label of the one before laid open


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
        text = _DIGITS.sub(lambda m: _cards(m.group(), put), text)
        text = _ssns(text, put)
    if emails and "@" in text:
        text = _EMAIL.sub(lambda m: put("EMAIL"), text)
    return text


def _ibans(text: str, put: Callable[[str], str]) -> str:
    begins, rows = _rows(text)
    joined = _GAP.join(rows)
    words = joined.split(b" ")
    heads = {
        word: size
        for word in set(words)
        if (size := _COUNTRIES.get(word[:2])) and len(word) >= _HEAD and word[2:_HEAD].isdigit()
    }
    if not heads:
        return text
    signs = joined.replace(b" ", b"")
    # of each sign whether a word ends with it
    ends = (joined + b" ").translate(_AS_WORDS).replace(b"a ", b"b") + bytes(max(_COUNTRIES.values()))
    at = list(itertools.accumulate(map(len, words), initial=0))
    may_be = [
        (begin, begin + size)
        for begin, size in zip(at, map(heads.get, words), strict=False)
        if size and ends[begin + size - 1] == _ENDS
    ]
    row_at = list(itertools.accumulate((len(row) + len(_GAP) for row in rows), initial=0)) if may_be else []

    def place(sign: int) -> int:
        """Where in the text a sign stands."""
        in_joined = sign + bisect_right(at, sign) - 1  # with a blank before each word but the first
        row = bisect_right(row_at, in_joined) - 1
        return begins[row] + in_joined - row_at[row]

    out: list[str] = []
    copied = 0
    for begin, end in _checked(may_be, signs):
        out += [text[copied : place(begin)], put("IBAN")]
        copied = place(end - 1) + 1
    return "".join([*out, text[copied:]])


def _rows(text: str) -> tuple[list[int], list[bytes]]:
    """The parts of a text in which IBANs may stand, words of letters and digits with one sign between two of them.

    Each with where it begins.
    """
    signs = b"\n" + text.encode("ascii", "replace").translate(_AS_SIGNS) + b"\n"
    signs = signs.replace(b"  ", b"\n\n").replace(b" \n", b"\n\n").replace(b"\n ", b"\n\n")
    found = list(_ROWS.finditer(signs))
    return [row.start() - 1 for row in found], [row.group() for row in found]


def _checked(may_be: list[tuple[int, int]], signs: bytes) -> Iterator[tuple[int, int]]:
    """Those that pass the check; of two that overlap the first. In turns, for after many finds nobody reads on."""
    free = 0
    for turn in range(0, len(may_be), _TURN):
        spans = may_be[turn : turn + _TURN]
        each = list({signs[begin:end] for begin, end in spans})
        spelt = _spelt(b" ".join([number[_HEAD:] + number[:_HEAD] for number in each])).split(b" ")
        good = {number for number, value in zip(each, map(int, spelt), strict=True) if value % 97 == 1}
        for begin, end in spans if good else ():
            if begin >= free and signs[begin:end] in good:
                yield begin, end
                free = end


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


def _cards(run: str, put: Callable[[str], str]) -> str:
    """A run of digit groups with the cards in it masked; a card begins and ends where a group does."""
    parts = _GROUP.findall(run)
    digits = "".join(parts)
    if len(digits) < _SHORTEST:
        return run
    cards = _found(digits, list(map(len, parts)))
    if not cards:
        return run
    groups = [m.span() for m in _GROUP.finditer(run)]
    out: list[str] = []
    copied = 0
    for first, last in cards:
        out += [run[copied : groups[first][0]], put("CREDIT_CARD")]
        copied = groups[last][1]
    return "".join([*out, run[copied:]])


def _found(digits: str, sizes: list[int]) -> list[tuple[int, int]]:
    """The first and the last group of each card in a run; of those that begin with a group the longest."""
    ends = list(itertools.accumulate(sizes))
    begins = [0, *ends[:-1]]
    # only the last group of a card may be short
    short = [k for k, size in enumerate(sizes) if size < 4] if min(sizes) < 4 else []
    short.append(len(ends) - 1)
    sums = _luhn_sums(digits)
    cards: list[tuple[int, int]] = []
    past = reach = nearest = 0
    for first, begin in enumerate(begins):
        if digits[begin] in _NO_BRAND or first < past:
            continue
        longest = begin + _LONGEST
        while ends[reach] <= longest and reach < short[-1]:
            reach += 1
        while short[nearest] < first:
            nearest += 1
        last = reach if reach < short[nearest] else short[nearest]
        while last >= first and (end := ends[last]) - begin >= _SHORTEST:
            summed = sums[end % 2 == 0]  # of a card's digits the last stands as it is, the one before it is doubled
            if end <= longest and (summed[end] - summed[begin]) % 10 == 0 and _is_card(digits[begin:end]):
                cards.append((first, last))
                past = last + 1
                break
            last -= 1
    return cards


def _luhn_sums(digits: str) -> tuple[list[int], list[int]]:
    """For each count of leading digits their sum with every second one doubled: those at odd, at even places."""
    ascii_digits = digits if digits.isascii() else "".join([str(int(c)) for c in digits])
    plain = ascii_digits.encode().translate(_VALUES)
    twice = plain.translate(_TWICE_VALUES)
    odd, even = bytearray(plain), bytearray(twice)
    odd[1::2], even[1::2] = twice[1::2], plain[1::2]
    return list(itertools.accumulate(odd, initial=0)), list(itertools.accumulate(even, initial=0))


def _is_card(digits: str) -> bool:
    if len(digits) < _SHORTEST or not digits.isdecimal():
        return False
    plain = digits if digits.isascii() else "".join(str(int(c)) for c in digits)
    return len(plain) in _lengths(plain) and _luhn(plain)


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


def _luhn(plain: str) -> bool:
    return (sum(map(int, plain[-1::-2])) + sum(map(_DOUBLED.__getitem__, plain[-2::-2]))) % 10 == 0


def _build(params: Mapping[str, object]) -> RuleFunction:
    given = checked_params("pii_redaction", params, {**_PARAMS, "finds": int})
    emails, most = bool(given.get("emails", False)), int(str(given.get("finds", MOST_FINDS)))

    def mask(value: object) -> Found | None:
        if isinstance(value, int) and not isinstance(value, bool):
            return ("[REDACTED CREDIT_CARD]", "CREDIT_CARD") if 0 < value < 10**19 and _is_card(str(value)) else None
        text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        if not isinstance(text, str):
            return None
        new, kinds = redacted_pii(text, emails=emails, most=most)
        if not kinds:
            return None
        kept: object = new.encode("utf-8", "surrogateescape") if isinstance(value, bytes) else new
        return kept, ", ".join(dict.fromkeys(kinds))

    def pii_redaction(event: SensorEvent) -> Decision | None:
        return mask_decision(event, mask, "pii_redaction")

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
