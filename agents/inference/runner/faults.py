"""Faults of a run on the device."""

from __future__ import annotations

import errno
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, Literal

STORAGE: Final = {
    errno.ENOSPC: "storage_full",
    errno.EDQUOT: "storage_full",
    errno.EROFS: "read_only",
}
PROBE_BYTES: Final = 1 << 20
"""Bytes to write as a test; more than the logs of a run take."""
Blame = Literal["workload", "harness", "device", "user"]


class RunnerFault(Exception):
    """A run that could not be done; becomes its `failure` message."""

    def __init__(self, kind: str, message: str, blame: Blame) -> None:
        super().__init__(kind, message, blame)
        self.kind = kind
        self.message = message
        self.blame = blame


def spec_invalid(message: str) -> RunnerFault:
    """Return the fault of an invalid spec, which is an error of the agent."""
    return RunnerFault("spec_invalid", message, "harness")


def model_unusable(message: str) -> RunnerFault:
    """Return the fault of a model that LiteRT can't run, or can't run on these data."""
    return RunnerFault("model_unusable", message, "workload")


def not_in_batches(model: str, size: int, why: str) -> RunnerFault:
    """Return the fault of a model whose graph is bound to one sample."""
    message = f"cannot compute {model} in batches of {size}: {why}. Set batch_size=1."
    return RunnerFault("batch_unsupported", message, "user")


def not_xnnpack(model: str, option: str, why: str) -> RunnerFault:
    """Return the fault of a model that XNNPACK can't run with the option asked for."""
    message = f"cannot run {model} with xnnpack={option}: {why}. Set xnnpack=interpreter."
    return RunnerFault("xnnpack_unsupported", message, "user")


def dataset_unusable(message: str) -> RunnerFault:
    """Return the fault of a data set that can't be read."""
    return RunnerFault("dataset_unusable", message, "workload")


def out_of_memory() -> RunnerFault:
    """Return the fault of an allocation that the device has refused."""
    message = "the device ran out of memory. Make the run smaller, or use one with more memory."
    return RunnerFault("out_of_memory", message, "workload")


def log_unreadable(message: str) -> RunnerFault:
    """Return the fault of LoadGen logs that lack what a result needs."""
    return RunnerFault("log_unreadable", message, "harness")


def clock_set(why: str) -> RunnerFault:
    """Return the fault of a run in which the wall clock was set so that no time of it is known."""
    return RunnerFault("clock_set", f"{why}. Run it again.", "harness")


def storage_fault(folder: Path) -> RunnerFault | None:
    """Return the fault of a storage that can't be written, which can cause another fault."""
    try:
        with TemporaryFile(dir=folder) as probe:
            probe.write(bytes(PROBE_BYTES))
    except OSError as error:
        if kind := STORAGE.get(error.errno or 0):
            return RunnerFault(kind, f"{folder}: {error.strerror}", "device")
    return None
