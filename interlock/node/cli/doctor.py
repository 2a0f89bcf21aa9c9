"""`interlock doctor`: what is guarded on this machine, what is not, and what to do about it.

Each row is one check. A canary goes through the very command that stands in the agent's settings: a payload that
must be denied (text only; nothing is run) and one that must pass.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock._approvals import HookQueue
from interlock._install import install
from interlock.base.errors import InterlockError, one_line
from interlock.base.files import BadState, os_reason, read_bounded
from interlock.engine.ambient import installed
from interlock.engine.policy.builtins import PREFIX, builtin, read_policy_file
from interlock.engine.policy.check import check_document
from interlock.engine.policy.document import parse_document
from interlock.engine.posture import attest
from interlock.engine.sinks import FileSink, NullSink, verify_file
from interlock.interceptors.hooks import settings
from interlock.interceptors.hooks.entry import guard_settings, put_in_force
from interlock.native.availability import availability
from interlock.node.cli.hook import hook_command, scopes
from interlock.node.cli.rows import Row, Status, report_rows

__all__ = ["Provider", "checks", "register"]

Provider = Callable[[str | None], Iterable[Row]]  # from the --config argument to rows

_LIMIT: Final = 4 << 20
_CANARY_SECONDS: Final = 20
_FAIL_CLOSED_SINCE: Final = (2, 1, 332)  # measured: 2.1.197 ignores onFailure, this version honours it
_MANAGED: Final = (
    Path("/etc/claude-code/managed-settings.json"),
    Path("/Library/Application Support/ClaudeCode/managed-settings.json"),
)
# variables that change what a hook's own process runs; the agent hands `env` of its settings on to hooks
_STEERING: Final = ("LD_", "DYLD_", "GLIBC_", "PYTHON", "INTERLOCK_")
# setting -> what it does to the hook where it is true
_DISABLING: Final = {
    "disableAllHooks": "no hook runs",
    "allowManagedHooksOnly": "only hooks of the managed settings run",
    "strictPluginOnlyCustomization": "hooks of settings files may not run",
}


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser], more: Sequence[Provider] = ()) -> None:
    """Add `doctor`; `more` are the checks of other rooms, after ours."""
    parser = commands.add_parser(
        "doctor",
        help="see what is guarded, and what is not",
        description="See what is guarded, and what is not.",
        epilog="example: interlock doctor --json",
    )
    parser.add_argument("--config", metavar="FILE", help="the configuration file")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")

    def run(args: argparse.Namespace) -> int:
        return report_rows(list(checks(args.config, more)), as_json=args.json)

    parser.set_defaults(run=run)


def checks(config: str | None, more: Sequence[Provider] = ()) -> Iterator[Row]:
    """All rows; a check that fails in a way it did not expect is a row too.

    A configuration that cannot be used is said once: until it is put right every guarded call is refused.
    """
    try:
        guard_settings(config)
    except InterlockError as e:
        yield _failed("configuration", e)
        return
    for provider in (_python, _policy, _receipts, _posture, _agent, _hook, *more):
        try:
            yield from provider(config)
        except InterlockError as e:
            yield _failed(provider.__name__.strip("_"), e)
        except OSError as e:
            yield Row(provider.__name__.strip("_"), "fail", f"{e.filename or 'the system'}: {os_reason(e)}")


def _failed(check: str, e: InterlockError) -> Row:
    return Row(check, "fail", f"{e.where}: {e.what}" if e.where else e.what, e.fix)


def _python(config: str | None) -> Iterator[Row]:
    version = platform.python_version()
    if sys.platform == "win32":
        yield Row("python", "warn", version, "on Windows the guard and the hook are untested")
    else:
        yield Row("python", "ok", f"{version} on {platform.system()}")


def _policy(config: str | None) -> Iterator[Row]:
    name = guard_settings(config).policy
    try:
        install(policy=name, sink=NullSink())
    except InterlockError as e:
        yield _failed("policy", e)
        return
    policy = installed().live.current
    yield Row("policy", "ok", f"{name}: {len(policy.rules)} rules, digest {policy.digest[:16]}")
    if not name.startswith("mesh:"):
        yield _examples(name)
    yield Row("evaluator", "ok", availability().sentence)


def _examples(name: str) -> Row:
    data = builtin(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else read_policy_file(Path(name))
    report = check_document(parse_document(data, where=name))
    if report.ok:
        return Row("examples", "ok", f"{len(report.rows)} examples of its own rules hold")
    first = report.failures[0]
    failed = f"{len(report.failures)} of {len(report.rows)} do not hold; {first.rule}: {first.problem}"
    return Row("examples", "fail", failed, f"interlock policy test {name}")


def _receipts(config: str | None) -> Iterator[Row]:
    path = guard_settings(config).receipts
    try:
        FileSink(path)
        seen = verify_file(path)
    except InterlockError as e:
        yield _failed("receipts", e)
        return
    yield Row("receipts", "ok", f"{path}: {seen.count} receipts, chain holds")


def _posture(config: str | None) -> Iterator[Row]:
    """What weakens the guard that a hook installs: a warning each, since its operator may have chosen it."""
    put_in_force(guard_settings(config), install, HookQueue)
    rows = attest(installed())
    yield from (Row(f"posture {row.name}", "warn", f"{row.value}: {row.weakens}") for row in rows if row.weakens)
    yield Row("posture", "ok", f"in order: {', '.join(row.name for row in rows if not row.weakens)}")


def _agent(config: str | None) -> Iterator[Row]:
    program = shutil.which("claude")
    if program is None:
        yield Row("agent", "warn", "claude is not on the PATH", "nothing to do where it runs elsewhere")
        return
    text = _run([program, "--version"], b"", 10).out.decode("utf-8", "replace")
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    if found is None:
        yield Row("agent", "warn", f"{program} does not tell its version")
    elif tuple(map(int, found.groups())) < _FAIL_CLOSED_SINCE:
        yield Row("agent", "warn", f"Claude Code {found.group()}", "update it: older ones go on when a hook times out")
    else:
        yield Row("agent", "ok", f"Claude Code {found.group()}")


def _hook(config: str | None) -> Iterator[Row]:
    found: list[str] = []
    for path in dict.fromkeys(p.resolve() for p in (*scopes().values(), *_MANAGED)):
        text = _text(path)
        if text is None:
            continue
        ours = settings.commands(text, str(path))
        for event, hooks in ours.items():
            found += [str(h["command"]) for h in hooks]
            yield from (_entry(path, event, h) for h in hooks)
        yield from _disabled(path, settings.parsed(text, str(path)), own_hooks=any(ours.values()))
    if not found:
        yield Row("hook", "warn", "not installed in any settings file", "interlock install-hook claude-code")
    for command in dict.fromkeys(found) or [hook_command(Path(config) if config else None)]:
        yield from _canary(command)


def _text(path: Path) -> str | None:
    """A settings file's text, None where there is none. Raises: BadState."""
    try:
        if not path.exists():
            return None
        return read_bounded(path, _LIMIT).decode("utf-8")
    except UnicodeDecodeError:
        raise BadState("is not UTF-8", where=str(path)) from None
    except OSError as e:
        raise BadState(f"cannot be read ({os_reason(e)})", where=str(path)) from None


