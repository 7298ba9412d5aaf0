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
    assert len(samples.pairs) == 10
    for pair in samples.pairs:
        assert (len(pair.a), len(pair.b)) == (63, 63)


@pytest.mark.parametrize(("pairs", "queries"), [(9, 64), (10, 63)])
def test_too_little_to_compare_is_refused(pairs: int, queries: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 10 of 64"):
        measure_overhead(MODEL, tmp_path / "unread.npz", pairs=pairs, queries=queries)
