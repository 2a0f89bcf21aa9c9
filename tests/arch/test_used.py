"""What stands at the top of a module is used by the package itself; what only tests use is deleted, or listed here."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import interlock
from interlock.base.errors import CODES
from tests.arch.source import Module, modules

# name -> why nothing in the package names it
ONLY_FROM_OUTSIDE = {
    "interlock.base.clock.ManualClock": "for tests and simulations",
    "interlock.node.cli.mesh.node": "main.py hands it to doctor, whose checks it adds to",
    "interlock.transparency.merkle.root_of": "the plain definition that other ways to a root are held against",
}
# what main.py calls of the one command group that was named
REGISTER = ("interlock.node.cli.", ".register")
# modules whose functions are found by name: the faces of ready rules and of the posture, an agent's codec, commands
BY_NAME = (
    "interlock.detectors",
    "interlock.interceptors.hooks.claude_code",
    "interlock.node.cli.mesh_",
    "interlock.node.cli.receipts_proof",
    "interlock.node.cli.tuf_client",
    "interlock.node.demo.run",
    "interlock.node.wiring.",  # roles.py loads the module of the role that is served
    "interlock.posture",
)


def _defined(module: Module) -> Iterator[str]:
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _used_in(module: Module) -> Iterator[str]:
    """Dotted names of ours that a module imports, reads through a module that it imports, or defines and reads."""
    seen: dict[str, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("interlock"):
            for alias in node.names:
                seen[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            seen.update({a.asname: a.name for a in node.names if a.asname})
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in seen:
            yield f"{seen[node.value.id]}.{node.attr}"
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield f"{module.name}.{node.id}"


def test_nothing_is_there_for_tests_alone() -> None:
    used = {name for module in modules() for name in _used_in(module)}
    face = {f"interlock.{name}" for name in interlock.__all__}
    unused = {
        f"{module.name}.{name}"
        for module in modules()
        for name in _defined(module)
        if not name.startswith("__") and not module.name.startswith(BY_NAME)
    } - used
    unused = {name for name in unused if not (name.startswith(REGISTER[0]) and name.endswith(REGISTER[1]))}
    assert unused - face == set(ONLY_FROM_OUTSIDE)


def test_every_error_code_belongs_to_an_error() -> None:
    given = {
        node.value.value
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Constant)
        and ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target) == "code"
    }
    assert given == set(CODES)
