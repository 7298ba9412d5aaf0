"""What a pull may bring, since a device or a program could send without end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NoReturn

from agents.remotes.remote import FaultKind, RemoteFault

PULL_BYTES: Final = 4 << 30
"""Most bytes of a pull; LoadGen's log of class maps for 2,000 images takes 1 GiB."""
PULL_FILES: Final = 10_000
"""Most files and folders of a pull."""
PULL_DEPTH: Final = 32


@dataclass(slots=True)
class Budget:
    """The remaining bytes and files of a pull."""

    place: str
    """See RemoteFault."""
    bytes_left: int = PULL_BYTES
    files_left: int = PULL_FILES
    _most: str = field(init=False)

    def __post_init__(self) -> None:
        self._most = f"{self.bytes_left} bytes or {self.files_left} files"

    def spend(self, *, size: int = 0, files: int = 0) -> None:
        """Subtract what has come; raises RemoteFault when it is too much."""
        self.bytes_left -= size
        self.files_left -= files
        if min(self.bytes_left, self.files_left) < 0:
            self._refuse(f"cannot pull more than {self._most}")

    def require_depth(self, depth: int, folder: str) -> None:
        """Raise RemoteFault for a folder that is nested too deep."""
        if depth > PULL_DEPTH:
            self._refuse(f"cannot pull folders nested more than {PULL_DEPTH} deep: {folder[:200]}")

    def _refuse(self, message: str) -> NoReturn:
        raise RemoteFault(self.place, FaultKind.TOO_MUCH_OUTPUT, message)
