"""Knobs of all torch stacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.contracts.base import Scalar


@dataclass(frozen=True, slots=True)
class TorchConfig:
    """The stack's knobs, typed; allowed values are in manifests/stacks/torch.yaml."""

    bf16: bool
    """bf16 autocast, with the loss in fp32, and weights but for `master_weights`; else fp32."""
    channels_last: bool
    flush_denormals: bool
    master_weights: bool
    """In bf16: layers hold their weights in it, and the optimizer fp32 masters of them."""

    @staticmethod
    def from_knobs(knobs: Mapping[str, Scalar]) -> TorchConfig:
        """Return the stack's knobs from a cell's; stacks made of this one may lack the last two."""
        return TorchConfig(
            bf16=knobs["precision"] == "bf16",
            channels_last=knobs["memory_format"] == "channels_last",
            flush_denormals=knobs.get("flush_denormals") is True,
            master_weights=knobs.get("master_weights") is True,
        )
