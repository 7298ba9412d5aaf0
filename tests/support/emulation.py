"""Whether this host can be a virtual phone of another processor."""

from __future__ import annotations

import os
import platform
import shutil

import pytest

EMULATORS = ("qemu-aarch64-static", "qemu-aarch64")
NEEDS_LINUX = (6, 7)
"""Since then a user namespace has its own table of program formats (binfmt_misc)."""


def skip_without_arm64(path: str | None = None) -> None:
    """Skip a test where no arm64 phone can be emulated; path: where programs are, else PATH."""
    release = tuple(int(part) for part in platform.release().split(".")[:2])
    if platform.machine() != "aarch64" and release < NEEDS_LINUX:
        pytest.skip(f"Linux {platform.release()} can't emulate a phone's processor; 6.7 can")
    places = path or os.environ.get("PATH")
    if not any(shutil.which(name, path=places) for name in EMULATORS):
        pytest.skip("qemu-aarch64 not found; make test gets it")
