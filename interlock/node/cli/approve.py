"""`interlock approve`: a person reads what an agent wants to do, and says yes or no.

A yes needs a person: a controlling terminal, a word typed back that is made at that moment, and no guarded agent among
the programs that started this one. Standard input is never read.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Final

from interlock.base.canonical import NotCanonical
from interlock.base.clock import MICROSECONDS, rfc3339
from interlock.base.errors import EXIT_OK, BadInput, InterlockError
from interlock.base.files import BadState
from interlock.base.settings import config_file, read_settings
from interlock.engine.approvals import Script
from interlock.engine.approvals_scripts import script_now
from interlock.engine.approvals_store import MAX_TTL_US, SCOPES, ApprovalStore, Entry, NotOpen
from interlock.engine.approvals_text import card, opened, visible
from interlock.engine.processes import lineage, marked
from interlock.interceptors.hooks.approving import queue_settings
from interlock.node.cli.terminal import terminal

if sys.platform != "win32":
    import pwd

__all__ = ["AgentAbove", "demand_person", "register"]

_VERBS: Final = ("list", "show", "deny", "revoke")
_ID: Final = re.compile(r"[0-9a-f]{16}")
_EPILOG: Final = """\
  interlock approve               the request that waits, where there is one
  interlock approve REQUEST       show it, ask, and approve it
  interlock approve list          what waits, and what may be used; --all: the last 30 days
  interlock approve show REQUEST  the whole of one; --full leaves nothing out
  interlock approve deny REQUEST
  interlock approve revoke REQUEST

