"""The error of a data set; it names the file, and the field or knob."""

from __future__ import annotations

from pathlib import Path

from controller.contracts.errors import UserError


class DataUnusable(UserError):
    """Files of a data set that can't be read, or don't fit the cell."""


def unusable(path: Path, field: str, why: str, remedy: str) -> DataUnusable:
    """Return the error; field: of the file, such as `annotations[3].bbox`, or the knob's name."""
    return DataUnusable(f"read {path}", f"{field}: {why}", remedy)
