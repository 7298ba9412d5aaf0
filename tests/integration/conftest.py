from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.runtime.phones import StartedPhone
from tests.integration.farm import TestFarm, farm_up, joined_phone


@pytest.fixture(scope="session")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestFarm]:
    """One farm for all tests that leave it as they found it; starting Ray takes seconds."""
    with farm_up(tmp_path_factory.mktemp("farm")) as farm:
        yield farm


@pytest.fixture(scope="module")
def phones(farm: TestFarm) -> Iterator[dict[str, StartedPhone]]:
    """Two virtual phones of different profiles, registered."""
    with joined_phone(farm, "flagship") as first, joined_phone(farm, "midrange") as second:
        yield {phone.facts.serial: phone for phone in (first, second)}
