"""What agents ask costs the same however many runs are queued."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from types import FrameType

import pytest

from controller.contracts.wire import AttemptRef
from tests.support import builders
from tests.support.farm import FarmBox
from tests.support.figures import Figure

FEW, MANY = 20, 400
HOSTS, PHONES, SWEEPS, CELLS, REPEATS = 20, 50, 2, 10, 1000
HEARTBEAT_S, REPORT_S = 0.01, 0.05


@pytest.fixture
def boxes(tmp_path: Path) -> Iterator[list[FarmBox]]:
    """Farms with few and with many runs for a phone that is taken, beside a server that idles."""
    boxes = [FarmBox(tmp_path / f"{repeats}.sqlite") for repeats in (FEW, MANY)]
    for box, repeats in zip(boxes, (FEW, MANY), strict=True):
        box.farm.register(builders.registration(None, builders.cpu(), builders.phone()))
        box.submit(builders.sweep(stack="litert", repeats=repeats))
    yield boxes
    for box in boxes:
        box.close()


def _calls(work: Callable[[], object]) -> int:
    """Return how many Python functions are called and generators resumed."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def _held(box: FarmBox) -> AttemptRef:
    (job,) = box.ask().run
    return job.ref


def test_orders_heartbeats_and_placement_look_at_no_run_that_waits(boxes: list[FarmBox]) -> None:
    held = [_held(box) for box in boxes]
    assert [len([*box.farm.state().open_runs]) for box in boxes] == [FEW, MANY]
    states = [status.state for status in boxes[1].farm.state().statuses.values()]
    assert sorted(states) == ["busy", "ready"], "a device is free, which no queued run may have"
    works: dict[str, Callable[[FarmBox, AttemptRef], object]] = {
        "orders": lambda box, _: box.ask(),
        "a heartbeat": lambda box, ref: box.ask(ref),
        "placement": lambda box, _: box.farm.tick(),
        "what holds runs up": lambda box, _: box.farm.held_up(),
    }
    for name, work in works.items():
        few, many = [_calls(partial(work, box, ref)) for box, ref in zip(boxes, held, strict=True)]
        assert many <= few + FEW, name


def test_a_large_fleet_is_answered_in_time(tmp_path: Path, figure: Figure) -> None:
    box = FarmBox(tmp_path / "store.sqlite")
    for host in range(HOSTS):
        phones = [builders.phone(f"phone-{host}-{number}") for number in range(PHONES)]
        devices = (builders.cpu(f"cpu-{host}"), *phones)
        box.farm.register(builders.registration(builders.agent(f"host-{host}"), *devices))
    knobs = {"batch_size": [*range(1, CELLS + 1)]}
    for name in "ab"[:SWEEPS]:
        box.submit(builders.sweep(name=name, stack="litert", knobs=knobs, repeats=REPEATS))
    held = [job.ref for job in box.ask(agent="host-0").run]
    assert (len(held), len(box.farm.state().open_runs)) == (PHONES, SWEEPS * CELLS * REPEATS)
    heartbeat_s = min(_seconds(lambda: box.ask(*held, agent="host-0")) for _ in range(PHONES))
    report_s = median(
        _seconds(partial(box.report, ref, builders.result(), "host-0")) for ref in held
    )
    assert len(box.ask(agent="host-0").run) == PHONES, "each phone has its next run"
    figure("seconds of a core: heartbeat, 20,000 runs open on 1,000 phones", heartbeat_s, "0.01")
    figure("seconds of a core: report, 20,000 runs open on 1,000 phones", report_s, "0.05")
    assert heartbeat_s < 10 * HEARTBEAT_S
    assert report_s < 10 * REPORT_S
    box.close()


def _seconds(work: Callable[[], object]) -> float:
    """Return the seconds of a core that work takes; how fast a disk syncs is another question."""
    began = time.process_time()
    work()
    return time.process_time() - began
