"""Receipts: the chain, and the file that keeps it."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.base.canonical import encode
from interlock.base.errors import InterlockError
from interlock.base.files import BadState, Locked, NewerFormat, NotWritable
from interlock.base.keys import Ed25519Signer
from interlock.engine.receipt_seals import BadChain, PublicSeal, ReceiptKeys
from interlock.engine.receipts import (
    MAX_LINE,
    Receipt,
    decode_receipt,
    encode_header,
    encode_receipt,
    label,
    sealed,
    verify_chain,
)
from interlock.engine.sinks import FileSink, InMemorySink, NullSink, read_receipts, verify_file

KEY = bytes(range(32))


def receipt(n: int = 0, **changes: Any) -> Receipt:
    base = Receipt(
        ts_us=n,
        call_id="c",
        action="Bash",
        phase="call",
        verdict="ALLOW",
        outcome="proceeded",
        policy_epoch=1,
        policy_digest="d",
        elapsed_us=5,
    )
    return dataclasses.replace(base, **changes)


def written(path: Path, count: int) -> FileSink:
    sink = FileSink(path, fsync=False)
    for n in range(count):
        sink.append(receipt(n))
    return sink


texts = st.text(max_size=20)
receipts = st.builds(
    Receipt,
    ts_us=st.integers(0, 2**60),
    call_id=texts,
    action=texts,
    phase=st.sampled_from(["call", "result"]),
    verdict=texts,
    outcome=texts,
    policy_epoch=st.integers(0, 9),
    policy_digest=texts,
    elapsed_us=st.integers(0, 9),
    policy_id=st.none() | texts,
    log_index=st.none() | st.integers(0, 9),
    args_digest=st.none() | texts,
)


@given(receipts)
def test_a_receipt_is_read_back_as_it_was_written(one: Receipt) -> None:
    kept, line = sealed(one, ReceiptKeys(KEY), 1, "")
    assert decode_receipt(line) == kept
    assert encode_receipt(kept) == line == encode(json.loads(line)) + b"\n"


@given(st.binary(max_size=80))
def test_bytes_that_are_no_receipt_are_refused_with_its_own_error(data: bytes) -> None:
    with pytest.raises(BadChain):
        decode_receipt(data)


@given(st.lists(receipts, min_size=1, max_size=6), st.data())
def test_any_change_to_a_chain_is_found(some: list[Receipt], data: st.DataObject) -> None:
    keys = ReceiptKeys(KEY)
    sink = InMemorySink(key=KEY)
    for one in some:
        sink.append(one)
    chain = [(kept, encode_receipt(kept)) for kept in sink.receipts]
    head = sink.verify().head
    at = data.draw(st.integers(0, len(chain) - 1))
    change = data.draw(st.sampled_from(["drop", "double", "swap", "edit"]))
    if change == "drop":
        del chain[at]
    elif change == "double":
        chain.insert(at, chain[at])
    elif change == "swap":
        chain = [*chain[at + 1 :], *chain[: at + 1]] if len(chain) > 1 and at + 1 < len(chain) else chain[1:]
    else:
        edited = dataclasses.replace(chain[at][0], elapsed_us=chain[at][0].elapsed_us + 1)
        chain[at] = (edited, encode_receipt(edited))
    with pytest.raises(BadChain):
        verify_chain(chain, keys, "", head=head)


def test_the_digest_of_arguments_and_the_mac_use_keys_of_their_own() -> None:
    keys = ReceiptKeys(KEY)
    assert keys.seal(b"x") != keys.args_digest(b"x")
    assert ReceiptKeys(bytes(32)).args_digest(b"x") != keys.args_digest(b"x")
    with pytest.raises(ValueError, match="16 bytes"):
        ReceiptKeys(b"short")


def test_a_label_is_one_bounded_line() -> None:
    assert label(None) is None
    assert label("a\nb") == "a b"
    assert len(label("x" * 1000) or "") == 256


def test_a_file_verifies_and_tells_its_head(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    written(path, 3)
    found = verify_file(path)
    assert found.count == 3
    assert verify_file(path, tmp_path / "r.jsonl.key", head=found.head) == found
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "r.jsonl.key").stat().st_mode) == 0o600


def test_a_given_key_leaves_no_key_file(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    FileSink(path, key=KEY).append(receipt())
    assert verify_file(path, KEY).count == 1
    assert not (tmp_path / "r.jsonl.key").exists()
    with pytest.raises(BadChain, match="key"):
        verify_file(path, bytes(32))


def test_the_first_line_carries_format_and_version(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    written(path, 0)
    header = json.loads(path.read_bytes().splitlines()[0])
    assert (header["format"], header["v"]) == ("interlock-receipts", 2)


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    written(path, 0)
    path.write_bytes(path.read_bytes().replace(b'"v":2', b'"v":3'))
    with pytest.raises(NewerFormat, match="upgrade"):
        FileSink(path)


def test_a_chain_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    written(path, 2)
    assert written(path, 2).append(receipt()).seq == 5
    assert verify_file(path).count == 5


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_deleted_line_is_found(tmp_path: Path, at: int) -> None:
    path = tmp_path / "r.jsonl"
    written(path, 4)
    all_lines = lines(path)
    path.write_bytes(b"".join(all_lines[:at] + all_lines[at + 1 :]))
    with pytest.raises(BadChain, match=f"receipt {at}"):
        verify_file(path)


def test_moved_lines_are_found(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    written(path, 4)
    header, a, b, *rest = lines(path)
    path.write_bytes(b"".join([header, b, a, *rest]))
    with pytest.raises(BadChain, match="receipt 1"):
        verify_file(path)


def test_lines_cut_off_the_end_are_found_by_the_recorded_head(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    written(path, 4)
    head = verify_file(path).head
    path.write_bytes(b"".join(lines(path)[:-1]))
    assert verify_file(path).count == 3
    with pytest.raises(BadChain, match="head"):
        verify_file(path, head=head)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_flipped_bit_is_found(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "flip.jsonl"
    path.unlink(missing_ok=True)
    written(path, 3)
    held = bytearray(path.read_bytes())
    held[data.draw(st.integers(0, len(held) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(held)
    with pytest.raises((BadChain, BadState, NewerFormat)):
        verify_file(path)


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_torn_last_line_is_cut_off_by_the_next_append(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "r.jsonl"
    sink = written(path, 3)
    with path.open("rb+") as f:
        f.truncate(path.stat().st_size - cut)
    with pytest.raises(BadChain, match="cut off"):
        verify_file(path)
    assert sink.append(receipt()).seq == 3
    assert verify_file(path).count == 3


@pytest.mark.parametrize("cut", [1, 30])
def test_a_torn_header_is_begun_anew(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "r.jsonl"
    written(path, 0)
    with path.open("rb+") as f:
        f.truncate(path.stat().st_size - cut)
    written(path, 1)
    assert verify_file(path).count == 1


@pytest.mark.parametrize("content", [b"dear diary\n", b"dear diary", b"{}\n", b"\x00" * 40, b"x" * (3 * MAX_LINE)])
def test_a_file_that_is_no_chain_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(content)
    with pytest.raises((BadState, BadChain)):
        FileSink(path, key=KEY)
    assert path.read_bytes() == content


def test_a_changed_last_line_is_refused_by_the_next_append(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    sink = written(path, 2)
    path.write_bytes(path.read_bytes().replace(b'"seq":2', b'"seq":7'))
    with pytest.raises(BadChain, match="last line"):
        sink.append(receipt())


def test_receipts_without_their_key_are_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    written(path, 1)
    (tmp_path / "r.jsonl.key").unlink()
    with pytest.raises(BadState, match="is missing"):
        FileSink(path)


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    with pytest.raises(NotWritable):
        FileSink(tmp_path / "f" / "r.jsonl")


def test_the_null_sink_keeps_nothing() -> None:
    assert NullSink().args_digest(b"x") is None
    assert NullSink().append(receipt()) == receipt()


def test_eight_threads_keep_one_valid_chain(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    sink = FileSink(path, fsync=False)
    threads = [threading.Thread(target=lambda: [sink.append(receipt(n)) for n in range(15)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verify_file(path).count == 120


CHILD = """
import sys
from interlock.engine.receipts import Receipt
from interlock.engine.sinks import FileSink
sink = FileSink(sys.argv[1])
n = int(sys.argv[2])
while n:
    kept = sink.append(Receipt(n, "c", "t", "call", "ALLOW", "proceeded", 1, "d", 0))
    sys.stdout.write(kept.seal + "\\n")
    sys.stdout.flush()
    n -= 1
