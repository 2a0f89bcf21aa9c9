"""What system programs do: disks, power, processes, accounts, services; and commands against this guard."""

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


def _formats(walk: Walk, call: Call) -> Iterator[Finding]:
    """mkfs, mkswap, wipefs, cryptsetup: a device that loses what is on it; an image file does not count."""
    opts = split(call.args, "tLbiIEONmUG", ("--type", "--label"))
    if opts.has("--help", "--version", "-V"):
        return
    for arg in opts.operands:
        if is_disk(walk.place(arg).path) or arg.text.startswith("/dev/"):
            yield Finding("disk.format", arg.text, "device")


def _badblocks(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "bcdpteio")
    if opts.has("-w"):
        yield Finding("disk.format", call.args[-1].text, "device")


def _wipefs(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "ot")
    if opts.has("-a", "--all", "-o", "--offset") and not opts.has("-n", "--no-act"):
        for arg in opts.operands:
            yield Finding("disk.format", arg.text, "device")


def _partitions(walk: Walk, call: Call) -> Iterator[Finding]:
    """parted, sgdisk, sfdisk, fdisk, hdparm, nvme: only what writes."""
    text = " ".join(a.text for a in call.args)
    if re.search(
        r"--zap|-Z\b|\b(?:mklabel|mktable|mkpart|rm|resizepart)\b|--security-erase|--trim-sector|--delete|--wipe|\bformat\b|sanitize|-o\b",
        text,
    ):
        for arg in call.args:
            if is_disk(walk.place(arg).path):
                yield Finding("disk.format", arg.text, "device")


def _volumes(walk: Walk, call: Call) -> Iterator[Finding]:
    if not {"--test", "-t", "--help", "-h", "--version", "-V"} & {a.text for a in call.args}:
        yield Finding("disk.format", call.args[-1].text if call.args else "", "device")


def _pool(walk: Walk, call: Call) -> Iterator[Finding]:
    texts = [a.text for a in call.args]
    words = [t for t in texts if t[:1] != "-"]
    if words[:1] in (["destroy"], ["labelclear"]) and "-n" not in texts:
        yield Finding("disk.format", words[-1], "device")
    if (
        call.program == "cryptsetup"
        and words[:1]
        and words[0] in ("luksFormat", "erase", "luksErase", "reencrypt", "luksKillSlot")
    ):
        yield Finding("disk.format", words[-1], "device")
    if (
        call.program == "diskutil"
        and words
        and words[0].lower()
        in ("erasedisk", "erasevolume", "partitiondisk", "secureerase", "zerodisk", "randomdisk", "reformat")
    ):
        yield Finding("disk.format", words[-1], "device")


def _power(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args)
    if not opts.has("--help", "-c", "--show", "--version", "-w", "--wtmp-only"):
        yield Finding("system.shutdown", call.program, "system")


def _init(walk: Walk, call: Call) -> Iterator[Finding]:
    if call.args and call.args[0].text in ("0", "6"):
        yield Finding("system.shutdown", "init", "system")


def _systemctl(walk: Walk, call: Call) -> Iterator[Finding]:
    words = [a.text for a in split(call.args, "tpnoHM").operands]
    if words and words[0] in ("poweroff", "reboot", "halt", "kexec", "emergency", "rescue"):
        yield Finding("system.shutdown", words[0], "system")
    elif words and words[0] in ("stop", "disable", "mask", "kill") and any("interlock" in w for w in words[1:]):
        yield Finding("self.protect.command", words[-1], "system")


def _launchctl(walk: Walk, call: Call) -> Iterator[Finding]:
    if call.args and call.args[0].text in ("load", "bootstrap", "submit", "enable"):
        yield Finding("persist.service", call.args[-1].text, "home")
    elif (
        call.args
        and call.args[0].text in ("unload", "bootout", "remove", "disable")
        and "interlock" in call.args[-1].text
    ):
        yield Finding("self.protect.command", call.args[-1].text, "system")


