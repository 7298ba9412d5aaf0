"""How the verbs of `benchfarm profile` read a profile, of a folder or a run, and write one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controller.cli.common import context_elsewhere, home, reading
from controller.cli.references import run_id_of
from controller.contracts.errors import NotFound, UserError
from controller.platform.atomic import replacing_files
from controller.profiles.files import KERNELS, PRIMITIVES, SUMMARY, TIMELINE, read, write
from controller.profiles.model import Profile

if TYPE_CHECKING:
    from controller.store.protocol import FarmReader

FILES = (KERNELS, PRIMITIVES, TIMELINE, SUMMARY)
METAVAR = "DIR|RUN"
HELP = "Folder that `profile run` or `profile import` wrote, or a profiled run's id."
Subject = Annotated[str, typer.Argument(metavar=METAVAR, help=HELP)]


def read_profile(subject: str) -> Profile:
    """Return the profile in a folder, or that of a stored run by the head's copy of its files.

    Raises ProfileUnreadable, NotFound, CopyDamaged, and UserError of a farm elsewhere.
    """
    if is_folder(subject):
        return read(Path(subject))
    if not (context_elsewhere() or home().has_store()):
        raise _neither(subject)
    # Late: what answers on the head takes longer to load than a folder to read.
    from controller.api.run_profile import stored_profile

    with reading() as store:
        return stored_profile(store, _run_of(store, subject)).profile


def write_profile(profile: Profile, folder: Path) -> None:
    """Write a profile into a folder, new or not; raises UserError.

    A profile that is there stays whole if this one can't be written.
    """
    try:
        with replacing_files(folder, FILES) as new:
            write(profile, new)
    except OSError as error:
        raise UserError(
            f"write profile {folder}",
            error.strerror or str(error),
            "Name a folder that you can write to.",
        ) from error


def is_folder(subject: str) -> bool:
    """Return whether a word names a folder, there or not, rather than a run."""
    try:
        return os.sep in subject or Path(subject).exists()
    except (OSError, ValueError):  # too long, a null character
        return True


def name_of_profile(subject: str) -> str:
    """Return the name of a profile for people: its folder's, or the run's id as it was given."""
    return Path(subject).absolute().name if is_folder(subject) else subject


def _run_of(store: FarmReader, subject: str) -> str:
    try:
        return run_id_of(store, subject)
    except NotFound as error:
        raise _neither(subject) from error


def _neither(subject: str) -> NotFound:
    remedy = (
        "Name a folder that `benchfarm profile run` wrote, or a run of `benchfarm results list`."
    )
    return NotFound(f"read profile {subject}", "there is no such folder, and no such run", remedy)
