"""The files that a run's attempts left, and its profile, as pages show them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote, urlencode

from pydantic import Field

from controller.api.queries import NoQuery
from controller.api.reads import Reading
from controller.api.run_profile import FOLDER, stored_profile
from controller.contracts.artefacts import ArtefactPlace, ArtefactRecord
from controller.page.kept import Kept
from controller.reports.html.page import Page
from controller.reports.html.profile import profile_page

MOST_FILES: Final = 200
"""Files of a run that are listed."""
CONTENT: Final = "/artefacts"
"""Contents that are on the head are below this address."""
PROFILE_S: Final = 60.0
"""For so long a profile that was read stands: that of an attempt does not change."""
_KINDS: Final = (
    (f"{FOLDER}/*", "profile"),
    ("*mlperf_log_*", "LoadGen log"),
    ("output.log", "output"),
)
"""Patterns of names, and what such files are."""


class AttemptQuery(NoQuery):
    """Which attempt of a run is meant."""

    attempt: int | None = Field(default=None, ge=1)
    """None for the newest that has what is asked for."""


@dataclass(frozen=True, slots=True)
class FileLine:
    """A file of a run in a list."""

    record: ArtefactRecord
    kind: str
    address: str
    """Where its content is served; empty if it is not on the head."""

    @property
    def where(self) -> str:
        """Where it is instead; empty if it is on the head."""
        if self.record.where is ArtefactPlace.AGENT:
            return f"agent {self.record.agent_id} sends it when nothing is measured"
        return "expired" if self.record.where is ArtefactPlace.EXPIRED else ""


@dataclass(frozen=True, slots=True)
class RunFileList:
    """The files of a run, the first of them, and which profiles the head has."""

    lines: tuple[FileLine, ...] = ()
    left_out: int = 0
    profiled: frozenset[int] = frozenset()
    """Attempts whose profile is on the head."""


def files_of(farm: Reading, run_id: str) -> RunFileList:
    """Return the files that agents have announced of a run; none of an unknown one."""
    records = farm.store.artefacts(run_id)
    profiled = {one.attempt for one in records if _is_profile(one) and _is_here(one)}
    away = {one.attempt for one in records if _is_profile(one) and not _is_here(one)}
    return RunFileList(
        lines=tuple(_line(one) for one in records[:MOST_FILES]),
        left_out=max(0, len(records) - MOST_FILES),
        profiled=frozenset(profiled - away),
    )


def kind_of(name: str) -> str:
    """Return what a file is, for people, by its name."""
    known = (kind for pattern, kind in _KINDS if fnmatchcase(name, pattern))
    ending = PurePosixPath(name).suffix.removeprefix(".")
    return next(known, f"{ending.upper()} file" if ending else "file")


def profile_address(run_id: str, attempt: int) -> str:
    """Return the address of the page of an attempt's profile."""
    return f"/runs/{quote(run_id, safe='')}/profile?{urlencode({'attempt': attempt})}"


def run_profile_page(farm: Reading, kept: Kept, run_id: str, attempt: int | None) -> Page:
    """Return a run's profile in the view of reports; raises as `stored_profile` does."""

    def make() -> Page:
        found = stored_profile(farm.store, run_id, attempt)
        return profile_page(found.profile, f"Profile of run {run_id}, attempt {found.attempt}")

    return kept.get((run_id, attempt), None, PROFILE_S, make)


def _line(record: ArtefactRecord) -> FileLine:
    address = ""
    if _is_here(record):
        name = quote(record.name.rpartition("/")[2], safe="")
        address = f"{CONTENT}/{record.sha256}/{name}"
    return FileLine(record, kind_of(record.name), address)


def _is_profile(record: ArtefactRecord) -> bool:
    return record.name.startswith(f"{FOLDER}/")


def _is_here(record: ArtefactRecord) -> bool:
    return record.where is ArtefactPlace.HEAD
