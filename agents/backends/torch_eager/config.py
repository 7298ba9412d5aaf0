"""What the `torch` stack can be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.contracts.base import Scalar


@dataclass(frozen=True, slots=True)
class TorchConfig:
    """The stack's knobs, typed; allowed values are in manifests/stacks/torch.yaml."""

    precision: str
    memory_format: str

    @staticmethod
    def from_knobs(knobs: Mapping[str, Scalar]) -> TorchConfig:
        """Take the stack's knobs out of a cell's."""
        return TorchConfig(str(knobs["precision"]), str(knobs["memory_format"]))
