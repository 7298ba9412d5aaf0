"""A made-up fleet of 1,000 devices with 50,000 newest results, served by the real exporters.

Nothing of it was ever measured. The same seed gives the same fleet; what lives (runs, heat) moves
with the clock.
"""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from prometheus_client import CollectorRegistry

from agents.metrics import AgentMetrics
from controller.contracts.base import Scalar
from controller.contracts.capability import Capability, Verdict
from controller.contracts.catalog import Catalog
from controller.contracts.device import (
    Agent,
    Device,
    DeviceKind,
    DeviceLife,
    Fact,
    Hold,
    RegisteredAgent,
    RegisteredDevice,
)
from controller.contracts.manifests import (
    Knob,
    QualityTarget,
    ScenarioManifest,
    StackManifest,
    WorkloadManifest,
)
from controller.contracts.profile import ProfileSummary, TopPrimitive
from controller.contracts.records import NewestResult
from controller.contracts.result import Blame, Failure, Measurement, Outcome, Result, Validity
from controller.contracts.run import Run, RunChange
from controller.contracts.sweep import Cell
from controller.contracts.units import Unit
from controller.contracts.wire import AttemptRef, Job, Progress, TrainingProgram
from controller.metrics.collector import FarmState, NewestOutcomes, farm_gauges
from controller.metrics.exporter import (
    LOOPBACK,
    Exposition,
    address_of,
    listening,
    serve_metrics,
)
from controller.metrics.newest import NewestCapabilities, NewestResults
from controller.metrics.observer import Observer
from controller.metrics.web_server import WebServer
from controller.scheduling.binding import runs_of
from controller.scheduling.device_life import device_status
from controller.scheduling.lifecycle import Cancelled, Event, Granted, LeaseLost, Reported, advance
from controller.scheduling.policy import RetryPolicy
from tests.support import builders

SEED = 4
HOSTS = 50
SERVERS, PHONES = 200, 800
RESULT_SERIES = 50_000
TRAINING = "retinanet_resnext50"
MOBILE = (
    "shapes_classifier",
    "image_classification",
    "object_detection",
    "segmentation",
    "super_resolution",
)
SERVER_MOBILE = MOBILE[:3]
UPSCALING = MOBILE[4]
"""Judged by PSNR, in decibels."""
MEASURED = {
    DeviceKind.CPU_HOST: (
        *((workload, "single_stream") for workload in MOBILE[:2]),
        (MOBILE[0], "offline"),
    ),
    DeviceKind.ANDROID: (
        *((workload, "single_stream") for workload in MOBILE),
        *((workload, "offline") for workload in MOBILE[:2]),
    ),
}
"""The mobile results of a device; offline is a scenario of classification alone."""
TRAINING_STACKS = (
    ("ipex", "bf16"),
    ("ipex", "fp32"),
    ("torch", "bf16"),
    ("torch", "fp32"),
    ("torch_compile", "bf16"),
)
CPUS = ("Intel Xeon Platinum 8480+", "Intel Xeon Platinum 8592+", "Intel Xeon 6980P")
MODELS = (("Pixel 8", "Tensor G3"), ("Galaxy S24", "SM8650"), ("Pixel 6a", "Tensor"))
QUALITY = 0.83
REPEATED = (1.01, 0.99)
"""Training steps are measured three times each; how the other two differ."""
BUSY_EVERY = 4
OFFLINE_EVERY = 97
QUARANTINED_EVERY = 83
QUARANTINED = DeviceLife(quarantine=Hold(since=1.0, who="controller", why="3 failures in a row"))
QUEUED = 300

