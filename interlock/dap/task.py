"""A task: what client, leader, helper and collector agree on, as the exact bytes that go into every ciphertext.

    data = new_configuration(catalog_digest=..., leader_url=..., helper_url=..., time_precision=..., ...)
    task = task_of(data)                        # for everyone; refused where it is not safe or not spoken here
    AggregatorTask(task, verify_key, collector) # for leader and helper; verify_key_of(secret, task.task_id)

A task's id is derived from its configuration (taskprov), so the configuration cannot change under the id. The
catalog's digest stands in task_info: whoever holds the task's bytes can check the catalog that gives its places
their meaning. So may the key be named that speaks for its collector: what is said of a task's sums is believed in the
word of that key alone, and it cannot be changed under the id either. Sources: draft-ietf-ppm-dap-18, section 4.2;
draft-ietf-ppm-dap-taskprov, section 3.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from interlock.base.clock import MICROSECONDS
from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.keys import BadKey, Ed25519Verifier
from interlock.base.organisations import DEMO_LEAST, LEAST
from interlock.base.primitives import hkdf_expand, hkdf_extract, hmac_sha256
from interlock.dap.backend import VERIFY_KEY_SIZE, VdafError
from interlock.dap.drafts import DAP_18, Draft
from interlock.dap.messages import (
    LEADER_SELECTED,
    MEMBERSHIP,
    TIME_INTERVAL,
    Extension,
    HpkeConfig,
    Interval,
    SumVecConfig,
    TaskConfiguration,
    spoken,
)
from interlock.dap.noise import NOISE, Noise, Shape, demand_room, shape_of
from interlock.dap.problems import to_b64url

__all__ = [
    "LENGTH_MOST",
    "STATEMENT_KEY",
    "TIME_MOST",
    "AggregatorTask",
    "Task",
    "TaskRefused",
    "in_order",
    "new_configuration",
    "task_of",
    "verify_key_of",
]

LENGTH_MOST: Final = 1 << 17  # places of a catalog
TIME_MOST: Final = (1 << 63) - 1  # what every store can hold
PRIO3_SUM_VEC: Final = 3
TASK_INTERVAL: Final = 1  # TaskExtensionType
STATEMENT_KEY: Final = 0xFF50  # our number of a task extension; see messages.MEMBERSHIP for why it is one of these
_NO_JOINT_RANDOMNESS: Final = (1, 2)  # Count and Sum: nothing public of their reports binds the shares
_INFO: Final = b"interlock/catalog/v1:"
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class TaskRefused(InterlockError):
    """A task that this side does not take part in."""

    code = "task-refused"


@dataclass(frozen=True)
class Task:
    """One task, from `task_of`; `configuration` holds the agreed bytes, unchanged."""

    configuration: bytes = field(repr=False)
    config: TaskConfiguration = field(repr=False)
    task_id: bytes
    shape: Shape  # of the sums: how many, and what one report adds to each at most
    interval: Interval | None = None  # of the task_interval extension
    membership: bytes | None = field(default=None, repr=False)  # of the membership extension: what proofs it asks for
    demo: bool = False
    draft: Draft = DAP_18
    noise: Noise | None = None  # of the noise extension: what each aggregator adds before it releases a sum
    statement_key: Ed25519Verifier | None = None  # of the extension of that name: in whose word its sums are told
    batch_size: int = 0  # how many reports the leader fills a batch with, where it selects them; 0 in time_interval

    @property
    def catalog_digest(self) -> bytes | None:
        """SHA-256 of the catalog that gives the places their meaning; None where task_info names none."""
        info = self.config.task_info
        return info[len(_INFO) :] if info.startswith(_INFO) and len(info) == len(_INFO) + 32 else None

    @property
    def context(self) -> bytes:
        return self.draft.context(self.task_id)

    @property
    def leader_selected(self) -> bool:
        """Whether the leader puts batches together, as reports come; else each has its batch by its time."""
        return self.config.batch_mode == LEADER_SELECTED

    def time_of(self, us: int) -> int:
        """Microseconds since 1970 to DAP's time, in units of the task's precision."""
        return us // (self.config.time_precision * MICROSECONDS)

    def start_us(self, time: int) -> int:
        """When a DAP time begins, in microseconds since 1970."""
        return time * self.config.time_precision * MICROSECONDS

    def leader_resource(self, *path: str) -> str:
        return self._resource(self.config.leader_url, path)

    def helper_resource(self, *path: str) -> str:
        return self._resource(self.config.helper_url, path)

    def _resource(self, base: bytes, path: Sequence[str]) -> str:
        return "/".join([base.decode("ascii").rstrip("/"), "tasks", to_b64url(self.task_id), *path])


@dataclass(frozen=True)
class AggregatorTask:
    """What an aggregator holds of a task beyond its configuration."""

    task: Task
    verify_key: bytes = field(repr=False)
    collector: HpkeConfig
    verify_key_id: int = 0

    def __post_init__(self) -> None:
        if len(self.verify_key) != VERIFY_KEY_SIZE:
            raise ValueError(f"a verification key has {VERIFY_KEY_SIZE} bytes")
        if not spoken(self.collector):
            raise TaskRefused("the collector's key is of a suite that is not spoken here")

    def demand_same(self, before: AggregatorTask) -> None:
        """That this is the task that was held before: its id names the configuration, and not the rest.

        Raises: TaskRefused.
        """
        if self.task.draft != before.task.draft:
            what = f"was agreed in {before.task.draft.tag}, and a task's draft never changes"
        elif (self.verify_key, self.verify_key_id) != (before.verify_key, before.verify_key_id):
            what = "is held with another verification key, and a task never changes"
        elif self.collector != before.collector:
            what = "is held for another collector, and a task never changes"
        elif self.task.batch_size != before.task.batch_size:
            what = f"is held with batches of {before.task.batch_size} reports, and a task never changes"
        else:
            return
        raise TaskRefused(what, where=f"task {to_b64url(self.task.task_id)}", fix="make a new task")

    def resource_id(self, kind: str, request: bytes) -> bytes:
        """The 16-byte id of the resource that a request makes: the same bytes, the same id (3.3).

        Keyed, so that nobody but the aggregators can tell an id from a guess of its request.
        """
        tag = f"interlock/dap/{kind}/v1".encode("ascii") + self.task.task_id
        return hmac_sha256(self.verify_key, tag + hashlib.sha256(request).digest())[:16]


def verify_key_of(secret: bytes, task_id: bytes) -> bytes:
    """The verification key of a task, from the 32-byte secret that leader and helper share (taskprov, section 4)."""
    salt = hashlib.sha256(b"dap-taskprov").digest()
    return hkdf_expand(hkdf_extract(salt, secret), task_id, VERIFY_KEY_SIZE)


def new_configuration(
    *,
    catalog_digest: bytes,
    leader_url: str,
    helper_url: str,
    time_precision: int,
    min_batch_size: int,
    vdaf_config: bytes,
    interval: Interval | None = None,
    membership: bytes | None = None,
    noise: Noise | None = None,
    statement_key: Ed25519Verifier | None = None,
    batch_mode: int = TIME_INTERVAL,
) -> bytes:
    """The configuration bytes of a new task over a catalog; `vdaf_config` is the backend's, times are seconds.

    With `membership`, whatever it says, each report has to prove that a member sent it; with `noise`, each aggregator
    adds it to what it releases; `statement_key` is the collector's, which alone may say what the sums show.
    Raises: ValueError, for a digest that is not 32 bytes or a URL that is not ASCII.
    """
    if len(catalog_digest) != 32:
        raise ValueError("a catalog's digest has 32 bytes")
    named = (
        (TASK_INTERVAL, None if interval is None else interval.encode()),
        (MEMBERSHIP, membership),
        (NOISE, None if noise is None else noise.encode()),
        (STATEMENT_KEY, None if statement_key is None else statement_key.public),
    )
    extensions = tuple(Extension(kind, data) for kind, data in named if data is not None)
    return TaskConfiguration(
        task_info=_INFO + catalog_digest,
        leader_url=leader_url.encode("ascii"),
        helper_url=helper_url.encode("ascii"),
        time_precision=time_precision,
        min_batch_size=min_batch_size,
        batch_mode=batch_mode,
        batch_config=b"",
        vdaf_type=PRIO3_SUM_VEC,
        vdaf_configuration=vdaf_config,
        extensions=extensions,
    ).encode()


def task_of(configuration: bytes, *, demo: bool = False, draft: Draft = DAP_18, batch_size: int | None = None) -> Task:
    """Read and judge a task's configuration; every role does, the client before it shards anything.

    `demo` lowers the floor of organisations and nothing else. The draft is agreed beside the configuration, which has
    no place for it; nor has it one for `batch_size`, which is the leader's own affair: None stands for the least
    that a batch needs. Raises: TaskRefused.
    """
    try:
        config = TaskConfiguration.decode(configuration)
        shape = _shape(config)
        extensions = _extensions(config.extensions)
        interval = Interval.decode(extensions[TASK_INTERVAL]) if TASK_INTERVAL in extensions else None
        noise = Noise.decode(extensions[NOISE]) if NOISE in extensions else None
        key = Ed25519Verifier(extensions[STATEMENT_KEY]) if STATEMENT_KEY in extensions else None
    except (Malformed, BadKey) as e:
        raise TaskRefused(e.what, fix="ask the task's author for its exact bytes") from None
    if len(config.task_info) < draft.task_info_least:
        raise TaskRefused(f"its task_info is empty, which {draft.tag} forbids")
    if MEMBERSHIP in extensions and config.vdaf_type in _NO_JOINT_RANDOMNESS:
        raise TaskRefused(
            f"a proof of membership binds no report of VDAF {config.vdaf_type}", fix="use Prio3SumVec (3)"
        )
    _check_batches(config, demo)
    filled = _batch_size(config, batch_size)
    if config.batch_mode == LEADER_SELECTED and MEMBERSHIP in extensions:
        raise TaskRefused(
            "counts members in batches that the leader selects, and one of those may hold a member many times",
            fix="use time_interval (1), or ask for no proof of membership",
        )
    if noise is not None:
        _check_noise(config, noise)
    _check_url("leader", config.leader_url)
    _check_url("helper", config.helper_url)
    # taskprov, section 3: the id is a hash of the configuration, under a tag that is itself hashed
    task_id = hashlib.sha256(hashlib.sha256(b"dap-taskprov task id").digest() + configuration).digest()
    membership = extensions.get(MEMBERSHIP)
    agreed = (configuration, config, task_id, shape, interval, membership)
    return Task(*agreed, demo, draft, noise, key, filled)


def _shape(config: TaskConfiguration) -> Shape:
    """What is summed: any of Prio3's five types; where a catalog gives the places their meaning, one bit a place."""
    catalog = config.task_info.startswith(_INFO)
    if config.vdaf_type == PRIO3_SUM_VEC:
        _check_sum_vec(config, bits=catalog)
    elif catalog:
        raise TaskRefused(f"VDAF {config.vdaf_type} cannot count a catalog", fix="use Prio3SumVec (3)")
    try:
        shape = shape_of(config.vdaf_type, config.vdaf_configuration)
    except VdafError as e:
        raise TaskRefused(e.what, fix="use a type of Prio3 from 1 to 5, with its parameters") from None
    if shape.length > LENGTH_MOST:
        raise TaskRefused(f"{shape.length} places cannot be counted")
    return shape


