"""An agent's phones over TCP: those it reconnects by itself, and those the user disconnected.

A newly started adb server knows none of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from pydantic import TypeAdapter

from controller.contracts.device import Id
from controller.contracts.documents import read_limited
from controller.contracts.unreadable import UNREADABLE

FOLDER: Final = "addresses"
"""Folder beside the status files of an agent's adb servers."""
_KNOWN: Final = "known-"
_LET_GO: Final = "let-go-"
_ID: Final[TypeAdapter[str]] = TypeAdapter(Id)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PhoneAddresses:
    """Files by HOST:PORT, which outlive the adb server and the agent.

    The file of a remembered address has the device id of the phone that was last reached there.

    The agent remembers addresses. `benchfarm phone disconnect` lets go of them; its file tells the
    agent at once.
    """

    folder: Path

    def __iter__(self) -> Iterator[str]:
        """Yield the remembered addresses."""
        names = sorted(file.name for file in self.folder.glob(f"{_KNOWN}*"))
        yield from (unquote(name.removeprefix(_KNOWN)) for name in names)

    def __contains__(self, address: str) -> bool:
        return _is_there(self._file(_KNOWN, address))

    def device_of(self, address: str) -> str | None:
        """Return the id of the phone that was last reached at an address, or None if unknown."""
        try:
            return _ID.validate_python(read_limited(self._file(_KNOWN, address)).decode())
        except UNREADABLE:  # missing, or empty
            return None

    def remember(self, address: str, device_id: str) -> None:
        """Remember an address, so that its phone is reconnected, unless the user let go of it."""
        if self.is_let_go(address) or self.device_of(address) == device_id:
            return
        try:
            self._write(_KNOWN, address, device_id)
        except OSError as error:  # such as a full disk: the phone is then connected by hand
            log.error("phones' addresses are not remembered: %s", error)

    def forget(self, address: str) -> None:
        """Forget an address: its phone is gone, or is connected in another way."""
        try:
            self._file(_KNOWN, address).unlink(missing_ok=True)
        except OSError as error:
            log.error("phones' addresses are not forgotten: %s", error)

    def let_go(self, address: str) -> None:
        """Forget an address; its phone is then neither looked for nor connected. Raises OSError."""
        self._write(_LET_GO, address)
        self.forget(address)

    def take_back(self, address: str) -> None:
        """Undo `let_go`; raises OSError."""
        self._file(_LET_GO, address).unlink(missing_ok=True)

    def is_let_go(self, address: str) -> bool:
        """Return whether the user let go of the phone at an address."""
        return _is_there(self._file(_LET_GO, address))

    def _write(self, kind: str, address: str, content: str = "") -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file(kind, address).write_text(content)

    def _file(self, kind: str, address: str) -> Path:
        return self.folder / f"{kind}{quote(address, safe='[]:')}"


def _is_there(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:  # the name is too long to have been written
        return False
