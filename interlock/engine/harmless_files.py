"""What a proof of harmlessness asks of this machine's file system and environment."""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from interlock.engine.analysis.places import is_secret

__all__ = ["FileResolver"]

_MAX_ENTRIES: Final = 50_000  # names below a directory that are looked at; a larger tree cannot be told
_MAX_MATCHES: Final = 1_000  # paths of one glob
_MAX_CONFIG: Final = 256 * 1024  # bytes of one configuration file
_PLAIN_NAME: Final = re.compile(r"[^-\s'\"\\*?\[\]{}~$`!&;|<>()#][^\s'\"\\*?\[\]{}$`!&;|<>()]*")
# Variables that change what a shell, or every program, does. A value of none of them is looked at.
_SHELL: Final = (
    "AWKLIBPATH", "AWKPATH", "BASHOPTS", "BASH_ENV", "BASH_XTRACEFD", "CDPATH", "ENV", "GCONV_PATH", "GLOBIGNORE",
    "GREP", "IFS", "LOCPATH", "MAGIC", "NLSPATH",
    "NODE_OPTIONS", "NODE_PATH", "PERL5LIB", "PERL5OPT", "PERLLIB", "POSIXLY_CORRECT", "PROMPT_COMMAND", "PS4",
    "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "RUBYLIB", "RUBYOPT", "SHELLOPTS", "TEXTDOMAIN", "TEXTDOMAINDIR",
    "ZDOTDIR",
)  # fmt: skip
_SHELL_PREFIXES: Final = (
    "BASH_FUNC_", "DYLD_", "GREP_OPTIONS", "LD_", "LESSCLOSE", "LESSOPEN", "MALLOC_TRACE", "OPENSSL_",
)  # fmt: skip
_PAGER: Final = ("PAGER", "DPKG_PAGER", "LESS", "VISUAL", "EDITOR")
# Programs that others run by their name alone: scripts (zcat, egrep), and what shows its output page by page.
_HELPERS: Final = (
    "basename", "bash", "bzip2", "cat", "cmp", "compress", "diff", "env", "grep", "gunzip", "gzip", "less", "ls",
    "lzip", "lzma", "lzop", "more", "pager", "sed", "sh", "sort", "xz", "zstd",
)  # fmt: skip
# Files (from the home directory) by which a program executes others, beside variables that name a pager.
_FILES: Final = {
    "bat": (".config/bat", "/etc/bat"),
    "pager": (),
    "rpm": (".rpmmacros", ".rpmrc", ".popt", ".config/rpm", ".config/popt"),
}
# Variables by which a program gets options, or other input, that the command does not show.
_VARIABLES: Final = {"rg": ("RIPGREP_CONFIG_PATH",), "tar": ("RSH", "TAPE", "TAR_OPTIONS")}
# Sections and names of git's configuration by which git runs other programs, or reads a file that does.
# More than one section may stand in a line. A URL with a password is a secret that `git remote -v` prints.
_GIT_RUNS: Final = re.compile(
    r"\[\s*(?:include|includeif|pager|pretty|filter|gpg|diff\s+\"|diff\.|extensions|trace2)"
    r"|(?:^|\])[\s\ufeff]*(?:fsmonitor|hookspath|pager|external|textconv|command|driver|attributesfile|worktree"
    r"|showsignature|promisor|partialclonefilter|clean|smudge|process|program|pretty|extraheader)\b"
    r"|://[^/\s@]*:[^/\s@]*@",
    re.I | re.M,
)
# Files in the repository that git runs, or by which its configuration lies elsewhere.
_FOREIGN: Final = (
    "hooks/post-index-change", "hooks/fsmonitor-watchman", "hooks/reference-transaction", "commondir",
)  # fmt: skip


