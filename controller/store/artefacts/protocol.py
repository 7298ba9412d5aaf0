"""The interface of the head's artefact store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from controller.contracts.artefacts import ArtefactFile, ArtefactReceipt, KeptContent


class ArtefactWriter(Protocol):
    """What the controller asks of it, one call at a time. Every call may raise StoreUnavailable, if
    nothing can be stored now; nothing is lost then."""

    def offer(self, file: ArtefactFile, sweep_id: str, now: float) -> ArtefactReceipt:
        """Keep what an agent says of a file; called before it is sent, and when it is sent on."""
        ...

    def add(
        self, file: ArtefactFile, offset: int, frames: Sequence[bytes], now: float
    ) -> ArtefactReceipt:
        """Add the frames of a part, if they follow on what is held; called again and again."""
        ...

    def kept(self, pinned: Collection[str]) -> list[KeptContent]:
        """Return the contents that are here, for retention. pinned: ids of sweeps."""
        ...

    def kept_bytes(self) -> int:
        """Return the bytes of these contents; called after each that has come whole."""
        ...

    def remove(self, sha256s: Collection[str], now: float) -> None:
        """Remove contents, and what began to arrive long ago; called by retention."""
        ...
