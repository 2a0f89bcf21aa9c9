"""Where implementations are chosen: each role's application from its folder, with real clocks, stores and keys."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from starlette.applications import Starlette

from interlock.base.blind_rsa import PythonBlindRsa
from interlock.base.clock import Clock
from interlock.base.fetch import HttpPoster, fetcher_of
from interlock.base.files import BadState, private_dir, read_bounded
from interlock.base.settings import BadConfig
from interlock.commons.mirror import Mirror
from interlock.commons.monitor import Monitor
from interlock.commons.pins import read_pins
from interlock.commons.publish import Publisher
from interlock.commons.signers import load_keys, read_key
from interlock.commons.subscribe import Subscriber
from interlock.dap.driver import Driver
from interlock.dap.helper import Helper
from interlock.dap.leader import Leader
from interlock.dap.membership import Admit, admit_all
from interlock.dap.shares import KeyRing
from interlock.native.blind_rsa import chosen_blind_rsa
from interlock.node.config import ServeConfig
from interlock.node.pairs import cosigners_in, log_signers_in
from interlock.node.parties import HttpExchange, secret_in, vdaf_of
from interlock.node.roles import aggregate, commons, issuer, log, mirror, monitor, witness
from interlock.node.roles.admission import Admission
from interlock.node.service import alone_in
from interlock.node.setup import LOG_POLICY, make_hpke_key, read_tokens
from interlock.node.storage.dap import SqliteHelperStorage
from interlock.node.storage.dap_leader import SqliteLeaderStorage
from interlock.node.storage.dap_tasks import TaskDirectory
from interlock.node.storage.issuer import IssuerStore
from interlock.node.tokens import TokenTable
from interlock.transparency.known_logs import ADDED_LOGS, KnownLogs
from interlock.transparency.log import open_log
from interlock.transparency.policy import TlogPolicy, parse_policy
from interlock.transparency.proof import MAX_PROOF_FILE
from interlock.transparency.submit import submit
from interlock.transparency.witness import Witness

__all__ = ["ISSUER_STORE", "ROLES", "issuer_of", "monitor_of", "publisher_of", "role_app"]

ISSUER_STORE: Final = "issuer.sqlite"
_SHARES: Final = ("hpke.json", "members.json", "leaders.json", "collectors.json")  # an aggregator's or a collector's

# what a role's folder has in it from the start; a commons says so itself
_MARKS: Final = {"log": "log.key", "witness": "witness.key", "issuer": "issuer.key", "mirror": "node.json"} | {
    "monitor": "node.json",
    "dap-leader": "hpke.json",
    "dap-helper": "hpke.json",
}
_STOP_S: Final = 2.0  # longer than a turn takes; one that hangs on a peer is cut short, as every write is whole
_LIMIT: Final = 1 << 20
_MAKE_IT: Final = "make it with interlock mesh setup"
_APART: Final = "who enrols members never holds their shares: use another folder, and another operator"


@contextlib.contextmanager
def role_app(role: str, config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    """The application of a role; what it holds open is closed on leaving.

    Raises: BadConfig, BadState, BadKey, Locked, NotWritable.
    """
    if not config.directory.is_dir():
        raise BadState("is not there", where=str(config.directory), fix=_MAKE_IT)
    if role in _MARKS and not (config.directory / _MARKS[role]).exists():
        raise BadState(f"is no folder of the role {role}", where=str(config.directory), fix=_MAKE_IT)
    with alone_in(config.directory), ROLES[role](config, clock) as app:
        yield app


def publisher_of(config: ServeConfig, clock: Clock) -> Publisher:
    """Publishing in a commons' folder, through the log it names. Raises: BadConfig, BadState."""
    if not config.directory.is_dir():
        raise BadState("is not there", where=str(config.directory), fix=_MAKE_IT)
    policy = _policy(config)
    if not config.log_url:
        raise BadConfig("is not set", where="[serve] log_url", fix="name the log that this commons publishes to")
    token = secret_in(config.directory / "log-token")
    post = HttpPoster(f"{config.log_url.rstrip('/')}/add", max_length=MAX_PROOF_FILE, token=token)
    return Publisher(config.directory, lambda entry: submit(entry, policy, post).data, policy, clock)


