"""Whether the answers of a training workload's model can be scored under LoadGen."""

from __future__ import annotations

from collections.abc import Mapping

from controller.contracts.base import Contract, Scalar


class Truths(Contract):
    """That a workload's samples have truths; a manifest without it has made-up samples."""

    not_with: dict[str, tuple[Scalar, ...]] = {}
    """Values of knobs with which the samples are made up all the same."""

    def are_known(self, knobs: Mapping[str, Scalar]) -> bool:
        """Return whether the samples of a cell have truths."""
        return not any(knobs.get(name) in values for name, values in self.not_with.items())