exit codes: 0 done, 1 not approved, 2 the queue or the request cannot be used
"""


class AgentAbove(InterlockError):
    """A guarded agent started this process, and an agent approves nothing."""

    code = "not-allowed"


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `approve`."""
    approve = commands.add_parser(
        "approve",
        help="read what an agent wants to do, and approve or deny it",
        description="Read what an agent wants to do, and approve or deny it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    approve.add_argument("words", nargs="*", metavar="REQUEST|list|show|deny|revoke", help="see below")
    place = approve.add_mutually_exclusive_group()
    place.add_argument("--queue", type=Path, metavar="FILE", help="the queue; by default [approvals] queue")
    place.add_argument("--config", metavar="FILE", help="the configuration file")
    approve.add_argument("--as", dest="name", metavar="NAME", help="who approves; by default the name you logged in by")
    approve.add_argument("--scope", choices=SCOPES, default="once", help="how often it may be used; default: once")
    approve.add_argument("--for", dest="seconds", type=int, metavar="SECONDS", help="how long, with --scope ttl")
    approve.add_argument("--json", action="store_true", help="with list and show: print one JSON value")
    approve.add_argument("--full", action="store_true", help="leave nothing out, however long")
    approve.add_argument("--all", action="store_true", help="with list: also what is over")
    approve.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    verb, id_ = _parsed(args.words)
    ttl_us = _ttl_us(args)
    store = ApprovalStore(_queue(args))
    try:
        if verb == "list":
            return _list(store, args)
        entry = store.get(id_) if id_ else _only(store)
        if verb == "show":
            return _show(store, entry, args)
        if verb == "approve":
            return _approve(store, entry, args, ttl_us)
        ended = (store.deny if verb == "deny" else store.revoke)(entry.id, _name(args))
        print(f"{ended.state}  {ended.id}  {visible(ended.action)}")
        return EXIT_OK
    finally:
        store.close()


def _parsed(words: list[str]) -> tuple[str, str]:
    """(verb, request id or ""). Raises: BadInput."""
    match words:
        case []:
            return "approve", ""
        case ["list"]:
            return "list", ""
        case [verb, id_] if verb in _VERBS[1:] and _ID.fullmatch(id_):
            return verb, id_
        case [id_] if _ID.fullmatch(id_):
            return "approve", id_
    raise BadInput("takes a request's id of 16 digits, or list, show, deny or revoke", where="interlock approve")


def _ttl_us(args: argparse.Namespace) -> int:
    """Raises: BadInput."""
    if (args.scope == "ttl") != (args.seconds is not None):
        raise BadInput("--scope ttl and --for SECONDS go together", where="interlock approve")
    if args.seconds is not None and not 0 < args.seconds <= MAX_TTL_US // MICROSECONDS:
        raise BadInput(f"--for is between 1 and {MAX_TTL_US // MICROSECONDS} seconds", where="interlock approve")
    return (args.seconds or 0) * MICROSECONDS


def _queue(args: argparse.Namespace) -> Path:
    """Raises: BadInput, BadConfig."""
    path: Path | None = args.queue
    if path is None:
        found = queue_settings(read_settings(config_file(args.config)))
        path = None if found is None else found.path
    if path is None:
        raise BadInput("no queue is configured", fix="give --queue FILE, or set queue in the section [approvals]")
    if not os.path.lexists(path):
        raise BadInput("is not there: nothing was ever asked", where=str(path))
    return path


def _only(store: ApprovalStore) -> Entry:
    waiting = [entry for entry in store.entries() if entry.state == "pending"]
    if len(waiting) != 1:
        fix = "see interlock approve list, and name one" if waiting else ""
        raise BadInput(f"{len(waiting)} requests wait for approval", where="interlock approve", fix=fix)
    return waiting[0]


def _name(args: argparse.Namespace) -> str:
    """Who answers: what they say, or the name of this process's user."""
    if args.name is not None:
        return str(args.name)
    if sys.platform != "win32":
        with contextlib.suppress(KeyError):
            return pwd.getpwuid(os.getuid()).pw_name
    raise BadInput("has no name on this system", where="this user", fix="give --as NAME")


def _list(store: ApprovalStore, args: argparse.Namespace) -> int:
    entries = store.entries(open_only=not args.all)
    if args.json:
        print(json.dumps([_summary(store, entry) for entry in entries], indent=1))
        return EXIT_OK
    for entry in entries:
        until = entry.use_until_us if entry.state == "approved" else entry.wait_until_us
        limit = (
            f"until {_time(until)}" if entry.state in ("pending", "approved") else f"since {_time(entry.changed_us)}"
        )
        print(f"{entry.id}  {entry.state:<10}  {limit}  {visible(entry.action)}  by {visible(entry.principal or '-')}")
    if not entries:
        print("nothing waits for approval")
    return EXIT_OK


def _summary(store: ApprovalStore, entry: Entry) -> dict[str, object]:
    return {
        "id": entry.id,
        "state": entry.state,
        "action": entry.action,
        "principal": entry.principal,
        "parent_principal": entry.parent,
        "span_id": entry.span,
        "digest": entry.digest,
        "created": _time(entry.created_us),
        "wait_until": _time(entry.wait_until_us),
        "use_until": _time(entry.use_until_us) if entry.use_until_us else None,
        "scope": entry.scope or None,
        "uses": entry.uses,
        "four_eyes": entry.four_eyes,
        "approved_by": store.yeses(entry.id),
        "answered_by": entry.answered_by or None,
    }


def _show(store: ApprovalStore, entry: Entry, args: argparse.Namespace) -> int:
    body = _body(entry) if entry.document else None
    if args.json:
        print(json.dumps({**_summary(store, entry), "request": body}, indent=1))
        return EXIT_OK
    print(_head(store, entry))
    print(card(body, full=args.full) if body is not None else "what it showed is forgotten, since it is over")
    return EXIT_OK


def _body(entry: Entry) -> dict[str, object]:
    """Raises: BadState, where the row does not say what its digest binds."""
    try:
        return opened(entry.document, entry.digest)
    except NotCanonical as e:
        raise BadState(e.what, where=f"request {entry.id}", fix="deny it, and let the agent ask again") from None


def _head(store: ApprovalStore, entry: Entry) -> str:
    eyes = f"  four eyes, approved by: {', '.join(store.yeses(entry.id)) or 'nobody yet'}" if entry.four_eyes else ""
    return f"request {entry.id}  {entry.state}  waits until {_time(entry.wait_until_us)}{eyes}"


def _time(us: int) -> str:
    return rfc3339(us // MICROSECONDS * MICROSECONDS)


def _approve(store: ApprovalStore, entry: Entry, args: argparse.Namespace, ttl_us: int) -> int:
    demand_person(store)
    if entry.state != "pending":
        raise NotOpen(f"is {entry.state}, and no longer waits", where=f"request {entry.id}")
    body = _body(entry)
    _demand_same_scripts(entry, body)
    name = _name(args)
    text = f"{_head(store, entry)}\n{card(body, full=args.full)}"
    terms = {"once": "once", "session": "as often as it likes in this session", "ttl": f"for {args.seconds} seconds"}
    with terminal() as screen:
        screen.show(text)
        size = f"{text.count(chr(10)) + 1} lines above"
        end = f"request {entry.id}, {size}: {visible(entry.action)} by {visible(entry.principal or '(nobody named)')}"
        screen.demand(f"{end}\nTo approve it {terms[args.scope]} as {visible(name)}", f"{text}\n{end}\n{name}")
    _demand_same_scripts(entry, body)
    done = store.approve(entry.id, name, args.scope, ttl_us)
    if done.state == "approved":
        print(f"approved  {done.id}  {done.scope}, until {_time(done.use_until_us)}")
    else:
        print(f"pending   {done.id}  approved by {name}; a second person has to approve it too")
    return EXIT_OK


def demand_person(store: ApprovalStore) -> None:
    """Raises: AgentAbove, where a guarded agent started this process; UnknownLineage, where that cannot be told."""
    above = lineage()
    guarded = store.guarded()
    if any(process in guarded for process in above):
        raise AgentAbove("a guarded program started this one, and it may approve nothing", fix="use your own terminal")
    if mark := marked(above):
        raise AgentAbove(f"a coding agent started this (its variable {mark} is set)", fix="use your own terminal")


def _demand_same_scripts(entry: Entry, body: dict[str, object]) -> None:
    """Raises: NotOpen, where a script is not what the request was about; such an approval could never be used."""
    rows = body["scripts"]
    assert isinstance(rows, list)
    for path, sha256, state in rows:
        if script_now(path) != Script(path, sha256, state):
            told = f"the script {visible(path)} changed since it was asked about"
            raise NotOpen(told, where=f"request {entry.id}", fix="let the agent ask again")
