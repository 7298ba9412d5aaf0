"""What trains as plain fp32 does is VALID; a planted fault of gradient or optimizer is INVALID."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from agents.backends.torch_eager.backend import TorchEager
from agents.scenarios.training_accuracy import PLAIN, Pupil, run_beside
from agents.stacks.resolving import resolve
from controller.contracts.base import Scalar
from controller.contracts.errors import WorkerFault
from controller.contracts.facts import undeclared
from controller.contracts.manifests import defaults_of
from controller.contracts.result import Result, Validity
from controller.contracts.sweep import Cell
from controller.contracts.wire import Progress
from controller.scheduling.program import program_of
from controller.stats.following import NUDGES
from tests.support.cells import CATALOG

STEPS, BATCHES = 12, 2
SMALL: Mapping[str, Scalar] = {
    "layers": 1,
    "hidden_size": 64,
    "sequence_length": 12,
    "vocabulary_size": 50,
    "batch_size": 4,
}
Plant = Callable[[Any], None]


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def nothing(workload: Any) -> None:  # noqa: ANN401 - a workload of any type
    """Plant no fault."""


def hooked(model: nn.Module, name: str, changed: Callable[[Tensor], Tensor]) -> None:
    """Change the gradient of one tensor."""
    model.get_parameter(name).register_hook(changed)  # type: ignore[no-untyped-call]


def scaled_gradient(name: str, factor: float) -> Plant:
    """Scale the gradient of one tensor."""

    def plant(workload: Any) -> None:  # noqa: ANN401 - as above
        build = workload.build_model

        def built() -> nn.Module:
            model: nn.Module = build()
            hooked(model, name, lambda gradient: gradient * factor)
            return model

        workload.build_model = built

    return plant


def shifted_bf16_gradient(name: str) -> Plant:
    """Turn the gradient of one tensor round, in bf16 alone."""

    def plant(workload: Any) -> None:  # noqa: ANN401 - as above
        forward = workload.forward

        def run(model: nn.Module, batch: object) -> Tensor:
            low = torch.is_autocast_enabled("cpu")
            if low and not getattr(workload, "planted", False):
                workload.planted = True
                hooked(model, name, lambda gradient: gradient.roll(1, 0))
            outputs: Tensor = forward(model, batch)
            return outputs

        workload.forward = run

    return plant


def other_learning_rate(factor: float) -> Plant:
    """Scale the optimizer's learning rate, which no gradient tells of."""

    def plant(workload: Any) -> None:  # noqa: ANN401 - as above
        build = workload.build_optimizer

        def built(model: nn.Module) -> torch.optim.Optimizer:
            optimizer: torch.optim.Optimizer = build(model)
            for group in optimizer.param_groups:
                group["lr"] *= factor
            return optimizer

        workload.build_optimizer = built

    return plant


def frozen(name: str) -> Plant:
    """Compute no gradient of one tensor."""

    def plant(workload: Any) -> None:  # noqa: ANN401 - as above
        build = workload.build_model

        def built() -> nn.Module:
            model: nn.Module = build()
            model.get_parameter(name).requires_grad_(False)
            return model

        workload.build_model = built

    return plant


def left_out(name: str) -> Plant:
    """Compute the gradient of one tensor, and leave it out of the optimizer."""

    def plant(workload: Any) -> None:  # noqa: ANN401 - as above
        build = workload.build_optimizer

        def built(model: nn.Module) -> torch.optim.Optimizer:
            optimizer: torch.optim.Optimizer = build(model)
            out = model.get_parameter(name)
            for group in optimizer.param_groups:
                group["params"] = [each for each in group["params"] if each is not out]
            return optimizer

        workload.build_optimizer = built

    return plant


def infinite_gradient_of_build(number: int) -> Plant:
    """Let the gradients of the model that is built so many-eth be infinite, from 1."""

    def plant(workload: Any) -> None:  # noqa: ANN401 - as above
        build, built = workload.build_model, itertools.count(1)

        def next_model() -> nn.Module:
            model: nn.Module = build()
            if next(built) == number:
                hooked(model, "decoder.weight", lambda gradient: gradient * math.inf)
            return model

        workload.build_model = next_model

    return plant


def measured(
    name: str,
    plant: Plant = nothing,
    told: list[Progress] | None = None,
    plant_in_plain: Plant = nothing,
    **knobs: Scalar,
) -> Result:
    manifest = CATALOG.workloads[name]
    plain = {**defaults_of(manifest.knobs), **SMALL}
    build = resolve(str(manifest.builder))
    stack = defaults_of(CATALOG.stacks["torch"].knobs)
    run = {"steps": STEPS, "gradient_batches": BATCHES}
    given = {n: v for n, v in knobs.items() if n in plain}
    workload = build(**{**plain, **given})
    plant(workload)
    model = build(**plain)
    plant_in_plain(model)
    said: list[Progress] = [] if told is None else told
    return run_beside(model, workload, TorchEager, {**stack, **run, **knobs}, said.append)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("workload", ["lstm", "transformer_encoder"])
