"""The witness: each answer of C2SP tlog-witness, and never two histories, whatever happens to the process."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.base.clock import ManualClock
from interlock.base.codec import Malformed
from interlock.base.files import BadState
from interlock.base.keys import Ed25519Signer
from interlock.transparency.checkpoint import (
    Checkpoint,
    CosignatureVerifier,
    Cosigner,
    cosigned_at,
    parse_checkpoint,
    sign_checkpoint,
)
from interlock.transparency.merkle import EMPTY_ROOT, leaf_hash, memory_reader, prove_consistency, root_of
from interlock.transparency.note import MAX_NOTE, NoteSigner, NoteVerifier, parse_note
from interlock.transparency.witness import (
    SIZE_TYPE,
    Answer,
    Witness,
    add_checkpoint_request,
    parse_cosignatures,
    parse_request,
    parse_size,
)

ORIGIN = "log.example/packs"
SIGNER = NoteSigner(ORIGIN, Ed25519Signer(b"\x01" * 32))
COSIGNER = Cosigner("witness.example/w", Ed25519Signer(b"\x02" * 32))
LEAVES = [leaf_hash(str(i).encode()) for i in range(200)]
FORK = [leaf_hash(b"fork %d" % i) for i in range(200)]


def witness(home: Path, clock: ManualClock | None = None) -> Witness:
    return Witness(home, [COSIGNER], {ORIGIN: [SIGNER.key]}, clock or ManualClock())


def note(size: int, leaves: list[bytes] = LEAVES, signer: NoteSigner = SIGNER) -> bytes:
    return sign_checkpoint(Checkpoint(signer.name, size, root_of(leaves[:size])), [signer])


def request(old: int, new: int, leaves: list[bytes] = LEAVES) -> bytes:
    proof = prove_consistency(old, new, memory_reader(leaves)) if old else ()
    return add_checkpoint_request(old, proof, note(new, leaves))


def cosigned_size(home: Path) -> int:
    latest = witness(home).latest(hashlib.sha256(ORIGIN.encode()).hexdigest())
    return 0 if latest is None else parse_checkpoint(parse_note(latest).text).size


def test_a_consistent_checkpoint_is_cosigned_and_served(tmp_path: Path) -> None:
    for old, new in ((0, 0), (0, 1), (1, 5), (5, 5), (5, 8), (8, 199)):
        answer = witness(tmp_path).process(request(old, new))
        assert (answer.status, answer.content_type) == (200, "text/plain; charset=utf-8")
        (cosignature,) = parse_cosignatures(answer.body)
        text = parse_note(note(new)).text.encode()
        CosignatureVerifier(COSIGNER.key).verify(text, cosignature.data)
        latest = witness(tmp_path).latest(hashlib.sha256(ORIGIN.encode()).hexdigest())
        assert latest is not None
        assert latest == note(new) + answer.body


def test_a_checkpoint_that_is_too_long_with_a_cosignature_is_refused_and_not_kept(tmp_path: Path) -> None:
    room = MAX_NOTE - len(sign_checkpoint(Checkpoint(ORIGIN, 1, root_of(LEAVES[:1]), ("x",)), [SIGNER]))
    long = sign_checkpoint(Checkpoint(ORIGIN, 1, root_of(LEAVES[:1]), ('"' * (room + 1),)), [SIGNER])
    assert len(long) == MAX_NOTE
    assert witness(tmp_path).process(add_checkpoint_request(0, (), long)).status == 400
    fits = sign_checkpoint(Checkpoint(ORIGIN, 1, root_of(LEAVES[:1]), ('"' * (room - 200),)), [SIGNER])
    assert witness(tmp_path).process(add_checkpoint_request(0, (), fits)).status == 200
    assert witness(tmp_path).process(request(1, 5)).status == 200, "what was kept can be read again"


def test_another_old_size_is_a_conflict_that_tells_the_size(tmp_path: Path) -> None:
    assert witness(tmp_path).process(request(3, 5)) == Answer(409, SIZE_TYPE, b"0\n")
    witness(tmp_path).process(request(0, 5))
    answer = witness(tmp_path).process(request(0, 8))
    assert answer == Answer(409, SIZE_TYPE, b"5\n")
    assert parse_size(answer.body) == 5


def test_an_unknown_origin_is_404(tmp_path: Path) -> None:
    stranger = NoteSigner("log.example/else", Ed25519Signer(b"\x01" * 32))
    assert witness(tmp_path).process(add_checkpoint_request(0, (), note(3, signer=stranger))).status == 404


def test_no_trusted_signature_or_a_spoilt_one_is_403(tmp_path: Path) -> None:
    stranger = NoteSigner(ORIGIN, Ed25519Signer(b"\x09" * 32))
    assert witness(tmp_path).process(add_checkpoint_request(0, (), note(3, signer=stranger))).status == 403
    spoilt = note(3).replace(b"\n3\n", b"\n4\n")
    assert witness(tmp_path).process(add_checkpoint_request(0, (), spoilt)).status == 403
    assert cosigned_size(tmp_path) == 0


def test_signatures_of_strangers_are_neither_checked_nor_kept(tmp_path: Path) -> None:
    stranger = NoteSigner("someone.else/x", Ed25519Signer(b"\x09" * 32))
    checkpoint = parse_checkpoint(parse_note(note(3)).text)
    both = sign_checkpoint(checkpoint, [SIGNER, stranger])
    answer = witness(tmp_path).process(add_checkpoint_request(0, (), both))
    assert answer.status == 200
    assert witness(tmp_path).latest(hashlib.sha256(ORIGIN.encode()).hexdigest()) == note(3) + answer.body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"old 0\n" + note(3),
        b"old 00\n\n" + note(3),
        b"old -1\n\n" + note(3),
        b"OLD 0\n\n" + note(3),
        b"old 0\r\n\n" + note(3),
        b"old 4\n\n" + note(3),
        b"old 0\nAAAA\n\n" + note(3),
        b"old 0\n" + b"A" * 43 + b"=\n" + (b"A" * 43 + b"=\n") * 63 + b"\n" + note(3),
        b"old 0\n\n" + note(3)[:-1],
        b"old 0\n\n" + note(3) + b"\n",
    ],
)
def test_a_request_of_another_form_is_400(tmp_path: Path, body: bytes) -> None:
    assert witness(tmp_path).process(body).status == 400
    assert cosigned_size(tmp_path) == 0


def test_a_proof_that_does_not_verify_is_422(tmp_path: Path) -> None:
    empty = sign_checkpoint(Checkpoint(ORIGIN, 0, b"\x00" * 32), [SIGNER])
    assert witness(tmp_path).process(add_checkpoint_request(0, (), empty)).status == 422
    assert witness(tmp_path).process(add_checkpoint_request(0, (EMPTY_ROOT,), note(3))).status == 422
    witness(tmp_path).process(request(0, 5))
    good = prove_consistency(5, 8, memory_reader(LEAVES))
    for proof in ((), good[:-1], (*good, good[0]), good[::-1]):
        assert witness(tmp_path).process(add_checkpoint_request(5, proof, note(8))).status == 422
    assert witness(tmp_path).process(add_checkpoint_request(5, good, note(5))).status == 422
    assert cosigned_size(tmp_path) == 5


def test_a_fork_is_never_cosigned(tmp_path: Path) -> None:
    witness(tmp_path).process(request(0, 5))
    assert witness(tmp_path).process(request(5, 5, FORK)).status == 422
    for end in (6, 8, 50):
        assert witness(tmp_path).process(request(5, end, FORK)).status == 422
    assert witness(tmp_path).process(request(0, 5, FORK)).status == 409
    assert witness(tmp_path).process(request(5, 9)).status == 200


def test_a_cosignatures_time_never_runs_backwards(tmp_path: Path) -> None:
    clock = ManualClock()
    times = []
    for step in (0, 100, -50, 10):
        clock.advance(step)
        (cosignature,) = parse_cosignatures(witness(tmp_path, clock).process(request(cosigned_size(tmp_path), 5)).body)
        times.append(cosigned_at(cosignature) - 1_800_000_000)
    assert times == [0, 100, 100, 100]


def test_nothing_is_served_for_what_was_never_cosigned(tmp_path: Path) -> None:
    for name in (hashlib.sha256(ORIGIN.encode()).hexdigest(), "../lock", "", hashlib.sha256(b"x").hexdigest()):
        assert witness(tmp_path).latest(name) is None


def test_a_damaged_state_cosigns_nothing(tmp_path: Path) -> None:
    witness(tmp_path).process(request(0, 5))
    (state,) = tmp_path.glob("*.json")
    for damage in (b"", state.read_bytes()[:-30], state.read_bytes().replace(b"log.example", b"log.exampla")):
        state.write_bytes(damage)
        with pytest.raises(BadState):
            witness(tmp_path).process(request(5, 8))


@given(st.integers(0, 1 << 40), st.lists(st.binary(min_size=32, max_size=32), max_size=5).map(tuple))
def test_a_request_survives_writing_and_reading(old: int, proof: tuple[bytes, ...]) -> None:
    assert parse_request(add_checkpoint_request(old, proof, note(3))) == (old, proof, parse_note(note(3)))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 300), st.integers(0, 20), st.binary(max_size=12))
def test_no_bytes_break_the_witness(tmp_path: Path, at: int, length: int, junk: bytes) -> None:
    body = request(3, 5)
    answer = witness(tmp_path).process(body[:at] + junk + body[at + length :])
    assert answer.status in (400, 403, 404, 409)
    for parse in (parse_cosignatures, parse_size):
        try:
            parse(junk)
        except Malformed:
            continue


def _ask(home: Path, body: bytes, answers: list[int]) -> None:
    answers.append(witness(home).process(body).status)


def test_of_two_histories_asked_for_at_once_one_is_cosigned(tmp_path: Path) -> None:
    for start in range(5):
        home = tmp_path / str(start)
        answers: list[int] = []
        asked = [
            threading.Thread(target=_ask, args=(home, body, answers))
            for body in (request(0, 5), request(0, 5, FORK), request(0, 6), request(0, 7, FORK))
        ]
        for thread in asked:
            thread.start()
        for thread in asked:
            thread.join()
        assert sorted(answers) == [200, 409, 409, 409]


WITNESS = """
import sys
from pathlib import Path
from tests.unit.test_transparency_witness import witness, request, cosigned_size, LEAVES, FORK
home, mine = Path(sys.argv[1]), {"honest": LEAVES, "fork": FORK}[sys.argv[2]]
w, size = witness(home), cosigned_size(home)
print("ready", flush=True)
while size < 200:
    answer = w.process(request(size, size + 1, mine))
    print(size + 1, answer.status, answer.body.hex(), flush=True)
    if answer.status != 200:
        break
    size += 1
