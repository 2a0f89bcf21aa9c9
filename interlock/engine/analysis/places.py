"""Which places are more than files: start-up files, credentials, what sets up an agent or this guard."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from typing import Final

from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.findings import Places
from interlock.engine.analysis.paths import Place
from interlock.engine.analysis.values import HOME, WORK

__all__ = ["AGENT_FOLDERS", "PLACES", "by_place", "is_cache", "is_secret", "protected", "tail"]

_HOME_PREFIX: Final = re.compile(r"^(?:/(?:home|Users)/[^/]+|/root)(?=/|$)")
# Files by which an agent or this guard is set up, as path components that must stand together; globs allowed.
_PROTECTED: Final = tuple(
    tuple(p.split("/"))
    for p in (
        ".claude/settings*.json", ".claude/hooks/*", ".claude.json", "managed-settings.json", "managed-settings.d/*",
        ".codex/hooks.json", ".codex/config.toml", ".gemini/settings.json", ".github/hooks/*", ".copilot/hooks/*",
        ".cursor/hooks.json", "interlock.toml", ".config/interlock", ".local/state/interlock", ".interlock",
        "library/application support/interlock", "interlock-receipts*", "receipts.jsonl",
    )
)  # fmt: skip
_NAMED: Final = re.compile(
    r"claude|managed-settings|codex|gemini|\.github|copilot|cursor|interlock|receipts"
    r"|\.config|\.local",
    re.I,
)
_PLACES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("persist.shell_init", r"^\x01/\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc"
            r"|zprofile|zshenv|zlogin|zlogout|kshrc|cshrc|tcshrc|inputrc|xprofile|xinitrc|xsession"
            r"|pam_environment|config/fish/(config\.fish|conf\.d/.*))$"),
        ("persist.shell_init", r"^/etc/(profile|bash\.bashrc|bashrc|zsh/.*|zshrc|zshenv|profile\.d/.*"
            r"|environment|ld\.so\.preload)$"),
        ("persist.ssh_keys", r"^\x01/\.ssh/(authorized_keys2?|config|rc|environment)$|^/etc/ssh/"),
        ("persist.cron", r"^/etc/(cron[^/]*|anacrontab)(/|$)|^/var/spool/(cron|at)(/|$)"),
        ("persist.service", r"/(LaunchAgents|LaunchDaemons)/|^/etc/(systemd|init\.d|rc\.local|rc\.d)"
            r"|^\x01/\.config/(systemd|autostart)/|^/(usr/)?lib/systemd/"),
        ("persist.git_hook", r"(^|/)\.git/(hooks/[^/.]+|config)$|(^|/)\.husky/[^/]+$|^\x01/\.gitconfig$"),
        ("privilege.account", r"^/etc/(sudoers(\.d/.*)?|passwd|shadow|group|gshadow|doas\.conf|pam\.d/.*)$"),
        ("system.traces", r"^\x01/\.([a-z]+_|z)history$"
            r"|^/var/log/(wtmp|btmp|lastlog|auth\.log|secure|syslog|messages|kern\.log|system\.log|audit/.*)$"),
    )
)  # fmt: skip
_SECRETS: Final = re.compile(
    r"^\x01/\.(?:ssh|aws|gnupg|azure|kube|config/gcloud)/?$|"
    r"^\x01/(\.ssh/(id_[^/]*|[^/]*\.pem|identity)|\.aws/(credentials|sso/.*|cli/cache.*)|\.netrc|\.pgpass|\.my\.cnf|\.git-credentials"
    r"|\.docker/config\.json|\.kube/config|\.gnupg/.*|\.config/gcloud/.*|\.azure/.*|\.npmrc|\.pypirc|\.vault-token|\.config/gh/hosts\.yml"
    r"|\.config/op/.*|\.cargo/credentials(\.toml)?|Library/Keychains/.*|(?:\.config"
    r"|Library/Application Support)/(?:google-chrome|chromium|Google/Chrome|BraveSoftware)/.*(?:Login Data"
    r"|Cookies)|\.mozilla/firefox/.*(?:logins\.json|key4\.db|cookies\.sqlite)|\.local/share/keyrings/.*)$"
    r"|^/etc/g?shadow$|^/proc/[^/]+/environ$"
    r"|(^|/)(\.env(\.(local|prod|production|staging|development|dev|test))?|credentials\.json|service-account[^/]*\.json|id_(rsa|dsa|ecdsa|ed25519))$"
)
_CACHES: Final = re.compile(
    r"^\x01/(?:\.cache/.+|\.npm/_.+|Library/Caches/.+|\.gradle/caches.*|\.m2/repository.*|\.cargo/registry.*|go/pkg/mod.*"
    r"|\.local/share/Trash/.+|\.pytest_cache.*|\.yarn/cache.*|\.pnpm-store.*)$"
)
_SYSTEM_FILES: Final = ("/etc", "/usr", "/bin", "/sbin", "/lib", "/boot", "/proc", "/sys", "/System")
AGENT_FOLDERS: Final = (".claude", ".codex", ".gemini", ".copilot", ".cursor", ".interlock", "interlock")


def tail(path: str) -> str:
    """The path with a home directory written as the mark, however it was named."""
    return _HOME_PREFIX.sub(HOME, path)


def is_secret(path: str) -> bool:
    """Whether the file is one where credentials live."""
    return bool(_SECRETS.search(tail(path)))


def protected(path: str, *, glob: bool, takes_parents: bool) -> bool:
    """Whether the path is, or by its globs could be, a file that sets up an agent or this guard."""
    if not glob and not _NAMED.search(path):
        return False
    parts = [p.lower() for p in path.split("/") if p not in ("", HOME, WORK)]
    return any(_matches(parts, wanted, glob, takes_parents) for wanted in _PROTECTED)


def _matches(parts: list[str], wanted: tuple[str, ...], glob: bool, takes_parents: bool) -> bool:
    for start in range(len(parts)):
        pairs = list(zip(parts[start : start + len(wanted)], wanted, strict=False))
        if not all(_alike(p, w, glob) for p, w in pairs):
            continue
        if len(pairs) == 1 and wanted[0] == "library":  # `lib*` says too little
            continue
        only_globs = glob and all(set(p) <= set("*?.") for p, w in pairs if w != "*")  # any name says nothing
        if not only_globs and (len(pairs) == len(wanted) or (takes_parents and start + len(pairs) == len(parts))):
            return True
    return False


def _alike(part: str, wanted: str, glob: bool) -> bool:
    if fnmatch.fnmatchcase(part, wanted):
        return True
    return glob and fnmatch.fnmatchcase(wanted.replace("*", "x"), part)


def is_cache(path: str) -> bool:
    """Whether the path is a cache that programs fill again."""
    return bool(_CACHES.match(tail(path)))


def by_place(path: str) -> list[str]:
    """The intents that a change of the file at this place has."""
    short = tail(path)
    return [name for name, pattern in _PLACES if pattern.search(short)]


def _write(where: Place, append: bool) -> Iterator[Finding]:
    """Any write: what kind of file that is."""
    path = where.path
    if protected(path, glob="*" in path or "?" in path, takes_parents=False):
        yield Finding("self.protect.config", path, where.scope)
    for name in by_place(path):
        yield Finding(name, path, where.scope)
    inside = path.startswith(_SYSTEM_FILES) and not path.startswith("/proc/self/fd/")  # what is open already
    if (where.scope == "system" and where.whole and inside) or (where.scope == "root" and where.whole and not append):
        yield Finding("fs.write.system", path, where.scope)


def _read(where: Place) -> Iterator[Finding]:
    """Any read."""
    yield Finding("fs.read", where.path, where.scope)
    if is_secret(where.path) and not where.path.endswith(".pub"):
        yield Finding("secret.read", where.path, where.scope)


PLACES: Final = Places(_write, _read)
