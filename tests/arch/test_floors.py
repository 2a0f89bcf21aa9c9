"""The floors of the house: who may import whom, and which third parties each room may use."""

from __future__ import annotations

import functools
import sys

from tests.arch.source import Module, modules

# room -> the rooms of ours it may import at all
MAY_IMPORT = {
    "base": set[str](),
    "engine": {"base"},
    "transparency": {"base"},
    "dap": {"base"},
    "native": {"base", "engine"},
    "interceptors": {"base", "engine"},
    "commons": {"base", "engine", "transparency"},
    "node": {"base", "engine", "transparency", "dap", "native", "interceptors", "commons", "roof"},
    "roof": {"base", "engine", "interceptors", "roof"},
}
ROOF_LAZILY = {"native", "commons", "node"}

# module or room -> third-party packages; everything else is the standard library
THIRD_PARTY = {
    "interlock.base.primitives": {"nacl", "cryptography"},
    "interlock.base.turboshake": {"Cryptodome"},
    "interlock.base.blind_rsa": {"cryptography"},
    "interlock.base.fetch": {"httpx"},
    "interlock.engine.policy.source": {"yaml"},
    "interlock.native.availability": {"interlock_native"},
    "commons": {"tuf", "securesystemslib"},
    "node": {"starlette", "uvicorn", "rich", "httpx", "psycopg"},
}
# an import inside a function is for these only: optional third parties, and the roof's lazy rooms
OPTIONAL = {"yaml", "interlock_native", "psycopg", "rich", "uvicorn"}


def _ours(target: str) -> bool:
    return target == "interlock" or target.startswith("interlock.")


def _room_of(target: str) -> str:
    parts = target.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in _rooms() else "roof"


@functools.cache
def _rooms() -> frozenset[str]:
    return frozenset(module.room for module in modules())


def _third_parties(module: Module) -> set[str]:
    return THIRD_PARTY.get(module.name, set()) | THIRD_PARTY.get(module.room, set())


def test_every_import_stays_on_its_floor_or_goes_down() -> None:
    wrong = []
    for module in modules():
        for found in module.imports:
            if not _ours(found.target):
                continue
            room = _room_of(found.target)
            lazily = module.room == "roof" and found.local and room in ROOF_LAZILY
            if room != module.room and room not in MAY_IMPORT[module.room] and not lazily:
                wrong.append(f"{module.name}:{found.line} imports {found.target}")
    assert not wrong, wrong


def test_only_the_listed_modules_import_third_parties() -> None:
    wrong = []
    for module in modules():
        for found in module.imports:
            top = found.target.split(".")[0]
            if not _ours(found.target) and top not in sys.stdlib_module_names | {"__future__"} | _third_parties(module):
                wrong.append(f"{module.name}:{found.line} imports {found.target}")
    assert not wrong, wrong


def test_a_guarded_process_needs_no_third_party() -> None:
    """What `import interlock` and a guard that follows packs load is the standard library and ours."""
    found = {m.name: m for m in modules()}
    todo, seen = ["interlock", "interlock.commons.installed", "interlock.interceptors.hooks.entry"], set[str]()
    wrong = []
    while todo:
        name = todo.pop()
        if name in seen or name not in found:
            continue
        seen.add(name)
        for i in found[name].imports:
            if i.local or i.typing_only:
                continue
            if _ours(i.target):
                todo.append(i.target)
            elif i.target.split(".")[0] not in sys.stdlib_module_names | {"__future__"}:
                wrong.append(f"{name}:{i.line} imports {i.target}")
    assert not wrong, wrong


def test_imports_stand_at_the_top_except_optional_ones_and_the_lazy_roof() -> None:
    wrong = []
    for module in modules():
        for found in module.imports:
            if not found.local:
                continue
            lazy_roof = module.room == "roof"
            lazy_command = module.name.startswith("interlock.node.cli.") and _ours(found.target)
            if not (lazy_roof or lazy_command or found.target.split(".")[0] in OPTIONAL):
                wrong.append(f"{module.name}:{found.line} imports {found.target} inside a function")
    assert not wrong, wrong


def test_there_is_no_import_circle() -> None:
    names = {m.name for m in modules()}
    edges = {
        m.name: {i.target for i in m.imports if i.target in names and not i.local and not i.typing_only} - {m.name}
        for m in modules()
    }
    done: set[str] = set()

    def walk(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name not in done:
            for target in sorted(edges[name]):
                walk(target, (*path, name))
            done.add(name)

    for name in sorted(names):
        walk(name, ())


def test_no_module_imports_the_face_of_its_own_package() -> None:
    wrong = [
        f"{m.name}:{i.line} imports {i.target}"
        for m in modules()
        for i in m.imports
        if m.name.startswith(i.target + ".") and m.room not in ("roof", "node")
    ]
    assert not wrong, wrong
