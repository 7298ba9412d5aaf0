"""What a bundle needs of the device that it is pushed to, read from its own files."""

from __future__ import annotations

from pathlib import Path

from pydantic import PositiveInt

from agents.inference.bundle.elf import oldest_kernel
from agents.remotes.adb.device_tree import needed_bytes
from controller.contracts.base import Contract


class Requirements(Contract):
    """Limits that a device has to keep so that a bundle starts on it."""

    kernel: tuple[int, int, int]
    """The oldest Linux on which each of its programs and libraries runs."""
    page_bytes: PositiveInt
    """The largest memory pages for which its ELF segments are aligned."""
    storage_bytes: PositiveInt
    """Free space that a push takes: the archive and the unpacked files side by side."""


def derived(bundle: Path, archive: Path, page_bytes: int) -> Requirements:
    """Return what the bundle in a folder needs.

    page_bytes: what the builder has held its ELF files to. Raises OSError.
    """
    entries = list(bundle.rglob("*"))
    files = (path for path in entries if path.is_file())
    kernels = (version for path in files if (version := oldest_kernel(path)))
    return Requirements(
        kernel=max(kernels, default=(0, 0, 0)),
        page_bytes=page_bytes,
        storage_bytes=needed_bytes(archive.stat().st_size, len(entries)),
    )
