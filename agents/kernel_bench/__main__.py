"""`python -m agents.kernel_bench KERNEL_BENCH`: start a worker for each variant, one by one.

They start like the workers of runs, with default launch settings; their output is passed on.
"""

from __future__ import annotations

import os
import subprocess
import sys

from agents.host.facts import cpu_device
from agents.host.launch import launch_of
from agents.host.tools import read_host_tools
from agents.stacks.compiler import MISSING, compiler
from controller.contracts.catalog import load_catalog
from controller.contracts.error_payload import USER_ERROR, ErrorPayload
from controller.contracts.errors import UserError
from controller.contracts.kernels import BEST_VARIANT, KernelBench, KernelOperator
from controller.platform.interrupted import quietly_interrupted
from controller.platform.programs import python_module
from controller.platform.terminal import say
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


def list_operators() -> int:
    """Print a KernelOperator a line; return exit status 0."""
    for op, operator in operators().items():
        found = KernelOperator(op=op, dtypes=operator.dtypes)
        sys.stdout.write(found.model_dump_json() + "\n")
    return 0


def main() -> int:
    """Run all variants; return the exit status of the first worker that fails, else 0.

    2 if they can't run here: standard output holds an ErrorPayload.
    """
    wanted = KernelBench.model_validate_json(sys.argv[1])
    try:
        require_dtypes(wanted)
        if wanted.verb == "sweep":
            return list_operators()
        chosen = variants_of(wanted)
    except UserError as error:
        return _complain(error)
    except KernelsUnusable as error:
        remedy = "Run `benchfarm stacks show torch` to see the variants."
        return _complain(UserError(f"run kernels {wanted.verb}", str(error), remedy))
    if wanted.verb == "bench" and compiler() is None:
        say(f"without baselines by torch.compile: {MISSING}", err=True)
    knobs = {name: k.default for name, k in load_catalog().launch["cpu_host"].knobs.items()}
    device = cpu_device("here", {})
    launch = launch_of(os.environ, knobs, device, read_host_tools())
    command = (*launch.prefix, *python_module("agents.kernel_bench.worker", sys.argv[1]))
    for variant in chosen:
        done = subprocess.run(command, env={**launch.environ, VARIABLE: variant}, check=False)
        if done.returncode:
            return done.returncode
    return 0


def _complain(error: UserError) -> int:
    sys.stdout.write(ErrorPayload.of(error).model_dump_json() + "\n")
    return USER_ERROR


if __name__ == "__main__":
    with quietly_interrupted():
        sys.exit(main())
