from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agents.energy.rapl import EnergyMeter, readable_domains
from agents.host import cpu_watch
from agents.host.cpu_watch import CpuTimes
from agents.host.strain import Reading
from agents.scenarios import training
from agents.worker import in_own_unit
from controller.contracts.catalog import load_catalog
from controller.contracts.result import Result, Validity
from controller.contracts.units import Unit
from controller.contracts.wire import Progress, StepBatch, TrainingProgram
from controller.scheduling.expansion import cells_of
from controller.scheduling.program import program_of
from tests.support import builders
from tests.support.knobs import scenario_knobs
from tests.support.workloads import Line, Plain

KNOBS = scenario_knobs("training")


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the machine be quiet, whatever else runs on it."""
    monkeypatch.setattr(cpu_watch, "read_cpu_times", CpuTimes)
    monkeypatch.setattr(cpu_watch, "read_strain", Reading)
    monkeypatch.setattr(training, "product_flops", lambda _: 2e11)


def train(workload: Line, warmup: int = 2, steps: int = 3) -> tuple[Result, list[Progress]]:
    knobs = scenario_knobs("training", warmup_steps=warmup, steps=steps)
    progress: list[Progress] = []
    return training.run(workload, Plain(knobs), knobs, progress.append), progress


def test_timed_steps_are_the_samples() -> None:
    workload = Line(batch_size=4)
    result, _ = train(workload)

    times = result.metrics["step_time"]
    assert result.validity is Validity.VALID
    assert result.reasons == ()
    assert workload.asked_for == [0, 1, 2, 3, 4]
    assert len(times.samples) == 3
    assert all(seconds > 0 for seconds in times.samples)
    assert times.value == sorted(times.samples)[1]
    assert times.unit is Unit.SECONDS
    rates = result.metrics["throughput"]
    assert rates.samples == tuple(4 / seconds for seconds in times.samples)
    assert rates.unit is Unit.SAMPLES_PER_SECOND
    assert result.environment["backend"] == "plain"
    assert {"timed_s", "timed_other_cores", "timed_steal_share"} < result.environment.keys()


@pytest.mark.parametrize(
    ("policy", "slower", "validity"),
    [
        ("ci", 0.85, Validity.VALID),
        ("ci", 0.75, Validity.DISTURBED),
        ("lab", 0.95, Validity.VALID),
        ("lab", 0.85, Validity.INVALID),
        ("mlperf", 0.5, Validity.VALID),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_machine_that_changed_its_own_speed_disturbs(
    monkeypatch: pytest.MonkeyPatch, policy: str, slower: float, validity: Validity, first: bool
) -> None:
    rates = iter([2e11 * slower, 2e11] if first else [2e11, 2e11 * slower])
    asked: list[str] = []

    def flops(precision: str) -> float:
        asked.append(precision)
        return next(rates)

    monkeypatch.setattr(training, "product_flops", flops)
    monkeypatch.setattr(training, "rested", lambda *_: EnergyMeter(()))
    knobs = scenario_knobs("training", warmup_steps=0, steps=2, policy=policy, precision="bf16")
    result = training.run(Line(), Plain(knobs), knobs, lambda _: None)
    assert result.validity is validity
    assert asked == ["bf16", "bf16"]
    assert result.environment["matmul_gflops"] == pytest.approx(100 * (1 + slower))
    assert result.environment["matmul_change"] == pytest.approx(1 - slower)
    said = f"{200 * slower:.4g} to 200 GFLOP/s before and after what was timed; policy {policy}"
    assert (said in " ".join(result.reasons)) is (validity is not Validity.VALID)


def test_no_product_is_put_into_a_log_of_primitives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_VERBOSE", "profile_exec")
    result, _ = train(Line())
    assert "matmul_gflops" not in result.environment


def test_the_loss_is_that_of_the_timed_steps_as_it_ended() -> None:
    result, _ = train(Line())
    loss = result.metrics["loss"]
    # One weight w, loss (w - 2)², learning rate 0.1: each step leaves 0.8 of the error.
    # Exact but for fp32's rounding, about 1e-7 of each.
    assert loss.samples == pytest.approx([4 * 0.64**n for n in (2, 3, 4)], rel=1e-5)
    assert loss.value == loss.samples[-1]


def test_peak_memory_is_in_bytes() -> None:
    result, _ = train(Line())
    assert 50e6 < result.metrics["peak_memory"].value < 1e12
    assert result.metrics["peak_memory"].unit is Unit.BYTES


ENERGY_RANGE_UJ = 16_000_000_000


def powercap(folder: Path, readings: str = "1000000") -> Path:
    """Make a package and its cores as powercap shows them; the cores are part of the package."""
    for name, domain in (("package-0", "intel-rapl:0"), ("core", "intel-rapl:0:0")):
        path = folder / domain
        path.mkdir()
        (path / "name").write_text(name + "\n")
        (path / "max_energy_range_uj").write_text(f"{ENERGY_RANGE_UJ}\n")
        (path / "energy_uj").write_text(readings)
    return folder


class Burning(Plain):
    """Uses 7 kJ a step: five of them are more than two ranges of the counter."""

    counter: Path

    def step(self, *arguments: Any) -> float:  # noqa: ANN401
        burnt = int(self.counter.read_text()) + 7_000_000_000
        self.counter.write_text(str(burnt % (ENERGY_RANGE_UJ + 1)))
        return super().step(*arguments)


@pytest.mark.parametrize("in_turns", [False, True])
def test_energy_is_that_of_the_timed_steps_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_turns: bool
) -> None:
    domains = readable_domains(powercap(tmp_path))
    monkeypatch.setattr(training, "readable_domains", lambda: domains)
    monkeypatch.setattr(training, "come_to_rest", lambda _: None)
    clock = count(0.0, 4.0).__next__
    monkeypatch.setattr(training, "EnergyMeter", lambda domains: EnergyMeter(domains, clock))
    monkeypatch.setattr(training, "rested", lambda *_: idling(tmp_path, watts=500))
    knobs = scenario_knobs("training", warmup_steps=2, steps=5)
    backend = Burning(knobs)
    backend.counter = tmp_path / "intel-rapl:0" / "energy_uj"
    if in_turns:
        result = training.run_batches(Line(), backend, knobs, [5, 1], lambda _: None)
    else:
        result = training.run(Line(), backend, knobs, lambda _: None)
    assert result.metrics["energy_gross"].value == pytest.approx(7000)
    seconds_a_step = 4 * (8 / 6 if in_turns else 6 / 5)  # 4 a look: after each step, at the end
    assert result.metrics["energy"].value == pytest.approx(7000 - 500 * seconds_a_step)
    assert result.metrics["energy"].unit is Unit.JOULES_PER_STEP
    assert result.environment["energy_source"] == "rapl: package-0"
    assert result.environment["idle_watts"] == pytest.approx(500)


def idling(powercap: Path, watts: int) -> EnergyMeter:
    """Return what was read in five seconds of rest."""
    counter = powercap / "intel-rapl:0" / "energy_uj"
    meter = EnergyMeter(readable_domains(powercap), count(0.0, 5.0).__next__)
    with meter.running():
        counter.write_text(str(int(counter.read_text()) + 5 * watts * 1_000_000))
    return meter


def test_a_run_tells_when_it_was_timed_and_turns_do_not() -> None:
    """A meter goes by it; between turns another side was at work."""
    result, _ = train(Line())
    began, ended = (result.environment[f"timed_{end}_uptime_s"] for end in ("from", "until"))
    assert isinstance(began, float)
    assert isinstance(ended, float)
    assert ended - began >= sum(result.metrics["step_time"].samples)
    in_turns, _ = turns_of(Line(), [2, 2])
    assert not {n for n in in_turns.environment if n.endswith("_uptime_s")}


def test_without_counters_there_is_no_energy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "readable_domains", lambda: ())
    result, _ = train(Line())
    assert "energy" not in result.metrics
    assert "energy_gross" not in result.metrics
    assert result.environment["energy_unknown"] == "the kernel lets no counter of energy be read"


def test_progress_tells_each_step_and_its_phase() -> None:
    _, progress = train(Line(), warmup=1, steps=2)
    assert [(p.phase, p.done, p.total) for p in progress] == [
        ("warm-up", 1, 3),
        ("training", 2, 3),
        ("training", 3, 3),
    ]
    assert all(set(p.values) == {"step_time", "loss"} for p in progress)


def test_no_warm_up() -> None:
    result, progress = train(Line(), warmup=0, steps=1)
    assert len(result.metrics["step_time"].samples) == 1
    assert [p.phase for p in progress] == ["training"]


def test_a_loss_that_is_no_number_makes_the_run_invalid() -> None:
    result, progress = train(Line(nan_from=3))
    assert result.validity is Validity.INVALID
    assert result.reasons == ("the loss of timed step 2 of 3 is nan",)
    assert len(result.metrics["step_time"].samples) == 3
    assert len(result.metrics["loss"].samples) == 1
    assert "loss" not in progress[-1].values


def test_no_loss_at_all() -> None:
    result, _ = train(Line(nan_from=0))
    assert result.validity is Validity.INVALID
    assert "loss" not in result.metrics


@pytest.mark.parametrize("loss", [math.inf, -math.inf, math.nan])
def test_any_loss_that_is_not_finite_is_objected_to(loss: float) -> None:
    assert training.objections([(0.1, 1.0), (0.1, loss), (0.1, loss)]) == (
        f"the loss of timed step 2 of 3 is {loss}",
    )
    assert training.objections([(0.1, 1.0)]) == ()


def turns_of(workload: Line, orders: list[int]) -> tuple[Result, list[StepBatch]]:
    said: list[StepBatch] = []
    return training.run_batches(workload, Plain(KNOBS), KNOBS, orders, said.append), said


def test_a_turn_is_the_counted_steps_after_one_that_is_not() -> None:
    workload = Line()
    result, said = turns_of(workload, [1, 3])
    assert [len(batch.samples) for batch in said] == [0, 1, 3], "ready, then each turn"
    assert workload.asked_for == list(range(1 + 1 + 1 + 3))
    samples = result.metrics["step_time"].samples
    assert samples == tuple(seconds for batch in said for seconds in batch.samples)
    assert result.validity is Validity.VALID


def test_what_is_used_between_turns_is_told() -> None:
    def restless() -> Iterator[int]:
        yield 1
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
        yield 1

    said: list[StepBatch] = []
    training.run_batches(Line(), Plain(KNOBS), KNOBS, restless(), said.append)
    assert said[1].rest_cpu_s < said[2].rest_cpu_s >= 0.05


def test_a_loss_that_is_no_number_makes_turns_invalid() -> None:
    result, _ = turns_of(Line(nan_from=3), [3])
    assert result.reasons == ("the loss of timed step 3 of 3 is nan",)


@pytest.mark.parametrize("policy", ["ci", "lab"])
def test_a_disturbed_run_is_invalid_under_lab_and_disturbed_under_ci(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clocks say that others used more than a core of two."""
    ticks = count()

    def clocks() -> CpuTimes:
        now = float(next(ticks))
        return CpuTimes(elapsed_s=now, cores=2, busy_s=1.25 * now)

    monkeypatch.setattr(cpu_watch, "read_cpu_times", clocks)
    knobs = scenario_knobs("training", warmup_steps=0, steps=2, policy=policy)
    result = training.run(Line(), Plain(knobs), knobs, lambda _: None)
    # What this process really used, some milliseconds in what the clocks call a second, is off it.
    assert result.environment["timed_other_cores"] == pytest.approx(1.25, abs=0.04)
    assert result.validity is (Validity.INVALID if policy == "lab" else Validity.DISTURBED)
    (reason,) = result.reasons
    assert reason.startswith("other processes kept 1.2")


