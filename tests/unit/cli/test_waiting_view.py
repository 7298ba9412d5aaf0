"""How it is shown what runs wait for."""

from __future__ import annotations

from collections.abc import Sequence

from controller.cli.waiting_view import LEAST_S, WaitNotes
from controller.contracts.run import RunState
from controller.contracts.waiting import Waiting, WaitingRuns, WaitReason
from controller.contracts.wire import WAIT_FOR_CORE, Progress, RunEvent
from controller.runtime.watch import SweepView
from tests.support import builders

RESERVED = Waiting(
    reason=WaitReason.RESERVED, device="cpu-1", user="ann", until=7200.0, why="a paper"
)
AWAY = Waiting(reason=WaitReason.AWAY, device="cpu-1", why="lost (the farm is down)")


def group(of: Waiting, runs: int = 1) -> WaitingRuns:
    return WaitingRuns(runs=runs, first=of, said=f"{runs} wait: {of.words}")


def view(progress: Progress | None = None, state: RunState = RunState.QUEUED) -> SweepView:
    run = builders.run()
    event = RunEvent.of(run, progress).model_copy(update={"device_id": "cpu-1"})
    return SweepView("demo-1", {run.run_id: state}, event)


def test_an_estimate_follows_the_reason() -> None:
    known = RESERVED.model_copy(update={"starts_at": 7200.0})
    assert group(RESERVED).line == group(RESERVED).said
    said = "it starts at about 1970-01-01 02:00 UTC"
    assert group(known).line == f"{group(known).said}; {said}"
    assert "; the first starts at about" in group(known, runs=2).line


def test_a_reason_is_told_once_while_it_lasts() -> None:
    now, found = [0.0], [group(RESERVED)]
    notes = WaitNotes(lambda: found, lambda: now[0])

    def after(*groups: WaitingRuns) -> list[str]:
        now[0] += LEAST_S
        found[:] = groups
        return notes.after(view())

    assert after(group(RESERVED, 3)) == [group(RESERVED, 3).said]
    assert after(group(RESERVED, 2)) == []
    assert after(group(AWAY, 2)) == [group(AWAY, 2).said]
    assert after() == []
    assert after(group(AWAY)) == [group(AWAY).said]


def test_the_store_is_asked_seldom_and_never_for_progress_or_at_the_end() -> None:
    asked: list[float] = []
    now = [0.0]

    def ask() -> Sequence[WaitingRuns]:
        asked.append(now[0])
        return ()

    notes = WaitNotes(ask, lambda: now[0])
    notes.after(view(state=RunState.DONE))
    notes.after(view(Progress(phase="training", done=1, total=2)))
    assert asked == []
    for now[0] in (1.0, 2.0, 1.0 + LEAST_S):
        notes.after(view())
    assert asked == [1.0, 1.0 + LEAST_S]


def test_runs_that_wait_for_others_of_the_sweep_are_no_news() -> None:
    own = Waiting(reason=WaitReason.BUSY, device="cpu-1", user="ann", run_id="run-1")
    others = own.model_copy(update={"run_id": "run-2"})
    starts = Waiting(reason=WaitReason.STARTS, device="cpu-1")
    groups = [group(own), group(starts), group(others)]
    assert WaitNotes(lambda: groups).after(view()) == [group(others).said]


def test_a_run_that_waits_for_cores_of_another_farm_names_the_process() -> None:
    phase = f"{WAIT_FOR_CORE} 3, which process 7 of user ann holds"
    notes = WaitNotes(lambda: ())
    assert notes.after(view(Progress(phase=phase, done=0, total=1))) == [f"cpu-1: {phase}"]
