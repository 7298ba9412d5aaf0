"""Profile passes of a worker, as selected by `WorkerSpec.profile_pass`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Final

from agents.profiling.capture import capture, enable_onednn_verbose, name_compiled_kernels
from agents.profiling.counting import count
from agents.profiling.layers import KNOBS
from agents.profiling.names import LOG
from agents.profiling.windows import MOST_WINDOWS
from agents.stacks.resolving import resolve
from controller.contracts.policy import Policy, load_policy
from controller.contracts.result import Result
from controller.contracts.wire import Progress, TrainingProgram, WorkerSpec

PEAKS_POLICY: Final = "ci"
"""Has the limits of peaks, if a job's own policy doesn't judge how quiet a server is."""


def run(spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Result:
    """Run the selected pass; its files are in the spec's folder and named in the result."""
    folder, job = Path(spec.artefact_dir), spec.job
    log = folder / LOG
    if spec.profile_pass in ("verbose", "replay"):
        enable_onednn_verbose(log)
    program = job.program
    if not isinstance(program, TrainingProgram):
        raise TypeError(f"{job.workload} does not train")
    if spec.profile_pass in ("replay", "peaks"):
        backend = resolve(program.backend)({**job.knobs, **KNOBS})
        alone: Result = import_module(f"agents.profiling.{spec.profile_pass}").run(
            backend, folder, log, _policy_of(spec)
        )
        return alone
    counts = spec.profile_pass == "counters"
    if not counts:
        name_compiled_kernels()
    backend = resolve(program.backend)(job.knobs)
    workload = resolve(program.builder)(**program.arguments)
    if counts:
        return count(workload, backend, job.knobs, folder, on_progress)
    windows = spec.most_windows or MOST_WINDOWS
    found = capture(workload, backend, job.knobs, folder, on_progress, windows)
    if spec.profile_pass == "trace":
        return found
    return found.model_copy(update={"artefacts": {**found.artefacts, "verbose": str(log)}})


def _policy_of(spec: WorkerSpec) -> Policy:
    """Return what a replay is judged by, as the steps are; peaks need a quiet machine anyhow."""
    knobs = spec.job.knobs
    policy = load_policy(str(knobs["policy"])) if "policy" in knobs else None
    if policy is None or (spec.profile_pass == "peaks" and policy.host is None):
        return load_policy(PEAKS_POLICY)  # `machine peaks` measures without a cell
    return policy
