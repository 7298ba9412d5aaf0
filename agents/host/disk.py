"""Free space on this host's disk; without it, no results can be stored."""

from __future__ import annotations

import shutil
from pathlib import Path

from controller.contracts.disk import LEAST_FREE_BYTES
from controller.contracts.result import Blame, Failure, Outcome


def shortage(folder: Path) -> str:
    """Return the reason if a folder's disk has no room for a run, else "".

    The text stays the same while it lasts, so that it is reported once.
    """
    if shutil.disk_usage(folder).free >= LEAST_FREE_BYTES:
        return ""
    return f"less than {LEAST_FREE_BYTES >> 20} MiB are free on the disk of {folder}"


def out_of_room(outcome: Outcome, shortage: str) -> Outcome:
    """Blame a failure on the host if its disk was full, so that another host tries the run.

    shortage: the text of `shortage`. A result stays a result.
    """
    if not isinstance(outcome, Failure):
        return outcome
    message = f"{shortage}; {outcome.kind}: {outcome.message}"
    said = {"blame": Blame.DEVICE, "kind": "disk_full", "message": message}
    return outcome.model_copy(update=said)
