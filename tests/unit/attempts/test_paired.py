"""Paired comparisons with real worker processes that take turns, and with whole runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from agents.attempts.paired import PairedRunner, paired_runs, paired_workers
from agents.attempts.protocol import AttemptRunner
from agents.attempts.worker_process import WorkerProcess
from agents.inference.on_device_result import with_facts
from agents.pairing.outcome import PAIRED
from agents.stacks.interpreter import stack_worker
from controller.contracts.result import Blame, Failure, Measurement, Outcome, Result, Validity
from controller.contracts.units import Unit
from controller.contracts.wire import CandidateJob, Progress, TrainingProgram, WorkerSpec
from controller.platform.processes import WORKER_MARKER, marked_processes
from controller.stats.pairs import MIN_PAIRS
from tests.support import builders
from tests.support.knobs import job_knobs
from tests.support.processes import OWNER
from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]
PRELUDE = """
import json, os, sys, time
spec = json.loads(sys.stdin.readline())
pace = spec["job"]["knobs"]["pace"]
def say(**message): print(json.dumps(message), flush=True)
def turn(*samples, rest=0.0): say(type="turn", samples=samples, rest_cpu_s=rest)
def orders():
    for line in sys.stdin:
        steps = json.loads(line)["steps"]
        if not steps: return
        yield steps
def result(**more):
    samples = [pace] * 3
    metrics = {"step_time": {"value": pace, "unit": "s", "samples": samples},
               "peak_memory": {"value": 1e9, "unit": "bytes"}}
    reasons = more.get("reasons", [])
    say(type="result", validity="INVALID" if reasons else "VALID", reasons=reasons,
        metrics=metrics, environment={"threads": 2, "pace": pace})
