"""A task and HPKE keys as files. An aggregator's task and keys hold secrets; the client's task holds none.

Pairs: `dump_task` and `load_task`, `dump_client_task` and `load_client_task` (what members and the collector get),
`dump_key` and `load_key` (the collector's), `dump_config` and `load_config` (its public half), `dump_keys` and
`load_keys` (an aggregator's, the first is the one to seal to). Whoever writes bytes that hold secrets makes the file
private. A task of version 1 names no draft: it is dap-18. Version 3 says how many reports the leader fills a batch
with, and is of tasks whose leader selects them; in a file of before that is the least that a batch needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final

from interlock.base.codec import Malformed
from interlock.base.errors import BadInput
from interlock.base.files import BadState, stamped, unstamped
from interlock.base.primitives import BadSignature
from interlock.dap.drafts import DAP_18, Draft, draft_of
from interlock.dap.hpke import KeyPair, pair_of
from interlock.dap.messages import HpkeConfig
from interlock.dap.shares import HpkeKey
from interlock.dap.task import TIME_MOST, AggregatorTask, Task, TaskRefused, task_of

__all__ = [
    "dump_client_task",
    "dump_config",
    "dump_key",
    "dump_keys",
    "dump_task",
    "load_client_task",
    "load_config",
    "load_key",
    "load_keys",
    "load_task",
]

_TASK_FORMAT: Final = "interlock-dap-task"
_CLIENT_FORMAT: Final = "interlock-dap-client-task"
_KEY_FORMAT: Final = "interlock-hpke-key"
_KEYS_FORMAT: Final = "interlock-hpke-keys"
_CONFIG_FORMAT: Final = "interlock-hpke-config"
_TASK_VERSION: Final = 3
_CLIENT_FIELDS: Final[Mapping[object, Set[str]]] = {
    1: {"v", "configuration", "demo"},
    2: {"v", "configuration", "demo", "draft"},
    3: {"v", "configuration", "demo", "draft", "batch_size"},
}
_KEY_VERSION: Final = 1
_RESTORE: Final = "restore it from its backup"


def dump_task(held: AggregatorTask) -> bytes:
    """What an aggregator keeps of a task: its exact configuration, the verification key, the collector's key."""
    body: dict[str, object] = {
        "configuration": held.task.configuration.hex(),
        "demo": held.task.demo,
        "draft": held.task.draft.tag,
        "verify_key": held.verify_key.hex(),
        "verify_key_id": held.verify_key_id,
        "collector": held.collector.encode().hex(),
    }
    return _stamped(_TASK_FORMAT, held.task, body)


def load_task(data: bytes, *, where: str) -> AggregatorTask:
    """Raises: BadState, NewerFormat, TaskRefused."""
    body = unstamped(data, _TASK_FORMAT, _TASK_VERSION, where=where)
    try:
        task = _task(body, where)
        collector = HpkeConfig.decode(_hex(body, "collector"))
        return AggregatorTask(task, _hex(body, "verify_key"), collector, _number(body, "verify_key_id", 255))
    except (ValueError, Malformed) as e:
        raise BadState(f"is damaged ({e})", where=where, fix="make the task's file again") from None


def dump_client_task(task: Task) -> bytes:
    """What a member or the collector is handed: the exact configuration, the draft, and whether it is for a demo."""
    body: dict[str, object] = {
        "configuration": task.configuration.hex(),
        "demo": task.demo,
        "draft": task.draft.tag,
    }
    return _stamped(_CLIENT_FORMAT, task, body)


def load_client_task(data: bytes, *, where: str) -> Task:
    """Raises: BadState, NewerFormat, TaskRefused (a task that is not safe to take part in)."""
    body = unstamped(data, _CLIENT_FORMAT, _TASK_VERSION, where=where)
    try:
        if set(body) != _CLIENT_FIELDS.get(body["v"]) or not isinstance(body["demo"], bool):
            raise ValueError("its fields are not configuration, demo, draft and, from version 3 on, batch_size")
        return _task(body, where)
    except ValueError as e:
        raise BadState(f"is damaged ({e})", where=where, fix="ask the task's author for its file again") from None


def dump_key(key: HpkeKey) -> bytes:
    return stamped(_KEY_FORMAT, _KEY_VERSION, _key_body(key))


