"""The phones over TCP that an agent is to do without: a file each, by which it is told at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

FOLDER: Final = "let-go"
"""Beside the status files of an agent's adb servers."""


@dataclass(frozen=True, slots=True)
class LetGo:
    """Of one agent, by HOST:PORT; written by `benchfarm phone`, read by the agent."""

    folder: Path

    def add(self, address: str) -> None:
        """Have a phone neither looked for nor connected; raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file(address).touch()

    def remove(self, address: str) -> None:
        """Take that back; raises OSError."""
        self._file(address).unlink(missing_ok=True)

    def __contains__(self, address: str) -> bool:
        return self._file(address).exists()

    def _file(self, address: str) -> Path:
        return self.folder / f"at-{quote(address, safe='[]:')}"
