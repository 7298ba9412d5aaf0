"""Results of one cell on one device, as servers and phones leave them: every fact varies as on real
machines, and one cause may be planted in the last of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from controller.contracts.base import Scalar
from controller.contracts.device import DeviceKind
from controller.contracts.explanation import Cause
from controller.contracts.records import StoredResult
from controller.contracts.result import Environment, Measurement, Validity
from controller.contracts.units import Unit

BEGIN = 1.8e9
SENSORS = ("cpu0", "cpu4", "cpu7", "gpu", "skin", "npu")
CLOCKS = {"policy0": 1.8e6, "policy4": 2.4e6, "policy7": 2.9e6}
STATUSES = ("NONE", "LIGHT", "MODERATE", "SEVERE", "CRITICAL")
ZEN = {"cpu_model": "AMD EPYC 7B13", "cpu_vendor": "AuthenticAMD", "architecture": "x86_64"}
PIXEL = {"manufacturer": "Google", "model": "Pixel 8", "soc": "Tensor G3", "abi": "arm64-v8a"}


@dataclass(slots=True)
class Machine:
    """How one machine's runs vary, and what it is now."""

    rng: random.Random
    kind: DeviceKind
    sd_time: float = 0.01
    sd_celsius: float = 2.0
    sd_clock: float = 0.01
    sd_load: float = 0.3
    celsius: float = 50.0
    clock: float = 1.0
    """Of its usual clock."""
    other_cores: float = 0.02
    load: float = 0.2
    steal: float = 0.002
    status: int = 0
    throttles: int = 0
    drop: float = 0.005
    facts: dict[str, Scalar | tuple[Scalar, ...] | None] = field(default_factory=dict)

    @classmethod
    def drawn(cls, rng: random.Random, kind: DeviceKind) -> Machine:
        """Draw a machine: some are noisier than others, and not all tell of everything."""
        phone = kind is DeviceKind.ANDROID
        return cls(
            rng,
            kind,
            sd_time=rng.uniform(0.003, 0.015),
            sd_celsius=rng.uniform(0.5, 3.0),
            sd_clock=rng.uniform(0.002, 0.015),
            sd_load=rng.uniform(0.05, 0.6),
            celsius=rng.uniform(35, 60),
            load=rng.uniform(1, 6) if phone else rng.uniform(0.02, 0.4),
            facts=_phone_facts() if phone else _server_facts(),
        )

    def environment(self) -> Environment:
        """Return what one run says."""
        varying = self._phone() if self.kind is DeviceKind.ANDROID else self._server()
        return {**self.facts, **varying}

    def _around(self, middle: float, spread: float, least: float = 0.0) -> float:
        return max(least, self.rng.gauss(middle, spread))

    def _server(self) -> Environment:
        around, rng = self._around, self.rng
        other = self.other_cores * rng.lognormvariate(0, 0.4)
        return {
            "load_before": around(self.load, self.sd_load / 3),
            "load_after": around(self.load + 3, self.sd_load),
            "cpu_busy_share": around(0.9, 0.02),
            "steal_share": around(self.steal, 0.001),
            "frequency_khz_before": round(2.45e6 * self.clock * rng.uniform(0.7, 1.0)),
            "frequency_khz_after": round(2.45e6 * self.clock * around(1, self.sd_clock)),
            "timed_s": around(62, 3),
            "timed_own_cores": around(3.9, 0.03),
            "timed_other_cores": round(other, 4),
            "timed_steal_share": around(self.steal, 0.001),
            "timed_memory_pressure": around(0.0, 0.001),
            "timed_throttles": self.throttles,
            "timed_frequency_drop": around(self.drop, 0.004),
            "timed_hottest_celsius": around(self.celsius, self.sd_celsius),
            "timed_from_uptime_s": rng.uniform(1e3, 1e6),
            "huge_page_bytes": round(2**28 * rng.lognormvariate(0, 0.2)),
        }

    def _phone(self) -> Environment:
        around, rng = self._around, self.rng
        found: Environment = {
            "load_before": around(self.load, self.sd_load),
            "load_after": around(self.load + 4, self.sd_load),
            "battery_percent_before": rng.randint(40, 100),
            "battery_celsius_before": around(self.celsius - 12, self.sd_celsius / 2),
            "battery_celsius_after": around(self.celsius - 10, self.sd_celsius / 2),
            "battery_celsius_during_max": around(self.celsius - 10, self.sd_celsius / 2),
            "battery_current_ua_before": rng.randint(-600_000, -100_000),
            "battery_status_during": rng.choice(("Discharging",) * 9 + ("Not charging",)),
            "thermal_status_before": "NONE",
            "thermal_status_during_max": STATUSES[min(4, self.status + (rng.random() < 0.1))],
            "thermal_status_after": STATUSES[self.status],
            "memory_available_kb_before": round(4e6 * rng.lognormvariate(0, 0.08)),
            "conditions_longest_gap_s": around(0.6, 0.1),
            "runner_to_first_query_s": around(1.4, 0.2),
            "expected_latency_s": around(0.02, 0.001),
            "preflight_waited_s": abs(rng.gauss(0, 30)),
            "screen_brightness_before": 0,
        }
        for name in SENSORS:
            off = rng.gauss(0, 1.0)
            found[f"celsius_{name}_during_max"] = around(self.celsius + off, self.sd_celsius)
            found[f"celsius_{name}_after"] = around(self.celsius - 6 + off, 2 * self.sd_celsius)
        for name, khz in CLOCKS.items():
            mean = khz * self.clock * around(1, self.sd_clock)
            found[f"frequency_{name}_khz_during_mean"] = round(mean)
            found[f"khz_cpu{name[6:]}_after"] = round(khz * rng.choice((0.2, 0.5, 1.0)))
        return found


