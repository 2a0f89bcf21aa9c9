"""What system programs do, beyond their grammars: partitions, accounts, processes, containers that are let out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.options import split
from interlock.engine.analysis.paths import is_disk
from interlock.engine.analysis.shell_run import Call, Program, Walk
from interlock.engine.analysis.values import Arg

__all__ = ["SYSTEM"]


def _partitions(walk: Walk, call: Call) -> Iterator[Finding]:
    """parted, sgdisk, sfdisk, fdisk, hdparm, nvme: only what writes."""
    text = " ".join(a.text for a in call.args)
    if re.search(
        r"--zap|-Z\b|\b(?:mklabel|mktable|mkpart|rm|resizepart)\b|--security-erase|--trim-sector|--delete|--wipe|\bformat\b|sanitize|-o\b",
        text,
    ):
        yield from _formatted(walk, call)


_PARTITION_INPUT: Final = re.compile(r"(?:^|\n)[ \t]*(?:w|write|wq|label:[^\n]*|,[^\n]*)[ \t]*(?:\n|$)")


def _edits_partitions(walk: Walk, call: Call) -> Iterator[Finding]:
    """fdisk, gdisk, sfdisk with what they are told on standard input: nothing is changed before a `w`."""
    unseen = call.program == "sfdisk" and call.stdin is not None and not call.stdin.known
    if call.stdin is not None and (unseen or _PARTITION_INPUT.search(call.stdin.text)):
        yield from _formatted(walk, call)


def _scripted_partitions(walk: Walk, call: Call) -> Iterator[Finding]:
    yield from _partitions(walk, call)
    yield from _edits_partitions(walk, call)


def _formatted(walk: Walk, call: Call) -> Iterator[Finding]:
    for arg in call.args:
        if is_disk(walk.place(arg).path):
            yield Finding("disk.format", arg.text, "device")


def _kill(walk: Walk, call: Call) -> Iterator[Finding]:
    texts = [a.text for a in call.args]
    numbers = [t for k, t in enumerate(texts) if k and (texts[k - 1] not in ("-s", "-n"))]
    if any(a.taint == "guard" for a in call.args):
        yield Finding("self.protect.command", "interlock", "system")
    if "-1" in numbers or (texts[:1] == ["--"] and "-1" in texts):
        yield Finding("process.kill_all", "-1", "system")


def _pkill(walk: Walk, call: Call) -> Iterator[Finding]:
    """A pattern that every process matches."""
    opts = split(call.args, "uUgGPtsFo", ("--signal", "--uid", "--euid", "--parent"))
    for arg in opts.operands:
        if arg.text in (".", ".*", "", "^", "*") and not opts.has("-u", "-U", "-P"):
            yield Finding("process.kill_all", arg.text, "system")


def _account(walk: Walk, call: Call) -> Iterator[Finding]:
    text = " ".join(a.text for a in call.args)
    if call.program in _REMOVERS:
        if call.args and not text.startswith(("-h", "--help")):
            yield Finding("privilege.account", call.args[-1].text, "system")
    elif call.program in ("passwd", "chpasswd"):
        fed = call.program == "chpasswd" and call.stdin is not None
        if (text or fed) and text not in ("-S", "--status") and not text.startswith(("-S ", "--help")):
            yield Finding("privilege.account", text, "system")
    elif call.program == "visudo" and not re.search(r"(^| )-[chV]", text):
        yield Finding("privilege.account", "sudoers", "system")
    elif re.search(r"(?:^|[ ,=])(?:sudo|wheel|admin|root|docker|lxd|disk|shadow)(?:[ ,]|$)", text) and re.search(
        r"-[a-zA-Z]*[aGg]|--groups|--append|add", text
    ):
        yield Finding("privilege.account", call.args[-1].text if call.args else "", "system")
    elif call.program == "useradd" and re.search(r"-o\b.*-u\s*0|-u\s*0\b.*-o\b", text):
        yield Finding("privilege.account", "uid 0", "system")


# what changes a node, or a commons: what it trusts, follows, grants or keeps
_NODE_VERBS: Final = {"init", "subscribe", "unsubscribe", "pin", "pins", "rollback", "settings", "stepback", "journal"}
_COMMONS_VERBS: Final = {"publish", "review", "reviewers", "promote", "ceremony", "keys", "operators"}
_MESH_VERBS: Final = frozenset({*_NODE_VERBS, *_COMMONS_VERBS, "setup", "token", "members", "clock"})
_INTERLOCK_VERBS: Final = frozenset({"grant", "approve", "trust", "consent", "uninstall", "revoke", "disable", "allow"})


def _interlock(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "c", ("--config", "--home", "--log-format"))
    words = [a.text for a in opts.operands]
    if opts.has("--help", "-h"):
        return
    if (
        _INTERLOCK_VERBS & set(words[:2])
        or (words[:1] == ["install-hook"] and opts.has("--uninstall"))
        or (words[:1] == ["mesh"] and _MESH_VERBS & set(words[1:2]))
    ):
        yield Finding("self.protect.command", " ".join(words[:2]), "home")


_PACKAGE: Final = re.compile(r"(?:^|/)interlock(?:-native)?(?:[\[=<>!~@]|$)")


def _uninstalls(walk: Walk, call: Call) -> Iterator[Finding]:
    """Package managers: taking this guard away."""
    words = [a.text for a in split(call.args, "rcpn", ("--prefix", "--workspace", "--registry")).operands]
    if {"uninstall", "remove", "rm", "un"} & set(words[:3]) and any(_PACKAGE.search(w) for w in words):
        yield Finding("self.protect.command", "uninstall", "system")


def _privileged(walk: Walk, call: Call) -> Iterator[Finding]:
    """docker, podman run: a container that is let out."""
    texts = [a.text for a in call.args]
    if {"rm", "rmi", "kill"} & set(texts[:2]) and any(a.taint == "found" for a in call.args):
        yield Finding("container.destroy", "all of them", "device")
    if "run" not in texts and "create" not in texts:
        return
    for k, text in enumerate(texts):
        following = texts[k + 1] if k + 1 < len(texts) else ""
        value = text.partition("=")[2] or following
        if text.startswith("--privileged") and not text.endswith("=false"):
            yield Finding("container.privileged", "--privileged", "system")
        elif text.partition("=")[0] in ("--pid", "--userns", "--ipc", "--uts") and value == "host":
            yield Finding("container.privileged", text, "system")
        elif text.partition("=")[0] == "--cap-add" and value.upper() in (
            "ALL",
            "SYS_ADMIN",
            "SYS_PTRACE",
            "SYS_MODULE",
        ):
            yield Finding("container.privileged", value, "system")
        elif text in ("-v", "--volume") or text.startswith(("--volume=", "-v")):
            source = (value if text.startswith("--") or text == "-v" else text[2:]).partition(":")[0]
            yield from _mounted(walk, source)
        elif text.partition("=")[0] == "--mount":
            m = re.search(r"(?:src|source)=([^,]+)", value)
            yield from _mounted(walk, m.group(1) if m else "")


def _mounted(walk: Walk, source: str) -> Iterator[Finding]:
    where = walk.place(Arg(source))
    if source and (
        (where.scope in ("root", "home") and where.whole)
        or re.search(r"(?:docker|podman|containerd|crio)\.sock$", where.path)
        or where.path in ("/etc", "/var/run/docker.sock", "/run/docker.sock", "/dev", "/proc", "/sys")
    ):
        yield Finding("container.privileged", where.path, where.scope)


_REMOVERS: Final = ("delgroup", "deluser", "groupdel", "userdel")
_PACKAGERS: Final = (
    "bun", "conda", "flit", "hatch", "mamba", "npm", "pdm", "pip", "pip3", "pipx", "pnpm", "poetry", "uv", "yarn",
)  # fmt: skip
_ACCOUNTS: Final = (
    "adduser", "chpasswd", "dseditgroup", "gpasswd", "groupmems", "passwd", "useradd", "usermod", "visudo",
)  # fmt: skip
SYSTEM: Final[dict[str, Program]] = {
    **dict.fromkeys(("cfdisk", "fdisk"), _edits_partitions),
    **dict.fromkeys(("gdisk", "sfdisk"), _scripted_partitions),
    **dict.fromkeys(("hdparm", "nvme", "parted", "sgdisk"), _partitions),
    **dict.fromkeys((*_ACCOUNTS, *_REMOVERS), _account),
    **dict.fromkeys(_PACKAGERS, _uninstalls),
    **dict.fromkeys(("docker", "nerdctl", "podman"), _privileged),
    "interlock": _interlock,
    "kill": _kill,
    "killall": _pkill,
    "pkill": _pkill,
}
