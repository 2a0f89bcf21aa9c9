"""Programs that run the command in their arguments, as data: which options take a value, what stands before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["DOCKER_LONG", "WRAPPER_TABLE", "Wrapper"]


class Wrapper(NamedTuple):
    """`short`, `long`: options with a value. `skip`: operands before the command. `assigns`: `A=1` may stand before it.

    `words`: subcommands that must come first (`uv run`). `code`: options whose value is shell code. `joined`: the
    command's words are joined and read by a shell. `finding`: an intent of the wrapper itself.
    """

    short: str = ""
    long: Sequence[str] = ()
    skip: int = 0
    assigns: bool = False
    words: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    joined: bool = False
    finding: str = ""
    shells: tuple[str, ...] = ()  # options that start a shell


_SUDO_LONG: Final = (
    "--user",
    "--group",
    "--host",
    "--prompt",
    "--chdir",
    "--chroot",
    "--role",
    "--type",
    "--close-from",
    "--other-user",
    "--command-timeout",
)
DOCKER_LONG: Final = (
    "--name", "--volume", "--mount", "--env", "--env-file", "--network", "--net", "--publish", "--user", "--workdir",
    "--entrypoint", "--hostname", "--label", "--memory", "--cpus", "--pid", "--ipc", "--gpus", "--device", "--cap-add",
    "--cap-drop", "--security-opt", "--restart", "--platform", "--add-host", "--dns", "--tmpfs", "--shm-size",
        "--ulimit",
    "--userns", "--uts", "--log-driver", "--link", "--runtime", "--pull", "--volumes-from", "--ip", "--mac-address",
    "--context", "--host", "--config", "--log-level", "--file", "--project-name", "--profile", "--index",
        "--detach-keys",
)  # fmt: skip

WRAPPER_TABLE: Final[dict[str, Wrapper]] = {
    "asdf": Wrapper(words=("exec",)),
    "aws-vault": Wrapper(words=("exec",), skip=1),
    "bundle": Wrapper(words=("exec",)),
    "bunx": Wrapper(),
    "busybox": Wrapper(),
    "caffeinate": Wrapper("tw"),
    "cgexec": Wrapper("g"),
    "chronic": Wrapper(),
    "chroot": Wrapper(long=("--userspec", "--groups"), skip=1),
    "chrt": Wrapper("TPD", skip=1),
    "conda": Wrapper("np", ("--name", "--prefix"), words=("run",)),
    "mamba": Wrapper("np", ("--name", "--prefix"), words=("run",)),
    "micromamba": Wrapper("np", ("--name", "--prefix"), words=("run",)),
    "hatch": Wrapper("e", ("--env",), words=("run",)),
    "pdm": Wrapper("p", ("--project",), words=("run",)),
    "pixi": Wrapper("e", ("--environment", "--manifest-path"), words=("run", "exec")),
    "railway": Wrapper("se", ("--service", "--environment"), words=("run",)),
    "coproc": Wrapper(),
    "cpulimit": Wrapper("lpeP"),
    "dbus-run-session": Wrapper(),
    "direnv": Wrapper(words=("exec",), skip=1),
    "doas": Wrapper("uC", finding="privilege.escalate", shells=("-s",), assigns=True),
    "dotenv": Wrapper("fe"),
    "env": Wrapper("uCSP", ("--unset", "--chdir", "--split-string", "--argv0"), assigns=True, code=("-S",
        "--split-string")),
    "entr": Wrapper(),
    "fakechroot": Wrapper(),
    "fakeroot": Wrapper("lsibu"),
    "firejail": Wrapper(),
    "flock": Wrapper("wE", ("--timeout", "--wait", "--conflict-exit-code", "--command"), 1, code=("-c", "--command")),
    "gosu": Wrapper(skip=1),
    "heroku": Wrapper("ase", ("--app", "--size", "--type", "--env"), words=("run", "run:detached",
        "local:run"), joined=True),
    "hyperfine": Wrapper("wmrMpScn", ("--warmup", "--min-runs", "--max-runs", "--runs", "--prepare", "--export-json",
        "--export-markdown"), code=("-p", "--prepare", "-S"), joined=True),
    "ionice": Wrapper("cnpPu", ("--class", "--classdata")),
    "ltrace": Wrapper("eopsnu"),
    "mise": Wrapper(words=("exec",)),
    "nice": Wrapper("n", ("--adjustment",)),
    "nix-shell": Wrapper("pIA", code=("--run", "--command"), long=("--run", "--command"), words=("",)),
    "nocorrect": Wrapper(),
    "noglob": Wrapper(),
    "nohup": Wrapper(),
    "nsenter": Wrapper("tSG", ("--target",), finding="container.privileged"),
    "numactl": Wrapper("NmCip"),
    "npm": Wrapper("c", ("--package", "--call"), words=("exec", "x"), code=("-c", "--call")),
    "npx": Wrapper("pc", ("--package", "--call"), code=("-c", "--call")),
    "perf": Wrapper("eopC", words=("stat", "record", "trace")),
    "pipenv": Wrapper(words=("run",)),
    "pipx": Wrapper(long=("--spec", "--python"), words=("run",)),
    "pkexec": Wrapper(long=("--user",), finding="privilege.escalate"),
    "pnpm": Wrapper("C", words=("exec", "dlx")),
    "poetry": Wrapper("C", words=("run",)),
    "prlimit": Wrapper("p"),
    "proot": Wrapper("rbwqk"),
    "proxychains": Wrapper("f"),
    "proxychains4": Wrapper("f"),
    "rbenv": Wrapper(words=("exec",)),
    "rlwrap": Wrapper("abcCDefFgHlmMNopPqrsSt"),
    "runuser": Wrapper("ucgGs", ("--user", "--command", "--group", "--shell"), code=("-c", "--command"),
        finding="privilege.escalate"),
    "rye": Wrapper(words=("run",)),
    "screen": Wrapper("cehpsSTt"),
    "script": Wrapper("cEIoOT", ("--command",), 1, code=("-c", "--command")),
    "setarch": Wrapper(skip=1),
    "setpriv": Wrapper(long=("--reuid", "--regid", "--groups", "--init-groups")),
    "setsid": Wrapper(),
    "sg": Wrapper("c", skip=1, code=("-c",), joined=True),
    "shx": Wrapper(),
    "sshpass": Wrapper("pfdP"),
    "start-stop-daemon": Wrapper("xpuanc", ("--exec", "--startas", "--pidfile", "--user"), words=("",),
        code=("--exec", "-x", "--startas", "-a")),
    "stdbuf": Wrapper("ioe", ("--input", "--output", "--error")),
    "strace": Wrapper("eopsPuEaIOSXb"),
    "su": Wrapper("cgsGwT", ("--command", "--shell", "--group"), words=("",), code=("-c", "--command"),
        finding="privilege.escalate"),
    "sudo": Wrapper("ugpCThrtUDR", _SUDO_LONG, assigns=True, finding="privilege.escalate", shells=("-s", "-i",
        "--shell", "--login")),
    "systemd-inhibit": Wrapper(long=("--what", "--who", "--why", "--mode")),
    "systemd-run": Wrapper("uptHME", ("--unit", "--property", "--slice", "--uid", "--gid", "--setenv")),
    "taskset": Wrapper("p", skip=1),
    "time": Wrapper("fo", ("--format", "--output")),
    "timeout": Wrapper("ks", ("--kill-after", "--signal"), 1),
    "torify": Wrapper(),
    "torsocks": Wrapper(),
    "toybox": Wrapper(),
    "ts-node": Wrapper(words=("",)),
    "unbuffer": Wrapper(),
    "unshare": Wrapper("SGRw", ("--root", "--wd", "--setuid", "--setgid")),
    "uv": Wrapper("p", ("--with", "--python", "--directory", "--project", "--extra", "--group"), words=("run",)),
    "uvx": Wrapper(long=("--from", "--with", "--python")),
    "valgrind": Wrapper(),
    "watch": Wrapper("nq", ("--interval",), joined=True),
    "xvfb-run": Wrapper("nsefpw", ("--server-num", "--server-args")),
    "yarn": Wrapper(words=("exec", "dlx")),
}  # fmt: skip
