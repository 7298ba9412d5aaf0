"""A session is carried to its end by the rules, also by several calls that were broken off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from controller.contracts.errors import UserError
from controller.contracts.run import RunState
from controller.contracts.suite_session import SessionSummary, Verdict, session_rules
from controller.contracts.sweep import Sweep
from controller.runtime.suite_runner import LOOK_S, SessionRunner, Timer
from controller.scheduling.suite_plan import Place
from controller.scheduling.suite_session import Ended, PartRun, Pauses, Session, Span, in_order
from controller.scheduling.suite_summary import summary_of
from controller.scheduling.suite_verdicts import Judge
from tests.support.suite_sessions import (
    BEGIN,
    ID,
    METRICS,
    PHONE,
    PLAN,
    SUITE,
    TASK_S,
    result,
    telling,
)

PARTS = len(PLAN.parts)
JUDGE = Judge(SUITE, session_rules(), METRICS)
BY_RULES = Pauses(task_s=0, try_s=600)


class Killed(BaseException):
    """The command is killed."""


@dataclass
class Farm:
    """A farm on which a part takes its time on the clock."""

    now: float = BEGIN
    parts: dict[str, PartRun] = field(default_factory=dict)
    steps: int = 0
    killed_at: int = -1
    refuses: str = ""
    fails: str = ""
    """A task that fails."""
    speeds: Sequence[float] = (1.0,) * 5
    """What is measured in each try."""

    def session(self) -> Session:
        self._step()
        return Session(ID, in_order(self.parts.values()))

    def submit(self, sweep: Sweep) -> None:
        if self.refuses:
            raise UserError("carry on", self.refuses, "Mend it.")
        place = Place.of(sweep.name)
        assert place
        sweep_id = sweep.sweep_id(1)
        queued = PartRun(place, sweep_id, sweep.workload[0], sweep.scenario[0], RunState.QUEUED)
        self.parts.setdefault(sweep_id, queued)
        self._step()

    def follow(self, sweep_id: str) -> None:
        self._step()
        run = self.parts[sweep_id]
        span = Span(PHONE, self.now, self.now + TASK_S)
        measured = result(run.place, self.speeds[run.place.number - 1], self.now)
        done = replace(run, state=RunState.DONE, spans=(span,), result=measured)
        if run.workload == self.fails:
            done = replace(done, state=RunState.FAILED, result=None, failure="user: no model")
        self.parts[sweep_id] = done
        self.now += TASK_S
        self._step()

    def sleep(self, seconds: float) -> None:
        self._step()
        self.now += seconds

    def _step(self) -> None:
        self.steps += 1
        if self.steps == self.killed_at:
            raise Killed


def carried(
    farm: Farm, say: Callable[[str], None], tries: int = 5, pauses: Pauses = BY_RULES
) -> Ended:
    timer = Timer(lambda: farm.now, farm.sleep)
    return SessionRunner(PLAN, tries, pauses, farm, JUDGE.verdicts, say, timer).run()


def unmet(farm: Farm) -> set[str]:
    verdicts = JUDGE.verdicts(Session(ID, in_order(farm.parts.values())))
    return {v.rule for v in verdicts if v.verdict is not Verdict.MET}


def test_a_session_by_the_rules_meets_them_all() -> None:
    farm, said = Farm(), list[str]()
    assert carried(farm, said.append) == Ended()
    assert len(farm.parts) == 5 * PARTS
    assert unmet(farm) == set()
    assert said[0] == "try 1 of 5, part 1 of 6: mobilenet_edgetpu single_stream"
    pauses = [line for line in said if line.startswith("pause")]
    assert len(pauses) == 4, "each is said once, however often the clock is looked at"
    assert pauses[0] == "pause of 600 s, until 1970-01-12 14:05 UTC"
    assert not any(line.startswith("rule missed") for line in said)


def summary(farm: Farm) -> SessionSummary:
    return summary_of(Session(ID, in_order(farm.parts.values())), JUDGE, PHONE, virtual=True)


def test_five_tries_within_five_percent_are_a_summary_that_meets_the_rules() -> None:
    """From the plan over its pauses to the summary, on the farm's clock."""
    farm = Farm(speeds=(1.0, 1.02, 1.05, 1.01, 1.0))
    assert carried(farm, lambda _: None) == Ended()
    found = summary(farm)
    assert (found.tries, found.is_running, found.meets_rules) == (5, False, True)
    assert [(p.task, p.scenario) for p in found.parts] == [(p.task, p.scenario) for p in PLAN.parts]
    for part in found.parts:
        assert [tried.value for tried in part.tries] == list(farm.speeds)
        assert part.spread == pytest.approx(0.05)  # of floats
    first, last = found.parts[0].tries, found.parts[-1].tries
    begun, ended = [t.started_at or 0 for t in first], [t.ended_at or 0 for t in last]
    assert [b - e for b, e in zip(begun[1:], ended[:-1], strict=True)] == [BY_RULES.try_s] * 4
    assert ended[-1] - begun[0] == farm.now - BEGIN == 5 * PARTS * TASK_S + 4 * BY_RULES.try_s


