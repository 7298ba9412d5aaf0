"""Which window of watched steps counts, how many there are, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.profiling.windows import MOST_WINDOWS, Window, most_even
from controller.contracts.result import Result
from tests.support import builders
from tests.support.planted_step import STEP_S, planted
from tests.support.profiling_workers import Timed, Watching, profiled_by, spec_in

EVEN, WORSE, WORST = (1.0, 1.05), (1.0, 1.3), (1.0, 7.0)


def windows_of(*told: tuple[tuple[float, ...], bool]) -> list[Window[int]]:
    return [Window(seconds, disturbed, n) for n, (seconds, disturbed) in enumerate(told)]


@pytest.mark.parametrize(
    ("windows", "kept"),
    [
        pytest.param(windows_of((EVEN, False)), [0], id="even at once"),
        pytest.param(windows_of((WORST, False), (EVEN, False)), [0, 1], id="even at last"),
        pytest.param(
            windows_of(*[(of, False) for of in (WORST, WORSE, WORST, WORST, WORST)]),
            [0, 1],
            id="the best",
        ),
        pytest.param(windows_of(*[(WORSE, False)] * MOST_WINDOWS), [0], id="all alike"),
        pytest.param(windows_of((EVEN, True), (EVEN, False)), [0, 1], id="others were busy"),
        pytest.param(
            windows_of((EVEN, True), *[(WORSE, False)] * (MOST_WINDOWS - 1)),
            [0, 1],
            id="a disturbed one is worse",
        ),
    ],
)
def test_the_most_even_window_counts(windows: list[Window[int]], kept: list[int]) -> None:
    watched: list[Window[int]] = []
    files: list[int] = []

    def watch() -> Window[int]:
        watched.append(windows[len(watched)])
        return watched[-1]

    best, count = most_even(watch, lambda: files.append(watched[-1].kept))
    assert (best, count, watched) == (windows[kept[-1]], len(windows), windows)
    assert files == kept


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_windows_than_asked_for(most: int) -> None:
    windows = windows_of(*[(WORSE, True)] * MOST_WINDOWS)
    watched = iter(windows)
    _, count = most_even(lambda: next(watched), lambda: None, most)
    assert (count, next(watched)) == (most, windows[most])


@pytest.mark.parametrize("windows", [1, 3])
async def test_more_than_one_window_is_noted(tmp_path: Path, windows: int) -> None:
    recorded = planted(tmp_path / "planted").verbose.parent
    workers = Watching(recorded, step_s=STEP_S, windows=windows)
    runner = profiled_by(Timed(builders.result(STEP_S)), workers, tmp_path)
    result = await runner.run(spec_in(tmp_path), lambda _: None)
    assert isinstance(result, Result)
    assert result.profile
    told = [note for note in result.profile.notes if "windows" in note]
    assert told == [
        f"the {name} run watched 3 windows of steps, since times were uneven; the most even counts"
        for name in ("trace", "verbose")
        if windows > 1
    ]
