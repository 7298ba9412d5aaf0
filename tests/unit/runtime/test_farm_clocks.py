"""Hosts whose clocks are an hour off: leases, orders and times are the controller's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.agent import AgentParts, HostAgent
from controller.contracts.run import Run, RunState
from controller.contracts.wire import AttemptRef, Exchange, Orders, Report
from controller.runtime.fleet import wrong_clocks
from tests.support import builders
from tests.support.farm import TTL_S, FarmBox
from tests.support.memory_link import MemoryLink
from tests.support.waiting import PATIENCE_S

HOUR_S = 3600.0


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FarmBox]:
    box = FarmBox(tmp_path / "store.sqlite")
    box.clock.now = 1_800_000_000.0
    box.farm.register(builders.registration())
    yield box
    box.close()


def ask(box: FarmBox, ahead_s: float, *held: AttemptRef) -> Orders:
    asked_at = box.clock.now + ahead_s
    question = Exchange(agent_id="host-1", incarnation="first", held=held, asked_at=asked_at)
    return box.farm.exchange(question)


def report(box: FarmBox, ref: AttemptRef, started_at: float) -> Run:
    said = {"agent_id": "host-1", "incarnation": "first", "outcome": builders.result()}
    box.farm.report(Report(ref=ref, started_at=started_at, **said))
    return box.run(ref.run_id)


@pytest.mark.parametrize("ahead_s", [HOUR_S, -HOUR_S])
def test_a_wrong_clock_changes_neither_leases_nor_durations(box: FarmBox, ahead_s: float) -> None:
    began = box.clock.now
    box.submit(builders.sweep())
    (job,) = ask(box, ahead_s).run
    for _ in range(4):  # longer than a lease that nobody renews
        box.wait(TTL_S / 2)
        assert ask(box, ahead_s, job.ref) == Orders()
    run = report(box, job.ref, began + 1 + ahead_s)

    (attempt,) = run.attempts
    assert run.state is RunState.DONE
    assert (attempt.leased_at, attempt.ended_at) == (began, began + 2 * TTL_S)
    (result,) = box.store.results()
    assert result.started_at == began + 1

    (agent,), _ = box.store.fleet()
    assert agent.clock_ahead_s == ahead_s
    (line,) = wrong_clocks([agent])
    assert f"3600.0 s {'ahead of' if ahead_s > 0 else 'behind'} the controller's" in line


def test_a_silent_host_is_lost_in_time_whatever_its_clock_says(box: FarmBox) -> None:
    box.submit(builders.sweep())
    (job,) = ask(box, HOUR_S).run
    box.wait(TTL_S)
    assert box.run(job.ref.run_id).state is RunState.QUEUED
    report(box, job.ref, box.clock.now + HOUR_S)
    assert [r.counted for r in box.store.results()] == [False], "it is late"


def test_a_clock_nobody_has_measured_can_not_put_a_result_outside_its_lease(box: FarmBox) -> None:
    box.submit(builders.sweep())
    (job,) = box.ask().run
    began = box.clock.now
    box.wait(1.0)
    report(box, job.ref, 0.0)
    assert [r.started_at for r in box.store.results()] == [began]


def test_a_clock_that_is_set_is_noticed_and_a_step_is_written_down_once(box: FarmBox) -> None:
    def kept() -> float | None:
        return box.store.fleet()[0][0].clock_ahead_s

    ask(box, 10.0)
    box.wait(0.1)
    ask(box, 10.1)
    assert kept() == 10.0
    box.wait(0.1)
    ask(box, -0.05)
    assert kept() == pytest.approx(0.0)
    box.restart()
    assert kept() == pytest.approx(0.0)
    assert wrong_clocks(box.store.fleet()[0]) == []


async def test_an_agent_says_what_its_clock_says(box: FarmBox, tmp_path: Path) -> None:
    link = MemoryLink(box)
    parts = AgentParts(
        identity=builders.agent(),
        devices=(builders.cpu(),),
        link=link,
        runners={},
        folder=tmp_path,
        clock=lambda: box.clock.now - HOUR_S,
    )
    life = asyncio.create_task(HostAgent(parts).serve())
    async with asyncio.timeout(PATIENCE_S):
        while "exchange" not in link.said:
            await asyncio.sleep(0)
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)
    assert box.store.fleet()[0][0].clock_ahead_s == -HOUR_S
