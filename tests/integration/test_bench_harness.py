"""The overhead benchmark measures both arms alike; what the ratio is, is for a quiet machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.inference.bench_harness import measure_overhead, overhead_spec
from controller.contracts.catalog import load_catalog
from controller.contracts.mobile import OnDevice
from models.mobile.preparation import PrepareOrder, prepare

pytestmark = pytest.mark.integration


def shapes() -> OnDevice:
    workload = load_catalog().workloads["shapes_classifier"].on_device
    assert workload
    return workload


def test_pairs_are_complete(tmp_path: Path) -> None:
    order = PrepareOrder(
        name="shapes_classifier",
        workload=shapes(),
        numerics="int8",
        dataset="full",
        store=tmp_path / "store",
        folder=tmp_path / "ready",
    )
    assert prepare(order).samples == 1024
    samples = measure_overhead(overhead_spec(order.folder, shapes()), query_s=1e-3, pairs=10)
    assert samples.invokes_per_query >= 1
    assert len(samples.pairs) == 10
    for pair in samples.pairs:
        assert (len(pair.a), len(pair.b)) == (63, 63)


@pytest.mark.parametrize(("pairs", "queries"), [(9, 64), (10, 63)])
def test_too_little_to_compare_is_refused(pairs: int, queries: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 10 of 64"):
        measure_overhead(overhead_spec(tmp_path, shapes(), queries), pairs=pairs)
