"""What a cell makes an agent run, from the manifests of its workload and stack. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from controller.contracts.base import Scalar, digest
from controller.contracts.catalog import Catalog
from controller.contracts.device import RegisteredAgent
from controller.contracts.errors import SweepInvalid, UnknownAttempt, UserError
from controller.contracts.fitting import fits, runs
from controller.contracts.manifests import (
    PROVENANCE_KNOBS,
    StackManifest,
    WorkloadManifest,
    defaults_of,
)
from controller.contracts.result import Blame, Failure
from controller.contracts.run import Attempt, Run
from controller.contracts.suite_version import on_device_of, quality_target
from controller.contracts.sweep import Cell
from controller.contracts.units import Unit
from controller.contracts.wire import (
    AttemptRef,
    CandidateJob,
    CommandProgram,
    HostShare,
    Job,
    OnDeviceProgram,
    Program,
    TrainingHost,
    TrainingProgram,
)
from controller.scheduling.plugins import plugins_of
from controller.scheduling.weights import needed_weights

MEETING_PORTS: Final = range(20_000, 32_768)
"""Where ranks on several hosts meet: above the ports of Ray's workers, below ephemeral ones."""
WORD: Final = re.compile(r"[A-Za-z0-9_.:;,=+-]*")
"""Text values of knobs that a sweep may pass to a user's program."""


def job_of(run: Run, catalog: Catalog, share: HostShare | None = None) -> Job:
    """Return the job of an agent that holds a run's lease; raises UnknownAttempt without a lease.

    share: what the agent has of a run on several hosts. Raises SweepInvalid if the manifests have
    changed since the run was queued, so that they refuse its cell.
    """
    lease = run.lease
    if lease is None:
        raise UnknownAttempt(run.run_id, len(run.attempts))
    cell = completed(run.cell, catalog)
    return Job(
        ref=AttemptRef(run_id=run.run_id, attempt=lease.number),
        device_id=share.hosts[share.index].device_id if share else lease.device_id,
        share=share,
        workload=cell.workload,
        stack=cell.stack,
        scenario=cell.scenario,
        knobs=cell.knobs,
        program=program_of(cell, catalog),
        deadline_s=run.deadline_s,
        candidate=candidate_of(cell, catalog),
        profiled=bool(cell.profiled),
    )


def without_job(error: Exception) -> Failure:
    """Return the failure of a run that has no job; error: that of `job_of`."""
    if isinstance(error, UserError):
        return Failure(blame=Blame.USER, kind="job", message=str(error))
    said = " ".join(f"{type(error).__name__}: {error}".split())
    message = f"the controller cannot make its job: {said}"
    return Failure(blame=Blame.HARNESS, kind="job", message=message)


def share_of(
    run_id: str, lease: Attempt, agent_id: str, agents: Mapping[str, RegisteredAgent]
) -> HostShare | None:
    """Return an agent's share of an attempt; None of one on one host. agents: by id."""
    if not lease.partners:
        return None
    hosts = tuple(
        TrainingHost(
            device_id=place.device_id,
            name=agents[place.agent_id].agent.host,
            address=agents[place.agent_id].agent.address or "",
        )
        for place in lease.places
    )
    # Should it be in use there, the attempt fails; the next one has another.
    port = MEETING_PORTS[int(digest([run_id, lease.number], 8), 16) % len(MEETING_PORTS)]
    return HostShare(index=lease.agent_ids.index(agent_id), hosts=hosts, port=port)


def completed(cell: Cell, catalog: Catalog) -> Cell:
    """Return a cell with a value of every knob; one that is younger than the cell has its default.

    Code that measures need not, and must not, have defaults of its own.
    """

    def knobs(stack: str, given: Mapping[str, Scalar]) -> dict[str, Scalar]:
        return {**defaults_of(catalog.knobs_of(cell.workload, stack, cell.scenario)), **given}

    versus = cell.versus
    if versus:
        other = knobs(versus.stack, versus.knobs)
        versus = versus.model_copy(update={"knobs": other})
    own = knobs(cell.stack, cell.knobs)
    return cell.model_copy(update={"knobs": own, "versus": versus})


