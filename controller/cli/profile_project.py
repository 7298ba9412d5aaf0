"""`benchfarm profile import LOG --project`: a log's primitives, replayed on this host."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from controller.cli.common import show_json, show_table
from controller.contracts.errors import UserError
from controller.contracts.projection_check import Agreement, ProjectionCheck
from controller.contracts.replay import REPLAY_LOG, LogReplays
from controller.platform.terminal import say
from controller.profiles.files import read
from controller.profiles.live_check import (
    Named,
    require_live,
    require_same,
    require_this_host,
)
from controller.profiles.live_replays import interleaved, replayed_again
from controller.profiles.log_projecting import log_projected, require_one_setting, step_seconds
from controller.profiles.log_replays import planned_replays
from controller.profiles.model import Profile
from controller.profiles.projecting import samples_of
from controller.profiles.reading import open_file
from controller.profiles.verbose import facts_of
from controller.reports.projection_lines import agreement_lines, kinds_table
from controller.runtime.log_replay import run_log_replays

TIME_LIMIT_S: Final = 300.0
ROUNDS_TO_COMPARE: Final = 6
"""Of replays, if a profile's are made in turns with the log's: a machine's speed may change within
seconds."""
MOST_STEPS: Final = 1_000_000
"""Of which each one's time is kept."""


@dataclass(frozen=True, slots=True)
class Projected:
    """A log's profile with replays, and the live one that was replayed again beside it."""

    log: Profile
    live: Profile | None


def projected_here(
    profile: Profile, file: Path, time_limit_s: float, live: Named | None = None
) -> Projected:
    """Return a log's profile with what its primitives take here; raises UserError.

    live: what it will be compared with, which has to be of this machine. Its kernels run in turns
    with the log's primitives.
    """
    if not profile.primitives:
        seen = "it is a trace: only a log of oneDNN says which primitives ran"
        raise UserError(f"project {file}", seen, "Give a log of ONEDNN_VERBOSE=1.")
    with open_file(file) as log:
        require_one_setting(facts_of(log), str(file))
    planned = planned_replays(sorted(profile.primitives, key=lambda row: -row.seconds))
    both = interleaved(planned, live.profile if live else None)
    with TemporaryDirectory(prefix="benchfarm-replays-") as folder:
        wanted = LogReplays(
            tasks=both.tasks,
            folder=folder,
            threads=_threads(profile),
            time_limit_s=time_limit_s,
            rounds=ROUNDS_TO_COMPARE if any(both.are_live) else 1,
        )
        done = run_log_replays(wanted)
        with (Path(folder) / REPLAY_LOG).open("rb") as log:
            if live:
                require_this_host(facts_of(log).isa, live)
                log.seek(0)
            samples = samples_of(log, both.log_replays(done))
            again = replayed_again(live.profile, both, done, log) if live else None
    own = done.model_copy(update={"replayed": tuple(filter(None, both.log_replays(done)))})
    found = log_projected(profile, planned, own, samples, _steps_s(profile, file))
    return Projected(found, again)


def live_profile(folder: Path, log: Named) -> Named:
    """Return the live profile that a log is to agree with; raises UserError if it can't."""
    live = Named(str(folder), read(folder))
    require_live(live)
    if log.profile.primitives:  # a trace is refused as such
        require_same(log, live)
    return live


def show_agreement(found: ProjectionCheck, top: int, *, json: bool) -> None:
    """Show how the efficiencies agree; exits with status 1 if they lie too far apart."""
    if json:
        show_json(found)
    else:
        show_table(kinds_table(found, top))
        for line in agreement_lines(found):
            say(line)
    if found.agreement is Agreement.BEYOND:
        sys.exit(1)


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
        bodies = {row.body for row in profile.primitives}
        return step_seconds(log, steps, calls, bodies)
