"""Whether a stack with its own runtime has a build for a device. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from controller.contracts.device import Device
from controller.contracts.manifests import StackManifest

REMEDY = "how to add one: docs/mobile.md, Runtimes"


def lacks_runtime(stack: StackManifest, device: Device) -> bool:
    """Return whether a stack is built for other architectures only; False if the device's is
    unknown."""
    own = device.architecture
    return bool(stack.architectures) and own is not None and own not in stack.architectures


def without_runtime(device: Device, stacks: Iterable[StackManifest]) -> str | None:
    """Return a line about a device that none of these stacks has a build for, else None."""
    here = [s for s in stacks if device.kind in s.device_kinds and s.command is None]
    lacking = [stack for stack in here if lacks_runtime(stack, device)]
    if not lacking or len(lacking) < len(here):
        return None
    names = ", ".join(stack.name for stack in lacking)
    built_for = ", ".join(sorted({arch for stack in lacking for arch in stack.architectures}))
    return (
        f"{device.shown}: no runtime for {device.architecture} (of {names}: {built_for}); "
        f"none of their runs go to it; {REMEDY}"
    )
