"""Steps that wait for their batches, loading alone, and the workload that reads images."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
import torch

from agents.backends.torch_eager.backend import TorchEager
from agents.host import cpu_watch
from agents.host.cpu_watch import CpuTimes
from agents.host.strain import Reading
from agents.profiling.capture import capture
from agents.scenarios import data_loading, training
from agents.worker import failure_of
from controller.contracts.base import Scalar
from controller.contracts.errors import WorkerFault
from controller.contracts.facts import undeclared
from controller.contracts.manifests import defaults_of
from controller.contracts.result import Blame, Environment, Result, Validity
from controller.contracts.units import Unit
from controller.profiles.model import LOAD
from controller.profiles.reading import read_trace
from models.images.errors import DataUnusable
from models.images.loading import ImageLoader
from models.retinanet.data import DetectionBatch
from models.retinanet.images import RetinaNetImages
from models.training import loader_of
from tests.support.cells import CATALOG
from tests.support.image_sets import loading, write
from tests.support.knobs import scenario_knobs, workload_arguments
from tests.support.workloads import Line, Plain, losses_on_one_batch

SMALL: dict[str, Scalar] = {"image_size": 96, "batch_size": 2, "num_classes": 2, "data": "small"}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the machine be quiet, whatever else runs on it."""
    monkeypatch.setattr(cpu_watch, "read_cpu_times", CpuTimes)
    monkeypatch.setattr(cpu_watch, "read_strain", Reading)
    monkeypatch.setattr(training, "product_flops", lambda _: 2e11)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")


class Loaded:
    """A loader whose processes have used a second more at each question."""

    def __init__(self) -> None:
        self.workers, self.ahead = 1, 0
        self._seconds = count(1.0)

    def cpu_s(self) -> float:
        return next(self._seconds)

    def facts(self) -> Environment:
        return {"data_images": 7}


class Waiting(Line):
    """Takes a clock's 5 s to load a batch."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.loader, self._clock = Loaded(), clock

    def batch(self, step: int) -> torch.Tensor:
        self._clock.now += 5.0
        return super().batch(step)


class InBursts(Waiting):
    """Loads by four processes: takes a clock's 20 s to load a batch, and three more with it."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.loader.workers = 4

    def batch(self, step: int) -> torch.Tensor:
        self._clock.now += 15.0 if step % 4 == 0 else -5.0
        return super().batch(step)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Queued(Waiting):
    """Loads by processes that take so many seconds of a clock a batch, two ahead each."""

    def __init__(self, clock: Clock, workers: int, seconds: float) -> None:
        super().__init__(clock)
        self.loader.workers, self.loader.ahead = workers, 2 * workers
        self._seconds = seconds
        self._loaded: list[float] = []
        self._taken: list[float] = []

    def batch(self, step: int) -> torch.Tensor:
        former, free = step - self.loader.workers, step - self.loader.ahead
        begun = max(
            self._loaded[former] if former >= 0 else 0.0, self._taken[free] if free >= 0 else 0.0
        )
        self._loaded.append(begun + self._seconds)
        self._clock.now = max(self._clock.now, self._loaded[step])
        self._taken.append(self._clock.now)
        return Line.batch(self, step)


class Quick(Plain):
    """Takes a clock's 0.2 s for a step, but 20 s for the first."""

    clock: Clock

    def step(self, *arguments: object) -> float:
        self.clock.now += 0.2 if self.clock.now > 20 else 20.0
        return super().step(*arguments)  # type: ignore[arg-type]


class Timed(Plain):
    """Takes a clock's 15 s for a step."""

    clock: Clock

    def step(self, *arguments: object) -> float:
        self.clock.now += 15.0
        return super().step(*arguments)  # type: ignore[arg-type]


