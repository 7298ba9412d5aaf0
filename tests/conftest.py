from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from types import FrameType

import pytest
from hypothesis import settings

from agents.host.cpu import read_instruction_sets
from agents.host.launch import onednn_environ
from tests.support.new_stores import copied
from tests.support.parts import APART, marks_in
from tests.support.slowest import rank_of

# Before torch loads OpenMP: threads that spin while they wait take other processes' cores away.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Before torch loads oneDNN: what it is not to use in workers it is not to use here.
os.environ |= onednn_environ(read_instruction_sets().unusable)

pytest_plugins = ("tests.support.figures", "tests.support.host_reports")

settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while millions of objects are made that all stay, nor look at them later.

    Each process of pytest-xdist collects all tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse tests that would never run; put those first that take longest."""
    for item in items:
        marks = {name for name in APART if item.get_closest_marker(name)}
        if unnamed := marks - (marks_in(item.path) if marks else set()):
            raise pytest.UsageError(
                f"{item.nodeid} is marked {' and '.join(sorted(unnamed))}, but its file does not "
                "say `mark.` with it: it is not collected for that"
            )
        if {"farm", "alone"} <= marks:
            raise pytest.UsageError(f"{item.nodeid} is marked farm and alone: choose one")
    items.sort(key=lambda item: rank_of(item.path))


@pytest.fixture(scope="session", autouse=True)
def _own_options() -> Iterator[None]:
    """Keep the tester's options from the pytest that some tests start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTEST_ADDOPTS", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _new_stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Migrate no new store but one."""
    with copied(tmp_path_factory.mktemp("migrated")):
        yield


def pytest_configure() -> None:
    """Let a terminated test session end what it started: as on Ctrl-C, fixtures are taken down."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
