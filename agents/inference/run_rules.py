"""The run rules of MLPerf Mobile that a result breaks, by those of its version. Pure.

What isn't known isn't met: a condition that a phone doesn't tell is a missed rule, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from agents.pairing.outcome import PAIRED
from agents.phones.policy import Facts, changed, is_throttling, preflight
from controller.contracts.device import Device, DeviceKind
from controller.contracts.mobile import OnDevice
from controller.contracts.policy import load_policy
from controller.contracts.result import Environment, Result, Validity
from controller.contracts.suite_rules import SuiteRules
from controller.contracts.suite_version import rules_of
from controller.contracts.wire import Job, OnDeviceProgram

ROOM_LABEL: Final = "room_celsius"
"""Label with the temperature of a host's room, set by its owner."""
SEEDS: Final = "loadgen_seeds"
"""The fact with the seeds of samples, their order and times, from LoadGen's log."""
DATASET_ORIGIN: Final = "dataset_origin"
"""The fact with the published checksums that vouch for samples and truth."""
POLICY: Final = "mlperf"
"""The policy that has the suite's conditions."""
ACCURACY: Final[Mapping[str, str]] = {
    "top1": "top1",
    "detections": "mAP",
    "class_map": "mIoU",
    "span": "F1",
    "upscaled": "PSNR",
}
"""Kind of output → the metric of its accuracy."""
MOMENTS: Final = ("before", "after")
DURING: Final = ("battery_celsius", "thermal_status")
"""Conditions that are sampled during the run, too; charging is the battery's status."""
LONGEST_GAP_S: Final = 10.0
"""Most seconds between two samples of any of them: the sampler takes one every 2 s, and asks the
services every second time."""
ON_BATTERY: Final = "Discharging"
"""The only status, as the kernel has it, of a battery that no charger is plugged into."""


def rules_missed(
    job: Job, program: OnDeviceProgram, device: Device, result: Result
) -> tuple[str, ...]:
    """Return the suite's run rules that a result breaks, in words."""
    if job.candidate is not None:
        return (PAIRED,)
    rules = rules_of(job.workload, job.knobs) if program.workload.suite else None
    missed = [
        *_of_every_version(job, program, device),
        *_of_accuracy(job, program, result, rules),
        *_of_room(device, rules),
    ]
    if result.validity is not Validity.VALID:
        missed.append(str(result.validity))
    if rules is None:
        return ("no task of the suite", *missed)
    missed += _of_task(job, rules, result.environment)
    missed += _of_loadgen(job, program, rules, result.environment)
    missed += _of_phone(rules, result.environment)
    return tuple(missed)


def _of_every_version(job: Job, program: OnDeviceProgram, device: Device) -> Iterator[str]:
    mode, length, policy = (job.knobs[name] for name in ("mode", "length", "policy"))
    if program.workload.surrogate:
        yield "surrogate model"
    if device.virtual:
        yield "virtual device"
    if device.kind is not DeviceKind.ANDROID:
        yield "not a phone"
    if mode != "submission":
        yield f"mode {mode}"
    if length != "normal":
        yield f"length {length}"
    if policy != POLICY:
        yield f"policy {policy}"


def _of_accuracy(
    job: Job, program: OnDeviceProgram, result: Result, rules: SuiteRules | None
) -> Iterator[str]:
    if job.knobs["quality_target"]:
        yield "a quality target of the sweep's own"
    measured = result.metrics.get(ACCURACY.get(program.workload.output.kind, ""))
    if measured is None:
        yield "accuracy not known"
        return
    target = rules.tasks[job.workload].target_of(job.knobs) if rules else None
    if rules and (missed := rules.target_missed(target, measured.value)):
        yield missed


def _of_room(device: Device, rules: SuiteRules | None) -> Iterator[str]:
    celsius = room_celsius(device)
    if celsius is None:
        yield f"room temperature not known; the label {ROOM_LABEL} of the phone's host says it"
    elif rules and not rules.room_celsius[0] <= celsius <= rules.room_celsius[1]:
        low, high = rules.room_celsius
        yield f"room temperature {celsius:g} °C is not between {low:g} and {high:g} °C"


def _of_task(job: Job, rules: SuiteRules, said: Environment) -> Iterator[str]:
    of_task = rules.tasks[job.workload]
    if job.scenario not in of_task.scenarios:
        yield f"scenario {job.scenario}, which {rules.title} does not have for this task"
    dataset = str(job.knobs.get("dataset"))
    if dataset not in of_task.datasets:
        yield f"data set {dataset}"
    elif said.get(DATASET_ORIGIN) is None:
        yield f"data set {dataset}: no published checksum vouches for it"


