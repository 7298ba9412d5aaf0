"""What a workload's loader has to have."""

from __future__ import annotations

import pytest

from models.training import loader_of


class Nothing:
    """A loader that lacks everything."""


class Half:
    """A loader from before batches were counted that are loaded ahead."""

    workers = 2
    facts = None

    def cpu_s(self) -> float:
        """See Loader.cpu_s."""
        return 0.0


@pytest.mark.parametrize(
    ("loader", "missing"), [(Nothing(), "workers, ahead, cpu_s, facts"), (Half(), "ahead, facts")]
)
def test_one_that_lacks_a_part_is_told(loader: object, missing: str) -> None:
    """No step would wait for it, and nothing would be said."""
    with pytest.raises(
        TypeError, match=f"{type(loader).__name__} is no Loader: it has no {missing}$"
    ):
        loader_of(type("Workload", (), {"loader": loader}))


def test_batches_in_memory_need_none() -> None:
    assert loader_of(object()) is None
