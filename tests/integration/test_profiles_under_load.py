"""Profiles beside planted load: none of them misleads.

For a machine that nobody else uses, so only when asked for: `make profiles-under-load`. It takes
two hours on two cores, since a profile is measured again while the machine changes its speed.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from controller.contracts.result import Validity
from controller.profiles.files import read
from controller.profiles.model import Profile
from controller.profiles.parts import parts_of
from tests.integration.farm import TestFarm
from tests.support.figures import Figure
from tests.support.planted_load import LOADS, planted_load, random_load

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.hardware]

FEW = "steps=5"
ALONE = "threads=1"
IMAGES = (FEW, "image_size=64", "batch_size=4")
MODELS = {
    "resnet18": ("resnet18", ALONE, *IMAGES),
    "resnet50": ("resnet50", ALONE, *IMAGES),
    "retinanet": ("retinanet_resnext50", ALONE, FEW, "image_size=96", "num_classes=8"),
    "lstm": ("lstm", ALONE, FEW, "sequence_length=20", "batch_size=8", "vocabulary_size=2000"),
}
"""Name → the workload and its knobs."""
DRAWS = 5
RANDOM_DRAWS = 10
POINTS = 0.02
DRAW_S = 1200
"""Beside load, steps take longer, and more of them are watched."""


def profiled(farm: TestFarm, folder: Path, workload: str, *knobs: str) -> Profile:
    given = [text for knob in knobs for text in ("--knob", knob)]
    run = ("profile", "run", workload, "--stack", "torch", "-o", str(folder), *given)
    said = farm.cli(*run, timeout_s=DRAW_S)
    assert said.status == 0, said.err
    return read(folder)


def headrooms(profile: Profile) -> list[float]:
    """Return the headroom of every part of the step, and of the whole, in seconds."""
    of_parts = [part.headroom_s or 0.0 for part in parts_of(profile)]
    return [*of_parts, sum(of_parts), profile.summary.headroom_s or 0.0]


def shares(profile: Profile) -> dict[str, float]:
    """Return the share of the step's time that is spent in each op."""
    seconds: dict[str, float] = defaultdict(float)
    for part in parts_of(profile):
        seconds[part.row.place.op or "none"] += part.seconds
    return {op: spent / sum(seconds.values()) for op, spent in seconds.items()}


def assert_not_misleading(profile: Profile, load: str) -> None:
    """No headroom is above the step, and the profile is VALID beside no load alone."""
    summary = profile.summary
    assert summary.step_s
    assert max(headrooms(profile)) <= summary.step_s, summary.reasons
    assert (summary.validity == Validity.VALID) is (load == "none"), summary.reasons


@pytest.mark.timeout(DRAW_S + 60)
@pytest.mark.parametrize("draw", range(DRAWS))
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("load", LOADS)
def test_a_profile_is_valid_only_beside_no_load(
    farm: TestFarm, tmp_path: Path, load: str, model: str, draw: int
) -> None:
    with planted_load(load):
        profile = profiled(farm, tmp_path / str(draw), *MODELS[model])
    assert_not_misleading(profile, load)


@pytest.mark.timeout(DRAW_S + 60)
@pytest.mark.parametrize("draw", range(DRAWS))
def test_threads_that_wait_for_each_other_mislead_nobody(
    farm: TestFarm, tmp_path: Path, draw: int
) -> None:
    """On all cores, of which one has other work, a step takes twenty times as long."""
    with planted_load("one_core"):
        profile = profiled(farm, tmp_path / str(draw), "resnet18", *IMAGES)
    assert_not_misleading(profile, "one_core")


@pytest.mark.timeout(RANDOM_DRAWS * DRAW_S)
def test_shares_of_valid_profiles_beside_random_load_are_alike(
    farm: TestFarm, tmp_path: Path, figure: Figure
) -> None:
    found: dict[str, list[float]] = defaultdict(list)
    valid = 0
    for draw in range(RANDOM_DRAWS):
        with random_load(draw):
            profile = profiled(farm, tmp_path / str(draw), *MODELS["resnet50"])
        if profile.summary.validity == Validity.VALID:
            valid += 1
            for op, share in shares(profile).items():
                found[op].append(share)
    figure(f"VALID profiles of {RANDOM_DRAWS} beside random load", valid, "any")
    apart = {op: max(of) - min(of) for op, of in found.items()}
    figure("most that shares of an op differ", max(apart.values(), default=0.0), "0.04")
    assert max(apart.values(), default=0.0) <= 2 * POINTS, apart
