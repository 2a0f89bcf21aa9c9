"""From a policy file's bytes to plain JSON values: strict JSON, or the part of YAML that says no more than JSON does.

Of YAML there are mappings, sequences and scalars. Anchors, aliases, tags and merge keys are refused, and so are
duplicate keys and keys that are not texts; only `true` and `false` are booleans (YAML 1.2), `no` and `on` are texts,
and a date is a text. YAML needs PyYAML; nothing else of interlock does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, Final

from interlock.base.canonical import NotCanonical
from interlock.base.portions import parse_long_json
from interlock.engine.policy.problems import BadPolicy, shown

__all__ = ["MAX_BYTES", "MAX_NESTING", "MAX_YAML_BYTES", "demand_plain", "plain_values"]

MAX_BYTES: Final = 8 << 20  # a policy file
MAX_YAML_BYTES: Final = 1 << 18  # a policy file in YAML, whose parser is slow
MAX_NESTING: Final = 32  # objects and lists within each other
_MAX_DIGITS: Final = 1000  # of an integer
_ORDINARY_INT: Final = 1 << 64
_BOM: Final = b"\xef\xbb\xbf"


def plain_values(data: bytes, *, where: str) -> object:
    """The value that a file holds; YAML where `where` ends in .yaml or .yml, else JSON.

    Raises: BadPolicy.
    """
    if len(data) > MAX_BYTES:
        raise BadPolicy(f"is larger than {MAX_BYTES} bytes", where=where, fix="split it with 'extends'")
    if data.startswith(_BOM):
        raise BadPolicy("begins with a byte order mark", where=where, fix="save it as UTF-8 without one")
    if where.endswith((".yaml", ".yml")):
        value = _from_yaml(data, where)
    else:
        value = _from_json(data, where)
    demand_plain(value, where)
    return value


def _from_json(data: bytes, where: str) -> object:
    try:
        return parse_long_json(data, where)
    except NotCanonical as e:
        fix = "save it as UTF-8" if "UTF-8" in e.what else "correct it there; a YAML policy is named .yaml"
        raise BadPolicy(e.what, where=where, fix=fix) from None


def _from_yaml(data: bytes, where: str) -> object:
    try:
        import yaml  # here: it is optional, and most policies are JSON
    except ImportError:
        raise BadPolicy(
            "is YAML, and PyYAML is not installed", where=where, fix="pip install 'interlock[yaml]', or write JSON"
        ) from None
    if len(data) > MAX_YAML_BYTES:
        raise BadPolicy(f"is larger than {MAX_YAML_BYTES} bytes of YAML", where=where, fix="write it as JSON")
    try:
        return yaml.load(data.decode("utf-8"), _loader())  # noqa: S506 - a SafeLoader, made stricter
    except UnicodeDecodeError as e:
        raise BadPolicy(f"is not UTF-8 (byte {e.start})", where=where, fix="save it as UTF-8") from None
    except yaml.MarkedYAMLError as e:
        place = f"line {e.problem_mark.line + 1}, column {e.problem_mark.column + 1}: " if e.problem_mark else ""
        raise BadPolicy(f"is not a YAML policy ({place}{e.problem})", where=where, fix="correct it there") from None
    except yaml.YAMLError as e:
        raise BadPolicy(f"is not YAML ({e})", where=where) from None
    except RecursionError:
        raise BadPolicy(f"is nested deeper than {MAX_NESTING} levels", where=where) from None
    except ValueError as e:
        raise BadPolicy(f"is not a YAML policy ({e})", where=where) from None


def _loader() -> Any:
    """A SafeLoader that refuses what JSON has not; a class made here, since its base exists only where PyYAML does."""
    import yaml

    bad = yaml.constructor.ConstructorError

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own name and shape
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise bad(None, None, "anchors and aliases are not read; write the value out", event.start_mark)
            if getattr(event, "tag", None):
                raise bad(None, None, "tags are not read", event.start_mark)
            self.depth += 1
            if self.depth > MAX_NESTING:
                raise bad(None, None, f"nested deeper than {MAX_NESTING} levels", event.start_mark)
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key_node, _ in node.value:
                if key_node.tag != "tag:yaml.org,2002:str":
                    raise bad(None, None, "a key is not a text; quote it", key_node.start_mark)
                if key_node.value in seen:
                    raise bad(None, None, f"key {shown(key_node.value)} stands twice", key_node.start_mark)
                seen.add(key_node.value)
            return yaml.constructor.BaseConstructor.construct_mapping(self, node, deep=deep)

    for tag, pattern, first in (
        ("null", r"(?:null|~|)$", ["n", "~", ""]),
        ("bool", r"(?:true|false)$", ["t", "f"]),
        ("int", r"-?(?:0|[1-9][0-9]*)$", list("-0123456789")),
        ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$", list("-0123456789")),
    ):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), first)
    return Loader


def demand_plain(value: object, where: str) -> None:
    """Raises: BadPolicy, for what is too deep, not finite, not a JSON value or not text that can be written."""
    if _is_plain(value, MAX_NESTING):
        return
    level = [value]  # level by level, for what is wrong nearest to the top
    for _ in range(MAX_NESTING + 1):
        below: list[object] = []
        for held in level:
            if isinstance(held, dict):
                below += held.values()
                below += held.keys()
            elif isinstance(held, list):
                below += held
            else:
                _demand_scalar(held, where)
        if not below:
            return
        level = below
    raise BadPolicy(f"is nested deeper than {MAX_NESTING} levels", where=where)


def _is_plain(value: object, below: int) -> bool:
    """Whether nothing is wrong with a value that may nest `below` levels; quick, and may say no of what is right."""
    if isinstance(value, str):
        return value.isascii() or _is_text(value)
    if isinstance(value, dict):
        return _are_plain(value, below) and _are_plain(value.values(), below)
    if isinstance(value, list):
        return _are_plain(value, below)
    if isinstance(value, int):
        return -_ORDINARY_INT < value < _ORDINARY_INT
    return value is None or (isinstance(value, float) and math.isfinite(value))


def _are_plain(values: Iterable[object], below: int) -> bool:
    for held in values:
        if below == 0:
            return False
        if not (isinstance(held, str) and held.isascii()) and not _is_plain(held, below - 1):
            return False
    return True


def _is_text(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _demand_scalar(value: object, where: str) -> None:
    if isinstance(value, str):
        if not _is_text(value):
            raise BadPolicy("holds half of a surrogate pair, which is no character", where=where)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise BadPolicy("holds a number too large for a double", where=where)
    elif isinstance(value, int):
        if abs(value) >= 10**_MAX_DIGITS:
            raise BadPolicy(f"holds a number of more than {_MAX_DIGITS} digits", where=where)
    elif value is not None:
        raise BadPolicy(f"holds a value of type {type(value).__name__}", where=where, fix="quote it to make it a text")
