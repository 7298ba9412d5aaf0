"""A bundle's requirements on a device, read from the bundle's files."""

from __future__ import annotations

from pathlib import Path

from pydantic import PositiveInt

from agents.inference.bundle.elf import oldest_kernel
from agents.remotes.adb.device_tree import needed_bytes
from controller.contracts.base import Contract


class Requirements(Contract):
    """Requirements that a device must meet to start a bundle."""

    kernel: tuple[int, int, int]
    """The oldest Linux on which all its programs and libraries run."""
    page_bytes: PositiveInt
    """The largest memory pages for which its ELF segments are aligned."""
    storage_bytes: PositiveInt
    """Free space for a push: archive and unpacked files together."""


def derived(bundle: Path, archive: Path, page_bytes: int) -> Requirements:
    """Return the requirements of the bundle in a folder.

    page_bytes: the page size that the builder checked its ELF files for. Raises OSError.
    """
    entries = list(bundle.rglob("*"))
    files = (path for path in entries if path.is_file())
    kernels = (version for path in files if (version := oldest_kernel(path)))
    return Requirements(
        kernel=max(kernels, default=(0, 0, 0)),
        page_bytes=page_bytes,
        storage_bytes=needed_bytes(archive.stat().st_size, len(entries)),
    )
