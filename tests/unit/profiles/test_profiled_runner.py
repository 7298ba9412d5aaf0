"""A profiled job: timed first, watched in parts of its own, and what becomes of each outcome."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from agents.attempts.profiled import PeaksFound
from agents.attempts.reallocated import limit_s
from agents.host.disturbance import OWN_SPEED
from agents.profiling.windows import FEW_WINDOWS
from controller.contracts.counters import Counters, OtherMalloc
from controller.contracts.pair import Pair
from controller.contracts.result import Failure, Measurement, Outcome, Result, Validity
from controller.contracts.units import Unit
from controller.contracts.wire import Progress, WorkerSpec
from controller.profiles.files import KERNELS, METADATA, PRIMITIVES, read
from controller.reports.html.profile import profile_html
from controller.reports.profile_origin import identity_lines
from tests.support import builders
from tests.support.planted_step import STEP_S, planted
from tests.support.profiling_workers import (
    ALONE_S,
    COUNTED,
    DATE,
    PEAKS,
    Timed,
    Watching,
    profiled_by,
    spec_in,
    stepped,
)


async def test_a_job_is_timed_then_watched_and_keeps_its_own_time(
    profiled: Path, tmp_path: Path
) -> None:
    workers = Watching(profiled)
    result = await profiled_by(Timed(), workers, tmp_path).run(spec_in(tmp_path), lambda _: None)
    assert isinstance(result, Result)
    twice = ["trace", "verbose"] * 2  # the second round shows that watching makes the difference
    assert workers.parts == [*twice, "replay", "counters", "peaks"]
    assert result.metrics["step_time"].value == 0.25
    assert result.metrics["traced_step_time"].value == 0.5
    assert result.metrics["matched"].value == 1.0
    assert result.metrics["headroom"].value >= 0
    assert result.profile
    assert result.profile.peaks == PEAKS
    kept = read(Path(result.artefacts["profile"]))
    assert kept.summary == result.profile
    outside = [row for row in kept.kernels if row.place.kernel == "aten::addmm"]
    assert outside
    assert all(row.replay and row.replay.seconds == ALONE_S for row in outside)


async def test_another_malloc_of_the_watched_steps_is_noted(profiled: Path, tmp_path: Path) -> None:
    timed = builders.result().model_copy(update={"environment": {"malloc": "glibc 2.36"}})
    transport = profiled_by(Timed(timed), Watching(profiled), tmp_path)
    result = await transport.run(spec_in(tmp_path), lambda _: None)
    assert isinstance(result, Result)
    assert result.profile
    assert any("timed with glibc 2.36, and watched" in note for note in result.profile.notes)


GLIBC, JEMALLOC = "glibc 2.36", "libjemalloc.so.2"
RATIO = {
    name: Measurement(value=value, unit=Unit.RATIO)
    for name, value in (("ratio", 1.15), ("ratio_low", 1.12), ("ratio_high", 1.19))
}
PAIRS = (Pair(a=(0.115,), b=(0.1,), a_first=True),) * 12
IN_TURNS = builders.result().model_copy(
    update={"metrics": RATIO, "environment": {"b.malloc": JEMALLOC}, "pairs": PAIRS}
)
OTHER = OtherMalloc(malloc=JEMALLOC, times=1.15, low=1.12, high=1.19, pairs=12)


def with_deadline(spec: WorkerSpec, deadline_s: float) -> WorkerSpec:
    job = spec.job.model_copy(update={"deadline_s": deadline_s})
    return spec.model_copy(update={"job": job})


async def compared_in(
    tmp_path: Path, profiled: Path, malloc: str, watched: str, compared: Outcome
) -> tuple[Timed, Result]:
    """Profile a job with this knob, whose watched steps found another malloc, or the same."""
    own = JEMALLOC if malloc == "jemalloc" else GLIBC
    outcome = builders.result().model_copy(update={"environment": {"malloc": own}})
    timed, workers = Timed(outcome, compared), Watching(profiled, malloc=watched)
    spec = with_deadline(spec_in(tmp_path, malloc=malloc), 1800.0)
    result = await profiled_by(timed, workers, tmp_path).run(spec, lambda _: None)
    assert isinstance(result, Result), result
    return timed, result


@pytest.mark.parametrize(
    ("malloc", "watched", "told"),
    [
        ("glibc", JEMALLOC, OTHER),
        ("glibc", GLIBC, None),
        ("glibc-tuned", JEMALLOC, None),
        ("jemalloc", JEMALLOC, None),
    ],
    ids=["untuned", "no other is installed", "tuned", "another"],
)
async def test_untuned_glibc_is_compared_with_another_malloc(
    profiled: Path, tmp_path: Path, malloc: str, watched: str, told: OtherMalloc | None
) -> None:
    timed, result = await compared_in(tmp_path, profiled, malloc, watched, IN_TURNS)
    assert result.profile
    assert result.profile.counters
    assert result.profile.counters.other_malloc == told
    candidates = [spec.job.candidate for spec in timed.asked if spec.job.candidate]
    assert [one.knobs["malloc"] for one in candidates] == (["jemalloc"] if told else [])
    assert {one.metric for one in candidates} <= {"step_time"}
    assert read(Path(result.artefacts["profile"])).summary == result.profile


@pytest.mark.parametrize(
    ("step_s", "knobs", "deadline_s", "limit"),
    [
        (0.1, {}, 1800, 60.0),
        (2.0, {}, 1800, 142.0),
        (0.5, {"loader_workers": 2, "prefetch": 2}, 1800, 114.0),
        (4.8, {}, 1800, 298.8),
        (0.1, {}, 120, 60.0),
    ],
    ids=["short steps", "long steps", "loaded ahead", "the longest", "the shortest deadline"],
)
def test_a_comparison_with_another_malloc_has_time_for_an_interval(
    tmp_path: Path, step_s: float, knobs: dict[str, Any], deadline_s: float, limit: float
) -> None:
    """10 steady pairs make one."""
    spec = with_deadline(spec_in(tmp_path, **knobs), deadline_s)
    assert limit_s(spec, step_s) == pytest.approx(limit)


@pytest.mark.parametrize(("step_s", "deadline_s"), [(4.9, 1800), (0.1, 100), (2.0, 200)])
async def test_a_comparison_that_would_take_too_long_is_left_to_the_user(
    profiled: Path, tmp_path: Path, step_s: float, deadline_s: float
) -> None:
    timed = stepped(step_s).model_copy(update={"environment": {"malloc": GLIBC}})
    workers = Watching(profiled, malloc=JEMALLOC)
    spec = with_deadline(spec_in(tmp_path, malloc="glibc"), deadline_s)
    runner = profiled_by(Timed(timed, IN_TURNS), workers, tmp_path)
    result = await runner.run(spec, lambda _: None)
    assert isinstance(result, Result), result
    assert result.profile
    assert result.profile.counters
    assert result.profile.counters.other_malloc is None
    (note,) = (n for n in result.profile.notes if n.startswith("another malloc was not compared"))
    assert f"Run `benchfarm compare {spec.job.stack}:malloc=glibc" in note


@pytest.mark.parametrize(
    ("update", "told"),
    [
        (
            {"validity": Validity.DISTURBED, "reasons": ("side A: others were busy",)},
            OTHER.model_copy(update={"notes": ("side A: others were busy",)}),
        ),
        (
            {"metrics": {"ratio": RATIO["ratio"]}},
            OTHER.model_copy(update={"low": None, "high": None}),
        ),
    ],
    ids=["disturbed", "too few pairs"],
)
async def test_a_comparison_with_another_malloc_says_what_it_lacks(
    profiled: Path, tmp_path: Path, update: Mapping[str, object], told: OtherMalloc
) -> None:
    in_turns = IN_TURNS.model_copy(update=update)
    _, result = await compared_in(tmp_path, profiled, "glibc", JEMALLOC, in_turns)
    assert result.profile
    assert result.profile.counters
    assert result.profile.counters.other_malloc == told


async def test_a_profile_outlives_what_another_malloc_fails_by(
    profiled: Path, tmp_path: Path
) -> None:
    _, result = await compared_in(tmp_path, profiled, "glibc", JEMALLOC, builders.failure())
    assert result.profile
    assert result.profile.counters
    assert result.profile.counters.other_malloc is None
    assert [n for n in result.profile.notes if "another malloc was not compared: it ended" in n]


@pytest.mark.parametrize(
    "told", [{"high": 0.0}, {"high": 1e-320}, {"low": -1.0}, {"times": 0.0}, {"times": 1e300}]
)
def test_times_that_no_comparison_has_are_refused(told: dict[str, float]) -> None:
    """Advice divides by them."""
    (name,) = told
    with pytest.raises(ValidationError, match=name):
        OtherMalloc.model_validate({**OTHER.model_dump(), **told})


def test_what_was_counted_once_in_earlier_profiles_is_left_out() -> None:
    earlier = {"malloc": JEMALLOC, "seconds": 0.1, "speed": 1.25, "notes": []}
    told = {**COUNTED.model_dump(mode="json"), "other_malloc": earlier}
    assert Counters.model_validate(told) == COUNTED


@pytest.mark.parametrize(
    ("watched_s", "disturbed", "plain", "reasons"),
    [
        pytest.param(STEP_S, None, (), (), id="alike"),
        pytest.param(
            2 * STEP_S,
            None,
            (),
            (
                *(
                    f"a step took 0.6 s under {how}, and 0.3 s alone: more than 30% apart"
                    for how in ("torch.profiler", "oneDNN's verbose mode")
                ),
            ),
            id="apart",
        ),
        pytest.param(STEP_S, "verbose", (), ("verbose run: others were busy",), id="disturbed"),
        pytest.param(STEP_S, None, ("too busy",), ("plain run: too busy",), id="plain"),
    ],
)
async def test_a_profile_that_is_invalid_says_so_everywhere(
    tmp_path: Path,
    watched_s: float,
    disturbed: str | None,
    plain: tuple[str, ...],
    reasons: tuple[str, ...],
) -> None:
    recorded = planted(tmp_path / "planted").verbose.parent
    validity = Validity.INVALID if plain else Validity.VALID
    timed = builders.result(STEP_S).model_copy(update={"validity": validity, "reasons": plain})
    runner = profiled_by(
        Timed(timed), Watching(recorded, step_s=watched_s, disturbed=disturbed), tmp_path
    )
    result = await runner.run(spec_in(tmp_path), lambda _: None)
    assert isinstance(result, Result)
    assert result.profile
    assert result.profile.reasons == reasons
    assert result.profile.validity == ("INVALID" if reasons else "VALID")
    assert result.validity is (Validity.INVALID if reasons else Validity.VALID)
    added = tuple(f"profile: {reason}" for reason in reasons if not plain)
    assert result.reasons == (*plain, *added)
    folder = Path(result.artefacts["profile"])
    assert read(folder).summary == result.profile
    for table in (KERNELS, PRIMITIVES):
        told = json.loads(pq.read_schema(folder / table).metadata[METADATA])
        assert told["validity"] == result.profile.validity
        assert told["origin"]["workload"] == "resnet"
    page = profile_html(read(folder), "Profile")
    assert ("<li>INVALID: " in page) == bool(reasons)


@pytest.mark.parametrize(("gflops", "validity"), [(165.0, "VALID"), (150.0, "DISTURBED")])
async def test_runs_at_different_speeds_of_the_machine_are_named(
    tmp_path: Path, gflops: float, validity: str
) -> None:
    recorded = planted(tmp_path / "planted").verbose.parent
    timed = builders.result(STEP_S)
    environment = {**timed.environment, "matmul_gflops": 200.0}
    runner = profiled_by(
        Timed(timed.model_copy(update={"environment": environment})),
        Watching(recorded, step_s=STEP_S, gflops=gflops),
        tmp_path,
    )
    result = await runner.run(spec_in(tmp_path), lambda _: None)
    assert isinstance(result, Result)
    assert result.validity == validity
    said = f"{OWN_SPEED}: a matrix product ran at {gflops:g} to 200 GFLOP/s beside the timed and"
    assert (f"profile: {said}" in " ".join(result.reasons)) is (validity != "VALID")


async def test_a_machine_that_changed_speed_within_a_run_is_watched_again(
    profiled: Path, tmp_path: Path
) -> None:
    changed = {"validity": Validity.DISTURBED, "reasons": (f"{OWN_SPEED}: planted",)}
    for reasons, parts in ((changed, 4), ({**changed, "reasons": ("others were busy",)}, 2)):
        workers = Watching(profiled)
        timed = Timed(builders.result().model_copy(update=reasons))
        await profiled_by(timed, workers, tmp_path).run(spec_in(tmp_path), lambda _: None)
        assert len([part for part in workers.parts if part in ("trace", "verbose")]) == parts


@pytest.mark.parametrize(
    ("reasons", "most"),
    [
        pytest.param((), None, id="VALID"),
        pytest.param((f"{OWN_SPEED}: planted",), None, id="the machine's own speed"),
        pytest.param((f"{OWN_SPEED}: planted", "others were busy"), FEW_WINDOWS, id="others"),
    ],
)
async def test_what_cannot_be_valid_is_watched_less(
    profiled: Path, tmp_path: Path, reasons: tuple[str, ...], most: int | None
) -> None:
    told = {"validity": Validity.DISTURBED if reasons else Validity.VALID, "reasons": reasons}
    workers = Watching(profiled)
    timed = Timed(builders.result().model_copy(update=told))
    await profiled_by(timed, workers, tmp_path).run(spec_in(tmp_path), lambda _: None)
    asked = dict(zip(workers.parts, workers.asked, strict=True))
    assert (asked["trace"], asked["verbose"]) == (most, most)


@dataclass
class Changing(Watching):
    """Each part takes the next of its seconds; the last of them from then on."""

    seconds: dict[str, list[float]] = field(default_factory=dict)

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        told = self.seconds.get(str(spec.profile_pass), [STEP_S])
        self.step_s = told.pop(0) if len(told) > 1 else told[0]
        return await super().run(spec, on_progress)


@dataclass
class TimedAgain(Timed):
    """Each run takes the next of its seconds."""

    seconds: list[float] = field(default_factory=list)

    async def run(self, spec: WorkerSpec, on_progress: Callable[[Progress], None]) -> Outcome:
        self.outcome = stepped(self.seconds[len(self.asked)])
        return await super().run(spec, on_progress)


FAST, SLOW = STEP_S, 1.6 * STEP_S
ROUNDS = [
    pytest.param([FAST], [FAST], [FAST], 1, True, id="alike at once"),
    pytest.param([FAST, FAST], [SLOW, FAST], [FAST], 2, True, id="a neighbour in one run"),
    pytest.param([SLOW, FAST, FAST], [FAST], [FAST, SLOW, FAST], 3, True, id="in two runs"),
    pytest.param([SLOW, FAST] * 2, [FAST, SLOW] * 2, [FAST], 4, False, id="in every round"),
    pytest.param([FAST] * 2, [SLOW], [SLOW], 2, False, id="watching costs as much"),
]


@pytest.mark.parametrize(("plain", "traced", "verbose", "rounds", "valid"), ROUNDS)
async def test_what_only_the_machine_made_unlike_is_measured_again(
    tmp_path: Path,
    plain: list[float],
    traced: list[float],
    verbose: list[float],
    rounds: int,
    valid: bool,
) -> None:
    recorded = planted(tmp_path / "planted").verbose.parent
    timed = TimedAgain(seconds=plain)
    workers = Changing(recorded, seconds={"trace": [*traced], "verbose": [*verbose]})
    result = await profiled_by(timed, workers, tmp_path).run(spec_in(tmp_path), lambda _: None)
    assert isinstance(result, Result)
    assert result.profile
    assert (
        len(timed.asked) == workers.parts.count("trace") == workers.parts.count("verbose") == rounds
    )
    assert (result.validity is Validity.VALID) is valid
    assert bool(result.profile.reasons) is not valid
    assert result.metrics["step_time"].value == plain[rounds - 1], "the last time counts"
    told = f"the job was timed and watched {rounds} times"
    assert any(told in note for note in result.profile.notes) is (rounds > 1)


@pytest.mark.parametrize("part", ["trace", "verbose"])
async def test_what_was_seen_to_disturb_steps_is_not_measured_again(
    tmp_path: Path, part: str
) -> None:
    recorded = planted(tmp_path / "planted").verbose.parent
    workers = Watching(recorded, step_s=SLOW, disturbed=part)
    timed = Timed(stepped(FAST))
    result = await profiled_by(timed, workers, tmp_path).run(spec_in(tmp_path), lambda _: None)
    assert isinstance(result, Result)
    assert result.validity is Validity.INVALID
    assert len(timed.asked) == 1


async def test_a_profile_says_what_it_is_of(tmp_path: Path) -> None:
    recorded = planted(tmp_path / "planted").verbose.parent
    environment = {"malloc": "glibc 2.36", "threads": 2, "torch": "2.7.1", "onednn": "3.7.1"}
    timed = builders.result(STEP_S).model_copy(update={"environment": environment})
    runner = profiled_by(Timed(timed), Watching(recorded, step_s=STEP_S), tmp_path)
    spec = spec_in(tmp_path)
    device = spec.device.model_copy(update={"facts": {"cpu_model": "AMD EPYC"}})
    result = await runner.run(spec.model_copy(update={"device": device}), lambda _: None)
    assert isinstance(result, Result)
    assert result.profile
    origin = result.profile.origin
    assert origin
    assert (origin.workload, origin.stack) == (spec.job.workload, spec.job.stack)
    assert origin.knobs == spec.job.knobs
    lines = identity_lines(result.profile)
    assert lines[0] == (
        f"workload {spec.job.workload}, stack {spec.job.stack}, device {spec.job.device_id}, "
        "threads 2, cpu_model AMD EPYC, malloc glibc 2.36, torch 2.7.1, onednn 3.7.1, "
        "date 2026-11-21T09:23:20+00:00"
    )
    knobs = " ".join(f"{name}={value}" for name, value in spec.job.knobs.items())
    assert lines[1] == f"knobs: {knobs}"
    assert lines[2] == (
        f"peaks: f32 100 GFLOP/s (median then 90; stack torch, {DATE}); "
        f"copy 10.0 GB/s (median then 9.5; stack torch, {DATE}); "
        f"update 15.0 GB/s (median then 14.0; stack torch, {DATE})"
    )
    assert len(lines) == 3
    page = profile_html(read(Path(result.artefacts["profile"])), "Profile")
    for text in ("AMD EPYC", "glibc 2.36", "median then 90", spec.job.workload):
        assert text in page


async def test_peaks_are_measured_once_for_the_same_settings(
    profiled: Path, tmp_path: Path
) -> None:
    workers = Watching(profiled)
    transport = profiled_by(Timed(), workers, tmp_path)
    for _ in range(2):
        assert await transport.machine_peaks(spec_in(tmp_path)) == PeaksFound(PEAKS)
    assert workers.parts == ["peaks"]
    await transport.machine_peaks(spec_in(tmp_path), again=True)
    assert workers.parts == ["peaks"] * 2


@pytest.mark.parametrize("case", ["not asked for", "failed"])
async def test_what_is_not_to_be_profiled_is_passed_on(
    case: str, profiled: Path, tmp_path: Path
) -> None:
    failed = case == "failed"
    timed = Timed(builders.failure()) if failed else Timed()
    workers = Watching(profiled)
    spec = spec_in(tmp_path, profiled=failed)
    found = await profiled_by(timed, workers, tmp_path).run(spec, lambda _: None)
    assert found is timed.outcome
    assert workers.parts == []


@pytest.mark.parametrize("part", ["trace", "verbose", "replay", "peaks"])
async def test_a_part_that_fails_is_named(part: str, profiled: Path, tmp_path: Path) -> None:
    workers = Watching(profiled, failing=part)
    found = await profiled_by(Timed(), workers, tmp_path).run(spec_in(tmp_path), lambda _: None)
    assert isinstance(found, Failure)
    assert found.message == f"profiling, {part} run: it ended"
    assert found.blame is builders.failure().blame
    assert workers.parts[-1] == part


async def test_cleaning_is_the_timing_transports(profiled: Path, tmp_path: Path) -> None:
    assert await profiled_by(Timed(), Watching(profiled), tmp_path).clean() == 3
