"""The phones over TCP of an agent: which it brings back by itself, and which it is to do without.

An adb server that has just been started knows none of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

FOLDER: Final = "addresses"
"""Beside the status files of an agent's adb servers."""
_KNOWN: Final = "known-"
_LET_GO: Final = "let-go-"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PhoneAddresses:
    """By HOST:PORT, a file each, which outlives the adb server and the agent.

    Phones are remembered by the agent, and let go of by `benchfarm phone`, of which the agent is
    told at once that way.
    """

    folder: Path

    def __iter__(self) -> Iterator[str]:
        """Yield what is remembered."""
        names = sorted(file.name for file in self.folder.glob(f"{_KNOWN}*"))
        yield from (unquote(name.removeprefix(_KNOWN)) for name in names)

    def __contains__(self, address: str) -> bool:
        return _is_there(self._file(_KNOWN, address))

    def remember(self, address: str) -> None:
        """Have a phone brought back by itself, unless it was let go of."""
        if address in self or self.is_let_go(address):
            return
        try:
            self._write(_KNOWN, address)
        except OSError as error:  # a full disk, say: it is connected by hand then
            log.error("phones' addresses are not remembered: %s", error)

    def forget(self, address: str) -> None:
        """Undo that: there is no phone any more, or one that is here already."""
        try:
            self._file(_KNOWN, address).unlink(missing_ok=True)
        except OSError as error:
            log.error("phones' addresses are not forgotten: %s", error)

    def let_go(self, address: str) -> None:
        """Have a phone neither looked for nor connected, and forget it; raises OSError."""
        self._write(_LET_GO, address)
        self.forget(address)

    def take_back(self, address: str) -> None:
        """Undo that; raises OSError."""
        self._file(_LET_GO, address).unlink(missing_ok=True)

    def is_let_go(self, address: str) -> bool:
        """Tell whether the agent is to do without a phone."""
        return _is_there(self._file(_LET_GO, address))

    def _write(self, kind: str, address: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file(kind, address).touch()

    def _file(self, kind: str, address: str) -> Path:
        return self.folder / f"{kind}{quote(address, safe='[]:')}"


def _is_there(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:  # its name is too long to be one that was written
        return False
