"""The attempt runner for profiled jobs: it times the job, then profiles it in further workers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter

from agents.attempts.kept_peaks import KeptPeaks
from agents.attempts.protocol import AttemptRunner
from agents.attempts.reallocated import compared, is_due
from agents.attempts.repeats import MOST_RUNS, is_likely, repeated, repeats_told
from agents.attempts.rounds import Round, is_another_due, is_quiet
from agents.attempts.sides import part_of
from agents.attempts.worker_process import WorkerProcess
from agents.host.conditions import environment_of, read_conditions
from agents.host.disturbance import speed_objections
from agents.profiling.names import LOG, TASKS
from agents.profiling.windows import FEW_WINDOWS
from controller.contracts.counters import Counters
from controller.contracts.documents import read_json
from controller.contracts.errors import WorkerFault
from controller.contracts.peaks import RATES, UPDATE, MeasuredPeaks, Peaks
from controller.contracts.policy import Policy, load_policy
from controller.contracts.profile import ProfileOrigin, ProfileSummary
from controller.contracts.replay import Replayed
from controller.contracts.result import (
    Blame,
    Failure,
    Measurement,
    Outcome,
    Result,
    Validity,
    worst,
)
from controller.contracts.units import Unit
from controller.contracts.wire import ProfilePass, Progress, WorkerSpec
from controller.profiles.assembling import under_roofline
from controller.profiles.capturing import Captured, profile_of
from controller.profiles.dates import date_of
from controller.profiles.errors import ProfileUnreadable
from controller.profiles.files import write
from controller.profiles.model import Profile
from controller.profiles.projecting import projected, refused_told, replays_of, samples_of
from controller.profiles.roofs import peaks_of, raised_by, raises_told
from controller.profiles.validity import judged, unlikely

_REPLAYED: TypeAdapter[list[Replayed]] = TypeAdapter(list[Replayed])
MAX_REPLAYED_BYTES, MAX_COUNTERS_BYTES = 2**26, 2**20


@dataclass(frozen=True, slots=True)
class ProfiledRunner:
    """Attempt runner that profiles what another runner has timed, if the job asks for it."""

    timed: AttemptRunner
    workers: WorkerProcess
    kept: KeptPeaks
    now: Callable[[], float] = time.time
    """Seconds since the epoch."""

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        """See AttemptRunner.run."""
        if not spec.job.profiled:
            return await self.timed.run(spec, on_progress)
        started_s = self.now()
        try:
            found = await self._rounds(spec, on_progress)
            return await self._profile(spec, found, started_s, on_progress)
        except WorkerFault as fault:
            return fault.failure
        except ProfileUnreadable as unreadable:
            return Failure(blame=Blame.HARNESS, kind="profile", message=str(unreadable))

    async def clean(self) -> int:
        """See AttemptRunner.clean."""
        return await self.timed.clean()

    async def _rounds(
        self, spec: WorkerSpec, on_progress: Callable[[Progress], None]
    ) -> Sequence[Round]:
        """Time and watch the job until its steps are alike, or no further round would help.

        Raises WorkerFault, ProfileUnreadable.
        """
        rounds = [await self._round(spec, on_progress)]
        while is_another_due(rounds):
            rounds.append(await self._round(spec, on_progress))
        return rounds

    async def _round(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Round:
        plain = await self.timed.run(spec, on_progress)
        if isinstance(plain, Failure):
            raise WorkerFault(plain)
        few = spec.model_copy(update={"most_windows": FEW_WINDOWS})
        watched = spec if is_quiet(plain) else few
        traced = await self._watch(watched, "trace", on_progress)
        verbose = await self._watch(watched, "verbose", on_progress)
        captured = Captured(
            trace=Path(traced.artefacts["trace"]),
            verbose=Path(verbose.artefacts["verbose"]),
            verbose_trace=Path(verbose.artefacts["trace"]),
            step_s=plain.metrics["step_time"].value,
            traced_step_s=traced.metrics["step_time"].value,
            verbose_step_s=verbose.metrics["step_time"].value,
            load_in_step="load_wait" in plain.metrics,
        )
        # In a thread, so that the agent's event loop keeps renewing its leases.
        return Round(plain, traced, verbose, await asyncio.to_thread(profile_of, captured))

    async def _profile(
        self,
        spec: WorkerSpec,
        rounds: Sequence[Round],
        started_s: float,
        on_progress: Callable[[Progress], None],
    ) -> Result:
        folder, last = Path(spec.artefact_dir), rounds[-1]
        plain, watched = last.plain, {"trace": last.traced, "verbose": last.verbose}
        profile = with_origin(last.profile, spec, plain, started_s)
        profile = with_allocators(profile, plain, last.traced)
        steps = [run.metrics["step_time"].samples for run in (plain, last.verbose)]
        most = MOST_RUNS if plain.validity is Validity.VALID else 1  # what could be VALID
        (profile, replayed), replays = await repeated(
            partial(self._replay, spec, profile, steps, on_progress), is_likely, most
        )
        profile = noted(profile, *repeats_told(watched, len(rounds), replays))
        profile = await self._counted(spec, profile, last, on_progress)
        runs = {"plain": plain, **watched, "replay": replayed}
        profile = judged_by_runs(profile, runs, load_policy(str(spec.job.knobs["policy"])))
        profile = self._under_roofline(spec, profile, await self.machine_peaks(spec))
        await asyncio.to_thread(write, profile, folder / "profile")
        return with_profile(plain, profile.summary, folder / "profile")

    async def _replay(
        self,
        spec: WorkerSpec,
        profile: Profile,
        steps: Sequence[Sequence[float]],
        on_progress: Callable[[Progress], None],
    ) -> tuple[Profile, Result]:
        folder = Path(spec.artefact_dir) / "replay"
        folder.mkdir(parents=True, exist_ok=True)
        tasks = [task.model_dump(mode="json") for task in replays_of(profile)]
        (folder / TASKS).write_text(json.dumps(tasks))
        done = await self._watch(spec, "replay", on_progress)
        replayed = read_json(_REPLAYED, Path(done.artefacts["replay_times"]), MAX_REPLAYED_BYTES)
        with (folder / LOG).open("rb") as log:
            samples = await asyncio.to_thread(samples_of, log, replayed)
        found = projected(profile, samples, *steps)
        return noted(found, *refused_told(found, replayed)), done

    async def _counted(
        self,
        spec: WorkerSpec,
        profile: Profile,
        last: Round,
        on_progress: Callable[[Progress], None],
    ) -> Profile:
        """Return the profile with what was counted in each phase, by a worker of its own.

        Steps with glibc's untuned malloc are also compared with those of the watched runs' malloc.
        """
        done = await self._watch(spec, "counters", on_progress)
        path = Path(done.artefacts["counters"])
        counters, notes = read_json(Counters, path, MAX_COUNTERS_BYTES), tuple[str, ...]()
        if is_due(spec, last.plain, last.traced):
            step_s = last.plain.metrics["step_time"].value
            try:
                other = await compared(self.timed, spec, step_s, on_progress)
                counters = counters.model_copy(update={"other_malloc": other})
            except WorkerFault as fault:
                notes = (f"another malloc was not compared: {fault.failure.message}",)
        told = {"counters": counters, "topdown": counters.whole}
        summary = profile.summary.model_copy(update=told)
        return noted(replace(profile, summary=summary), *notes)

    def _under_roofline(self, spec: WorkerSpec, profile: Profile, found: PeaksFound) -> Profile:
        """Return the profile under the peaks, which its own primitives raise if they are faster."""
        if found.peaks is None:
            why = f"headroom is left out: no peaks are known, and {found.refused}"
            return noted(profile, why)
        if found.refused:
            profile = noted(profile, f"peaks are those known before, since {found.refused}")
        raises = raised_by(profile, found.peaks, spec.job.ref.run_id)
        if not raises:
            return under_roofline(profile, found.peaks)
        self.kept.add(spec, *raises)
        profile = noted(profile, *raises_told(raises, found.peaks))
        return under_roofline(profile, peaks_of(self.kept.of(spec)) or found.peaks)

    async def machine_peaks(self, spec: WorkerSpec, *, again: bool = False) -> PeaksFound:
        """Return the machine's peaks, measured unless they are known from the job's stack.

        A measurement is refused, and not kept, unless it is VALID. Raises WorkerFault.
        """
        if not again and (peaks := self.known_peaks(spec)):
            return PeaksFound(peaks)
        cores = spec.device.host_cores
        before = read_conditions(cores)
        done = await self._watch(spec, "peaks", lambda _: None)
        if done.validity is not Validity.VALID:
            refused = f"the measurement was {done.validity}: {'; '.join(done.reasons)}"
            return PeaksFound(peaks_of(self.kept.of(spec)), refused)
        measured = MeasuredPeaks(
            rates=read_json(RATES, Path(done.artefacts["peaks"])),
            stack=spec.job.stack,
            date=date_of(self.now()),
            knobs={name: spec.job.knobs[name] for name in _LAUNCH if name in spec.job.knobs},
            conditions={**environment_of(before, read_conditions(cores)), **done.environment},
        )
        self.kept.add(spec, measured)
        return PeaksFound(peaks_of(self.kept.of(spec)))

    def known_peaks(self, spec: WorkerSpec) -> Peaks | None:
        """Return the machine's peaks, or None if the job's stack is not among what is known."""
        known = self.kept.of(spec)
        own = (one for one in known if one.primitive is None)
        # Earlier releases measured no updates, then with arrays that large caches hold.
        stacks = {one.stack for one in own if UPDATE in one.rates and one.rates[UPDATE].array_bytes}
        return peaks_of(known) if spec.job.stack in stacks else None

    async def _watch(
        self, spec: WorkerSpec, profile_pass: ProfilePass, on_progress: Callable[[Progress], None]
    ) -> Result:
        part = part_of(spec, profile_pass).model_copy(update={"profile_pass": profile_pass})
        outcome = await self.workers.run(part, on_progress)
        if isinstance(outcome, Failure):
            message = f"profiling, {profile_pass} run: {outcome.message}"
            raise WorkerFault(outcome.model_copy(update={"message": message}))
        return outcome


@dataclass(frozen=True, slots=True)
class PeaksFound:
    """What is known of the machine's peaks after an attempt to measure them."""

    peaks: Peaks | None
    refused: str = ""
    """Why that measurement was not kept."""


