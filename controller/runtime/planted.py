"""Comparisons with a known outcome, in a process of the agents' side."""

from __future__ import annotations

from collections.abc import Iterator

from controller.contracts.bench import PlantedTrial, PlantedTrials
from controller.platform.helper import Helper
from controller.platform.programs import python_module


def run_planted(wanted: PlantedTrials) -> Iterator[PlantedTrial]:
    """Yield each comparison as it ends; raises UserError if they cannot run here."""
    helper = Helper(python_module("agents.pairing.planted"), "compare planted differences")
    yield from helper.stream(wanted, PlantedTrial)