def test_what_trains_as_plain_fp32_is_valid(workload: str, precision: str) -> None:
    result = measured(workload, precision=precision, fused_optimizer=True)
    assert result.validity is Validity.VALID, result.reasons
    assert len(result.metrics["loss"].samples) == STEPS
    deviation = result.metrics["loss_deviation"]
    assert deviation.drawn == (deviation.value,), "the mean, also where a ranking takes a median"
    facts = result.environment
    assert isinstance(facts["loss_band_used"], float)
    assert facts["loss_band_used"] < 1
    assert ("gradient_scale_off_bf16" in facts) == (precision == "bf16")
    assert undeclared(facts, {}) == []


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_gradient_of_one_tensor_that_is_off_by_1_percent_is_invalid(precision: str) -> None:
    plant = scaled_gradient("decoder.weight", 1.01)
    result = measured("lstm", plant, precision=precision)
    assert result.validity is Validity.INVALID
    (reason,) = result.reasons
    assert reason.startswith("in fp32, the gradient of decoder.weight is 1.01 times the plain")


@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_a_gradient_that_is_no_number_is_invalid(factor: float) -> None:
    result = measured("lstm", scaled_gradient("decoder.weight", factor), precision="fp32")
    assert result.validity is Validity.INVALID
    seen = f"the gradient of decoder.weight is {factor} times the plain model's"
    assert seen in result.reasons[0]
    assert result.environment["gradient_scale_off_fp32"] is None
    assert undeclared(result.environment, {}) == []


def test_a_tensor_that_the_plain_model_does_not_train_is_named() -> None:
    result = measured("lstm", plant_in_plain=frozen("decoder.bias"), precision="fp32")
    assert result.validity is Validity.INVALID
    seen = "in fp32, the gradient of decoder.bias is inf times the plain model's"
    assert result.reasons[0].startswith(seen)
    assert result.environment["gradient_scale_off_fp32"] is None
    assert undeclared(result.environment, {}) == []


def test_a_gradient_that_no_optimizer_uses_is_right() -> None:
    frozen_bias = frozen("decoder.bias")
    result = measured("lstm", left_out("decoder.bias"), plant_in_plain=frozen_bias)
    assert result.validity is Validity.VALID, result.reasons


def test_a_gradient_that_is_wrong_in_bf16_alone_is_invalid() -> None:
    result = measured("lstm", shifted_bf16_gradient("decoder.weight"), precision="bf16")
    assert result.validity is Validity.INVALID
    assert "in bf16, the gradient of decoder.weight" in result.reasons[0]


def test_a_training_that_leaves_the_band_says_at_which_step() -> None:
    result = measured("transformer_encoder", other_learning_rate(1.5))
    assert result.validity is Validity.INVALID
    (reason,) = result.reasons
    assert reason.startswith("the loss of step ")
    step = int(reason.split()[4])
    assert 2 <= step <= STEPS, "the first loss is that of the same weights"


def test_a_nudged_training_that_diverges_is_no_measure_of_drift() -> None:
    result = measured("lstm", plant_in_plain=infinite_gradient_of_build(2))
    assert result.validity is Validity.INVALID
    (reason,) = result.reasons
    assert reason.startswith(f"the plain model's own loss of step 2 of {STEPS} is nan in 1 of 2 ")
    assert isinstance(result.environment["loss_band_used"], float)


def test_a_plain_training_that_diverges_gives_nothing_to_follow() -> None:
    result = measured("lstm", plant_in_plain=infinite_gradient_of_build(1))
    assert result.validity is Validity.INVALID
    assert any("the plain model's own loss of step 2" in reason for reason in result.reasons)
    assert result.environment["loss_band_used"] is None
    assert undeclared(result.environment, {}) == []


def test_every_nudge_is_another_and_comes_again() -> None:
    manifest = CATALOG.workloads["lstm"]
    plain = resolve(str(manifest.builder))(**{**defaults_of(manifest.knobs), **SMALL})
    pupil: Pupil[Any, Any] = Pupil(plain, TorchEager(PLAIN))
    first, second, again = (list(pupil.nudged_losses(3, 1e-3, seed)) for seed in (1, 2, 1))
    assert first != second
    assert first == again


@pytest.mark.parametrize(("plant", "nudges"), [(nothing, 1), (other_learning_rate(1.5), NUDGES)])
def test_progress_counts_every_step_of_all_trainings(plant: Plant, nudges: int) -> None:
    told: list[Progress] = []
    result = measured("lstm", plant, told)
    assert result.environment["nudged_trainings"] == nudges
    assert (told[-1].done, told[-1].total) == (BATCHES + (2 + nudges) * STEPS,) * 2
    assert [one.done for one in told] == list(range(1, told[-1].total + 1))
    assert all(one.done <= one.total for one in told)
    assert list(dict.fromkeys(one.phase for one in told)) == [
        "gradients in fp32",
        "plain",
        "training",
        "plain, nudged",
    ]


def test_only_this_scenario_builds_the_plain_model_too() -> None:
    knobs: dict[str, Scalar] = {"fused_optimizer": True, "seed": 3}
    full = {**defaults_of(CATALOG.workloads["lstm"].knobs), **knobs}
    cell = Cell(
        workload="lstm", stack="torch", scenario="training_accuracy", knobs=full, selector="any"
    )
    program = program_of(cell, CATALOG)
    assert program.type == "training"
    assert program.arguments == full
    assert program.plain == {**full, "fused_optimizer": False}
    trained = program_of(cell.model_copy(update={"scenario": "training"}), CATALOG)
    assert trained.type == "training"
    assert trained.plain is None


def test_a_mode_of_the_whole_process_is_not_compared() -> None:
    never: Any = None
    with pytest.raises(WorkerFault, match="flush_denormals: it is a mode of the whole process"):
        run_beside(never, never, never, {"flush_denormals": True}, lambda _: None)