def test_a_summary_says_whose_accuracy_has_no_target() -> None:
    farm = Farm()
    carried(farm, lambda _: None)
    assert [part.target_unknown for part in summary(farm).parts] == [""] * PARTS
    why = "MLPerf Mobile v3.1 prints none for this task"
    last = [key for key, run in farm.parts.items() if run.place.part == PARTS - 1]
    farm.parts |= {key: telling(farm.parts[key], quality_target_unknown=why) for key in last}
    assert [part.target_unknown for part in summary(farm).parts] == [*[""] * (PARTS - 1), why]


def test_a_try_that_is_six_percent_slower_is_said_and_the_session_goes_on() -> None:
    farm, said = Farm(speeds=(1.0, 1.0, 1.06, 1.0, 1.0)), list[str]()
    assert carried(farm, said.append) == Ended()
    found = summary(farm)
    assert (found.tries, found.meets_rules, unmet(farm)) == (5, False, {"replication"})
    assert [part.spread for part in found.parts] == pytest.approx([0.06] * PARTS)  # of floats
    missed = next(n for n, line in enumerate(said) if line.startswith("rule missed"))
    why = "replication: mobilenet_edgetpu single_stream: latency_p90 differs by 6 %; at most 5 %"
    assert said[missed].startswith(f"rule missed, {why}")
    assert said[missed - 1].startswith("try 3 of 5, part 1 of 6: "), "said as soon as it is known"
    assert sum(line.startswith("rule missed") for line in said) == 1


@pytest.mark.parametrize("killed_at", range(1, 80))
def test_a_call_that_is_killed_anywhere_is_continued_by_the_next(killed_at: int) -> None:
    farm = Farm(killed_at=killed_at)
    with pytest.raises(Killed):
        carried(farm, lambda _: None, tries=2)
    assert carried(farm, lambda _: None, tries=2) == Ended()
    assert [run.place for run in in_order(farm.parts.values())] == [
        Place(ID, number, part) for number in (1, 2) for part in range(PARTS)
    ]
    assert unmet(farm) == {"replication"}, "two of five tries; nothing else is missed"


def test_a_day_between_two_calls_is_said_and_missed() -> None:
    farm, said = Farm(killed_at=12), list[str]()
    with pytest.raises(Killed):
        carried(farm, said.append)
    farm.now += 86_400
    carried(farm, said.append)
    assert unmet(farm) == {"pauses between tasks"}
    (missed,) = [line for line in said if line.startswith("rule missed")]
    assert missed.startswith("rule missed, pauses between tasks: 1440:00 min before ")


def test_shorter_pauses_are_missed_by_what_was_measured() -> None:
    farm, said = Farm(), list[str]()
    carried(farm, said.append, pauses=Pauses(0, 540))
    assert unmet(farm) == {"pauses between tries"}
    why = "pauses between tries: 9:00 min between try 1 and 2; at least 10:00 min"
    missed = [line for line in said if line.startswith("rule missed")]
    assert missed == [f"rule missed, {why}"], "said once, at the first of them"


def test_after_a_failure_there_are_no_further_tries() -> None:
    farm = Farm(fails="mosaic")
    (lost,) = carried(farm, lambda _: None).lost
    assert (lost.workload, lost.failure) == ("mosaic", "user: no model")
    assert len(farm.parts) == PARTS


def test_a_farm_that_refuses_ends_the_call_and_not_the_session() -> None:
    farm = Farm(refuses="phone-1 is lost")
    with pytest.raises(UserError, match="phone-1 is lost"):
        carried(farm, lambda _: None)
    farm.refuses = ""
    assert carried(farm, lambda _: None, tries=1) == Ended()
    assert len(farm.parts) == PARTS


def test_the_clock_is_looked_at_during_a_pause() -> None:
    farm = Farm()
    slept = list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        farm.sleep(seconds)

    timer = Timer(lambda: farm.now, sleep)
    SessionRunner(PLAN, 2, BY_RULES, farm, JUDGE.verdicts, lambda _: None, timer).run()
    assert max(slept) == LOOK_S
    assert sum(slept) == 600
