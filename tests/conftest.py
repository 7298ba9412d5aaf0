from __future__ import annotations

import os
import signal
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import settings

from agents.host.cpu import read_instruction_sets
from agents.host.launch import onednn_environ

# Before torch loads OpenMP: threads that spin while they wait take other processes' cores away.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Before torch loads oneDNN: what it is not to use in workers it is not to use here.
os.environ |= onednn_environ(read_instruction_sets().unusable)

settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci")


RUN_ALONE = Path(__file__).with_name("integration")
"""Where the Makefile looks for tests marked `alone`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse tests that would never run."""
    for item in items:
        if item.get_closest_marker("alone") and RUN_ALONE not in item.path.parents:
            raise pytest.UsageError(f"{item.nodeid} is marked alone, but not in {RUN_ALONE.name}")


def pytest_configure() -> None:
    """Let a terminated test session end what it started: as on Ctrl-C, fixtures are taken down."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
