"""A session of MLPerf Mobile without a flaw, for tests to break."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from controller.contracts.device import DeviceKind
from controller.contracts.records import StoredResult
from controller.contracts.result import Environment, Measurement, Validity
from controller.contracts.run import RunState
from controller.contracts.suite_rules import SuiteRules, load_suites
from controller.contracts.units import Unit
from controller.scheduling.suite_plan import Place, SuitePlan, parts_of
from controller.scheduling.suite_session import PartRun, Session, Span

PHONE = "phone-1"
BEGIN = 1_000_000.0
TASK_S, TASK_PAUSE_S, TRY_PAUSE_S, TRIES = 90.0, 60.0, 600.0, 5
SUITE: SuiteRules = next(rules for rules in load_suites() if rules.version == "v3.1")
METRICS = {"single_stream": "latency_p90", "offline": "throughput"}
PLAN = SuitePlan(
    suite=SUITE.title,
    version=SUITE.version,
    device=PHONE,
    stack="litert",
    parts=parts_of(SUITE, [*SUITE.tasks], {}, length="normal", surrogates=False),
)
ID = PLAN.session(1)


def environment(**changes: str | bool | tuple[str, ...] | None) -> Environment:
    """Return the facts of a result that meets the rules, changed."""
    assert SUITE.seeds
    return {
        "fingerprint": "vendor/phone:14/A1",
        "runtime": "litert",
        "litert": "2.3.0",
        "loadgen": "5.1",
        "meets_run_rules": True,
        "run_rules_missed": (),
        "loadgen_seeds": SUITE.seeds.said,
        "suite_rules": SUITE.claim,
        **changes,
    }


def result(place: Place, speed: float, started_at: float) -> StoredResult:
    """Return a result of a part that meets the rules."""
    part = PLAN.parts[place.part]
    target = SUITE.tasks[part.task].targets[-1]
    unit = Unit.DECIBELS if target.metric == "PSNR" else Unit.FRACTION
    return StoredResult(
        run_id="r",
        sweep_id=PLAN.sweep(place).sweep_id(1),
        cell_key="c",
        repeat=0,
        attempt=1,
        device=PHONE,
        device_kind=DeviceKind.ANDROID,
        virtual=False,
        workload=part.workload,
        stack=PLAN.stack,
        scenario=part.scenario,
        knobs=part.knobs,
        started_at=started_at,
        counted=True,
        validity=Validity.VALID,
        reasons=(),
        metrics={
            METRICS[part.scenario]: Measurement(value=speed, unit=Unit.SECONDS),
            target.metric: Measurement(value=target.value * 1.01, unit=unit),
        },
        environment=environment(),
        artefacts={},
    )


def flawless(
    tries: int = TRIES, parts: int = len(PLAN.parts), speeds: Sequence[float] = (1.0, 1.04)
) -> Session:
    """Return a session by the rules, whose speeds differ by less than is allowed."""
    runs, now = list[PartRun](), BEGIN
    for number in range(1, tries + 1):
        for part in range(parts):
            place = Place(ID, number, part)
            measured = result(place, speeds[number % len(speeds)], now)
            span = Span(PHONE, now, now + TASK_S)
            runs.append(
                PartRun(
                    place,
                    measured.sweep_id,
                    measured.workload,
                    measured.scenario,
                    RunState.DONE,
                    (span,),
                    measured,
                )
            )
            now += TASK_S + TASK_PAUSE_S
        now += TRY_PAUSE_S - TASK_PAUSE_S
    return Session(ID, tuple(runs))


def changed(session: Session, index: int, change: Callable[[PartRun], PartRun]) -> Session:
    """Return a session with one of its runs changed."""
    runs = list(session.runs)
    runs[index] = change(runs[index])
    return replace(session, runs=tuple(runs))


def without(session: Session, index: int) -> Session:
    """Return a session that lacks one of its runs."""
    runs = list(session.runs)
    del runs[index]
    return replace(session, runs=tuple(runs))


def delayed(session: Session, index: int, seconds: float) -> Session:
    """Return a session in which a run and all later ones begin so much later."""
    moved = (
        replace(
            run,
            spans=tuple(
                replace(
                    span,
                    start=span.start + seconds,
                    end=None if span.end is None else span.end + seconds,
                )
                for span in run.spans
            ),
        )
        for run in session.runs[index:]
    )
    return replace(session, runs=(*session.runs[:index], *moved))


def measured(run: PartRun, **changes: object) -> PartRun:
    """Return a run whose result has other fields."""
    assert run.result
    return replace(run, result=run.result.model_copy(update=changes))


def telling(run: PartRun, **facts: str | bool | tuple[str, ...] | None) -> PartRun:
    """Return a run whose result has other facts."""
    assert run.result
    return measured(run, environment={**run.result.environment, **facts})


def lacking(run: PartRun, metric: str) -> PartRun:
    """Return a run whose result lacks one metric."""
    assert run.result
    kept = {name: found for name, found in run.result.metrics.items() if name != metric}
    return measured(run, metrics=kept)


def with_value(run: PartRun, metric: str, factor: float) -> PartRun:
    """Return a run whose result has one metric so many times as large."""
    assert run.result
    found = run.result.metrics[metric]
    more = {metric: found.model_copy(update={"value": found.value * factor})}
    return measured(run, metrics={**run.result.metrics, **more})