PLAIN = "plain run: "
BESIDE_RUNS = "beside the timed and the watched runs"


def judged_by_runs(profile: Profile, runs: Mapping[str, Result], policy: Policy) -> Profile:
    """Return a profile that is no better than its runs, nor than its efficiency lets it be."""
    told = {
        validity: tuple(
            f"{name} run: {reason}"
            for name, result in runs.items()
            if result.validity is validity
            for reason in result.reasons or (f"it is {validity}",)
        )
        for validity in (Validity.INVALID, Validity.DISTURBED)
    }
    found = (result.environment.get("matmul_gflops") for result in runs.values())
    known = [rate for rate in found if isinstance(rate, float)]
    slower = (*unlikely(profile.summary), *speed_objections(known, BESIDE_RUNS, policy))
    enforced = policy.host is not None and policy.host.enforced
    broken = told[Validity.INVALID] + (slower if enforced else ())
    return judged(profile, broken, told[Validity.DISTURBED] + (() if enforced else slower))


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
    return noted(profile, f"steps were timed with {timed}, and watched and replayed with {watched}")


def noted(profile: Profile, *notes: str) -> Profile:
    """Return a profile with further notes."""
    summary = profile.summary.model_copy(update={"notes": (*profile.summary.notes, *notes)})
    return replace(profile, summary=summary)


def with_profile(plain: Result, summary: ProfileSummary, folder: Path) -> Result:
    """Return the timed result with what its profile says beside.

    It is no better than the profile, which may have other reasons than the timed run's own.
    """
    objections = [
        f"profile: {reason}" for reason in summary.reasons if not reason.startswith(PLAIN)
    ]
    validity = worst((plain.validity, Validity(summary.validity)))
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
