"""What nodes tell a monitor: only with consent, nothing of themselves; and only what the log signed proves anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.base.codec import Malformed
from interlock.base.errors import InterlockError
from interlock.base.fetch import DirectoryFetcher, Unreachable
from interlock.base.files import BadState
from interlock.base.primitives import BadSignature
from interlock.commons import monitor_notices
from interlock.commons.consent import give_consent, withdraw_consent
from interlock.commons.logged import LogFetcher
from interlock.commons.monitor import Monitor
from interlock.commons.monitor_notices import Notices
from interlock.commons.notices import (
    AGREES,
    DIFFERS,
    PROVEN,
    RETRY_US,
    WAITS,
    Notice,
    Said,
    answer_of,
    forget_told,
    parse_answer,
    parse_notice,
    read_said,
    tell,
    terms_of,
    untold,
)
from interlock.commons.subscribe import Subscriber
from interlock.transparency.checkpoint import Checkpoint, sign_checkpoint
from interlock.transparency.follow import SplitView, parse_evidence
from interlock.transparency.log import open_log
from interlock.transparency.note import NoteSigner
from interlock.transparency.policy import UnknownLog
from tests.unit.commons_world import ORIGIN, TestLog, World, pack, seed, world
from tests.unit.test_commons_monitor import Place, Watched

URL = "https://monitor.example/notices"
LOG = NoteSigner(ORIGIN, seed("log"))


@dataclass
class Scene:
    """A commons, a monitor that has looked once, a node that agreed to tell it, and what was posted."""

    watched: Watched
    node: Subscriber
    home: Path
    place: Place
    posts: list[bytes]

    @property
    def commons(self) -> World:
        return self.watched.commons

    @property
    def notices(self) -> Notices:
        return self.watched.monitor.notices

    def post(self, body: bytes) -> bytes:
        self.posts.append(body)
        return answer_of(self.notices.take(body).result)

    def tell(self) -> Said:
        return tell(self.home, URL, self.post, self.commons.clock.now_us())

    def kinds(self) -> list[str]:
        return [a.kind for a in self.watched.monitor.store.alarms() if a.closed is None]

    def own(self, size: int) -> Notice:
        """What an honest node that saw this size tells."""
        return Notice(ORIGIN, size, self.commons.log.log.checkpoint_at(size).root)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with world(tmp_path) as commons:
        commons.publisher.publish(pack(1), "canary")
        watched = Watched(commons)
        watched.look()
        place = Place(DirectoryFetcher(watched.mirrors["east"].public))
        node = commons.member("node", place, LogFetcher(place))
        node.subscribe("team", "canary")
        give_consent(commons.home / "node", terms_of(URL), commons.clock.now_us())
        yield Scene(watched, node, commons.home / "node", place, [])
        watched.monitor.close()


def forked(commons: World, folder: Path, more: int, *, since: int | None = None) -> bytes:
    """The checkpoint of another history that the same log signed, witnessed; it parts from the one at `since`."""
    log = commons.log.log
    past = [log.entry(i) for i in range(log.size - 1 if since is None else since)]
    with open_log(folder, LOG) as fork:
        made = TestLog(fork, folder, commons.clock)
        for entry in (*past, *(b"another history %d" % i for i in range(more))):
            made.append(entry)
        assert fork.published is not None
        return fork.published


def test_without_consent_nothing_is_kept_and_nothing_is_told(scene: Scene) -> None:
    withdraw_consent(scene.home, URL)
    scene.node.update()
    assert not (scene.home / "told").exists()
    assert scene.tell() == Said(URL)
    assert scene.posts == []


def test_a_node_tells_what_it_saw_and_nothing_of_itself(scene: Scene) -> None:
    scene.node.update()
    assert scene.tell().result == AGREES
    (body,) = scene.posts
    size = scene.commons.log.log.size
    assert json.loads(body) == {
        "format": "interlock-notice",
        "v": 1,
        "origin": ORIGIN,
        "size": size,
        "root": scene.commons.log.log.checkpoint_at(size).root.hex(),
        "notes": [],
    }


def test_what_was_told_is_not_told_again_until_something_else_is_seen(scene: Scene) -> None:
    scene.node.update()
    scene.tell()
    scene.node.update()
    scene.tell()
    assert len(scene.posts) == 1
    scene.commons.publisher.publish(pack(2), "canary")
    scene.watched.copy()
    scene.node.update()
    scene.tell()
    assert len(scene.posts) == 2


def test_a_refused_update_tells_what_it_saw_too(scene: Scene) -> None:
    targets = scene.watched.mirrors["east"].public / "targets"
    for path in (targets / "channels").iterdir():
        scene.place.instead[f"targets/channels/{path.name}"] = b"{}"
    with pytest.raises(InterlockError):
        scene.node.update()
    assert scene.tell().result == AGREES


def test_consent_to_one_monitor_is_none_to_another(scene: Scene) -> None:
    scene.node.update()
    said = tell(scene.home, "https://other.example/notices", scene.post, 0)
    assert (said.result, scene.posts) == ("", [])


def test_a_monitor_that_does_not_answer_is_asked_again_after_a_minute_and_an_update_knows_nothing_of_it(
    scene: Scene,
) -> None:
    def away(_body: bytes) -> bytes:
        scene.posts.append(b"")
        raise Unreachable("does not answer", where=URL)

    scene.node.update()
    now = scene.commons.clock.now_us()
    assert "does not answer" in tell(scene.home, URL, away, now).trouble
    scene.node.update()
    tell(scene.home, URL, away, now + RETRY_US - 1)
    assert len(scene.posts) == 1
    assert "does not answer" in read_said(scene.home, URL).trouble
    assert tell(scene.home, URL, scene.post, now + RETRY_US).trouble == ""
    assert untold(scene.home, read_said(scene.home, URL)) == {}


def test_only_the_newest_waits(scene: Scene) -> None:
    scene.node.update()
    scene.commons.publisher.publish(pack(2), "canary")
    scene.watched.copy()
    scene.node.update()
    (waiting,) = untold(scene.home, Said(URL)).values()
    assert waiting.size == scene.commons.log.log.size


def test_a_node_that_saw_two_histories_tells_both_notes_and_the_monitor_keeps_the_proof(
    scene: Scene, tmp_path: Path
) -> None:
    scene.node.update()
    scene.tell()
    note = forked(scene.commons, tmp_path / "fork", 1)
    scene.place.instead["log/checkpoint"] = note
    with pytest.raises(SplitView):
        scene.node.update()
    assert scene.tell().result == PROVEN
    assert scene.kinds() == ["split-view"]
    (file,) = (scene.commons.home / "monitor" / "evidence").iterdir()
    parse_evidence(file.read_bytes(), where="f").verify(LOG.key)


def test_a_node_that_only_ever_saw_the_other_history_is_asked_for_its_note_and_that_proves_it(
    scene: Scene, tmp_path: Path
) -> None:
    note = forked(scene.commons, tmp_path / "fork", 1)
    (scene.home / "told").mkdir()
    (scene.home / "told" / "seen.json").write_bytes(Notice.of(note).data)
    assert scene.tell().result == PROVEN
    assert [len(parse_notice(body).notes) for body in scene.posts] == [0, 1], "the note only once it proves something"
    assert scene.kinds() == ["split-view"]
    assert scene.notices.told().unproven == (), "what is proven is not shown as unproven"


def test_a_history_that_is_kept_longer_than_the_true_one_is_found_though_others_filled_the_monitor(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever shows it keeps it ahead of all that the monitor reads, and leaves it no room for what waits."""
    monkeypatch.setattr(monitor_notices, "MOST_TREES", 4)
    (scene.home / "told").mkdir()
    results = []
    for turn in range(1, 4):
        for i in range(9):
            scene.notices.take(Notice(ORIGIN, 5000 + i, bytes([i]) * 32).data)
        shown = forked(scene.commons, tmp_path / f"fork {turn}", scene.commons.log.log.size, since=1)
        (scene.home / "told" / "seen.json").write_bytes(Notice.of(shown).data)
        results.append(scene.tell().result)
        scene.commons.publisher.publish(pack(turn + 1), "canary")
        scene.watched.copy()
        scene.watched.look()
        scene.commons.clock.advance(601)
    assert results == [WAITS, PROVEN, PROVEN], "and what is proven is not forgotten for what is ahead again"
    assert scene.kinds() == ["split-view"]


