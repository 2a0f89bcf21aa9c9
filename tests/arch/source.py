"""What the architecture tests read: every module of the package, parsed once."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "interlock"


@dataclass(frozen=True)
class Import:
    """One import: the module it names, its line, and whether it stands inside a function or under TYPE_CHECKING."""

    target: str
    line: int
    local: bool
    typing_only: bool


@dataclass(frozen=True)
class Module:
    """One module: its dotted name, path and tree."""

    name: str
    path: Path
    tree: ast.Module
    lines: int

    @functools.cached_property
    def room(self) -> str:
        """The package of the first level ("engine"), or "roof"."""
        parts = self.name.split(".")
        in_room = len(parts) > 1 and (PACKAGE / parts[1]).is_dir()
        return parts[1] if in_room else "roof"

    @functools.cached_property
    def imports(self) -> tuple[Import, ...]:
        found: list[Import] = []
        _collect(self.tree, found, local=False, typing_only=False)
        return tuple(found)


def _collect(node: ast.AST, found: list[Import], *, local: bool, typing_only: bool) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            found += [Import(a.name, child.lineno, local, typing_only) for a in child.names]
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"relative import at line {child.lineno}"
            base = child.module or ""
            for alias in child.names:
                full = f"{base}.{alias.name}"
                found.append(Import(full if full in module_names() else base, child.lineno, local, typing_only))
        elif not isinstance(child, ast.expr):  # no expression holds an import, and most of a tree is expressions
            inside = local or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            guarded = typing_only or (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING")
            _collect(child, found, local=inside, typing_only=guarded)


@functools.cache
def module_names() -> frozenset[str]:
    return frozenset(_dotted(p) for p in PACKAGE.rglob("*.py"))


@functools.cache
def modules() -> tuple[Module, ...]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(Module(_dotted(path), path, ast.parse(text), text.count("\n")))
    return tuple(found)


def _dotted(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
