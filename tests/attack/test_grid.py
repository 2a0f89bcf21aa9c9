"""Every row of the grid is carried out, and held to what must be true after each attack.

It activates no pack and loses no last-good one: live.json, the packs in the store and the policy of the running guard
are as they were. It comes to its own error, in one line, which status.json has too. It has really reached the node: an
attack of which the node saw nothing fails here. And the node takes the next honest version from an honest mirror.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.base.errors import CODES, InterlockError
from interlock.base.files import Locked, NewerFormat, NotWritable
from interlock.commons.live import LIVE
from interlock.commons.updater import UntrustedRoot
from interlock.dap.drafts import ReportError
from tests.attack.from_members import Turned, count_in
from tests.attack.grid import ADVERSARIES, ATTACKS, GRID, Row, table
from tests.attack.scene import NEXT, Scene, scene_in

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "attacks.md"
UNTOLD = Locked | NotWritable | UntrustedRoot | NewerFormat  # there is no update yet that could say so in status.json
COUNTS = ("issuer", "leader")
SLOW = (pytest.mark.slow, pytest.mark.sweep)  # each slow row visits the writes of something in turn
ROWS = [pytest.param(row, id=row.id, marks=SLOW if row.slow else ()) for row in GRID]


@pytest.mark.parametrize("row", ROWS)
def test_no_attack_activates_a_pack_or_loses_one_and_each_has_its_error(
    row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if row.adversary in COUNTS:
        _on_a_count(row, tmp_path)
        return
    with scene_in(tmp_path, monkeypatch) as scene:
        row.run(scene)
        before = scene.state()
        _on_a_node(row, scene)
        after = scene.state()
        assert scene.guard.current.digest == scene.policy, "the guard goes by another policy"
        assert after[0] == before[0], "live.json changed"
        if row.expected is not None:
            assert after == before
        assert scene.touched(), "the node saw nothing of the attack"
        assert scene.recovers() == NEXT


def _on_a_node(row: Row, scene: Scene) -> None:
    if row.expected is None:
        scene.act()
        return
    assert not isinstance(row.expected, ReportError)
    with pytest.raises(row.expected, match=row.match or None) as caught:
        scene.act()
    _demand_its_own(row, caught.value)
    if scene.act == scene.update and not isinstance(caught.value, UNTOLD):
        assert scene.trouble() == {"code": caught.value.code, "line": str(caught.value)}


def _demand_its_own(row: Row, error: InterlockError) -> None:
    assert type(error) is row.expected
    assert error.code in CODES
    assert "\n" not in str(error)


def _on_a_count(row: Row, folder: Path) -> None:
    with count_in(folder) as count:
        row.run(count)
        if isinstance(row.expected, ReportError):
            with pytest.raises(Turned) as turned:
                count.act()
            assert turned.value.said is row.expected
        else:
            assert row.expected is not None
            with pytest.raises(row.expected, match=row.match or None) as caught:
                count.act()
            _demand_its_own(row, caught.value)
        assert count.recovers() == 3


def test_every_adversary_and_every_attack_has_its_cells() -> None:
    assert {row.adversary for row in GRID} == set(ADVERSARIES)
    assert {row.attack for row in GRID} >= set(ATTACKS)
    assert len({row.id for row in GRID}) == len(GRID) >= 60


def test_the_page_shows_the_grid() -> None:
    """`python -m tests.attack.grid` prints what stands behind the mark."""
    text = PAGE.read_text()
    _, _, shown = text.partition("<!-- the grid, from tests/attack/grid.py -->\n\n")
    assert shown == table()


def test_an_attack_that_does_not_reach_the_node_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with scene_in(tmp_path, monkeypatch) as scene:
        scene.publish(2)
        before = (scene.home / LIVE).read_bytes()
        scene.act()
        assert not scene.touched()
        assert (scene.home / LIVE).read_bytes() != before
