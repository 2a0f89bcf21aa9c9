"""Files and functions stay small enough to be read in one go."""

from __future__ import annotations

import ast
import statistics

from tests.arch.source import modules

FILE_LINES = 450
FUNCTION_LINES = 70
FUNCTION_LINES_NINE_IN_TEN = 40
FUNCTION_LINES_MEDIAN = 15


def _functions() -> list[tuple[int, str]]:
    return [
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{module.name}:{node.lineno} {node.name}")
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_no_file_is_longer_than_its_idea() -> None:
    long = [(m.lines, m.name) for m in modules() if m.lines > FILE_LINES]
    assert not long, sorted(long, reverse=True)


def test_no_function_is_longer_than_a_page() -> None:
    long = [row for row in _functions() if row[0] > FUNCTION_LINES]
    assert not long, sorted(long, reverse=True)


def test_most_functions_are_short() -> None:
    sizes = sorted(size for size, _ in _functions())
    assert statistics.median(sizes) <= FUNCTION_LINES_MEDIAN
    assert sizes[int(len(sizes) * 0.9)] < FUNCTION_LINES_NINE_IN_TEN
