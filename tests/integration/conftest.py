from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.runtime.phones import (
    StartedPhone,
    adb_key,
    await_devices,
    connect_phone,
    started_phone,
)
from tests.integration.farm import TestFarm, farm_up


@pytest.fixture(scope="session")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestFarm]:
    """One farm for all tests that leave it as they found it; starting Ray takes seconds."""
    with farm_up(tmp_path_factory.mktemp("farm")) as farm:
        yield farm


@pytest.fixture(scope="module")
def phones(farm: TestFarm) -> Iterator[dict[str, StartedPhone]]:
    """Two virtual phones of different profiles, registered."""
    with (
        started_phone("flagship", adb_key(farm.home)) as first,
        started_phone("midrange", adb_key(farm.home)) as second,
    ):
        phones = {str(phone.facts["serial"]): phone for phone in (first, second)}
        for phone in phones.values():
            connect_phone(farm.home, phone.address)
        await_devices(farm.home, phones)
        yield phones
