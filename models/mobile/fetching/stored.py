"""Which files of a selection are in the store, and whole: they are read, which takes its time."""

from __future__ import annotations

from dataclasses import dataclass

from controller.contracts.models import FetchEvent
from models.mobile.catalogue import Entry
from models.mobile.fetching.selection import WantedFile
from models.mobile.fetching.telling import Tell, teller
from models.mobile.store import Store, readable


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """The files of a store; what is read of them is told."""

    store: Store
    tell: Tell

    def checksum(self, entry: Entry) -> str | None:
        """Return the checksum of a file that is there, without reading it; else None.

        Raises FileUnreadable.
        """
        with readable(entry.key):
            checksum = entry.content.checksum or self.store.pinned(entry.key)
            there = checksum is not None and self.store.has(checksum)
        return checksum if there else None

    def is_whole(self, wanted: WantedFile) -> bool:
        """Return whether a file is there for all tasks, and whole; raises FileUnreadable."""
        found = {self.checksum(entry) for entry in wanted.entries}
        on_bytes = teller(self.tell, FetchEvent(state="checking", name=wanted.name))
        with readable(wanted.entries[0].key):
            return None not in found and all(
                self.store.verify(one, on_bytes) is None for one in found if one
            )
