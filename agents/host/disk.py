"""Room on this host's disk: without any, nothing can be measured that is to be kept."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from controller.contracts.result import Blame, Failure, Outcome

LEAST_FREE_BYTES: Final = 64 << 20
"""For logs, traces and the files of one run."""


def shortage(folder: Path) -> str:
    """Return what is to be said of a folder's disk if it has no room for a run; "" if it has.

    The same words as long as it lasts, so that they are news only once.
    """
    if shutil.disk_usage(folder).free >= LEAST_FREE_BYTES:
        return ""
    return f"less than {LEAST_FREE_BYTES >> 20} MiB are free on the disk of {folder}"


def out_of_room(outcome: Outcome, shortage: str) -> Outcome:
    """Blame a failure on the host whose disk had no room: whatever it was, another may have some.

    shortage: what `shortage` says. A result that was measured all the same stays one.
    """
    if not isinstance(outcome, Failure):
        return outcome
    message = f"{shortage}; {outcome.kind}: {outcome.message}"
    said = {"blame": Blame.DEVICE, "kind": "disk_full", "message": message}
    return outcome.model_copy(update=said)
