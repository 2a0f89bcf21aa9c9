"""What network programs fetch, send and open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.options import Options, split
from interlock.engine.analysis.programs_files import deleted, filled, is_secret
from interlock.engine.analysis.shell_run import Call, Program, Walk
from interlock.engine.analysis.values import UNKNOWN, Arg

__all__ = ["NET", "SECRET_COMMANDS", "uploads"]

_LOCAL: Final = re.compile(
    r"^(?:\w+://)?(?:[^/@]*@)?(?:localhost|127\.\d+\.\d+\.\d+|\[::1\]|0\.0\.0\.0|host\.docker\.internal)(?=[:/]|$)",
    re.I,
)
_METADATA: Final = re.compile(
    r"169\.254\.16[9]\.254|169\.254\.170\.2\b|metadata\.google\.internal"
    r"|100\.100\.100\.200|fd00:ec2::254",
    re.I,
)
_REMOTE: Final = re.compile(r"^(?:[\w.-]+@)?[\w.\[\]:-]*[\w\]-]:(?!\\)|^rsync://|^scp://|^sftp://")
_HOST: Final = re.compile(r"^(?:\w+://)?(?:[^/@\s]*@)?([^/:?#\s]+)")
_CURL_LONG: Final = (
    "--data", "--data-raw", "--data-binary", "--data-urlencode", "--data-ascii", "--json", "--form", "--form-string",
    "--upload-file", "--request", "--header", "--output", "--user", "--user-agent", "--cookie", "--cookie-jar", "--url",
    "--proxy", "--connect-timeout", "--max-time", "--retry", "--cacert", "--cert", "--key", "--write-out", "--resolve",
    "--referer", "--range", "--config", "--output-dir", "--limit-rate", "--retry-delay", "--interface", "--unix-socket",
)  # fmt: skip
_CURL_DATA: Final = (
    "-d",
    "--data",
    "--data-raw",
    "--data-binary",
    "--data-urlencode",
    "--data-ascii",
    "--json",
    "-F",
    "--form",
    "--form-string",
    "-T",
    "--upload-file",
)
_WGET_LONG: Final = (
    "--post-data",
    "--post-file",
    "--body-data",
    "--body-file",
    "--method",
    "--output-document",
    "--header",
    "--user",
    "--password",
    "--directory-prefix",
    "--output-file",
    "--tries",
    "--timeout",
    "--user-agent",
    "--input-file",
)


def _fetched(urls: list[Arg]) -> Iterator[Finding]:
    for url in urls:
        if _METADATA.search(url.text):
            yield Finding("net.metadata", _host(url.text), "cloud")
        yield Finding("net.fetch", _host(url.text), "worktree" if _LOCAL.match(url.text) else "remote")
        if url.taint == "secret":
            yield Finding("net.upload.secret", _host(url.text), "remote")


def _host(text: str) -> str:
    m = _HOST.match(text)
    return m.group(1) if m else text


def _curl(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "dFTXHouAebcCxmrKwUEDtyYzQP", _CURL_LONG)
    if opts.has("--help", "--version", "-V", "--manual"):
        return
    urls = [a for a in opts.operands if a.text] + ([opts.values["--url"]] if "--url" in opts.values else [])
    yield from _fetched(urls)
    yield from _sent(walk, call, _curl_data(call.args), urls)
    yield from _deleted_there(opts.values.get("-X") or opts.values.get("--request"), urls)
    target = opts.values.get("-o") or opts.values.get("--output")
    if target is None and opts.has("-O", "--remote-name") and urls:
        target = Arg(urls[0].text.rpartition("/")[2] or "index.html")
    _saved(walk, target, call.program)
    config = opts.values.get("-K")
    if config is not None:
        walk.read(config, "curl")


def _deleted_there(method: Arg | None, urls: list[Arg]) -> Iterator[Finding]:
    if method is not None and method.text.upper() == "DELETE":
        for url in urls:
            yield Finding("net.delete", _host(url.text), "worktree" if _LOCAL.match(url.text) else "remote")


def _curl_data(args: tuple[Arg, ...]) -> list[tuple[str, Arg]]:
    """Every data option with its value, repeated ones too."""
    found: list[tuple[str, Arg]] = []
    for k, arg in enumerate(args):
        name, equals, value = arg.text.partition("=")
        if name in _CURL_DATA and equals and name.startswith("--"):
            found.append((name, arg._replace(text=value)))
        elif arg.text in _CURL_DATA and k + 1 < len(args):
            found.append((arg.text, args[k + 1]))
        elif re.match(r"-[sSfkLiv]*[dFT]", arg.text) and not arg.text.startswith("--"):
            cut = re.match(r"-[sSfkLiv]*([dFT])(.*)", arg.text, re.S)
            assert cut is not None  # by the test above
            value_arg = arg._replace(text=cut.group(2)) if cut.group(2) else args[k + 1] if k + 1 < len(args) else None
            if value_arg is not None:
                found.append(("-" + cut.group(1), value_arg))
    return found


def _sent(walk: Walk, call: Call, data: list[tuple[str, Arg]], urls: list[Arg]) -> Iterator[Finding]:
    """What leaves with a request: the data, and files that it names."""
    if not data:
        return
    host = _host(urls[0].text) if urls else ""
    local = bool(urls) and all(_LOCAL.match(u.text) for u in urls)
    if not local:
        yield Finding("net.upload", host, "remote")
    for name, value in data:
        secret = value.taint == "secret"
        if name in ("-T", "--upload-file"):
            secret = secret or _reads_secret(walk, call, value.text)
        elif "@" in value.text and not name.endswith(("raw", "string")):
            path = value.text.rpartition("@")[2].split(";")[0]
            secret = secret or _reads_secret(walk, call, path)
        if secret and not local:
            yield Finding("net.upload.secret", host, "remote")


def _reads_secret(walk: Walk, call: Call, path: str) -> bool:
    if path in ("-", "."):
        return call.stdin is not None and call.stdin.taint == "secret"
    walk.read(Arg(path), call.program)
    return is_secret(walk.place(Arg(path)).path)


def _saved(walk: Walk, target: Arg | None, program: str) -> None:
    if target is not None and target.text not in ("-", "/dev/null", "/dev/stdout"):
        walk.written(target, program)
        walk.remember(target, Arg(UNKNOWN, taint="net"))


def _wget(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "OPoUtTiaeQDAXIRl", _WGET_LONG)
    if opts.has("--help", "--version", "-V"):
        return
    urls = list(opts.operands)
    yield from _fetched(urls)
    data = [("--data", opts.values[o]) for o in ("--post-data", "--body-data") if o in opts.values]
    data += [("-T", opts.values[o]) for o in ("--post-file", "--body-file") if o in opts.values]
    yield from _sent(walk, call, data, urls)
    yield from _deleted_there(opts.values.get("--method"), urls)
    target = opts.values.get("-O") or opts.values.get("--output-document")
    if target is None and urls:
        target = Arg(urls[0].text.rpartition("/")[2] or "index.html")
    _saved(walk, target, "wget")


def _httpie(walk: Walk, call: Call) -> Iterator[Finding]:
    given = split(call.args, "ao").operands
    operands = [a for a in given if a.text.upper() not in ("GET", "POST", "PUT", "PATCH", "DELETE")]
    yield from _fetched(operands[:1])
    yield from _deleted_there(next((a for a in given[:1] if a.text == "DELETE"), None), operands[:1])
    files = [a.text.partition("@")[2] for a in operands[1:] if re.match(r"[\w-]*=?@", a.text)]
    yield from _sent(walk, call, [("-T", Arg(f)) for f in files], operands[:1])


def _nc(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(call.args, "ecpwsqXxiIOTmoGL", ("--exec", "--sh-exec"))
    if opts.has("-e", "-c", "--exec", "--sh-exec") or (call.stdin is not None and call.stdin.taint == "shell"):
        yield Finding("net.reverse_shell", opts.operands[0].text if opts.operands else "", "remote")
    host = opts.operands[0].text if opts.operands else ""
    if opts.has("-z", "-l", "--listen") or not host:
        return
    if call.stdin is not None and not _LOCAL.match(host):
        yield Finding("net.upload", host, "remote")
        if call.stdin.taint == "secret":
            yield Finding("net.upload.secret", host, "remote")


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
    "aria2c": lambda walk, call: _fetched(list(split(call.args, "dosxjkU").operands)),
    "curl": _curl,
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
    "wget": _wget,
    "xh": _httpie,
}
