"""Knobs of the `ipex` stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.contracts.base import Scalar


@dataclass(frozen=True, slots=True)
class IpexConfig:
    """The knobs that other stacks of torch don't have, typed; see manifests/stacks/ipex.yaml."""

    optimize: bool
    frozen_bn: bool

    @staticmethod
    def from_knobs(knobs: Mapping[str, Scalar]) -> IpexConfig:
        """Return the stack's knobs from a cell's."""
        return IpexConfig(bool(knobs["ipex_optimize"]), bool(knobs["ipex_frozen_bn"]))
