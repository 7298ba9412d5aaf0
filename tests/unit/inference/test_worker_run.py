"""LoadGen in a worker: what it asks of stack and model, and which rules its results break."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from agents.backends.torch_eager.backend import TorchEager
from agents.inference.worker_run import TorchSystem, _spec_of, rules_missed, run
from controller.contracts.base import Scalar
from controller.contracts.errors import WorkerFault
from controller.contracts.result import Blame, Measurement, Result, Validity
from controller.contracts.units import Unit
from controller.contracts.wire import Job, TrainingProgram, WorkerSpec
from tests.support import builders
from tests.support.knobs import launch_knobs, scenario_knobs


class Doubling:
    """An InferenceWorkload that notes how its model is called."""

    batch_size = 4

    def __init__(self) -> None:
        self.seen: list[tuple[bool, bool, bool]] = []
        """Of each call: training mode, inference mode, autocast."""

    def build_model(self) -> nn.Module:
        model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(model.weight, 2.0)
        model.register_forward_pre_hook(lambda model, _: self._note(model))
        return model

    def samples(self, count: int) -> Tensor:
        return torch.arange(1.0, count + 1).unsqueeze(1)

    def arguments(self, samples: Tensor) -> tuple[Tensor]:
        return (samples,)

    def answers(self, outputs: Tensor) -> list[Tensor]:
        self._note()
        return list(outputs.float())

    def _note(self, model: nn.Module | None = None) -> None:
        training = model.training if model else False
        autocast = torch.is_autocast_enabled("cpu")
        self.seen.append((training, torch.is_inference_mode_enabled(), autocast))


def job_of(scenario: str, **knobs: Scalar) -> Job:
    program = TrainingProgram(
        builder="tests.support.workloads:Line",
        arguments={},
        backend="tests.support.workloads:Plain",
    )
    given = {**launch_knobs(), **scenario_knobs(scenario, **knobs)}
    update = {"program": program, "scenario": scenario, "knobs": given}
    return builders.job().model_copy(update=update)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_model_only_infers_in_the_stack_s_precision(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))
    backend = TorchEager({"precision": precision, "memory_format": "contiguous"})
    workload = Doubling()
    system = TorchSystem(workload, backend, workload.samples(1))
    data = workload.samples(3).numpy()
    answers = system.answers([system.prepare([each]) for each in data])
    assert [answer.tolist() for answer in answers] == [[2.0], [4.0], [6.0]]
    assert system.answer((data[1],)).tolist() == [4.0]
    bf16 = precision == "bf16"
    assert workload.seen == [(False, True, bf16), (False, True, False)] * 2
    assert all(answer.flags.c_contiguous and answer.dtype == np.float32 for answer in answers)


def test_a_stack_that_only_trains_is_refused(tmp_path: Path) -> None:
    job = job_of("single_stream")
    spec = WorkerSpec(job=job, device=builders.cpu(), artefact_dir=str(tmp_path))
    with pytest.raises(WorkerFault) as refused:
        run(spec, lambda _: None)
    assert refused.value.failure.blame is Blame.USER
    assert refused.value.failure.message.startswith(f"stack {job.stack} trains only.")


@pytest.mark.parametrize(
    ("scenario", "length", "queries", "ms", "at_once"),
    [
        ("single_stream", "rapid", 64, 6000, 1),
        ("single_stream", "normal", 1024, 60_000, 1),
        ("offline", "rapid", 64, 0, 64),
        ("offline", "normal", 24_576, 0, 24_576),
        ("multi_stream", "rapid", 662, 6000, 8),
        ("server", "rapid", 662, 6000, 1),
    ],
)
def test_loadgen_is_asked_for_what_it_is_on_a_device(
    scenario: str, length: str, queries: int, ms: int, at_once: int, tmp_path: Path
) -> None:
    spec = _spec_of(job_of(scenario, length=length), "performance", tmp_path, 4, 64)
    assert (spec.min_query_count, spec.min_duration_ms, spec.mode) == (queries, ms, "performance")
    assert spec.queried_at_once == at_once
    assert spec.watch_host


@pytest.mark.parametrize(
    ("scenario", "knobs", "seconds", "validity", "more"),
    [
        ("offline", {}, 600.0, Validity.VALID, ()),
        ("offline", {"length": "rapid"}, 600.0, Validity.VALID, ("length rapid",)),
        ("offline", {}, 599.0, Validity.VALID, ("shorter than 600 s",)),
        ("offline", {"policy": "ci"}, 600.0, Validity.VALID, ("policy ci",)),
        ("server", {}, 600.0, Validity.VALID, ("scenario server",)),
        (
            "offline",
            {"quality_target": 0.01},
            600.0,
            Validity.VALID,
            ("a quality target of the sweep's own",),
        ),
        ("offline", {}, 600.0, Validity.DISTURBED, ("DISTURBED",)),
    ],
)
def test_no_result_meets_the_run_rules_and_says_why(
    scenario: str,
    knobs: dict[str, Scalar],
    seconds: float,
    validity: Validity,
    more: tuple[str, ...],
) -> None:
    took = {"duration": Measurement(value=seconds, unit=Unit.SECONDS)}
    result = Result(validity=validity, reasons=("x",), metrics=took, environment={})
    wanted = {"length": "normal", "policy": "lab", **knobs}
    job = job_of(scenario, **wanted)
    missed = rules_missed(job, result, has_truths=False, was_scored=False)
    assert missed == ("random weights", "made-up samples", "accuracy not known", *more)
