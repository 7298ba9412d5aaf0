"""What is written to disk, seen from the calls to the kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def spied_syncs(monkeypatch: pytest.MonkeyPatch) -> list[int | Path]:
    """Return a list that gets the size of each file, and the path of each folder, that is synced
    from now on."""
    synced: list[int | Path] = []
    sync = os.fsync

    def spied(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append(path if path.is_dir() else path.stat().st_size)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", spied)
    return synced