def _check_sum_vec(config: TaskConfiguration, *, bits: bool) -> None:
    sum_vec = SumVecConfig.decode(config.vdaf_configuration)
    elements = sum_vec.length * max(1, sum_vec.max_measurement.bit_length())
    if not 1 <= sum_vec.length <= LENGTH_MOST or not 1 <= sum_vec.chunk_length <= elements:
        raise TaskRefused(f"{sum_vec.length} places in chunks of {sum_vec.chunk_length} cannot be counted")
    if bits and sum_vec.max_measurement != 1:
        raise TaskRefused("a place may hold more than 0 or 1", fix="use max_measurement 1")


def _extensions(extensions: tuple[Extension, ...]) -> dict[int, bytes]:
    if not in_order(extensions):
        raise TaskRefused("its extensions are not in increasing order")
    unknown = [e.kind for e in extensions if e.kind not in (TASK_INTERVAL, MEMBERSHIP, NOISE, STATEMENT_KEY)]
    if unknown:
        raise TaskRefused(f"task extension {unknown[0]} is not known here")
    return {e.kind: e.data for e in extensions}


def _check_batches(config: TaskConfiguration, demo: bool) -> None:
    if config.batch_mode not in (TIME_INTERVAL, LEADER_SELECTED):
        raise TaskRefused(
            f"batch mode {config.batch_mode} is not spoken here", fix="use time_interval (1) or leader_selected (2)"
        )
    if config.batch_config:
        raise TaskRefused(f"batch mode {config.batch_mode} has no configuration, and this task gives it one")
    if not 1 <= config.time_precision <= TIME_MOST:
        raise TaskRefused(f"a time precision of {config.time_precision} seconds cannot be kept")
    floor = DEMO_LEAST if demo else LEAST
    if not floor <= config.min_batch_size <= TIME_MOST:
        raise TaskRefused(
            f"a batch of {config.min_batch_size} reports says too much about each; the floor is {floor}",
            fix="" if demo else f"only a demonstration may go below it, down to {DEMO_LEAST}",
        )


