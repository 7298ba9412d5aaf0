"""Checks of a result: its delegate, its quality, and the suite's run rules. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.contracts.device import Device, DeviceKind
from controller.contracts.manifests import QualityTarget
from controller.contracts.result import Result, Validity
from controller.contracts.wire import Job, OnDeviceProgram

ROOM_LABEL = "room_celsius"
"""Label with the temperature of a host's room, set by its owner."""
ROOM_CELSIUS = (20.0, 25.0)
"""Allowed room temperatures in °C (run rules of MLPerf Mobile)."""


def judged(result: Result, target: QualityTarget | None, own: float = 0.0) -> Result:
    """Make a result INVALID if its accuracy is known and below the target, with both numbers.

    own: the sweep's target, which replaces the task's; 0: none. Both are recorded.
    """
    if target is None:
        return result
    facts = {"quality_target": target.value} | ({"own_quality_target": own} if own else {})
    result = result.model_copy(update={"environment": {**result.environment, **facts}})
    wanted = own or target.value
    measured = result.metrics.get(target.metric)
    if measured is None or measured.value >= wanted:
        return result
    whose = "the sweep's own" if own else "the"
    return invalid(
        result,
        f"{target.metric} {measured.value:.4f} is below {whose} quality target {wanted:.4f}",
    )


def delegated(result: Result, wanted: str) -> Result:
    """Make a result INVALID if a delegate other than the requested one computed it.

    A runtime silently goes on without XNNPACK where it can't use it. With `auto`, the delegate is
    only recorded.
    """
    used = result.environment.get("delegate")
    if wanted in ("auto", used):
        return result
    return invalid(result, f"delegate {used} ran it, not {wanted}")


def rules_missed(
    job: Job, program: OnDeviceProgram, device: Device, result: Result
) -> tuple[str, ...]:
    """Return the suite's run rules that a result breaks."""
    workload, knobs = program.workload, job.knobs
    mode, length, policy = (knobs[name] for name in ("mode", "length", "policy"))
    dataset = workload.dataset_of(knobs)
    missed = {
        "no task of the suite": workload.suite is None,
        "surrogate model": workload.surrogate,
        "virtual device": device.virtual,
        "not a phone": device.kind is not DeviceKind.ANDROID,
        f"mode {mode}": mode != "submission",
        f"data set {dataset}": dataset != "full",
        f"length {length}": length != "normal",
        f"policy {policy}": policy != "mlperf",
        f"scenario {job.scenario}": job.scenario not in ("single_stream", "offline"),
        "a quality target of the sweep's own": bool(knobs["quality_target"]),
        "accuracy not known": not _accuracy_known(program.quality_target, result),
        "room temperature not between 20 and 25 °C": not _room_fits(device),
        str(result.validity): result.validity is not Validity.VALID,
    }
    return tuple(reason for reason, is_so in missed.items() if is_so)


def _accuracy_known(target: QualityTarget | None, result: Result) -> bool:
    return target is not None and target.metric in result.metrics


def _room_fits(device: Device) -> bool:
    low, high = ROOM_CELSIUS
    celsius = room_celsius(device)
    return celsius is not None and low <= celsius <= high


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


def invalid(result: Result, reason: str) -> Result:
    """Return a result with a further reason why it is INVALID."""
    update = {"validity": Validity.INVALID, "reasons": (*result.reasons, reason)}
    return result.model_copy(update=update)
