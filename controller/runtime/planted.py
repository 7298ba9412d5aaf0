"""Comparisons with a known outcome, in a process of the agents' side."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

from controller.contracts.bench import PlantedTrial, PlantedTrials
from controller.contracts.errors import UserError
from controller.platform.programs import python_module


def run_planted(wanted: PlantedTrials) -> Iterator[PlantedTrial]:
    """Yield each comparison as it ends; raises UserError if they cannot run here."""
    command = python_module("agents.pairing.planted", wanted.model_dump_json())
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            yield PlantedTrial.model_validate_json(line)
    if process.returncode != 0:
        seen = f"its process ended with status {process.returncode}"
        raise UserError("compare planted differences", seen, "See its output above.")
