"""Submit a sweep from where it runs, the head, and wait for its results.

`ray submit deploy/ray/local.yaml deploy/ray/submit_sweep.py -- sweeps/quick.yaml`: relative to the
home directory there. The exit status is that of `benchfarm sweep submit --wait`, 0 if every run has
a VALID result; `ray submit` turns any other into 1.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Hand all arguments to benchfarm, the one beside this Python."""
    benchfarm = Path(sys.executable).with_name("benchfarm")
    return subprocess.call([str(benchfarm), "sweep", "submit", *arguments, "--wait"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
