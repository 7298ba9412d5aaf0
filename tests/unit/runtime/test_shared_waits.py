"""How often it is worked out what runs wait for, however many ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.contracts.catalog import Catalog
from controller.contracts.waiting import Waiting, WaitReason
from controller.runtime import shared_waits
from controller.runtime.shared_waits import KEEP_S
from controller.scheduling.device_life import Quarantined
from controller.scheduling.waiting import Queue, waiting
from tests.support import builders
from tests.support.farm import FarmBox


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    box.farm.register(builders.registration())
    yield box
    box.close()


@pytest.fixture
def worked_out(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The open runs at each time that it is worked out."""
    times: list[int] = []

    def counted(queue: Queue, catalog: Catalog) -> dict[str, Waiting]:
        times.append(len(queue.runs))
        return waiting(queue, catalog)

    monkeypatch.setattr(shared_waits, "waiting", counted)
    return times


def test_sweeps_and_users_share_an_answer_for_some_seconds(
    box: FarmBox, worked_out: list[int]
) -> None:
    box.farm.apply_event("cpu-1", Quarantined("admin", "it is loud"), "admin", "it is loud")
    given = {"await": True, "repeats": 2}
    ids = [
        box.submit(builders.sweep(name=name, **given), user=name).sweep_id
        for name in ("ann", "bob")
    ]

    def ask() -> set[tuple[int, WaitReason]]:
        told = [box.farm.sweeps.waits(sweep_id)() for sweep_id in ids]
        return {(group.runs, group.first.reason) for groups in told for group in groups}

    for _ in range(9):
        assert ask() == {(2, WaitReason.QUARANTINED)}
    assert worked_out == [4]
    box.clock.now += KEEP_S
    assert ask() == {(2, WaitReason.QUARANTINED)}
    assert worked_out == [4, 4]


def test_a_sweep_of_which_nothing_was_told_is_answered_at_once(
    box: FarmBox, worked_out: list[int]
) -> None:
    first = box.submit(builders.sweep(repeats=2)).sweep_id
    (job,) = box.ask().run
    assert [group.runs for group in box.farm.sweeps.waits(first)()] == [1]
    second = box.submit(builders.sweep(name="other")).sweep_id
    assert [group.runs for group in box.farm.sweeps.waits(second)()] == [1]
    assert worked_out == [2, 3]

    box.report(job.ref, builders.result())
    assert box.farm.sweeps.waits(first)() == (), "its other run is leased, and waits no more"
    assert worked_out == [2, 3]


def test_two_who_ask_at_once_have_it_worked_out_once(box: FarmBox, worked_out: list[int]) -> None:
    sweep_id = box.submit(builders.sweep(repeats=2)).sweep_id
    one, other = (box.farm.sweeps.waits(sweep_id) for _ in range(2))
    assert one() == other()
    assert worked_out == [2]


def test_an_answer_about_a_run_that_starts_now_is_equal_later(
    box: FarmBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def starting(queue: Queue, _: Catalog) -> dict[str, Waiting]:
        found = Waiting(reason=WaitReason.STARTS, device="cpu-1", starts_at=queue.now)
        return {run.run_id: found for run in queue.runs}

    monkeypatch.setattr(shared_waits, "waiting", starting)
    box.farm.apply_event("cpu-1", Quarantined("admin", "it is loud"), "admin", "it is loud")
    sweep_id = box.submit(builders.sweep(**{"await": True})).sweep_id
    (before,) = box.farm.sweeps.waits(sweep_id)()
    box.clock.now += KEEP_S
    (after,) = box.farm.sweeps.waits(sweep_id)()
    assert (before, before.first.reason) == (after, WaitReason.STARTS)
