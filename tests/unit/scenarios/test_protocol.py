"""The modules of agents/scenarios are scenarios: mypy holds their functions to the Protocols."""

from __future__ import annotations

from pathlib import Path

from agents.scenarios import kernel, training
from agents.scenarios.protocol import BatchedScenario, Scenario

SCENARIOS: dict[str, Scenario] = {"kernel": kernel, "training": training}
BATCHED: dict[str, BatchedScenario] = {"training": training}


def test_every_module_is_held_to_the_protocol() -> None:
    folder = Path(kernel.__file__).parent
    modules = {path.stem for path in folder.glob("[a-z]*.py")} - {"protocol"}
    assert modules == set(SCENARIOS)
    assert {name for name in modules if hasattr(SCENARIOS[name], "run_batches")} == set(BATCHED)
