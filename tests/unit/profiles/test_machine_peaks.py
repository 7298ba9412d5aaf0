"""A profiled job and the machine's peaks: which are measured, refused, kept, raised and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.attempts.kept_peaks import KeptPeaks
from agents.attempts.profiled import PeaksFound
from agents.machine_peaks import Disturbed, peaks_in
from agents.profiling.peaks import array_bytes, copy_bytes, sizes_at, update_bytes
from controller.contracts.base import digest
from controller.contracts.peaks import UPDATE, MeasuredPeaks, Rate
from controller.contracts.profile import ProfileSummary
from controller.contracts.result import Result, Validity
from controller.reports.profile_tables import summary_lines
from tests.support import builders
from tests.support.planted_step import CONVOLUTION, CONVOLUTION_S, STEP_S, planted
from tests.support.profiling_workers import (
    PEAKS,
    Timed,
    Watching,
    profiled_by,
    spec_in,
    stepped,
)

BUSY = "others were busy"
MIB, GIB = 2**20, 2**30
STEADY = tuple(STEP_S * factor for factor in (0.99, 1.0, 1.0, 1.0, 1.0, 1.01))
RESTLESS = tuple(STEP_S * factor for factor in (0.75, 0.8, 1.0, 1.0, 1.3, 1.5))


async def profile_by(workers: Watching, folder: Path, *steps: float, policy: str = "ci") -> Result:
    """Return the result of a profiled job of planted steps."""
    runner = profiled_by(Timed(stepped(*steps or STEADY)), workers, folder)
    found = await runner.run(spec_in(folder, policy=policy), lambda _: None)
    assert isinstance(found, Result)
    return found


def summary_of(result: Result) -> ProfileSummary:
    assert result.profile
    return result.profile


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    return planted(tmp_path / "planted").verbose.parent


@pytest.mark.parametrize("validity", [Validity.INVALID, Validity.DISTURBED])
async def test_peaks_of_a_disturbed_machine_are_refused(
    recorded: Path, tmp_path: Path, validity: Validity
) -> None:
    workers = Watching(recorded, steps=STEADY, disturbed="peaks", validity=validity)
    told = summary_of(await profile_by(workers, tmp_path))
    assert (told.peaks, told.headroom_s, told.validity) == (None, None, "VALID")
    (note,) = told.notes
    refused = f"the measurement was {validity}: {BUSY}"
    assert note == f"headroom is left out: no peaks are known, and {refused}"
    assert KeptPeaks(tmp_path / "peaks").of(spec_in(tmp_path)) == ()
    workers.disturbed = None
    assert summary_of(await profile_by(workers, tmp_path)).peaks == PEAKS


async def test_known_peaks_outlive_a_refused_measurement(recorded: Path, tmp_path: Path) -> None:
    workers = Watching(recorded, steps=STEADY)
    runner = profiled_by(Timed(), workers, tmp_path)
    assert await runner.machine_peaks(spec_in(tmp_path)) == PeaksFound(PEAKS)
    workers.disturbed = "peaks"
    refused = f"the measurement was INVALID: {BUSY}"
    again = await runner.machine_peaks(spec_in(tmp_path), again=True)
    assert again == PeaksFound(PEAKS, refused)
    other = await runner.machine_peaks(spec_in(tmp_path, stack="ipex"))
    assert other == PeaksFound(PEAKS, refused)


@pytest.mark.parametrize(
    ("speeds", "best"),
    [
        pytest.param((("torch", 1.19), ("ipex", 3.78)), 3.78, id="a second stack is faster"),
        pytest.param((("torch", 3.78), ("ipex", 1.19)), 3.78, id="a second stack is slower"),
        pytest.param((("torch", 3.78), ("torch", 1.19)), 3.78, id="measured again while slower"),
    ],
)
async def test_all_stacks_have_the_same_peaks(
    recorded: Path, tmp_path: Path, speeds: tuple[tuple[str, float], ...], best: float
) -> None:
    workers = Watching(recorded)
    runner = profiled_by(Timed(), workers, tmp_path)
    for stack, speed in speeds:
        workers.speed = speed
        found = await runner.machine_peaks(spec_in(tmp_path, stack=stack), again=True)
    assert found.peaks
    assert found.peaks.gemm_flops["f32"] == pytest.approx(best * 1e11)
    for stack, _ in speeds:
        assert runner.known_peaks(spec_in(tmp_path, stack=stack, malloc="jemalloc")) == found.peaks
    assert runner.known_peaks(spec_in(tmp_path, threads=2)) is None
    assert runner.known_peaks(spec_in(tmp_path, stack="torch-compile")) is None


def test_a_machine_with_another_quota_has_other_peaks(tmp_path: Path) -> None:
    kept, spec = KeptPeaks(tmp_path / "peaks"), spec_in(tmp_path)
    rates = {UPDATE: Rate(best=1.0, median=1.0, runs=1)}
    measured = MeasuredPeaks(rates=rates, stack="torch", date=None)
    kept.add(spec, measured)
    (file,) = (tmp_path / "peaks").iterdir()
    settings = {name: spec.job.knobs[name] for name in ("cores", "threads", "numa")}
    former = {**settings, "host_cores": [0, 1], "cpu_model": None}
    assert file.name == f"machine-{digest(former)}.json", "known files keep their names"
    halved = spec.model_copy(update={"device": builders.cpu(facts={"cpu_quota": 0.5})})
    assert (len(kept.of(spec)), kept.of(halved)) == (1, ())
    kept.add(halved, measured)
    assert len([*(tmp_path / "peaks").iterdir()]) == 2


async def test_what_was_measured_with_arrays_that_caches_may_hold_is_measured_again(
    recorded: Path, tmp_path: Path
) -> None:
    runner = profiled_by(Timed(), Watching(recorded), tmp_path)
    await runner.machine_peaks(spec_in(tmp_path))
    (measured,) = KeptPeaks(tmp_path / "peaks").of(spec_in(tmp_path))
    assert measured.rates[UPDATE].array_bytes == 256 * MIB
    rates = {n: r.model_copy(update={"array_bytes": None}) for n, r in measured.rates.items()}
    (kept,) = (tmp_path / "peaks").glob("machine-*")
    former = measured.model_copy(update={"rates": rates})
    kept.write_text(f"[{former.model_dump_json(exclude_none=True)}]")
    assert runner.known_peaks(spec_in(tmp_path)) is None
    found = await runner.machine_peaks(spec_in(tmp_path))
    assert found.peaks
    assert runner.known_peaks(spec_in(tmp_path)) == found.peaks
    assert len(KeptPeaks(tmp_path / "peaks").of(spec_in(tmp_path))) == 2


@pytest.mark.parametrize("damage", ["", "{", "[{}]", '[{"rates": {}, "stack": "a"}]', "[1e999]"])
async def test_a_damaged_file_is_measured_again(
    recorded: Path, tmp_path: Path, damage: str
) -> None:
    runner = profiled_by(Timed(), Watching(recorded), tmp_path)
    await runner.machine_peaks(spec_in(tmp_path))
    (kept,) = (tmp_path / "peaks").glob("machine-*")
    kept.write_text(damage)
    (tmp_path / "peaks" / "torch-0a1b.json").write_text('{"gemm_flops": {"f32": 1}}')
    assert await runner.machine_peaks(spec_in(tmp_path)) == PeaksFound(PEAKS)


async def test_a_primitive_raises_the_peak_of_its_own_profile(
    recorded: Path, tmp_path: Path
) -> None:
    result = await profile_by(Watching(recorded, steps=STEADY, speed=1e-4), tmp_path)
    told = summary_of(result)
    (note,) = told.notes
    assert note.startswith("primitive convolution FWD_D of run run-1, stack torch reached ")
    assert " in f32: the machine's peak of " in note
    assert note.endswith(" is raised to it")
    assert told.peaks
    assert told.peaks.roofs["f32"].source.startswith("primitive convolution FWD_D of run ")
    assert told.peaks.gemm_flops["f32"] > 1e7
    assert told.headroom_s is not None
    assert 0 <= told.headroom_s <= STEP_S
    runner = profiled_by(Timed(), Watching(recorded), tmp_path)
    assert runner.known_peaks(spec_in(tmp_path)) == told.peaks


async def test_a_disturbed_profile_raises_no_peak(recorded: Path, tmp_path: Path) -> None:
    workers = Watching(recorded, steps=STEADY, speed=1e-4, disturbed="replay")
    workers.validity = Validity.DISTURBED
    told = summary_of(await profile_by(workers, tmp_path))
    assert told.peaks
    assert told.peaks.gemm_flops["f32"] == pytest.approx(1e7)
    assert any("a VALID profile raises the peak" in note for note in told.notes)


@pytest.mark.parametrize("part", ["trace", "verbose", "replay"])
@pytest.mark.parametrize("validity", [Validity.INVALID, Validity.DISTURBED])
async def test_a_profile_is_no_better_than_its_runs(
    recorded: Path, tmp_path: Path, part: str, validity: Validity
) -> None:
    workers = Watching(recorded, steps=STEADY, disturbed=part, validity=validity)
    result = await profile_by(workers, tmp_path)
    told = summary_of(result)
    assert (told.validity, told.reasons) == (validity.value, (f"{part} run: {BUSY}",))
    assert (result.validity, result.reasons) == (validity, (f"profile: {part} run: {BUSY}",))
    assert summary_lines(told)[0] == f"{validity}: {part} run: {BUSY}"


@pytest.mark.parametrize(
    ("alone", "steps", "policy", "word", "shown"),
    [
        pytest.param(0.96, STEADY, "ci", "VALID", "efficiency 96% [95, 97]:", id="quiet"),
        pytest.param(
            0.52,
            RESTLESS,
            "ci",
            "VALID",
            "efficiency 52% [35, 69], not resolved: steps or replays differed too much:",
            id="52 % from noise",
        ),
        pytest.param(1.3, STEADY, "ci", "DISTURBED", "efficiency 130% [129, 131]:", id="130 %"),
        pytest.param(1.3, STEADY, "lab", "INVALID", "efficiency 130% [129, 131]:", id="enforced"),
        pytest.param(
            1.3,
            RESTLESS,
            "ci",
            "VALID",
            "efficiency 130% [87, 173], not resolved: steps or replays differed too much:",
            id="130 % that may be 100 %",
        ),
        pytest.param(
            1.3, (STEP_S,), "ci", "VALID", "efficiency 130% (interval not known):", id="one step"
        ),
    ],
)
async def test_an_efficiency_from_noise_has_an_interval_or_a_word(
    recorded: Path,
    tmp_path: Path,
    alone: float,
    steps: tuple[float, ...],
    policy: str,
    word: str,
    shown: str,
) -> None:
    workers = Watching(recorded, steps=steps, alone=(CONVOLUTION, alone * CONVOLUTION_S))
    result = await profile_by(workers, tmp_path, *steps, policy=policy)
    told = summary_of(result)
    assert told.efficiency == pytest.approx(alone)
    assert told.validity == word
    assert result.validity is Validity(word)
    (line,) = [line for line in summary_lines(told) if line.startswith("efficiency")]
    assert line.startswith(shown)
    if word != "VALID":
        (reason,) = told.reasons
        assert reason.startswith("the machine was not quiet: replays took 130% of the step's own")


def test_the_command_says_what_disturbed_a_measurement() -> None:
    said: list[str] = []
    assert peaks_in(PeaksFound(PEAKS, "it was loud"), said.append) == PEAKS
    assert said == ["the peaks are those known before, since it was loud"]
    with pytest.raises(Disturbed, match="cannot measure this host's peaks: it was loud"):
        peaks_in(PeaksFound(None, "it was loud"), said.append)


@pytest.mark.parametrize(
    ("flops", "sizes"),
    [(1e12, [1024, 1536, 2048]), (5e9, [1024, 1536]), (1.1e9, [1024]), (5.8e8, [])],
    ids=["fast", "slower", "slow", "emulated"],
)
def test_products_that_would_take_minutes_are_left_out(flops: float, sizes: list[int]) -> None:
    assert sizes_at(flops) == sizes


@pytest.mark.parametrize(
    ("caches", "memory", "size"),
    [
        pytest.param(0, 64 * GIB, 256 * MIB, id="unknown caches"),
        pytest.param(32 * MIB, 1 * GIB, 256 * MIB, id="a desktop"),
        pytest.param(64 * MIB, 256 * GIB, 256 * MIB, id="the largest that 256 MiB are for"),
        pytest.param(96 * MIB, 64 * GIB, 512 * MIB, id="a stacked cache"),
        pytest.param(2 * 1152 * MIB, 1024 * GIB, 16 * GIB, id="two sockets of stacked caches"),
        pytest.param(480 * MIB, 64 * GIB, 2 * GIB, id="a guest that sees its host's cache"),
        pytest.param(480 * MIB, 16 * GIB, 1 * GIB, id="too little memory"),
        pytest.param(480 * MIB, 1 * GIB, 256 * MIB, id="hardly any memory"),
    ],
)
def test_arrays_are_larger_than_caches_if_memory_allows(
    caches: int, memory: int, size: int
) -> None:
    assert array_bytes(caches, memory) == size


def test_a_rate_of_bytes_tells_the_size_of_its_arrays() -> None:
    for rate in (copy_bytes(4096), update_bytes(4096)):
        assert rate.array_bytes == rate.beyond == 4096
        assert 0 < rate.median <= rate.best
