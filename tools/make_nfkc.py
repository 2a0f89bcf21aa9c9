"""Writes interlock/engine/policy/nfkc.txt from this Python's unicodedata: only to move to another Unicode version.

python3 tools/make_nfkc.py > interlock/engine/policy/nfkc.txt
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Iterator

PINNED = "14.0.0"
HANGUL = range(0xAC00, 0xD7A4)  # composed by arithmetic in both engines
# Default_Ignorable_Code_Point (DerivedCoreProperties.txt): what shows nothing, among it all bidi controls
STRIPPED = (
    "ad 34f 61c 115f-1160 17b4-17b5 180b-180f 200b-200f 202a-202e 2060-206f 3164 fe00-fe0f feff ffa0 fff0-fff8 "
    "1bca0-1bca3 1d173-1d17a e0000-e0fff"
)


def characters() -> Iterator[int]:
    """Every code point that is a character of its own: no surrogate, no Hangul syllable."""
    return (cp for cp in range(sys.maxunicode + 1) if not 0xD800 <= cp <= 0xDFFF and cp not in HANGUL)


def classes() -> Iterator[str]:
    """C lines: runs of one combining class."""
    for first, last, ccc in runs((cp, c) for cp in characters() if (c := unicodedata.combining(chr(cp)))):
        yield f"C {span(first, last)} {ccc}"


def runs(rows: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    start = last = held = -1
    for cp, value in rows:
        if cp == last + 1 and value == held and start >= 0:
            last = cp
            continue
        if start >= 0:
            yield start, last, held
        start, last, held = cp, cp, value
    if start >= 0:
        yield start, last, held


def decompositions() -> Iterator[str]:
    """D lines: full compatibility decompositions; a run whose single targets run along is one R line."""
    singles: list[tuple[int, int]] = []
    for cp in characters():
        full = unicodedata.normalize("NFKD", chr(cp))
        if full == chr(cp):
            continue
        if len(full) == 1:
            singles.append((cp, ord(full) - cp))
        else:
            yield f"D {cp:x} {' '.join(f'{ord(c):x}' for c in full)}"
    for first, last, shift in runs(singles):
        yield f"R {span(first, last)} {first + shift:x}"


def compositions() -> Iterator[str]:
    """P lines: pairs that compose, by canonical decomposition without the excluded ones."""
    for cp in characters():
        parts = unicodedata.decomposition(chr(cp))
        if not parts or parts.startswith("<") or " " not in parts:
            continue
        first, second = (int(part, 16) for part in parts.split())
        if unicodedata.normalize("NFC", chr(first) + chr(second)) == chr(cp):
            yield f"P {first:x} {second:x} {cp:x}"


def span(first: int, last: int) -> str:
    return f"{first:x}" if first == last else f"{first:x}-{last:x}"


def main() -> int:
    if unicodedata.unidata_version != PINNED:
        print(f"this Python has Unicode {unicodedata.unidata_version}, the table is of {PINNED}", file=sys.stderr)
        return 1
    print(f"interlock-nfkc 1 unicode {PINNED}")
    for lines in ((f"S {part}" for part in STRIPPED.split()), classes(), decompositions(), compositions()):
        print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
