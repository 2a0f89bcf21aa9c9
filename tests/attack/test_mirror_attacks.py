"""What a mirror, a thief of online keys or a forking log can try; each is refused by its own error.

After every attack the member's last good pack is in force and loads, and status.json says the trouble.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tuf.api.metadata import TargetFile, Targets  # type: ignore[attr-defined]

from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.fetch import DirectoryFetcher, Fetcher, NotFound, TooLarge, Unreachable
from interlock.base.primitives import BadSignature
from interlock.commons import installed
from interlock.commons.channel import dump_channel
from interlock.commons.indicators import indicator_pack
from interlock.commons.layout import channel_path, entry_path, pack_path, proof_path
from interlock.commons.logged import LogFetcher, NotLogged
from interlock.commons.mirror import Mirror
from interlock.commons.pack import Pack
from interlock.commons.pins import init_node
from interlock.commons.repository import Repository
from interlock.commons.signers import load_keys
from interlock.commons.subscribe import Subscriber
from interlock.commons.updater import MetadataRefused, Stale, UntrustedRoot
from interlock.node.cli.mesh_status import rows
from interlock.node.config import MeshConfig
from interlock.transparency.entry import signed_entry
from interlock.transparency.follow import Rollback, SplitView, parse_evidence
from interlock.transparency.log import open_log
from interlock.transparency.merkle import BadProof
from interlock.transparency.note import NoteSigner
from interlock.transparency.policy import NoQuorum, UnknownLog
from tests.attack.scene import Bent, Both
from tests.sim.reaper import Killed
from tests.unit.commons_world import ORIGIN, TestLog, World, log_policy, pack, seed, show_roles, status, world
from tests.unit.log_entries import pack_entry


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


class Member:
    """A node that has version 1 of the pack in force, and what must hold after each attack."""

    def __init__(self, commons: World) -> None:
        self.commons = commons
        self.home = commons.home / "node"
        commons.publisher.publish(pack(1), "stable")
        self.mirror = commons.mirror()
        self.mirror.copy()
        self.node = self.reading(DirectoryFetcher(self.mirror.public))
        self.node.subscribe("team", "stable")
        self.node.update()
        self.version = 1

    def reading(self, fetcher: Fetcher) -> Subscriber:
        init_node(self.home, log_policy=log_policy(), root=self.commons.root)
        return Subscriber(self.home, fetcher, self.commons.clock)

    def refuses(
        self,
        fetcher: Fetcher,
        error: type[InterlockError] | tuple[type[InterlockError], ...],
        match: str | None = None,
    ) -> InterlockError:
        before = (self.home / "live.json").read_bytes()
        with pytest.raises(error, match=match) as caught:
            self.reading(fetcher).update()
        assert type(caught.value) in (error if isinstance(error, tuple) else (error,))
        assert "\n" not in str(caught.value)
        assert (self.home / "live.json").read_bytes() == before
        assert installed.load(self.home, "team", "stable").rules
        said = status(self.home)
        assert said["ok"] is False
        assert said["trouble"] == {"code": caught.value.code, "line": str(caught.value)}
        return caught.value

    def accepts(self, fetcher: Fetcher) -> int:
        return self.reading(fetcher).update().rows[0].version


@pytest.fixture
def member(commons: World) -> Member:
    return Member(commons)


def _forge(commons: World, made: Pack, role: str, files: Callable[[str], dict[str, bytes]]) -> None:
    """Publish with stolen online keys: signed in TUF through and through, past the log."""
    repository = Repository(commons.public)
    keys = load_keys(commons.home / "commons" / "keys", (role,))
    now, base = commons.clock.now_us(), repository.versions()
    path = pack_path("stable", made.name, made.version)
    channel = dump_channel("stable", {made.name: (made.version, made.digest)})
    targets = {path: made.data, channel_path("stable"): channel, **files(path)}
    repository.add_targets(role, base[role] + 1, targets, keys[role], now)
    show_roles(commons, {role: base[role] + 1})


def _both(commons: World, log: TestLog | None = None) -> Both:
    return Both(commons.public, (log or commons.log).public)


# --- old things ---------------------------------------------------------------------------------------------------


def test_a_mirror_that_serves_the_whole_old_state_is_a_rollback(member: Member) -> None:
    old = member.commons.home / "old"
    shutil.copytree(member.mirror.public, old)
    member.commons.publisher.publish(pack(2), "stable")
    member.mirror.copy()
    assert member.accepts(DirectoryFetcher(member.mirror.public)) == 2
    member.refuses(DirectoryFetcher(old), Rollback, "older than what was seen")


def test_a_mirror_that_serves_an_old_log_is_a_rollback(member: Member) -> None:
    old = member.commons.home / "old"
    shutil.copytree(member.mirror.public / "log", old / "log")
    member.commons.publisher.publish(pack(2), "stable")
    member.mirror.copy()
    member.accepts(DirectoryFetcher(member.mirror.public))
    stale_log = LogFetcher(DirectoryFetcher(old))
    node = Subscriber(member.home, DirectoryFetcher(member.mirror.public), member.commons.clock, log=stale_log)
    with pytest.raises(Rollback, match=r"tree of \d+ entries after one of \d+"):
        node.update()
    assert installed.load(member.home, "team", "stable").rules


def test_an_old_pack_under_new_metadata_is_refused(member: Member) -> None:
    member.commons.publisher.publish(pack(2), "stable")
    member.mirror.copy()
    name = f"targets/packs/stable/team/{pack(2).digest}.2.json"
    assert (member.mirror.public / name).exists()
    bent = Bent(DirectoryFetcher(member.mirror.public), {name: pack(1).data})
    member.refuses(bent, MetadataRefused)


def test_an_index_that_goes_back_is_a_rollback_though_newly_signed(member: Member) -> None:
    commons = member.commons
    commons.publisher.publish(pack(2), "stable")
    member.mirror.copy()
    member.accepts(DirectoryFetcher(member.mirror.public))
    _forge(commons, pack(1), "stable", lambda path: {})
    member.refuses(_both(commons), Rollback, "version 1 after 2")


def test_another_pack_under_a_version_that_is_in_force_is_a_rollback(member: Member) -> None:
    _forge(member.commons, pack(1, words=("other",)), "stable", lambda path: {})
    member.refuses(_both(member.commons), Rollback, "another version 1")


def test_a_freeze_is_seen_when_the_timestamp_ends(member: Member) -> None:
    member.commons.clock.advance(25 * 3600)
    member.refuses(DirectoryFetcher(member.mirror.public), Stale, r"timestamp\.json is expired")


def test_metadata_that_ends_is_good_again_once_renewed(member: Member) -> None:
    member.commons.clock.advance(25 * 3600)
    member.refuses(DirectoryFetcher(member.mirror.public), Stale)
    member.commons.publisher.renew()
    member.mirror.copy()
    assert member.accepts(DirectoryFetcher(member.mirror.public)) == 1


# --- outside the log ----------------------------------------------------------------------------------------------


def test_a_signed_pack_without_any_proof_is_not_logged(member: Member) -> None:
    _forge(member.commons, pack(2), "stable", lambda path: {})
    member.refuses(_both(member.commons), NotLogged, "without a log entry")


def test_a_signed_pack_with_the_proof_of_another_is_not_logged(member: Member) -> None:
    commons = member.commons
    old = pack_path("stable", "team", 1)
    repository = Repository(commons.public)
    entry, proof = (
        repository.target("stable", repository.versions()["stable"], at(old)) for at in (entry_path, proof_path)
    )
    assert entry is not None
    assert proof is not None
    _forge(commons, pack(2), "stable", lambda path: {entry_path(path): entry, proof_path(path): proof})
    member.refuses(_both(commons), NotLogged, "entry of another file")


def test_a_pack_that_was_logged_by_another_key_than_signs_it_is_refused(member: Member) -> None:
    commons = member.commons
    entry = _entry(commons, pack(2), role="beta")
    proof = commons.log.append(entry)
    _forge(commons, pack(2), "stable", lambda path: {entry_path(path): entry, proof_path(path): proof})
    member.refuses(_both(commons), NotLogged, "logged by a key that does not sign it")


def _entry(commons: World, made: Pack, role: str = "stable") -> bytes:
    key = load_keys(commons.home / "commons" / "keys", (role,))[role].key
    at, digest = commons.clock.now_us(), made.digest
    return signed_entry(
        key, type="pack", name=made.name, version=made.version, ring="stable", sha256=digest, at=at
    ).data


def test_a_signed_pack_with_the_proof_of_another_log_is_not_logged(member: Member, tmp_path: Path) -> None:
    entry = _entry(member.commons, pack(2))
    with open_log(tmp_path / "other", NoteSigner("other.example/log", seed("other log"))) as log:
        (index,) = log.append([entry])
        proof = log.prove(index, log.integrate()).data
    _forge(member.commons, pack(2), "stable", lambda path: {entry_path(path): entry, proof_path(path): proof})
    member.refuses(_both(member.commons), NotLogged, "does not name")


def test_a_log_of_the_same_name_under_another_key_is_not_the_log(member: Member, tmp_path: Path) -> None:
    entry = _entry(member.commons, pack(2))
    with open_log(tmp_path / "other", NoteSigner(ORIGIN, seed("other log"))) as log:
        (index,) = log.append([entry])
        proof = log.prove(index, log.integrate()).data
    _forge(member.commons, pack(2), "stable", lambda path: {entry_path(path): entry, proof_path(path): proof})
    member.refuses(_both(member.commons), NotLogged)


def test_a_proof_whose_checkpoint_no_witness_cosigned_has_no_quorum(member: Member) -> None:
    commons = member.commons
    entry = _entry(commons, pack(2))
    (index,) = commons.log.log.append([entry])
    note = commons.log.log.integrate()
    proof = commons.log.log.prove(index, note).data
    _forge(commons, pack(2), "stable", lambda path: {entry_path(path): entry, proof_path(path): proof})
    member.refuses(_both(commons), NoQuorum)


def test_a_checkpoint_that_no_witness_cosigned_has_no_quorum(member: Member) -> None:
    commons = member.commons
    commons.log.log.append([_entry(commons, pack(2))])
    commons.log.log.publish(commons.log.log.integrate())
    member.refuses(_both(commons), NoQuorum)


def test_a_ring_key_cannot_sign_indicators(member: Member) -> None:
    made = indicator_pack("indicator-hosts", 1, ["host:" + "ab" * 32], authors=["R"])
    commons = member.commons
    entry = _entry(commons, made)
    proof = commons.log.append(entry)
    _forge(commons, made, "stable", lambda path: {entry_path(path): entry, proof_path(path): proof})
    node = member.reading(_both(commons))
    node.unsubscribe("team", "stable")
    node.subscribe("indicator-hosts", "stable")
    with pytest.raises(NotFound, match="not in the commons"):
        node.update()


# --- a log with two histories ------------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [1, 2, 3])
def test_a_forked_log_is_a_split_view_and_leaves_evidence_for_anyone(
    member: Member, tmp_path: Path, entries: int
) -> None:
    signer = NoteSigner(ORIGIN, seed("log"))
    with open_log(tmp_path / "fork", signer) as log:
        fork = TestLog(log, tmp_path / "fork", member.commons.clock)
        _fill(fork, member.commons.log.log.size - 1 + entries)
        error = member.refuses(_both(member.commons, fork), SplitView, "two histories")
    (file,) = (member.home / "evidence").iterdir()
    assert isinstance(error, SplitView)
    assert error.file == file
    parse_evidence(file.read_bytes(), where=str(file)).verify(signer.key)
    assert _told(member.home) == [f"{file.name} proves that {ORIGIN} signed two histories"]
    file.write_bytes(file.read_bytes().replace(b'"root_then": "', b'"root_then": "AAAA'))
    (said,) = _told(member.home)
    assert "shows nothing" in said


def _fill(fork: TestLog, entries: int) -> None:
    for i in range(entries):
        fork.append(pack_entry("team", i + 5, pack(i + 5).digest, at=7).data)


def _told(home: Path) -> list[str]:
    """What `mesh doctor` says of split views."""
    return [row.detail for row in rows(MeshConfig(home)) if row.check == "split view" and row.status == "fail"]


def test_a_fork_behind_a_pack_s_proof_is_a_split_view_too(member: Member, tmp_path: Path) -> None:
    commons = member.commons
    entry = _entry(commons, pack(2))
    with open_log(tmp_path / "fork", NoteSigner(ORIGIN, seed("log"))) as log:
        fork = TestLog(log, tmp_path / "fork", commons.clock, witnessed=False)
        proof = fork.append(entry)
    _forge(commons, pack(2), "stable", lambda path: {entry_path(path): entry, proof_path(path): proof})
    member.refuses(_both(commons), SplitView)
    assert len(list((member.home / "evidence").iterdir())) == 1


def test_after_a_fork_the_first_history_is_still_followed(member: Member, tmp_path: Path) -> None:
    with open_log(tmp_path / "fork", NoteSigner(ORIGIN, seed("log"))) as log:
        fork = TestLog(log, tmp_path / "fork", member.commons.clock)
        _fill(fork, member.commons.log.log.size)
        member.refuses(_both(member.commons, fork), SplitView)
    member.commons.publisher.publish(pack(2), "stable")
    assert member.accepts(_both(member.commons)) == 2


# --- other bytes ---------------------------------------------------------------------------------------------------


def test_a_mix_of_two_states_is_refused(member: Member) -> None:
    public = member.mirror.public / "metadata"
    before = {p.name: p.read_bytes() for p in public.iterdir()}
    member.commons.publisher.publish(pack(2), "stable")
    member.mirror.copy()
    mixed: dict[str, bytes | None] = {"metadata/3.snapshot.json": before["2.snapshot.json"]}
    member.refuses(Bent(DirectoryFetcher(member.mirror.public), mixed), MetadataRefused)
    mixed = {"metadata/3.stable.json": before["2.stable.json"]}
    member.refuses(Bent(DirectoryFetcher(member.mirror.public), mixed), MetadataRefused)


def test_another_commons_is_no_mirror_of_this_one(member: Member, tmp_path: Path) -> None:
    keys = member.commons.home / "commons" / "keys"
    other = tmp_path / "elsewhere"
    shutil.copytree(member.commons.public, other)
    (keys / "timestamp.key").unlink()
    from_scratch = json.loads((other / "metadata" / "timestamp.json").read_bytes())
    from_scratch["signed"]["version"] += 1
    from_scratch["signatures"][0]["sig"] = "00" * 64
    bent = Bent(DirectoryFetcher(member.mirror.public), {"metadata/timestamp.json": json.dumps(from_scratch).encode()})
    member.refuses(bent, MetadataRefused)


def test_a_root_that_the_keyholders_did_not_sign_is_refused(member: Member) -> None:
    forged = json.loads(member.commons.root)
    forged["signed"]["version"] = 2
    bent = Bent(DirectoryFetcher(member.mirror.public), {"metadata/2.root.json": json.dumps(forged).encode()})
    member.refuses(bent, MetadataRefused)


def test_a_fresh_node_given_another_root_is_refused(member: Member) -> None:
    bent = Bent(DirectoryFetcher(member.mirror.public), {"metadata/1.root.json": b"{}"})
    with pytest.raises(UntrustedRoot):
        init_node(
            member.commons.home / "fresh",
            log_policy=log_policy(),
            root_sha256=member.commons.sha256,
            fetcher=bent,
        )


def _next_state(member: Member) -> list[str]:
    """Publish version 2 to the mirror; the paths that a member then reads."""
    member.commons.publisher.publish(pack(2), "stable")
    member.mirror.copy()
    asked: list[str] = []
    inner = DirectoryFetcher(member.mirror.public)

    class Noting:
        def fetch(self, path: str, *, max_length: int) -> bytes:
            data = inner.fetch(path, max_length=max_length)
            asked.append(path)
            return data

    trial = Subscriber(shutil.copytree(member.home, member.commons.home / "trial"), Noting(), member.commons.clock)
    trial.update()
    return asked


REFUSALS = (MetadataRefused, NotLogged, Unreachable, BadProof, Malformed, BadSignature, UnknownLog, NotFound)


def test_garbage_in_place_of_any_file_is_refused_and_no_file_goes_unread(member: Member) -> None:
    paths = _next_state(member)
    assert {p.split("/")[0] for p in paths} == {"metadata", "targets", "log"}
    assert len(paths) >= 9
    inner = DirectoryFetcher(member.mirror.public)
    for path in paths:
        good = inner.fetch(path, max_length=1 << 20)
        for bad in (b"", b"\x00" * 40, good[:-1], bytes([good[0] ^ 1]) + good[1:], b"{}", None):
            error = member.refuses(Bent(inner, {path: bad}), REFUSALS)
            assert error.exit_code in (1, 2)
    assert member.accepts(inner) == 2


def test_endless_data_in_place_of_any_file_is_cut_off(member: Member) -> None:
    paths = _next_state(member)

    class Endless:
        def __init__(self, path: str) -> None:
            self.path = path

        def fetch(self, path: str, *, max_length: int) -> bytes:
            if path != self.path:
                return DirectoryFetcher(member.mirror.public).fetch(path, max_length=max_length)
            assert max_length <= 1 << 20
            raise TooLarge(f"is larger than {max_length} bytes", where=path)

    for path in paths:
        member.refuses(Endless(path), TooLarge)


def test_a_mirror_that_does_not_answer_is_unreachable(member: Member) -> None:
    class Silent:
        def fetch(self, path: str, *, max_length: int) -> bytes:
            raise Unreachable("does not answer", where=path)

    member.refuses(Silent(), Unreachable)


# --- the mirror itself -----------------------------------------------------------------------------------------------


def test_a_mirror_copies_only_what_verifies_and_keeps_its_last_copy(member: Member) -> None:
    commons = member.commons
    before = _digests(member.mirror.public)
    commons.publisher.publish(pack(2), "stable")
    path = commons.public / "targets" / "packs" / "stable" / "team" / f"{pack(2).digest}.2.json"
    good = path.read_bytes()
    path.write_bytes(good.replace(b"zap", b"zip"))
    with pytest.raises(MetadataRefused):
        member.mirror.copy()
    assert {k: v for k, v in _digests(member.mirror.public).items() if k in before} == before
    assert member.accepts(DirectoryFetcher(member.mirror.public)) == 1
    path.write_bytes(good)
    member.mirror.copy()
    assert member.accepts(DirectoryFetcher(member.mirror.public)) == 2


def test_a_mirror_refuses_tiles_that_do_not_lead_to_the_checkpoint(member: Member) -> None:
    commons = member.commons
    commons.publisher.publish(pack(2), "stable")
    size = commons.log.log.size
    bundle = commons.log.public / "tile" / "entries" / "000.p" / str(size)
    data = bundle.read_bytes()
    bundle.write_bytes(data.replace(b"team", b"taem", 1))
    with pytest.raises(BadProof):
        member.mirror.copy()
    bundle.write_bytes(data)
    assert member.mirror.copy().tree_size == size


def _name_a_target(commons: World, role: str, path: str) -> None:
    """With a stolen key, let a role name a path of the thief's choice."""
    repository = Repository(commons.public)
    keys = load_keys(commons.home / "commons" / "keys", (role,))
    base = repository.versions()
    signed = repository._read(f"{base[role]}.{role}", Targets)
    signed.targets[path] = TargetFile.from_data(path, b"evil", ["sha256"])
    signed.version += 1
    repository._sign(role, signed, keys[role])
    show_roles(commons, {role: signed.version})


