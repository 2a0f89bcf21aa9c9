"""What network programs fetch, send and open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from interlock.engine.analysis.acts_net import fetched, host, is_local, sent
from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.options import split
from interlock.engine.analysis.shell_run import Call, Program, Walk
from interlock.engine.analysis.values import Arg

__all__ = ["NET"]


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


def _asks(walk: Walk, call: Call) -> Iterator[Finding]:
    """Name look-ups and pings: a secret in the name leaves with it."""
    for arg in call.args:
        if arg.taint == "secret":
            yield Finding("net.upload.secret", "", "remote")


NET: Final[dict[str, Program]] = {
    "dig": _asks,
    "host": _asks,
    "http": _httpie,
    "https": _httpie,
    "nc": _nc,
    "ncat": _nc,
    "netcat": _nc,
    "nslookup": _asks,
    "ping": _asks,
    "socat": _socat,
    "openssl": _pipe_out,
    "telnet": _pipe_out,
    "xh": _httpie,
}