"""
STEADY = """
turn()
for steps in orders(): turn(*[pace] * steps)
result()
"""


def spec_of(folder: Path, b: float = 0.5, deadline_s: float = PATIENCE_S) -> WorkerSpec:
    """Return a job whose side A paces at 1 s a step, as it says, and B at another."""
    job = builders.job(deadline_s=deadline_s)
    candidate = CandidateJob(
        stack="torch",
        knobs=job_knobs(threads=1, pace=b),
        program=job.program,
        metric="step_time",
        width=0.03,
        time_limit_s=PATIENCE_S,
    )
    knobs = job_knobs(threads=1, pace=1.0)
    job = job.model_copy(update={"candidate": candidate, "knobs": knobs})
    return WorkerSpec(job=job, device=builders.cpu(), artefact_dir=str(folder))


def workers(script: str) -> AttemptRunner:
    command = (sys.executable, "-c", PRELUDE + textwrap.dedent(script))
    return paired_workers(WorkerProcess(OWNER, lambda _: command))


async def compared(script: str, folder: Path, heard: Callable[[Progress], None]) -> Outcome:
    try:
        return await workers(script).run(spec_of(folder), heard)
    finally:
        assert list(marked_processes(WORKER_MARKER, OWNER)) == []


async def result_of(script: str, folder: Path) -> Result:
    outcome = await compared(script, folder, lambda _: None)
    assert isinstance(outcome, Result), outcome
    return outcome


async def failure_of(script: str, folder: Path) -> Failure:
    outcome = await compared(script, folder, lambda _: None)
    assert isinstance(outcome, Failure), outcome
    return outcome


async def test_two_workers_take_turns_and_one_result_comes_of_it(tmp_path: Path) -> None:
    told: list[Progress] = []
    outcome = await compared(STEADY, tmp_path, told.append)
    assert isinstance(outcome, Result)
    assert outcome.validity is Validity.VALID
    assert len(outcome.pairs) == MIN_PAIRS
    assert all((pair.a, pair.b) == ((1.0,), (0.5,)) for pair in outcome.pairs)
    values = {name: m.value for name, m in outcome.metrics.items()}
    assert values == pytest.approx(
        {
            "ratio": 2.0,
            "ratio_low": 2.0,
            "ratio_high": 2.0,
            "step_time_a": 1.0,
            "step_time_b": 0.5,
            "peak_memory_a": 1e9,
            "peak_memory_b": 1e9,
        }
    )
    assert outcome.metrics["ratio"].unit is Unit.RATIO
    assert len(outcome.metrics["step_time_b"].samples) == MIN_PAIRS
    facts = outcome.environment
    assert (facts["threads"], facts["a.pace"], facts["b.pace"]) == (2, 1.0, 0.5)
    assert (facts["pairs"], facts["warmup_pairs"]) == (MIN_PAIRS, 0)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}
    assert told[0].phase == "comparing"


async def test_a_side_that_does_not_rest_makes_the_comparison_invalid(tmp_path: Path) -> None:
    script = """
        turn()
        for steps in orders(): turn(*[pace] * steps, rest=0.1)
        result()
    """
    result = await result_of(script, tmp_path)
    assert result.validity is Validity.INVALID
    a, b = result.reasons  # each used a tenth of a second in the other's turn
    assert a.startswith("side A used 20.0% of a core while the other was timed, more than 2%")
    assert b.startswith("side B used 10.0% of a core")
    assert result.environment["a.rest_cpu_share"] == 0.2


async def test_what_makes_a_side_invalid_makes_the_comparison_invalid(tmp_path: Path) -> None:
    script = STEADY.replace("result()", "result(reasons=['too hot'] if pace == 0.5 else [])")
    result = await result_of(script, tmp_path)
    assert result.reasons == ("side B: too hot",)


@pytest.mark.parametrize(
    ("script", "kind", "message"),
    [
        ("if pace == 0.5: sys.exit(3)\n" + STEADY, "exit", "side B: the worker exited with status"),
        ("turn()\nfor steps in orders(): os.abort()", "signal", "the worker crashed with SIGABRT"),
        ("turn()\nresult()", "protocol", "its worker ended before the comparison did"),
        (STEADY.replace("result()", ""), "no_result", "side A: the worker ended without a result"),
    ],
)
async def test_a_side_that_fails_fails_the_comparison(
    tmp_path: Path, script: str, kind: str, message: str
) -> None:
    limits = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
    failure = await failure_of(limits + script, tmp_path)
    assert failure.kind == kind
    assert message in failure.message


async def test_turns_from_a_worker_that_was_not_asked_for_any_are_no_message(
    tmp_path: Path,
) -> None:
    command = (sys.executable, "-c", PRELUDE + "turn(); result()")
    spec = spec_of(tmp_path)
    alone = spec.model_copy(update={"job": spec.job.model_copy(update={"candidate": None})})
    outcome = await paired_workers(WorkerProcess(OWNER, lambda _: command)).run(
        alone, lambda _: None
    )
    assert isinstance(outcome, Failure)
    assert (outcome.blame, outcome.kind) == (Blame.HARNESS, "protocol")


async def test_cancelling_leaves_nothing(tmp_path: Path) -> None:
    told = asyncio.Event()
    script = "turn()\nfor steps in orders(): turn(*[pace * (1 + time.monotonic() % 1)] * steps)"
    work = asyncio.create_task(workers(script).run(spec_of(tmp_path), lambda _: told.set()))
    await asyncio.wait_for(told.wait(), PATIENCE_S)
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait_for(work, PATIENCE_S)
    assert work.cancelled()
    assert list(marked_processes(WORKER_MARKER, OWNER)) == []


async def test_the_real_worker_trains_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A is a batch of 4, B one of 8; which is faster is not the question here."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def program(batch_size: int) -> TrainingProgram:
        return TrainingProgram(
            builder="tests.support.workloads:Line",
            arguments={"batch_size": batch_size},
            backend="tests.support.workloads:Plain",
            rate_unit=Unit.IMAGES_PER_SECOND,
        )

    spec = spec_of(tmp_path)
    assert spec.job.candidate
    candidate = spec.job.candidate.model_copy(update={"program": program(8), "width": 5.0})
    job = spec.job.model_copy(update={"program": program(4), "candidate": candidate})
    outcome = await paired_workers(WorkerProcess(OWNER, partial(stack_worker, tmp_path))).run(
        spec.model_copy(update={"job": job}), lambda _: None
    )
    assert isinstance(outcome, Result), outcome
    assert len(outcome.pairs) >= MIN_PAIRS
    first, *later = outcome.pairs
    assert (len(first.a), len(first.b)) == (1, 1)
    assert all(len(pair.a) == len(pair.b) for pair in later)
    assert max(len(pair.a) for pair in later) > 1, "a turn is many short steps"
    facts = outcome.environment
    for name in ("timed_s", "timed_other_cores", "timed_steal_share", "rest_cpu_share"):
        assert isinstance(facts.get(f"a.{name}", facts.get(name)), float)
    assert outcome.metrics["throughput_b"].unit is Unit.IMAGES_PER_SECOND
    assert os.path.getsize(tmp_path / "a" / "output.log") == 0  # noqa: PTH202


# --- the time limit ----------------------------------------------------------------------------


@dataclass
class Clocked:
    """A MeasuredSide whose set-up and turns take seconds of a clock that only they move."""

    clock: list[float]
    setup_s: float
    turn_s: float
    stuck_in: str = ""
    compile_s: float = 0.0
    """Once, in its first turn."""
    rest_cpu_s: None = None
    uncounted: int = 1
    ended: int = 0

    async def ready(self) -> None:
        await self._spend("ready", self.setup_s)

    async def run_batch(self, steps: int) -> tuple[float, ...]:
        await self._spend("run_batch", self.turn_s + self.compile_s)
        self.compile_s = 0.0
        return (self.turn_s * (1 + len(self.clock) % 7),) * steps

    async def finish(self) -> Result:
        metrics = {"step_time": Measurement(value=1.0, unit=Unit.SECONDS)}
        return Result(validity=Validity.VALID, metrics=metrics, environment={})

    async def end(self) -> None:
        self.ended += 1

    async def _spend(self, where: str, seconds: float) -> None:
        if self.stuck_in == where:
            await asyncio.Event().wait()
        self.clock.append(self.clock[-1] + seconds)


async def limited(folder: Path, limit_s: float, side: Clocked) -> Outcome:
    """Compare a side with itself, its set-up and turns taken one after the other."""
    spec = spec_of(folder)
    assert spec.job.candidate
    candidate = spec.job.candidate.model_copy(update={"time_limit_s": limit_s})
    job = spec.job.model_copy(update={"candidate": candidate})
    runner = PairedRunner(Phone(), lambda *_: side, 1.0, clock=lambda: side.clock[-1])
    outcome = await runner.run(spec.model_copy(update={"job": job}), lambda _: None)
    assert side.ended == 2
    return outcome


@pytest.mark.parametrize(
    ("limit_s", "setup_s", "turn_s", "pairs"),
    [(120.0, 20.0, 1.0, 40), (120.0, 30.0, 2.0, 15), (600.0, 50.0, 5.0, 50)],
)
async def test_pairs_get_what_the_set_up_leaves_of_the_limit(
    tmp_path: Path, limit_s: float, setup_s: float, turn_s: float, pairs: int
) -> None:
    side = Clocked([0.0], setup_s, turn_s)
    outcome = await limited(tmp_path, limit_s, side)
    assert isinstance(outcome, Result)
    assert len(outcome.pairs) == pairs
    assert side.clock[-1] <= limit_s
    facts = outcome.environment
    assert (facts["setup_s"], facts["compared_s"]) == (2 * setup_s, pairs * 2 * turn_s)


async def test_too_few_pairs_say_how_long_enough_would_take(tmp_path: Path) -> None:
    outcome = await limited(tmp_path, 120.0, Clocked([0.0], 50.0, 2.0))
    assert isinstance(outcome, Result)
    assert (outcome.validity, len(outcome.pairs)) == (Validity.INVALID, 5)
    (reason,) = outcome.reasons
    steady = 5 - int(str(outcome.environment["warmup_pairs"]))
    assert reason == (
        f"{steady} steady pairs in 20 s, after 100 s in which both sides started: an interval takes"
        f" 10, about {120 + 4 * (10 - steady)} s in all. Raise the time limit."
    )


@pytest.mark.parametrize(("limit_s", "pairs"), [(440.0, 51), (380.0, 21), (330.0, 1)])
async def test_what_was_compiled_in_the_first_pair_is_expected_of_no_other(
    tmp_path: Path, limit_s: float, pairs: int
) -> None:
    side = Clocked([0.0], 20.0, 1.0, compile_s=298.0)
    outcome = await limited(tmp_path, limit_s, side)
    assert isinstance(outcome, Result)
    assert len(outcome.pairs) == pairs
    assert side.clock[-1] <= max(limit_s, 340.0)
    if pairs > 1:
        return
    (reason,) = outcome.reasons
    (pair,) = outcome.pairs
    expected_s = 3 * (pair.a[0] + pair.b[0])  # what was counted, and two uncounted steps a side
    assert f"takes 10, about {340 + 9 * expected_s:.0f} s in all" in reason


@pytest.mark.parametrize(
    ("stuck_in", "said"), [("ready", "never ready"), ("run_batch", "ready after 40 s")]
)
async def test_a_limit_that_holds_no_pair_is_kept_and_said(
    tmp_path: Path, stuck_in: str, said: str
) -> None:
    failure = await limited(tmp_path, 0.01, Clocked([0.0], 20.0, 1.0, stuck_in))
    assert isinstance(failure, Failure)
    assert (failure.blame, failure.kind) == (Blame.USER, "time_limit")
    assert f"within the time limit of 0.01 s: both sides were {said}, and" in failure.message


# --- whole runs --------------------------------------------------------------------------------


@dataclass
class Phone:
    """An AttemptRunner that measures what the job says, at once."""

    outcomes: dict[float, Outcome] = field(default_factory=dict)
    jobs: list[WorkerSpec] = field(default_factory=list)

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        self.jobs.append(spec)
        pace = float(spec.job.knobs["pace"])
        rate = Measurement(value=10 / pace, unit=Unit.SAMPLES_PER_SECOND)
        valid = Result(
            validity=Validity.VALID,
            metrics={"throughput": rate},
            environment={"runtime": "litert"},
            artefacts={"log": f"{spec.artefact_dir}/log"},
        )
        return self.outcomes.get(pace, valid)

    async def clean(self) -> int:
        return 7


async def alternated(folder: Path, phone: Phone) -> Outcome:
    spec = spec_of(folder)
    assert spec.job.candidate
    candidate = spec.job.candidate.model_copy(update={"metric": "throughput"})
    job = spec.job.model_copy(update={"candidate": candidate})
    return await paired_runs(phone).run(spec.model_copy(update={"job": job}), lambda _: None)


async def test_whole_runs_alternate_and_more_a_second_is_better(tmp_path: Path) -> None:
    phone = Phone()
    outcome = await alternated(tmp_path, phone)
    assert isinstance(outcome, Result)
    assert outcome.metrics["ratio"].value == pytest.approx(2.0)
    assert len(outcome.pairs) == MIN_PAIRS
    assert len(phone.jobs) == 2 * MIN_PAIRS
    assert {job.job.candidate for job in phone.jobs} == {None}
    names = [(job.job.ref.run_id, job.artefact_dir) for job in phone.jobs]
    assert len(set(names)) == len(names), "each run has an identity and a folder of its own"
    assert len(outcome.artefacts) == 2 * MIN_PAIRS
    assert outcome.environment["a.rest_cpu_share"] is None
    assert outcome.environment["runtime"] == "litert"


async def test_an_invalid_run_makes_the_comparison_invalid(tmp_path: Path) -> None:
    slow = await Phone().run(spec_of(tmp_path), lambda _: None)
    assert isinstance(slow, Result)
    bad = slow.model_copy(update={"validity": Validity.INVALID, "reasons": ("too few queries",)})
    outcome = await alternated(tmp_path, Phone({1.0: bad}))
    assert isinstance(outcome, Result)
    assert outcome.reasons == ("side A: too few queries",)


@pytest.mark.parametrize("missed", [{}, {1.0: ("mode accuracy",)}], ids=["alike", "unlike"])
async def test_no_comparison_meets_the_run_rules_whatever_its_sides_met(
    missed: dict[float, tuple[str, ...]], tmp_path: Path
) -> None:
    measured = await Phone().run(spec_of(tmp_path), lambda _: None)
    assert isinstance(measured, Result)
    judged: dict[float, Outcome] = {
        rate: with_facts(measured, missed.get(rate, ())) for rate in (1.0, 0.5)
    }
    outcome = await alternated(tmp_path, Phone(judged))
    assert isinstance(outcome, Result)
    said = {name: fact for name, fact in outcome.environment.items() if "rules" in name}
    assert said == {"meets_run_rules": False, "run_rules_missed": (PAIRED,)}


async def test_a_failed_run_fails_the_comparison(tmp_path: Path) -> None:
    outcome = await alternated(tmp_path, Phone({0.5: builders.failure(Blame.DEVICE)}))
    assert outcome == builders.failure(Blame.DEVICE).model_copy(
        update={"message": "side B: it ended"}
    )


@pytest.mark.parametrize(("rate", "said"), [(0.0, "0"), (-2.5, "-2.5")])
async def test_a_value_that_has_no_ratio_is_the_programs_failure(
    tmp_path: Path, rate: float, said: str
) -> None:
    """As a user's program may print; the pair that it was to be part of is no contract's fault."""
    slow = await Phone().run(spec_of(tmp_path), lambda _: None)
    assert isinstance(slow, Result)
    nothing = Measurement(value=rate, unit=Unit.SAMPLES_PER_SECOND)
    printed = slow.model_copy(update={"metrics": {"throughput": nothing}})
    for pace, side in ((1.0, "A"), (0.5, "B")):
        failure = await alternated(tmp_path, Phone({pace: printed}))
        assert isinstance(failure, Failure)
        assert (failure.blame, failure.kind) == (Blame.WORKLOAD, "no_ratio")
        why = f"side {side}: throughput is {said}, of which there is no ratio. Have its program "
        assert failure.message.startswith(why)


async def test_other_jobs_go_to_the_transport_as_they_are(tmp_path: Path) -> None:
    phone, spec = Phone(), spec_of(tmp_path)
    alone = spec.model_copy(update={"job": spec.job.model_copy(update={"candidate": None})})
    assert isinstance(await paired_runs(phone).run(alone, lambda _: None), Result)
    assert phone.jobs == [alone]
    assert await paired_runs(phone).clean() == 7
