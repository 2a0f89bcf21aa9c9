"""What `interlock mesh ceremony request` asks for: the root's plan, and targets to be signed with it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from interlock.base.clock import DAY_US, MICROSECONDS
from interlock.base.errors import BadInput
from interlock.base.files import read_bounded
from interlock.base.keys import BadKey, Ed25519Verifier, verifier_of
from interlock.commons.holders import Circle, Holder, default_threshold, is_hybrid, parse_card
from interlock.commons.layout import LOG_POLICY, ONLINE_ROLES, TOP_ROLES
from interlock.commons.pack import sha256_hex
from interlock.commons.rootplan import Plan, plan_of
from interlock.commons.signers import NEXT, read_key
from interlock.commons.toplevel import Draft
from interlock.commons.waiting import draft_of, first_draft_of, read_waiting
from interlock.transparency.policy import parse_policy

__all__ = ["draft_for", "ends_us", "planned"]

_LIMIT: Final = 1 << 20
_MOST_DAYS: Final = 3650


def ends_us(args: argparse.Namespace, now_us: int) -> int:
    """When what is asked for is to end. Raises: BadInput."""
    if args.days > _MOST_DAYS:
        raise BadInput(f"is more than {_MOST_DAYS}", where=f"--days {args.days}")
    return (now_us // MICROSECONDS) * MICROSECONDS + int(args.days) * DAY_US


def planned(args: argparse.Namespace, previous: bytes | None, now_us: int) -> Plan:
    """What the new root is to say: the old one's plan with what the arguments change."""
    before = None if previous is None else plan_of(previous)
    was = None if before is None else Circle(before.holders, before.threshold)
    holders = _changed(was, _cards(args.holder), args.remove, "--remove")
    root = Circle(holders, _threshold(args.threshold, was, holders))
    online = {**(before.online if before else {}), **_online(args)}
    targets = _targets(args, before, root, one_key="targets" in online)
    online = {role: key for role, key in online.items() if role in ONLINE_ROLES or targets is None}
    missing = [role for role in (TOP_ROLES if targets is None else ONLINE_ROLES) if role not in online]
    if missing:
        fix = "give --dir with the commons' folder, or --online ROLE=KEY"
        raise BadInput(f"has no key for {', '.join(missing)}", where="the first root", fix=fix)
    policy = before.log_policy if before else ""
    if args.log_policy is not None:
        policy = sha256_hex(_policy(args))
    return Plan(root.holders, online, root.threshold, ends_us(args, now_us), policy, targets)


def draft_for(args: argparse.Namespace, plan: Plan, previous: bytes | None) -> Draft | None:
    """The targets that are to be signed with a root: where their holders are others, or something waits for them."""
    if plan.targets is None or args.dir is None:
        return None
    home = Path(args.dir)
    files = {} if args.log_policy is None else {LOG_POLICY: _policy(args)}
    if previous is None:
        return first_draft_of(home, plan.expires_us, files)
    if plan_of(previous).targets == plan.targets and not files and not read_waiting(home):
        return None
    return draft_of(home, plan.expires_us, files)


def _policy(args: argparse.Namespace) -> bytes:
    data = read_bounded(Path(args.log_policy), _LIMIT)
    parse_policy(data)
    return data


def _cards(names: Sequence[str]) -> list[Holder]:
    return [parse_card(read_bounded(Path(name), _LIMIT), where=name) for name in names]


def _targets(args: argparse.Namespace, before: Plan | None, root: Circle, *, one_key: bool) -> Circle | None:
    """Who holds the keys of targets from now on; None for one key on the commons' machine.

    At first the root's keyholders, and as long as they are the same ones they change with them.
    """
    was = None if before is None else before.targets
    if any(text.startswith("targets=") for text in args.online):
        return None
    if args.targets_holder or args.targets_remove:
        holders = _changed(was, _cards(args.targets_holder), args.targets_remove, "--targets-remove")
        return Circle(holders, _threshold(args.targets_threshold, was, holders))
    if was is None and (before is not None or one_key):
        return None
    if was is None or (before is not None and was.holders == before.holders):
        same = was is None or before is None or was.threshold == before.threshold
        held = root if same else Circle(root.holders, _threshold(None, was, root.holders))
        return held if args.targets_threshold is None else Circle(root.holders, args.targets_threshold)
    return was if args.targets_threshold is None else Circle(was.holders, args.targets_threshold)


def _changed(
    before: Circle | None, joining: Sequence[Holder], leaving: Sequence[str], option: str
) -> tuple[Holder, ...]:
    """The keyholders from now on; a card of somebody who is one already stands in her old card's place."""
    held = () if before is None else before.holders
    names = [holder.name for holder in held]
    for name in leaving:
        if name not in names:
            raise BadInput("is no keyholder of the root before", where=f"{option} {name}")
    cards: Mapping[str, Holder] = {holder.name: holder for holder in joining}
    if len(cards) != len(joining):
        raise BadInput("names one keyholder twice", where=option.replace("remove", "holder"))
    stay = [cards.get(holder.name, holder) for holder in held if holder.name not in leaving]
    return (*stay, *(card for name, card in cards.items() if name not in {holder.name for holder in stay}))


def _threshold(asked: int | None, before: Circle | None, holders: Sequence[Holder]) -> int:
    if asked is not None:
        return asked
    same = before is not None and (len(before.holders), is_hybrid(before.holders)) == (len(holders), is_hybrid(holders))
    return before.threshold if before is not None and same else default_threshold(holders)


def _online(args: argparse.Namespace) -> dict[str, Ed25519Verifier]:
    """Online keys that the arguments name: key files of a commons' folder, where a next key goes before, and texts."""
    found: dict[str, Ed25519Verifier] = {}
    for role in TOP_ROLES if args.dir is not None else ():
        path = Path(args.dir) / "keys" / f"{role}.key"
        for file in (path.with_name(path.name + NEXT), path):
            if file.exists():
                found[role] = read_key(file).verifier
                break
    for text in args.online:
        role, _, key = text.partition("=")
        if role not in TOP_ROLES:
            raise BadInput(f"names no role of {', '.join(TOP_ROLES)}", where=f"--online {text[:40]}")
        verifier = verifier_of(key)
        if not isinstance(verifier, Ed25519Verifier):
            raise BadKey("has to be an Ed25519 key", where=f"--online {role}")
        found[role] = verifier
    return found
