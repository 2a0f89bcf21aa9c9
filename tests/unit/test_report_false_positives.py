"""A person calls a block a false positive: once, of this node's own chain, of a community rule, after consent."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import interlock
from interlock import Blocked, FileSink
from interlock.base.clock import MICROSECONDS, rfc3339
from interlock.base.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE, BadInput
from interlock.base.files import private_dir, replace
from interlock.commons.consent import NoConsent
from interlock.commons.indicators import FALSE_POSITIVES, Catalog, build_catalog, indicator_pack
from interlock.commons.live import store_file
from interlock.commons.pack import Pack, build_pack
from interlock.dap.task import Task, task_of
from interlock.dap.taskfile import dump_client_task
from interlock.engine import ambient
from interlock.engine.decision import Decision
from interlock.engine.detectors.indicator import host_indicator
from interlock.engine.event import SensorEvent
from interlock.engine.receipts import Receipt
from interlock.node.cli import mesh_count, mesh_report
from interlock.node.roles.false_positives import say_false_positive, spoken
from interlock.node.roles.observe import kept_catalogs
from interlock.node.roles.report import agree, withdraw
from interlock.node.roles.rollup import dump_tally, gather
from interlock.node.storage.node import OutboxRow, Word
from tests.unit.commons_world import World, rule
from tests.unit.dap_world import PRECISION
from tests.unit.report_world import RULES, CountedWorld, Member, task_over
from tests.unit.test_node_mesh_cli import TEAM, commons, follower, member
from tests.unit.test_node_mesh_cli import Member as Follower

__all__ = ["commons", "follower", "member"]  # fixtures of that module

HOST, OTHER = host_indicator("evil.example.com"), host_indicator("fine.example.com")
INDICATORS = indicator_pack("indicator-a", 1, [HOST], authors=["R"])
MASKING = {
    "id": "team.mask",
    "when": {"detector": "secrets"},
    "verdict": "modify",
    "mask": {"detector": "secrets"},
    "reason": "secrets stay here",
    "examples": {"fires": [], "passes": [{"action": "Bash", "args": {"command": "ls"}}]},
}
TEAM_PACK = build_pack("team", 1, [rule("team.zap", "zap"), MASKING], licence="MIT", authors=["A"])


def counted(task: str = "wrong-1", opens_at: int = 0) -> Catalog:
    rules, hosts = ["team.zap", "indicator-a.host", *RULES[4:]], [HOST, OTHER]
    return build_catalog(task, opens_at=opens_at, rules=rules, indicators=hosts, counts=FALSE_POSITIVES)


class Node(Member):
    """A node that holds both packs, and has consented to count false positives."""

    def __init__(self, folder: Path) -> None:
        world = CountedWorld(folder, counted())
        super().__init__(folder / "acme", world, counted())
        self.agree()
        for pack in (TEAM_PACK, INDICATORS):
            path = store_file(self.home, pack.digest)
            private_dir(path.parent)
            path.write_bytes(pack.data)
        self.community = {"team.zap": frozenset(), "indicator-a.host": frozenset({HOST})}

    def receipt(self, rule_id: str, pack: Pack, call: str = "call-1", **values: object) -> Receipt:
        named: dict[str, object] = {
            "ts_us": self.world.clock.now_us(),
            "call_id": call,
            "action": "Bash",
            "phase": "call",
            "verdict": "BLOCK",
            "outcome": "blocked",
            "policy_epoch": 1,
            "policy_digest": "d",
            "elapsed_us": 1,
            "rule": rule_id,
            "policy_id": rule_id,
            "pack_digest": pack.digest,
            "mac": f"{call}-{rule_id}".encode().hex(),
            "seq": 7,
        }
        return Receipt(**{**named, **values})  # type: ignore[arg-type]

    def say(self, receipt: Receipt) -> Word:
        (said,) = say_false_positive(self.home, self.store, [self.world.task], receipt, self.world.clock.now_us())
        return said

    def places(self) -> set[str]:
        return {counted().places[place] for place in self.bits()}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.stop()
    made.world.close()


def test_a_false_positive_sets_its_rules_place_in_the_running_epoch(node: Node) -> None:
    said = node.say(node.receipt("team.zap", TEAM_PACK))
    assert (said.task, spoken(said)) == ("wrong-1", ("rule:team.zap",))
    assert node.places() == {"rule:team.zap"}
    assert node.close(early=True) == 1


def test_a_false_positive_of_an_indicator_is_told_by_the_place_that_was_noted_when_it_blocked(node: Node) -> None:
    call = {"command": "curl https://evil.example.com/ https://fine.example.com/"}
    event = SensorEvent("Bash", call, call_id="call-9")
    node.observer(event, Decision.block("no", policy_id="indicator-a.host"))
    assert node.bits() == frozenset()
    node.say(node.receipt("indicator-a.host", INDICATORS, call="call-9"))
    assert node.places() == {"rule:indicator-a.host", HOST}


def test_what_else_a_call_named_is_none_of_a_plain_rules_business(node: Node) -> None:
    event = SensorEvent("Bash", {"command": "zap https://evil.example.com/"}, call_id="call-9")
    node.observer(event, Decision.block("no", policy_id="team.zap"))
    node.say(node.receipt("team.zap", TEAM_PACK, call="call-9"))
    assert node.places() == {"rule:team.zap"}


def test_a_receipt_is_called_a_false_positive_once(node: Node) -> None:
    receipt = node.receipt("team.zap", TEAM_PACK)
    node.say(receipt)
    with pytest.raises(BadInput, match="receipt 7: was called a false positive before"):
        node.say(receipt)
    node.world.clock.advance(PRECISION)
    node.restart()
    with pytest.raises(BadInput, match="was called a false positive before"):
        node.say(receipt)
    assert node.bits() == frozenset()


def test_a_word_feeds_no_second_task_in_an_epoch_that_overlaps(node: Node) -> None:
    node.say(node.receipt("team.zap", TEAM_PACK))
    node.close(early=True)
    node.send()
    node.withdraw()
    other = counted("wrong-2")
    node.catalog, node.world.task = other, task_over(other, 2 * PRECISION)
    node.world.clock.advance(1)
    node.agree()
    late = node.receipt("team.zap", TEAM_PACK, "call-2")
    with pytest.raises(BadInput, match="feeds another task in this epoch"):
        node.say(late)
    node.world.clock.advance(2 * PRECISION)
    assert node.say(late).task == "wrong-2"


def test_a_word_that_another_node_of_the_organisation_took_is_brought_in_beside_the_same_rules_sighting(
    node: Node,
) -> None:
    kept = kept_catalogs(node.home)["wrong-1"]
    now = node.world.clock.now_us()
    start = kept.epoch_of(now)
    assert node.store.add_bits("rules-1", "c", (start, start + kept.epoch_us), {0: "rule:team.zap"}) == 1
    told = dump_tally(kept, {start: frozenset({0})}, now)
    replace(node.home / "laptop.json", told)
    assert gather(node.store, node.home, "wrong-1", [node.home / "laptop.json"], [start], now) == 1
    assert node.places() == {"rule:team.zap"}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"verdict": "ALLOW", "outcome": "proceeded"}, "neither blocked nor asked about"),
        ({"verdict": "MODIFY", "outcome": "rewritten"}, "neither blocked nor asked about"),
        ({"pack_digest": None}, "no community rule"),
        ({"rule": None}, "no community rule"),
        ({"pack_digest": "ab" * 32}, "a pack that this node holds no more"),
        ({"rule": "team.other"}, "a rule that its pack does not have"),
        ({"rule": "team.mask"}, "a rule that masks, and is never counted"),
        ({"ts_us": 1}, "before the consent, which never reaches back"),
    ],
)
def test_no_other_receipt_can_be_called_a_false_positive(node: Node, values: dict[str, object], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        node.say(node.receipt("team.zap", TEAM_PACK, "call-1", **values))
    assert node.bits() == frozenset()


def test_what_was_asked_about_and_approved_can_be_called_a_false_positive(node: Node) -> None:
    node.say(node.receipt("team.zap", TEAM_PACK, verdict="ALLOW", policy_verdict="ESCALATE", outcome="approved"))
    assert node.places() == {"rule:team.zap"}


def test_after_the_epochs_report_a_word_waits_for_the_next_and_is_not_used_up(node: Node) -> None:
    node.close(early=True)
    receipt = node.receipt("team.zap", TEAM_PACK)
    with pytest.raises(BadInput, match="comes after this epoch's report"):
        node.say(receipt)
    node.world.clock.advance(PRECISION)
    node.say(receipt)
    assert node.places() == {"rule:team.zap"}


def test_without_consent_nothing_can_be_said(node: Node) -> None:
    node.withdraw()
    with pytest.raises(NoConsent):
        node.say(node.receipt("team.zap", TEAM_PACK))


def test_consent_off_forgets_which_call_met_which_place(node: Node) -> None:
    event = SensorEvent("Bash", {"command": "zap"}, call_id="call-9")
    node.observer(event, Decision.block("no", policy_id="team.zap"))
    assert node.store.objection("call-9", "call") == {"rule:team.zap"}
    node.withdraw()
    assert node.store.objection("call-9", "call") == frozenset()


def test_a_word_on_a_rule_that_the_catalog_has_not_is_refused(tmp_path: Path) -> None:
    made = Node(tmp_path)
    other = build_catalog("wrong-1", opens_at=0, rules=["fs.destroy"], counts=FALSE_POSITIVES)
    made.world.task, made.catalog = task_over(other), other
    agree(made.home, made.store, made.world.task, other, made.world.clock.now_us())
    with pytest.raises(BadInput, match=r"rule team\.zap, and no task that counts .* a place for it \(wrong-1\)"):
        made.say(made.receipt("team.zap", TEAM_PACK))
    made.stop()
    made.world.close()


def another_task(node: Node, name: str, rules: list[str], hosts: list[str], precision: int = PRECISION) -> Task:
    """One more task that counts false positives, consented to after those that there are."""
    node.world.clock.advance(1)
    other = build_catalog(name, opens_at=0, rules=rules, indicators=hosts, counts=FALSE_POSITIVES)
    task = task_over(other, precision)
    agree(node.home, node.store, task, other, node.world.clock.now_us())
    return task


def said_to(node: Node, tasks: list[Task], receipt: Receipt) -> dict[str, tuple[str, ...]]:
    said = say_false_positive(node.home, node.store, tasks, receipt, node.world.clock.now_us())
    return {one.task: spoken(one) for one in said}


def test_of_several_tasks_a_word_goes_to_the_one_that_has_its_place(node: Node) -> None:
    other = another_task(node, "cargo", ["team.other"], [])
    tasks = [node.world.task, other]
    for order in (tasks, tasks[::-1]):
        zap = node.receipt("team.zap", TEAM_PACK, f"call-{order[0].task_id.hex()[:4]}")
        assert said_to(node, order, zap) == {"wrong-1": ("rule:team.zap",)}
    pack = build_pack("other", 1, [rule("team.other", "other")], licence="MIT", authors=["A"])
    store_file(node.home, pack.digest).write_bytes(pack.data)
    assert said_to(node, tasks, node.receipt("team.other", pack, "call-o")) == {"cargo": ("rule:team.other",)}


def test_a_word_whose_places_are_of_two_tasks_feeds_each_place_to_one(tmp_path: Path) -> None:
    node = Node(tmp_path)
    first = another_task(node, "a-rules", ["indicator-a.host"], [])
    second = another_task(node, "b-hosts", ["indicator-a.host"], [HOST])
    node.withdraw()
    event = SensorEvent("Bash", {"command": "curl https://evil.example.com/"}, call_id="call-9")
    node.observer(event, Decision.block("no", policy_id="indicator-a.host"))
    receipt = node.receipt("indicator-a.host", INDICATORS, call="call-9")
    told = said_to(node, [second, first], receipt)
    assert told == {"a-rules": ("rule:indicator-a.host",), "b-hosts": (HOST,)}
    with pytest.raises(BadInput, match="was called a false positive before"):
        said_to(node, [second, first], receipt)
    node.stop()
    node.world.close()


def test_a_receipt_whose_place_is_in_no_task_says_so_and_names_them(node: Node) -> None:
    other = another_task(node, "cargo", ["fs.destroy"], [])
    pack = build_pack("other", 1, [rule("team.other", "other")], licence="MIT", authors=["A"])
    store_file(node.home, pack.digest).write_bytes(pack.data)
    with pytest.raises(BadInput, match=r"no task that counts .* has a place for it \(cargo, wrong-1\)"):
        said_to(node, [other, node.world.task], node.receipt("team.other", pack))


def test_of_several_tasks_one_that_nobody_agreed_to_any_more_takes_nothing(node: Node) -> None:
    other = another_task(node, "wrong-2", ["team.zap"], [])
    node.withdraw()
    receipt = node.receipt("team.zap", TEAM_PACK)
    assert said_to(node, [node.world.task, other], receipt) == {"wrong-2": ("rule:team.zap",)}
    withdraw(node.home, node.store, "wrong-2", node.world.clock.now_us())
    with pytest.raises(NoConsent):
        said_to(node, [node.world.task, other], node.receipt("team.zap", TEAM_PACK, "call-2"))


def test_a_word_for_an_epoch_that_one_of_its_tasks_has_reported_waits_whole(tmp_path: Path) -> None:
    """Else the receipt would be used up for the other."""
    node = Node(tmp_path)
    first = another_task(node, "a-rules", ["indicator-a.host"], [])
    node.withdraw()
    second = another_task(node, "b-hosts", ["fs.destroy"], [HOST])
    event = SensorEvent("Bash", {"command": "curl https://evil.example.com/"}, call_id="call-9")
    node.observer(event, Decision.block("no", policy_id="indicator-a.host"))
    start = second.start_us(second.time_of(node.world.clock.now_us()))
    assert node.store.queue(OutboxRow("b-hosts", start, "c", second.task_id, b"report"))
    receipt = node.receipt("indicator-a.host", INDICATORS, call="call-9")
    with pytest.raises(BadInput, match="say it once the next epoch has begun"):
        said_to(node, [first, second], receipt)
    node.world.clock.advance(PRECISION)
    assert set(said_to(node, [first, second], receipt)) == {"a-rules", "b-hosts"}
    node.stop()
    node.world.close()


def test_a_word_for_a_task_that_has_not_opened_says_when_it_does(node: Node) -> None:
    opens = node.world.clock.now_us() + PRECISION * MICROSECONDS
    later = counted("later", opens_at=opens)
    task = task_over(later)
    agree(node.home, node.store, task, later, node.world.clock.now_us())
    first = rfc3339(task.start_us(-(-opens // task.start_us(1))))
    with pytest.raises(BadInput, match=f"task later: is not open yet: its first epoch begins at {first}; say it then"):
        said_to(node, [task], node.receipt("team.zap", TEAM_PACK))
    node.world.clock.advance(2 * PRECISION)
    assert said_to(node, [task], node.receipt("team.zap", TEAM_PACK)) == {"later": ("rule:team.zap",)}


# --- the command, with a real pack, guard and chain ---------------------------------------------------------------


@pytest.fixture
def receipts(commons: World, follower: Follower, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The chain of a guard that blocked once by a pack's rule; the node joined a task, and consented to it."""
    clock = commons.clock
    for module in (mesh_count, mesh_report):
        monkeypatch.setattr(module, "SystemClock", lambda: clock)
    opens = (clock.now_us() // (PRECISION * MICROSECONDS) + 1) * PRECISION * MICROSECONDS
    catalog = counted(opens_at=opens)
    commons.publisher.publish_catalog(catalog)
    commons.publisher.publish_dap_task("wrong-1", dump_client_task(task_over(catalog)))
    follower.mirror.copy()
    clock.advance((opens - clock.now_us()) / MICROSECONDS)
    assert follower("report", "init", "wrong-1") == EXIT_OK
    assert follower("consent", "on", "wrong-1", "--demo") == EXIT_OK
    assert follower("grant", TEAM) == EXIT_OK
    monkeypatch.setenv("INTERLOCK_CONFIG", str(follower.config))
    path = follower.home.parent / "receipts.jsonl"
    interlock.install(policy=TEAM, sink=FileSink(path))
    ambient.installed().clock = clock
    with pytest.raises(Blocked):
        interlock.enforce_tool_call("Bash", {"command": "zap it"})
    interlock.enforce_tool_call("Bash", {"command": "ls"})
    yield path
    ambient.install(None)


def test_the_command_counts_a_receipt_of_the_chain_once(
    follower: Follower, receipts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fp(name: str) -> int:
        return follower("report", "fp", name, "--receipts", str(receipts))

    capsys.readouterr()
    assert fp("#2") == EXIT_USAGE
    assert "neither blocked nor asked about" in capsys.readouterr().err
    assert fp("#9") == EXIT_USAGE
    assert fp("#1") == EXIT_OK
    assert "counts as a false positive of rule:team.zap" in capsys.readouterr().out
    assert fp("#1") == EXIT_USAGE
    assert "was called a false positive before" in capsys.readouterr().err
    assert follower("consent", "show", "--json") == EXIT_OK
    (row,) = json.loads(capsys.readouterr().out)["consents"]
    assert (row["purpose"], row["subject"], row["floor"]) == ("false-positives", "wrong-1", 3)


def test_a_task_that_nobody_published_is_not_kept_beside_the_one_that_was_agreed_to(
    follower: Follower, receipts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It counts by the same catalog, so the yes to the published one would be taken for a yes to it."""
    (kept,) = kept_catalogs(follower.home).values()
    config = dataclasses.replace(task_over(kept.catalog).config, min_batch_size=4)
    other = task_of(config.encode(), demo=True)
    path = follower.home.parent / "other.json"
    path.write_bytes(dump_client_task(other))
    before = sorted((follower.home / "tasks").iterdir())
    capsys.readouterr()
    assert follower("report", "init", str(path)) == EXIT_REFUSED
    assert "is not the task wrong-1 that the commons published" in capsys.readouterr().err
    assert sorted((follower.home / "tasks").iterdir()) == before
    assert follower("report", "init", "wrong-1") == EXIT_OK


def test_the_command_refuses_a_chain_that_was_tampered_with(
    follower: Follower, receipts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = receipts.read_bytes().splitlines(keepends=True)
    receipts.write_bytes(lines[0] + lines[2].replace(b'"verdict":"ALLOW"', b'"verdict":"BLOCK"') + lines[1])
    assert follower("report", "fp", "#1", "--receipts", str(receipts)) == EXIT_REFUSED
    assert capsys.readouterr().err.count("\n") == 1