@pytest.mark.parametrize(
    ("counted", "unit"),
    [
        ("images", "images/s"),
        ("sequences", "sequences/s"),
        ("points", "samples/s"),
        (None, "samples/s"),
    ],
)
def test_a_workloads_own_unit_is_that_of_its_batch(counted: str | None, unit: str) -> None:
    known = builders.catalog()
    resnet = known.workloads["resnet"]
    batch = resnet.knobs["batch_size"].model_copy(update={"unit": counted})
    own = resnet.model_copy(update={"knobs": {**resnet.knobs, "batch_size": batch}})
    catalog = known.model_copy(update={"workloads": {**known.workloads, "resnet": own}})
    program = program_of(builders.cell(batch_size=4, rate=0.5), catalog)
    assert isinstance(program, TrainingProgram)
    result = in_own_unit(train(Line(batch_size=4))[0], program.rate_unit)
    assert result.metrics["throughput"].unit == unit
    assert result.metrics["step_time"].unit is Unit.SECONDS


def test_workloads_of_the_project_count_what_their_batches_have() -> None:
    catalog = load_catalog()
    for name, rate in (
        ("resnet18", Unit.IMAGES_PER_SECOND),
        ("resnet50", Unit.IMAGES_PER_SECOND),
        ("retinanet_resnext50", Unit.IMAGES_PER_SECOND),
        ("lstm", Unit.SEQUENCES_PER_SECOND),
        ("transformer_encoder", Unit.SEQUENCES_PER_SECOND),
        ("bert", Unit.SEQUENCES_PER_SECOND),
        ("dlrm", Unit.SAMPLES_PER_SECOND),
    ):
        (cell,) = cells_of(
            builders.sweep(workload=name, stack="torch", scenario="training"), catalog, "a sweep"
        )
        program = program_of(cell, catalog)
        assert isinstance(program, TrainingProgram)
        assert program.rate_unit is rate
