"""What a cell makes an agent run: from the manifests of its workload and its stack. Pure."""

from __future__ import annotations

from controller.contracts.catalog import Catalog
from controller.contracts.errors import SweepInvalid
from controller.contracts.sweep import Cell
from controller.contracts.wire import OnDeviceProgram, Rival, TrainingProgram


def rival_of(cell: Cell, catalog: Catalog, source: str = "sweep") -> Rival | None:
    """Return side B of a paired cell; raises SweepInvalid if it measures otherwise than side A."""
    if cell.versus is None:
        return None
    a, b = (program_of(side, catalog, source) for side in cell.sides())
    if a.type != b.type:
        raise SweepInvalid(
            f"{source}: key paired",
            f"stack {cell.stack} and stack {cell.versus.stack} measure in different ways",
            "compare stacks that train, or stacks that run on a device's own runtime",
        )
    return Rival(
        stack=cell.versus.stack,
        knobs=cell.versus.knobs,
        program=b,
        metric=catalog.scenarios[cell.scenario].metric,
        width=cell.versus.width,
        time_limit_s=cell.versus.time_limit_s,
    )


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
