"""The kernel scenario: whether an operator is right, and how much faster it is than its
reference."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from agents.backends.environment import preloaded_malloc
from agents.backends.protocol import TrainingBackend
from agents.host.compiler import require_compiler
from agents.host.disturbance import OWN_SPEED, CpuWatch, environment_of, validity_of
from agents.host.disturbance import objections as disturbances
from agents.kernel_bench.measure import BATCH_S, Identity, compare
from agents.pairing.interleave import Plan
from controller.contracts.base import Scalar
from controller.contracts.kernels import KernelRow
from controller.contracts.policy import load_policy
from controller.contracts.result import Measurement, Result
from controller.contracts.units import Unit
from controller.contracts.wire import Progress
from kernels.bench.case import Case
from kernels.bench.workload import KernelWorkload


def run(
    workload: KernelWorkload,
    backend: TrainingBackend,
    knobs: Mapping[str, Scalar],
    on_progress: Callable[[Progress], None],
) -> Result:
    """Check the operator, then compare it with each baseline; wrong output is INVALID.

    By its policy a disturbed run is DISTURBED or INVALID.

    Raises WorkerFault, blame user, without the C++ compiler that a baseline needs.
    """
    return measured(workload, backend, knobs, on_progress, secrets.token_hex(8))


def run_in_folder(
    workload: KernelWorkload,
    backend: TrainingBackend,
    knobs: Mapping[str, Scalar],
    on_progress: Callable[[Progress], None],
    folder: Path,
) -> Result:
    """Do the same as `run`, with the seed of this attempt.

    folder: of the attempt's files, named by run and attempt, which seed the order within pairs as
    in a paired comparison. Nothing is kept there.
    """
    return measured(workload, backend, knobs, on_progress, "/".join(folder.parts[-2:]))


def plan_of(knobs: Mapping[str, Scalar], baseline: str, seed: str) -> Plan:
    """Return when the comparison with a baseline stops, and the seed of its order."""
    return Plan(
        width=float(knobs["kernel_width"]),
        time_limit_s=float(knobs["kernel_time_limit"]),
        seed=f"{seed}/{baseline}",
        batch_s=BATCH_S,
    )


def measured(
    workload: KernelWorkload,
    backend: TrainingBackend,
    knobs: Mapping[str, Scalar],
    on_progress: Callable[[Progress], None],
    seed: str,
) -> Result:
    """Return the result of an operator; seed: of the random order within pairs."""
    case = workload.case()
    wanted = _baselines(case, compiled=bool(knobs["compiled_baseline"]))
    broken = tuple(f"{workload.op}: {objection}" for objection in case.objections())
    policy, watch = load_policy(str(knobs["policy"])), CpuWatch()
    identity = Identity(workload.op, workload.dtype, workload.in_use.variant)
    rows = []
    for number, baseline in enumerate(wanted, start=1):
        plan, other = plan_of(knobs, baseline, seed), case.baselines[baseline]
        rows.append(compare(identity, case, baseline, other, plan, policy, watch))
        on_progress(Progress(phase="measuring", done=number, total=len(wanted)))
    disturbed = disturbances(watch.timed, policy) + own_speed_changes(rows)
    return Result(
        validity=validity_of(broken, disturbed, policy),
        reasons=broken + disturbed,
        metrics={**metrics_of(rows), **_memory(rows[0])},
        environment={
            **backend.environment(),
            **environment_of(watch.timed),
            "kernel_shape": case.shape,
            "copy_gbps": round(rows[0].copy_gbps, 3),
            "matmul_gflops": round(rows[0].matmul_gflops, 3),
            "kernel_variant": workload.in_use.variant,
        },
    )


def own_speed_changes(rows: list[KernelRow]) -> tuple[str, ...]:
    """Return each change of the machine's own speed, which no watch of the cores sees."""
    reasons = (reason for row in rows for draw in row.draws for reason in draw.reasons)
    return tuple(dict.fromkeys(reason for reason in reasons if reason.startswith(OWN_SPEED)))


def _baselines(case: Case, *, compiled: bool) -> list[str]:
    if not (compiled and "compile" in case.baselines):
        return ["eager"]
    require_compiler("knob compiled_baseline")
    return ["eager", "compile"]


def _memory(row: KernelRow) -> dict[str, Measurement]:
    """Return what a run needs beside its inputs; none with a malloc that keeps what was freed, from
    which the run takes it unseen (see `extra_memory`)."""
    if preloaded_malloc():
        return {}
    return {"extra_memory": Measurement(value=row.memory_bytes, unit=Unit.BYTES)}


def metrics_of(rows: list[KernelRow]) -> dict[str, Measurement]:
    """Return how fast an operator is, from its rows; the first row is against eager."""
    first = rows[0]
    metrics = {
        "kernel_time": Measurement(value=first.p50_s, unit=Unit.SECONDS),
        "kernel_time_p20": Measurement(value=first.p20_s, unit=Unit.SECONDS),
        "kernel_time_p80": Measurement(value=first.p80_s, unit=Unit.SECONDS),
        "moved_bytes": Measurement(value=first.bytes, unit=Unit.BYTES),
        "copy_share": Measurement(value=first.gbps / first.copy_gbps, unit=Unit.FRACTION),
    }
    for row in rows:
        name, share = f"{row.baseline}_ratio", row.baseline_gbps / row.copy_gbps
        metrics[name] = Measurement(value=row.ratio, unit=Unit.RATIO, samples=row.draws[0].ratios)
        metrics |= {
            f"{name}_{end}": Measurement(value=value, unit=Unit.RATIO)
            for end, value in (("low", row.ratio_low), ("high", row.ratio_high))
            if value is not None
        }
        metrics[f"{row.baseline}_copy_share"] = Measurement(value=share, unit=Unit.FRACTION)
    return metrics