def test_what_a_monitor_has_not_read_as_far_as_is_told_again_until_it_has(scene: Scene) -> None:
    scene.node.update()
    log = scene.commons.log.log
    scene.watched.log(b"x")
    (scene.home / "told" / "seen.json").write_bytes(Notice.of(sign_checkpoint(log.checkpoint_at(log.size), [LOG])).data)
    assert scene.tell().result == WAITS
    assert untold(scene.home, read_said(scene.home, URL)) == {}
    for _ in range(2):
        assert scene.tell().result == WAITS
    assert len(scene.posts) == 1, "not before ten minutes"
    scene.watched.look()
    scene.commons.clock.advance(601)
    assert scene.tell().result == AGREES
    scene.commons.clock.advance(601)
    scene.tell()
    assert len(scene.posts) == 2


def test_a_root_without_a_note_is_counted_as_unproven_and_raises_no_alarm(scene: Scene) -> None:
    lie = Notice(ORIGIN, 2, b"\x07" * 32)
    assert [scene.notices.take(lie.data).result for _ in range(3)] == [DIFFERS] * 3
    (tree,) = scene.notices.told().unproven
    assert (tree.size, tree.root, tree.count) == (2, b"\x07" * 32, 3)
    assert scene.kinds() == []
    assert scene.watched.look().open == ()


