"""pii_redaction: payment card numbers, US social security numbers, IBANs and, on demand, e-mail addresses.

Each number is checked before it is masked: a card has a brand's prefix and length and passes the Luhn check
(ISO/IEC 7812-1), an IBAN its country's length and the mod-97 check (ISO 13616), an SSN a range that is given out.
Numbers may be written with spaces or hyphens. Time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from interlock.engine.decision import Decision
from interlock.engine.detectors.spec import DetectorSpec, checked_params
from interlock.engine.detectors.walk import Found, mask_decision, visible
from interlock.engine.event import PHASES, SensorEvent
from interlock.engine.policy.model import RuleFunction

__all__ = ["DETECTORS", "redacted_pii"]

_PARAMS: Final[dict[str, type | tuple[type, ...]]] = {"emails": bool}
# digits in groups of four and more (the last may be shorter), so that tables of small numbers are no cards
_DIGITS: Final = re.compile(r"(?<!\d)\d{4,19}(?!\d)(?:[ \u00a0\u2009\u202f\u2010-\u2015-]{1,2}\d{1,19}(?!\d)){0,400}")
_DIGIT: Final = re.compile(r"\d\d")
_GROUP: Final = re.compile(r"\d+")
_SSN: Final = re.compile(r"(?<![\w-])(?!000|666|9\d\d)\d{3}([- ])(?!00)\d{2}\1(?!0000)\d{4}(?![\w-])", re.ASCII)
_IBAN: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]){11,30}(?![A-Za-z0-9])", re.ASCII)
_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])")
_DOUBLED: Final = {str(d): sum(divmod(2 * d, 10)) for d in range(10)}  # twice a digit, its digits added up
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


def redacted_pii(text: str, *, emails: bool = False) -> tuple[str, list[str]]:
    """The text with every number found replaced by its label, and the kinds found."""
    kinds: list[str] = []
    given, text = text, visible(text)

    def put(kind: str) -> str:
        kinds.append(kind)
        return f"[REDACTED {kind}]"

    if _DIGIT.search(text):
        text = _ibans(text, put)
        text = _DIGITS.sub(lambda m: _cards(m.group(), put), text)
        text = _SSN.sub(lambda m: put("SSN"), text)
    if emails and "@" in text:
        text = _EMAIL.sub(lambda m: put("EMAIL"), text)
    return (text if kinds else given), kinds


def _ibans(text: str, put: Callable[[str], str]) -> str:
    out: list[str] = []
    copied = at = 0
    while match := _IBAN.search(text, at):
        end = _iban_end(match.group())
        at = match.start() + (end or 4)
        if end:
            out += [text[copied : match.start()], put("IBAN")]
            copied = at
    return "".join([*out, text[copied:]])


def _iban_end(text: str) -> int | None:
    """Where the IBAN ends with which a text begins, if it begins with one."""
    size = _IBAN_LENGTHS.get(text[:2].upper(), 0)
    plain = ""
    for end, c in enumerate(text, 1):
        plain += c if c not in " -" else ""
        if len(plain) == size:
            return end if not text[end : end + 1].isalnum() and _mod97(plain.upper()) == 1 else None
    return None


def _mod97(iban: str) -> int:
    return int("".join(str(int(c, 36)) for c in iban[4:] + iban[:4])) % 97


def _cards(run: str, put: Callable[[str], str]) -> str:
    """A run of digit groups with the cards in it masked; a card begins and ends where a group does."""
    groups = [m.span() for m in _GROUP.finditer(run)]
    out: list[str] = []
    copied = first = 0
    while first < len(groups):
        last = _card_end(run, groups, first)
        if last is None:
            first += 1
            continue
        out += [run[copied : groups[first][0]], put("CREDIT_CARD")]
        copied = groups[last][1]
        first = last + 1
    return "".join([*out, run[copied:]])


def _card_end(run: str, groups: list[tuple[int, int]], first: int) -> int | None:
    """The group with which a card that begins at group `first` ends; the longest wins."""
    digits, found = "", None
    for last in range(first, min(first + 6, len(groups))):
        start, end = groups[last]
        digits += run[start:end]
        if len(digits) > 19:
            break
        if _is_card(digits):
            found = last
        if end - start < 4:  # only the last group of a card may be shorter
            break
    return found


def _is_card(digits: str) -> bool:
    if len(digits) < 13 or not digits.isdecimal():
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
    emails = bool(checked_params("pii_redaction", params, _PARAMS).get("emails", False))

    def mask(value: object) -> Found | None:
        if isinstance(value, int) and not isinstance(value, bool):
            return ("[REDACTED CREDIT_CARD]", "CREDIT_CARD") if 0 < value < 10**19 and _is_card(str(value)) else None
        text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        if not isinstance(text, str):
            return None
        new, kinds = redacted_pii(text, emails=emails)
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
