from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernels.build import LIBRARY
from kernels.library import REFERENCE, VARIABLE, capabilities, choose

COMPILED = [name for name in choose("", LIBRARY).supported if name != REFERENCE] or ["not compiled"]


@pytest.fixture(params=COMPILED)
def variant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Force each variant that this CPU can run, one after the other."""
    name: str = request.param
    monkeypatch.setenv(VARIABLE, name)
    capabilities.cache_clear()
    assert capabilities().variant == name
    yield name
    capabilities.cache_clear()
