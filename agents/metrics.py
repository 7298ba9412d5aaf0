"""The metrics of an agent: its current runs, and its devices' last conditions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from agents.phones.conditions import THERMAL_STATUS
from controller.contracts.base import Scalar
from controller.contracts.wire import AttemptRef, Job, Progress
from controller.metrics import names
from controller.metrics.families import Gauge, Sample

EXPORTED = (
    *(names.RUN_PROGRESS, names.RUN_STEPS, names.RUN_QUERIES, names.RUN_LOSS),
    *(names.DEVICE_TEMPERATURE, names.DEVICE_BATTERY, names.DEVICE_THERMAL_STATUS),
)
"""All metrics of an agent, also those without a series now."""
_CELSIUS = "celsius_"
_BATTERY = "battery"
Conditions = Mapping[str, Scalar]
"""Facts by name, as agents/phones/conditions.py reads them."""


def live_values(progress: Progress) -> dict[names.Metric, float]:
    """Return the gauges in a run's progress."""
    said = progress.values
    values = {names.RUN_PROGRESS: progress.done / progress.total} if progress.total > 0 else {}
    if said.get("step_time", 0.0) > 0:
        values[names.RUN_STEPS] = 1 / said["step_time"]
    if "throughput" in said:
        values[names.RUN_QUERIES] = said["throughput"]
    if "loss" in said:
        values[names.RUN_LOSS] = said["loss"]
    return values


def condition_samples(device: str, facts: Conditions) -> Iterator[tuple[names.Metric, Sample]]:
    """Yield a device's conditions as gauges; missing ones are left out."""
    for name, value in facts.items():
        if isinstance(value, str):
            if name == "thermal_status" and value in THERMAL_STATUS:
                status = float(THERMAL_STATUS.index(value))
                yield names.DEVICE_THERMAL_STATUS, ((device,), status)
        elif name == "battery_percent":
            yield names.DEVICE_BATTERY, ((device,), value / 100)
        elif name == "battery_celsius":
            yield names.DEVICE_TEMPERATURE, ((device, _BATTERY), value)
        elif name.startswith(_CELSIUS) and not (
            name == f"{_CELSIUS}{_BATTERY}" and "battery_celsius" in facts
        ):  # a series occurs once, and the battery service says the same
            yield names.DEVICE_TEMPERATURE, ((device, name.removeprefix(_CELSIUS)), value)


@dataclass(frozen=True, slots=True)
class _LiveRun:
    labels: tuple[str, ...]
    values: Mapping[names.Metric, float]


class AgentMetrics:
    """The state of the exported metrics; gauges are computed only at a scrape."""

    def __init__(self) -> None:
        self._runs: dict[AttemptRef, _LiveRun] = {}
        self._conditions: dict[str, Conditions] = {}

    def progressed(self, job: Job, progress: Progress, *, emulated: bool = False) -> None:
        """Set a run's newest progress; for an emulated device, only its share done."""
        labels = (job.device_id, job.workload, job.stack, job.scenario)
        values = live_values(progress)
        if emulated:
            values = {m: value for m, value in values.items() if m is names.RUN_PROGRESS}
        self._runs[job.ref] = _LiveRun(labels, values)

    def ended(self, ref: AttemptRef) -> None:
        """Forget a run; its series are gone at the next scrape."""
        self._runs.pop(ref, None)

    def read(self, device: str, facts: Conditions) -> None:
        """Set a device's conditions."""
        self._conditions[device] = facts

    def keep(self, devices: Collection[str]) -> None:
        """Forget the conditions of all other devices."""
        self._conditions = {id_: it for id_, it in self._conditions.items() if id_ in devices}

    def gauges(self) -> tuple[Gauge, ...]:
        """Return the gauges to export now; later changes don't affect them."""
        samples: defaultdict[names.Metric, list[Sample]] = defaultdict(list)
        for run in self._runs.values():
            for metric, value in run.values.items():
                samples[metric].append((run.labels, value))
        for device, facts in self._conditions.items():
            for metric, sample in condition_samples(device, facts):
                samples[metric].append(sample)
        return tuple(Gauge(metric, samples[metric]) for metric in EXPORTED)
