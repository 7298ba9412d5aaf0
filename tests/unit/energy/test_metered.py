"""Results of runs beside which a user's meter ran: the meter's word on energy, and no other."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agents.attempts import metered as metering
from agents.attempts.metered import Metered
from agents.energy.meter import NO_METER, Meter
from agents.energy.meter_log import Moment
from agents.remotes.remote import Completed, FaultKind, Remote, RemoteFault
from controller.contracts.catalog import load_catalog
from controller.contracts.device import Device
from controller.contracts.result import Measurement, Outcome, Result
from controller.contracts.units import Unit
from controller.contracts.wire import CandidateJob, OnDeviceProgram, Progress, WorkerSpec
from tests.support import builders, fake_meter
from tests.support.power_loads import IDLE_W, REST, RUN, STEPS
from tests.unit.energy.test_meter import MOMENTS, UNIX_S, noisy

SHAPES = load_catalog().workloads["shapes_classifier"]
DEVICE_BEHIND_S = 500.0
"""By so much a phone's uptime is less than the host's."""
KERNELS = {
    "energy_source": "rapl: package-0",
    "idle_watts": 99.0,
    "energy_uncertainty": 0.01,
}


@dataclass(slots=True)
class Ticking:
    """The moments of the lines of a meter, and the event of the last."""

    moments: Iterator[float]
    left: int = len(MOMENTS)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self) -> Moment:
        self.left -= 1
        if self.left < 0:
            self.over.set()
        at_s = next(self.moments)
        return Moment(UNIX_S + at_s, at_s)


@dataclass(slots=True)
class Measures:
    """A transport whose run lasts as long as the meter has lines."""

    outcome: Outcome
    over: Callable[[], object]
    ran: int = 0

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        self.ran += 1
        over = self.over()
        if isinstance(over, asyncio.Event):
            await over.wait()
        return self.outcome

    async def clean(self) -> int:
        return 3


def result(**facts: float) -> Result:
    old = {"energy": Measurement(value=77.0, unit=Unit.JOULES_PER_QUERY)}
    found = builders.result()
    times = {"step_time": Measurement.of_samples((0.5,) * 180, Unit.SECONDS)}
    duration = {"duration": Measurement(value=RUN.seconds, unit=Unit.SECONDS)}
    return found.model_copy(
        update={
            "metrics": {**found.metrics, **old, **times, **duration},
            "environment": {**found.environment, **KERNELS, **facts},
        }
    )


TRAINED = result(
    timed_from_uptime_s=RUN.began_s,
    timed_until_uptime_s=RUN.ended_s,
    rested_from_uptime_s=REST.began_s,
    rested_until_uptime_s=REST.ended_s,
)
LOADGEN = result(
    started_at_uptime_s=RUN.began_s - DEVICE_BEHIND_S,
    rested_from_uptime_s=REST.began_s - DEVICE_BEHIND_S,
    rested_until_uptime_s=REST.ended_s - DEVICE_BEHIND_S,
    samples=360,
)


@dataclass(slots=True)
class Phone:
    """A phone that tells its uptime; each answer takes a tenth of a second of this host's."""

    drifts_s: float = 0.0
    """Between two answers."""
    now_s: float = -100.0
    asked: int = 0

    def uptime(self) -> float:
        self.now_s += 0.05
        return self.now_s

    async def run(self, argv: object, deadline_s: float, stdin: bytes = b"") -> Completed:
        self.asked += 1
        told = self.now_s + 0.02 - DEVICE_BEHIND_S + self.asked * self.drifts_s
        return Completed(0, f"{told:.2f} 7.00\n".encode(), b"")


def spec_of(folder: Path, device: Device, **job: object) -> WorkerSpec:
    made = builders.worker_spec(str(folder))
    changed = made.job.model_copy(update={"scenario": "training", **job})
    return made.model_copy(update={"job": changed, "device": device})


def on_phone(folder: Path) -> WorkerSpec:
    assert SHAPES.on_device
    program = OnDeviceProgram(bundle="litert", workload=SHAPES.on_device, quality_target=None)
    knobs = {"samples_per_query": 2}
    changes = {"program": program, "scenario": "multi_stream", "knobs": knobs}
    return spec_of(folder, builders.phone(), **changes)


def metered(
    folder: Path, outcome: Outcome, phone: Phone | None = None, *command: str
) -> tuple[Metered, Measures]:
    told = folder / "lines"
    told.write_text("".join(f"{line}\n" for line in noisy(STEPS)))
    ticking = Ticking(iter((MOMENTS[0] - 1, *MOMENTS)))
    words = command or (sys.executable, fake_meter.__file__, str(told), "wait", "{device}")
    inner = Measures(outcome, lambda: ticking.over if not command else None)

    def remote_of(device: Device) -> Remote:
        if phone is None:
            raise RemoteFault(device.id, FaultKind.OFFLINE, "it is not there")
        return phone  # type: ignore[return-value]  # it is only asked for its uptime

    meter = Meter(words, f"owner-{folder}", now=ticking)
    uptime = phone.uptime if phone else (lambda: 0.0)
    return Metered(inner, meter, remote_of, uptime, lambda _: 0.0), inner


async def outcome_of(there: Metered, spec: WorkerSpec) -> Result:
    outcome = await there.run(spec, lambda _: None)
    assert isinstance(outcome, Result)
    return outcome