"""


FULL = """
import resource, signal, sys
from interlock import Blocked, FileSink, enforce_tool_call, install
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
install(sink=FileSink(sys.argv[1]))
for n in range(4):
    enforce_tool_call("t", {"n": n})
size = __import__("os").path.getsize(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, size + 100))
try:
    enforce_tool_call("t", {})
except Blocked as e:
    print(e)
"""


def test_a_full_disk_blocks_the_call_and_leaves_the_chain_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "the receipt cannot be written (NotWritable), so the action is refused\n"
    assert verify_file(path).count == 4


def child(path: Path, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), str(count)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )


def test_three_processes_keep_one_valid_chain(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    children = [child(path, 25) for _ in range(3)]
    acknowledged = [set(c.communicate(timeout=60)[0].split()) for c in children]
    assert [c.returncode for c in children] == [0, 0, 0]
    assert verify_file(path).count == 75
    assert len(set.union(*acknowledged)) == 75


@pytest.mark.parametrize("after", [1, 7, 30])
def test_kill_9_loses_no_receipt_that_was_acknowledged(tmp_path: Path, after: int) -> None:
    path = tmp_path / "r.jsonl"
    writer = child(path, -1)
    assert writer.stdout is not None
    acknowledged = [writer.stdout.readline().strip() for _ in range(after)]
    os.kill(writer.pid, signal.SIGKILL)
    acknowledged += writer.communicate()[0].split()[:-1]  # the last one may be half a line
    FileSink(path).append(receipt())
    assert verify_file(path).count > len(acknowledged)
    kept = path.read_text()
    assert all(mac in kept for mac in acknowledged)


_FORKS = """
import os, signal, sys, threading
from interlock import enforce_tool_call, install, FileSink
install(sink=FileSink(sys.argv[1], fsync=False))
stop = threading.Event()
def busy():
    while not stop.is_set():
        enforce_tool_call("t", {})
