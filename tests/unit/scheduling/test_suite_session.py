"""A session of the suite: a table of sessions with one flaw each, and what comes next in one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from controller.contracts.errors import UserError
from controller.contracts.mobile import task_of
from controller.contracts.records import SweepRecord
from controller.contracts.result import Validity
from controller.contracts.run import AttemptState, RunState
from controller.contracts.suite_rules import SuiteRules, load_suites
from controller.contracts.suite_session import RuleVerdict, SessionRules, Verdict, session_rules
from controller.contracts.suite_version import SUITE_VERSION
from controller.scheduling.suite_plan import (
    Place,
    SuitePlan,
    newest_of,
    number_of,
    parts_of,
    places_of,
)
from controller.scheduling.suite_session import (
    Ended,
    Follow,
    PartRun,
    Pauses,
    Session,
    Span,
    Submit,
    Wait,
    next_step,
)
from controller.scheduling.suite_summary import summary_of
from controller.scheduling.suite_verdicts import Judge, spread
from tests.support import builders
from tests.support.suite_sessions import (
    BEGIN,
    ID,
    METRICS,
    PHONE,
    PLAN,
    SUITE,
    TASK_S,
    TRIES,
    changed,
    delayed,
    flawless,
    lacking,
    measured,
    telling,
    with_value,
    without,
)

NEWER = load_suites()[-1]
RULES = session_rules()
JUDGE = Judge(SUITE, RULES, METRICS)
PARTS = len(PLAN.parts)
LAST = TRIES * PARTS - 1
WHOLE, RESULTS, DEVICE, BUILD, FRAMEWORK, ALONE, TASK_PAUSES, TRY_PAUSES, TIMES, REPLICATION = (
    verdict.rule for verdict in JUDGE.verdicts(flawless())
)


def unmet(session: Session, judge: Judge = JUDGE) -> dict[str, RuleVerdict]:
    return {v.rule: v for v in judge.verdicts(session) if v.verdict is not Verdict.MET}


def test_a_flawless_session_meets_every_rule() -> None:
    assert unmet(flawless()) == {}


def ended_as(state: RunState, why: str) -> Callable[[PartRun], PartRun]:
    return lambda run: replace(run, state=state, result=None, failure=why)


def on_device(device: str) -> Callable[[PartRun], PartRun]:
    return lambda run: replace(run, spans=(replace(run.spans[0], device=device),))


def again(run: PartRun, former: PartRun) -> PartRun:
    return replace(former, place=run.place, sweep_id=run.sweep_id, spans=run.spans)


def tried_twice(pause_s: float) -> Callable[[PartRun], PartRun]:
    def change(run: PartRun) -> PartRun:
        (span,) = run.spans
        first = Span(PHONE, span.start - pause_s - 10, span.start - pause_s)
        return replace(run, spans=(first, span))

    return change


def unlike(session: Session, fact: str, value: str | None) -> Session:
    return changed(session, 8, lambda run: telling(run, **{fact: value}))


def beside(start: float, end: float | None) -> Session:
    return replace(flawless(), others=(Span(PHONE, start, end),))


FLAWS: dict[str, tuple[Session, str, str]] = {
    "too long a pause": (
        delayed(flawless(), 2, 240.5),
        TASK_PAUSES,
        "5:01 min before mobiledet single_stream, try 1; at most 5:00 min",
    ),
    "much too long a pause, as after a night": (
        delayed(flawless(), 2, 36_000),
        TASK_PAUSES,
        "601:00 min before mobiledet single_stream, try 1; at most 5:00 min",
    ),
    "repeat after 9 minutes": (
        delayed(flawless(), PARTS, -60),
        TRY_PAUSES,
        "9:00 min between try 1 and 2; at least 10:00 min",
    ),
    "repeat just too soon": (
        delayed(flawless(), PARTS, -0.2),
        TRY_PAUSES,
        "9:59 min between try 1 and 2; at least 10:00 min",
    ),
    "a failed attempt was repeated at once": (
        delayed(changed(flawless(), PARTS, tried_twice(3)), PARTS, 13),
        TRY_PAUSES,
        "mobilenet_edgetpu single_stream, try 2 ran again after 0:03 min; at least 10:00 min",
    ),
    "a part was run a second time": (
        changed(flawless(), 2, lambda run: again(run, flawless().runs[0])),
        TRY_PAUSES,
        "mobilenet_edgetpu single_stream, try 1 ran again after 3:30 min; at least 10:00 min",
    ),
    "speeds 6 % apart": (
        changed(flawless(speeds=(1.0,)), 9, lambda run: with_value(run, "latency_p90", 1.06)),
        REPLICATION,
        "mosaic single_stream: latency_p90 differs by 6 %; at most 5 %",
    ),
    "throughputs 6 % apart": (
        changed(flawless(speeds=(1.0,)), 7, lambda run: with_value(run, "throughput", 0.94)),
        REPLICATION,
        "mobilenet_edgetpu offline: throughput differs by 6.4 %; at most 5 %",
    ),
    "accuracies 6 % apart": (
        changed(flawless(), 10, lambda run: with_value(run, "F1", 1.06)),
        REPLICATION,
        "mobilebert single_stream: F1 differs by 6 %; at most 5 %",
    ),
    "an accuracy of 0": (
        changed(flawless(), 10, lambda run: with_value(run, "F1", 0.0)),
        REPLICATION,
        "mobilebert single_stream: F1 is from 0 to 0.839734; at most 5 %",
    ),
    "a result without its speed": (
        changed(flawless(), 9, lambda run: lacking(run, "latency_p90")),
        REPLICATION,
        "mosaic single_stream: latency_p90 is missing in 1 of 5 results",
    ),
    "a result without its accuracy": (
        changed(flawless(), 10, lambda run: lacking(run, "F1")),
        REPLICATION,
        "mobilebert single_stream: F1 is missing in 1 of 5 results",
    ),
    "a result without the accuracy that has a target": (
        changed(flawless(), 3, lambda run: lacking(run, "mIoU")),
        RESULTS,
        "mosaic single_stream, try 1: it lacks mIoU",
    ),
    "four tries": (flawless(tries=4), REPLICATION, "4 of 5 tries"),
    "a missing task in the middle": (
        without(flawless(), 3),
        WHOLE,
        "try 1 lacks: mosaic single_stream",
    ),
    "a missing task at the end": (
        without(flawless(), LAST),
        WHOLE,
        "try 5 has not run yet: edsr single_stream",
    ),
    "a missing scenario in each try": (
        replace(
            flawless(), runs=tuple(r for r in flawless().runs if r.scenario == "single_stream")
        ),
        WHOLE,
        "try 1 lacks: mobilenet_edgetpu offline",
    ),
    "an aborted part": (
        changed(flawless(), LAST, ended_as(RunState.CANCELLED, "")),
        WHOLE,
        "edsr single_stream, try 5: cancelled",
    ),
    "a failed part": (
        changed(flawless(), 4, ended_as(RunState.FAILED, "user: no model")),
        WHOLE,
        "mobilebert single_stream, try 1: failed: user: no model",
    ),
    "a part whose result is lost": (
        changed(flawless(), 4, ended_as(RunState.DONE, "")),
        WHOLE,
        "mobilebert single_stream, try 1: its result is not in the store",
    ),
    "an INVALID result": (
        changed(flawless(), 4, lambda run: measured(run, validity=Validity.INVALID)),
        RESULTS,
        "mobilebert single_stream, try 1: INVALID",
    ),
    "a DISTURBED result": (
        changed(flawless(), 4, lambda run: measured(run, validity=Validity.DISTURBED)),
        RESULTS,
        "mobilebert single_stream, try 1: DISTURBED",
    ),
    "a result that misses a run rule": (
        changed(
            flawless(),
            4,
            lambda run: telling(run, meets_run_rules=False, run_rules_missed=("length rapid",)),
        ),
        RESULTS,
        "mobilebert single_stream, try 1: length rapid",
    ),
    "a result without a judge": (
        changed(flawless(), 4, lambda run: telling(run, meets_run_rules=None)),
        RESULTS,
        "mobilebert single_stream, try 1: it does not say that it meets them",
    ),
    "seeds of another round": (
        changed(flawless(), 4, lambda run: telling(run, loadgen_seeds=("1", "2", "3"))),
        RESULTS,
        "mobilebert single_stream, try 1: LoadGen's seeds are not those of MLPerf Mobile v3.1",
    ),
    "rules of another version": (
        changed(flawless(), 4, lambda run: telling(run, suite_rules=NEWER.claim)),
        RESULTS,
        "mobilebert single_stream, try 1: it ran by the rules of MLPerf Mobile v6.0 (unverified)",
    ),
    "below the version's own target": (
        changed(flawless(), 3, lambda run: with_value(run, "mIoU", 0.98)),
        RESULTS,
        (
            "mosaic single_stream, try 1: mIoU 0.5682 is below 0.5741, the target of MLPerf Mobile"
            " v3.1"
        ),
    ),
    "a task of another version": (
        changed(flawless(), 0, lambda run: replace(run, workload="mobilenet_v4")),
        RESULTS,
        "mobilenet_v4 single_stream, try 1: no part of MLPerf Mobile v3.1",
    ),
    "another device": (
        changed(flawless(), 8, on_device("phone-2")),
        DEVICE,
        "mobiledet single_stream, try 2 ran on phone-2, what was before on phone-1",
    ),
    "another build of the phone's system": (
        unlike(flawless(), "fingerprint", "vendor/phone:15/B2"),
        BUILD,
        (
            "fingerprint is vendor/phone:15/B2 from mobiledet single_stream, try 2 on, before"
            " vendor/phone:14/A1"
        ),
    ),
    "a build that is not known": (
        unlike(flawless(), "fingerprint", None),
        BUILD,
        "fingerprint not known of 1 of 30 results",
    ),
    "another release of the runtime": (
        unlike(flawless(), "litert", "2.4.0"),
        FRAMEWORK,
        "litert is 2.4.0 from mobiledet single_stream, try 2 on, before 2.3.0",
    ),
    "another run between two tasks": (
        beside(BEGIN + TASK_S + 5, BEGIN + TASK_S + 15),
        ALONE,
        "1 other runs, the first at 1970-01-12 13:48 UTC",
    ),
    "another run that goes on": (
        beside(BEGIN + TASK_S + 5, None),
        ALONE,
        "1 other runs, the first at 1970-01-12 13:48 UTC",
    ),
    "a clock that was set back": (
        delayed(flawless(), 4, -3600),
        TIMES,
        "mobilebert single_stream, try 1 began 59:00 min before the former end: a clock set back",
    ),
    "a clock that was set back between tries": (
        delayed(flawless(), PARTS, -3600),
        TIMES,
        (
            "mobilenet_edgetpu single_stream, try 2 began 50:00 min before the former end: a clock"
            " set back"
        ),
    ),
    "a part that still runs": (
        changed(
            flawless(),
            LAST,
            lambda run: replace(
                run,
                state=RunState.LEASED,
                result=None,
                spans=(replace(run.spans[0], end=None),),
            ),
        ),
        WHOLE,
        "edsr single_stream, try 5: leased",
    ),
}
ALSO = {
    "a part was run a second time": {WHOLE, TRY_PAUSES, REPLICATION},
    "speeds 6 % apart": {REPLICATION},
    "an accuracy of 0": {REPLICATION, RESULTS},
    "a result without its speed": {REPLICATION, RESULTS},
    "a result without its accuracy": {REPLICATION, RESULTS},
    "a result without the accuracy that has a target": {REPLICATION, RESULTS},
    "a missing task in the middle": {WHOLE, REPLICATION},
    "a missing task at the end": {WHOLE, REPLICATION},
    "a missing scenario in each try": {WHOLE},
    "an aborted part": {WHOLE, REPLICATION},
    "a failed part": {WHOLE, REPLICATION},
    "a part whose result is lost": {WHOLE, REPLICATION},
    "a task of another version": {WHOLE, RESULTS, REPLICATION},
    "a part that still runs": {WHOLE, REPLICATION},
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_each_flaw_is_found_for_its_reason_alone(flaw: str) -> None:
    session, rule, why = FLAWS[flaw]
    found = unmet(session)
    assert why in found[rule].why
    assert found.keys() == ALSO.get(flaw, {rule})
    assert summary_of(session, JUDGE, "phone-1", virtual=False).rules


@pytest.mark.parametrize(
    "session",
    [
        delayed(flawless(), 2, 240),  # 5 min sharp
        delayed(flawless(), 2, -60),  # no pause
        delayed(flawless(), PARTS, 86_400),  # a day between two tries
        flawless(speeds=(1.0, 1.05)),
        beside(BEGIN - 100, BEGIN),
        beside(flawless().spans()[-1].end or 0, None),
    ],
    ids=["5 min", "0 min", "a day between tries", "5 %", "run before", "run after"],
)
def test_what_the_rules_allow_is_met(session: Session) -> None:
    assert unmet(session) == {}


def test_a_suite_is_whole_without_its_optional_parts() -> None:
    task = SUITE.tasks["mobilenet_edgetpu"].model_copy(update={"optional": ("offline",)})
    suite = SUITE.model_copy(update={"tasks": {**SUITE.tasks, "mobilenet_edgetpu": task}})
    kept = tuple(run for run in flawless().runs if run.scenario == "single_stream")
    without_offline = replace(flawless(), runs=kept)
    judge = replace(JUDGE, suite=suite)
    assert unmet(without_offline, judge) == {}
    assert unmet(flawless(), judge) == {}
    assert unmet(without(without_offline, 2), judge).keys() == {WHOLE, REPLICATION}
    lost = changed(flawless(), 1, ended_as(RunState.FAILED, "no memory"))
    why = unmet(lost, judge)[WHOLE].why
    assert why == ("mobilenet_edgetpu offline, try 1: failed: no memory",), "it was run"


def test_a_plan_may_leave_out_what_is_optional() -> None:
    v4 = next(rules for rules in load_suites() if rules.version == "v4.0")

    def planned(*, optional: bool) -> set[tuple[str, str]]:
        parts = parts_of(v4, [*v4.tasks], {}, length="normal", surrogates=False, optional=optional)
        return {(part.task, part.scenario) for part in parts}

    assert planned(optional=True) - planned(optional=False) == {("mobilenet_v4", "offline")}
    assert len(planned(optional=True)) == 8


def test_a_least_pause_between_tasks_holds_where_rules_have_one() -> None:
    judge = replace(JUDGE, rules=RULES.model_copy(update={"task_pause_s": (61.0, 300.0)}))
    found = unmet(flawless(), judge)
    assert found.keys() == {TASK_PAUSES}
    said = "1:00 min before mobilenet_edgetpu offline, try 1; at least 1:01 min"
    assert said in found[TASK_PAUSES].why


def test_a_reason_of_all_results_is_said_once() -> None:
    session = flawless(tries=1)
    for index in range(PARTS):
        session = changed(
            session, index, lambda r: telling(r, meets_run_rules=False, run_rules_missed=("cold",))
        )
    assert unmet(session)[RESULTS].why == ("all 6 results: cold",)
    session = changed(session, 0, lambda r: telling(r, meets_run_rules=True, run_rules_missed=()))
    (why,) = unmet(session)[RESULTS].why
    assert why == "mobilenet_edgetpu offline, try 1 and 4 more: cold"


def test_a_figure_that_no_result_has_is_not_met_either() -> None:
    def bare(run: PartRun) -> PartRun:
        of_mosaic = run.part == ("mosaic", "single_stream")
        return lacking(lacking(run, "mIoU"), "latency_p90") if of_mosaic else run

    session = replace(flawless(), runs=tuple(map(bare, flawless().runs)))
    found = unmet(session)
    assert found.keys() == {RESULTS}
    first = "mosaic single_stream, try 1 and 4 more: it lacks"
    assert found[RESULTS].why == (f"{first} latency_p90", f"{first} mIoU")
    assert summary_of(session, JUDGE, "phone-1", virtual=False).rules


def test_what_has_not_happened_yet_is_open_not_met() -> None:
    nothing = JUDGE.verdicts(Session(ID, ()))
    assert {verdict.verdict for verdict in nothing} == {Verdict.OPEN}
    first = {v.rule: v.verdict for v in JUDGE.verdicts(flawless(tries=1, parts=1))}
    assert first[TASK_PAUSES] is first[TRY_PAUSES] is first[REPLICATION] is Verdict.OPEN
    assert first[DEVICE] is first[BUILD] is first[RESULTS] is Verdict.MET


def test_seeds_that_nobody_knows_are_not_met() -> None:
    unknown: SuiteRules = SUITE.model_copy(update={"seeds": None})
    found = unmet(flawless(), replace(JUDGE, suite=unknown))
    assert found[RESULTS].why == (
        "all 30 results: LoadGen's seeds: those of MLPerf Mobile v3.1 are not known",
    )


def test_the_rules_of_sessions_are_as_printed() -> None:
    assert SessionRules.model_validate(RULES.model_dump()) == RULES
    assert (RULES.task_pause_s, RULES.try_pause_s) == ((0, 300), 600)
    assert (RULES.tries, RULES.spread) == (5, 0.05)


def test_spread() -> None:
    assert spread([1.0]) is None
    assert spread([2.0, 2.0]) == 0
    assert spread([1.0, 1.25, 1.1]) == 0.25
    assert spread([0.0, 0.1]) == float("inf")
    assert spread([0.0, 0.0]) == 0


PAUSES = Pauses(task_s=30, try_s=600)


def step(session: Session, now: float, tries: int = TRIES) -> object:
    return next_step(session, PARTS, tries, PAUSES, now)


def test_a_session_begins_with_the_first_part() -> None:
    assert step(Session(ID, ()), BEGIN) == Submit(Place(ID, 1, 0))


def test_parts_follow_each_other_after_their_pauses() -> None:
    one = flawless(tries=1, parts=1)
    end = BEGIN + TASK_S
    assert step(one, end) == Wait(end + 30, Place(ID, 1, 1))
    assert step(one, end + 30) == Submit(Place(ID, 1, 1))
    assert step(one, end + 9999) == Submit(Place(ID, 1, 1)), "also when a pause was too long"
    whole = flawless(tries=1)
    end = whole.spans()[-1].end or 0
    assert step(whole, end + 599) == Wait(end + 600, Place(ID, 2, 0))
    assert step(whole, end + 600) == Submit(Place(ID, 2, 0))


def test_a_session_ends_after_its_tries_and_goes_on_with_more() -> None:
    assert step(flawless(), 2e9) == Ended()
    assert step(flawless(tries=2), 2e9, tries=2) == Ended()
    assert step(flawless(tries=2), 2e9, tries=3) == Submit(Place(ID, 3, 0))


@pytest.mark.parametrize("state", [RunState.QUEUED, RunState.LEASED])
def test_a_part_under_way_is_followed(state: RunState) -> None:
    session = changed(
        flawless(tries=1, parts=3), 2, lambda run: replace(run, state=state, result=None)
    )
    assert step(session, 0) == Follow(session.runs[2])


def test_after_a_failure_the_try_goes_on_and_is_the_last() -> None:
    failed = changed(flawless(tries=1, parts=3), 1, ended_as(RunState.FAILED, "user: no model"))
    assert step(failed, 2e9) == Submit(Place(ID, 1, 3))
    whole = changed(flawless(tries=1), 1, ended_as(RunState.FAILED, "user: no model"))
    assert step(whole, 2e9) == Ended((whole.runs[1],))


def test_a_clock_that_was_set_back_makes_no_endless_pause() -> None:
    whole = flawless(tries=1)
    assert step(whole, BEGIN - 86_400) == Submit(Place(ID, 2, 0))
    after = delayed(flawless(tries=1, parts=3), 2, -86_400)
    end = after.spans()[-1].end or 0
    assert step(after, end) == Wait(end + 30, Place(ID, 1, 3)), "the last end counts"


def test_a_part_that_was_cancelled_before_it_began_needs_no_pause_of_its_own() -> None:
    cancelled = replace(flawless(tries=1, parts=1).runs[0], state=RunState.CANCELLED, spans=())
    assert step(Session(ID, (cancelled,)), BEGIN) == Submit(Place(ID, 1, 1))


def test_a_sweep_says_of_which_part_it_is() -> None:
    place = Place(ID, 2, 5)
    sweep = PLAN.sweep(place)
    assert Place.of(sweep.name) == place
    assert sweep.name == f"suite-{ID}.2.6"
    assert (sweep.workload, sweep.scenario) == (("edsr",), ("single_stream",))
    assert sweep.devices == ('device == "phone-1"',)
    assert {name: values[0] for name, values in sweep.knobs.items()} == {
        "mode": "submission",
        "length": "normal",
        "policy": "mlperf",
        "suite_version": "v3.1",
    }
    assert "MLPerf Mobile v3.1 (unverified)" in sweep.description
    assert PLAN.sweep(place).sweep_id(1) == sweep.sweep_id(1), "submitting it again adds nothing"


@pytest.mark.parametrize("rules", load_suites(), ids=lambda rules: rules.version)
def test_every_part_of_a_version_runs_by_its_rules(rules: SuiteRules) -> None:
    for surrogates in (False, True):
        parts = parts_of(rules, [*rules.tasks], {}, length="normal", surrogates=surrogates)
        found = {(part.task, part.scenario): part.knobs[SUITE_VERSION] for part in parts}
        asked = [(name, s) for name, task in rules.tasks.items() for s in task.scenarios]
        assert found == dict.fromkeys(asked, rules.version)


def test_sessions_of_versions_with_the_same_parts_are_apart() -> None:
    plans = [
        SuitePlan(
            suite=rules.title,
            version=rules.version,
            device=PHONE,
            stack="litert",
            parts=parts_of(rules, ["mosaic"], {}, length="normal", surrogates=False),
        )
        for rules in load_suites()
        if "mosaic" in rules.tasks
    ]
    assert len({plan.key for plan in plans}) == len(plans)
    place = Place(plans[0].session(1), 1, 0)
    assert len({plan.sweep(place).sweep_id(1) for plan in plans}) == len(plans)


def test_a_result_that_is_older_than_the_knob_is_judged_by_its_log() -> None:
    """It ran by the rules of the newest round of its day, and says which it missed."""
    session = flawless(tries=1)
    for index in range(PARTS):
        session = changed(session, index, lambda run: telling(run, suite_rules=None))
    assert RESULTS not in unmet(session)
    assert RESULTS in unmet(changed(session, 0, lambda run: telling(run, loadgen_seeds=None)))


@pytest.mark.parametrize(
    "name", ["suite", "suite-v3.1-abc-1.1.1", f"suite-{ID}.0.1", f"suite-{ID}.1.0", f"x{ID}.1.1"]
)
def test_other_names_are_of_no_session(name: str) -> None:
    assert Place.of(name) is None


def test_only_the_plan_s_own_sweep_is_of_its_session() -> None:
    place = Place(ID, 2, 5)
    own = PLAN.sweep(place)
    assert PLAN.place_of(own) == place
    other = SuitePlan.model_validate(PLAN.model_dump() | {"device": "phone-2"})
    assert other.place_of(own) is None
    forged = own.model_copy(update={"knobs": {**own.knobs, "length": ("rapid",)}})
    misplaced = own.model_copy(update={"name": Place(ID, 2, 4).name})
    beyond = own.model_copy(update={"name": Place(ID, 2, 6).name})
    padded = own.model_copy(update={"name": f"suite-{ID}.02.6"})
    elsewhere = own.model_copy(update={"name": "mine"})
    for sweep in (forged, misplaced, beyond, padded, elsewhere):
        assert PLAN.place_of(sweep) is None


def test_of_a_part_in_a_try_the_first_sweep_counts_whoever_submits_it_again() -> None:
    """Its id tells one submission from the next, and its content doesn't."""
    places = Place(ID, 1, 0), Place(ID, 1, 1)
    first, second = (PLAN.sweep(place) for place in places)
    submitted = [(first, 1, "admin"), (first, 2, "admin"), (second, 1, "bob"), (second, 2, "admin")]
    records = [
        SweepRecord(sweep_id=s.sweep_id(n), sweep=s, generation=n, submitted_at=1.0, user=user)
        for s, n, user in submitted
    ]
    assert places_of(records, PLAN.place_of) == {
        first.sweep_id(1): places[0],
        second.sweep_id(1): places[1],
    }
    other = SuitePlan.model_validate(PLAN.model_dump() | {"device": "phone-2"})
    assert places_of(records, other.place_of) == {}


