"""`interlock install-hook AGENT`: put the guard into a coding agent's settings, and take it out again.

The change is shown first, as a diff, and asked about. What was there before is kept in the state directory, so that
`--uninstall` restores the file byte for byte where nobody changed it since; where somebody did, only our entries go.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import hashlib
import os
import shlex
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import interlock.__main__ as console
from interlock.base.errors import EXIT_OK, EXIT_USAGE, BadInput, InterlockError
from interlock.base.files import BadState, os_reason, private_dir, read_bounded, replace, stamped, unstamped
from interlock.base.settings import home_dir, state_dir
from interlock.base.text import b64, unb64
from interlock.interceptors.hooks import claude_code, settings

__all__ = ["Scope", "hook_command", "register", "scopes"]

Scope = str
_LIMIT: Final = 4 << 20
_BACKUP_FORMAT: Final = "interlock-hook-backup"
_EPILOG: Final = "exit codes: 0 installed (or nothing to do), 2 not installed: the settings file is as it was"


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `install-hook`, and `hook` for the help; the hook itself never gets here (see interlock.__main__)."""
    install = commands.add_parser(
        "install-hook",
        help="guard a coding agent: add the hook to its settings",
        description="Guard a coding agent: add the hook to its settings.",
        epilog=_EPILOG,
    )
    install.add_argument("agent", choices=[claude_code.AGENT], help="the agent to guard")
    place = install.add_mutually_exclusive_group()
    place.add_argument("--settings", type=Path, metavar="FILE", help="the settings file to change")
    place.add_argument("--scope", choices=["user", "project", "local"], default="user", help="default: user")
    install.add_argument("--config", type=Path, metavar="FILE", help="have the hook read this configuration")
    install.add_argument("--yes", action="store_true", help="do not ask")
    install.add_argument("--dry-run", action="store_true", help="show the change, and make none")
    install.add_argument("--uninstall", action="store_true", help="take the hook out again")
    install.set_defaults(run=_install)
    hook = commands.add_parser(
        "hook",
        help="what the agent runs: a payload on stdin, an answer on stdout",
        description="What the agent runs: a payload on stdin, an answer on stdout.",
        epilog="example: interlock hook claude-code < payload.json",
    )
    hook.add_argument("agent", choices=[claude_code.AGENT], help="whose payload it is")
    hook.add_argument("--config", type=Path, metavar="FILE", help="the configuration file")
    hook.set_defaults(run=_no_hook)


def _no_hook(args: argparse.Namespace) -> int:
    raise BadInput("runs only as the first word", where="interlock hook", fix="interlock hook claude-code < payload")


def hook_command(config: Path | None = None) -> str:
    """The command line for a settings file: this Python and this interlock by absolute path, shell-quoted.

    `-I`, so that neither the folder the agent works in nor the environment can put a module in front of ours. The
    configuration is named in the command for the same reason: by --config, or by what INTERLOCK_CONFIG says now.
    """
    config = config or (Path(named) if (named := os.environ.get("INTERLOCK_CONFIG")) else None)
    words = [sys.executable, "-I", os.path.abspath(console.__file__), "hook", claude_code.AGENT]
    if config is not None:
        words += ["--config", os.path.abspath(config)]
    return shlex.join(words)


def scopes() -> dict[Scope, Path]:
    """Where Claude Code reads settings that a user can change: scope -> file."""
    home = os.environ.get("CLAUDE_CONFIG_DIR")
    user = Path(home) if home else home_dir() / ".claude"
    here = Path.cwd() / ".claude"
    return {"user": user / "settings.json", "project": here / "settings.json", "local": here / "settings.local.json"}


@dataclass(frozen=True)
class _File:
    """A settings file as it stands: `data` is None where there is none. `path` follows symbolic links."""

    path: Path
    data: bytes | None
    mode: int

    @property
    def text(self) -> str:
        try:
            return (self.data or b"").decode("utf-8")
        except UnicodeDecodeError as e:
            raise settings.BadSettings(f"is not UTF-8 (byte {e.start})", where=str(self.path)) from None


def _opened(path: Path) -> _File:
    try:
        real = path.resolve()
        if not real.exists():
            if path.is_symlink():
                raise BadInput("is a symbolic link to nothing", where=str(path), fix="remove the link")
            return _File(real, None, 0o600)
        mode = real.stat().st_mode
    except (OSError, RuntimeError) as e:  # RuntimeError: a loop of links, up to Python 3.12
        reason = os_reason(e) if isinstance(e, OSError) else "a loop of symbolic links"
        raise BadInput(f"cannot be read ({reason})", where=str(path)) from None
    if not stat.S_ISREG(mode):
        raise BadInput("is not a file", where=str(path))
    try:
        return _File(real, read_bounded(real, _LIMIT), stat.S_IMODE(mode))
    except BadState as e:
        raise BadInput(e.what, where=str(path)) from None


