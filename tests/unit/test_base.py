"""The ground floor: codec, keys, files, fetch, settings, errors."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import respx
from hypothesis import given
from hypothesis import strategies as st

from interlock.base import errors, files, primitives
from interlock.base.clock import ManualClock, rfc3339
from interlock.base.codec import Malformed, Reader, Writer, decode
from interlock.base.fetch import DirectoryFetcher, HttpFetcher, NotFound, TooLarge, Unreachable, fetcher_of
from interlock.base.files import NewerFormat
from interlock.base.keys import BadKey, Ed25519Signer, dump_key, load_key
from interlock.base.settings import BadConfig, Settings, read_settings
from interlock.base.text import b64, is_sha256, unb64

SIGNER = Ed25519Signer(bytes(range(32)))


# codec


@given(st.integers(0, 255), st.integers(0, 2**64 - 1), st.binary(max_size=300), st.binary(max_size=20))
def test_what_is_written_reads_back(a: int, b: int, long: bytes, short: bytes) -> None:
    data = Writer().u8(a).u64(b).opaque16(long).opaque8(short).opaque32(long).done()
    r = Reader(data)
    assert (r.u8(), r.u64(), r.opaque16(), r.opaque8(), r.opaque32()) == (a, b, long, short, long)
    r.finish()


@given(st.binary(max_size=99))
def test_base64_reads_back_in_its_one_spelling(data: bytes) -> None:
    assert unb64(b64(data), "data") == data


@pytest.mark.parametrize("text", ["YQ", "YQ==\n", "YR==", "Y Q==", "YQ=", "Y\xe9==", "YQ==YQ=="])
def test_another_spelling_of_base64_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="data is not base64"):
        unb64(text, "data")


@pytest.mark.parametrize("value", ["A" * 64, "0" * 63, "0" * 64 + "\n", "\u0660" * 64, b"0" * 64, None])
def test_a_sha256_has_one_spelling(value: object) -> None:
    assert is_sha256("0123456789abcdef" * 4)
    assert not is_sha256(value)


def test_leftovers_and_early_ends_are_refused() -> None:
    with pytest.raises(Malformed, match="too many"):
        decode(b"\x01\x02", Reader.u8, "pair")
    with pytest.raises(Malformed, match="early"):
        decode(b"\x00\x05ab", Reader.opaque16, "vector")
    with pytest.raises(ValueError, match="does not fit"):
        Writer().u8(256)


# keys


def test_a_key_file_reads_back_and_never_shows_its_seed() -> None:
    data = dump_key(SIGNER)
    assert load_key(data, where="k") == SIGNER
    assert SIGNER.seed.hex() not in repr(SIGNER)
    assert SIGNER.seed.hex() in data.decode()


def test_a_sealed_key_opens_with_its_passphrase_only() -> None:
    sealed = dump_key(SIGNER, passphrase=b"correct horse", salt=bytes(16), nonce=bytes(24), memory=8 << 20)
    assert SIGNER.seed.hex() not in sealed.decode()
    assert load_key(sealed, where="k", passphrase=b"correct horse", least_memory=8 << 20) == SIGNER
    with pytest.raises(BadKey, match="passphrase"):
        load_key(sealed, where="k", passphrase=b"wrong", least_memory=8 << 20)
    with pytest.raises(BadKey, match="sealed"):
        load_key(sealed, where="k", least_memory=8 << 20)


def test_a_key_file_that_asks_for_too_much_memory_is_refused() -> None:
    sealed = dump_key(SIGNER, passphrase=b"p", salt=bytes(16), nonce=bytes(24), memory=8 << 20)
    with pytest.raises(BadKey, match="memory"):
        load_key(sealed.replace(str(8 << 20).encode(), b"99999999999"), where="k", passphrase=b"p")


@given(st.binary(max_size=200))
def test_garbage_is_no_key(data: bytes) -> None:
    with pytest.raises(BadKey):
        load_key(data, where="k")


def test_a_signature_verifies_for_its_message_only() -> None:
    signature = SIGNER.sign(b"m")
    SIGNER.verifier.verify(b"m", signature)
    for message, sig in ((b"n", signature), (b"m", bytes(64)), (b"m", b""), (b"m", signature + b"x")):
        with pytest.raises(primitives.BadSignature):
            SIGNER.verifier.verify(message, sig)


def test_a_small_order_key_signs_nothing() -> None:
    with pytest.raises(primitives.BadSignature):
        primitives.ed25519_verify(b"\x01" + bytes(31), b"m", b"\x01" + bytes(63))
    with pytest.raises(primitives.BadSignature):
        primitives.x25519(bytes(range(32)), bytes(32))


# files


def test_a_replaced_file_is_whole_private_and_leaves_no_scraps(tmp_path: Path) -> None:
    path = tmp_path / "f"
    files.replace(path, b"one")
    files.replace(path, b"two")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_file_s_state_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    assert files.seen_state(path) is None
    files.replace(path, b"one")
    first = files.seen_state(path)
    assert files.seen_state(path) == first
    files.replace(path, b"two")
    os.utime(path, ns=(0, 0))
    assert files.seen_state(path) not in (first, None)


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_bytes(b"")
    for act in (lambda: files.replace(blocker / "x", b""), lambda: files.private_dir(blocker / "x")):
        with pytest.raises(files.NotWritable) as e:
            act()
        assert "\n" not in str(e.value)
        assert e.value.exit_code == errors.EXIT_USAGE


def test_a_private_directory_is_made_private(tmp_path: Path) -> None:
    wide = tmp_path / "d"
    wide.mkdir(mode=0o755)
    files.private_dir(wide)
    assert stat.S_IMODE(wide.stat().st_mode) == 0o700


def test_a_stamp_is_checked(tmp_path: Path) -> None:
    data = files.stamped("interlock-x", 2, {"a": 1})
    assert files.unstamped(data, "interlock-x", 2, where="f") == {"v": 2, "a": 1}
    with pytest.raises(files.NewerFormat, match="upgrade"):
        files.unstamped(data, "interlock-x", 1, where="f")
    for bad in (b"{}", b"[]", b"\xff", files.stamped("other", 1, {}), b'{"format":"interlock-x","v":true}'):
        with pytest.raises(files.BadState):
            files.unstamped(bad, "interlock-x", 2, where="f")


def test_a_lock_holds_until_its_process_dies(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    code = (
        "import sys,time,pathlib\nfrom interlock.base.files import file_lock\n"
        "with file_lock(pathlib.Path(sys.argv[1])):\n print('held', flush=True)\n time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(lock)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(files.Locked), files.file_lock(lock):
            pass
        os.kill(child.pid, signal.SIGKILL)
        child.wait(10)
        with files.file_lock(lock):
            pass
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_what_was_appended_survives_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "log"
    code = (
        "import sys,pathlib\nfrom interlock.base.files import AppendFile\nf=AppendFile(pathlib.Path(sys.argv[1]))\n"
        "for i in range(100000):\n f.append(b'%d\\n'%i); print(i, flush=True)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    acknowledged = [child.stdout.readline() for _ in range(50)]
    child.kill()
    child.wait()
    acknowledged += child.stdout.read().splitlines(keepends=True)
    child.stdout.close()
    whole = [line for line in acknowledged if line.endswith(b"\n")]
    assert path.read_bytes().splitlines(keepends=True)[: len(whole)] == whole


# fetch


def test_a_directory_serves_its_files_up_to_the_limit(tmp_path: Path) -> None:
    folder = tmp_path / "a copy"
    folder.mkdir()
    (folder / "a").write_bytes(b"12345")
    fetcher = fetcher_of(folder.as_uri())
    assert isinstance(fetcher, DirectoryFetcher)
    assert fetcher.fetch("a", max_length=5) == b"12345"
    with pytest.raises(TooLarge):
        fetcher.fetch("a", max_length=4)
    with pytest.raises(NotFound):
        fetcher.fetch("b", max_length=4)


def test_a_directory_serves_nothing_outside_it(tmp_path: Path) -> None:
    inner = tmp_path / "in"
    inner.mkdir()
    (tmp_path / "secret").write_bytes(b"s")
    (inner / "link").symlink_to(tmp_path / "secret")
    for path in ("../secret", "link", "/etc/passwd"):
        with pytest.raises(NotFound):
            DirectoryFetcher(inner).fetch(path, max_length=10)


@respx.mock
def test_a_server_that_is_gone_wrong_or_endless_gives_its_own_error() -> None:
    respx.get("http://h/gone").respond(404)
    respx.get("http://h/wrong").respond(500)
    respx.get("http://h/away").mock(side_effect=httpx.ConnectError("no"))
    respx.get("http://h/long").respond(200, content=b"x" * 100)
    respx.get("http://h/moved").respond(302, headers={"Location": "http://h/long"})
    with httpx.Client() as client:
        fetcher = HttpFetcher("http://h", client)
        for path, error in (
            ("gone", NotFound),
            ("wrong", Unreachable),
            ("away", Unreachable),
            ("long", TooLarge),
            ("moved", Unreachable),
        ):
            with pytest.raises(error):
                fetcher.fetch(path, max_length=10)


@pytest.mark.parametrize(
    "url", ["http://" + "a" * 300, "http://..", "http://xn--", "http://h:99999", "http://[::1", "x"]
)
def test_an_address_that_is_none_is_one_that_does_not_answer(url: str) -> None:
    with pytest.raises(Unreachable):
        HttpFetcher(url).fetch("a", max_length=10)


def test_a_link_that_leads_to_itself_and_a_name_that_no_file_can_have_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for path in ("loop", "loop/a", "a\0b"):
        with pytest.raises(NotFound):
            DirectoryFetcher(tmp_path).fetch(path, max_length=10)
    with pytest.raises(Unreachable):
        DirectoryFetcher(tmp_path).fetch("a" * 300, max_length=10)


# settings, errors, clock


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[gaurd]\n", "gaurd"),
        (b"guard = 1\n", "guard"),
        (b"[guard\n", "not TOML"),
        (b"\xff", "UTF-8"),
        (b'format = "other"\n', "format"),
        (b'v = "1"\n', "v"),
        (b"v = 0\n", "v"),
        (b"v = true\n", "v"),
    ],
)
def test_a_bad_configuration_is_one_line_with_its_place(tmp_path: Path, text: bytes, reason: str) -> None:
    path = tmp_path / "interlock.toml"
    path.write_bytes(text)
    with pytest.raises(BadConfig) as e:
        read_settings(path)
    assert reason in str(e.value)
    assert str(path) in str(e.value)
    assert "\n" not in str(e.value)


def test_a_configuration_may_carry_its_format_and_a_newer_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "interlock.toml"
    path.write_text('format = "interlock-config"\nv = 1\n[guard]\npolicy = "p"\n')
    assert read_settings(path).tables == {"guard": {"policy": "p"}}
    path.write_text('format = "interlock-config"\nv = 2\n[something-new]\n')
    with pytest.raises(NewerFormat, match="has version 2, and this interlock reads up to 1; upgrade interlock"):
        read_settings(path)


def test_a_path_in_the_settings_starts_at_their_file(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "interlock.toml")
    assert settings.beside("a/b") == tmp_path / "a/b"
    assert settings.beside("/a/b") == Path("/a/b")
    assert settings.beside("~/a") == Path.home() / "a"
    assert Settings().beside("a/b") == Path("a/b")


def test_an_unknown_key_or_type_is_named(tmp_path: Path) -> None:
    path = tmp_path / "interlock.toml"
    path.write_text('[guard]\npolcy = "x"\ndeadline_ms = true\n')
    with pytest.raises(BadConfig, match="polcy"):
        read_settings(path)
    path.write_text("[guard]\ndeadline_ms = true\n")
    with pytest.raises(BadConfig, match="type"):
        read_settings(path)


def test_every_error_of_ours_has_a_code_with_an_exit_code() -> None:
    def walk(cls: type[errors.InterlockError]) -> None:
        assert errors.CODES[cls.code] in (errors.EXIT_REFUSED, errors.EXIT_USAGE)
        for sub in cls.__subclasses__():
            walk(sub)

    walk(errors.InterlockError)
    with pytest.raises(AssertionError):
        type("Odd", (errors.InterlockError,), {"code": "no-such-code"})


def test_an_error_is_one_bounded_line_without_control_characters() -> None:
    e = errors.BadInput("bad\nthing\x1b[31m " + "x" * 9999, where="f", fix="do this")
    assert "\n" not in str(e)
    assert "\x1b" not in str(e)
    assert len(str(e)) < 1200


def test_times_are_shown_as_rfc_3339() -> None:
    assert rfc3339(1_800_000_000_000_000) == "2027-01-15T08:00:00Z"
    assert rfc3339(1_800_000_000_000_001) == "2027-01-15T08:00:00.000001Z"
    assert rfc3339(-1) == "1969-12-31T23:59:59.999999Z"
    clock = ManualClock()
    before = clock.now_us()
    clock.advance(1.5)
    assert clock.now_us() - before == 1_500_000
