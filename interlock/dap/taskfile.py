"""A task and an HPKE key as files. An aggregator's task and a key hold secrets; the client's task holds none.

Pairs: `dump_task` and `load_task`, `dump_client_task` and `load_client_task` (what members and the collector get),
`dump_key` and `load_key`. Whoever writes bytes that hold secrets makes the file private.
"""

from __future__ import annotations

from typing import Final

from interlock.base.codec import Malformed
from interlock.base.files import BadState, stamped, unstamped
from interlock.base.primitives import x25519_public
from interlock.dap.hpke import KeyPair
from interlock.dap.messages import HpkeConfig
from interlock.dap.shares import HpkeKey
from interlock.dap.task import AggregatorTask, Task, task_of

__all__ = ["dump_client_task", "dump_key", "dump_task", "load_client_task", "load_key", "load_task"]

_TASK_FORMAT: Final = "interlock-dap-task"
_CLIENT_FORMAT: Final = "interlock-dap-client-task"
_KEY_FORMAT: Final = "interlock-hpke-key"
_VERSION: Final = 1
_KEY_SIZE: Final = 32


def dump_task(held: AggregatorTask) -> bytes:
    """What an aggregator keeps of a task: its exact configuration, the verification key, the collector's key."""
    body: dict[str, object] = {
        "configuration": held.task.configuration.hex(),
        "demo": held.task.demo,
        "verify_key": held.verify_key.hex(),
        "verify_key_id": held.verify_key_id,
        "collector": held.collector.encode().hex(),
    }
    return stamped(_TASK_FORMAT, _VERSION, body)


def load_task(data: bytes, *, where: str) -> AggregatorTask:
    """Raises: BadState, NewerFormat, TaskRefused."""
    body = unstamped(data, _TASK_FORMAT, _VERSION, where=where)
    key_id = body.get("verify_key_id")
    try:
        task = task_of(_hex(body, "configuration"), demo=body.get("demo") is True)
        if not isinstance(key_id, int) or isinstance(key_id, bool) or not 0 <= key_id <= 255:
            raise ValueError("verify_key_id is not a number from 0 to 255")
        return AggregatorTask(task, _hex(body, "verify_key"), HpkeConfig.decode(_hex(body, "collector")), key_id)
    except (ValueError, Malformed) as e:
        raise BadState(f"is damaged ({e})", where=where, fix="make the task's file again") from None


def dump_client_task(task: Task) -> bytes:
    """What a member or the collector is handed: the exact configuration, and whether it is a demonstration."""
    body: dict[str, object] = {"configuration": task.configuration.hex(), "demo": task.demo}
    return stamped(_CLIENT_FORMAT, _VERSION, body)


def load_client_task(data: bytes, *, where: str) -> Task:
    """Raises: BadState, NewerFormat, TaskRefused (a task that is not safe to take part in)."""
    body = unstamped(data, _CLIENT_FORMAT, _VERSION, where=where)
    demo = body.get("demo")
    try:
        if set(body) != {"v", "configuration", "demo"} or not isinstance(demo, bool):
            raise ValueError("its fields are not configuration and demo")
        return task_of(_hex(body, "configuration"), demo=demo)
    except ValueError as e:
        raise BadState(f"is damaged ({e})", where=where, fix="ask the task's author for its file again") from None


def dump_key(key: HpkeKey) -> bytes:
    body: dict[str, object] = {"id": key.id, "public": key.pair.public.hex(), "private": key.pair.private.hex()}
    return stamped(_KEY_FORMAT, _VERSION, body)


def load_key(data: bytes, *, where: str) -> HpkeKey:
    """Raises: BadState, NewerFormat."""
    body = unstamped(data, _KEY_FORMAT, _VERSION, where=where)
    key_id = body.get("id")
    try:
        public, private = _hex(body, "public"), _hex(body, "private")
        if not isinstance(key_id, int) or isinstance(key_id, bool) or not 0 <= key_id <= 255:
            raise ValueError("id is not a number from 0 to 255")
        if len(private) != _KEY_SIZE or x25519_public(private) != public:
            raise ValueError("the keys are not a pair")
    except ValueError as e:
        raise BadState(f"is damaged ({e})", where=where, fix="restore it from its backup") from None
    return HpkeKey(key_id, KeyPair(public, private))


def _hex(body: dict[str, object], name: str) -> bytes:
    value = body.get(name)
    try:
        return bytes.fromhex(value) if isinstance(value, str) else bytes.fromhex("?")
    except ValueError:
        raise ValueError(f"{name} is not hex") from None
