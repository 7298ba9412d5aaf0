"""Weights that a workload's model can begin with, as manifests name them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from controller.contracts.base import Contract, Scalar, scalar_text
from controller.contracts.mobile import Checksum, ModelFile

KNOB: Final = "weights"
"""The knob that chooses them; a workload whose manifest has the key of this name has it."""
NO_WEIGHTS: Final = "none"
"""Its value for random weights from the seed."""
NAME: Final = re.compile(r"[a-z0-9][a-z0-9_]{0,63}")
"""Names of weights in the store of models."""
_BEGINNING: Final = re.compile(r"-([0-9a-f]{8,64})\.pth$")


class Weights(ModelFile):
    """A file of published weights."""

    knobs: dict[str, Scalar] = {}
    """What they are of, as far as the workload's knobs say it; with other values they don't fit."""

    @property
    def checksum_begins(self) -> str | None:
        """The beginning of the file's checksum if its published name has it, as torch.hub's do."""
        found = _BEGINNING.search(self.source or "")
        return f"sha256:{found[1]}" if found else None


class NeededWeights(Contract):
    """The weights that a job's model begins with."""

    key: str
    """WORKLOAD/weights/NAME."""
    checksum: Checksum | None = None
    source: str | None = None


def weights_key(workload: str, name: str) -> str:
    """Return the key of weights in the store of models."""
    return f"{workload}/{KNOB}/{name}"


def misfit(weights: Weights, knobs: Mapping[str, Scalar]) -> str | None:
    """Return the values that knobs must have for these weights and don't, as text; None: they fit.

    A number of a manifest may be an int where the knob is a float.
    """
    wrong = [f"{n}={scalar_text(v)}" for n, v in weights.knobs.items() if knobs.get(n) != v]
    return ", ".join(wrong) or None
