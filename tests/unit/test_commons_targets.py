"""`targets` in the hands of several people: what they sign together, and what one of them, or a thief, cannot do."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tuf.api.metadata import Metadata, Targets  # type: ignore[attr-defined]

from interlock.base.clock import ManualClock
from interlock.base.fetch import DirectoryFetcher
from interlock.base.files import BadState
from interlock.base.keys import MlDsaSigner
from interlock.commons import installed
from interlock.commons.beginning import create_commons, make_commons_keys
from interlock.commons.ceremony import (
    Assembled,
    Request,
    assemble,
    parse_request,
    request_of,
    request_targets,
    sign_request,
)
from interlock.commons.gate import Bench
from interlock.commons.holders import CeremonyRefused, Circle, default_threshold, demand_targets
from interlock.commons.keyring import make_next, named_key, rows
from interlock.commons.layout import DELEGATIONS, REVIEWERS_PATH
from interlock.commons.operators import Operator, Operators
from interlock.commons.publish import Publisher
from interlock.commons.reviewers import Reviewer, Reviewers
from interlock.commons.rootplan import Plan, expiry_us, plan_of
from interlock.commons.signers import RoleSigner
from interlock.commons.steps import NeedsHolders
from interlock.commons.toplevel import Draft
from interlock.commons.transcript import words_of
from interlock.commons.updater import MetadataRefused
from interlock.commons.waiting import draft_of, first_draft_of, read_waiting
from interlock.engine.decision import Verdict
from interlock.transparency.log import open_log
from interlock.transparency.note import NoteSigner
from tests.attack.thief import Thief
from tests.unit.commons_world import (
    HELD,
    ORIGIN,
    REVIEWERS,
    Counter,
    Releasing,
    TestLog,
    World,
    hand_over,
    holder,
    pack,
    plan,
    seed,
    world,
)


class Held(World):
    """A commons whose targets are signed by two of three people, none of whose keys lies on its machine."""

    def __init__(self, home: Path, log: TestLog, clock: ManualClock) -> None:
        super().__init__(home, log, clock)
        shutil.rmtree(home / "commons")
        online = make_commons_keys(home / "commons", Counter())
        (home / "commons" / "keys" / "targets.key").unlink()
        now = clock.now_us()
        wanted = dataclasses.replace(plan({r: k for r, k in online.items() if r != "targets"}, now), targets=HELD)
        draft = first_draft_of(home / "commons", expiry_us("root", now), {})
        done = signed(request_of(wanted, None, now, draft), "ada", "ben", "tara", "tom")
        self.root = done.root
        create_commons(home / "commons", done.root, now, done.targets)
        self.publisher = Releasing(home / "commons", log.append, self.policy, clock)
        self.publisher.renew()

    @property
    def folder(self) -> Path:
        return self.home / "commons"

    def asks(self) -> Request:
        draft = draft_of(self.folder, expiry_us("root", self.clock.now_us()), {})
        return request_targets(self.publisher.steps.repository.root(), draft)

    def installs(self, *names: str) -> None:
        """Who holds keys of targets signs what waits, and it comes into force."""
        done = signed(self.asks(), *names)
        assert done.targets is not None
        self.publisher.install_targets(done.targets)

    def reviewed(self) -> None:
        with pytest.raises(NeedsHolders):
            self.publisher.set_reviewers(REVIEWERS)
        self.installs("tara", "theo")

    def released(self, version: int = 1) -> None:
        plain = Publisher(self.folder, self.log.append, self.policy, self.clock)
        plain.publish(pack(version), "beta", bench=Bench(without=True))
        plain.review("team", "beta", "approve", seed("reviewer"))
        plain.promote("team", version, "beta", "stable", bench=Bench(without=True))


def signed(request: Request, *names: str) -> Assembled:
    files = [sign_request(parse_request(request.data, where="r"), seed(f"holder {name}")) for name in names]
    return assemble(request, files, 7)


@pytest.fixture
def commons(tmp_path: Path) -> Iterator[Held]:
    clock = ManualClock()
    with open_log(tmp_path / "log", NoteSigner(ORIGIN, seed("log"))) as log:
        made = Held(tmp_path, TestLog(log, tmp_path / "log", clock), clock)
        made.reviewed()
        yield made


def does(commons: World) -> Verdict:
    """What the rule of the pack does on a node, after an update; ALLOW where it is in force no more."""
    now = commons.clock.now_us()
    found = {s.rule: s.acts for s in installed.standing(commons.home / "node", "team", "stable", now).standings}
    return found.get("team.zap", Verdict.ALLOW)


@pytest.fixture
def granted(commons: Held) -> Held:
    """A node has the pack in force, and its operator granted its rule."""
    commons.released()
    node = commons.member("node")
    node.subscribe("team", "stable")
    node.update()
    installed.grant(commons.home / "node", "team", "stable", None, commons.clock.now_us())
    assert does(commons) is Verdict.BLOCK
    return commons


# what needs them, and what does not


def test_packs_go_through_the_rings_without_those_who_hold_targets(commons: Held) -> None:
    before = commons.publisher.steps.repository.versions()["targets"]
    commons.released()
    commons.publisher.revoke("team", 1, why="it was wrong", key=seed("author"))
    commons.publisher.renew()
    assert commons.publisher.steps.repository.versions()["targets"] == before


def test_a_removal_waits_for_its_threshold_and_stops_new_activations_at_once(granted: Held) -> None:
    with pytest.raises(NeedsHolders, match=r"removals.json: put down, and in force once .*2 of 3") as caught:
        granted.publisher.revoke("team", 1, why="it was wrong", removal=True)
    assert "mesh ceremony request --targets" in caught.value.fix
    update = granted.member("node").update()
    assert [row.scope for row in update.withdrawn] == ["activation"]
    assert does(granted) is Verdict.BLOCK
    granted.installs("tara", "theo")
    update = granted.member("node").update()
    assert [row.scope for row in update.withdrawn] == ["removal"]
    assert does(granted) is Verdict.ALLOW
    assert not read_waiting(granted.folder)


def test_one_holder_s_signature_removes_nothing(granted: Held) -> None:
    with pytest.raises(NeedsHolders):
        granted.publisher.revoke("team", 1, why="it was wrong", removal=True)
    with pytest.raises(CeremonyRefused, match="1 of root 1's keys, by tom; 2 have to sign"):
        granted.installs("tom")
    granted.member("node").update()
    assert does(granted) is Verdict.BLOCK


def test_a_request_says_aloud_what_is_taken_out_of_force(granted: Held) -> None:
    with pytest.raises(NeedsHolders):
        granted.publisher.revoke("team", 1, why="it blocks everybody", rules=("team.zap",), removal=True)
    words = "\n".join(granted.asks().words)
    for said in (
        "OUT OF FORCE on every node, granted or not: team version 1 in stable",
        "team.zap; why: it blocks everybody",
        "under root 1 (tara, theo, tom), 2 of 3 keyholders, no two of one employer",
    ):
        assert said in words


def test_what_waits_is_signed_together_and_in_any_order(commons: Held) -> None:
    both = Reviewers({**REVIEWERS.rows, "rob": Reviewer(seed("rob").verifier.text)}, 2)
    operators = Operators(1, (Operator("Acme", "Acme", {"commons": ("https://commons.example",)}),))
    text = make_next(commons.folder / "keys" / "stable.key", lambda size: seed("next").seed[:size])
    changes: tuple[Callable[[], object], ...] = (
        lambda: commons.publisher.set_reviewers(both),
        lambda: commons.publisher.publish_operators(operators),
        lambda: commons.publisher.rotate("stable", text),
    )
    for change in changes:
        with pytest.raises(NeedsHolders):
            change()
    assert commons.publisher.reviewers() == both
    asked = commons.asks()
    words = "\n".join(asked.words)
    for said in ("reviewers, 2 of whom", "rob, ed25519:", "who runs what, version 1", "stable has a new key"):
        assert said in words
    assert signed(asked, "theo", "tara").targets == signed(asked, "tara", "theo").targets
    commons.installs("tom", "tara")
    assert not read_waiting(commons.folder)
    assert named_key(commons.folder / "keys" / "stable.key") == text
    member = commons.member("node")
    member.update()
    with pytest.raises(Exception, match="approved by 1 reviewers, and stable needs 2"):
        commons.released()


def test_a_second_change_of_a_file_that_waits_builds_on_the_first(commons: Held) -> None:
    for version in (1, 2):
        commons.released(version)
    for version in (1, 2):
        with pytest.raises(NeedsHolders):
            commons.publisher.revoke("team", version, why="it was wrong", removal=True)
    commons.installs("theo", "tom")
    node = commons.member("node")
    node.subscribe("team", "stable")
    with pytest.raises(Exception, match="taken back"):
        node.update()


def test_a_draft_that_was_overtaken_is_not_installed(commons: Held) -> None:
    first = signed(commons.asks(), "tara", "theo").targets
    assert first is not None
    commons.installs("tara", "tom")
    with pytest.raises(CeremonyRefused, match="have version 3, and 3 is in force"):
        commons.publisher.install_targets(first)


def test_targets_that_are_installed_twice_give_the_same_answer(commons: Held) -> None:
    done = signed(commons.asks(), "tara", "theo").targets
    assert done is not None
    assert commons.publisher.install_targets(done) == commons.publisher.install_targets(done)


def test_a_file_that_targets_name_has_to_be_in_the_folder(commons: Held) -> None:
    with pytest.raises(NeedsHolders):
        commons.publisher.set_reviewers(Reviewers({"rob": Reviewer(seed("rob").verifier.text)}))
    done = signed(commons.asks(), "tara", "theo").targets
    assert done is not None
    for file in (commons.public / "targets").glob(f"*.{REVIEWERS_PATH}"):
        file.unlink()
    with pytest.raises(BadState, match="is not here as targets name it"):
        commons.publisher.install_targets(done)


# a stolen key


def test_a_thief_with_one_holder_s_key_and_every_online_key_takes_nothing_out_of_force(granted: Held) -> None:
    with pytest.raises(NeedsHolders):
        granted.publisher.revoke("team", 1, why="it was wrong", removal=True)
    draft = granted.asks().draft
    assert draft is not None
    md = Metadata[Targets].from_bytes(draft.data)
    md.sign(RoleSigner(seed("holder tom")))
    with pytest.raises(CeremonyRefused, match="2 have to sign"):
        granted.publisher.install_targets(md.to_bytes())
    (granted.public / "metadata" / f"{draft.version}.targets.json").write_bytes(md.to_bytes())
    thief = Thief(granted)
    thief.show({"targets": draft.version})
    with pytest.raises(MetadataRefused):
        granted.member("node", DirectoryFetcher(thief.public)).update()
    assert does(granted) is Verdict.BLOCK


def test_two_holders_of_one_employer_are_no_quorum_for_a_node_either(tmp_path: Path) -> None:
    same = Circle(tuple(dataclasses.replace(h, employer="Acme") for h in HELD.holders[:2]) + HELD.holders[2:], 2)
    now = ManualClock().now_us()
    online = {role: seed(role).verifier for role in ("snapshot", "timestamp")}
    root = signed(request_of(Plan((holder("ada"), holder("ben")), online, 2, expiry_us("root", now), targets=same),
                             None, now, _first(tmp_path)), "ada", "ben", "tara", "tom")  # fmt: skip
    assert root.targets is not None
    assert demand_targets(root.targets, root.root) == ("tara", "tom")
    md = Metadata[Targets].from_bytes(root.targets)
    md.signatures.clear()
    for name in ("tara", "theo"):
        md.sign(RoleSigner(seed(f"holder {name}")), append=True)
    with pytest.raises(CeremonyRefused, match=r"two of one employer in root 1's quorum \(tara, theo\)"):
        demand_targets(md.to_bytes(), root.root)


def _first(tmp_path: Path) -> Draft:
    make_commons_keys(tmp_path / "keys", Counter())
    return first_draft_of(tmp_path / "keys", expiry_us("root", ManualClock().now_us()), {})


# who holds them


def test_a_root_with_other_holders_comes_with_targets_that_these_signed(granted: Held) -> None:
    circle = Circle((*HELD.holders[1:], holder("tina")), 2)
    now = granted.clock.now_us()
    wanted = dataclasses.replace(plan(plan_of(granted.root).online, now), targets=circle)
    with pytest.raises(CeremonyRefused, match="have new holders"):
        request_of(wanted, granted.root, now)
    draft = draft_of(granted.folder, expiry_us("root", now), {})
    request = request_of(wanted, granted.root, now, draft)
    assert any("targets: 2 of 3 keyholders, no two of one employer (theo, tom, tina)" in line for line in request.words)
    done = signed(request, "ada", "cleo", "tina", "tom")
    with pytest.raises(CeremonyRefused, match="give the targets too"):
        granted.publisher.install_root(done.root, done.transcript)
    for _ in range(2):
        assert granted.publisher.install_root(done.root, done.transcript, targets=done.targets).version == 2
    granted.released(2)
    assert [row.version for row in granted.member("node").update().rows] == [2]
    assert {row.holder for row in rows(granted.folder) if row.role == "targets"} == {"theo", "tom", "tina"}


def test_a_circle_with_two_families_of_keys_signs_targets_too(granted: Held) -> None:
    def pq(name: str) -> MlDsaSigner:
        return MlDsaSigner(65, seed(f"ml-dsa {name}").seed)

    both = [dataclasses.replace(h, keys=(*h.keys, pq(h.name).verifier)) for h in HELD.holders]
    circle, now = Circle(tuple(both), default_threshold(both)), granted.clock.now_us()
    draft = draft_of(granted.folder, expiry_us("root", now), {})
    request = request_of(dataclasses.replace(plan_of(granted.root), targets=circle), granted.root, now, draft)
    files = [sign_request(request, seed(f"holder {name}")) for name in ("ada", "ben", "tara", "theo", "tom")]
    with pytest.raises(CeremonyRefused, match="3 of root 2's keys, by tara, theo, tom; 5 have to sign"):
        assemble(request, files, 7)
    files += [(f"{name}.pq", sign_request(request, pq(name))[1]) for name in ("theo", "tara")]
    done = assemble(request, files, 7)
    granted.publisher.install_root(done.root, done.transcript, targets=done.targets)
    granted.released(2)
    assert [row.version for row in granted.member("node").update().rows] == [2]


def test_an_older_commons_whose_tasks_role_had_fewer_paths_is_handed_over_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(DELEGATIONS, "tasks", (("catalogs/*", "members/*/*"), True))
        with world(tmp_path) as older:
            older.publisher.publish(pack(), "stable")
    with world(tmp_path) as commons:
        now, home = commons.clock.now_us(), commons.home / "commons"
        online = {role: key for role, key in plan_of(commons.root).online.items() if role != "targets"}
        wanted = dataclasses.replace(plan(online, now), targets=HELD)
        words = request_of(wanted, commons.root, now, draft_of(home, expiry_us("root", now), {})).words
        assert "  * tasks may sign catalogs/*, tasks/*, members/*/*; it was catalogs/*, members/*/*" in words
        hand_over(commons)
        node = commons.member("node")
        node.subscribe("team", "stable")
        assert [row.version for row in node.update().rows] == [1]


def test_one_key_on_a_machine_is_said_to_be_a_trial(tmp_path: Path) -> None:
    with world(tmp_path) as trial:
        assert any("ALONE" in line for line in words_of(trial.root, None))
        with pytest.raises(CeremonyRefused, match="have one key"):
            request_targets(trial.root, draft_of(trial.home / "commons", 2 * 10**15, {}))
