from __future__ import annotations

import asyncio

import pytest

from controller.contracts.run import RunState
from controller.contracts.wire import Progress, RunEvent
from controller.runtime.feed import MAX_WAITING, Feed
from tests.support import builders
from tests.support.waiting import PATIENCE_S


def event(sweep_id: str = "demo-1", state: RunState = RunState.DONE) -> RunEvent:
    run = builders.run().model_copy(update={"sweep_id": sweep_id, "state": state})
    return RunEvent.of(run)


def progress() -> RunEvent:
    return RunEvent.of(builders.run(), Progress(phase="training", done=1, total=2))


async def test_a_watcher_sees_its_sweeps_events_in_order() -> None:
    feed = Feed()
    feed.publish(event())
    async with feed.watch("demo-1") as queue, feed.watch("other-1") as other:
        feed.publish(event("demo-1", RunState.LEASED))
        feed.publish(progress())
        feed.publish(event("other-1"))
        feed.publish(event("demo-1", RunState.DONE))

        seen = [queue.get_nowait() for _ in range(queue.qsize())]
        assert [e.state for e in seen] == [RunState.LEASED, RunState.QUEUED, RunState.DONE]
        assert [e.progress is None for e in seen] == [True, False, True]
        assert other.qsize() == 1


async def test_two_watch_one_sweep() -> None:
    feed = Feed()
    async with feed.watch("demo-1") as one, feed.watch("demo-1") as two:
        feed.publish(event())
        assert (one.qsize(), two.qsize()) == (1, 1)


async def test_who_left_gets_nothing_even_if_it_left_by_an_error() -> None:
    feed = Feed()
    with pytest.raises(ConnectionResetError):
        async with feed.watch("demo-1") as queue:
            raise ConnectionResetError
    feed.publish(event())
    assert queue.empty()


async def test_a_change_of_state_wakes_all_who_wait() -> None:
    feed = Feed()
    waiting = [asyncio.create_task(feed.change(PATIENCE_S)) for _ in range(3)]
    await asyncio.sleep(0)
    feed.publish(event())
    assert await asyncio.gather(*waiting) == [True, True, True]


async def test_progress_and_the_past_wake_nobody() -> None:
    feed = Feed()
    feed.publish(event())
    waiting = asyncio.create_task(feed.change(0.05))
    await asyncio.sleep(0)
    feed.publish(progress())
    assert not await waiting


@pytest.mark.parametrize("timeout_s", [0.0, -1.0])
async def test_no_time_to_wait(timeout_s: float) -> None:
    assert not await Feed().change(timeout_s)


async def test_who_gives_up_leaves_nothing_behind() -> None:
    feed = Feed()
    waiting = asyncio.create_task(feed.change(PATIENCE_S))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    feed.publish(event())
    assert not await feed.change(0.0)


async def test_who_does_not_listen_misses_what_comes_and_is_told() -> None:
    feed = Feed()
    async with feed.watch("demo-1") as stalled, feed.watch("demo-1") as other:
        for _ in range(MAX_WAITING):
            feed.publish(event())
        assert len(await other.batch(1.0)) == MAX_WAITING
        feed.publish(event())
        assert (stalled.behind, stalled.qsize()) == (True, MAX_WAITING)
        assert (other.behind, other.qsize()) == (False, 1)
