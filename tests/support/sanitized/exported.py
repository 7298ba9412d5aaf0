"""What a compiled library exports."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kernels.build import VARIANTS


def exported(library: Path) -> set[str]:
    """Return the names of its functions, without type of elements and variant."""
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    symbols = [line.split()[2] for line in listed.splitlines() if line.split()[1] == "D"]
    ends = [f"_{element}_{variant}" for variant in VARIANTS for element in ("f32", "bf16")]
    return {symbol.removesuffix(end) for symbol in symbols for end in ends if symbol.endswith(end)}
