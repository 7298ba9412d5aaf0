"""`python -m agents.machine_peaks`: a helper for this machine's peaks; serves a PeaksRequest."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from agents.attempts.kept_peaks import KeptPeaks
from agents.attempts.profiled import PeaksFound, ProfiledRunner
from agents.attempts.worker_process import WorkerProcess
from agents.host.cores import exclusive_cores, free_cores
from agents.host.facts import agent_id, cpu_device, machine_id
from agents.stacks.environments import stacks_folder
from agents.stacks.interpreter import stack_worker
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import NotFound, UserError, WorkerFault
from controller.contracts.manifests import Knob, StackManifest, defaults_of
from controller.contracts.peaks import Peaks, PeaksRequest
from controller.contracts.wire import AttemptRef, Job, TrainingProgram, WorkerSpec
from controller.platform.helper_loop import run_until_signal
from controller.platform.helper_main import Replies, serve

DEADLINE_S = 600.0


def handle(request: PeaksRequest, replies: Replies) -> None:
    """Answer with Peaks; raises as machine_peaks, and UserError if they can't be measured."""
    try:
        replies.answer(run_until_signal(machine_peaks(request, replies.progress)))
    except WorkerFault as fault:
        tried, seen = f"measure the peaks of stack {request.stack}", fault.failure.message
        raise UserError(tried, seen, "Run `benchfarm doctor` to see what is amiss.") from fault


async def machine_peaks(request: PeaksRequest, progress: Callable[[str], None]) -> Peaks:
    """Return this machine's peaks; raises NotFound, WrongKnob, WorkerFault, Disturbed.

    If they aren't known from the stack, waits until nothing else measures on the cores; `progress`
    gets a line then.
    """
    home, stack, knobs, again = request.home, request.stack, request.knobs, request.again
    manifest, catalog = _stack(stack), load_catalog()
    plugin = catalog.plugin_of("stack", stack)
    declared = {**catalog.launch_knobs(stack), **manifest.knobs}
    _check(knobs, declared)
    machine = machine_id(home / "agent" / "machine-id")
    device = cpu_device(machine, {})
    workers = WorkerProcess(f"peaks@{home}", partial(stack_worker, stacks_folder(home)))
    kept = KeptPeaks(home / "agent" / agent_id(machine) / "peaks")
    profiled = ProfiledRunner(workers, workers, kept)
    defaults = defaults_of(declared)
    with TemporaryDirectory(prefix="benchfarm-peaks-") as folder:
        job = Job(
            ref=AttemptRef(run_id=Path(folder).name, attempt=1),
            device_id=device.id,
            workload="",
            stack=stack,
            scenario="training",
            knobs=defaults | knobs,
            program=TrainingProgram(
                builder="",
                arguments={},
                backend=str(manifest.backend),
                environment=manifest.environment,
                plugins={"stack": plugin} if plugin else {},
            ),
            deadline_s=DEADLINE_S,
        )
        spec = WorkerSpec(job=job, device=device, artefact_dir=folder)
        known = profiled.known_peaks(spec)
        if known and not again:
            return known
        with free_cores(device.host_cores) as free:
            if not free:
                progress("waiting: something else measures on this host's cores")
        async with exclusive_cores(device.host_cores):
            found = await profiled.machine_peaks(spec, again=again)
    return peaks_in(found, progress)


def peaks_in(found: PeaksFound, progress: Callable[[str], None]) -> Peaks:
    """Return known peaks, and say what disturbed a measurement; raises Disturbed without any."""
    if found.peaks is None:
        raise Disturbed(
            "measure this host's peaks", found.refused, "Run it again when nothing else runs here."
        )
    if found.refused:
        progress(f"the peaks are those known before, since {found.refused}")
    return found.peaks


class Disturbed(UserError):
    """A measurement while the machine was not quiet, with no earlier one to show."""


class WrongKnob(UserError):
    """An unknown launch setting, or one with a value that is not allowed."""


def _check(knobs: Mapping[str, Scalar], declared: Mapping[str, Knob]) -> None:
    for name, value in knobs.items():
        tried = f"use --knob {name}={value}"
        if name not in declared:
            raise WrongKnob(
                tried, f"there is no knob {name}", f"Choose among {', '.join(declared)}."
            )
        if objection := declared[name].objection(value):
            raise WrongKnob(tried, "its value is not allowed", objection)


def _stack(name: str) -> StackManifest:
    stacks = {n: s for n, s in load_catalog().stacks.items() if s.backend}
    if name not in stacks:
        known = f"Choose among {', '.join(stacks)}."
        raise NotFound(f"use stack {name}", "no training stack has that name", known)
    return stacks[name]


if __name__ == "__main__":
    sys.exit(serve(PeaksRequest, handle))
