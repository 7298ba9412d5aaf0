"""Reference answers that this host has computed, kept on disk under what they were computed from.

A file that is damaged, or of something else than its name says, counts as missing.
"""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agents.inference.bundle.files import sha256_of
from controller.contracts.base import Contract
from controller.contracts.documents import read_json
from controller.contracts.unreadable import UNREADABLE, reason
from controller.platform.atomic import replacing

MOST_BYTES: Final = 2 * 2**30
"""Of all answers together; 25 of EDSR's images take 311 MB as LoadGen logs them."""
RECORD: Final = "record.json"
ANSWERS: Final = "answers.json"
log = logging.getLogger(__name__)


class Reference(Contract):
    """The answers of a reference to the first samples of a data set."""

    key: str
    """Digest of model, inputs, runtime and settings."""
    by: str
    """Runtime, version and architecture."""
    samples: int
    sha256: str
    """Of the answers."""


@dataclass(frozen=True, slots=True)
class ReferenceAnswers:
    """A folder of reference answers; those that were used longest ago are removed first."""

    folder: Path
    most_bytes: int = MOST_BYTES

    def path(self, key: str) -> Path:
        """Return the file of answers, in the form of LoadGen's accuracy log."""
        return self.folder / key / ANSWERS

    def find(self, key: str) -> Reference | None:
        """Return what is kept under a key; None if there is nothing, or nothing sound."""
        record = self.folder / key / RECORD
        if not record.exists():
            return None
        try:
            found = read_json(Reference, record)
            if (found.key, found.sha256) == (key, sha256_of(self.path(key))):
                os.utime(record)
                return found
            seen = "it is of something else, or damaged"
        except UNREADABLE as error:
            seen = reason(error)
        log.warning("cannot use reference %s: %s; it is computed again", record.parent, seen)
        return None

    def emptied(self, key: str) -> Path:
        """Return where to write answers, of which nothing is there; raises OSError."""
        shutil.rmtree(self.folder / key, ignore_errors=True)
        (self.folder / key).mkdir(parents=True)
        return self.path(key)

    def keep(self, key: str, by: str, samples: int) -> Reference:
        """Record answers that were written, and remove old ones beyond `most_bytes`; raises
        OSError."""
        made = Reference(key=key, by=by, samples=samples, sha256=sha256_of(self.path(key)))
        with replacing(self.folder / key / RECORD) as new:
            new.write_text(made.model_dump_json(indent=1) + "\n")
        self._make_room(key)
        return made

    def _make_room(self, key: str) -> None:
        """Remove what was used longest ago, and what was never finished; `key` stays."""
        others = [place for place in self.folder.iterdir() if place.name != key]
        left = self.most_bytes - _bytes(self.folder / key)
        for place in sorted(others, key=_used_at, reverse=True):
            left -= _bytes(place)
            if left < 0 or not (place / RECORD).exists():
                shutil.rmtree(place, ignore_errors=True)


def _used_at(place: Path) -> float:
    record = place / RECORD
    return record.stat().st_mtime if record.exists() else 0.0


def _bytes(place: Path) -> int:
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