async def test_training_is_metered_a_step_and_kept(tmp_path: Path) -> None:
    there, _ = metered(tmp_path, TRAINED)
    found = await outcome_of(there, spec_of(tmp_path, builders.cpu()))
    exact = STEPS.over(RUN) / 180
    assert found.metrics["energy_gross"].value == pytest.approx(exact, rel=0.01)
    net = exact - IDLE_W * RUN.seconds / 180
    assert found.metrics["energy"].value == pytest.approx(net, rel=0.01)
    assert found.metrics["energy"].unit is Unit.JOULES_PER_STEP
    assert found.environment["energy_source"] == "meter"
    assert found.environment["idle_watts"] == pytest.approx(IDLE_W, rel=0.01)
    kept = Path(found.artefacts["meter"]).read_text().splitlines()
    assert len(kept) == len(MOMENTS)


async def test_a_phones_times_are_this_hosts_within_what_its_answers_took(tmp_path: Path) -> None:
    there, _ = metered(tmp_path, LOADGEN, Phone())
    found = await outcome_of(there, on_phone(tmp_path))
    exact = STEPS.over(RUN) / 180  # queries of two samples
    assert found.metrics["energy_gross"].value == pytest.approx(exact, rel=0.01)
    assert found.metrics["energy"].unit is Unit.JOULES_PER_QUERY
    drifting, _ = metered(tmp_path, LOADGEN, Phone(drifts_s=0.05))
    less_sure = await outcome_of(drifting, on_phone(tmp_path))
    assert less_sure.environment.get("energy_unknown") is None
    sure, unsure = (r.environment["energy_gross_uncertainty"] for r in (found, less_sure))
    assert isinstance(sure, float)
    assert isinstance(unsure, float)
    assert sure < unsure < 0.1
    value = less_sure.metrics["energy_gross"].value
    assert value == pytest.approx(exact, rel=unsure)


@pytest.mark.parametrize(
    ("phone", "why"),
    [
        (Phone(drifts_s=2.0), r"the device's clock is known to ±\d+\.\d s only"),
        (None, "it is not there"),
    ],
)
async def test_a_phone_whose_clock_is_not_known_is_unknown_not_failed(
    tmp_path: Path, phone: Phone | None, why: str
) -> None:
    there, _ = metered(tmp_path, LOADGEN, phone)
    found = await outcome_of(there, on_phone(tmp_path))
    assert not {"energy", "energy_gross"} & found.metrics.keys()
    facts = {name for name in found.environment if "energy" in name or name in KERNELS}
    assert facts == {"energy_unknown"}, "the kernel's word does not stand in for a meter's"
    assert re.search(why, str(found.environment["energy_unknown"]))


async def test_a_meter_that_fails_fails_no_run(tmp_path: Path) -> None:
    there, _ = metered(tmp_path, TRAINED, None, "sh", "-c", "echo broken; exit 1")
    found = await outcome_of(there, spec_of(tmp_path, builders.cpu()))
    why = "meter: 'broken' is not a line of seconds and watts"
    assert found.environment["energy_unknown"] == why
    assert found.validity is TRAINED.validity


@pytest.mark.parametrize("why", ["no meter for it", "another's", "a comparison"])
async def test_where_no_meter_runs_the_result_is_left_as_it_is(tmp_path: Path, why: str) -> None:
    command = ("sh", "-c", f"exit {NO_METER}", "{device}" if why == "no meter for it" else "x")
    there, inner = metered(tmp_path, TRAINED, None, *command)
    spec = spec_of(tmp_path, builders.phone())
    if why == "a comparison":
        job = spec.job
        candidate = CandidateJob(
            stack="torch",
            knobs={},
            program=job.program,
            metric="step_time",
            width=0.1,
            time_limit_s=1.0,
        )
        spec = spec_of(tmp_path, builders.cpu(), candidate=candidate)
    assert await outcome_of(there, spec) is TRAINED
    assert inner.ran == 1
    assert await there.clean() == 3


@pytest.mark.parametrize(
    ("scenario", "policy", "counters", "seconds"),
    [
        ("training", "lab", (), 20.0),
        ("training", "ci", (), 0.0),
        ("training", "lab", ("package-0",), 0.0),
        ("kernel", "lab", (), 0.0),
    ],
)
def test_the_host_rests_where_its_worker_would_not(
    scenario: str,
    policy: str,
    counters: tuple[str, ...],
    seconds: float,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metering, "readable_domains", lambda: counters)
    spec = spec_of(tmp_path, builders.cpu(), scenario=scenario, knobs={"policy": policy})
    assert metering.host_rest_s(spec) == seconds


async def test_no_counter_stands_in_for_a_meter_that_can_not_tell_when(tmp_path: Path) -> None:
    """Trainings to a quality told the packages' energy where a meter ran at the wall."""
    there, _ = metered(tmp_path, result())
    found = await outcome_of(there, spec_of(tmp_path, builders.cpu(), scenario="training_quality"))
    assert not {"energy", "energy_gross"} & found.metrics.keys()
    facts = {n: v for n, v in found.environment.items() if "energy" in n or n in KERNELS}
    assert facts == {"energy_unknown": "meter: when it measured is not known"}
    told = result().model_copy(update={"metrics": {}, "environment": {}})
    there, _ = metered(tmp_path, told)
    spec = spec_of(tmp_path, builders.cpu(), scenario="training_quality")
    assert await outcome_of(there, spec) == told, "an accuracy run tells of no energy"