def test_a_number_that_no_name_has_room_for_is_refused() -> None:
    last = PLAN.sweep(Place(PLAN.session(999_999), 1, 0))
    assert PLAN.place_of(last) == Place(PLAN.session(999_999), 1, 0)
    with pytest.raises(UserError, match="numbered up to 999999, and that one exists"):
        PLAN.session(1_000_000)


def test_a_plan_s_sessions_are_numbered() -> None:
    other = SuitePlan.model_validate(PLAN.model_dump() | {"device": "phone-2"})
    assert other.key != PLAN.key
    ids = [PLAN.session(2), PLAN.session(10), other.session(11)]
    assert (newest_of(PLAN, ids), newest_of(other, ids)) == (10, 11)
    assert newest_of(PLAN, []) == 0
    assert number_of(ids[1]) == 10


def test_a_surrogate_is_of_its_task() -> None:
    assert task_of("mosaic_surrogate") == task_of("mosaic") == "mosaic"


@pytest.mark.parametrize(
    ("reference_s", "end"), [(None, 90.0), (0.0, 90.0), (20.5, 69.5), (1e9, 0.0)]
)
def test_the_pause_after_a_part_begins_before_its_reference_is_computed(
    reference_s: float | None, end: float
) -> None:
    """The phone rests while its host computes."""
    part = flawless(tries=1, parts=1).runs[0]
    assert part.result
    facts = {**part.result.environment, "reference_s": reference_s}
    held = builders.attempt(PHONE, 1, AttemptState.SUCCEEDED).model_copy(
        update={"leased_at": 1000.0, "ended_at": 1090.0}
    )
    first = held.model_copy(update={"leased_at": 900.0, "ended_at": 905.0})
    run = builders.run(attempts=(first, held))
    found = PartRun.of(part.place, run, part.result.model_copy(update={"environment": facts}))
    assert found.spans == (Span(PHONE, 900.0, 905.0), Span(PHONE, 1000.0, 1000.0 + end))
    assert PartRun.of(part.place, run).end == 1090.0
