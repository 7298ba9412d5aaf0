"""Which workloads a stack runs. Pure."""

from __future__ import annotations

from typing import Final

from controller.contracts.command import Command
from controller.contracts.manifests import StackManifest, WorkloadManifest

PROGRAM: Final = "program"
"""The workload of a program that takes no model."""


def fits(workload: WorkloadManifest, stack: StackManifest) -> bool:
    """Return whether a stack runs a workload."""
    if stack.command:
        return runs(stack.command, workload)
    return bool((workload.builder and stack.backend) or (workload.on_device and stack.bundle))


def runs(command: Command, workload: WorkloadManifest) -> bool:
    """Return whether a program runs a workload: it takes its model, or the workload is
    `program`."""
    if command.takes_model:
        return workload.on_device is not None
    return workload.name == PROGRAM
