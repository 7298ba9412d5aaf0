"""The profile of a run, read from the head's copy of its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controller.api.answers import RunProfile
from controller.api.queries import RunProfileQuery
from controller.api.reads import Ids, Reading
from controller.contracts.errors import CopyDamaged, NotFound
from controller.profiles.errors import ProfileUnreadable
from controller.profiles.model import Profile
from controller.runtime.run_files import LATER, RunFiles
from controller.store.protocol import FarmReader

FOLDER: Final = "profile"
"""Of an attempt: what controller.profiles.files has written."""


@dataclass(frozen=True, slots=True)
class StoredProfile:
    """A profile, and the attempt that was profiled."""

    run_id: str
    attempt: int
    profile: Profile


def stored_profile(store: FarmReader, run_id: str, attempt: int | None = None) -> StoredProfile:
    """Return the profile of a run: that of an attempt, or of the newest that has one.

    store: the head's own, or the API of a farm elsewhere. Raises NotFound if there is no such run,
    it was not profiled, or the head has no copy of its profile; CopyDamaged; StoreUnavailable.
    """
    # Late: pyarrow, which takes long to load.
    from controller.profiles.files import KERNELS, PRIMITIVES, SUMMARY, TIMELINE, read

    files = RunFiles(store, run_id)
    tried = f"read the profile of run {run_id}"
    known = [one.attempt for one in files.listed if one.name == f"{FOLDER}/{SUMMARY}"]
    meant = max(known, default=0) if attempt is None else attempt
    if meant not in known:
        raise _without(store, run_id, tried)
    summary = files.at_hand(meant, f"{FOLDER}/{SUMMARY}")
    for name in (KERNELS, PRIMITIVES):
        files.at_hand(meant, f"{FOLDER}/{name}")
    parts = files.beside(summary, (SUMMARY, KERNELS, PRIMITIVES, TIMELINE))
    with files.fetched(parts) as folder:
        try:
            return StoredProfile(run_id, meant, read(folder / FOLDER))
        except ProfileUnreadable as error:
            remedy = "Profile its cell again; its agent has sent this."
            raise CopyDamaged(tried, error.seen, remedy) from error


def _without(store: FarmReader, run_id: str, tried: str) -> NotFound:
    """Return why a run has no profile."""
    run = store.run(run_id)
    if run is None:
        return NotFound(tried, "there is no such run", "See `benchfarm results list`.")
    if not run.cell.profiled:
        remedy = "Submit a sweep of its cell with `profile: true`."
        return NotFound(tried, "it was not profiled", remedy)
    return NotFound(tried, "the head has no copy of it", LATER)


def run_profile(farm: Reading, asked: RunProfileQuery, ids: Ids) -> RunProfile:
    """Return the profile of one run; raises as `stored_profile` does."""
    found = stored_profile(farm.store, ids["run_id"], asked.attempt)
    return RunProfile(
        run_id=found.run_id,
        attempt=found.attempt,
        summary=found.profile.summary,
        kernels=found.profile.kernels,
        primitives=found.profile.primitives,
        timeline=found.profile.timeline if asked.timeline else (),
    )
