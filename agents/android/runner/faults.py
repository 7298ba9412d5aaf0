"""Why a run on the device could not be done."""

from __future__ import annotations

from typing import Literal


class RunnerFault(Exception):
    """A run that could not be done; becomes the one `failure` message."""

    def __init__(self, kind: str, message: str, blame: Literal["workload", "harness"]) -> None:
        super().__init__(kind, message, blame)
        self.kind = kind
        self.message = message
        self.blame = blame


def spec_invalid(message: str) -> RunnerFault:
    """Return the fault of a spec that no agent should have sent."""
    return RunnerFault("spec_invalid", message, "harness")


def model_unusable(message: str) -> RunnerFault:
    """Return the fault of a model that LiteRT can't run, or not on these data."""
    return RunnerFault("model_unusable", message, "workload")


def dataset_unusable(message: str) -> RunnerFault:
    """Return the fault of a data set that can't be read."""
    return RunnerFault("dataset_unusable", message, "workload")


def log_unreadable(message: str) -> RunnerFault:
    """Return the fault of LoadGen logs that lack what a result needs."""
    return RunnerFault("log_unreadable", message, "harness")