@pytest.mark.parametrize("path", ["../../evil", "/etc/evil", "a//b", "a/./b", "a/\x00", ".."])
def test_a_target_whose_path_leads_out_of_the_mirror_is_refused(member: Member, path: str) -> None:
    _name_a_target(member.commons, "targets", path)
    before = _digests(member.commons.home)
    with pytest.raises(MetadataRefused, match="no path for a target"):
        member.mirror.copy()
    written = {name for name, digest in _digests(member.commons.home).items() if before.get(name) != digest}
    assert all(name.startswith(("mirror/tuf/", "mirror/view/", "mirror/newest.json")) for name in written)


def test_a_target_outside_its_role_s_paths_is_not_copied_and_holds_nothing_up(member: Member) -> None:
    _name_a_target(member.commons, "stable", "channels/beta.json")
    member.commons.publisher.publish(pack(2), "stable")
    member.mirror.copy()
    assert not list((member.mirror.public / "targets" / "channels").glob("*beta*"))
    assert member.accepts(DirectoryFetcher(member.mirror.public)) == 2


def test_a_mirror_refuses_a_forked_log(member: Member, tmp_path: Path) -> None:
    with open_log(tmp_path / "fork", NoteSigner(ORIGIN, seed("log"))) as log:
        fork = TestLog(log, tmp_path / "fork", member.commons.clock)
        _fill(fork, member.commons.log.log.size)
        pins = init_node(member.commons.home / "mirror-pins", log_policy=log_policy(), root=member.commons.root)
        commons, log_files = DirectoryFetcher(member.commons.public), DirectoryFetcher(fork.public)
        with pytest.raises(SplitView):
            Mirror(member.mirror._dir, commons, pins, member.commons.clock, log=log_files).copy()
    assert member.accepts(DirectoryFetcher(member.mirror.public)) == 1


