"""What `tests.support.profiled_model` has written into a folder, read and brought together."""

from __future__ import annotations

import json
from collections import Counter
from io import BytesIO
from pathlib import Path

from controller.profiles.capturing import Captured, profile_of
from controller.profiles.model import Profile
from controller.profiles.verbose import LogFacts, executions

Bodies = dict[str, Counter[str]]
"""Phase and module → the primitives that ran there."""


def captured(folder: Path, verbose_step_s: float = 1.2) -> Captured:
    """Return the files, and times of steps that a quiet machine may have."""
    trace = folder / "trace.json"
    return Captured(
        trace=trace,
        verbose=folder / "verbose.log",
        verbose_trace=trace,
        step_s=1.0,
        traced_step_s=1.1,
        verbose_step_s=verbose_step_s,
    )


def recorded_profile(folder: Path) -> Profile:
    """Return the profile."""
    return profile_of(captured(folder))


def matched_bodies(profile: Profile) -> Bodies:
    """Return where a profile's primitives ran, as it was matched."""
    found: Bodies = {}
    for row in profile.primitives:
        bodies = found.setdefault(f"{row.place.phase} {row.place.module}", Counter())
        bodies[row.body] += round(row.calls)
    return found


def true_bodies(folder: Path) -> Bodies:
    """Return where they ran, from running modules one by one."""
    log = (folder / "alone.log").read_bytes()
    found: Bodies = {}
    for place, start, end in json.loads((folder / "alone.json").read_text()):
        told = executions(BytesIO(log[start:end]), LogFacts())
        found.setdefault(place, Counter()).update(body.decode() for _, body, _ in told)
    return {place: bodies for place, bodies in found.items() if bodies}
