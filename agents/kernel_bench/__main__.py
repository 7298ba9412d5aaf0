"""`python -m agents.kernel_bench`: a helper that starts a worker for each variant, one by one.

It serves a KernelBench. Workers are started as those of runs are, with the default launch settings;
their answers are passed on.
"""

from __future__ import annotations

import os
import sys

from agents.host.compiler import MISSING, compiler
from agents.host.facts import cpu_device
from agents.host.launch import launch_of
from agents.host.tools import read_host_tools
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import UserError
from controller.contracts.kernels import (
    BEST_VARIANT,
    KernelBench,
    KernelCheck,
    KernelOperator,
    KernelRow,
)
from controller.contracts.manifests import defaults_of
from controller.platform.helper import Helper
from controller.platform.helper_main import Replies, serve
from controller.platform.programs import python_module
from kernels.bench.registry import operators
from kernels.library import REFERENCE, VARIABLE, KernelsUnusable, capabilities


def variants_of(wanted: KernelBench) -> tuple[str, ...]:
    """Return the variants to run, the best first; raises UserError for one that can't run here."""
    able = capabilities().supported[::-1]
    compiled = tuple(name for name in able if name != REFERENCE) or (REFERENCE,)
    chosen = tuple(compiled[0] if v == BEST_VARIANT else v for v in wanted.variants) or compiled
    for variant in chosen:
        if variant not in able:
            seen = f"this CPU or build has no variant {variant}"
            raise UserError(f"run kernels {wanted.verb}", seen, f"Choose among {', '.join(able)}.")
    return chosen


def require_dtypes(wanted: KernelBench) -> None:
    """Raise UserError for an operator with none of the wanted dtypes."""
    for op in wanted.operators:
        dtypes = operators()[op].dtypes
        if wanted.dtypes and not set(wanted.dtypes) & set(dtypes):
            seen = f"{op} has no dtype {', '.join(wanted.dtypes)}"
            raise UserError(
                f"run kernels {wanted.verb}", seen, f"Choose among {', '.join(dtypes)}."
            )


def handle(wanted: KernelBench, replies: Replies) -> None:
    """Answer with all that is asked for; raises UserError if it can't be run here."""
    require_dtypes(wanted)
    if wanted.verb == "sweep":
        for op, operator in operators().items():
            replies.answer(KernelOperator(op=op, dtypes=operator.dtypes))
        return
    try:
        chosen = variants_of(wanted)
    except KernelsUnusable as error:
        remedy = "Run `benchfarm stacks show torch` to see the variants."
        raise UserError(f"run kernels {wanted.verb}", str(error), remedy) from error
    if wanted.verb == "bench" and compiler() is None:
        replies.progress(f"without baselines by torch.compile: {MISSING}")
    kind = KernelCheck if wanted.verb == "check" else KernelRow
    for variant in chosen:
        pass_on(_worker(wanted, variant, replies), wanted, kind, replies)


def pass_on(
    worker: Helper, wanted: KernelBench, kind: type[KernelCheck | KernelRow], replies: Replies
) -> None:
    """Pass on a worker's answers; raises UserError if there is none.

    Code of the user may end the worker by itself, with any exit status.
    """
    answered = False
    for answer in worker.stream(wanted, kind):
        replies.answer(answer)
        answered = True
    if not answered:
        raise worker.error("its process ended without an answer")


def _worker(wanted: KernelBench, variant: str, replies: Replies) -> Helper:
    """Return the worker of a variant, launched with the default settings."""
    knobs = defaults_of(load_catalog().launch["cpu_host"].knobs)
    launch = launch_of(os.environ, knobs, cpu_device("here", {}), read_host_tools())
    return Helper(
        (*launch.prefix, *python_module("agents.kernel_bench.worker")),
        f"run kernels {wanted.verb} with variant {variant}",
        environ={**launch.environ, VARIABLE: variant},
        on_progress=replies.progress,
    )


if __name__ == "__main__":
    sys.exit(serve(KernelBench, handle))