def _kill(walk: Walk, call: Call) -> Iterator[Finding]:
    texts = [a.text for a in call.args]
    numbers = [t for k, t in enumerate(texts) if k and (texts[k - 1] not in ("-s", "-n"))]
    if any(a.taint == "guard" for a in call.args):
        yield Finding("self.protect.command", "interlock", "system")
    if "-1" in numbers or (texts[:1] == ["--"] and "-1" in texts):
        yield Finding("process.kill_all", "-1", "system")


def _pkill(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "uUgGPtsFo", ("--signal", "--uid", "--euid", "--parent"))
    if not opts.operands and opts.has("-u", "-U", "--uid", "--euid"):
        yield Finding("process.kill_all", "every process of a user", "system")
    for arg in opts.operands:
        if "interlock" in arg.text:
            yield Finding("self.protect.command", arg.text, "system")
        if arg.text in (".", ".*", "", "^", "*") and not opts.has("-u", "-U", "-P"):
            yield Finding("process.kill_all", arg.text, "system")


def _killall5(walk: Walk, call: Call) -> Iterator[Finding]:
    yield Finding("process.kill_all", "", "system")


def _crontab(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "u")
    if opts.has("-r") or opts.operands or (call.stdin is not None and not opts.has("-l", "-e")):
        yield Finding("persist.cron", "crontab", "home")


def _account(walk: Walk, call: Call) -> Iterator[Finding]:
    text = " ".join(a.text for a in call.args)
    if call.program in ("passwd", "chpasswd"):
        if text not in ("", "-S", "--status") and not text.startswith(("-S ", "--help")):
            yield Finding("privilege.account", text, "system")
    elif call.program == "visudo" and not re.search(r"(^| )-c", text):
        yield Finding("privilege.account", "sudoers", "system")
    elif re.search(r"(?:^|[ ,=])(?:sudo|wheel|admin|root|docker|lxd|disk|shadow)(?:[ ,]|$)", text) and re.search(
        r"-[a-zA-Z]*[aGg]|--groups|--append|add", text
    ):
        yield Finding("privilege.account", call.args[-1].text if call.args else "", "system")
    elif call.program == "useradd" and re.search(r"-o\b.*-u\s*0|-u\s*0\b.*-o\b", text):
        yield Finding("privilege.account", "uid 0", "system")


_DEFENCES: Final = {
    "auditctl": r"-D|-e 0",
    "csrutil": r"disable",
    "ip6tables": r"(?:^| )(?:-F|--flush|-X)(?: |$)",
    "iptables": r"(?:^| )(?:-F|--flush|-X)(?: |$)",
    "nft": r"^flush ruleset",
    "setenforce": r"^(?:0|[Pp]ermissive)$",
    "spctl": r"--master-disable|--global-disable",
    "ufw": r"^(?:--force )?(?:disable|reset)",
}


def _defence(walk: Walk, call: Call) -> Iterator[Finding]:
    """Firewalls, mandatory access control and audit switched off."""
    if re.search(_DEFENCES[call.program], " ".join(a.text for a in call.args)):
        yield Finding("system.defence_off", call.program, "system")


def _agent(walk: Walk, call: Call) -> Iterator[Finding]:
    """A coding agent started without its own brakes."""
    text = " ".join(a.text for a in call.args)
    if re.search(
        r"--dangerously[\w-]*|--yolo\b|--full-auto-danger|--allow-all-tools|--trust-all-tools"
        r"|--approval-mode[= ]yolo|bypassPermissions|--no-hooks",
        text,
    ):
        yield Finding("self.protect.agent", call.program, "system")


def _gpg(walk: Walk, call: Call) -> Iterator[Finding]:
    texts = {a.text for a in call.args}
    if texts & {"--export-secret-keys", "--export-secret-key", "--export-secret-subkeys"}:
        yield Finding("secret.export", "gpg", "home")
    if texts & {"--delete-secret-keys", "--delete-secret-key", "--delete-secret-and-public-key"}:
        yield Finding("fs.delete.outside", "gpg keys", "home")


