"""Knobs of all torch stacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.contracts.base import Scalar


@dataclass(frozen=True, slots=True)
class TorchConfig:
    """The stack's knobs, typed; allowed values are in manifests/stacks/torch.yaml."""

    bf16: bool
    """bf16 autocast, with weights and loss in fp32; else fp32."""
    channels_last: bool
    flush_denormals: bool

    @staticmethod
    def from_knobs(knobs: Mapping[str, Scalar]) -> TorchConfig:
        """Return the stack's knobs from a cell's; a stack made of this one may have no knob for
        denormals."""
        bf16, channels_last = (
            knobs["precision"] == "bf16",
            knobs["memory_format"] == "channels_last",
        )
        return TorchConfig(bf16, channels_last, knobs.get("flush_denormals") is True)
