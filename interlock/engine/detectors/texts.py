"""Detectors of what a text hides from its reader, or says to a model instead of a person.

    hidden_text        characters that nobody sees and that carry text or reorder it
    terminal_escapes   control sequences that a terminal would obey, beyond colours
    chat_markup        the marks that separate roles in a model's prompt
    injection_wording  phrases that speak to a model over its user's head

The last is lexical: it finds attacks that shout and no others, so it is a reason to ask and no protection by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from interlock.engine.decision import Decision
from interlock.engine.detectors.spec import DetectorSpec, checked_params
from interlock.engine.detectors.walk import texts, together, visible
from interlock.engine.event import PHASES, SensorEvent
from interlock.engine.policy.model import RuleFunction

__all__ = ["DETECTORS"]

# Joiners, soft hyphens and direction marks stand in ordinary text of many languages and are left out.
_HIDDEN: Final = re.compile(
    "[\u180e\u200b\u202a-\u202e\u2060-\u2064\u2066-\u2069\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
    "|(?<=.)\ufeff|[\ufe00-\ufe0e]{4}",
    re.DOTALL,
)
_FLAG: Final = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f")  # a region's flag
_ESCAPE: Final = re.compile("\x1b[\\[\\]P_^X]|[\x9b\x9d\x90]")
_COLOUR: Final = re.compile("\x1b\\[[0-9;:]{0,32}m")
_MARKS: Final = (
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|start_header_id|>",
    "<|eot_id|>", "[inst]", "[/inst]", "<<sys>>", "<</sys>>", "<start_of_turn>", "<end_of_turn>", "\n\nhuman:",
    "\n\nassistant:", "<function_calls>", "<tool_call>", "<|channel|>",
)  # fmt: skip
_PHRASES: Final = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass)\s{1,9}(?:(?:all|any|of|the|your|my|these|those)\s{1,9}){0,4}"
    r"(?:previous|prior|above|earlier|preceding|foregoing|existing|system)\s{1,9}(?:\w{1,20}\s{1,9}){0,2}"
    r"(?:instruction|prompt|rule|direction|message|guideline|context|constraint)"
    r"|\b(?:do\s{1,9}not|don't|never)\s{1,9}(?:tell|inform|notify|alert|mention\s{1,9}(?:this|it)\s{1,9}to)"
    r"\s{1,9}the\s{1,9}user\b"
    r"|\bwithout\s{1,9}(?:telling|informing|notifying|alerting|asking)\s{1,9}the\s{1,9}user\b"
    r"|\b(?:reveal|print|show|repeat|output|leak)\s{1,9}(?:me\s{1,9})?(?:your|the)\s{1,9}(?:full\s{1,9}|entire\s{1,9})?"
    r"(?:system|initial|hidden)\s{1,9}(?:prompt|instruction)"
    r"|\byou\s{1,9}are\s{1,9}now\s{1,9}(?:in\s{1,9})?(?:\w{1,20}\s{1,9}){0,2}(?:mode\b|dan\b|jailbroken|unrestricted)"
    r"|<\s{0,9}(?:important|system|instructions?)\s{0,9}>\s{0,9}(?:this\s{1,9}is|important|before|you|please|when)\b"
    r"|\bimportant\s{1,9}message\s{1,9}from\s{1,9}me\b",
    re.IGNORECASE | re.ASCII,
)
# of these one stands in each phrase, and no phrase is longer than _NEAR
_KEYS: Final = (
    "previous", "prior", "above", "earlier", "preceding", "foregoing", "existing", "system", "user", "prompt",
    "instruction", "important", "now",
)  # fmt: skip
_NEAR: Final = 256
_LIMIT: Final = 1 << 20  # characters of one text that are looked at


def _detector(name: str, finds: Callable[[str], bool], reason: str) -> Callable[[Mapping[str, object]], RuleFunction]:
    """A detector without parameters that fires at the first text in which `finds` finds something."""

    def build(params: Mapping[str, object]) -> RuleFunction:
        checked_params(name, params, {})

        def rule(event: SensorEvent) -> Decision | None:
            many = together(event.args.values())
            if many is not None and not finds(many):
                return None
            for path, _, text in texts(event.args):
                if finds(text[:_LIMIT]):
                    return Decision.block(reason, name, path)
            return None

        return rule

    return build


def _hides(text: str) -> bool:
    return not text.isascii() and _HIDDEN.search(_FLAG.sub("", text)) is not None


def _escapes(text: str) -> bool:
    if text.isascii() and "\x1b" not in text:
        return False
    return _ESCAPE.search(_COLOUR.sub("", text)) is not None


def _marks(text: str) -> bool:
    low = visible(text).lower()
    return any(mark in low for mark in _MARKS)


def _speaks_to_a_model(text: str) -> bool:
    seen = visible(text)
    low = seen.lower()
    keys = [key for key in _KEYS if key in low]
    if not keys or not seen.isascii():  # a small letter of another alphabet may be two characters
        return bool(keys) and _PHRASES.search(seen) is not None
    return any(_PHRASES.search(low[start:end]) for start, end in _near(low, keys))


def _near(low: str, keys: list[str]) -> Iterator[tuple[int, int]]:
    """The parts of a text that are near one of the keys; none of them overlap."""
    start, end = 0, -1
    for found in re.finditer("|".join(keys), low):
        if found.start() - _NEAR > end:
            if end >= 0:
                yield start, end
            start = max(found.start() - _NEAR, 0)
        end = found.end() + _NEAR
    if end >= 0:
        yield start, end


def _spec(name: str, finds: Callable[[str], bool], reason: str, summary: str) -> DetectorSpec:
    return DetectorSpec(
        name, _detector(name, finds, reason), {}, redacts=False, phases=PHASES, summary=summary, template=reason
    )


DETECTORS: Final = {
    spec.name: spec
    for spec in (
        _spec(
            "chat_markup",
            _marks,
            "the text holds marks that separate roles in a model's prompt",
            "fires on the marks that separate roles in a model's prompt",
        ),
        _spec(
            "hidden_text",
            _hides,
            "the text holds characters that nobody sees",
            "fires on characters that nobody sees: zero-width, tags, direction overrides",
        ),
        _spec(
            "injection_wording",
            _speaks_to_a_model,
            "the text speaks to a model over its user's head",
            "fires on phrases that speak to a model over its user's head (lexical: a reason to ask)",
        ),
        _spec(
            "terminal_escapes",
            _escapes,
            "the text holds control sequences that a terminal would obey",
            "fires on terminal control sequences other than colours",
        ),
    )
}