NUMBERS = {
    "step_time": (0.2, Unit.SECONDS),
    "peak_memory": (1.2e9, Unit.BYTES),
    "loss": (1.8, Unit.LOSS),
    "latency_p50": (0.004, Unit.SECONDS),
    "latency_p90": (0.005, Unit.SECONDS),
    "latency_p99": (0.008, Unit.SECONDS),
    "energy": (0.02, Unit.JOULES_PER_QUERY),
}
SHARES = {
    "top1": (QUALITY - 0.002, 0.9),
    "reference_accuracy": (QUALITY, 0.9),
    "reference_agreement": (0.93, 1.0),
}
"""Metric → the least and the most that are made up."""
PSNR = 29.5
DECIBELS = {"PSNR": (PSNR - 0.1, 33.0), "reference_accuracy": (PSNR, 33.0)}
"""The same of what is upscaled."""
OF_MOBILE = (*SHARES, "peak_memory", "energy")
METRICS = {
    "training": ("step_time", "throughput", "peak_memory", "loss"),
    "single_stream": ("latency_p50", "latency_p90", "latency_p99", *OF_MOBILE),
    "offline": ("throughput", *OF_MOBILE),
}


@dataclass(frozen=True)
class GeneratedFleet:
    """The fleet, and what its controller and its agents export."""

    seed: int = SEED
    servers: int = SERVERS
    phones: int = PHONES

    @cached_property
    def catalog(self) -> Catalog:
        """What the fleet runs; the names of this release and of some to come."""
        cpu = (DeviceKind.CPU_HOST,)
        stacks = [
            StackManifest(
                name=name, title="", device_kinds=cpu, backend="x:Y", baseline=name == "torch"
            )
            for name in dict(TRAINING_STACKS)
        ]
        litert = StackManifest(
            name="litert",
            title="",
            device_kinds=(*cpu, DeviceKind.ANDROID),
            bundle="litert",
            baseline=True,
            knobs={"delegate": builders.DELEGATE},
        )
        ranked_by = {
            "training": "step_time",
            "single_stream": "latency_p90",
            "offline": "throughput",
        }
        return Catalog(
            workloads={name: _workload(name) for name in (TRAINING, *MOBILE)},
            stacks={stack.name: stack for stack in (*stacks, litert)},
            scenarios={
                name: ScenarioManifest(name=name, title="", metric=metric)
                for name, metric in ranked_by.items()
            },
            launch={},
        )

    @cached_property
    def agents(self) -> tuple[RegisteredAgent, ...]:
        """One a host; the last one is drained, and down."""
        return tuple(
            RegisteredAgent(
                agent=Agent(
                    id=f"host-{i:02}", incarnation="1", version="0.2.0", host=f"rack-{i:02}"
                ),
                online=i < HOSTS - 1,
                since=1.0,
                draining=None if i < HOSTS - 1 else Hold(since=1.0, who="ada", why="new fans"),
            )
            for i in range(HOSTS)
        )

    @cached_property
    def devices(self) -> tuple[RegisteredDevice, ...]:
        """Servers, then phones; every third phone is virtual, and some of all are offline."""
        described = [_server(i) for i in range(self.servers)]
        described += [_phone(i) for i in range(self.phones)]
        return tuple(
            RegisteredDevice(
                device=device,
                agent_id=f"host-{i % HOSTS:02}",
                online=i % HOSTS < HOSTS - 1 and i % OFFLINE_EVERY != 0,
                since=1.0,
                life=QUARANTINED if i % QUARANTINED_EVERY == 1 else DeviceLife(),
            )
            for i, device in enumerate(described)
        )

    @cached_property
    def results(self) -> NewestResults:
        """One newest result of each of a device's workloads, 52 values a phone and 42 a server."""
        numbers = random.Random(self.seed)
        return NewestResults(
            self.catalog,
            (result for known in self.devices for result in _results_of(known.device, numbers)),
        )

    @cached_property
    def capabilities(self) -> NewestCapabilities:
        """What XNNPACK came to on each device and task: works, falls back and fails in turn."""
        return NewestCapabilities(
            _capability(known.device, workload, place)
            for place, known in enumerate(self.devices)
            for workload in SERVER_MOBILE
        )

    @cached_property
    def open_runs(self) -> tuple[Run, ...]:
        """Every fourth device is busy, and more runs wait."""
        online = [known for known in self.devices if known.online]
        busy = online[::BUSY_EVERY]
        cells = [_cell(known.device, i) for i, known in enumerate(busy)]
        cells += [_cell(online[i % len(online)].device, i) for i in range(QUEUED)]
        sweep = builders.sweep(name="night", repeats=1)
        runs = runs_of(sweep, sweep.sweep_id(1), cells, now=time.time() - 600)
        leased = [_leased(run, known) for run, known in zip(runs, busy, strict=False)]
        return (*leased, *runs[len(busy) :])

    @cached_property
    def observer(self) -> Observer:
        """Has seen attempts end in every way there is."""
        observer = Observer()
        numbers = random.Random(self.seed)
        sweep = builders.sweep(name="past")
        cells = [_cell(known.device, i) for i, known in enumerate(self.devices[::10])]
        for i, run in enumerate(runs_of(sweep, sweep.sweep_id(1), cells, now=1000.0)):
            granted = _change(run, _grant(self.devices[i]), 1000.0 + numbers.uniform(0, 60))
            observer.observe(run, granted)
            lease = granted.run.attempts[-1].leased_at
            ended = _ended(granted.run, i, lease + numbers.uniform(2, 300))
            observer.observe(granted.run, ended)
        return observer

    def of_controller(self) -> Exposition:
        """Return what the controller exports now."""
        now = time.time()
        on = {run.lease.device_id: run for run in self.open_runs if run.lease}
        statuses = {d.device.id: device_status(d, now, on.get(d.device.id)) for d in self.devices}
        state = FarmState(now, self.agents, self.devices, self.open_runs, statuses)
        newest = NewestOutcomes(self.results.snapshot(), self.capabilities.snapshot())
        gauges = farm_gauges(state, newest, self.catalog)
        return Exposition(gauges, self.observer.registry)

    def of_agents(self) -> Exposition:
        """Return what all agents together export now; it moves with the clock."""
        now = time.time()
        metrics = AgentMetrics()
        for i, run in enumerate(run for run in self.open_runs if run.lease):
            metrics.progressed(_job(run), _progress(run, now + i))
        for i, known in enumerate(self.devices):
            if known.online:
                metrics.read(known.device.id, _conditions(known.device, now + i))
        return Exposition(metrics.gauges(), CollectorRegistry())


