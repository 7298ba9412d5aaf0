"""Comparisons through a real farm: what a user types, what comes back, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.farm import TestFarm
from tests.support.figures import Figure
from tests.support.validity import MET_RULES

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.long]

SMALL = ("--knob", "image_size=96", "--knob", "num_classes=8", "--knob", "threads=1")
WORKLOAD = ("--workload", "retinanet_resnext50")
PROMISED = {"a", "b", "metric", "ratio", "ratio_low", "ratio_high", "pairs", "verdict"}
PROMISED |= {"outcome", "asked_width"}


@pytest.fixture(scope="module")
def compared(farm: TestFarm) -> dict[str, Any]:
    """Three stages that learn against none, in as few pairs as give an interval."""
    sides = ("torch:trainable_stages=3", "torch:trainable_stages=0")
    said = farm.cli("compare", *sides, *WORKLOAD, *SMALL, "--width", "5", "--json")
    assert said.status == 0, said.err
    found: dict[str, Any] = said.json
    return found


def test_a_comparison_says_all_that_is_promised(compared: dict[str, Any]) -> None:
    assert compared.keys() >= PROMISED
    assert (compared["a"], compared["b"]) == (
        "torch:trainable_stages=3",
        "torch:trainable_stages=0",
    )
    assert compared["metric"] == "step_time"
    assert compared["pairs"] >= 10
    assert compared["ratio_low"] <= compared["ratio"] <= compared["ratio_high"]
    assert compared["ratio"] == pytest.approx(compared["value_a"] / compared["value_b"], rel=0.5)
    assert compared["validity"] in MET_RULES
    assert compared["environment"]["torch"].startswith("2.13.0")
    assert compared["environment"]["threads"] == 1
    assert compared["knobs"]["image_size"] == 96


def test_less_to_learn_is_not_slower(compared: dict[str, Any], figure: Figure) -> None:
    """Backward passes through three stages are half of a step."""
    figure("RetinaNet's step by one in which no stage learns", compared["ratio"], "1.1 or more")
    assert compared["ratio_high"] > 1


def test_what_is_stored_gives_the_same_answer(farm: TestFarm, compared: dict[str, Any]) -> None:
    (run_id,) = compared["runs"]
    (stored,) = farm.cli("results", "show", run_id, "--json").json
    assert stored["versus"]["knobs"]["trainable_stages"] == 0
    assert stored["metrics"]["ratio"]["value"] == pytest.approx(compared["ratio"])
    assert len(stored["pairs"]) >= compared["pairs"]
    sides = ("torch:trainable_stages=3", "torch:trainable_stages=0")
    again = farm.cli("results", "compare", *sides, *WORKLOAD, *SMALL, "--json")
    assert again.status == 0, again.err
    assert again.json == compared
    # Which verdict it is depends on how quiet the machine was.
    assert compared["verdict"] in farm.cli("results", "compare", *sides, *WORKLOAD, *SMALL).out
    turned = farm.cli("results", "compare", *sides[::-1], *WORKLOAD, *SMALL, "--json").json
    # A median or a quantile between two values is a mean of them, whose inverse is another's.
    assert turned["ratio"] == pytest.approx(1 / compared["ratio"], rel=0.05)
    assert turned["ratio_low"] == pytest.approx(1 / compared["ratio_high"], rel=0.05)


def test_a_limit_that_holds_no_pair_is_kept_and_said(farm: TestFarm) -> None:
    tight = ("--time-limit", "1")
    sides = ("torch", "torch:memory_format=channels_last")
    said = farm.cli("compare", *sides, *WORKLOAD, *SMALL, *tight, "--json")
    assert said.status == 1
    assert said.out == "", "JSON, and there is no comparison"
    assert "at most 1 s once a device is free" in said.err
    assert "no pair was measured within the time limit of 1 s" in said.err
    stored = farm.cli("results", "compare", *sides, *WORKLOAD, *SMALL)
    assert stored.status == 2
    assert "no VALID result is stored" in stored.err


def test_it_is_a_sweep_whose_summary_has_the_verdict(
    farm: TestFarm, compared: dict[str, Any]
) -> None:
    (stored,) = farm.cli("results", "show", compared["runs"][0], "--json").json
    shown = farm.cli("sweep", "status", stored["sweep_id"])
    assert shown.status == 0, shown.err
    for part in ("1 done", "torch:trainable_stages=0", compared["validity"], compared["verdict"]):
        assert part in shown.out
