"""What `interlock mesh --help` shows: the commands by what one wants to do, and an example of each."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterator
from typing import Final

from interlock.node.cli.mesh_args import Commands

__all__ = ["EXAMPLES", "GROUPS", "teach"]

GROUPS: Final = {
    "look around": ("demo",),
    "follow a commons": (
        *("init", "subscribe", "unsubscribe", "update", "diff", "pin", "rollback", "run", "grant", "settings"),
    ),
    "look after a node": (*("status", "doctor", "pins", "clock", "try", "journal", "stepback", "gossip", "verify"),),
    "report counts": ("consent", "report", "ledger", "tally", "members", "indicator", "dap"),
    "publish packs": ("pack", "publish", "review", "promote", "revoke", "reviewers", "export", "harness"),
    "run a commons or a role of it": (
        "setup",
        "serve",
        "token",
        "hpke",
        "ceremony",
        "keys",
        "operators",
        "log",
        "monitor",
    ),
}
EXAMPLES: Final = {
    "init": "interlock mesh init --root root.json --log-policy log-policy.txt --commons https://mirror.example",
    "unsubscribe": "interlock mesh unsubscribe mesh:coding-agent@stable",
    "run": "interlock mesh run --config member.toml",
    "doctor": "interlock mesh doctor --json",
    "consent": "interlock mesh consent on coding-agent",
    "report init": "interlock mesh report init coding-agent",
    "report build": "interlock mesh report build",
    "report submit": "interlock mesh report submit",
    "report status": "interlock mesh report status --json",
    "report fp": "interlock mesh report fp 3f2a9c",
    "ledger": "interlock mesh ledger --json",
    "indicator propose": "interlock mesh indicator propose host evil.example --out evil.proposal.json",
    "indicator catalog": "interlock mesh indicator catalog hosts-1 --proposal evil.proposal.json --out catalog.json",
    "indicator consensus": "interlock mesh indicator consensus batch.json --task task.json --key c.key --out said.json",
    "indicator pack": "interlock mesh indicator pack indicator-a said.json --version 1 --author Rita --out a.json",
    "indicator check": "interlock mesh indicator check said.json --pack indicator-a.json",
    "tally": "interlock mesh tally coding-agent --out laptop.tally.json",
    "pack": "interlock mesh pack team.yaml --out team.json",
    "review": "interlock mesh review team@beta --approve --key rita.ed25519.key --dir commons",
    "revoke": "interlock mesh revoke team@3 --why 'asks about every build' --dir commons",
    "reviewers": "interlock mesh reviewers --add rita=rita.ed25519.key --dir commons",
    "export": "interlock mesh export team@stable --out team.ilpack --dir commons",
    "harness": "interlock mesh harness builtin:coding-agent --corpus corpora",
    "setup": "interlock mesh setup --role witness --dir w0 --name w0.example",
    "token": "interlock mesh token --dir leader --party collector --name carol --task task.json --out carol.token",
    "monitor": "interlock mesh monitor --dir monitor",
    "demo": "interlock mesh demo --keep demo",
    "members invite": "interlock mesh members invite --dir issuer --organisation acme --out acme.invite",
    "members list": "interlock mesh members list --dir issuer",
    "members approve": "interlock mesh members approve acme --dir issuer",
    "members revoke": "interlock mesh members revoke acme --dir issuer",
    "members keys": "interlock mesh members keys --dir issuer --task task.json --epochs 7 --out keys",
    "members count": "interlock mesh members count coding-agent 20788 --dir issuer --out count.json",
    "members publish": "interlock mesh members publish keys/coding-agent.20788.json --dir commons",
    "members join": "interlock mesh members join --issuer https://enrol.example --issuer-key ed25519:HEX --invite code",
    "members token": "interlock mesh members token",
    "members audit": "interlock mesh members audit coding-agent 20788 --reports 12",
    "ceremony request": "interlock mesh ceremony request --dir commons --holder ada.holder.json --out stick",
    "ceremony sign": "interlock mesh ceremony sign stick/request.json --key ada.ed25519.key",
    "ceremony assemble": "interlock mesh ceremony assemble stick/request.json",
    "ceremony verify": "interlock mesh ceremony verify 1.root.json 2.root.json",
    "ceremony install": "interlock mesh ceremony install stick/1.root.json --dir commons",
    "keys create": "interlock mesh keys create --holder ada --employer Acme --out ada",
    "keys list": "interlock mesh keys list --dir commons",
    "keys rotate": "interlock mesh keys rotate beta --dir commons",
    "keys export": "interlock mesh keys export witness --dir w0",
    "operators publish": "interlock mesh operators publish operators.json --dir commons",
    "operators policy": "interlock mesh operators policy operators.json",
}
_WIDEST: Final = 120


class _Taught(argparse.HelpFormatter):
    """Leaves lists and examples as they are laid out, and wraps all else."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


def teach(mesh: argparse.ArgumentParser, commands: Commands) -> None:
    """List the commands of `mesh` in their groups, and show an example of each on a line of its own."""
    told = {action.dest: action.help or "" for action in commands._choices_actions}  # no public way to these

    def formatter(prog: str) -> argparse.HelpFormatter:
        mesh.epilog = "\n".join(_listing(told))  # laid out only when it is shown: each command builds this tree
        return _Taught(prog)

    mesh.usage, commands.help = "%(prog)s [-h] COMMAND ...", argparse.SUPPRESS  # argparse's own list is one heap
    mesh.formatter_class = formatter
    for path, parser in _leaves(commands):
        example = parser.epilog or f"example: {EXAMPLES[path]}"
        if example.startswith("example: "):
            parser.epilog, parser.formatter_class = f"example:\n  {example.removeprefix('example: ')}", _Taught


def _listing(told: dict[str, str]) -> Iterator[str]:
    """Each group with its commands and what they are told to do, as wide as the terminal."""
    width, column = min(shutil.get_terminal_size().columns, _WIDEST) - 2, max(map(len, told)) + 4
    for title, names in GROUPS.items():
        yield f"{title}:"
        for name in names:
            head = f"  {name}".ljust(column)
            yield from textwrap.wrap(told[name], width, initial_indent=head, subsequent_indent=" " * column)
        yield ""
    yield "interlock mesh COMMAND --help says more, with an example."


def _leaves(commands: Commands, above: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for name, parser in commands.choices.items():
        below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        if not below:
            yield f"{above}{name}", parser
        for group in below:
            yield from _leaves(group, f"{above}{name} ")
