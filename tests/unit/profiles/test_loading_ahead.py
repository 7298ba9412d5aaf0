"""Batches that are loaded while nothing runs: no step that is counted has one of these."""

from __future__ import annotations

import json
import mmap
from pathlib import Path

import pytest
import torch
from torch.profiler import profile

from agents.backends.torch_eager.backend import TorchEager
from agents.profiling import capture as capturing
from agents.profiling.counting import count
from agents.profiling.perf_stat import Perf, probe
from controller.contracts.counters import Counters
from controller.contracts.result import Environment
from tests.support.fake_perf import SAPPHIRE_RAPIDS, fake_perf
from tests.support.profiled_model import KNOBS, Workload
from tests.unit.profiles.test_counting import LEVEL_2, PAGES, STEPS, untouched

WARMUP, AHEAD = 1, 3


class Loader:
    """A process that has loaded some batches whenever nothing runs."""

    workers, ahead = 1, AHEAD

    def cpu_s(self) -> float:
        return 0.0

    def facts(self) -> Environment:
        return {}


class Loading(Workload):
    """A workload that waits for its batches, and maps fresh memory for those loaded ahead."""

    loader = Loader()

    def __init__(self) -> None:
        self.asked: list[int | str] = []

    def batch(self, step: int) -> torch.Tensor:
        self.asked.append(step)
        if WARMUP <= step < WARMUP + AHEAD:
            untouched(PAGES * mmap.PAGESIZE)[:: mmap.PAGESIZE] = bytes(PAGES)
        return super().batch(step)


def test_no_counted_step_has_a_batch_that_was_loaded_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # which a worker's environment tells
    log = fake_perf(tmp_path, {LEVEL_2: (SAPPHIRE_RAPIDS, "", 0)})
    perf = probe(str(tmp_path))
    assert isinstance(perf, Perf)
    workload = Loading()
    done = count(workload, TorchEager(KNOBS), KNOBS, tmp_path, lambda _: None, lambda: perf)
    found = Counters.model_validate_json(Path(done.artefacts["counters"]).read_text())
    (load,) = (told for told in found.phases if told.phase == "load")
    assert load.minor_faults < PAGES * 0.1
    # Those that the kernel counts, those of whole steps, and those of each phase.
    assert workload.asked == [*range(WARMUP + 3 * (AHEAD + STEPS))]
    orders = {name: rest for name, *rest in map(json.loads, log.read_text().splitlines())}
    assert orders["topdown-load"] == ["enable", "disable"] * STEPS
    assert orders["topdown-step"] == ["enable", "disable"], "loading is a part of the step"


def test_no_traced_step_has_a_batch_that_was_loaded_while_the_profiler_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first start of torch.profiler in a process takes a second."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    workload = Loading()

    class Noting(profile):
        def start(self) -> None:
            workload.asked.append("profiler")
            super().start()

    monkeypatch.setattr(capturing, "profile", Noting)
    capturing.capture(workload, TorchEager(KNOBS), KNOBS, tmp_path, lambda _: None, 1)
    assert workload.asked == [0, "profiler", 1, 2, 3, "profiler", *range(4, 5 + STEPS)]
