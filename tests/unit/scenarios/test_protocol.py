"""The modules of agents/scenarios are scenarios: mypy holds their functions to the Protocols."""

from __future__ import annotations

from pathlib import Path

from agents.scenarios import data_loading, kernel, training, training_accuracy, training_quality
from agents.scenarios.protocol import BatchedScenario, BesidePlain, KeepingScenario, Scenario

SCENARIOS: dict[str, Scenario] = {
    "data_loading": data_loading,
    "kernel": kernel,
    "training": training,
    "training_quality": training_quality,
}
BESIDE: dict[str, BesidePlain] = {"training_accuracy": training_accuracy}
BATCHED: dict[str, BatchedScenario] = {"training": training}
KEEPING: dict[str, KeepingScenario] = {"kernel": kernel, "training_quality": training_quality}


def test_every_module_is_held_to_the_protocol() -> None:
    folder = Path(kernel.__file__).parent
    modules = {path.stem for path in folder.glob("[a-z]*.py")} - {"protocol"}
    assert modules == {*SCENARIOS, *BESIDE}
    assert {name for name in SCENARIOS if hasattr(SCENARIOS[name], "run_batches")} == set(BATCHED)
    assert {name for name, it in SCENARIOS.items() if isinstance(it, KeepingScenario)} == {*KEEPING}
