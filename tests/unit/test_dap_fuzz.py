"""Any bytes at each of DAP's decoders and answers: what decodes encodes to the same, and memory is bounded."""

from __future__ import annotations

import dataclasses
import json
import secrets
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.fetch import Unreachable
from interlock.dap import fates, jobs, messages, noise, repair
from interlock.dap.drafts import DRAFTS, Draft
from interlock.dap.problems import problem_type
from interlock.dap.shares import new_key
from interlock.dap.task import AggregatorTask, task_of
from interlock.dap.taskfile import dump_client_task, dump_keys, dump_task, load_client_task, load_keys, load_task
from interlock.dap.transport import Reply, checked, place_of
from tests.unit.dap_world import World, anew, bits, configuration

VECTORS: Final = Path(__file__).parents[1] / "vectors" / "dap"
MODULES: Final = (messages, jobs, repair, fates, noise)
KEY = new_key(1, secrets.token_bytes)


def _golden() -> list[tuple[str, Draft, bytes]]:
    """Each good and bad vector: message, draft, bytes."""
    found = []
    for path in sorted(VECTORS.glob("*.json")):
        body = json.loads(path.read_text())
        for row in (*body.get("good", ()), *body.get("bad", ())):
            found += [(body["message"], DRAFTS[tag], bytes.fromhex(row["bytes"])) for tag in body["drafts"]]
    return found


GOLDEN: Final = _golden()


def decoded(message: str, draft: Draft, data: bytes) -> bytes:
    """A message, decoded and encoded again. Raises: Malformed."""
    kind: Any = next(getattr(module, message) for module in MODULES if hasattr(module, message))
    if message in ("UploadErrors", "AggregationJobResp"):
        again: bytes = kind.decode(data, draft).encode(draft)
    else:
        again = anew(kind.decode(data)).encode()
    return again


def mutated(data: st.DataObject, good: bytes) -> bytes:
    """Bytes changed, cut out, put in or doubled."""
    raw = bytearray(good or b"\x00")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(raw) - 1, 0)))
        match data.draw(st.integers(0, 4)):
            case 0:
                raw[at : at + 1] = data.draw(st.binary(min_size=1, max_size=1))
            case 1:
                del raw[at : at + data.draw(st.integers(1, 8))]
            case 2:
                raw[at:at] = data.draw(st.binary(min_size=1, max_size=8))
            case 3:
                raw[at:at] = raw[at : at + data.draw(st.integers(1, 64))]
            case _:
                raw[at : at + 4] = b"\xff\xff\xff\xff"
    return bytes(raw)


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_a_changed_message_decodes_to_what_encodes_to_it_or_is_malformed(data: st.DataObject) -> None:
    message, draft, good = data.draw(st.sampled_from(GOLDEN))
    raw = mutated(data, good)
    try:
        again = decoded(message, draft, raw)
    except Malformed:
        return
    assert again == raw


@pytest.mark.parametrize("fill", [b"\x00", b"\x01", b"\xff", b"\x00\x00\x00\x01"])
def test_a_long_body_of_anything_takes_memory_in_proportion(fill: bytes) -> None:
    body = fill * ((1 << 20) // len(fill))
    for message in sorted({name for name, _, _ in GOLDEN}):
        tracemalloc.start()
        try:
            decoded(message, DRAFTS["dap-18"], body)
        except Malformed:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 40 * len(body), message


def refusal(call: Callable[[], object]) -> str:
    """What is said where something is refused; nothing where it is not. No other error comes."""
    try:
        call()
    except InterlockError as e:
        return str(e)
    return ""


def held() -> AggregatorTask:
    return AggregatorTask(task_of(configuration(least=10)), b"v" * 32, KEY.config)


FILES: Final[list[tuple[bytes, Callable[..., Any]]]] = [
    (dump_task(held()), load_task),
    (dump_client_task(held().task), load_client_task),
    (dump_keys([KEY, dataclasses.replace(KEY, id=2, until_us=5)]), load_keys),
]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_changed_file_loads_or_is_refused_in_one_line(data: st.DataObject) -> None:
    good, load = data.draw(st.sampled_from(FILES))
    raw = data.draw(st.binary(max_size=200)) if data.draw(st.integers(0, 9)) == 0 else mutated(data, good)
    told = refusal(lambda: load(raw, where="f"))
    assert "\n" not in told
    assert KEY.pair.private.hex() not in told


@settings(max_examples=100)
@given(st.integers(100, 599), st.text(max_size=40), st.binary(max_size=200), st.text(max_size=60))
def test_any_answer_is_checked_and_any_place_is_ours_or_refused(
    status: int, kind: str, body: bytes, location: str
) -> None:
    problem_type(body)
    messages.message_of(kind)
    wanted = messages.media_type("aggregate-share")
    assert "\n" not in refusal(lambda: checked(Reply(status, kind, body), "https://h.test/x", wanted))
    try:
        place = place_of("https://h.test/x", location)
    except Unreachable:
        return
    assert place.startswith("https://h.test/") or place == "https://h.test"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_a_helper_answers_a_report_is_taken_counted_or_rejected(world: World, data: st.DataObject) -> None:
    task_id = world.task.task_id
    before = world.leader_store.states(task_id)
    assert world.upload(world.report(bits(1))) == []

    def change(reply: Reply) -> Reply:
        status = data.draw(st.sampled_from([200, 201, 202, 204, 302, 400, 404, 413, 500, 503]))
        kind = data.draw(st.sampled_from([reply.media_type, "", "text/html"]))
        return dataclasses.replace(reply, status=status, media_type=kind, body=mutated(data, reply.body))

    world.post.after = change
    world.driver.drive_once()
    after = world.leader_store.states(task_id)
    assert after.waiting == 0
    assert after.taken + after.aggregated + after.rejected == before.taken + before.aggregated + before.rejected + 1
    world.post.after = lambda reply: reply
    world.clock.advance(3700)
    world.drive(2)
    assert world.leader_store.states(task_id).taken == 0