def _install(args: argparse.Namespace) -> int:
    path = args.settings or scopes()[args.scope]
    file = _opened(path)
    if args.uninstall:
        after = _before_us(file)
    else:
        text = settings.with_hooks(file.text if file.data is not None else "{}\n", hook_command(args.config), str(path))
        after = text.encode("utf-8")
    if after == file.data:
        print(f"{path}: nothing to do")
        return EXIT_OK
    _show(path, file, after)
    if args.dry_run:
        print("dry run: nothing was changed")
        return EXIT_OK
    if not args.yes and not _agreed():
        print("nothing was changed")
        return EXIT_USAGE
    if _opened(path) != file:
        raise BadInput("was changed meanwhile", where=str(path), fix="run this again")
    _uninstalled(file, after) if args.uninstall else _installed(file, after or b"")
    return EXIT_OK


def _show(path: Path, file: _File, after: bytes | None) -> None:
    old, new = (d.decode("utf-8").splitlines(keepends=True) if d is not None else [] for d in (file.data, after))
    names = (str(path) if file.data is not None else os.devnull, str(path) if after is not None else os.devnull)
    for line in difflib.unified_diff(old, new, *names):
        print(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n", end="")


def _agreed() -> bool:
    """Ask at the terminal. Raises: BadInput, where there is nobody to ask."""
    if not sys.stdin.isatty():
        raise BadInput(
            "needs a terminal to ask, and this is none", where="install-hook", fix="read the change above, then --yes"
        )
    try:
        return input("Make this change? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False


def _installed(file: _File, after: bytes) -> None:
    """Keep what was there, then write: a crash in between leaves a backup that nothing refers to, never a change
    that cannot be undone."""
    original = _before_us(file)
    private_dir(state_dir())
    private_dir(_backup(file).parent)
    shown = None if original is None else b64(original)
    body: dict[str, object] = {"path": str(file.path), "original": shown, "installed_sha256": _sha256(after)}
    with _put_back(_backup(file)):
        replace(_backup(file), stamped(_BACKUP_FORMAT, 1, body))
        with contextlib.suppress(FileExistsError):
            _make_parent(file.path)
        replace(file.path, after, mode=file.mode)
    print(f"{file.path}: installed; check with: interlock doctor")


@contextlib.contextmanager
def _put_back(path: Path) -> Iterator[None]:
    """Leave a file as it was where what is done meanwhile fails."""
    before = path.read_bytes() if path.exists() else None
    try:
        yield
    except InterlockError:
        if before is None:
            path.unlink(missing_ok=True)
        else:
            replace(path, before)
        raise


def _make_parent(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True)
    except FileExistsError:
        raise
    except OSError as e:
        raise BadInput(f"cannot be made ({os_reason(e)})", where=str(path.parent)) from None


def _uninstalled(file: _File, after: bytes | None) -> None:
    if after is None:
        file.path.unlink()
    else:
        replace(file.path, after, mode=file.mode)
    _backup(file).unlink(missing_ok=True)
    print(f"{file.path}: the hook is out; the agent is no longer guarded")


def _before_us(file: _File) -> bytes | None:
    """The file without us: the original bytes where it is just as we left it, else the text without our entries."""
    if file.data is None:
        return None
    kept = _kept(file)
    if kept is not None and kept["installed_sha256"] == _sha256(file.data):
        original = kept["original"]
        return None if original is None else unb64(str(original), f"original in {_backup(file)}")
    return settings.without_hooks(file.text, str(file.path)).encode("utf-8")


def _kept(file: _File) -> dict[str, object] | None:
    path = _backup(file)
    if not path.exists():
        return None
    body = unstamped(read_bounded(path, 2 * _LIMIT), _BACKUP_FORMAT, 1, where=str(path))
    if body.get("path") != str(file.path) or not {"original", "installed_sha256"} <= body.keys():
        raise BadState("is damaged", where=str(path), fix="remove it; then only our entries are taken out")
    return body


def _backup(file: _File) -> Path:
    return state_dir() / "hooks" / f"{_sha256(os.fsencode(file.path))}.json"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
