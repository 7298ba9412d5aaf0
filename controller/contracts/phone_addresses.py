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

from pydantic import TypeAdapter

from controller.contracts.device import Id
from controller.contracts.documents import read_limited
from controller.contracts.unreadable import UNREADABLE

FOLDER: Final = "addresses"
"""Beside the status files of an agent's adb servers."""
_KNOWN: Final = "known-"
_LET_GO: Final = "let-go-"
_ID: Final[TypeAdapter[str]] = TypeAdapter(Id)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PhoneAddresses:
    """By HOST:PORT, a file each, which outlives the adb server and the agent.

    The file of one that is remembered has the device id of the phone that was last reached there.

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

    def device_of(self, address: str) -> str | None:
        """Return which phone was last reached at an address, None if that is not known."""
        try:
            return _ID.validate_python(read_limited(self._file(_KNOWN, address)).decode())
        except UNREADABLE:  # there is none, or it is an earlier release's, which is empty
            return None

    def remember(self, address: str, device_id: str) -> None:
        """Have a phone brought back by itself, unless it was let go of."""
        if self.is_let_go(address) or self.device_of(address) == device_id:
            return
        try:
            self._write(_KNOWN, address, device_id)
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

    def _write(self, kind: str, address: str, content: str = "") -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._file(kind, address).write_text(content)

    def _file(self, kind: str, address: str) -> Path:
        return self.folder / f"{kind}{quote(address, safe='[]:')}"


def _is_there(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:  # its name is too long to be one that was written
        return False
