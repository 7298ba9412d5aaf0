"""A log of each workload, projected without its model, beside the profile that it is of.

It tells how well an efficiency from a log alone is that of the live run, which takes half an hour:
only `make bench` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agents.host.cpu import read_instruction_sets
from tests.integration.farm import TestFarm
from tests.support.figures import Figure

pytestmark = [pytest.mark.integration, pytest.mark.farm, pytest.mark.long]

HAS_BF16 = not {"avx512_bf16", "amx_bf16"}.isdisjoint(read_instruction_sets().usable)
SMALL_IMAGES = ("image_size=128", "batch_size=4")
LANGUAGE = ("layers=2", "sequence_length=64", "batch_size=4", "vocabulary_size=2000")
MODELS: Mapping[str, tuple[Sequence[str], bool]] = {
    "resnet18": (SMALL_IMAGES, False),
    "resnet50": (SMALL_IMAGES, False),
    "retinanet_resnext50": (("image_size=128", "num_classes=8"), False),
    "lstm": (("sequence_length=20", "batch_size=8", "vocabulary_size=2000"), False),
    "transformer_encoder": (LANGUAGE, True),
    "bert": (LANGUAGE, True),
    "dlrm": (("tables=4", "table_rows=1000"), True),
}
"""Workload → its knobs, and whether torch runs it by oneDNN in bf16 alone."""


@pytest.mark.parametrize("workload", MODELS)
def test_an_efficiency_from_a_log_alone_is_the_live_one(
    farm: TestFarm, tmp_path: Path, figure: Figure, pytestconfig: pytest.Config, workload: str
) -> None:
    if not pytestconfig.getoption("figures"):
        pytest.skip("a figure of half an hour: `make bench` measures it")
    knobs, needs_bf16 = MODELS[workload]
    if needs_bf16 and not HAS_BF16:
        pytest.skip("in fp32, torch runs it without oneDNN; this CPU has no bf16")
    folder = tmp_path / "live"
    precision = ("precision=bf16",) if needs_bf16 else ()
    given = [text for knob in (*knobs, *precision, "steps=5") for text in ("--knob", knob)]
    run = farm.cli("profile", "run", workload, "--stack", "torch", "-o", str(folder), *given)
    assert run.status == 0, run.err
    log = attempt_of(farm, workload) / "verbose" / "verbose.log"
    command = ("profile", "import", str(log), "--project", "--against", str(folder), "--json")
    found = farm.cli(*command)
    assert found.status in (0, 1), found.err
    whole: dict[str, Any] = found.json["whole"]
    figure(f"{workload}: a log's efficiency / the live one", whole["ratio"], "0.9 to 1.1")
    figure(f"{workload}: share of the log's time compared", whole["share"], "0.9")
    assert 0.5 < whole["ratio"] < 2
    assert whole["share"] > 0


def attempt_of(farm: TestFarm, workload: str) -> Path:
    """Return the folder of the attempt that was profiled last."""
    results = farm.cli("results", "list", "--json").json
    profiled = [one for one in results if one["workload"] == workload and one["profile"]]
    newest = max(profiled, key=lambda one: one["started_at"])
    return Path(newest["artefacts"]["profile"]).parent
