"""A monitor's word on keys: said once, whole and durably, whatever the clock does and whenever its process ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.base.clock import DAY_US
from interlock.base.fetch import DirectoryFetcher, Fetcher
from interlock.base.keys import Ed25519Signer
from interlock.commons.membership import CERTIFICATE, build_member_keys
from interlock.commons.monitor import GRACE_US, Monitor
from interlock.commons.monitor_store import Alarm, MonitorStore
from interlock.commons.pins import init_node
from interlock.commons.succession import dump_succession
from interlock.transparency.entry import signed_entry
from tests.unit.commons_world import World, log_policy, pack, seed, world
from tests.unit.membership_world import NAME
from tests.unit.test_membership_commons import EPOCH, published

A, B, THIEF = seed("issuer"), seed("second"), seed("thief")
_IS_STRANGE = f"task {NAME}: {THIEF.verifier.text}"


def keys_by(issuer: Ed25519Signer, epoch: int, follows: bytes = b"") -> bytes:
    made = build_member_keys(
        issuer,
        task=NAME,
        epoch=epoch,
        backend=CERTIFICATE,
        operator="enrol.example",
        closes_at=1,
        token_key=b"",
        follows=follows,
    )
    return made.data


class Watch:
    """A commons, two mirrors of it, and a monitor that may end and begin again."""

    def __init__(self, commons: World) -> None:
        self.commons = commons
        self.mirrors = [commons.mirror(name) for name in ("east", "west")]
        self.monitor = self.begun()

    def begun(self) -> Monitor:
        pins = init_node(self.commons.home / "monitor-pins", log_policy=log_policy(), root=self.commons.root)
        places: dict[str, Fetcher] = {m.public.parent.name: DirectoryFetcher(m.public) for m in self.mirrors}
        return Monitor(self.commons.home / "monitor", pins, places, self.commons.clock)

    def publish(self, *files: bytes) -> None:
        published(self.commons, *files)
        self.copy()

    def log(self, *entries: bytes) -> None:
        for entry in entries:
            self.commons.log.append(entry)
        self.copy()

    def copy(self) -> None:
        for mirror in self.mirrors:
            mirror.copy()

    def new(self, kind: str, after_us: int = 0) -> list[str]:
        self.commons.clock.advance(after_us / 1_000_000)
        return [f"{a.where}: {a.what}" for a in self.monitor.look().new if a.kind == kind]

    def open(self, kind: str) -> list[str]:
        return [alarm.where for alarm in self.monitor.store.alarms() if alarm.kind == kind and alarm.closed is None]


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    with world(tmp_path) as commons:
        commons.publisher.publish(pack(1), "canary")
        made = Watch(commons)
        made.copy()
        yield made
        made.monitor.close()


# issuers


def test_an_alarm_on_an_issuer_outlives_a_monitor_that_is_killed_before_its_pass_ends(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.publish(keys_by(A, EPOCH))
    assert watch.new("issuer") == []
    watch.publish(keys_by(THIEF, EPOCH + 1))

    def killed(*_: object) -> list[Alarm]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(MonitorStore, "settle", killed)
        with pytest.raises(KeyboardInterrupt):
            watch.monitor.look()
    watch.monitor.close()
    watch.monitor = watch.begun()
    assert watch.new("issuer") == []
    assert watch.open("issuer") == [_IS_STRANGE], "the place was good, and is looked at again a day later"


def test_what_a_person_closed_is_not_raised_by_looking_at_the_same_issuer_again(watch: Watch) -> None:
    watch.publish(keys_by(A, EPOCH), keys_by(THIEF, EPOCH + 1))
    watch.monitor.look()
    (alarm,) = [a for a in watch.monitor.store.alarms() if a.kind == "issuer"]
    watch.monitor.store.close_alarm(alarm, watch.commons.clock.now_us())
    assert watch.new("issuer", DAY_US + 1) == []
    watch.commons.publisher.renew()
    watch.publish(keys_by(THIEF, EPOCH + 2))
    assert watch.new("issuer") == []
    assert watch.open("issuer") == []


def test_of_two_issuers_that_one_key_named_the_second_is_an_alarm(watch: Watch) -> None:
    real, stolen = dump_succession(A, B.verifier, 1), dump_succession(A, THIEF.verifier, 2)
    watch.publish(keys_by(A, EPOCH), keys_by(B, EPOCH + 1, real))
    assert watch.new("issuer") == []
    watch.publish(keys_by(THIEF, EPOCH + 2, stolen))
    (told,) = watch.new("issuer")
    assert told.startswith(_IS_STRANGE)
    assert "named another" in told
    c = seed("third")
    watch.publish(keys_by(c, EPOCH + 3, real + b"\n" + dump_succession(B, c.verifier, 3)))
    assert watch.new("issuer") == [], "who follows the one that was there first goes on"


def test_an_epoch_of_the_key_before_may_be_published_after_that_of_its_successor(watch: Watch) -> None:
    watch.publish(keys_by(B, EPOCH + 1, dump_succession(A, B.verifier, 1)))
    watch.publish(keys_by(A, EPOCH))
    assert watch.new("issuer") == []


# doubts, and the clock


def entry(name: str, version: int, key: Ed25519Signer, sha256: str = "a" * 64) -> bytes:
    fields = {"name": name, "version": version, "ring": "canary", "sha256": sha256, "at": 1}
    return signed_entry(key, type="pack", **fields).data  # type: ignore[arg-type]


def test_a_clock_that_is_set_back_puts_no_verdict_off(watch: Watch) -> None:
    watch.monitor.look()
    watch.log(entry("team", 9, seed("nobody")))
    assert watch.new("unexpected") == []
    watch.commons.clock.advance(-GRACE_US / 1_000_000 - 1)
    assert len(watch.new("unexpected")) == 1


def test_a_verdict_on_a_key_hides_nothing_that_was_said_of_the_entry_before(watch: Watch) -> None:
    watch.monitor.look()
    watch.log(entry("team", 1, seed("nobody"), "b" * 64))
    (first,) = watch.new("unexpected")
    assert "means other bytes" in first
    watch.monitor.look()
    watch.commons.clock.advance(GRACE_US / 1_000_000 + 1)
    watch.monitor.look()
    (alarm,) = [a for a in watch.monitor.store.alarms() if a.kind == "unexpected"]
    assert "means other bytes" in alarm.what
    assert "is not by a key of role" in alarm.what
