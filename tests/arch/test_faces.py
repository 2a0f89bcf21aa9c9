"""Each module's `__all__` is sorted and names just what is public; package folders hold no code of their own."""

from __future__ import annotations

import ast
import re

import pytest

from tests.arch.source import Module, modules


def _declared(module: Module) -> list[str] | None:
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            value = ast.literal_eval(node.value)
            assert isinstance(value, list)
            return value
    return None


def _defined(module: Module) -> set[str]:
    names: set[str] = set()
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
    return {n for n in names if not n.startswith("_")}


def _order(name: str) -> tuple[int, list[tuple[int, int, str]]]:
    """Constants, then classes, then the rest: the order that ruff keeps (RUF022)."""
    rank = 0 if name.isupper() else 1 if name[:1].isupper() else 2
    return rank, [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.split(r"(\d+)", name)]


CODE = [m for m in modules() if len(m.tree.body) > 1]


@pytest.mark.parametrize("module", CODE, ids=lambda m: m.name)
def test_all_is_sorted_and_complete(module: Module) -> None:
    declared = _declared(module)
    assert declared is not None, f"{module.name} has no __all__"
    assert declared == sorted(declared, key=_order), f"{module.name}: __all__ is not sorted"
    missing = _defined(module) - set(declared)
    assert not missing, f"{module.name}: public and not in __all__: {sorted(missing)}"


def test_package_folders_hold_a_docstring_only() -> None:
    wrong = [
        m.name
        for m in modules()
        if m.path.name == "__init__.py"
        and m.room != "roof"
        and not all(isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant) for n in m.tree.body)
    ]
    assert not wrong, wrong


def test_every_module_says_what_it_is_for() -> None:
    silent = [m.name for m in modules() if m.tree.body and not ast.get_docstring(m.tree)]
    assert not silent, silent
