"""What `benchfarm agent drain` says: what still runs, what will be, and how a wait ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
import typer

from controller.cli.agent_drain import drain_lines, wait_until_drained
from controller.contracts.device import Hold
from controller.contracts.draining import AgentDrain, ChangedDrain
from controller.contracts.errors import UserError
from controller.contracts.farm_status import RunNow

HOLD = Hold(since=3600.0, who="admin", why="new fans")
HEAD = "agent host-1 on xeon-3 is {} since 1970-01-01 01:00 UTC, by admin: new fans"
UNTIL = "until `benchfarm agent undrain host-1`"
ALL = f"its 2 devices, and others that are connected later, take no new runs {UNTIL}"


def running(run_id: str) -> RunNow:
    return RunNow(
        run_id=run_id,
        sweep_id="demo-1",
        user="ann",
        device="cpu-1",
        device_name="xeon-3 · cpu-1",
        since=7200.0,
        cooling=False,
    )


def now(*run_ids: str, online: bool = True, draining: Hold | None = HOLD) -> AgentDrain:
    return AgentDrain(
        agent_id="host-1",
        host="xeon-3",
        online=online,
        draining=draining,
        devices=("xeon-3 · cpu-1", "phone-1"),
        running=tuple(map(running, run_ids)),
    )


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (
            ChangedDrain(now=now("run-1"), changed=True, waiting=2),
            [
                HEAD.format("draining"),
                ALL,
                "run run-1 of ann on xeon-3 · cpu-1, since 1970-01-01 02:00 UTC, will finish",
                "2 queued runs will wait for the end of the drain",
            ],
        ),
        (
            ChangedDrain(now=now(), changed=True, waiting=1),
            [
                HEAD.format("drained"),
                ALL,
                "nothing runs on it",
                "1 queued run will wait for the end of the drain",
            ],
        ),
        (
            ChangedDrain(now=now(), changed=False),
            [HEAD.format("already drained"), ALL, "nothing runs on it"],
        ),
        (
            ChangedDrain(now=now(online=False), changed=True),
            [
                HEAD.format("drained"),
                f"it is offline; when it is back, its devices take no runs {UNTIL}",
                "nothing runs on it",
            ],
        ),
    ],
    ids=["runs", "idle", "again", "away"],
)
def test_a_drain_says_what_runs_and_what_will_be(found: ChangedDrain, lines: list[str]) -> None:
    assert list(drain_lines(found)) == lines


def told(*answers: AgentDrain) -> Callable[[AgentDrain], AgentDrain]:
    """Return what gives these answers one after another, and then ^C."""
    left: Iterator[AgentDrain] = iter(answers)

    def again(_: AgentDrain) -> AgentDrain:
        for answer in left:
            return answer
        raise KeyboardInterrupt

    return again


@pytest.mark.parametrize(
    ("first", "answers", "said"),
    [
        (now(), [], []),
        (now("a", "b", "c"), [now("a", "b", "c"), now("a"), now()], ["1 run left"]),
    ],
)
def test_a_wait_ends_when_nothing_runs(
    capsys: pytest.CaptureFixture[str],
    first: AgentDrain,
    answers: Sequence[AgentDrain],
    said: list[str],
) -> None:
    wait_until_drained(first, told(*answers))
    last = "agent host-1 on xeon-3 is drained: nothing runs on it"
    assert capsys.readouterr().out.splitlines() == [*said, last]


def test_an_interrupted_wait_leaves_the_drain_and_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit) as ended:
        wait_until_drained(now("a"), told(now("a")))
    assert ended.value.exit_code == 130
    said = "\nthe drain goes on; end it with: benchfarm agent undrain host-1\n"
    assert capsys.readouterr().err == said


def test_a_wait_for_a_drain_that_another_person_ends_fails() -> None:
    with pytest.raises(UserError, match=r"a person has ended its drain\. Run `benchfarm agent dr"):
        wait_until_drained(now("a"), told(now("a", draining=None)))
