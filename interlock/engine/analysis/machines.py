"""Programs that run the command in their arguments on another machine or in a container."""

from __future__ import annotations

import re
from typing import Final

from interlock.engine.analysis.options import Options, split
from interlock.engine.analysis.shell_run import Call, Handler, Walk
from interlock.engine.analysis.supposed import suppose
from interlock.engine.analysis.values import HOME, UNKNOWN, UNKNOWN_ARG, Arg
from interlock.engine.analysis.wrapper_table import DOCKER_LONG

__all__ = ["MACHINES"]


def _ssh(walk: Walk, call: Call) -> Arg | None:
    opts = split(call.args, "bcDeEFIiJLlmopQRSWw", leading=True)
    _ssh_options(walk, opts)
    command = list(opts.operands[1:])
    code = Arg(" ".join(a.text for a in command)) if command else call.stdin
    if code is None or not code.text:
        return None
    if not code.known and code.taint in ("decoded", "net", "text"):
        walk.unreadable(code, "ssh")
    cwd, walk.env.cwd = walk.env.cwd, HOME
    out = walk.code(code, "ssh", call.stdin if command else None) if code.known or command else UNKNOWN_ARG
    walk.env.cwd = cwd
    return out if out.known else Arg(UNKNOWN, taint="net")


def _ssh_options(walk: Walk, opts: Options) -> None:
    """Commands that ssh and its like run on this machine."""
    for name, value in opts.given:
        m = _SSH_COMMAND.match(value.text) if name == "-o" else None
        if m and m.group(1) != "none":
            walk.code(Arg(m.group(1)), "ssh")


_SSH_COMMAND: Final = re.compile(r"(?:proxycommand|localcommand|knownhostscommand)[= ]\s*(.+)", re.I)


def _copied(walk: Walk, call: Call) -> Arg | None:
    """scp, sftp: the options of ssh, `-S` and `-D` programs, and sftp's own lines."""
    opts = split(call.args, "bcDFiJloPRSX", leading=True)
    _ssh_options(walk, opts)
    for name, value in opts.given:
        if name in ("-S", "-D") and " " in value.text:
            walk.code(value, call.program)
    if call.program == "sftp":
        suppose(walk, call, known=True)
    return None


def _container(walk: Walk, call: Call) -> Arg | None:
    """docker, podman, nerdctl: exec and run; compose exec and run."""
    opts = split(call.args, "HDlcfp", DOCKER_LONG, leading=True)
    rest = list(opts.operands)
    while rest and rest[0].text in ("compose", "container"):
        walk.env.spend(8 * len(rest))
        rest = list(split(rest[1:], "fp", DOCKER_LONG, leading=True).operands)
    if rest and call.program == "podman" and rest[0].text == "unshare":
        return walk.execute(list(split(rest[1:], leading=True).operands), call.stdin, functions=False)
    if len(rest) > 1 and rest[0].text == "machine" and rest[1].text == "ssh":
        return walk.execute([Arg("ssh"), *split(rest[2:], leading=True).operands], call.stdin, functions=False)
    if not rest or rest[0].text not in ("exec", "run"):
        return None
    inner = split(rest[1:], "vepuwlhmac", DOCKER_LONG, leading=True)
    command = list(inner.operands[1:])
    entry = inner.values.get("--entrypoint")
    if entry is not None and entry.text:
        command.insert(0, entry)
    return _inside(walk, command, call.stdin)


def _composed(walk: Walk, call: Call) -> Arg | None:
    return _container(walk, call._replace(args=(Arg("compose"), *call.args)))


def _inside(walk: Walk, command: list[Arg], stdin: Arg | None) -> Arg | None:
    if not command:
        return None
    cwd, walk.env.cwd = walk.env.cwd, "/work" + UNKNOWN
    walk.execute(command, stdin, functions=False)
    walk.env.cwd = cwd
    return UNKNOWN_ARG


_KUBECTL_LONG: Final = ("--namespace", "--container", "--context", "--kubeconfig", "--shell")


def _kubectl(walk: Walk, call: Call) -> Arg | None:
    texts = [a.text for a in call.args]
    if "--" not in texts:
        start = next((k for k, t in enumerate(texts) if t in ("exec", "rsh", "ssh")), len(texts))
        rest = split(call.args[start + 1 :], "cnlf", _KUBECTL_LONG, leading=True).operands
        return _inside(walk, list(rest[1:]), call.stdin)
    return _inside(walk, list(call.args[texts.index("--") + 1 :]), call.stdin)


MACHINES: Final[dict[str, Handler]] = {
    "docker": _container,
    "docker-compose": _composed,
    "kubectl": _kubectl,
    "nerdctl": _container,
    "oc": _kubectl,
    "podman": _container,
    "scp": _copied,
    "sftp": _copied,
    "ssh": _ssh,
}