thread = threading.Thread(target=busy)
thread.start()
ended = []
for _ in range(12):
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        enforce_tool_call("child", {})
        os._exit(0)
    ended.append(os.waitpid(child, 0)[1])
stop.set()
thread.join()
assert not any(ended), ended
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_amid_another_thread_s_append_stops_neither_parent_nor_child(tmp_path: Path) -> None:
    path = tmp_path / "receipts"
    words = [sys.executable, "-W", "ignore", "-c", _FORKS, str(path)]
    done = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert verify_file(path).count >= 12


@pytest.mark.parametrize("key", ["00", "", "zz", 5, None, "00" * 31])
def test_a_key_file_without_a_whole_key_is_refused(tmp_path: Path, key: object) -> None:
    path = tmp_path / "receipts"
    FileSink(path)
    body = {"format": "interlock-receipt-key", "v": 1, "key": key}
    (tmp_path / "receipts.key").write_text(json.dumps(body), encoding="utf-8")
    with pytest.raises(BadState, match="holds no key"):
        FileSink(path)


@pytest.mark.parametrize("name", ["/", "/dev/full", "/dev/null", "."])
def test_what_is_no_file_takes_no_receipts_and_gets_no_key(name: str) -> None:
    with pytest.raises(BadState, match="is not a file"):
        FileSink(name)
    assert not Path(name + ".key").exists()


def test_a_pipe_takes_no_receipts(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadState, match="is not a file"):
        FileSink(tmp_path / "pipe")
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


def test_a_chain_of_a_newer_version_is_never_continued(tmp_path: Path) -> None:
    path = tmp_path / "receipts"
    sink = written(path, 2)
    newer = path.read_bytes().replace(b'"v":2', b'"v":3', 1)
    path.write_bytes(newer)
    with pytest.raises(NewerFormat, match="upgrade"):
        FileSink(path)
    assert path.read_bytes() == newer
    assert sink.path == path


