from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.farm import TestFarm, farm_up


@pytest.fixture(scope="session")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestFarm]:
    """One farm for all tests that leave it as they found it; starting Ray takes seconds."""
    with farm_up(tmp_path_factory.mktemp("farm")) as farm:
        yield farm
