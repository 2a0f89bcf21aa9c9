"""Every example in docs/reference/policy-language.md is read and does what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.policy import argpath, counting, matching, rule_document, settings, source
from interlock.engine.policy.builtins import resolver
from interlock.engine.policy.check import check_rules
from interlock.engine.policy.conditions import KINDS, RESERVED, compile_condition
from interlock.engine.policy.conditions_call import EFFECT_FIELDS, EFFECT_KINDS, HOST_CLASSES, PATH_FIELDS, SCOPES
from interlock.engine.policy.document import DOCUMENT_FIELDS, MAX_EXTENDS
from interlock.engine.policy.limits import Limits
from interlock.engine.policy.load import MAX_CHAIN, MAX_TOGETHER, load_policy
from interlock.engine.policy.model import Source
from interlock.engine.policy.normalise import UNICODE
from interlock.engine.policy.rule_document import RULE_FIELDS, rule_docs

PAGE = (Path(__file__).parents[2] / "docs/reference/policy-language.md").read_text("utf-8")
BLOCKS: list[Any] = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, flags=re.S)]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(block.get("name") or block.get("id") or "condition"))
def test_an_example_is_read(block: dict[str, Any]) -> None:
    if "format" in block:
        load_policy(json.dumps(block).encode(), where="x.json", source=Source("file"), resolve=resolver(None))
    elif "id" in block:
        (rule,) = rule_docs([block], "x")
        assert [row for row in check_rules([rule]).failures if row.index >= 0] == []
    else:
        compile_condition(block, "call", "when")


def test_the_page_names_every_field_kind_operator_and_word() -> None:
    words = [*DOCUMENT_FIELDS, *RULE_FIELDS, *matching.OPERATORS, *matching.BESIDE, *RESERVED]
    words += [*EFFECT_FIELDS, *EFFECT_KINDS, *SCOPES, *HOST_CLASSES, *PATH_FIELDS, *counting.PER, *settings.LIMIT_NAMES]
    missing = [word for word in words if f"`{word}`" not in PAGE and f'"{word}"' not in PAGE]
    assert not missing
    assert [kind for kind in KINDS if f'{{"{kind}": ' not in PAGE] == []


def test_the_page_states_the_limits_that_there_are() -> None:
    plain = Limits()
    for number in (plain.command, plain.argument, plain.result, plain.values):
        assert f"{number:,}" in PAGE
    assert f"Unicode {UNICODE}" in PAGE
    assert f"the {counting.MAX_KEYS} counts" in PAGE
    assert (source.MAX_BYTES, source.MAX_YAML_BYTES, source.MAX_NESTING) == (8 << 20, 256 << 10, 32)
    rules = f"{rule_document.MAX_RULES:,}, and {MAX_TOGETHER:,} with those extended"
    extends = f"{MAX_EXTENDS} policies in one `extends`, {MAX_CHAIN} in a row; {settings.MAX_OVERLAYS} overlays"
    assert f"{rules}; {extends}" in PAGE
    assert f"{rule_document.MAX_EXAMPLES} examples of each kind; {matching.MAX_CHOICES:,} values" in PAGE
    assert f"{argpath.MAX_STEPS} steps in a path" in PAGE
