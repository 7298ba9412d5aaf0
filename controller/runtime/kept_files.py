"""What has become of the files that attempts left on this host."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from controller.contracts.provenance import FileState


def states_of(wanted: Mapping[str, str | None], home: Path) -> dict[str, FileState]:
    """Return what has become of each file, by its path; wanted: path → SHA-256, if known.

    home: this farm's; what is missing there is gone, what is missing elsewhere is another host's.
    """
    return {path: _state(Path(path), sha256, home) for path, sha256 in wanted.items()}


def _state(path: Path, sha256: str | None, home: Path) -> FileState:
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):  # such as a profile; its files are listed for themselves
            return FileState.UNCHECKED
        if not stat.S_ISREG(kind):  # a pipe would never end
            return FileState.CHANGED
        if sha256 is None:
            return FileState.UNCHECKED if os.access(path, os.R_OK) else FileState.UNREADABLE
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        inside = path.is_relative_to(home)
        return FileState.GONE if inside else FileState.ELSEWHERE
    except (OSError, ValueError):
        return FileState.UNREADABLE
    return FileState.UNCHANGED if found == sha256 else FileState.CHANGED
