"""The folder of imported results, beside the store: one file a result.

The store itself has none of them. So nothing that reads it for baselines, newest results, plans,
quotas or statistics of devices can take a published figure for one of the farm's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.contracts.base import canonical_json
from controller.contracts.documents import DocumentRefused, load_json, read_limited
from controller.contracts.imported import ImportedResult
from controller.contracts.unreadable import UNREADABLE, reason
from controller.platform.atomic import write_private

FOLDER: Final = "imported"
MOST_BYTES: Final = 256 * 2**10
"""Largest file of a result; the largest that an import writes has a tenth of this."""
MOST_FILES: Final = 100_000


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of results that were handed in."""

    new: tuple[ImportedResult, ...]
    known: tuple[ImportedResult, ...]
    """Imported before, and the same."""
    other: tuple[tuple[ImportedResult, ImportedResult], ...]
    """Imported before as something else, such as another round's: what came, and what is kept."""


class ImportedResults:
    """The results imported into one home."""

    def __init__(self, home: Path) -> None:
        """home: the folder of the farm's state."""
        self._folder = home / FOLDER

    def results(self) -> tuple[list[ImportedResult], list[str]]:
        """Return all results, by suite, round and id; and a line for each damaged file."""
        found, damage = [], []
        for path in self._files():
            try:
                found.append(_read(path))
            except UNREADABLE as error:
                damage.append(f"imported result {path}: {reason(error)}")
        return sorted(found, key=lambda r: (r.sweep_id, r.run_id)), damage

    def keep(self, results: Iterable[ImportedResult]) -> Kept:
        """Store results that are not there yet; a damaged file is replaced.

        Raises OSError where the folder cannot be written.
        """
        kept, _ = self.results()
        known = {result.run_id: result for result in kept}
        new, same, other = [], [], []
        for result in results:
            mine = known.get(result.run_id)
            if mine is None:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_private(self._folder / f"{result.run_id}.json", _sealed(result))
                known[result.run_id] = result
                new.append(result)
            elif mine == result:
                same.append(result)
            else:
                other.append((result, mine))
        return Kept(tuple(new), tuple(same), tuple(other))

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.json"))[:MOST_FILES]


def _read(path: Path) -> ImportedResult:
    """Read a result; raises one of UNREADABLE for one that is not as it was written."""
    raw = load_json(read_limited(path, MOST_BYTES), MOST_BYTES)
    content = raw.get("result") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or raw.get("checksum") != _checksum(content):
        raise DocumentRefused("its content does not have its checksum")
    result = ImportedResult.model_validate_json(json.dumps(content))
    if result.run_id != path.stem:
        raise DocumentRefused(f"it is the file of {result.run_id}")
    # Older files have one device for all rounds and divisions of a system.
    return result.model_copy(update={"device": result.imported.device})


def _sealed(result: ImportedResult) -> str:
    content = json.loads(result.model_dump_json())
    return json.dumps({"checksum": _checksum(content), "result": content}) + "\n"


def _checksum(content: object) -> str:
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()
