"""Which weights a cell's model begins with. Pure."""

from __future__ import annotations

from controller.contracts.errors import SweepInvalid
from controller.contracts.manifests import WorkloadManifest
from controller.contracts.sweep import Cell
from controller.contracts.weights import (
    KNOB,
    NAME,
    NO_WEIGHTS,
    NeededWeights,
    misfit,
    weights_key,
)


def needed_weights(workload: WorkloadManifest, cell: Cell, source: str) -> NeededWeights | None:
    """Return the weights that a cell names, or None for random ones.

    Raises SweepInvalid for a name that can't be one, and for published weights that are of other
    knobs. That a name is in a host's store, the run finds out.
    """
    if workload.weights is None:
        return None
    name = str(cell.knobs[KNOB])
    if name == NO_WEIGHTS:
        return None
    if not NAME.fullmatch(name):
        seen = f"key knobs.{KNOB}: {name!r:.80} is no name of weights"
        remedy = "Use lower-case letters, digits and _, as `benchfarm models list` has them."
        raise SweepInvalid(f"read {source}", seen, remedy)
    published = workload.weights.get(name)
    key = weights_key(workload.name, name)
    if published is None:
        return NeededWeights(key=key)
    if wanted := misfit(published, cell.knobs):
        seen = f"key knobs.{KNOB}: the weights {name} are of {wanted}"
        raise SweepInvalid(f"read {source}", seen, f"Set {wanted}, or choose other weights.")
    return NeededWeights(key=key, checksum=published.checksum, source=published.source)