def _security(walk: Walk, call: Call) -> Iterator[Finding]:
    words = {a.text for a in call.args}
    if words & {"dump-keychain", "find-generic-password", "find-internet-password", "export"}:
        yield Finding("secret.export", "keychain", "home")


_MESH_VERBS: Final = frozenset({"init", "subscribe", "unsubscribe", "publish", "token"})
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
    """pip, uv, pipx, conda, poetry: taking this guard away; and publishing with them."""
    opts = split(call.args, "rcpn")
    words = [a.text for a in opts.operands]
    if {"uninstall", "remove", "rm"} & set(words[:3]) and any(_PACKAGE.search(w) for w in words):
        yield Finding("self.protect.command", "uninstall", "system")
    if words[:1] == ["publish"] and not opts.has("--dry-run", "--help"):
        yield Finding("publish.package", call.program, "remote")


def _npm(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "", ("--prefix", "--workspace", "--registry", "--tag", "--access"))
    words = [a.text for a in opts.operands]
    publishes = words[:1] in (["publish"], ["unpublish"]) or words[:2] == ["npm", "publish"]
    if publishes and not opts.has("--dry-run", "--help", "-h"):
        yield Finding("publish.package", words[-1] if len(words) > 1 else call.program, "remote")
    if {"uninstall", "remove", "rm", "un"} & set(words[:2]) and any(_PACKAGE.search(w) for w in words):
        yield Finding("self.protect.command", "uninstall", "system")


def _publishes(*words: str) -> Program:
    def program(walk: Walk, call: Call) -> Iterator[Finding]:
        opts = split(call.args, "", ("--registry", "--token", "--index", "--repository"))
        if opts.operands and opts.operands[0].text in words and not opts.has("--dry-run", "--help", "-h", "-n"):
            yield Finding("publish.package", opts.operands[-1].text, "remote")

    return program


def _privileged(walk: Walk, call: Call) -> Iterator[Finding]:
    """docker, podman run: a container that is let out."""
    texts = [a.text for a in call.args]
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


SYSTEM: Final[dict[str, Program]] = {
    **dict.fromkeys(("mkfs", "mke2fs", "mkswap", "newfs", "mkntfs", "mkdosfs", "blkdiscard"), _formats),
    **dict.fromkeys(("parted", "sgdisk", "sfdisk", "gdisk", "hdparm", "nvme"), _partitions),
    **dict.fromkeys(("lvremove", "vgremove", "pvremove", "lvreduce", "nwipe"), _volumes),
    **dict.fromkeys(("zpool", "zfs", "cryptsetup", "diskutil"), _pool),
    **dict.fromkeys(("shutdown", "reboot", "halt", "poweroff"), _power),
    **dict.fromkeys(
        (
            "claude",
            "codex",
            "gemini",
            "copilot",
            "cursor-agent",
            "opencode",
            "amp",
            "goose",
            "aider",
            "q",
            "claude-code",
            "gemini-cli",
        ),
        _agent,
    ),
    **dict.fromkeys(
        ("usermod", "useradd", "gpasswd", "adduser", "visudo", "dseditgroup", "groupmems", "passwd", "chpasswd"),
        _account,
    ),
    **dict.fromkeys(("pip", "pip3", "pipx", "uv", "conda", "mamba", "poetry", "hatch", "flit", "pdm"), _uninstalls),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), _npm),
    **dict.fromkeys(("docker", "podman", "nerdctl"), _privileged),
    **dict.fromkeys(_DEFENCES, _defence),
    "badblocks": _badblocks,
    "cargo": _publishes("publish", "yank"),
    "crontab": _crontab,
    "gem": _publishes("push", "yank"),
    "gpg": _gpg,
    "gpg2": _gpg,
    "init": _init,
    "interlock": _interlock,
    "kill": _kill,
    "killall": _pkill,
    "killall5": _killall5,
    "launchctl": _launchctl,
    "pkill": _pkill,
    "security": _security,
    "systemctl": _systemctl,
    "telinit": _init,
    "twine": _publishes("upload"),
    "vsce": _publishes("publish"),
    "wipefs": _wipefs,
}
