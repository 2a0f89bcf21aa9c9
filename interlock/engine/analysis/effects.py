"""Intent: one effect that a call would have, by a stable name that policies match on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["EFFECTS", "INTENT_NAMES", "SCOPES", "Finding", "Intent"]

# name -> (effect, reversible). Policies name these; a name is never given a second meaning.
EFFECTS: Final[dict[str, tuple[str, bool]]] = {
    "cloud.change": ("write", False),
    "cloud.destroy": ("delete", False),
    "cloud.read": ("net", True),
    "container.destroy": ("delete", False),
    "container.privileged": ("privilege", True),
    "container.run": ("exec", True),
    "db.delete_all": ("delete", False),
    "db.drop": ("delete", False),
    "disk.format": ("delete", False),
    "disk.overwrite": ("write", False),
    "exec.dynamic": ("exec", True),
    "exec.fork_bomb": ("exec", False),
    "exec.inline": ("exec", True),
    "exec.install": ("exec", True),
    "exec.obfuscated": ("exec", True),
    "exec.partial": ("exec", True),
    "exec.script": ("exec", True),
    "fs.delete": ("delete", False),
    "fs.delete.computed": ("delete", False),
    "fs.delete.outside": ("delete", False),
    "fs.delete.recursive": ("delete", False),
    "fs.delete.root": ("delete", False),
    "fs.delete.worktree": ("delete", False),
    "fs.erase": ("delete", False),
    "fs.list": ("read", True),
    "fs.permission": ("write", True),
    "fs.permission.root": ("write", False),
    "fs.read": ("read", True),
    "fs.write": ("write", False),
    "fs.write.system": ("write", False),
    "net.connect": ("net", True),
    "net.delete": ("delete", False),
    "net.fetch": ("net", True),
    "net.fetch_exec": ("exec", False),
    "net.metadata": ("net", True),
    "net.reverse_shell": ("exec", False),
    "net.upload": ("net", False),
    "net.upload.secret": ("net", False),
    "persist.cron": ("persist", True),
    "persist.git_hook": ("persist", True),
    "persist.service": ("persist", True),
    "persist.shell_init": ("persist", True),
    "persist.ssh_keys": ("persist", True),
    "privilege.account": ("privilege", True),
    "privilege.escalate": ("privilege", True),
    "privilege.shell": ("privilege", True),
    "process.kill_all": ("exec", False),
    "process.signal": ("exec", False),
    "publish.package": ("net", False),
    "resource.destroy": ("delete", False),
    "secret.export": ("read", False),
    "secret.read": ("read", True),
    "self.protect.agent": ("privilege", True),
    "self.protect.command": ("privilege", True),
    "self.protect.config": ("write", True),
    "service.change": ("exec", True),
    "system.defence_off": ("privilege", True),
    "system.shutdown": ("exec", True),
    "system.traces": ("delete", False),
    "vcs.delete_local": ("delete", False),
    "vcs.delete_remote": ("delete", False),
    "vcs.discard": ("delete", False),
    "vcs.fetch": ("net", True),
    "vcs.force_push": ("write", False),
    "vcs.force_push.lease": ("write", False),
    "vcs.push": ("net", False),
    "vcs.push_elsewhere": ("net", False),
    "vcs.remote_change": ("net", True),
    "vcs.rewrite_history": ("write", False),
    "vcs.skip_hooks": ("exec", True),
    "vcs.write": ("write", True),
}
INTENT_NAMES: Final = frozenset(EFFECTS)
SCOPES: Final = (
    "cloud", "device", "home", "outside", "remote", "root", "system", "temp", "unknown", "worktree",
)  # fmt: skip


class Finding(NamedTuple):
    """What a program's table entry says: an intent's name, what it is about, and where that lies."""

    name: str
    target: str = ""
    scope: str = "unknown"


@dataclass(frozen=True, slots=True)
class Intent:
    """One effect of a call.

    `name` is one of INTENT_NAMES; `effect` is read, write, delete, exec, net, privilege or persist; `target` is the
    path, host or name it is about, with `...` where only the shell would know; `scope` is one of SCOPES; `program` is
    whose effect it is ("rm", "git", the tool's name); `attributed_to` is the argument's path. `reversible` says whether
    the effect can be undone from what is left.
    """

    name: str
    effect: str
    target: str
    scope: str
    program: str
    attributed_to: str
    reversible: bool = True