def _server_facts() -> dict[str, Scalar | tuple[Scalar, ...] | None]:
    return {
        **ZEN,
        "microcode": "0xa0011d1",
        "isa": ("avx2", "fma"),
        "cores": 4,
        "logical_cpus": 8,
        "memory_bytes": 2**34,
        "kernel": "6.1.0-18-amd64",
        "os": "Debian GNU/Linux 12 (bookworm)",
        "governor": "performance",
        "hostname": "epyc-2",
        "python": "3.11.2",
        "torch": "2.13.0",
        "onednn": "3.9.1",
        "onednn_isa": "AVX2",
        "packages": ("numpy==2.3.1", "torch==2.13.0"),
        "benchfarm": "0.2.0 (3f2a11c0)",
        "bundle": "litert-x86_64 0f3b",
        "litert": "2.3.0",
        "delegate": "xnnpack",
        "model_sha256": "11" * 32,
        "threads": 4,
        "affinity": (0, 1, 2, 3),
        "malloc": "glibc",
        "loadgen_seeds": "1, 2, 3",
    }


def _phone_facts() -> dict[str, Scalar | tuple[Scalar, ...] | None]:
    return {
        **PIXEL,
        "fingerprint": "google/shiba/shiba:14/UQ1A/1:user/release-keys",
        "android": "14",
        "sdk": 34,
        "cores": 8,
        "governor_before": "sched_pixel",
        "governor_after": "sched_pixel",
        "charging_before": False,
        "airplane_mode_before": True,
        "screen_before": "Asleep",
        "root_before": False,
        "runtime": "litert",
        "litert": "2.3.0",
        "loadgen": "6.0",
        "numpy": "2.3.1",
        "bundle": "litert-aarch64 0f3b",
        "benchfarm": "0.2.0 (3f2a11c0)",
        "model_sha256": "11" * 32,
        "dataset_checksums": ("images sha256:" + "22" * 32,),
        "inputs_digest": "33" * 16,
        "delegate": "xnnpack",
        "delegated_nodes": 64,
        "graph_nodes": 66,
        "delegate_partitions": 1,
        "undelegated_operators": ("RESHAPE", "SOFTMAX"),
        "threads": 4,
        "samples_at_once": 1,
        "loadgen_seeds": "1, 2, 3",
    }