"""


def test_kill_9_never_makes_a_witness_sign_two_histories(tmp_path: Path) -> None:
    rng = random.Random(3)
    top = 0
    for round_ in range(8):
        history = "fork" if round_ % 3 == 2 else "honest"
        command = [sys.executable, "-c", WITNESS, str(tmp_path), history]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        assert child.stdout is not None
        with child.stdout:
            assert child.stdout.readline() == "ready\n"
            first = "" if round_ % 2 else child.stdout.readline()  # else any moment, also before the first answer
            time.sleep(rng.uniform(0.0, 0.1))
            os.kill(child.pid, signal.SIGKILL)
            said = first + child.stdout.read()
            rows = [r.split(" ") for r in said.splitlines(keepends=True) if r.endswith("\n")]
        child.wait()
        for size, status, _body in rows:
            if history == "fork":
                assert status == "422"  # there is a cosigned tree by now, and the fork is not its extension
            else:
                assert status == "200"
                assert int(size) == top + 1 or int(size) == top + 2  # the answer of one more may have been lost
                top = int(size)
        assert cosigned_size(tmp_path) in (top, top + 1)
        top = cosigned_size(tmp_path)
    assert top >= 2
    latest = witness(tmp_path).latest(hashlib.sha256(ORIGIN.encode()).hexdigest())
    assert latest is not None
    assert parse_note(latest).text == parse_note(note(top)).text


def test_a_time_that_never_came_is_stated_until_the_operator_lets_go_of_it(tmp_path: Path) -> None:
    clock = ManualClock()
    clock.advance(10 * 365 * 86_400)
    assert witness(tmp_path, clock).process(request(0, 5)).status == 200
    clock.advance(-10 * 365 * 86_400)
    now = clock.now_us() // 1_000_000
    (ahead,) = witness(tmp_path, clock).stated().values()
    (later,) = parse_cosignatures(witness(tmp_path, clock).process(request(5, 6)).body)
    assert cosigned_at(later) == ahead > now
    assert witness(tmp_path, clock).restate() == {ORIGIN: ahead}
    assert witness(tmp_path, clock).restate() == {}
    latest = witness(tmp_path, clock).latest(hashlib.sha256(ORIGIN.encode()).hexdigest())
    assert latest is not None
    ((_, signature),) = parse_note(latest).verified([CosignatureVerifier(COSIGNER.key)])
    assert cosigned_at(signature) == now
    parse_note(latest).verified([NoteVerifier(SIGNER.key)])  # the log's own signature stays beside it
    (next_,) = parse_cosignatures(witness(tmp_path, clock).process(request(6, 7)).body)
    assert cosigned_at(next_) == now


def test_letting_go_of_a_time_forgets_no_tree(tmp_path: Path) -> None:
    clock = ManualClock()
    clock.advance(86_400)
    witness(tmp_path, clock).process(request(0, 5))
    clock.advance(-86_400)
    witness(tmp_path, clock).restate()
    assert cosigned_size(tmp_path) == 5
    assert witness(tmp_path, clock).process(request(5, 8, FORK)).status == 422
    assert witness(tmp_path, clock).process(request(0, 8, FORK)).status == 409