@dataclass(frozen=True, slots=True)
class Served:
    """Where a generated fleet's exporters listen, as HOST:PORT, and the token they ask for."""

    controller: str
    agents: str
    token_file: Path


@contextmanager
def served(fleet: GeneratedFleet, folder: Path) -> Iterator[Served]:
    """Serve a fleet over HTTP on free loopback ports, from an event loop in a thread."""
    token = "0123456789abcdef"
    token_file = folder / "metrics-token"
    token_file.write_text(token)
    loop = asyncio.new_event_loop()
    listeners = [listening(LOOPBACK) for _ in range(2)]

    async def serve() -> list[WebServer]:
        exposed = zip(listeners, (fleet.of_controller, fleet.of_agents), strict=True)
        return [await serve_metrics(listener, token, expose) for listener, expose in exposed]

    async def end() -> None:
        for server in servers:
            await server.cleanup()
        await loop.shutdown_default_executor()

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        servers = asyncio.run_coroutine_threadsafe(serve(), loop).result()
        controller, agents = map(address_of, listeners)
        yield Served(controller, agents, token_file)
        asyncio.run_coroutine_threadsafe(end(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _workload(name: str) -> WorkloadManifest:
    metric = {TRAINING: "mAP", UPSCALING: "PSNR"}.get(name, "top1")
    target = QualityTarget(metric=metric, value=PSNR if name == UPSCALING else QUALITY)
    return WorkloadManifest(
        name=name,
        title="",
        task="",
        reference="",
        scenarios=("training",) if name == TRAINING else ("single_stream", "offline"),
        quality_target=target,
        knobs={"size": Knob(type="int", default=1, description="")},
    )


def _server(i: int) -> Device:
    facts: dict[str, Fact] = {"cpu_model": CPUS[i % len(CPUS)], "cores": 56}
    return Device(id=f"cpu-{i:03}", kind=DeviceKind.CPU_HOST, virtual=False, facts=facts)


def _phone(i: int) -> Device:
    model, soc = MODELS[i % len(MODELS)]
    facts: dict[str, Fact] = {"model": model, "soc": soc}
    virtual = i % 3 == 2
    return Device(id=f"PHONE{i:03}", kind=DeviceKind.ANDROID, virtual=virtual, facts=facts)


def _results_of(device: Device, numbers: random.Random) -> Iterator[NewestResult]:
    is_server = device.kind is DeviceKind.CPU_HOST
    for stack, precision in TRAINING_STACKS if is_server else ():
        yield from _repeats(_result(device, TRAINING, stack, "training", precision, numbers))
    for workload, scenario in MEASURED[device.kind]:
        yield _result(device, workload, "litert", scenario, "int8", numbers)


def _repeats(result: NewestResult) -> Iterator[NewestResult]:
    """Yield repeats of a result that differ a little, the result itself as the newest."""
    profiled = {"profiled": True, "cell_key": f"{result.cell_key}-profiled"}
    yield result.model_copy(update=profiled)
    step = result.metrics["step_time"]
    for times in REPEATED:
        metrics = {"step_time": step.model_copy(update={"value": step.value * times})}
        measured = {"metrics": {**result.metrics, **metrics}, "ranked": (step.value * times,)}
        yield result.model_copy(update={"profile": None, **measured})
    yield result.model_copy(update={"profile": None, "ranked": (step.value,)})


def _result(
    device: Device, workload: str, stack: str, scenario: str, precision: str, numbers: random.Random
) -> NewestResult:
    speed = numbers.lognormvariate(0, 0.4)
    return NewestResult(
        device=device.id,
        sweep_id="night-1",
        cell_key=f"{workload} {stack} {scenario} {precision}",
        workload=workload,
        stack=stack,
        scenario=scenario,
        knobs={"precision" if scenario == "training" else "numerics": precision},
        validity=Validity.VALID,
        recorded_at=1_700_000_000.0 + numbers.uniform(0, 86_400),
        metrics=_metrics(workload, scenario, speed, numbers),
        profile=_profile(speed, numbers) if scenario == "training" else None,
    )


def _capability(device: Device, workload: str, place: int) -> Capability:
    verdict = tuple(Verdict)[place % len(Verdict)]
    fails = verdict is Verdict.FAILS
    return Capability(
        device=device.id,
        build="",
        workload=workload,
        stack="litert",
        delegate="xnnpack",
        numerics="int8",
        verdict=verdict,
        nodes=None if fails else 78,
        delegated={Verdict.WORKS: 78, Verdict.FALLS_BACK: 16}.get(verdict),
        why="made up",
        at=1_700_000_000.0,
        run_id="r",
    )


def _profile(speed: float, numbers: random.Random) -> ProfileSummary:
    shares = {"FWD_D": 0.2, "BWD_D": 0.3, "BWD_W": 0.5}
    return ProfileSummary(
        steps=5,
        efficiency=numbers.uniform(0.6, 1.0),
        headroom_s=numbers.uniform(0.1, 0.5) / speed,
        top=tuple(
            TopPrimitive(
                primitive="convolution",
                direction=direction,
                calls=60,
                seconds=share / speed,
                share=share,
            )
            for direction, share in shares.items()
        ),
    )


def _metrics(
    workload: str, scenario: str, speed: float, numbers: random.Random
) -> dict[str, Measurement]:
    found = {name: _measured(name, scenario, speed, numbers) for name in METRICS[scenario]}
    if workload != UPSCALING:
        return found
    decibels = {
        name: Measurement(value=numbers.uniform(*between), unit=Unit.DECIBELS)
        for name, between in DECIBELS.items()
    }
    return {name: value for name, value in found.items() if name != "top1"} | decibels


def _measured(name: str, scenario: str, speed: float, numbers: random.Random) -> Measurement:
    if name in SHARES:
        return Measurement(value=numbers.uniform(*SHARES[name]), unit=Unit.FRACTION)
    if name == "throughput":
        unit = Unit.IMAGES_PER_SECOND if scenario == "training" else Unit.SAMPLES_PER_SECOND
        return Measurement(value=200 * speed, unit=unit)
    value, unit = NUMBERS[name]
    return Measurement(value=value / speed, unit=unit)


def _cell(device: Device, i: int) -> Cell:
    is_server = device.kind is DeviceKind.CPU_HOST
    knobs: dict[str, Scalar] = {"precision": "bf16"} if is_server else {"numerics": "int8"}
    return Cell(
        workload=TRAINING if is_server else MOBILE[i % len(MOBILE)],
        stack="torch" if is_server else "litert",
        scenario="training" if is_server else ("single_stream", "offline")[i % 2],
        knobs=knobs | {"seed": i},
        selector=f'device == "{device.id}"',
    )


def _grant(known: RegisteredDevice) -> Granted:
    return Granted(known.device.id, known.agent_id, "1")


def _change(run: Run, event: Event, now: float) -> RunChange:
    return advance(run, event, now, RetryPolicy())


def _leased(run: Run, known: RegisteredDevice) -> Run:
    return _change(run, _grant(known), run.created_at + 5).run


def _ended(run: Run, i: int, now: float) -> RunChange:
    metrics = {"step_time": Measurement(value=0.2, unit=Unit.SECONDS)}
    valid = Result(validity=Validity.VALID, metrics=metrics, environment={})
    invalid = Result(
        validity=Validity.INVALID, reasons=("too few",), metrics=metrics, environment={}
    )
    failed = [Failure(blame=blame, kind="exit", message="it ended") for blame in Blame]
    disturbed = invalid.model_copy(
        update={"validity": Validity.DISTURBED, "reasons": ("others used the machine",)}
    )
    outcomes: tuple[Outcome, ...] = (valid, valid, valid, disturbed, invalid, *failed)
    events: tuple[Event, ...] = (
        *(Reported(1, it, now) for it in outcomes),
        LeaseLost(),
        Cancelled(),
    )
    return _change(run, events[i % len(events)], now)


def _job(run: Run) -> Job:
    cell, lease = run.cell, run.lease
    assert lease
    return Job(
        ref=AttemptRef(run_id=run.run_id, attempt=1),
        device_id=lease.device_id,
        workload=cell.workload,
        stack=cell.stack,
        scenario=cell.scenario,
        knobs=cell.knobs,
        program=TrainingProgram(builder="", arguments={}, backend=""),
        deadline_s=60.0,
    )


def _progress(run: Run, now: float) -> Progress:
    wave = 1 + 0.1 * math.sin(now)
    done = int(now) % 100
    if run.cell.scenario == "training":
        values = {"step_time": 0.25 * wave, "loss": 2 / (1 + done / 50)}
    else:
        values = {"throughput": 180 * wave}
    return Progress(phase=run.cell.scenario, done=done, total=100, values=values)


def _conditions(device: Device, now: float) -> dict[str, Scalar]:
    celsius = 40 + 10 * math.sin(now / 60)
    if device.kind is DeviceKind.CPU_HOST:
        return {"celsius_package": celsius + 10}
    hot = celsius > 49
    return {
        "battery_percent": 50 + int(now) % 50,
        "battery_celsius": celsius - 10,
        "thermal_status": "MODERATE" if hot else "NONE",
        "celsius_skin": celsius,
    }