Plant = Callable[[Machine], float]
"""Changes a machine; returns by how many times its runs now take longer."""


def _work(**facts: Scalar | tuple[Scalar, ...]) -> Plant:
    """Plant facts of which nobody knows what they do: half of them make the run faster."""

    def plant(machine: Machine) -> float:
        machine.facts |= facts
        times = machine.rng.uniform(1.15, 1.8)
        return times if machine.rng.random() < 0.5 else 1 / times

    return plant


def _model(machine: Machine) -> float:
    machine.facts["model_sha256"] = "44" * 32
    if machine.rng.random() < 0.5:  # the graph of another model is another one, too
        machine.facts |= {"graph_nodes": 80, "delegated_nodes": 70}
    machine.celsius += machine.rng.uniform(0, 4)
    return machine.rng.uniform(1.15, 2.5)


def _delegate(machine: Machine) -> float:
    machine.facts["delegate"] = "none"
    machine.facts |= {"delegated_nodes": 0, "delegate_partitions": 0}
    machine.celsius += machine.rng.uniform(0, 5)
    return machine.rng.uniform(1.3, 4.0)


def _fewer_nodes(machine: Machine) -> float:
    machine.facts |= {"delegated_nodes": 40, "delegate_partitions": 5}
    machine.facts["undelegated_operators"] = ("CONV_2D", "RESHAPE", "SOFTMAX")
    return machine.rng.uniform(1.2, 3.0)


def _threads(machine: Machine) -> float:
    machine.facts["threads"] = 2
    machine.celsius -= machine.rng.uniform(0, 4)
    return float(2 ** machine.rng.uniform(0.5, 0.95))


def _slowed(machine: Machine) -> float:
    """Lower the clock, which slows all that waits for no memory."""
    machine.clock = machine.rng.uniform(0.55, 0.82)
    return float((1 / machine.clock) ** machine.rng.uniform(0.85, 1.0))


def _heat(machine: Machine) -> float:
    machine.celsius += machine.rng.uniform(15, 35)
    machine.status = machine.rng.choice((0, 1, 2, 3))
    times = _slowed(machine)
    if machine.kind is DeviceKind.CPU_HOST:
        machine.drop = 1 - machine.clock
        machine.throttles = machine.rng.choice((0, 40, 900))
    return times


def _throttling(machine: Machine) -> float:
    """Throttle by a limit of power: nothing is hotter than usual."""
    machine.status = machine.rng.choice((2, 3))
    machine.throttles = machine.rng.randint(20, 900)
    times = _slowed(machine)
    if machine.kind is DeviceKind.CPU_HOST:
        machine.drop = 1 - machine.clock
    return times


def _governor(machine: Machine) -> float:
    """Choose another governor; a phone's says so in the samples of the clock, too."""
    names = ("governor", "governor_before", "governor_after")
    machine.facts |= {name: "powersave" for name in names if name in machine.facts}
    machine.celsius -= machine.rng.uniform(0, 8)
    return _slowed(machine)


def _load(machine: Machine) -> float:
    """Run other processes beside it; they heat the machine a little, too."""
    busy = machine.rng.uniform(0.6, 2.5)
    machine.celsius += machine.rng.uniform(0, 4)
    if machine.kind is DeviceKind.CPU_HOST:
        machine.other_cores, machine.load = busy, machine.load + busy
        return 1 + machine.rng.uniform(0.25, 0.9) * min(busy, 1.0)
    machine.load += 4 * busy
    return 1 + machine.rng.uniform(0.15, 0.35)


def _steal(machine: Machine) -> float:
    machine.steal = machine.rng.uniform(0.2, 0.5)
    return 1 / (1 - machine.steal * machine.rng.uniform(0.85, 1.0))


def nothing(_: Machine) -> float:
    """Plant nothing."""
    return 1.0


def unrecorded(machine: Machine) -> float:
    """Plant what no fact tells of."""
    return machine.rng.uniform(1.15, 1.8)