def _entry(path: Path, event: str, hook: dict[str, object]) -> Row:
    again = "interlock install-hook claude-code, again"
    if hook.get("onFailure") != "block":
        return Row(f"hook {event}", "fail", f"{path}: a failed hook lets the call go on", again)
    if hook.get("async"):
        return Row(f"hook {event}", "fail", f"{path}: runs beside the call, not before it", again)
    if hook.get("if") or hook.get("timeout") != settings.TIMEOUT_SECONDS:
        return Row(f"hook {event}", "warn", f"{path}: not as it was installed", again)
    return Row(f"hook {event}", "ok", str(path))


def _disabled(path: Path, values: dict[str, object], *, own_hooks: bool) -> Iterator[Row]:
    for key, effect in _DISABLING.items():
        if values.get(key) and not (own_hooks and key == "allowManagedHooksOnly" and path in _MANAGED):
            status: Status = "warn" if key == "strictPluginOnlyCustomization" else "fail"
            yield Row("settings", status, f"{path} sets {key}: {effect}", "remove it, or install the hook there")
    env = values.get("env")
    for name in env if isinstance(env, dict) else ():
        if name.upper().startswith(_STEERING):
            yield Row("settings", "fail", f"{path} sets {one_line(name, 60)} for hooks", "remove it from env")


def _canary(command: str) -> Iterator[Row]:
    """Fire both payloads through a command just as the agent runs it: by the shell."""
    done = _fired(command, "rm -rf /")
    denied = done.code == 0 and b'"permissionDecision":"deny"' in done.out
    yield _canary_row(
        "canary deny", denied, "a destructive command is denied", "a destructive command is not denied", command, done
    )
    done = _fired(command, "git status")
    passed = done.code == 0 and done.out == b""
    yield _canary_row("canary allow", passed, "a plain command passes", "a plain command does not pass", command, done)


def _canary_row(check: str, ok: bool, good: str, bad: str, command: str, done: _Done) -> Row:
    if ok:
        return Row(check, "ok", good)
    said = one_line(done.err.decode("utf-8", "replace"), 200)
    detail = f"{bad} (exit code {done.code}) by {one_line(command, 200)}"
    return Row(check, "fail", f"{detail}: {said}" if said else detail, "put right what it says; then doctor again")


def _fired(command: str, text: str) -> _Done:
    """Run a hook command with a payload for a shell command, which is text to it and never run."""
    payload = {
        "hook_event_name": "PreToolUse",
        "session_id": "interlock-doctor",
        "tool_name": "Bash",
        "tool_input": {"command": text},
        "tool_use_id": "canary",
        "cwd": str(Path.cwd()),
    }
    return _run(["/bin/sh", "-c", command], json.dumps(payload).encode(), _CANARY_SECONDS)


@dataclass(frozen=True)
class _Done:
    """How a program ended; -1 where it did not start, or not in time."""

    code: int
    out: bytes = b""
    err: bytes = b""


def _run(words: list[str], stdin: bytes, seconds: float) -> _Done:
    try:
        done = subprocess.run(words, input=stdin, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return _Done(-1, err=f"no answer within {seconds:g} seconds".encode())
    except OSError as e:
        return _Done(-1, err=os_reason(e).encode())
    return _Done(done.returncode, done.stdout, done.stderr)
