"""Whether published checksums vouch for a task's data set. The store keeps what does."""

from __future__ import annotations

from collections.abc import Mapping

from controller.contracts.mobile import OnDevice
from models.mobile.store import Store


def origin_of(
    store: Store, name: str, workload: OnDevice, dataset: str | None, pins: Mapping[str, str]
) -> str | None:
    """Return the published checksums that vouch for all parts of a data set; None: not known.

    pins: those of the task, see `pins_of`.
    """
    if dataset is None:
        return None
    chosen, found = workload.datasets[dataset], []
    for part, content in chosen.parts.items():
        pinned = pins.get(f"{name}/{dataset}/{part}", "")
        origin = content.checksum or store.origin(f"{chosen.kind}/{part}", pinned)
        if origin is None:
            return None
        found.append(f"{part}: {origin}")
    return "; ".join(found) or chosen.checksum
