"""Which attempts are read to tell how long the next will take."""

from __future__ import annotations

from controller.contracts.run import AttemptState
from controller.store.newest import TRIES, TRIES_OF_CELL, newest_tries
from controller.store.scanning import Row

OFTEN, SELDOM = ("often", "torch", "training"), ("seldom", "torch", "training")


def measured(kind: tuple[str, str, str], device: str, ended_at: float) -> tuple[Row, Row]:
    """Return the row of a run, with its cell, and that of its attempt."""
    workload, stack, scenario = kind
    run_id = f"{workload}-{device}-{ended_at}"
    cell = {"cell_key": workload, "workload": workload, "stack": stack, "scenario": scenario}
    tried = {"device_id": device, "state": AttemptState.SUCCEEDED.value, "ended_at": ended_at}
    return {"run_id": run_id, **cell}, {"run_id": run_id, **tried}


def test_a_cell_that_is_seldom_measured_is_not_crowded_out() -> None:
    devices = TRIES // TRIES_OF_CELL + 1
    rows = [measured(SELDOM, "one", 1.0)]
    rows += [
        measured(OFTEN, f"phone-{n}", 10.0 + place)
        for n in range(devices)
        for place in range(TRIES_OF_CELL)
    ]
    runs, attempts = zip(*rows, strict=True)
    found = newest_tries(runs, attempts, {OFTEN, SELDOM})
    assert len(found) == TRIES
    assert "seldom-one-1.0" in found
    assert f"often-phone-0-{9.0 + TRIES_OF_CELL}" in found
    assert newest_tries(runs, attempts, {SELDOM}) == ["seldom-one-1.0"]


def test_a_damaged_time_is_the_oldest() -> None:
    (run, attempt), (newer, newer_attempt) = (measured(SELDOM, "one", t) for t in (1.0, 2.0))
    runs, attempts = [run, newer], [{**attempt, "ended_at": None}, newer_attempt]
    assert newest_tries(runs, attempts, {SELDOM}) == ["seldom-one-2.0", "seldom-one-1.0"]
