"""What `sweep plan` works out from the fleet and from earlier attempts."""

from __future__ import annotations

from statistics import median

import pytest

from controller.cli.plan_view import show_plan
from controller.contracts.device import Booking, Device, DeviceKind, DeviceState, Hold
from controller.contracts.records import Took
from controller.contracts.sweep import Cell
from controller.scheduling import planning
from controller.scheduling.expansion import cells_of
from controller.scheduling.planning import Durations, SweepPlan, plan_sweep
from tests.support import builders

CATALOG = builders.catalog()
FLEET = [
    (builders.cpu("cpu-1"), DeviceState.READY),
    (builders.cpu("cpu-2"), DeviceState.BUSY),
    (builders.cpu("cpu-3"), DeviceState.QUARANTINED),
]


def took(cell: Cell, device: Device, seconds: float) -> Took:
    return Took(
        **cell.model_dump(include={"workload", "stack", "scenario", "knobs", "versus"}),
        device=device.id,
        device_kind=device.kind,
        seconds=seconds,
    )


def plan(history: list[Took], **changes: object) -> SweepPlan:
    sweep = builders.sweep(**changes)
    return plan_sweep(sweep, cells_of(sweep, CATALOG), FLEET, CATALOG, history)


def test_cells_runs_and_hours_of_each_device() -> None:
    (cell,) = cells_of(builders.sweep(), CATALOG)
    history = [took(cell, FLEET[0][0], 1800.0), took(cell, FLEET[1][0], 900.0)]
    found = plan(history, run_on="each", repeats=2)
    assert [(d.device, d.cells, d.runs, d.hours) for d in found.devices] == [
        ("cpu-1", 1, 2, 1.0),
        ("cpu-2", 1, 2, 0.5),
    ]
    assert (found.shared_cells, found.unmatched) == (0, ())


def test_a_virtual_device_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    virtual = builders.cpu("cpu-1").model_copy(update={"virtual": True})
    booking = Booking(begins=1.0, ends=2.0, user="ann", who="admin", why="a paper")
    sweep = builders.sweep()
    fleet = [(virtual, DeviceState.READY)]
    bookings = {"cpu-1": (booking,)}
    cells = cells_of(sweep, CATALOG)
    show_plan(plan_sweep(sweep, cells, fleet, CATALOG, [], {}, bookings), sweep, ())
    table, _, notes = capsys.readouterr().out.partition("cpu-1 (virtual) is booked")
    assert "cpu-1 (virtual)" in table
    assert notes


def test_a_plan_names_the_bookings_and_the_queue_of_its_devices() -> None:
    booking = Booking(begins=1.0, ends=2.0, user="ann", who="admin", why="a paper")
    cells = cells_of(builders.sweep(), CATALOG)
    queued, bookings = {"cpu-1": 3, "cpu-2": 4}, {"cpu-1": (booking,)}
    found = plan_sweep(builders.sweep(), cells, FLEET, CATALOG, [], queued, bookings)
    assert [(d.device, d.queued, d.bookings) for d in found.devices] == [("cpu-1", 3, (booking,))]


def test_a_plan_names_drains_and_takes_other_devices_first() -> None:
    drain = Hold(since=1.0, who="admin", why="new fans")
    cells = cells_of(builders.sweep(), CATALOG)
    asked = (builders.sweep(), cells, FLEET, CATALOG, ())
    found = plan_sweep(*asked, draining={"cpu-1": drain})
    assert [(d.device, d.draining) for d in found.devices] == [("cpu-2", None)]
    found = plan_sweep(*asked, draining={"cpu-1": drain, "cpu-2": drain})
    assert [(d.device, d.draining) for d in found.devices] == [("cpu-1", drain)]


def test_cells_for_any_device_go_where_least_is_to_be_done() -> None:
    (cell,) = cells_of(builders.sweep(), CATALOG)
    history = [took(cell, FLEET[0][0], 3600.0)]
    found = plan(history, knobs={"batch_size": [1, 2, 3, 4]})
    assert [(d.device, d.cells, d.hours) for d in found.devices] == [
        ("cpu-1", 2, 2),
        ("cpu-2", 2, 2),
    ]
    assert found.shared_cells == 4


def test_a_plan_names_devices_that_are_left_out_or_awaited() -> None:
    without = plan([], run_on="each")
    assert [d.device for d in without.devices] == ["cpu-1", "cpu-2"]
    assert without.left_out == ("cpu-3 (its state, quarantined)",)

    awaiting = plan([], **{"run_on": "each", "await": True})
    away = "its state, quarantined"
    assert [(d.device, d.away) for d in awaiting.devices] == [
        *(("cpu-1", ""), ("cpu-2", ""), ("cpu-3", away)),
    ]
    assert (awaiting.left_out, awaiting.unmatched) == ((), ())
    (device,) = plan([], **{"devices": "device == cpu-3", "await": True}).devices
    assert (device.device, device.runs, device.away) == ("cpu-3", 1, away)


def test_a_cell_that_two_selectors_give_a_device_counts_once() -> None:
    found = plan([], devices=["any", 'kind == "cpu_host"'], run_on="each")
    assert [(d.device, d.cells) for d in found.devices] == [("cpu-1", 1), ("cpu-2", 1)]


def test_a_cell_without_a_device_is_told_with_what_excluded_each() -> None:
    found = plan([], devices=["any", "rack == b", "device == cpu-3"])
    lost, absent = found.unmatched
    assert (lost.selector, lost.stack) == ("rack == b", "torch")
    assert "cpu-1 is excluded by rack" in lost.why
    assert "cpu-3" not in lost.why, "it would not do if it were there"
    assert "cpu-1 is excluded by device" in absent.why
    assert "cpu-3 is excluded by its state, quarantined" in absent.why
    (device,) = found.devices
    assert (device.hours, device.unknown) == (None, 1)


def test_the_median_of_like_attempts_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    worked_out: list[int] = []

    def counted(seconds: list[float]) -> float:
        worked_out.append(len(seconds))
        return median(seconds)

    monkeypatch.setattr(planning, "median", counted)
    (cell,) = cells_of(builders.sweep(), CATALOG)
    here, there = builders.cpu("cpu-1"), builders.cpu("cpu-2")
    durations = Durations([took(cell, here, 2.0), took(cell, here, 4.0), took(cell, there, 9.0)])
    assert {durations.of(cell, here) for _ in range(5)} == {3.0}
    assert worked_out == [2]
    assert durations.of(cell, there) == 9.0
    assert worked_out == [2, 1]


def test_the_attempts_most_like_a_cell_say_how_long_it_takes() -> None:
    one, other = (cells_of(builders.sweep(knobs={"batch_size": n}), CATALOG)[0] for n in (1, 2))
    here, there = builders.cpu("cpu-1"), builders.cpu("cpu-2")
    phone = Device(id="phone-1", kind=DeviceKind.ANDROID, virtual=False)
    history = [took(other, phone, 7.0)]
    assert Durations(history).of(one, here) is None
    for cell, device, seconds in (
        *((other, there, 5.0), (other, here, 4.0), (one, there, 3.0), (one, here, 2.0)),
    ):
        history.append(took(cell, device, seconds))
        assert Durations(history).of(one, here) == seconds
    assert Durations([*history, took(one, here, 4.0)]).of(one, here) == 3.0
