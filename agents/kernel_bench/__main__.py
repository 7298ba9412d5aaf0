"""`python -m agents.kernel_bench KERNEL_BENCH`: start a worker for each variant, one by one.

They are started as the workers of runs are, with the default launch settings; what they print is
passed on.
"""

from __future__ import annotations

import os
import subprocess
import sys

from agents.host.facts import cpu_device
from agents.host.launch import launch_of
from agents.host.tools import read_host_tools
from controller.contracts.catalog import load_catalog
from controller.contracts.kernels import BEST_VARIANT, KernelBench
from kernels.library import REFERENCE, VARIABLE, capabilities


def variants_of(wanted: KernelBench) -> tuple[str, ...]:
    """Return the variants to run, the best first; raises ValueError for one that can't run here."""
    able = capabilities().supported[::-1]
    compiled = tuple(name for name in able if name != REFERENCE) or (REFERENCE,)
    chosen = tuple(compiled[0] if v == BEST_VARIANT else v for v in wanted.variants) or compiled
    for variant in chosen:
        if variant not in able:
            raise ValueError(f"variant {variant} can't run here; there are: {', '.join(able)}")
    return chosen


def main() -> int:
    """Run all that is asked for; exit status of the first worker that fails, else 0."""
    wanted = KernelBench.model_validate_json(sys.argv[1])
    try:
        chosen = variants_of(wanted)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    knobs = {name: k.default for name, k in load_catalog().launch["cpu_host"].knobs.items()}
    device = cpu_device("here", {})
    launch = launch_of(os.environ, knobs, device, read_host_tools())
    command = [*launch.prefix, sys.executable, "-m", "agents.kernel_bench.worker", sys.argv[1]]
    for variant in chosen:
        done = subprocess.run(command, env={**launch.environ, VARIABLE: variant}, check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