def load_key(data: bytes, *, where: str) -> HpkeKey:
    """Raises: BadState, NewerFormat."""
    return _key(unstamped(data, _KEY_FORMAT, _KEY_VERSION, where=where), where)


def dump_config(config: HpkeConfig) -> bytes:
    """A public key, as whoever seals to it is handed it."""
    return stamped(_CONFIG_FORMAT, _KEY_VERSION, {"config": config.encode().hex()})


def load_config(data: bytes, *, where: str) -> HpkeConfig:
    """Raises: BadState, NewerFormat."""
    body = unstamped(data, _CONFIG_FORMAT, _KEY_VERSION, where=where)
    try:
        return HpkeConfig.decode(_hex(body, "config"))
    except (ValueError, Malformed) as e:
        raise BadState(f"is damaged ({e})", where=where, fix="ask the key's owner for it again") from None


def dump_keys(keys: Sequence[HpkeKey]) -> bytes:
    return stamped(_KEYS_FORMAT, _KEY_VERSION, {"keys": [_key_body(key) for key in keys]})


def load_keys(data: bytes, *, where: str) -> list[HpkeKey]:
    """The keys of an aggregator; a file of one key is read too. Raises: BadState, NewerFormat."""
    if _KEYS_FORMAT.encode("ascii") not in data:
        return [load_key(data, where=where)]
    listed = unstamped(data, _KEYS_FORMAT, _KEY_VERSION, where=where).get("keys")
    if not isinstance(listed, list) or not listed or not all(isinstance(body, dict) for body in listed):
        raise BadState("holds no list of keys", where=where, fix=_RESTORE)
    keys = [_key(body, where) for body in listed]
    if len({key.id for key in keys}) != len(keys):
        raise BadState("holds two keys of one id", where=where, fix=_RESTORE)
    if all(key.until_us is not None for key in keys):
        raise BadState("offers no key, each was replaced", where=where, fix=_RESTORE)
    return keys


def _key_body(key: HpkeKey) -> dict[str, object]:
    body: dict[str, object] = {"id": key.id, "public": key.pair.public.hex(), "private": key.pair.private.hex()}
    return body if key.until_us is None else {**body, "until_us": key.until_us}


def _key(body: dict[str, object], where: str) -> HpkeKey:
    try:
        public, private = _hex(body, "public"), _hex(body, "private")
        pair = KeyPair(public, private)
        if pair_of(private, pair.kem) != pair:
            raise ValueError("the keys are not a pair")
        return HpkeKey(_number(body, "id", 255), pair, None if "until_us" not in body else _number(body, "until_us"))
    except (ValueError, BadSignature) as e:
        raise BadState(f"is damaged ({e})", where=where, fix=_RESTORE) from None


def _stamped(kind: str, task: Task, body: dict[str, object]) -> bytes:
    """A task's file; what is not of this version alone is read by whoever reads the one before."""
    if task.leader_selected:
        return stamped(kind, _TASK_VERSION, {**body, "batch_size": task.batch_size})
    return stamped(kind, _TASK_VERSION - 1, body)


def _task(body: dict[str, object], where: str) -> Task:
    """Raises: ValueError, TaskRefused."""
    size = _number(body, "batch_size", least=1) if body["v"] == _TASK_VERSION else None
    demo = body.get("demo") is True
    return task_of(_hex(body, "configuration"), demo=demo, draft=_draft(body, where), batch_size=size)


def _draft(body: dict[str, object], where: str) -> Draft:
    """Raises: TaskRefused, for a draft that is not spoken here."""
    tag = body.get("draft", "") if body["v"] != 1 else DAP_18.tag
    try:
        return draft_of(tag if isinstance(tag, str) else "")
    except BadInput as e:
        raise TaskRefused(f"its draft {e.what}", where=where, fix=e.fix) from None


def _number(body: dict[str, object], name: str, most: int = TIME_MOST, *, least: int = 0) -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} is not a number from {least} to {most}")
    return value


def _hex(body: dict[str, object], name: str) -> bytes:
    value = body.get(name)
    try:
        return bytes.fromhex(value) if isinstance(value, str) else bytes.fromhex("?")
    except ValueError:
        raise ValueError(f"{name} is not hex") from None
