"""Connections of SQLite's own driver, with the settings that all of the store's have."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final, Literal

BUSY_TIMEOUT_S: Final = 5.0
"""Seconds to wait for SQLite's own short locks, such as during recovery of a killed writer's
log."""
Mode = Literal["ro", "rwc"]


def connect(path: Path, mode: Mode) -> sqlite3.Connection:
    """Connect to a store's file; raises sqlite3.Error."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    if mode == "ro":
        connection.execute("PRAGMA writable_schema = ON")  # else a truncated file is refused
        connection.execute("PRAGMA cache_size = -16384")  # KiB: the keys of 100,000 results
    return connection
