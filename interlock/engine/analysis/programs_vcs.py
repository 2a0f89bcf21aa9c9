"""What git and GitHub commands would lose or push."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from interlock.engine.analysis.effects import Finding
from interlock.engine.analysis.options import split
from interlock.engine.analysis.places import is_secret
from interlock.engine.analysis.shell_run import Call, Program, Walk

__all__ = ["VCS"]


def _elsewhere(walk: Walk, call: Call) -> Iterator[Finding]:
    """A push to a remote that was changed by the same command line."""
    if any(a.text == "push" for a in call.args) and any(i.name == "vcs.remote_change" for i in walk.found):
        yield Finding("vcs.push_elsewhere", "", "remote")


_GH: Final = re.compile(
    r"^(?:repo (?:delete|archive)|release delete(?:-asset)?|secret (?:delete|remove)|variable delete"
    r"|gist delete|run delete"
    r"|codespace delete|project delete|ssh-key delete|gpg-key delete|cache delete|ruleset delete|label delete"
    r"|issue delete)\b"
)


def _gh(walk: Walk, call: Call) -> Iterator[Finding]:
    opts = split(
        call.args,
        "XfFHqtRbBm",
        ("--method", "--field", "--raw-field", "--header", "--repo", "--title", "--body", "--input"),
    )
    words = " ".join(a.text for a in opts.operands[:2])
    if opts.has("--help"):
        return
    method = opts.values.get("-X") or opts.values.get("--method")
    if _GH.match(words) or (words.startswith("api") and method is not None and method.text.upper() == "DELETE"):
        yield Finding("cloud.destroy", words, "cloud")
    if words.startswith("gist create"):
        yield Finding("net.upload", "gist", "remote")
        for arg in opts.operands[2:]:
            if is_secret(walk.place(arg).path):
                yield Finding("net.upload.secret", arg.text, "remote")


VCS: Final[dict[str, Program]] = {"gh": _gh, "git": _elsewhere, "hub": _elsewhere}