def beside_decoys(plant: Plant) -> Plant:
    """Plant something that slows a run, beside facts that can only make it faster."""

    def plant_both(machine: Machine) -> float:
        times = plant(machine)
        machine.facts |= {"threads": 6, "affinity": tuple(range(6))}
        names = ("governor_before", "governor_after")
        machine.facts |= {name: "performance" for name in names if name in machine.facts}
        return times

    return plant_both


SLOWING = ("heat", "throttling", "other load", "other delegate")
"""Plants of every kind of device that only slow a run, without other threads or governor."""


BOTH: Mapping[str, tuple[Cause, Plant]] = {
    "other model": (Cause.MODEL, _model),
    "other delegate": (Cause.DELEGATE, _delegate),
    "threads": (Cause.THREADS, _threads),
    "heat": (Cause.HEAT, _heat),
    "throttling": (Cause.THROTTLING, _throttling),
    "governor": (Cause.GOVERNOR, _governor),
    "other load": (Cause.LOAD, _load),
    "bundle": (Cause.BUNDLE, _work(bundle="litert-x86_64 77aa", litert="2.4.0")),
    "benchfarm": (Cause.VERSIONS, _work(benchfarm="0.2.1 (aa00bb11)")),
}
PLANTS: Mapping[DeviceKind, Mapping[str, tuple[Cause, Plant]]] = {
    DeviceKind.CPU_HOST: {
        **BOTH,
        "versions": (Cause.VERSIONS, _work(torch="2.14.0", packages=("torch==2.14.0",))),
        "kernel": (Cause.KERNEL, _work(kernel="6.1.0-22-amd64")),
        "microcode": (Cause.MICROCODE, _work(microcode="0xa0011d5")),
        "steal": (Cause.LOAD, _steal),
        "settings": (Cause.SETTINGS, _work(malloc="jemalloc")),
    },
    DeviceKind.ANDROID: {
        **BOTH,
        "fewer nodes": (Cause.DELEGATE, _fewer_nodes),
        "versions": (Cause.VERSIONS, _work(litert="2.4.0")),
        "system": (Cause.SYSTEM, _work(fingerprint="google/shiba/shiba:15/AP3A/2:user")),
        "data": (Cause.DATA, _work(inputs_digest="55" * 16)),
    },
}


def drawn_results(
    rng: random.Random, kind: DeviceKind, plant: Plant, earlier: tuple[int, int] = (4, 10)
) -> list[StoredResult]:
    """Return earlier results of a drawn machine, and last one after something was planted."""
    machine = Machine.drawn(rng, kind)
    usual = rng.uniform(0.004, 0.4)
    count = rng.randint(*earlier)
    found = [_result(machine, usual, number) for number in range(count)]
    times = plant(machine)
    return [*found, _result(machine, usual * times, count)]


def _result(machine: Machine, usual_s: float, number: int) -> StoredResult:
    phone = machine.kind is DeviceKind.ANDROID
    seconds = usual_s * machine.rng.lognormvariate(0, machine.sd_time)
    metric = Measurement(value=seconds, unit=Unit.SECONDS)
    if machine.facts.get("torch"):  # servers rank by a rate here
        metric = Measurement(value=1 / seconds, unit=Unit.SAMPLES_PER_SECOND)
    return StoredResult(
        run_id=f"run-{number}",
        sweep_id=f"nightly-{number // 3}",
        cell_key="93c5a0f1be27d644",
        repeat=number % 3,
        attempt=1,
        device="phone-1" if phone else "cpu-1",
        device_kind=machine.kind,
        virtual=False,
        workload="mobilenet_edgetpu",
        stack="litert",
        scenario="single_stream" if phone else "offline",
        knobs={"threads": 0},
        started_at=BEGIN + 3600.0 * number,
        counted=True,
        validity=Validity.VALID,
        reasons=(),
        metrics={METRIC: metric},
        environment=machine.environment(),
        artefacts={},
    )


METRIC = "speed"
