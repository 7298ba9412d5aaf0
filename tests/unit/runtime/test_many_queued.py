"""What agents ask costs the same however many runs are queued."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

from controller.contracts.wire import AttemptRef
from tests.support import builders
from tests.support.farm import FarmBox

FEW, MANY = 20, 400


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