@contextlib.contextmanager
def _log(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    policy, path = _policy(config), config.directory / "log.key"
    public = read_key(path).verifier.public
    origin = next((p.key.name for p in policy.logs if p.key.public == public), None)
    if origin is None:
        raise BadState("names no log with the key of log.key", where=str(config.directory / LOG_POLICY))
    tokens = read_tokens(config.directory / "add-tokens.json")
    with open_log(private_dir(config.directory / "log"), *log_signers_in(path, origin)) as opened:
        yield log.app(opened, policy, tokens=tokens)


@contextlib.contextmanager
def _witness(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    if not config.name:
        raise BadConfig("is not set", where="[serve] name", fix="name the witness as policies name it")
    cosigners = cosigners_in(config.directory / "witness.key", config.name)
    pinned = [peer.key for peer in _policy(config).logs] if (config.directory / LOG_POLICY).exists() else []
    logs = KnownLogs(pinned, config.directory / ADDED_LOGS)
    if not logs:
        raise BadState("names no log", where=str(config.directory), fix="add one with interlock mesh log cosign")
    yield witness.app(Witness(private_dir(config.directory / "state"), cosigners, logs, clock))


@contextlib.contextmanager
def _commons(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    public = config.directory / "public"
    if not public.is_dir():
        raise BadState("holds no commons", where=str(config.directory), fix=_MAKE_IT)
    app = commons.app(public)
    if not (config.directory / "keys" / "timestamp.key").exists():
        yield app  # a copy without keys: served as it is
        return
    publisher = publisher_of(config, clock)
    load_keys(config.directory / "keys", ("snapshot", "timestamp"))  # say now what could not be signed at night
    with _in_background("renew", lambda stop: commons.keep_fresh(publisher, stop)):
        yield app


@contextlib.contextmanager
def _mirror(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    if not (config.upstream and config.log_url):
        raise BadConfig("needs upstream and log_url", where="[serve]")
    upstream, tiles = fetcher_of(config.upstream), fetcher_of(config.log_url)
    copy = Mirror(config.directory, upstream, read_pins(config.directory), clock, log=tiles)
    private_dir(copy.public)
    with _in_background("copy", lambda stop: mirror.keep_copying(copy, stop, every_s=config.poll_s)):
        yield mirror.app(copy)


def monitor_of(config: ServeConfig, clock: Clock) -> Monitor:
    """The monitor in a folder. Raises: BadConfig, for fewer than two mirrors; BadState, NotWritable."""
    if not (config.directory / _MARKS["monitor"]).exists():
        raise BadState("is no folder of the role monitor", where=str(config.directory), fix=_MAKE_IT)
    if len(config.mirrors) < 2:
        raise BadConfig("names fewer than two", where="[serve] mirrors", fix='write mirrors = ["NAME=URL", "NAME=URL"]')
    places = {name: fetcher_of(url) for name, url in config.mirrors.items()}
    return Monitor(config.directory, read_pins(config.directory), places, clock)


@contextlib.contextmanager
def _monitor(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    with contextlib.closing(monitor_of(config, clock)) as watching:

        def look(stop: threading.Event) -> None:
            monitor.keep_looking(watching, stop, every_s=config.poll_s)

        with _in_background("look", look):
            yield monitor.app(watching)


@contextlib.contextmanager
def _leader(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    place, tasks = config.directory, TaskDirectory(config.directory / "tasks", demo=config.demo)
    keys = KeyRing([make_hpke_key(place / "hpke.json", os.urandom)])
    storage = SqliteLeaderStorage(place / "leader.sqlite")
    exchange = HttpExchange(secret_in(place / "helper-token"))
    driver = Driver(tasks, keys, storage, vdaf_of, clock, os.urandom, exchange)
    with contextlib.ExitStack() as stack:
        stack.callback(storage.close)
        stack.callback(exchange.close)
        leader = Leader(tasks, keys, storage, clock, admit=_admission(config, clock))
        path = place / "members.json"  # which an aggregator of proofs alone does without
        members = read_tokens(path) if path.exists() or not config.upstream else TokenTable({})
        collectors = read_tokens(place / "collectors.json")
        yield aggregate.leader_app(leader, driver, members=members, collectors=collectors)


@contextlib.contextmanager
def _helper(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    place, tasks = config.directory, TaskDirectory(config.directory / "tasks", demo=config.demo)
    keys = KeyRing([make_hpke_key(place / "hpke.json", os.urandom)])
    storage = SqliteHelperStorage(place / "helper.sqlite")
    with contextlib.closing(storage):
        helper = Helper(tasks, keys, storage, vdaf_of, clock, os.urandom, admit=_admission(config, clock))
        yield aggregate.helper_app(helper, leaders=read_tokens(place / "leaders.json"))


@contextlib.contextmanager
def issuer_of(config: ServeConfig, clock: Clock) -> Iterator[issuer.Issuer]:
    """The issuer in a folder. Raises: BadConfig, where no operator is named or it would hold shares too; BadState."""
    place = config.directory
    if not config.operator:
        raise BadConfig("is not set", where="[serve] operator", fix="name who runs this issuer")
    both = [name for name in _SHARES if (place / name).exists()]
    if both:
        raise BadConfig(f"is an aggregator's or a collector's too ({both[0]})", where=str(place), fix=_APART)
    signer = read_key(place / "issuer.key")
    with contextlib.closing(IssuerStore(place / ISSUER_STORE)) as store:
        yield issuer.Issuer(store, signer, config.operator, chosen_blind_rsa(), clock, os.urandom)


@contextlib.contextmanager
def _issuer(config: ServeConfig, clock: Clock) -> Iterator[Starlette]:
    with issuer_of(config, clock) as opened:
        yield issuer.app(opened)


def _admission(config: ServeConfig, clock: Clock) -> Admit:
    """How an aggregator checks members: against a commons, where it has pinned one; else by bearer tokens alone."""
    if (config.directory / "issuer.key").exists():
        raise BadConfig("is an issuer's too", where=str(config.directory), fix=_APART)
    if not config.upstream:
        return admit_all
    if not config.operator:
        raise BadConfig("is not set", where="[serve] operator", fix="name who runs this aggregator")
    subscriber = Subscriber(config.directory, fetcher_of(config.upstream), clock)
    # The library's verification: many reports are checked against few keys, and no secret is involved.
    return Admission(subscriber.member_keys, PythonBlindRsa(), config.operator, clock)


Role = Callable[[ServeConfig, Clock], contextlib.AbstractContextManager[Starlette]]
ROLES: Final[Mapping[str, Role]] = {
    "commons": _commons,
    "mirror": _mirror,
    "monitor": _monitor,
    "log": _log,
    "witness": _witness,
    "dap-leader": _leader,
    "dap-helper": _helper,
    "issuer": _issuer,
}


@contextlib.contextmanager
def _in_background(name: str, work: Callable[[threading.Event], None]) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_STOP_S)


def _policy(config: ServeConfig) -> TlogPolicy:
    path = config.directory / LOG_POLICY
    if not path.exists():
        raise BadState("is missing", where=str(path), fix="write the log, its witnesses and the quorum into it")
    return parse_policy(read_bounded(path, _LIMIT))
