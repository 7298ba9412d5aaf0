"""The version of the suite by whose rules a run goes: a knob of its tasks and surrogates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.contracts.base import Scalar
from controller.contracts.manifests import Knob, QualityTarget, WorkloadManifest, defaults_of
from controller.contracts.mobile import SURROGATE, ImageInput, OnDevice, task_of
from controller.contracts.suite_rules import SuiteRules, load_suites

SUITE_VERSION: Final = "suite_version"
"""The knob. Its choices are the versions that have the task, its default is the newest of them."""
TARGET_UNKNOWN: Final = "quality_target_unknown"
"""The fact of a result that says why it has no quality target."""


def with_versions(workload: WorkloadManifest) -> WorkloadManifest:
    """Return a workload with the knob, and with the quality target at the knobs' defaults.

    One that is no task of any version, nor a surrogate of one, is returned as it is.
    """
    task = task_of(workload.name)
    versions = tuple(rules.version for rules in load_suites() if task in rules.tasks)
    if workload.on_device is None or not versions:
        return workload
    knob = Knob(
        type="str",
        default=versions[-1],
        choices=versions,
        description="version of the suite whose seeds, lengths and quality target are used",
    )
    found = workload.model_copy(update={"knobs": {**workload.knobs, SUITE_VERSION: knob}})
    target = quality_target(found, defaults_of(found.knobs))
    return found.model_copy(update={"quality_target": target})


def rules_of(workload: str, knobs: Mapping[str, Scalar]) -> SuiteRules | None:
    """Return the rules by which a cell runs.

    None: the workload is of no version, or the cell is older than the knob, and nobody knows.
    """
    version, task = knobs.get(SUITE_VERSION), task_of(workload)
    found = (r for r in load_suites() if r.version == version and task in r.tasks)
    return next(found, None)


def quality_target(workload: WorkloadManifest, knobs: Mapping[str, Scalar]) -> QualityTarget | None:
    """Return the least quality of a cell: that of its version, or its manifest's own.

    None: there is none, or the cell is older than the knob. A surrogate has its own.
    """
    device = workload.on_device
    if SUITE_VERSION not in workload.knobs or (device and device.surrogate):
        return workload.quality_target
    rules = rules_of(workload.name, knobs)
    target = rules.tasks[workload.name].target_of(knobs) if rules else None
    return QualityTarget(metric=target.metric, value=target.value) if target else None


def target_unknown(workload: str, knobs: Mapping[str, Scalar]) -> str | None:
    """Return that a cell's version prints no quality target for its task.

    None: it prints one, or nobody knows the version. A surrogate has its own.
    """
    rules = rules_of(workload, knobs)
    if rules is None or workload.endswith(SURROGATE) or rules.tasks[workload].target_of(knobs):
        return None
    return f"{rules.title} prints none for this task"


def on_device_of(workload: WorkloadManifest, knobs: Mapping[str, Scalar]) -> OnDevice | None:
    """Return what runs on a device for a cell: its images are fitted as its version has it."""
    device, rules = workload.on_device, rules_of(workload.name, knobs)
    fit = rules.tasks[task_of(workload.name)].fit if rules else None
    if device is None or fit is None or not isinstance(device.input, ImageInput):
        return device
    fitted = device.input.model_copy(update={"fit": fit})
    return device.model_copy(update={"input": fitted})