def test_a_note_that_the_log_has_not_signed_raises_no_alarm(scene: Scene) -> None:
    lie = Checkpoint(ORIGIN, 2, b"\x07" * 32)
    forged = sign_checkpoint(lie, [NoteSigner(ORIGIN, seed("somebody"))])
    witness = sign_checkpoint(lie, [NoteSigner("w1.example", seed("witness 1"))])
    for note in (forged, witness):
        with pytest.raises(BadSignature):
            scene.notices.take(Notice.of(note).data)
    assert scene.kinds() == []
    assert scene.notices.told().unproven == ()


def test_a_notice_with_a_note_of_another_tree_is_none(scene: Scene) -> None:
    note = scene.commons.log.log.published
    assert note is not None
    with pytest.raises(Malformed):
        scene.notices.take(Notice(ORIGIN, 2, b"\x07" * 32, (note,)).data)


def test_a_log_that_is_not_watched_is_refused(scene: Scene) -> None:
    with pytest.raises(UnknownLog):
        scene.notices.take(Notice("log.example/other", 2, b"\x07" * 32).data)


def test_the_log_s_own_note_agrees_at_every_size(scene: Scene) -> None:
    log = scene.commons.log.log
    for size in range(log.size + 1):
        assert scene.notices.take(scene.own(size).data).result == AGREES
        note = sign_checkpoint(log.checkpoint_at(size), [LOG])
        assert scene.notices.take(Notice.of(note).data).result == AGREES
    assert scene.kinds() == []


def test_a_tree_that_is_larger_waits_until_the_monitor_has_read_that_far(scene: Scene, tmp_path: Path) -> None:
    log = scene.commons.log.log
    size = log.size + 2
    other = forked(scene.commons, tmp_path / "fork", 3)
    lie = Notice(ORIGIN, size - 1, b"\x07" * 32)
    assert scene.notices.take(Notice.of(other).data).result == WAITS
    assert scene.notices.take(lie.data).result == WAITS
    scene.watched.log(b"x", b"y", b"z")
    honest = scene.own(size + 1)
    assert scene.notices.take(honest.data).result == WAITS
    assert scene.notices.told().waiting == 3
    new = [alarm.kind for alarm in scene.watched.look().new]
    assert "split-view" in new
    told = scene.notices.told()
    assert (told.waiting, [tree.root for tree in told.unproven]) == (0, [b"\x07" * 32])


def test_posts_are_bounded_and_what_the_log_signed_is_not_pushed_out(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_notices, "MOST_TREES", 4)
    for i in range(20):
        for size in (2, 500):
            scene.notices.take(Notice(ORIGIN, size, bytes([i]) * 32).data)
    told = scene.notices.told()
    assert (len(told.unproven), told.waiting, told.counts) == (4, 4, {DIFFERS: 20, WAITS: 20})
    assert scene.notices.take(Notice.of(forked(scene.commons, tmp_path / "f", 9)).data).result == WAITS
    assert scene.notices.told().waiting == 5


