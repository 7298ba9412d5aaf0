"""`… FOLDER < SWEEP`: run a sweep's only cell by a real worker and print its outcome as JSON."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from controller.contracts.sweep_file import parse_sweep
from controller.scheduling.expansion import cells_of
from tests.support.cells import CATALOG, run_cell


def main() -> None:
    """Run it within 100 s."""
    folder = Path(sys.argv[1])
    (cell,) = cells_of(parse_sweep(sys.stdin.buffer.read(), "example"), CATALOG)
    outcome = asyncio.run(run_cell(cell, folder, folder, 100, scenario=cell.scenario))
    sys.stdout.write(outcome.model_dump_json() + "\n")


if __name__ == "__main__":
    main()
