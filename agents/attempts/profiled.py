"""The attempt runner for profiled jobs: it times the job, then profiles it in further workers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from agents.attempts.protocol import AttemptRunner
from agents.attempts.sides import part_of
from agents.attempts.worker_process import WorkerProcess
from agents.profiling.names import LOG, TASKS
from controller.contracts.base import digest
from controller.contracts.documents import read_json
from controller.contracts.errors import WorkerFault
from controller.contracts.profile import Peaks, ProfileOrigin, ProfileSummary
from controller.contracts.replay import Replayed
from controller.contracts.result import (
    Blame,
    Failure,
    Measurement,
    Outcome,
    Result,
    Validity,
)
from controller.contracts.units import Unit
from controller.contracts.unreadable import UNREADABLE
from controller.contracts.wire import ProfilePass, Progress, WorkerSpec
from controller.platform.atomic import write_private
from controller.profiles.assembling import under_roofline
from controller.profiles.capturing import Captured, profile_of
from controller.profiles.dates import date_of
from controller.profiles.errors import ProfileUnreadable
from controller.profiles.files import write
from controller.profiles.model import Profile
from controller.profiles.projecting import projected, replays_of, samples_of
from controller.profiles.validity import judged

_REPLAYED: TypeAdapter[list[Replayed]] = TypeAdapter(list[Replayed])
MAX_REPLAYED_BYTES = 2**26


@dataclass(frozen=True, slots=True)
class ProfiledRunner:
    """Attempt runner that profiles what another runner has timed, if the job asks for it."""

    timed: AttemptRunner
    workers: WorkerProcess
    peaks: Path
    """Folder of the machine's peaks, by stack and launch settings."""
    now: Callable[[], float] = time.time
    """Seconds since the epoch."""

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See AttemptRunner.run."""
        started_s = self.now()
        outcome = await self.timed.run(spec, on_progress)
        if not spec.job.profiled or isinstance(outcome, Failure):
            return outcome
        try:
            return await self._profile(spec, outcome, started_s, on_progress)
        except WorkerFault as fault:
            return fault.failure
        except ProfileUnreadable as unreadable:
            return Failure(blame=Blame.HARNESS, kind="profile", message=str(unreadable))

    async def clean(self) -> int:
        """See AttemptRunner.clean."""
        return await self.timed.clean()

    async def _profile(
        self,
        spec: WorkerSpec,
        plain: Result,
        started_s: float,
        on_progress: Callable[[Progress], None],
    ) -> Result:
        folder = Path(spec.artefact_dir)
        traced = await self._watch(spec, "trace", on_progress)
        verbose = await self._watch(spec, "verbose", on_progress)
        captured = Captured(
            trace=Path(traced.artefacts["trace"]),
            verbose=Path(verbose.artefacts["verbose"]),
            verbose_trace=Path(verbose.artefacts["trace"]),
            step_s=plain.metrics["step_time"].value,
            traced_step_s=traced.metrics["step_time"].value,
            verbose_step_s=verbose.metrics["step_time"].value,
        )
        # In a thread, so that the agent's event loop keeps renewing its leases.
        profile = await asyncio.to_thread(profile_of, captured)
        profile = judged(profile, objections_of(plain, {"trace": traced, "verbose": verbose}))
        profile = with_origin(profile, spec, plain, started_s)
        profile = with_allocators(profile, plain, traced)
        profile = with_disturbances(profile, {"plain": plain, "trace": traced, "verbose": verbose})
        profile = await self._replay(spec, profile, on_progress)
        profile = under_roofline(profile, await self.machine_peaks(spec))
        await asyncio.to_thread(write, profile, folder / "profile")
        return with_profile(plain, profile.summary, folder / "profile")

    async def _replay(
        self, spec: WorkerSpec, profile: Profile, on_progress: Callable[[Progress], None]
    ) -> Profile:
        folder = Path(spec.artefact_dir) / "replay"
        folder.mkdir(parents=True, exist_ok=True)
        tasks = [task.model_dump(mode="json") for task in replays_of(profile)]
        (folder / TASKS).write_text(json.dumps(tasks))
        done = await self._watch(spec, "replay", on_progress)
        replayed = read_json(_REPLAYED, Path(done.artefacts["replay_times"]), MAX_REPLAYED_BYTES)
        with (folder / LOG).open("rb") as log:
            return projected(profile, await asyncio.to_thread(samples_of, log, replayed))

    async def machine_peaks(self, spec: WorkerSpec, *, again: bool = False) -> Peaks:
        """Return the peaks under a job's launch settings, measured unless they are stored.

        Raises WorkerFault.
        """
        known = None if again else self.known_peaks(spec)
        if known is None:
            done = await self._watch(spec, "peaks", lambda _: None)
            known = read_json(Peaks, Path(done.artefacts["peaks"]))
            self._keep(spec, known)
        return known

    def known_peaks(self, spec: WorkerSpec) -> Peaks | None:
        """Return the stored peaks under a job's launch settings, or None."""
        try:
            return read_json(Peaks, self._kept(spec))
        except UNREADABLE:  # missing, damaged, or of another release
            return None

    def _keep(self, spec: WorkerSpec, known: Peaks) -> None:
        kept = self._kept(spec)
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_private(kept, known.model_dump_json())

    def _kept(self, spec: WorkerSpec) -> Path:
        return self.peaks / f"{_settings_of(spec)}.json"

    async def _watch(
        self, spec: WorkerSpec, profile_pass: ProfilePass, on_progress: Callable[[Progress], None]
    ) -> Result:
        part = part_of(spec, profile_pass).model_copy(update={"profile_pass": profile_pass})
        outcome = await self.workers.run(part, on_progress)
        if isinstance(outcome, Failure):
            message = f"profiling, {profile_pass} run: {outcome.message}"
            raise WorkerFault(outcome.model_copy(update={"message": message}))
        return outcome


