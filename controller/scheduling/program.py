"""What a cell makes an agent run: from the manifests of its workload and its stack. Pure."""

from __future__ import annotations

from controller.contracts.catalog import Catalog
from controller.contracts.errors import SweepInvalid
from controller.contracts.sweep import Cell
from controller.contracts.wire import OnDeviceProgram, TrainingProgram


def program_of(
    cell: Cell, catalog: Catalog, source: str = "sweep"
) -> TrainingProgram | OnDeviceProgram:
    """Return a cell's program; raises SweepInvalid if its workload can't run on its stack."""
    workload, stack = catalog.workloads[cell.workload], catalog.stacks[cell.stack]
    if workload.builder and stack.backend:
        return TrainingProgram(
            builder=workload.builder,
            # A run queued by an earlier release may lack a knob: the builder's default serves.
            arguments={name: cell.knobs[name] for name in workload.knobs if name in cell.knobs},
            backend=stack.backend,
            environment=stack.environment,
        )
    if workload.on_device and stack.bundle:
        return OnDeviceProgram(
            bundle=stack.bundle,
            workload=workload.on_device,
            quality_target=workload.quality_target,
        )
    fitting = [
        s.name
        for s in catalog.stacks.values()
        if (workload.builder and s.backend) or (workload.on_device and s.bundle)
    ]
    raise SweepInvalid(
        f"{source}: key stack",
        f"workload {cell.workload} does not run on stack {cell.stack}",
        f"it runs on: {', '.join(fitting) or 'none'}",
    )
