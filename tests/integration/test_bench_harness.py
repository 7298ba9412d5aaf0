"""The overhead benchmark measures both arms alike; what the ratio is, is for a quiet machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.android.bench_harness import measure_overhead
from models.mobile.classifier import shapes

pytestmark = pytest.mark.integration
MODEL = Path(shapes.__file__).parent / "shapes_int8.tflite"


def test_pairs_are_complete(tmp_path: Path) -> None:
    shapes.write_evaluation_set(tmp_path / "set.npz")
    samples = measure_overhead(MODEL, tmp_path / "set.npz", query_s=1e-3, pairs=10, queries=64)
    assert samples.invokes_per_query >= 1
    for arm in (samples.bare_s, samples.harness_s):
        assert [len(periods) for periods in arm] == [63] * 10
        assert all(period > 0 for periods in arm for period in periods)


@pytest.mark.parametrize(("pairs", "queries"), [(9, 64), (10, 63)])
def test_too_little_to_compare_is_refused(pairs: int, queries: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 10 of 64"):
        measure_overhead(MODEL, tmp_path / "unread.npz", pairs=pairs, queries=queries)
