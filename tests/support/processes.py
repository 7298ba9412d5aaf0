"""Waiting for processes that are nobody's children any more."""

from __future__ import annotations

import time

import psutil

PATIENCE_S = 30.0


def is_dead(process: psutil.Process) -> bool:
    """Return whether a process has ended, reaped or not."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until_dead(process: psutil.Process) -> None:
    """Return once a process has ended; nobody signals that to a stranger, so it asks."""
    give_up = time.monotonic() + PATIENCE_S
    while not is_dead(process):
        assert time.monotonic() < give_up, f"{process} lives"