def candidate_of(cell: Cell, catalog: Catalog, source: str = "the sweep") -> CandidateJob | None:
    """Return side B of a paired cell; raises SweepInvalid if the two sides' programs differ."""
    if cell.versus is None:
        return None
    a, b = (program_of(side, catalog, source) for side in cell.sides())
    if a.type != b.type:
        raise SweepInvalid(
            f"read {source}",
            f"key paired: stack {cell.stack} and stack {cell.versus.stack} measure in different "
            "ways",
            "Compare two stacks that train, or two that run on a device's own runtime.",
        )
    return CandidateJob(
        stack=cell.versus.stack,
        knobs=cell.versus.knobs,
        program=b,
        metric=catalog.scenarios[cell.scenario].metric,
        width=cell.versus.width,
        time_limit_s=cell.versus.time_limit_s,
    )


def _rate_unit(workload: WorkloadManifest) -> Unit:
    """Return what a workload does a second: what its batch is counted in, if that is a unit."""
    counted = workload.knobs.get("batch_size")
    rate = f"{counted.unit}/s" if counted else ""
    return next((unit for unit in Unit if unit == rate), Unit.SAMPLES_PER_SECOND)


def program_of(cell: Cell, catalog: Catalog, source: str = "the sweep") -> Program:
    """Return a cell's program; raises SweepInvalid if its workload can't run on its stack."""
    workload, stack = catalog.workloads[cell.workload], catalog.stacks[cell.stack]
    on_device = on_device_of(workload, cell.knobs)
    _require_scenario(cell, catalog, source)
    if stack.command and runs(stack.command, workload):
        _require_words(cell, stack, source)
        return CommandProgram(stack=stack.name, command=stack.command, workload=on_device)
    if workload.builder and stack.backend:
        arguments = arguments_of(workload, cell)
        scenario = catalog.scenarios[cell.scenario]
        return TrainingProgram(
            builder=workload.builder,
            arguments=arguments,
            plain=_plain(workload, arguments) if scenario.beside_plain else None,
            backend=stack.backend,
            environment=stack.environment,
            rate_unit=_rate_unit(workload),
            scenario_module=scenario.module,
            plugins=plugins_of(cell, catalog),
            weights=needed_weights(workload, cell, source),
            quality_target=quality_target(workload, cell.knobs) if workload.truths else None,
        )
    if on_device and stack.bundle:
        return OnDeviceProgram(
            bundle=stack.bundle,
            workload=on_device,
            quality_target=quality_target(workload, cell.knobs),
        )
    fitting = stacks_that_run(workload, catalog)
    raise SweepInvalid(
        f"read {source}",
        f"key stack: workload {cell.workload} does not run on stack {cell.stack}",
        f"Stacks that run it: {', '.join(fitting) or 'none'}.",
    )


def arguments_of(workload: WorkloadManifest, cell: Cell) -> dict[str, Scalar]:
    """Return what a workload's builder is called with in a cell."""
    origins = PROVENANCE_KNOBS.values()
    return {n: cell.knobs[n] for n in workload.knobs if n not in origins}


def _plain(workload: WorkloadManifest, arguments: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return arguments with the workload's switches at their defaults."""
    return {**arguments, **{name: workload.knobs[name].default for name in workload.switches}}


def stacks_that_run(workload: WorkloadManifest, catalog: Catalog) -> list[str]:
    """Return the names of the stacks that a workload can run on."""
    return [stack.name for stack in catalog.stacks.values() if fits(workload, stack)]


def _require_words(cell: Cell, stack: StackManifest, source: str) -> None:
    """Raise SweepInvalid for a text that could be a path or more than one argument."""
    for name in stack.knobs.keys() & cell.knobs.keys():
        value = cell.knobs[name]
        if isinstance(value, str) and not WORD.fullmatch(value):
            seen = f"key knobs.{name}: {value!r:.80} is not allowed"
            remedy = "Use letters, digits and _.:;,=+- only, and add files to the stack."
            raise SweepInvalid(f"read {source}", seen, remedy)


def _require_scenario(cell: Cell, catalog: Catalog, source: str) -> None:
    """Raise SweepInvalid unless a user's program runs under its own scenario, and only there."""
    programs = {name for name, stack in catalog.stacks.items() if stack.command}
    if cell.scenario == cell.stack or not programs & {cell.scenario, cell.stack}:
        return
    remedy = f"Use it with stack {cell.scenario} only."
    if cell.stack in programs:
        remedy = f"Write scenario: {cell.stack}."
    seen = f"key scenario: stack {cell.stack} is not measured under {cell.scenario}"
    raise SweepInvalid(f"read {source}", seen, remedy)
