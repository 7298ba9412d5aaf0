"""Changes of sweeps' tags and notes, in the store only."""

from __future__ import annotations

from controller.contracts.annotations import SweepAnnotations, TagRequest
from controller.contracts.errors import UserError
from controller.runtime.clock import Clock
from controller.scheduling.annotating import tagged, with_note, without_note
from controller.store.protocol import Store


class Annotator:
    """Reads and changes annotations; changes of one sweep must come one after another."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def of(self, sweep_id: str) -> SweepAnnotations:
        """Return the annotations of a sweep; empty ones if it never had any."""
        none = SweepAnnotations(sweep_id=sweep_id)
        return self._store.annotations(sweep_id).get(sweep_id, none)

    def tag(self, sweep_id: str, request: TagRequest) -> SweepAnnotations:
        """Change a sweep's tags; raises as `tagged`."""
        return self._kept(tagged(self._sound(sweep_id), request))

    def add_note(self, sweep_id: str, text: str, who: str) -> SweepAnnotations:
        """Add a note to a sweep; raises as `with_note`."""
        return self._kept(with_note(self._sound(sweep_id), text, who, self._clock.wall()))

    def remove_note(self, sweep_id: str, number: int) -> SweepAnnotations:
        """Remove a note from a sweep; raises as `without_note`."""
        return self._kept(without_note(self._sound(sweep_id), number))

    def _sound(self, sweep_id: str) -> SweepAnnotations:
        """Return what is to be changed; raises UserError if it is damaged, and would be lost."""
        found, name = self.of(sweep_id), f"the tags and notes of sweep {sweep_id}"
        if (
            not found.noted
            and not found.tags
            and any(line.startswith(f"{name}:") for line in self._store.damage())
        ):
            seen = "they are damaged in the store"
            raise UserError(f"change {name}", seen, "Run `benchfarm store check`.")
        return found

    def _kept(self, changed: SweepAnnotations) -> SweepAnnotations:
        self._store.save_annotations(changed)
        return changed
