"""Sweeps as they come out of the store, whole and with raw samples; nothing of it was measured."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from controller.contracts.base import Scalar
from controller.contracts.catalog import Catalog
from controller.contracts.device import DeviceKind
from controller.contracts.manifests import Knob, QualityTarget, ScenarioManifest, WorkloadManifest
from controller.contracts.policy import HostLimits
from controller.contracts.records import StoredFailure, StoredResult, SweepRecord
from controller.contracts.result import Blame, Measurement, Validity
from controller.contracts.sweep import Sweep
from controller.contracts.units import Unit
from controller.reports.views.common import Made
from controller.reports.views.sweep import SweepData

LAB = HostLimits(enforced=True, most_other_cores=0.15, most_steal_share=0.02)
MADE = Made(at=1_800_000_000.0, version="9.9.9", lab=LAB)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
TARGET = 0.7


def catalog(workloads: int = 10) -> Catalog:
    """Return workloads w0 … that train (even) or answer queries (odd), with three scenarios."""
    size = Knob(type="int", default=1, description="what is computed")
    numerics = Knob(type="str", default="fp32", description="number format")
    return Catalog(
        workloads={
            f"w{n}": WorkloadManifest(
                name=f"w{n}",
                title=f"Workload {n}",
                task="",
                reference="",
                scenarios=("training", "single_stream", "offline"),
                quality_target=QualityTarget(metric="top1", value=TARGET),
                knobs={"size": size, "numerics": numerics},
            )
            for n in range(workloads)
        },
        stacks={},
        scenarios={
            "training": _scenario("training", "step_time"),
            "single_stream": _scenario("single_stream", "latency_p90"),
            "offline": _scenario("offline", "throughput"),
        },
        launch={},
    )


@dataclass(frozen=True)
class SweepExample:
    """A sweep of some workloads on some devices; device n is a bit slower than device n - 1."""

    devices: int = 3
    virtual: int = 0
    workloads: int = 2
    repeats: int = 3
    samples: int = 40
    seed: int = 0
    name: str = "made-up"
    baseline: Mapping[str, Scalar] = field(default_factory=dict)
    numbers: random.Random = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", random.Random(self.seed))

    def data(
        self, results: Sequence[StoredResult] | None = None, failures: Sequence[StoredFailure] = ()
    ) -> SweepData:
        """Return the sweep with its own results, or with others."""
        sweep = Sweep.model_validate(
            {
                "name": self.name,
                "description": f"Not a script: {HOSTILE}",
                "workload": [f"w{n}" for n in range(self.workloads)],
                "stack": "torch",
                "scenario": ["training", "single_stream"],
                "repeats": self.repeats,
                "baseline": dict(self.baseline),
            }
        )
        record = SweepRecord(
            sweep_id=f"{self.name}-1", sweep=sweep, generation=1, submitted_at=1_799_990_000.0
        )
        measured = list(self.results()) if results is None else results
        return SweepData(record=record, runs=(), results=measured, failures=failures)

    def results(self) -> Iterator[StoredResult]:
        """Yield every result, VALID all of them."""
        for workload in range(self.workloads):
            for device in range(self.devices + self.virtual):
                for repeat in range(self.repeats):
                    yield self._result(workload, device, repeat)

    def _result(self, workload: int, device: int, repeat: int) -> StoredResult:
        seconds = 0.01 * (1 + workload) * (1 + 0.1 * device)
        times = tuple(seconds * self.numbers.lognormvariate(0, 0.05) for _ in range(self.samples))
        training = workload % 2 == 0
        return result(
            workload=f"w{workload}",
            device=f"device-{device:02}",
            virtual=device >= self.devices,
            repeat=repeat,
            sweep_id=f"{self.name}-1",
            scenario="training" if training else "single_stream",
            metrics=trained(times) if training else queried(times),
            environment={
                "cpu_model": f"Processor {device % 3}",
                "memory_bytes": 2**35,
                "isa": ("avx2", "avx512f") if device % 2 else ("avx2", "amx_bf16"),
                "load_before": self.numbers.random(),
                "torch": "2.13.0",
                "governor": None,
            },
        )


def trained(times: tuple[float, ...]) -> dict[str, Measurement]:
    """Return what a training run with these step times measures."""
    return {
        "step_time": Measurement.of_samples(times, Unit.SECONDS),
        "throughput": Measurement.of_samples(tuple(2 / t for t in times), Unit.IMAGES_PER_SECOND),
        "loss": Measurement(value=1.8, unit=Unit.LOSS),
        "peak_memory": Measurement(value=2.0**30, unit=Unit.BYTES),
    }


def queried(times: tuple[float, ...], top1: float = 0.75) -> dict[str, Measurement]:
    """Return what a single-stream run with these latencies measures."""
    ordered = sorted(times)
    percentiles = {f"latency_p{p}": ordered[len(ordered) * p // 100] for p in (50, 90, 99)}
    return {
        **{n: Measurement(value=v, unit=Unit.SECONDS) for n, v in percentiles.items()},
        "latency": Measurement.of_samples(times, Unit.SECONDS),
        "top1": Measurement(value=top1, unit=Unit.FRACTION),
        "peak_memory": Measurement(value=2.0**28, unit=Unit.BYTES),
    }


def result(**changes: object) -> StoredResult:
    """Return a VALID result of a training run, changed by keyword."""
    own: dict[str, object] = {
        "validity": Validity.VALID,
        "reasons": (),
        "metrics": trained((0.5, 0.5, 0.5)),
        "environment": {},
        "artefacts": {},
    }
    return StoredResult.model_validate(_origin(changes) | own | changes)


def repeats(device: str, *times: tuple[float, ...], **changes: object) -> list[StoredResult]:
    """Return training runs of one cell on one device, one for each sequence of step times."""
    return [
        result(device=device, repeat=n, metrics=trained(of), **changes)
        for n, of in enumerate(times)
    ]


def failure(**changes: object) -> StoredFailure:
    """Return a failure that the workload is to blame for, changed by keyword."""
    own: dict[str, object] = {
        "blame": Blame.WORKLOAD,
        "kind": "exit",
        "message": "boom",
        "output": "",
        "exit_code": 1,
        "signal": None,
    }
    return StoredFailure.model_validate(_origin(changes) | own | changes)


def _origin(changes: dict[str, object]) -> dict[str, object]:
    knobs = {"size": 1, "precision": "fp32"} | dict(changes.pop("knobs", None) or {})  # type: ignore[call-overload]
    own: dict[str, object] = {
        "sweep_id": "made-up-1",
        "repeat": 0,
        "attempt": 1,
        "device": "device-00",
        "device_kind": DeviceKind.CPU_HOST,
        "virtual": False,
        "workload": "w0",
        "stack": "torch",
        "scenario": "training",
        "started_at": 1_799_995_000.0,
        "counted": True,
    }
    whole = own | changes
    key = "-".join(
        map(str, (whole["workload"], whole["stack"], whole["scenario"], *knobs.values()))
    )
    run = f"{key}-{whole['device']}-{whole['repeat']}"
    return {"run_id": run, "cell_key": key, "knobs": knobs, **own}


def _scenario(name: str, metric: str) -> ScenarioManifest:
    return ScenarioManifest(name=name, title=f"Scenario {name}", metric=metric)