@pytest.mark.parametrize("data", [b'{"a":1}\n' * 3, b"text\n", b"\n", b"\x00\n"])
def test_a_file_of_another_kind_is_never_continued(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "receipts"
    FileSink(path)
    path.write_bytes(data)
    with pytest.raises(InterlockError, match="first line"):
        FileSink(path)
    assert path.read_bytes() == data


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_a_receipt_that_did_not_reach_the_disk_is_not_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path = tmp_path / "receipts"
    sink = FileSink(path)
    sink.append(receipt(1))
    before = path.read_bytes()

    def broken(fd: int) -> None:
        raise error

    with monkeypatch.context() as m:
        m.setattr(os, "fsync", broken)
        with pytest.raises((NotWritable, KeyboardInterrupt)):
            sink.append(receipt(2))
    assert path.read_bytes() == before
    assert sink.append(receipt(3)).seq == 2
    assert verify_file(path).count == 2


def of_the_first_version(path: Path, count: int) -> None:
    """A file as interlock 0.1's first form wrote it: every field in each line, as null where it said nothing."""
    keys = ReceiptKeys(KEY)
    header: dict[str, object] = {"format": "interlock-receipts", "v": 1, "chain": "aa"}
    prev = keys.seal(encode(header))
    out = [encode({**header, "mac": prev})]
    new = {"policy_verdict", "reason", "approval_id", "partial", "dropped", "shadows", "stale", "signature", "mac"}
    for n in range(count):
        body = {k: v for k, v in dataclasses.asdict(receipt(n, seq=n + 1, prev=prev)).items() if k not in new}
        prev = keys.seal(encode(body))
        out.append(encode({**body, "mac": prev}))
    path.write_bytes(b"\n".join(out) + b"\n")


def test_a_file_of_the_first_version_verifies_and_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "old.jsonl"
    of_the_first_version(path, 3)
    assert verify_file(path, KEY).count == 3
    assert FileSink(path, key=KEY).append(receipt(9, reason="says why")).seq == 4
    assert verify_file(path, KEY).count == 4
    path.write_bytes(path.read_bytes().replace(b'"elapsed_us":5', b'"elapsed_us":6', 1))
    with pytest.raises(BadChain, match="receipt 1"):
        verify_file(path, KEY)


def test_a_field_that_says_nothing_is_not_in_the_line(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    written(path, 1)
    assert b"null" not in path.read_bytes()
    assert json.loads(lines(path)[1]).keys() >= {"verdict", "outcome", "seq", "prev", "mac"}


def test_a_signed_chain_is_verified_with_the_public_key_alone(tmp_path: Path) -> None:
    path, signer = tmp_path / "r.jsonl", Ed25519Signer(bytes(range(32)))
    sink = FileSink(path, signer=signer, key=KEY)
    for n in range(3):
        sink.append(receipt(n))
    public = PublicSeal(signer.verifier)
    assert verify_file(path, public).count == 3
    assert FileSink(path, signer=signer, key=KEY).append(receipt(4)).seq == 4
    with pytest.raises(BadChain):
        verify_file(path, PublicSeal(Ed25519Signer(bytes(32)).verifier))
    with pytest.raises(BadChain):
        verify_file(path, KEY)
    with pytest.raises(BadChain):
        FileSink(path, key=KEY)
    path.write_bytes(path.read_bytes().replace(b'"elapsed_us":5', b'"elapsed_us":6', 1))
    with pytest.raises(BadChain, match="receipt 1"):
        verify_file(path, public)


def test_a_sink_that_is_not_shared_keeps_the_same_chain_and_lets_nobody_else_in(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    written(path, 2)
    alone = FileSink(path, shared=False, fsync=False)
    assert [alone.append(receipt(n)).seq for n in range(3)] == [3, 4, 5]
    with pytest.raises(Locked):
        FileSink(path, shared=False)
    alone.close()
    assert written(path, 1).append(receipt()).seq == 7
    assert verify_file(path).count == 7


def test_threads_on_a_sink_that_is_not_shared_keep_one_valid_chain(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    sink = FileSink(path, shared=False, fsync=False)
    threads = [threading.Thread(target=lambda: [sink.append(receipt(n)) for n in range(40)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sink.close()
    assert verify_file(path).count == 320


_FORKED_ALONE = """
import os, sys
from interlock import Blocked, FileSink, enforce_tool_call, install
install(sink=FileSink(sys.argv[1], shared=False))
enforce_tool_call("t", {})
if os.fork() == 0:
    try:
        enforce_tool_call("child", {})
    except Blocked:
        os._exit(7)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
enforce_tool_call("t", {})
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_cannot_write_into_a_sink_that_is_not_shared(tmp_path: Path) -> None:
    path = tmp_path / "receipts"
    words = [sys.executable, "-W", "ignore", "-c", _FORKED_ALONE, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "7\n"
    assert verify_file(path).count == 2


def test_receipts_are_read_in_order_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    written(path, 3)
    found = list(read_receipts(path))
    assert [kept.seq for kept, _ in found] == [1, 2, 3]
    key = bytes.fromhex(json.loads((tmp_path / "r.jsonl.key").read_bytes())["key"])
    assert verify_chain(found, ReceiptKeys(key), found[0][0].prev).count == 3
    (tmp_path / "x").write_text("dear diary\n")
    with pytest.raises(BadState, match="not a file of receipts"):
        list(read_receipts(tmp_path / "x"))


@given(st.dictionaries(st.sampled_from(["chain", "alg"]), st.text(max_size=5)))
def test_a_header_is_bound_by_its_seal(more: dict[str, str]) -> None:
    header = encode_header(more.get("chain", "c"), ReceiptKeys(KEY))
    assert json.loads(header)["mac"] == ReceiptKeys(KEY).seal(
        encode({k: v for k, v in json.loads(header).items() if k != "mac"})
    )