def _of_loadgen(
    job: Job, program: OnDeviceProgram, rules: SuiteRules, said: Environment
) -> Iterator[str]:
    """Yield what LoadGen did otherwise, as its log says."""
    if missed := rules.seeds_missed(said.get(SEEDS)):
        yield missed
    of_task = rules.tasks[job.workload]
    scenario = next((name for name in of_task.scenarios if name == job.scenario), None)
    if scenario is None:
        return
    length = rules.scenarios[scenario]
    drawn = _drawn_at_least(of_task.performance_samples, program.workload, job)
    least = {
        "min_query_count": of_task.queries or length.queries,
        "min_duration_ms": length.least_ms,
        "performance_samples": drawn,
    }
    for fact, value in least.items():
        if not _at_least(said.get(fact), value):
            yield f"{fact} {said.get(fact, 'not known')}, below {value:g}"
    longest = said.get("max_duration_ms")
    if not isinstance(longest, int | float) or length.ends_too_soon(longest):
        known = "not known" if longest is None else longest
        yield f"max_duration_ms {known}, below {length.most_ms or math.inf:g}"


def _drawn_at_least(asked: int, workload: OnDevice, job: Job) -> int:
    """Return from how many samples LoadGen draws: at most all of the data set, as in the app."""
    dataset = workload.datasets.get(str(workload.dataset_of(job.knobs)))
    return min(asked, dataset.samples or asked) if dataset else asked


def _of_phone(rules: SuiteRules, said: Environment) -> Iterator[str]:
    policy = load_policy(POLICY)
    for condition in dict.fromkeys((*rules.known, *policy.conditions)):
        if untold := [when for when in MOMENTS if said.get(f"{condition}_{when}") is None]:
            yield f"{condition} not known {' and '.join(untold)} the run"
        if condition in DURING and said.get(f"{condition}_during_max") is None:
            yield f"{condition} not known during the run"
    yield from _of_samples(said)
    before, after = (_at(when, said) for when in MOMENTS)
    yield from (f"before the run, {why}" for why in preflight(policy, before).reasons)
    yield from (f"after the run, {why}" for why in changed(policy, after))
    limits = policy.throttled
    for when, status in (
        ("during", said.get("thermal_status_during_max")),
        ("after", after.get("thermal_status")),
    ):
        if limits and isinstance(status, str) and is_throttling(status, limits.thermal_status):
            yield f"thermal status {status} {when} the run"
    if any(said.get(f"root_{when}") is True for when in MOMENTS):
        yield "the phone is rooted"
    if any(said.get(f"selinux_{when}") not in (None, ENFORCING) for when in MOMENTS):
        yield "SELinux does not enforce its rules"
    for when in MOMENTS:
        chosen = str(said.get(f"governor_{when}")).split()
        yield from (f"governor {name} {when} the run" for name in BOOSTS if name in chosen)


def _of_samples(said: Environment) -> Iterator[str]:
    """Yield why what was sampled during the run does not show how it ran from end to end."""
    status, gap_s = said.get("battery_status_during"), said.get("conditions_longest_gap_s")
    if status is None:
        yield "charging not known during the run"
    elif status != ON_BATTERY:
        yield f"battery status {status} during the run, not {ON_BATTERY} from end to end"
    if not isinstance(gap_s, int | float):
        yield "how often conditions were sampled is not known"
    elif not gap_s <= LONGEST_GAP_S:
        yield f"conditions not sampled for {gap_s:.0f} s of the run, above {LONGEST_GAP_S:g} s"


def _at(when: str, said: Environment) -> Facts:
    """Return a phone's conditions before or after the run, by their names."""
    end = f"_{when}"
    return {
        name.removesuffix(end): value
        for name, value in said.items()
        if name.endswith(end) and isinstance(value, bool | int | float | str)
    }


ENFORCING: Final = "Enforcing"
"""What `getenforce` says where SELinux does."""
BOOSTS: Final = ("performance", "userspace")
"""Governors that somebody has chosen: the suite allows no boost of a phone's performance beyond its
configuration out of the box."""


def _at_least(value: object, least: float) -> bool:
    return isinstance(value, int | float) and value >= least


def in_room_of(host: Device, phones: Iterable[Device]) -> Sequence[Device]:
    """Return a host's phones with the room temperature, which only the host's labels give."""
    shared = {name: label for name, label in host.labels.items() if name == ROOM_LABEL}
    return [phone.model_copy(update={"labels": {**phone.labels, **shared}}) for phone in phones]


def room_celsius(device: Device) -> float | None:
    """Return the room temperature from the label ROOM_LABEL, or None."""
    try:
        return float(device.labels[ROOM_LABEL])
    except (KeyError, ValueError):
        return None