def test_evidence_is_bounded_too_and_one_alarm_stands_for_all_of_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_notices, "MOST_EVIDENCE", 2)
    taken = [
        scene.notices.take(Notice.of(sign_checkpoint(Checkpoint(ORIGIN, 2, bytes([i]) * 32), [LOG])).data)
        for i in range(5)
    ]
    assert [t.result for t in taken] == [PROVEN] * 5
    assert [t.alarm is None for t in taken] == [False, True, True, True, True]
    assert len(list((scene.commons.home / "monitor" / "evidence").iterdir())) == 2


def test_what_is_kept_names_no_moment_and_ends(scene: Scene) -> None:
    scene.notices.take(Notice(ORIGIN, 2, b"\x07" * 32).data)
    scene.notices.take(Notice(ORIGIN, 900, b"\x07" * 32).data)
    (tree,) = scene.notices.told().unproven
    assert tree.at % 3_600_000_000 == 0
    scene.commons.clock.advance(26 * 3600)
    scene.watched.look()
    assert (len(scene.notices.told().unproven), scene.notices.told().waiting) == (1, 0)
    scene.commons.clock.advance(31 * 86_400)
    scene.watched.look()
    assert scene.notices.told().unproven == ()


def test_a_proof_survives_the_monitor_s_end(scene: Scene) -> None:
    scene.notices.take(Notice.of(sign_checkpoint(Checkpoint(ORIGIN, 2, b"\x07" * 32), [LOG])).data)
    scene.watched.monitor.close()
    scene.watched.monitor = scene.watched.again()
    assert scene.kinds() == ["split-view"]
    assert "split-view" in scene.watched.kinds()


def test_a_monitor_that_has_read_nothing_lets_all_wait(scene: Scene, tmp_path: Path) -> None:
    fresh = Monitor(tmp_path / "fresh", scene.watched.monitor._pins, scene.watched.places, scene.commons.clock)
    note = sign_checkpoint(Checkpoint(ORIGIN, 2, b"\x07" * 32), [LOG])
    assert fresh.notices.take(scene.own(2).data).result == WAITS
    assert fresh.notices.take(Notice.of(note).data).result == WAITS
    assert [alarm.kind for alarm in fresh.look().new] == ["split-view"]
    fresh.close()


def test_two_notes_of_one_size_prove_it_even_to_a_monitor_that_has_read_nothing(scene: Scene, tmp_path: Path) -> None:
    fresh = Monitor(tmp_path / "fresh", scene.watched.monitor._pins, scene.watched.places, scene.commons.clock)
    two = [sign_checkpoint(Checkpoint(ORIGIN, 2, bytes([i]) * 32), [LOG]) for i in (1, 2)]
    assert fresh.notices.take(Notice.of(*two).data).result == PROVEN
    fresh.close()


def test_a_damaged_file_of_what_was_told_is_said(scene: Scene) -> None:
    scene.node.update()
    scene.tell()
    for name in ("seen.json", "said.json"):
        path = scene.home / "told" / name
        kept = path.read_bytes()
        path.write_bytes(kept[:-9])
        with pytest.raises(BadState):
            scene.tell()
        scene.node.update()
        path.write_bytes(kept)
    forget_told(scene.home)
    assert list((scene.home / "told").iterdir()) == []


@given(
    size=st.integers(1, 2**53 - 1),
    root=st.binary(min_size=32, max_size=32),
    origin=st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]), min_size=1, max_size=30),
    notes=st.lists(st.text(max_size=30).map(lambda t: t.encode("utf-8", "replace")), max_size=2),
)
def test_any_notice_reads_back(size: int, root: bytes, origin: str, notes: list[bytes]) -> None:
    notice = Notice(origin, size, root, tuple(notes))
    assert parse_notice(notice.data) == notice


@pytest.mark.parametrize("result", [AGREES, WAITS, DIFFERS, PROVEN])
def test_an_answer_reads_back(result: str) -> None:
    assert parse_answer(answer_of(result)) == result


def test_a_monitor_s_answer_that_is_none_is_refused() -> None:
    for data in (b"", b"{}", answer_of("perhaps"), answer_of(AGREES) + b"\n"):
        with pytest.raises(Malformed):
            parse_answer(data)
