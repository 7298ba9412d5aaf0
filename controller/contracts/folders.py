"""Folders that people name by variables or options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from controller.contracts.errors import HomeUnusable


def named_folder(variable: str, usual: Path | str, environ: Mapping[str, str]) -> Path:
    """Return the folder that a variable names, else the usual one; raises HomeUnusable."""
    named = environ.get(variable) or str(usual)
    remedy = f"Set {variable} to a folder of your own."
    return expanded(named, f"use the folder {named}", remedy).absolute()


def expanded(named: Path | str, tried: str, remedy: str) -> Path:
    """Return a path whose `~` or `~user` is that user's home.

    Raises HomeUnusable for a user without one.
    """
    try:
        return Path(named).expanduser()
    except RuntimeError as error:
        raise HomeUnusable(tried, "there is no such user, or none with a home", remedy) from error