class FileResolver:
    """Answers from the disk as it is now, and from `environ`, the environment that the command will get."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def real(self, path: str) -> str | None:
        """See Resolver."""
        try:
            return os.path.realpath(path)
        except (OSError, ValueError):
            return None

    def expand(self, pattern: str) -> Sequence[str] | None:
        """See Resolver."""
        found: list[str] = []
        try:
            for path in glob.iglob(pattern, include_hidden=True):
                found.append(path)
                if len(found) > _MAX_MATCHES:
                    return None
        except (OSError, ValueError, re.error):
            return None
        return found

    def clean(self, path: str) -> bool:
        """See Resolver."""
        if not os.path.isdir(path):
            return not os.path.exists(path) or os.path.isfile(path)
        top = os.path.realpath(path)
        for entry in _below(top):
            if entry is None or is_secret(entry.path) or is_secret(entry.path.lower()):
                return False
            if entry.path.lower().endswith("/.git/config"):
                return False
            if entry.is_symlink() and not _within(os.path.realpath(entry.path), top):
                return False
        return True

    def names(self, directory: str) -> bool:
        """See Resolver."""
        return all(entry is not None and _PLAIN_NAME.fullmatch(entry.name) for entry in _below(directory))

    def program(self, name: str) -> str | None:
        """See Resolver."""
        path = self._environ.get("PATH", os.defpath)
        if any(not os.path.isabs(part) for part in path.split(os.pathsep)):
            return None  # an empty or relative entry: the working directory is searched
        found = shutil.which(name, path=path)
        return os.path.realpath(found) if found is not None else None

    def plain(self, settings: str, directory: str) -> bool:
        """See Resolver."""
        if settings == "shell":
            odd = any(n in _SHELL or n.startswith(_SHELL_PREFIXES) for n in self._environ)
            return not odd and not any(_within(self.program(n) or "", directory) for n in _HELPERS)
        if settings in _VARIABLES:
            return not any(name in self._environ for name in _VARIABLES[settings])
        if settings in _FILES:
            variables = any(n.endswith("PAGER") or n in _PAGER or n.startswith("BAT_") for n in self._environ)
            home = self._environ.get("HOME", "/")
            moved = settings == "bat" and "XDG_CONFIG_HOME" in self._environ
            return not (moved or variables or any(os.path.lexists(os.path.join(home, n)) for n in _FILES[settings]))
        if settings == "git-tree":
            folder = _git_folder(directory)
            return folder is None or _within(folder, os.path.realpath(directory))
        return settings == "git" and self._plain_git(directory)

    def _plain_git(self, directory: str) -> bool:
        if any(n in _PAGER or n.startswith("GIT_") for n in self._environ):
            return False
        folder = _git_folder(directory)
        if folder is None or any(os.path.lexists(os.path.join(folder, name)) for name in _FOREIGN):
            return False
        if any(e is None or (e.name == ".git" and e.path != folder) for e in _below(os.path.dirname(folder))):
            return False  # a repository inside this one, with a configuration of its own: git status looks into it
        home = self._environ.get("HOME", "")
        base = self._environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
        prefix = os.path.dirname(os.path.dirname(self.program("git") or "/usr/bin/git"))
        files = [os.path.join(prefix, "etc", "gitconfig"), "/etc/gitconfig"]
        files += [os.path.join(folder, "config"), os.path.join(folder, "config.worktree")]
        files += [os.path.join(home, ".gitconfig"), os.path.join(base, "git", "config")]
        return all(_runs_nothing(Path(name)) for name in files)


def _below(directory: str) -> Iterator[os.DirEntry[str] | None]:
    """Every entry below a directory, links not followed; None where it cannot be read or is too large."""
    stack, left = [directory], _MAX_ENTRIES
    while stack:
        try:
            with os.scandir(stack.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        yield None
                        return
                    yield entry
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(entry.path)
        except OSError:
            yield None


def _within(path: str, top: str) -> bool:
    return path == top or path.startswith(top + "/")


def _git_folder(directory: str) -> str | None:
    """The `.git` directory of the checkout that a directory lies in; None where it is none, or lies elsewhere."""
    here = os.path.realpath(directory)
    while True:
        if all(os.path.lexists(os.path.join(here, name)) for name in ("HEAD", "objects", "refs")):
            return None  # for git a repository without a working tree, with its own configuration
        folder = os.path.join(here, ".git")
        if os.path.lexists(folder):
            return folder if os.path.isdir(folder) and not os.path.islink(folder) else None
        parent = os.path.dirname(here)
        if parent == here:
            return None
        here = parent


def _runs_nothing(path: Path) -> bool:
    """Whether a configuration file of git names no program; one that is not there names none."""
    try:
        with path.open("rb") as f:
            text = f.read(_MAX_CONFIG + 1)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return len(text) <= _MAX_CONFIG and not _GIT_RUNS.search(text.decode("utf-8", "replace"))