def trained(
    workload: Line, clock: Clock, monkeypatch: pytest.MonkeyPatch, steps: int = 3
) -> Result:
    monkeypatch.setattr("agents.scenarios.training.time.perf_counter", clock)
    knobs = scenario_knobs("training", warmup_steps=2, steps=steps)
    backend = Timed(knobs)
    backend.clock = clock
    return training.run(workload, backend, knobs, lambda _: None)


def test_a_step_that_waits_for_its_batch_has_the_wait_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    result = trained(Waiting(clock), clock, monkeypatch)
    assert result.metrics["step_time"].samples == (20.0, 20.0, 20.0)
    assert result.metrics["load_wait"].samples == (5.0, 5.0, 5.0), "the warm-up's are not counted"
    assert result.metrics["load_wait"].unit is Unit.SECONDS
    assert result.metrics["throughput"].value == 4 / 20
    assert result.environment["load_share"] == 0.25
    assert result.environment["data_images"] == 7
    assert undeclared(result.environment, {}) == ["backend"]


def test_of_batches_that_arrive_together_the_wait_for_the_first_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    result = trained(InBursts(clock), clock, monkeypatch, steps=9)
    assert result.metrics["step_time"].samples == pytest.approx((20.0,) * 4 + (19.0,) * 5)
    assert result.metrics["load_wait"].samples == pytest.approx((5.0,) * 4 + (4.0,) * 5)
    assert result.environment["load_share"] == pytest.approx(40 / 175, abs=1e-4)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_batches_that_were_loaded_while_nothing_was_timed_do_not_count(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader gives two batches a second, however many it has at the beginning."""
    clock = Clock()
    monkeypatch.setattr("agents.scenarios.training.time.perf_counter", clock)
    knobs = scenario_knobs("training", warmup_steps=3, steps=8)
    backend = Quick(knobs)
    backend.clock = clock
    workload = Queued(clock, workers, 0.5 * workers)
    result = training.run(workload, backend, knobs, lambda _: None)
    assert result.metrics["step_time"].samples == pytest.approx((0.5,) * 8)
    assert result.environment["load_share"] == pytest.approx(0.6)


def test_the_first_batches_of_several_processes_are_no_throughput(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr("agents.scenarios.data_loading.time.perf_counter", clock)
    knobs = scenario_knobs("data_loading", warmup_steps=3, steps=6)
    workload = Queued(clock, 4, 2.0)
    result = data_loading.run(workload, Plain(knobs), knobs, lambda _: None)
    assert result.metrics["throughput"].value == pytest.approx(2 * workload.batch_size)
    assert result.metrics["load_wait"].samples == pytest.approx((0.5,) * 8), "two whole rounds"


@pytest.mark.parametrize(
    ("count", "together", "samples"),
    [
        (0, 2, ()),
        (3, 1, (0, 1, 2)),
        (4, 2, (0.5, 0.5, 2.5, 2.5)),
        (5, 2, (0.5, 0.5, 3, 3, 3)),
        (3, 4, (1,) * 3),
        (7, 4, (3,) * 7),
        (8, 4, (1.5,) * 4 + (5.5,) * 4),
    ],
)
def test_means_of_what_comes_together(
    count: int, together: int, samples: tuple[float, ...]
) -> None:
    assert training.evened([float(n) for n in range(count)], together) == samples


def test_a_step_whose_batch_is_in_memory_says_nothing_of_loading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = trained(Line(), Clock(), monkeypatch)
    assert result.metrics["step_time"].samples == (15.0, 15.0, 15.0)
    assert "load_wait" not in result.metrics
    assert "load_share" not in result.environment


def test_batches_of_a_comparison_have_the_wait_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("agents.scenarios.training.time.perf_counter", clock)
    monkeypatch.setattr(training, "come_to_rest", lambda _: None)
    backend = Timed(knobs := scenario_knobs("training"))
    backend.clock = clock
    result = training.run_batches(Waiting(clock), backend, knobs, [2, 1], lambda _: None)
    assert result.metrics["step_time"].samples == (20.0,) * 3
    assert result.metrics["load_wait"].samples == (5.0,) * 3


def images(root: Path, **given: Scalar) -> RetinaNetImages:
    arguments = workload_arguments("retinanet_images", **{**SMALL, **given})
    return RetinaNetImages(**arguments, root=root)


def backend() -> TorchEager:
    return TorchEager(defaults_of(CATALOG.stacks["torch"].knobs))


def load(root: Path, **given: Scalar) -> Result:
    knobs = scenario_knobs("data_loading", warmup_steps=1, steps=4)
    return data_loading.run(images(root, **given), backend(), knobs, lambda _: None)


def test_loading_alone_is_images_a_second(tmp_path: Path) -> None:
    write(tmp_path)
    result = load(tmp_path)
    waits = result.metrics["load_wait"].samples
    assert result.validity is Validity.VALID
    assert result.metrics["throughput"].value == pytest.approx(8 / sum(waits))
    assert len(waits) == 4
    assert undeclared(result.environment, {}) == []


def test_loading_is_refused_where_batches_are_in_memory(tmp_path: Path) -> None:
    with pytest.raises(WorkerFault, match="batches are in memory") as raised:
        load(tmp_path, data="synthetic")
    assert raised.value.failure.blame is Blame.USER


def test_retinanet_learns_from_a_batch_of_files(tmp_path: Path) -> None:
    write(tmp_path)
    workload = images(tmp_path)
    losses = losses_on_one_batch(workload, workload.build_model(), steps=2)
    assert losses[-1] < losses[0]
    assert workload.batch(0).images.shape == (2, 3, 96, 96)
    assert not hasattr(workload, "share"), "each rank would load all of it"


def test_synthetic_data_is_in_memory(tmp_path: Path) -> None:
    workload = images(tmp_path, data="synthetic")
    assert workload.loader is None
    assert isinstance(workload.batch(5), DetectionBatch)
    assert list(tmp_path.iterdir()) == []


def test_the_users_data_is_the_users_to_blame(tmp_path: Path) -> None:
    with pytest.raises(DataUnusable) as raised:
        loader_of(images(tmp_path, data="nowhere"))
    failure = failure_of(raised.value)
    assert failure.blame is Blame.USER
    assert failure.message == (
        f"cannot read {tmp_path}/nowhere: knob data: there is no such folder. Put the data set "
        f"there, or a link to it. A host's folder of data is {tmp_path}."
    )


def test_a_folder_that_can_not_be_written_names_the_knob(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataUnusable, match="knob data: the set made can't be made in it: Not a"):
        loader_of(images(tmp_path / "file" / "data", data="made"))


class Coloured(Line):
    """Predicts a colour that images don't have, by one convolution."""

    def __init__(self, loader: ImageLoader) -> None:
        super().__init__(batch_size=2)
        self.loader = loader

    def build_model(self) -> torch.nn.Module:
        return torch.nn.Conv2d(3, 3, 3)

    def batch(self, step: int) -> torch.Tensor:
        return self.loader.batch(step).images

    def loss(self, outputs: torch.Tensor, batch: torch.Tensor) -> torch.Tensor:
        return (outputs.float() - 2).square().mean()


def test_loading_is_a_phase_of_the_profile(tmp_path: Path) -> None:
    write(tmp_path)
    knobs = scenario_knobs("training", warmup_steps=1, steps=1)
    with loading(tmp_path, workers=1) as loader:
        found = capture(Coloured(loader), backend(), knobs, tmp_path, lambda _: None)
    assert "load_wait" in found.metrics
    (trace,) = (Path(path) for name, path in found.artefacts.items() if name == "trace")
    read = read_trace(trace).found
    waited = sum(spent.self_s for place, spent in read.kernels.items() if place.phase == LOAD)
    assert waited > 0
    assert sum(read.steps) == pytest.approx(
        sum(spent.self_s for spent in read.kernels.values()), rel=0.05
    )
