"""`results replicate` on a real farm: a user's program whose figures are planted, run by run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.farm import Said, TestFarm
from tests.support.validity import MET_RULES

pytestmark = [pytest.mark.integration, pytest.mark.farm]
STACK = "llama-bench"
PROGRAM = """#!/bin/sh
echo run >>"{folder}/runs"
rate=$(sed -n "$(wc -l <"{folder}/runs")p" "{folder}/figures")
echo '[{{"n_prompt": 0, "n_gen": 128, "avg_ts": '"$rate"'}}]'
"""
"""Prints as llama.cpp's does, with the next figure."""
ORIGINAL = 10.0
"""Tokens a second."""


class Planted:
    """The figures that the program prints next."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def next(self, *figures: float) -> None:
        """Have the next runs print these tokens a second."""
        (self._folder / "runs").write_text("")
        (self._folder / "figures").write_text("".join(f"{figure}\n" for figure in figures))


@pytest.fixture(scope="module")
def planted(farm: TestFarm, tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Add a program and its model to a shipped stack, as a user does."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "program").write_text(PROGRAM.format(folder=folder))
    (folder / "model").write_text("none")
    for file in ("program", "model"):
        said = farm.cli("models", "add", str(folder / file), "--as", f"{STACK}/files/{file}")
        assert said.status == 0, said.err
    return Planted(folder)


@pytest.fixture(scope="module")
def run_id(farm: TestFarm, planted: Planted) -> str:
    """Measure once what is to be replicated."""
    planted.next(ORIGINAL)
    server = farm.server()["device"]["id"]
    own = {"stack": STACK, "scenario": STACK, "workload": "program"}
    sweep = {"name": "planted", **own, "devices": [f'device == "{server}"'], "deadline_s": 200}
    sweep_id = farm.submit(sweep)
    assert farm.cli("sweep", "watch", sweep_id).status == 0
    (result,) = farm.cli("results", "list", "--sweep", sweep_id, "--json").json
    assert result["validity"] in MET_RULES, result
    assert result["metrics"]["throughput"]["value"] == pytest.approx(ORIGINAL)
    found: str = result["run_id"]
    return found


def replicated(farm: TestFarm, run_id: str, *options: str) -> Said:
    short = ("--tries", "2", "--wait", "0s")
    return farm.cli("results", "replicate", run_id, *short, *options)


def verdicts(found: dict[str, Any]) -> dict[str, str]:
    return {rule["rule"]: rule["verdict"] for rule in found["rules"]}


def require_consistent(said: Said) -> dict[str, Any]:
    """Return what was found; a busy machine may make a try DISTURBED, which is another rule."""
    found: dict[str, Any] = said.json
    assert found["replicates"] == all(verdict == "met" for verdict in verdicts(found).values())
    assert said.status == (0 if found["replicates"] else 1), said.err
    return found


def test_tries_within_5_percent_replicate(farm: TestFarm, planted: Planted, run_id: str) -> None:
    planted.next(10.3, 9.9)
    said = replicated(farm, run_id, "--json")
    found = require_consistent(said)
    assert [one["value"] for one in found["tries"]] == pytest.approx([10.3, 9.9])
    assert {one["state"] for one in found["tries"]} == {"done"}
    assert found["spreads"]["throughput"] == pytest.approx(10.3 / 9.9 - 1)
    ruled = verdicts(found)
    assert (ruled["replication"], ruled["all tries"], ruled["same device"]) == ("met",) * 3
    valid = {one["validity"] for one in found["tries"]} == {"VALID"}
    assert valid or ruled["valid results"] == "missed"
    assert f"2 tries, replication {run_id}-1" in said.err
    stored = {r["run_id"]: r["cell_key"] for r in farm.cli("results", "list", "--json").json}
    keys = {stored[one["run_id"]] for one in found["tries"]}
    assert keys == {stored[run_id]}, "the tries belong to the history of the original"
    again = replicated(farm, run_id)
    assert "throughput: within 4.04 %" in again.out, "a replication that has ended is shown again"
    assert again.status == said.status


def test_tries_beyond_5_percent_do_not(farm: TestFarm, planted: Planted, run_id: str) -> None:
    """Each of them is within 5 % of the original, but not of the other."""
    planted.next(10.4, 9.8)
    said = replicated(farm, run_id, "--again", "--json")
    found = require_consistent(said)
    assert found["session"].startswith(f"{run_id}-")
    assert found["spreads"]["throughput"] == pytest.approx(10.4 / 9.8 - 1)
    assert verdicts(found)["replication"] == "missed"
    assert (found["replicates"], said.status) == (False, 1)
    assert "rule missed, replication: " in said.err
