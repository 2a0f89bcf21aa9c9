"""Pure modules read no file, socket, clock, randomness or environment: what they need is an argument."""

from __future__ import annotations

import ast

import pytest

from tests.arch.source import Module, modules

IMPURE = {
    "asyncio",
    "httpx",
    "os",
    "pathlib",
    "random",
    "secrets",
    "shutil",
    "socket",
    "sqlite3",
    "subprocess",
    "tempfile",
    "time",
    "urllib.request",
}
PURE = [
    "interlock.base.canonical",
    "interlock.base.codec",
    "interlock.base.errors",
    "interlock.base.keys",
    "interlock.base.organisations",
    "interlock.base.portions",
    "interlock.base.primitives",
    "interlock.base.text",
    "interlock.base.turboshake",
    "interlock.commons.bins",
    "interlock.commons.ceremony",
    "interlock.commons.channel",
    "interlock.commons.compose",
    "interlock.commons.consensus",
    "interlock.commons.differ",
    "interlock.commons.enrolment",
    "interlock.commons.gate",
    "interlock.commons.grants",
    "interlock.commons.holders",
    "interlock.commons.indicators",
    "interlock.commons.journal",
    "interlock.commons.layout",
    "interlock.commons.memberfiles",
    "interlock.commons.membership",
    "interlock.commons.operators",
    "interlock.commons.pack",
    "interlock.commons.promotion",
    "interlock.commons.records",
    "interlock.commons.resolve",
    "interlock.commons.reviewers",
    "interlock.commons.revocation",
    "interlock.commons.rings",
    "interlock.commons.served",
    "interlock.commons.statements",
    "interlock.commons.succession",
    "interlock.commons.tally",
    "interlock.commons.transcript",
    "interlock.commons.trial",
    "interlock.commons.warnings",
    "interlock.commons.windows",
    "interlock.commons.withdrawn",
    "interlock.dap.*",
    "interlock.engine.analysis.*",
    "interlock.engine.approvals",
    "interlock.engine.decision",
    "interlock.engine.detectors.*",
    "interlock.engine.evaluate",
    "interlock.engine.event",
    "interlock.engine.fragments",
    "interlock.engine.origins",
    "interlock.engine.payload",
    "interlock.engine.policy.argpath",
    "interlock.engine.policy.check",
    "interlock.engine.policy.conditions",
    "interlock.engine.policy.document",
    "interlock.engine.policy.glob",
    "interlock.engine.policy.load",
    "interlock.engine.policy.matching",
    "interlock.engine.policy.model",
    "interlock.engine.policy.problems",
    "interlock.engine.policy.regex",
    "interlock.engine.policy.regex_automaton",
    "interlock.engine.policy.regex_syntax",
    "interlock.engine.policy.removal",
    "interlock.engine.policy.source",
    "interlock.engine.posture",
    "interlock.engine.receipt_seals",
    "interlock.engine.receipts",
    "interlock.engine.record",
    "interlock.engine.rules",
    "interlock.engine.scopes",
    "interlock.engine.settle",
    "interlock.engine.sources",
    "interlock.interceptors.hooks.claude_code",
    "interlock.interceptors.hooks.jsontext",
    "interlock.interceptors.hooks.settings",
    "interlock.transparency.catchup",
    "interlock.transparency.checkpoint",
    "interlock.transparency.entry",
    "interlock.transparency.growth",
    "interlock.transparency.merkle",
    "interlock.transparency.note",
    "interlock.transparency.policy",
    "interlock.transparency.proof",
    "interlock.transparency.submit",
    "interlock.transparency.text",
    "interlock.transparency.tiles",
]


def _matching(pattern: str) -> list[Module]:
    prefix = pattern.removesuffix("*")
    exact = [m for m in modules() if m.name == pattern]
    return exact or [m for m in modules() if pattern.endswith("*") and m.name.startswith(prefix)]


@pytest.mark.parametrize("pattern", PURE)
def test_a_pure_module_imports_nothing_that_reads_the_world(pattern: str) -> None:
    found = _matching(pattern)
    assert found, f"{pattern} is listed as pure and is not there"
    wrong = [f"{m.name}:{i.line} imports {i.target}" for m in found for i in m.imports if i.target in IMPURE]
    assert not wrong, wrong


@pytest.mark.parametrize("pattern", PURE)
def test_a_pure_module_opens_no_file(pattern: str) -> None:
    opened = [
        f"{m.name}:{node.lineno}"
        for m in _matching(pattern)
        for node in ast.walk(m.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("open", "input", "print")
    ]
    assert not opened, opened
