from __future__ import annotations

import os
import signal
from types import FrameType

import pytest
from hypothesis import settings

from agents.host.cpu import read_instruction_sets
from agents.host.launch import onednn_environ
from tests.support.parts import ALONE_FOLDERS

# Before torch loads OpenMP: threads that spin while they wait take other processes' cores away.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Before torch loads oneDNN: what it is not to use in workers it is not to use here.
os.environ |= onednn_environ(read_instruction_sets().unusable)

pytest_plugins = ("tests.support.figures",)

settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci")

IN_ALONE_FOLDERS = tuple(f"{folder}/" for folder in ALONE_FOLDERS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse tests that would never run."""
    for item in items:
        if item.get_closest_marker("alone") and not item.nodeid.startswith(IN_ALONE_FOLDERS):
            raise pytest.UsageError(
                f"{item.nodeid} is marked alone, but not in {' or '.join(ALONE_FOLDERS)}"
            )


def pytest_configure() -> None:
    """Let a terminated test session end what it started: as on Ctrl-C, fixtures are taken down."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
