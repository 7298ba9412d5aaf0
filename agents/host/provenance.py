"""What a result says of where it comes from: the benchfarm that measured it, the files it left."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from controller.contracts.base import digest
from controller.contracts.plugins import files_digest, recorded
from controller.contracts.result import Environment, Result
from controller.contracts.version import installed_commit, installed_version

PACKAGES: Final = ("agents", "controller", "kernels", "models")
MOST_FILES: Final = 1000
MOST_BYTES: Final = 256 * 2**20
"""Of a file with a checksum."""


def with_provenance(result: Result, folder: Path) -> Result:
    """Add the version of benchfarm, and the checksums of the files in an attempt's folder.

    What can't be read takes no result away.
    """
    facts: Environment = {}
    with suppress(OSError):
        facts = software_facts()
    environment = {**result.environment, **facts}
    return result.model_copy(update={"environment": environment, "checksums": checksums_in(folder)})


@cache
def software_facts() -> Environment:
    """Return the version of this benchfarm with a digest of its files, and its commit if known.

    Read once: what a process has imported doesn't change with its files.
    """
    root = Path(__file__).resolve().parents[2]
    files = digest([files_digest(root / package) for package in PACKAGES])
    facts: Environment = {"benchfarm": recorded(installed_version(), files)}
    if commit := installed_commit():
        facts["benchfarm_commit"] = commit
    return facts


def checksums_in(
    folder: Path, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES
) -> dict[str, str]:
    """Return the SHA-256 of each regular file in a folder, by its path.

    Files that are too large or too many, or that can't be read, are left out.
    """
    found: dict[str, str] = {}
    for path in _files(folder):
        if len(found) >= most_files:
            break
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                continue
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_size <= most_bytes:
                    found[str(path)] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            continue
    return found


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder, in order; links to folders are not followed."""
    for parent, folders, files in os.walk(folder):
        folders.sort()
        yield from (Path(parent) / name for name in sorted(files))
