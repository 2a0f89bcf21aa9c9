"""What network programs fetch, send and open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from interlock.engine.analysis.acts import deleted, filled
from interlock.engine.analysis.acts_net import fetched, host, is_local, sent
from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.options import Options, split
from interlock.engine.analysis.places import is_secret
from interlock.engine.analysis.shell_run import Call, Program, Walk
from interlock.engine.analysis.values import Arg

__all__ = ["NET", "SECRET_COMMANDS", "uploads"]

_REMOTE: Final = re.compile(r"^(?:[\w.-]+@)?[\w.\[\]:-]*[\w\]-]:(?!\\)|^rsync://|^scp://|^sftp://")


def _httpie(walk: Walk, call: Call) -> Iterator[Finding]:
    given = split(call.args, "ao").operands
    operands = [a for a in given if a.text.upper() not in ("GET", "POST", "PUT", "PATCH", "DELETE")]
    yield from fetched(operands[:1])
    if any(a.text == "DELETE" for a in given[:1]):
        for url in operands[:1]:
            yield Finding("net.delete", host(url.text), "worktree" if is_local(url.text) else "remote")
    files = [a.text.partition("@")[2] for a in operands[1:] if re.match(r"[\w-]*=?@", a.text)]
    yield from sent(walk, call, [("-T", Arg(f)) for f in files], operands[:1], ("-T",))


def _nc(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "ecpwsqXxiIOTmoGL", ("--exec", "--sh-exec"))
    there = opts.operands[0].text if opts.operands else ""
    if opts.has("-e", "-c", "--exec", "--sh-exec") or (call.stdin is not None and call.stdin.taint == "shell"):
        yield Finding("net.reverse_shell", there, "remote")
    if opts.has("-z", "-l", "--listen") or not there:
        return
    yield Finding("net.connect", there, "worktree" if is_local(there) else "remote")
    if call.stdin is not None and not is_local(there):
        yield Finding("net.upload", there, "remote")
        if call.stdin.taint == "secret":
            yield Finding("net.upload.secret", there, "remote")


def _pipe_out(walk: Walk, call: Call) -> Iterator[Finding]:
    """telnet, openssl s_client: a shell's output that goes out, or a secret."""
    connects = call.program != "openssl" or (bool(call.args) and call.args[0].text == "s_client")
    if connects and call.stdin is not None:
        if call.stdin.taint == "shell":
            yield Finding("net.reverse_shell", "", "remote")
        elif call.stdin.taint == "secret":
            yield Finding("net.upload.secret", "", "remote")


def _socat(walk: Walk, call: Call) -> Iterator[Finding]:
    texts = [a.text.lower() for a in call.args if a.text[:1] != "-"]
    runs = any(t.startswith(("exec:", "system:")) for t in texts)
    if runs and any(t.startswith(("tcp", "openssl", "udp", "ssl", "sctp")) for t in texts):
        yield Finding("net.reverse_shell", "", "remote")


def _copied(walk: Walk, call: Call) -> Iterator[Finding]:
    """scp, rsync, sftp: what goes out, and what `--delete` takes away."""
    opts = split(
        call.args,
        "PiolcFSeBfTM",
        (
            "--exclude",
            "--include",
            "--rsh",
            "--filter",
            "--exclude-from",
            "--files-from",
            "--bwlimit",
            "--port",
            "--chmod",
            "--max-size",
            "--partial-dir",
            "--backup-dir",
            "--log-file",
            "--rsync-path",
        ),
    )
    if opts.has("--help", "--version", "--dry-run") or (call.program == "rsync" and opts.has("-n")):
        return
    operands = opts.operands
    if len(operands) < 2:
        return
    target = operands[-1]
    remote = bool(_REMOTE.match(target.text))
    if remote:
        yield Finding("net.upload", target.text.partition(":")[0], "remote")
        for arg in operands[:-1]:
            if is_secret(walk.place(arg).path) and not arg.text.endswith(".pub"):
                yield Finding("net.upload.secret", target.text.partition(":")[0], "remote")
    else:
        walk.written(target, call.program)
        if any(a.text.endswith("/") for a in operands[:-1]):
            filled(walk, target, call.program)
    if not remote and any(f.startswith("--del") for f in opts.flags):
        yield from _swept(walk, target)


def _swept(walk: Walk, target: Arg) -> Iterator[Finding]:
    for finding in deleted(walk, target, True):
        if finding.name != "fs.delete.worktree":
            yield finding


def _asks(walk: Walk, call: Call) -> Iterator[Finding]:
    """Name look-ups and pings: a secret in the name leaves with it."""
    for arg in call.args:
        if arg.taint == "secret":
            yield Finding("net.upload.secret", "", "remote")


_SECRET_COMMANDS: Final = {
    "aws": re.compile(
        r"secretsmanager get-secret-value|ssm get-parameters? .*--with-decryption|configure export-credentials"
    ),
    "az": re.compile(r"keyvault secret show|account get-access-token"),
    "doppler": re.compile(r"^secrets\b"),
    "env": re.compile(r"^$"),
    "gcloud": re.compile(r"secrets versions access|auth print-(?:access|identity)-token"),
    "gh": re.compile(r"^auth token"),
    "kubectl": re.compile(r"(?:^| )get secrets?\b"),
    "op": re.compile(r"^(?:read|item get)\b"),
    "pass": re.compile(r"^(?:show )?[\w/.-]+$"),
    "printenv": re.compile(r"^$"),
    "vault": re.compile(r"^(?:kv get|read|print token)\b"),
}


def _secret_command(walk: Walk, call: Call) -> Iterator[Finding]:
    """Commands that print credentials: what they print must not leave."""
    if _SECRET_COMMANDS[call.program].search(" ".join(a.text for a in call.args[:32])):
        walk.secrets += 1
        yield Finding("secret.read", call.program, "cloud")


def _mail(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "sabcrA")
    attached = opts.values.get("-a") or opts.values.get("-A")
    yield Finding("net.upload", "", "remote")
    if (call.stdin is not None and call.stdin.taint == "secret") or (
        attached is not None and is_secret(walk.place(attached).path)
    ):
        yield Finding("net.upload.secret", "", "remote")


def uploads(words: tuple[str, ...]) -> Program:
    """A cloud CLI's copy to a bucket: an upload; a secret in it is one of a secret."""

    def program(walk: Walk, call: Call) -> Iterator[Finding]:
        opts: Options = split(call.args)
        texts = [a.text for a in opts.operands]
        if any(w in texts for w in words) and texts and "://" in texts[-1]:
            yield Finding("net.upload", texts[-1], "remote")
            for arg in opts.operands[:-1]:
                if is_secret(walk.place(arg).path):
                    yield Finding("net.upload.secret", texts[-1], "remote")

    return program


SECRET_COMMANDS: Final[dict[str, Program]] = dict.fromkeys(_SECRET_COMMANDS, _secret_command)
NET: Final[dict[str, Program]] = {
    "aria2c": lambda walk, call: fetched(list(split(call.args, "dosxjkU").operands)),
    "dig": _asks,
    "host": _asks,
    "http": _httpie,
    "https": _httpie,
    "mail": _mail,
    "mailx": _mail,
    "mutt": _mail,
    "nc": _nc,
    "ncat": _nc,
    "netcat": _nc,
    "nslookup": _asks,
    "ping": _asks,
    "rsync": _copied,
    "scp": _copied,
    "socat": _socat,
    "openssl": _pipe_out,
    "telnet": _pipe_out,
    "xh": _httpie,
}
