"""The examples in the references of scopes and flow run as they stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.engine import ambient
from interlock.engine.flow import FlowTracker
from interlock.engine.fragments import FIELD, LETTERS, WHOLE
from interlock.engine.scopes import MAX_SCOPE, ScopeRegistry

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.fixture(autouse=True)
def _nothing_installed() -> Iterator[None]:
    yield
    ambient.install(None)


@pytest.mark.parametrize("page", ["scopes", "flow"])
def test_the_examples_of_a_page_run_and_print_what_they_say(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (REFERENCE / f"{page}.md").read_text(), re.DOTALL)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    said = [line.split("#", 1)[1].strip() for block in blocks for line in block.splitlines() if "print(" in line]
    assert blocks
    assert capsys.readouterr().out.splitlines() == said


def test_the_limits_of_the_pages_are_those_of_the_code() -> None:
    flow, scopes = (" ".join((REFERENCE / f"{page}.md").read_text().split()) for page in ("flow", "scopes"))
    tracker = FlowTracker()
    for name in ("max_fragments", "max_bytes", "max_spans", "max_text"):
        assert f"`{name}={getattr(tracker, name):_}`" in flow
    assert f"any {WHOLE} characters in a row" in flow
    assert f"less than {FIELD} characters; letters alone where they are fewer than {LETTERS}" in flow
    assert f"max_delegation_depth={ScopeRegistry().max_delegation_depth}" in scopes
    assert f"or more than {MAX_SCOPE}" in scopes
