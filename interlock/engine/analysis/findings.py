"""What a walk has found so far, and what a file is that it writes or reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from interlock.engine.analysis.effects import EFFECTS, Finding, Intent
from interlock.engine.analysis.paths import Place, is_disk, is_sink, join, place
from interlock.engine.analysis.shell_expand import Environment
from interlock.engine.analysis.values import WORK, Arg, shown

__all__ = ["Findings", "Places"]

_MAX_FOUND: Final = 500  # intents of one event
_MAX_FILES: Final = 500  # files whose content is followed
_MAX_TARGET: Final = 256  # characters of an intent's target
_FINDING_COST: Final = 8
_PLACE_COST: Final = 32  # of a path that is looked at
_GLOB_COST: Final = 512  # of a glob beside that
_GLOB: Final = re.compile(r"[*?\[]")


class Places(NamedTuple):
    """What is known of files by where they lie: the findings of a write (`append` or not) and of a read."""

    write: Callable[[Place, bool], Iterable[Finding]]
    read: Callable[[Place], Iterable[Finding]]


class Findings:
    """The intents of one event; the directory it starts in, and the files it has written."""

    def __init__(self, places: Places, cwd: str | None, attributed_to: str) -> None:
        self.places = places
        self.env = Environment()
        self.work = cwd.rstrip("/") or "/" if cwd else WORK
        self.env.cwd = self.work
        self.attributed_to = attributed_to
        self.found: dict[Intent, None] = {}
        self.files: dict[str, Arg] = {}
        self.secrets = 0  # files of credentials that were read so far

    def emit(self, finding: Finding, program: str) -> None:
        """Report a finding as an effect of `program`. Raises: Exhausted."""
        if finding.name != "exec.partial":
            self.env.spend(_FINDING_COST)
        if len(self.found) < _MAX_FOUND or finding.name == "exec.partial":
            effect, reversible = EFFECTS[finding.name]
            target = shown(finding.target)[:_MAX_TARGET]
            intent = Intent(finding.name, effect, target, finding.scope, program, self.attributed_to, reversible)
            self.found[intent] = None

    def place(self, arg: Arg) -> Place:
        """Where a path lies, seen from the directory of the moment. Raises: Exhausted."""
        self.env.spend(_PLACE_COST + (len(self.env.cwd) + len(arg.text)) // 4)
        if _GLOB.search(arg.text):  # it is held against each protected name, and a bracket is sought to the end
            self.env.spend(_GLOB_COST + (64 + arg.text.count("[")) * len(arg.text) // 8)
        return place(arg, self.env.cwd, self.work)

    def remember(self, target: Arg, content: Arg) -> None:
        """What a file will hold, for a later command that runs or reads it."""
        if target.known and len(self.files) < _MAX_FILES:
            self.files[join(self.env.cwd, target.text)] = content

    def written(self, target: Arg, program: str, *, append: bool = False) -> None:
        """A file that is written or replaced."""
        where = self.place(target)
        if is_sink(where.path) or not target.text:
            return
        if where.path.startswith(("/dev/tcp/", "/dev/udp/")):
            self.emit(Finding("net.reverse_shell", where.path, "remote"), program)
        elif is_disk(where.path):
            self.emit(Finding("disk.overwrite", where.path, "device"), program)
        else:
            for finding in self.places.write(where, append):
                self.emit(finding, program)
            self.emit(Finding("fs.write", where.path, where.scope), program)

    def read(self, target: Arg, program: str) -> None:
        """A file that is read."""
        for finding in self.places.read(self.place(target)):
            self.emit(finding, program)
            self.secrets += finding.name == "secret.read"

    def ran(self, script: Arg, program: str) -> None:
        """A file whose code runs and is not known here."""
        where = self.place(script)
        self.emit(Finding("exec.script", where.path, where.scope), program)

    def listed(self, target: Arg, program: str) -> None:
        """A path whose name, size or other facts are told, not its content."""
        where = self.place(target)
        self.emit(Finding("fs.list", where.path, where.scope), program)
