"""The argument tree of the commands of a member node: what it follows, grants, watches and shows."""

from __future__ import annotations

import argparse
from typing import Final

from interlock.node.cli.mesh_args import Commands, add, add_service

__all__ = ["register"]

_NODE: Final = "interlock.node.cli.mesh_node"
_COUNT: Final = "interlock.node.cli.mesh_count"
_STATUS: Final = "interlock.node.cli.mesh_status"
_TRY: Final = "interlock.node.cli.mesh_try"
_PACK: Final = "mesh:PACK@RING"
_NAMED: Final = "a pack of the commons, and the ring that it is followed in"
_EXAMPLES: Final = {
    "subscribe": "interlock mesh subscribe mesh:coding-agent@stable --window 7d",
    "update": "interlock mesh update",
    "diff": "interlock mesh diff mesh:coding-agent@stable",
    "grant": "interlock mesh grant mesh:coding-agent@stable fs.destroy",
    "pin": "interlock mesh pin mesh:coding-agent@stable 3; later: interlock mesh pin mesh:coding-agent@stable --clear",
    "rollback": "interlock mesh rollback mesh:coding-agent@stable",
    "settings": "interlock mesh settings --ungranted shadow",
    "journal": "interlock mesh journal on --max-mib 64",
    "stepback": "interlock mesh stepback apply mesh:coding-agent@stable fs.destroy",
    "status": "interlock mesh status --rules",
}


def register(group: Commands) -> None:
    """Add the commands of a member node."""
    _init(group)
    _following(group)
    _permitting(group)
    _trying(group)
    _telling(group)


def _init(group: Commands) -> None:
    init = add(group, "init", _NODE, "init", "pin a commons: its first root, its log and the witnesses that count")
    root = init.add_mutually_exclusive_group(required=True)
    root.add_argument("--root", metavar="FILE", help="the commons' first root, from somebody you trust")
    root.add_argument("--root-sha256", metavar="HEX", help="its digest; the root is then fetched and must match")
    init.add_argument("--commons", metavar="URL", help="a mirror, or the commons itself")
    init.add_argument(
        "--log-policy", metavar="FILE", required=True, help="the log, its witnesses, the quorum (tlog-policy)"
    )
    init.add_argument(
        "--offline", action="store_true", help="this node has no network: updates come from a folder (file:///...)"
    )
    init.add_argument(
        "--max-offline-age", metavar="AGE", help="offline: how old what it holds may be (30d, 12h, 2w; default: 30d)"
    )


def _following(group: Commands) -> None:
    subscribe = _add(group, "subscribe", _NODE, "follow packs in their rings, and bring them into force")
    subscribe.add_argument("pack", metavar=_PACK, nargs="+", help=_NAMED)
    subscribe.add_argument(
        "--window",
        metavar="TIME",
        help="watch each new version for so long before it is in force (7d, 12h, 30m; 0s for none)",
    )
    unsubscribe = _add(group, "unsubscribe", _NODE, "follow a pack no more, and take it out of force")
    unsubscribe.add_argument("pack", metavar=_PACK, help=_NAMED)
    update = _add(group, "update", _NODE, "look for news once, now, and say what they change")
    _json(update)
    diff = _add(group, "diff", _NODE, "say in words what an update would change, and change nothing")
    diff.add_argument("pack", metavar=_PACK, nargs="*", help="all that is followed, where none is named")
    _json(diff)
    pin = _add(group, "pin", _NODE, "stay at one version of a pack, or follow the newest again")
    pin.add_argument("pack", metavar=_PACK, help=_NAMED)
    pin.add_argument("version", metavar="VERSION", type=int, nargs="?", help="the one in force, or a later one")
    pin.add_argument("--clear", action="store_true", help="follow the newest again")
    rollback = _add(group, "rollback", _NODE, "return to the version that was in force before, and stay there")
    rollback.add_argument("pack", metavar=_PACK, help=_NAMED)
    run = add(group, "run", _COUNT, "run", "follow the commons and report, until stopped")
    add_service(run)


def _permitting(group: Commands) -> None:
    grant = _add(group, "grant", _NODE, "let rules of a community pack block and mask here")
    grant.add_argument("pack", metavar=_PACK, help=_NAMED)
    grant.add_argument("rules", metavar="RULE", nargs="*", help="ids of rules; all of the pack's where none is named")
    which = grant.add_mutually_exclusive_group()
    which.add_argument("--revoke", action="store_true", help="take the grant back")
    which.add_argument("--watched", action="store_true", help="rules of the version that is in its monitor window")
    settings = _add(group, "settings", _NODE, "what holds for all packs of this node")
    settings.add_argument(
        "--ungranted",
        choices=("escalate", "shadow"),
        help="what becomes of a rule that would block or mask and is not granted (default: escalate)",
    )
    _json(settings)


def _trying(group: Commands) -> None:
    told = "say what a pack would have blocked, asked or masked in what agents did before"
    trying = add(group, "try", _TRY, "try_pack", told)
    trying.epilog = "example: interlock mesh try mesh:coding-agent@stable --transcripts ~/.claude/projects"
    trying.add_argument("pack", metavar="mesh:PACK@RING|FILE", help="a pack of the commons, or a file of one")
    trying.add_argument(
        "--transcripts",
        metavar="PATH",
        action="append",
        default=[],
        help="an agent's session file, or a folder of them; the event journal is used too, where there is one",
    )
    _json(trying)
    journal = _add(group, "journal", _TRY, "keep events of this node for trials, encrypted; off by default")
    journal.add_argument("action", choices=("on", "off", "status", "drop"), help="drop deletes what is kept")
    journal.add_argument("--max-mib", type=int, metavar="N", default=64, help="its largest size (default: %(default)s)")
    _json(journal)
    step = _add(group, "stepback", _TRY, "rules that object to too many, and should be in shadow")
    actions = ("list", "check", "apply", "dismiss", "undo", "set")
    step.add_argument("action", nargs="?", default="list", choices=actions, help="what to do (default: %(default)s)")
    step.add_argument("pack", metavar=_PACK, nargs="?", help="apply, dismiss, undo: the pack")
    step.add_argument("rule", metavar="RULE", nargs="?", help="apply, dismiss, undo: the id of its rule")
    step.add_argument("--receipts", metavar="FILE", help="check: what to count in (default: the guard's own)")
    step.add_argument("--principals", type=int, metavar="N", help="set: so many distinct principals have to be met")
    step.add_argument("--spans", type=int, metavar="N", help="set: and so many distinct runs of agents")
    step.add_argument("--days", type=int, metavar="N", help="set: within so many days")
    _json(step)


def _telling(group: Commands) -> None:
    status = _add(group, "status", _STATUS, "what is in force, since when, and what is wrong")
    status.add_argument("--rules", action="store_true", help="every rule of every pack, and what it does here")
    _json(status)
    doctor = _add(group, "doctor", _STATUS, "check this node: pins, packs, freshness, split views")
    _json(doctor)


def _add(group: Commands, name: str, module: str, told: str) -> argparse.ArgumentParser:
    parser = add(group, name, module, name, told)
    if name in _EXAMPLES:
        parser.epilog = f"example: {_EXAMPLES[name]}"
    return parser


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object")