def test_a_mirror_killed_after_any_write_serves_one_whole_state(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    member.commons.publisher.publish(pack(2), "stable")
    real = Mirror._put
    versions, at, done = [], 0, False
    while not done:
        with monkeypatch.context() as patch:
            left = [at]

            def dying(self: Mirror, name: str, data: bytes, left: list[int] = left) -> None:
                if left[0] == 0:
                    raise Killed
                left[0] -= 1
                real(self, name, data)

            patch.setattr(Mirror, "_put", dying)
            copy = member.commons.home / f"copy-{at}"
            shutil.copytree(member.mirror._dir, copy, symlinks=True)
            pins = init_node(member.commons.home / "mirror-pins", log_policy=log_policy(), root=member.commons.root)
            log = DirectoryFetcher(member.commons.log.public)
            mirror = Mirror(copy, DirectoryFetcher(member.commons.public), pins, member.commons.clock, log=log)
            try:
                mirror.copy()
                done = True
            except Killed:
                at += 1
        fresh = init_node(member.commons.home / f"fresh-{at}-{done}", log_policy=log_policy(), root=member.commons.root)
        assert fresh.root == member.commons.root
        node = Subscriber(
            member.commons.home / f"fresh-{at}-{done}", DirectoryFetcher(mirror.public), member.commons.clock
        )
        node.subscribe("team", "stable")
        versions.append(node.update().rows[0].version)
    assert at >= 6
    assert versions == [1] * at + [2]


def test_a_mirror_can_be_mirrored(member: Member) -> None:
    pins = init_node(member.commons.home / "second-pins", log_policy=log_policy(), root=member.commons.root)
    second = Mirror(member.commons.home / "second", DirectoryFetcher(member.mirror.public), pins, member.commons.clock)
    second.copy()
    assert _digests(second.public) == _digests(member.mirror.public)
    assert second.copy().new_files == 0


def _digests(directory: Path) -> dict[str, str]:
    return {
        str(p.relative_to(directory)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(directory.rglob("*"))
        if p.is_file()
    }
