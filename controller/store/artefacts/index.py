"""The index of artefacts: which files attempts have, and which contents the head has had.

A SQLite file of its own beside the contents, so that the store of results knows nothing of it.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from controller.contracts.artefacts import ArtefactFile, KeptContent
from controller.contracts.errors import StoreDamaged, StoreUnavailable
from controller.store.scanning import is_damage

NAME: Final = "index.sqlite"
BUSY_TIMEOUT_S: Final = 5.0
VERSION: Final = 1
_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS files (
    run_id TEXT NOT NULL, attempt INTEGER NOT NULL, name TEXT NOT NULL,
    sha256 TEXT NOT NULL, size INTEGER NOT NULL, agent_id TEXT NOT NULL,
    sweep_id TEXT NOT NULL, told_at REAL NOT NULL,
    PRIMARY KEY (run_id, attempt, name)
);
CREATE INDEX IF NOT EXISTS files_of_contents ON files (sha256);
CREATE TABLE IF NOT EXISTS contents (
    sha256 TEXT PRIMARY KEY, size INTEGER NOT NULL, kept_bytes INTEGER NOT NULL,
    came_at REAL NOT NULL, expired_at REAL
);
PRAGMA user_version = {VERSION};
COMMIT;
"""
_OF_RUN: Final = """
SELECT f.run_id, f.attempt, f.name, f.size, f.sha256, f.agent_id, c.sha256 IS NOT NULL AS came,
    c.sha256 IS NOT NULL AND c.expired_at IS NULL AS here
FROM files f LEFT JOIN contents c ON c.sha256 = f.sha256
WHERE f.run_id = ? ORDER BY f.attempt, f.name
"""
_KEPT: Final = """
SELECT c.sha256, c.kept_bytes, max(c.came_at, coalesce(max(f.told_at), 0)) AS used_at,
    coalesce(max(f.sweep_id IN (SELECT value FROM json_each(?))), 0) AS pinned
FROM contents c LEFT JOIN files f ON f.sha256 = c.sha256
WHERE c.expired_at IS NULL GROUP BY c.sha256
"""
_NAMED: Final = """
SELECT run_id, attempt, name FROM files WHERE sha256 = ? ORDER BY run_id, attempt, name
"""
_TELL: Final = """
INSERT INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run_id, attempt, name) DO UPDATE SET sha256 = excluded.sha256, size = excluded.size
"""
_ARRIVED: Final = """
INSERT INTO contents VALUES (?, ?, ?, ?, NULL)
ON CONFLICT (sha256) DO UPDATE SET kept_bytes = excluded.kept_bytes, expired_at = NULL
"""


@dataclass(frozen=True, slots=True)
class Announcement:
    """What an agent has said of a file before."""

    sha256: str
    came: bool
    """Whether that content was ever here."""


class ArtefactIndex:
    """The open index. Every call raises StoreUnavailable or StoreDamaged."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        """Open it; if writable, create it. Without, `path` is to exist."""
        self._path = path
        with self._translated():
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={'rwc' if writable else 'ro'}",
                uri=True,
                timeout=BUSY_TIMEOUT_S,
                isolation_level=None,
                check_same_thread=False,  # its user takes turns
            )
            self._connection.row_factory = sqlite3.Row
            if writable:
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
                self._connection.executescript(_SCHEMA)

    def of_run(self, run_id: str) -> list[dict[str, Any]]:
        """Return the files of a run's attempts, by attempt and name; `came`: whether its content
        was ever here; `here`: whether it is now."""
        return [dict(row) for row in self._rows(_OF_RUN, run_id)]

    def told(self, file: ArtefactFile) -> Announcement | None:
        """Return what was said before of a file of this attempt and name; None if nothing was."""
        said = self._rows(
            "SELECT sha256, EXISTS (SELECT 1 FROM contents c WHERE c.sha256 = f.sha256) AS came"
            " FROM files f WHERE run_id = ? AND attempt = ? AND name = ?",
            *(file.ref.run_id, file.ref.attempt, file.name),
        )
        return Announcement(said[0]["sha256"], bool(said[0]["came"])) if said else None

    def files(self, file: ArtefactFile) -> int:
        """Return how many files the attempt of a file has."""
        counted = "SELECT count(*) AS n FROM files WHERE run_id = ? AND attempt = ?"
        return int(self._rows(counted, file.ref.run_id, file.ref.attempt)[0]["n"])

    def size_of(self, sha256: str) -> int | None:
        """Return the bytes of a content that was ever here; None of another."""
        found = self._rows("SELECT size FROM contents WHERE sha256 = ?", sha256)
        return int(found[0]["size"]) if found else None

    def tell(self, file: ArtefactFile, sweep_id: str, now: float) -> None:
        """Keep what an agent says of a file, in the place of what it has said before."""
        self._rows(
            *(_TELL, file.ref.run_id, file.ref.attempt, file.name),
            *(file.sha256, file.size, file.agent_id, sweep_id, now),
        )

    def arrived(self, sha256: str, size: int, kept_bytes: int, now: float) -> None:
        """Keep that a content is here."""
        self._rows(_ARRIVED, sha256, size, kept_bytes, now)

    def expired(self, sha256: str, now: float) -> None:
        """Keep that a content was removed."""
        self._rows("UPDATE contents SET expired_at = ? WHERE sha256 = ?", now, sha256)

    def kept(self, pinned: Collection[str]) -> list[KeptContent]:
        """Return the contents that are here. pinned: ids of sweeps."""
        return [
            KeptContent(row["sha256"], row["kept_bytes"], row["used_at"], bool(row["pinned"]))
            for row in self._rows(_KEPT, json.dumps(sorted(pinned)))
        ]

    def kept_bytes(self) -> int:
        """Return the bytes of all contents that are here."""
        said = "SELECT coalesce(sum(kept_bytes), 0) AS n FROM contents WHERE expired_at IS NULL"
        return int(self._rows(said)[0]["n"])

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each content that is here, by its SHA-256."""
        said = "SELECT sha256, size FROM contents WHERE expired_at IS NULL"
        return {row["sha256"]: row["size"] for row in self._rows(said)}

    def counts(self) -> Counter[str]:
        """Return how many files of attempts have each content, by its SHA-256."""
        said = "SELECT sha256, count(*) AS n FROM files GROUP BY sha256"
        return Counter({row["sha256"]: row["n"] for row in self._rows(said)})

    def shown(self, sha256: str) -> str:
        """Return a content for people: the first file that has it, and how many others have."""
        found = self._rows(_NAMED, sha256)
        if not found:
            return f"content {sha256}"
        first = found[0]
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        return f"{first['attempt']}/{first['name']} of run {first['run_id']}{more}, sha256 {sha256}"

    def close(self) -> None:
        """Release the file."""
        self._connection.close()

    def _rows(self, statement: str, *values: object) -> list[sqlite3.Row]:
        with self._translated(), closing(self._connection.execute(statement, values)) as cursor:
            return cursor.fetchall()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            kind = StoreDamaged if is_damage(error) else StoreUnavailable
            raise kind(str(self._path), str(error)) from error