PLAIN = "plain run: "


def objections_of(plain: Result, watched: Mapping[str, Result]) -> tuple[str, ...]:
    """Return why runs of a profile are INVALID themselves: then it is, too."""
    runs = {PLAIN: plain, **{f"{name} run: ": result for name, result in watched.items()}}
    return tuple(
        f"{name}{reason}"
        for name, result in runs.items()
        if result.validity is Validity.INVALID
        for reason in result.reasons or (f"it is {result.validity}",)
    )


def with_origin(profile: Profile, spec: WorkerSpec, plain: Result, started_s: float) -> Profile:
    """Return a profile that says what it is of: the cell, the device, the timed run's worker."""
    threads = plain.environment.get("threads")
    origin = ProfileOrigin(
        workload=spec.job.workload,
        stack=spec.job.stack,
        device=spec.job.device_id,
        date=date_of(started_s),
        threads=threads if isinstance(threads, int) else None,
        knobs=spec.job.knobs,
        environment={**spec.device.facts, **plain.environment},
    )
    summary = profile.summary.model_copy(update={"origin": origin})
    return replace(profile, summary=summary)


def with_allocators(profile: Profile, plain: Result, traced: Result) -> Profile:
    """Note in a profile that its steps ran with another malloc than the timed ones."""
    timed, watched = (result.environment.get("malloc") for result in (plain, traced))
    if timed == watched:
        return profile
    return _noted(
        profile, f"steps were timed with {timed}, and watched and replayed with {watched}"
    )


def with_disturbances(profile: Profile, runs: Mapping[str, Result]) -> Profile:
    """Note in a profile which of its runs were DISTURBED, and by what."""
    notes = (
        f"{name} run: DISTURBED: {reason}"
        for name, result in runs.items()
        if result.validity is Validity.DISTURBED
        for reason in result.reasons
    )
    return _noted(profile, *notes)


def _noted(profile: Profile, *notes: str) -> Profile:
    summary = profile.summary.model_copy(update={"notes": (*profile.summary.notes, *notes)})
    return replace(profile, summary=summary)


def with_profile(plain: Result, summary: ProfileSummary, folder: Path) -> Result:
    """Return the timed result with what its profile says beside.

    It is INVALID if the profile is, for another reason than the timed run's own.
    """
    objections = [
        f"profile: {reason}" for reason in summary.reasons if not reason.startswith(PLAIN)
    ]
    validity = Validity.INVALID if objections else plain.validity
    said = {
        "explained": (summary.explained, Unit.FRACTION),
        "matched": (summary.matched, Unit.FRACTION),
        "efficiency": (summary.efficiency, Unit.FRACTION),
        "headroom": (summary.headroom_s, Unit.SECONDS),
        "traced_step_time": (summary.traced_step_s, Unit.SECONDS),
        "verbose_step_time": (summary.verbose_step_s, Unit.SECONDS),
    }
    metrics = {
        name: Measurement(value=value, unit=unit)
        for name, (value, unit) in said.items()
        if value is not None
    }
    return plain.model_copy(
        update={
            "validity": validity,
            "reasons": (*plain.reasons, *objections),
            "metrics": {**plain.metrics, **metrics},
            "artefacts": {**plain.artefacts, "profile": str(folder)},
            "profile": summary,
        }
    )


_LAUNCH = ("threads", "cores", "numa", "openmp", "thread_binding", "malloc", "huge_pages")


def _settings_of(spec: WorkerSpec) -> str:
    """Return a file name for a stack and its launch settings."""
    settings = {name: spec.job.knobs[name] for name in _LAUNCH if name in spec.job.knobs}
    return f"{spec.job.stack}-{digest(settings)}"
