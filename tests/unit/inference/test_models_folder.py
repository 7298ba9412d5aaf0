"""Where models are looked for, by all that is not told: in the farm's home, or where it says."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from agents.inference import bench_harness
from agents.inference.content import Content
from controller.contracts.bench import OverheadRequest, OverheadSamples
from controller.contracts.errors import UserError
from controller.platform.helper_main import Replies
from controller.runtime.overhead import measure_overhead
from models.mobile.preparation import PrepareOrder


@pytest.mark.parametrize(
    ("variable", "below"), [("BENCHFARM_HOME", "models"), ("BENCHFARM_MODELS", "")]
)
def test_models_are_looked_for_where_benchfarm_home_says(
    variable: str, below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BENCHFARM_MODELS", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    orders: list[PrepareOrder] = []
    samples = OverheadSamples(pairs=(), invokes_per_query=1)
    monkeypatch.setattr(bench_harness, "prepare", orders.append)
    monkeypatch.setattr(bench_harness, "measure_overhead", lambda *_, **__: samples)
    request = OverheadRequest(workload="shapes_classifier", numerics="int8", pairs=10)
    bench_harness.handle(request, Replies(StringIO()))
    assert orders[0].store == tmp_path / below
    assert Content(tmp_path, tmp_path).store == tmp_path / below


def test_a_model_that_is_not_there_is_told_with_its_own_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path))
    with pytest.raises(UserError, match="benchfarm models fetch"):
        measure_overhead("mobilenet_edgetpu", "uint8", 1)
