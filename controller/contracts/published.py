"""What a published board holds of a run: one folder, with the files its figures come from."""

from __future__ import annotations

from typing import Final

from controller.contracts.base import Contract

RESULT: Final = "result.json"
"""The stored result in its run's folder, with every raw sample."""
RUNS: Final = "runs"
"""The folder of a board that holds those of runs."""
PRICE: Final = "price_per_hour"
"""The label of a device that says what an hour on it costs."""


class PublishedFile(Contract):
    """A file that a board holds of a run."""

    name: str
    """Path in the run's folder."""
    size: int
    """Bytes."""
    sha256: str
    """Hex."""


class PublishedRun(Contract):
    """The folder of a run in a board."""

    folder: str
    """Path in the board."""
    files: tuple[PublishedFile, ...]
    absent: dict[str, str] = {}
    """Artefact → why the board has no copy of it."""