def _batch_size(config: TaskConfiguration, asked: int | None) -> int:
    """How many reports the leader fills a batch with; 0 where it selects none. Raises: TaskRefused."""
    if config.batch_mode != LEADER_SELECTED:
        if asked is not None:
            raise TaskRefused(
                "has a size for its batches, and batches of time intervals are as large as their reports make them",
                fix="leave the size out, or use leader_selected (2)",
            )
        return 0
    if asked is None:
        return config.min_batch_size
    if not config.min_batch_size <= asked <= TIME_MOST:
        raise TaskRefused(
            f"has batches of {asked} reports, and each needs {config.min_batch_size} at least",
            fix="give them that size or a larger one",
        )
    return asked


def _check_noise(config: TaskConfiguration, noise: Noise) -> None:
    try:
        demand_room(noise, config.vdaf_type, config.vdaf_configuration)
    except VdafError as e:
        raise TaskRefused(f"its noise cannot be made ({e.what})", fix="give it a larger cost") from None


def _check_url(whose: str, url: bytes) -> None:
    """HTTPS is demanded (section 3); plain HTTP only where nothing leaves the machine."""
    try:
        parts = urlsplit(url.decode("ascii"))
        host = parts.hostname or ""
    except ValueError:
        raise TaskRefused(f"the {whose}'s URL is not a URL in ASCII") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOOPBACK):
        raise TaskRefused(f"the {whose}'s URL is neither https nor on this machine")
    if not host or parts.query or parts.fragment or parts.username is not None:  # a task is public, a password is not
        raise TaskRefused(f"the {whose}'s URL is not a base for resources")


def in_order(extensions: Sequence[Extension]) -> bool:
    """Whether extension types strictly increase, as every list of extensions must."""
    kinds = [e.kind for e in extensions]
    return all(a < b for a, b in itertools.pairwise(kinds))
