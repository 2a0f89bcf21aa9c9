"""DAP tasks as people make them and look at them: a task from its options, what it says, taking it on.

task = made_task(Wanted(...))                       # judged like any task that comes from elsewhere
take_on(folder, task, collector, secret)            # an aggregator's: the same secret at leader and helper
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Final

from interlock.base.clock import MICROSECONDS, rfc3339
from interlock.base.codec import Malformed
from interlock.base.errors import BadInput
from interlock.base.files import read_private
from interlock.base.files import replace as replace_file
from interlock.base.keys import Ed25519Verifier
from interlock.base.primitives import Rng
from interlock.commons.membership import TaskMembership
from interlock.dap.drafts import Draft, draft_of
from interlock.dap.messages import LEADER_SELECTED, TIME_INTERVAL, HpkeConfig, Interval, TaskConfiguration
from interlock.dap.noise import Mechanism, Noise
from interlock.dap.task import LENGTH_MOST, TIME_MOST, AggregatorTask, Task, new_configuration, task_of, verify_key_of
from interlock.dap.vdaf.circuits import (
    Circuit,
    Count,
    Histogram,
    MultihotCountVec,
    Sum,
    SumVec,
    best_chunk_length,
)
from interlock.node.storage.dap_tasks import TaskDirectory

__all__ = ["VDAFS", "Wanted", "described", "made_task", "noise_of", "shared_secret", "take_on", "task_from"]

VDAFS: Final = {1: "Prio3Count", 2: "Prio3Sum", 3: "Prio3SumVec", 4: "Prio3Histogram", 5: "Prio3MultihotCountVec"}
_SECRET_SIZE: Final = 32
_DAY_S: Final = 86_400
_DAYS_MOST: Final = 3650
_LIMIT: Final = 1 << 16
_NO_CATALOG: Final = b"interlock/trial:"  # before the name, where a task counts places without a meaning


@dataclass(frozen=True)
class Wanted:
    """What a task is to be. `catalog` is the SHA-256 of its catalog, None for places without a meaning.

    `vdaf` is count, sum, sumvec, histogram or multihot, and `most` the largest number of sum and sumvec, or how many
    ones a report of multihot has at most. `epoch_s` is in seconds, `days` from now; `members` is the kind of proof that
    reports carry, empty for none.
    """

    name: str
    length: int
    leader: str
    helper: str
    catalog: bytes | None = None
    min_batch: int = 10
    epoch_s: int = _DAY_S
    days: int = 180
    vdaf: str = "sumvec"
    most: int = 1
    draft: str = "dap-18"
    members: str = ""
    noise: Noise | None = None
    demo: bool = False
    leader_selected: bool = False  # batches are what the leader puts together, not epochs
    batch_size: int | None = None  # how many reports it fills one with; None for the least that one needs
    statement_key: Ed25519Verifier | None = None  # the collector's, which alone may say what the sums show


def made_task(wanted: Wanted, now_us: int) -> Task:
    """Raises: BadInput; TaskRefused, for what nobody here would take part in."""
    draft = draft_of(wanted.draft)
    _demand_size(wanted)
    interval = _interval(wanted, now_us)
    if not 1 <= wanted.length <= LENGTH_MOST:
        raise BadInput(f"is from 1 to {LENGTH_MOST}", where="the number of places")
    circuit = _circuit(wanted)
    for url in (wanted.leader, wanted.helper):
        if not url.isascii() or not url:
            raise BadInput("is not a URL in ASCII", where="an aggregator's URL")
    configuration = new_configuration(
        catalog_digest=wanted.catalog or hashlib.sha256(b"").digest(),
        leader_url=wanted.leader,
        helper_url=wanted.helper,
        time_precision=wanted.epoch_s,
        min_batch_size=wanted.min_batch,
        vdaf_config=circuit.config,
        interval=interval,
        membership=TaskMembership(wanted.members, wanted.name).encode() if wanted.members else None,
        noise=wanted.noise,
        statement_key=wanted.statement_key,
        batch_mode=LEADER_SELECTED if wanted.leader_selected else TIME_INTERVAL,
    )
    if wanted.catalog is None:
        config, info = TaskConfiguration.decode(configuration), _NO_CATALOG + wanted.name.encode("ascii")
        configuration = replace(config, task_info=info, vdaf_type=circuit.algorithm_id).encode()
    return task_of(configuration, demo=wanted.demo, draft=draft, batch_size=wanted.batch_size)


def task_from(data: bytes, *, demo: bool, draft: Draft, batch_size: int | None = None) -> Task:
    """A task from its configuration: the bytes, or a text of them in hex or Base 64, as in the header DAP-Taskprov.

    Raises: TaskRefused.
    """
    return task_of(_configuration(data), demo=demo, draft=draft, batch_size=batch_size)


def _configuration(data: bytes) -> bytes:
    text = data.decode("ascii", "replace").strip().strip(":")
    with contextlib.suppress(ValueError):
        return bytes.fromhex(text)
    with contextlib.suppress(ValueError):
        plain = text.translate(str.maketrans("-_", "+/"))
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    return data


def noise_of(mechanism: str | None, cost: str | None, budget: str | None) -> Noise | None:
    """The noise that options ask for. Raises: BadInput."""
    if mechanism is None:
        if cost or budget:
            raise BadInput("belong to --noise", where="--cost, --budget")
        return None
    if not cost or not budget:
        raise BadInput("are needed with --noise", where="--cost, --budget", fix="such as --cost 1/2 --budget 8")
    try:
        return Noise(Mechanism[mechanism.upper()], Fraction(cost), Fraction(budget))
    except (ValueError, ZeroDivisionError):
        told = "are positive fractions such as 1/2, and the budget pays for one release at least"
        raise BadInput(told, where="--cost, --budget") from None


def described(task: Task) -> dict[str, object]:
    """What a task says, for JSON; times in RFC 3339, the id in hex."""
    config, until = task.config, None
    if task.interval is not None:
        until = rfc3339(task.start_us(task.interval.end))
    name, proof = _members(task)
    return {
        "id": task.task_id.hex(),
        "name": name,
        "draft": task.draft.tag,
        "verified": task.draft.verified,
        "demo": task.demo,
        "vdaf": VDAFS[task.config.vdaf_type],
        "length": task.shape.length,
        "most": task.shape.most,
        "catalog": None if task.catalog_digest is None else task.catalog_digest.hex(),
        "batch_mode": "leader-selected" if task.leader_selected else "time-interval",
        "min_batch_size": config.min_batch_size,
        "batch_size": task.batch_size or None,
        "epoch_s": config.time_precision,
        "until": until,
        "members": proof,
        "noise": None if task.noise is None else _noise(task.noise),
        "collector": None if task.statement_key is None else task.statement_key.text,
        "leader": config.leader_url.decode("ascii"),
        "helper": config.helper_url.decode("ascii"),
    }


def shared_secret(path: Path, rng: Rng) -> tuple[bytes, bool]:
    """The secret that leader and helper derive verification keys from, and whether it was made just now.

    Raises: BadState, BadInput, NotWritable.
    """
    made = not path.exists()
    if made:
        replace_file(path, rng(_SECRET_SIZE).hex().encode("ascii"))
    try:
        secret = bytes.fromhex(read_private(path, _LIMIT).decode("ascii", "replace"))
    except ValueError:
        secret = b""
    if len(secret) != _SECRET_SIZE:
        raise BadInput(f"is not {_SECRET_SIZE} bytes in hex", where=str(path), fix="name a file that is not there yet")
    return secret, made


def take_on(directory: Path, task: Task, collector: HpkeConfig, secret: bytes) -> None:
    """Give a task to the aggregator in a folder, which serves it at once. Raises: NotWritable, TaskRefused."""
    held = AggregatorTask(task, verify_key_of(secret, task.task_id), collector)
    TaskDirectory(directory / "tasks").add(held)


def _circuit(wanted: Wanted) -> Circuit:
    """What a task counts by, with the chunk length that costs least. Raises: BadInput."""
    length, most, bits = wanted.length, wanted.most, max(1, wanted.most.bit_length())
    if wanted.catalog is not None and (wanted.vdaf, most) != ("sumvec", 1):
        raise BadInput("counts a catalog by one bit a place", where="the task", fix="leave the type of count as it is")
    try:
        match wanted.vdaf:
            case "count":
                return Count()
            case "sum":
                return Sum(most)
            case "histogram":
                return Histogram(length, best_chunk_length(length))
            case "multihot":
                return MultihotCountVec(length, most, best_chunk_length(length + bits))
        return SumVec(length, most, best_chunk_length(length * bits))
    except ValueError as e:
        raise BadInput(str(e), where=f"the type of count, {wanted.vdaf}") from None


def _demand_size(wanted: Wanted) -> None:
    """Raises: BadInput, for a size of batches that the task cannot have."""
    if wanted.batch_size is not None and not wanted.leader_selected:
        told = "is for batches that the leader selects; one of epochs holds whatever reports they have"
        raise BadInput(told, where="the batch size", fix="leave it out, or make the task leader-selected")
    if wanted.batch_size is not None and not wanted.min_batch <= wanted.batch_size <= TIME_MOST:
        told = f"is {wanted.min_batch} or more, which a batch of this task needs"
        raise BadInput(told, where="the batch size")


def _interval(wanted: Wanted, now_us: int) -> Interval:
    """From the epoch under way on. Raises: BadInput."""
    if not 1 <= wanted.epoch_s <= 365 * _DAY_S:
        raise BadInput("is from 1 second to a year", where="the epoch")
    if not 1 <= wanted.days <= _DAYS_MOST or wanted.days * _DAY_S < wanted.epoch_s:
        raise BadInput(f"is from 1 to {_DAYS_MOST} days, and an epoch at least", where="how long the task counts")
    return Interval(now_us // (wanted.epoch_s * MICROSECONDS), -(-wanted.days * _DAY_S // wanted.epoch_s))


def _members(task: Task) -> tuple[str | None, str | None]:
    """The task's name in the commons and the kind of proof that it asks for."""
    if task.membership is None:
        return None, None
    try:
        wanted = TaskMembership.decode(task.membership)
    except Malformed:
        return None, "unknown"
    return wanted.task, wanted.backend


def _noise(noise: Noise) -> Mapping[str, str]:
    return {
        "mechanism": noise.mechanism.name.lower(),
        "measure": noise.mechanism.measure,
        "cost": str(noise.cost),
        "budget": str(noise.budget),
    }
