"""The batch mode leader_selected, from upload to sums: batches that the leader fills, each collected once."""

from __future__ import annotations

from pathlib import Path

from interlock.dap.messages import LEADER_SELECTED
from tests.unit.dap_world import World, bits


def world_of(folder: Path, least: int = 3, **about: object) -> World:
    return World(folder, least=least, batch_mode=LEADER_SELECTED, **about)  # type: ignore[arg-type]


def test_each_question_is_about_the_eldest_batch_that_was_not_taken(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.upload(*(world.report(bits(place)) for place in range(3)))
    world.drive()
    world.upload(*(world.report(bits(place)) for place in range(3, 8)))
    first = world.collect_next()
    assert (first.report_count, list(first.sums[:4])) == (3, [1, 1, 1, 0])
    assert world.collect_next() == first, "the same until it is taken"
    world.collector.taken(first.place)
    second = world.collect_next()
    assert (second.report_count, sum(second.sums)) == (3, 3)
    assert second.place != first.place
    world.close()
