"""`benchfarm profile import LOG --project`: a log's primitives, replayed on this host."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from controller.contracts.errors import UserError
from controller.contracts.replay import REPLAY_LOG, LogReplays
from controller.profiles.log_projecting import log_projected, step_seconds
from controller.profiles.log_replays import planned_replays
from controller.profiles.model import Profile
from controller.profiles.reading import open_file
from controller.runtime.log_replay import run_log_replays

TIME_LIMIT_S: Final = 300.0
MOST_STEPS: Final = 1_000_000
"""Of which each one's time is kept."""


def projected_here(profile: Profile, file: Path, time_limit_s: float) -> Profile:
    """Return a log's profile with what its primitives take here; raises UserError."""
    if not profile.primitives:
        seen = "it is a trace: only a log of oneDNN says which primitives ran"
        raise UserError(f"project {file}", seen, "Give a log of ONEDNN_VERBOSE=1.")
    rows = sorted(profile.primitives, key=lambda row: -row.seconds)
    planned = planned_replays(rows)
    tasks = {task.key: task for task in planned.tasks.values()}
    with TemporaryDirectory(prefix="benchfarm-replays-") as folder:
        wanted = LogReplays(
            tasks=tuple(tasks.values()),
            folder=folder,
            threads=_threads(profile),
            time_limit_s=time_limit_s,
        )
        done = run_log_replays(wanted)
        with (Path(folder) / REPLAY_LOG).open("rb") as log:
            return log_projected(profile, planned, done, log, _steps_s(profile, file))


def _threads(profile: Profile) -> int:
    """Return the log's threads, as many as this process has cores at most; 0 if it tells none."""
    origin = profile.summary.origin
    return min((origin.threads if origin else None) or 0, len(os.sched_getaffinity(0)))


def _steps_s(profile: Profile, file: Path) -> list[float]:
    """Return each step's seconds in primitives; none if steps are not known, or too many."""
    steps = profile.summary.steps or 0
    calls = sum(row.calls for row in profile.primitives) * steps
    if not 0 < steps <= min(calls, MOST_STEPS):
        return []
    with open_file(file) as log:
        return step_seconds(log, steps, calls)
