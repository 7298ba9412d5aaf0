"""A user's power meter, as a real child process whose lines come at moments of a virtual clock."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import psutil
import pytest

from agents.energy.account import Used
from agents.energy.meter import NO_METER, Meter
from agents.energy.meter_log import MAX_LINE_BYTES, MOST_LINES_A_SECOND, MeterLog, Moment, of_meter
from agents.energy.trace import EnergyUnknownError
from controller.contracts.device import Device
from tests.support import builders, fake_meter
from tests.support.power_loads import BEGIN_S, BURSTS, CONSTANT, LOADS, REST, RUN, Load
from tests.support.processes import is_dead
from tests.support.waiting import eventually, until

UNIX_S = 1_700_000_000.0
PERIOD_S = 0.13
MOMENTS = tuple(round(float(at), 3) for at in np.arange(BEGIN_S + 0.07, RUN.ended_s + 4, PERIOD_S))
Lines = Callable[[Load], Sequence[str]]


def clock(moments: Sequence[float], late_s: float = 0.0) -> Callable[[], Moment]:
    """Return a clock that stands at the start of a meter, then at each line's arrival."""
    given: Iterator[float] = iter((moments[0] - 1, *moments))
    return lambda: Moment(UNIX_S + (at := next(given)) + late_s, at + late_s)


def with_times(load: Load) -> list[str]:
    return [f"{UNIX_S + at:.3f} {load.watts(at):.6f}" for at in MOMENTS]


def at_reception(load: Load) -> list[str]:
    return [f"- {load.watts(at):.6f}" for at in MOMENTS]


def noisy(load: Load) -> list[str]:
    noise = np.random.default_rng(5).normal(1, 0.03, len(MOMENTS))
    return [f"- {load.watts(at) * n:.4f}" for at, n in zip(MOMENTS, noise, strict=True)]


async def heard(
    folder: Path, lines: Sequence[str], now: Callable[[], Moment], end: str = "wait"
) -> MeterLog:
    """Return what is kept of a meter that prints these lines."""
    told = folder / "lines"
    told.write_text("".join(f"{line}\n" for line in lines))
    meter = Meter((sys.executable, fake_meter.__file__, str(told), end), "owner", now=now)
    async with meter.running("cpu-1", f"{folder}/1") as log:
        assert log is not None
        ended = end != "wait"
        await until(
            lambda: log.trouble or (len(log.at_s) == len(lines) and not ended), "all are read"
        )
    return log


def used(log: MeterLog) -> Used:
    return of_meter(log, RUN, 0.0)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("lines", [with_times, at_reception, noisy])
async def test_energy_is_the_exact_integral_within_one_percent(
    lines: Lines, load: str, tmp_path: Path
) -> None:
    found = used(await heard(tmp_path, lines(LOADS[load]), clock(MOMENTS)))
    exact = LOADS[load].over(RUN)
    assert found.source == "meter"
    assert found.joules.value == pytest.approx(exact, rel=0.01)
    assert abs(found.joules.value - exact) <= found.joules.uncertainty


async def test_own_times_count_with_what_the_clocks_differ_as_uncertainty(tmp_path: Path) -> None:
    """A meter whose clock is 0.6 s behind tells of other moments than it says."""
    log = await heard(tmp_path, with_times(CONSTANT), clock(MOMENTS, late_s=0.6))
    assert log.most_age_s == pytest.approx(0.6, abs=1e-5)
    found = of_meter(log, RUN, 0.0)
    assert found.joules.uncertainty >= 0.6 * 4.0  # of power, it goes from 2 to 6 W
    assert abs(found.joules.value - CONSTANT.over(RUN)) <= found.joules.uncertainty
    assert of_meter(log, REST, 0.1).joules.uncertainty >= 0.7 * 4.0


def changed(at: int, *lines: str) -> list[str]:
    told = with_times(CONSTANT)
    return [*told[:at], *lines, *told[at + len(lines) :]]


LONG = f"{'1' * (MAX_LINE_BYTES * 3)} 1"
BROKEN: Mapping[str, tuple[list[str], str]] = {
    "a word for watts": (changed(90, "- much"), r"'- much' is not a line of seconds and watts"),
    "no time": (changed(90, "5.0"), "'5.0' is not a line"),
    "one more word": (changed(90, "- 5.0 W"), "'- 5.0 W' is not a line"),
    "an empty line": (changed(90, ""), "'' is not a line"),
    "no number": (changed(90, "- nan"), "'- nan' is not a line"),
    "below nothing": (changed(90, "- -5"), "'- -5' is not a line"),
    "more than there is": (changed(90, "- 1e300"), r"it told of 1e\+300 W"),
    "digits of another script": (changed(90, "- \u0665"), "is not a line"),
    "what a terminal would obey": (changed(90, "- \x1b[2J"), r"'- \\x1b\[2J' is not a line"),
    "a line without end": (changed(90, LONG), "a line of more than 256 bytes"),
    "times that run backwards": (
        changed(90, f"{UNIX_S + MOMENTS[88]:.3f} 6.0"),
        "its times do not rise",
    ),
    "the same time twice": (changed(90, with_times(CONSTANT)[89]), "its times do not rise"),
    "a clock that is behind": (
        changed(90, f"{UNIX_S + MOMENTS[90] - 1.5:.3f} 6.0"),
        "a line came 1.5 s late by this host's clock",
    ),
    "a clock that is ahead": (
        changed(90, f"{UNIX_S + MOMENTS[90] + 3600:.3f} 6.0"),
        "a line came 3600.0 s early by this host's clock",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_wrong_with_a_meter_makes_energy_unknown(name: str, tmp_path: Path) -> None:
    lines, why = BROKEN[name]
    log = await heard(tmp_path, lines, clock(MOMENTS))
    assert len(log.at_s) == 90, "what comes after it is not kept"
    with pytest.raises(EnergyUnknownError, match=f"^meter: .*{why}"):
        used(log)


async def test_a_meter_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    log = await heard(tmp_path, with_times(CONSTANT)[:300], clock(MOMENTS), "3")
    with pytest.raises(EnergyUnknownError, match="meter: it ended, exit status 3: no longer conn"):
        used(log)


async def test_half_a_line_of_one_that_dies_is_no_figure(tmp_path: Path) -> None:
    script = f"printf -- '{UNIX_S + MOMENTS[0]:.3f} 5.5\\n{UNIX_S + MOMENTS[1]:.3f} 1'"
    async with Meter(("sh", "-c", script), "owner", now=clock(MOMENTS)).running("d", "1") as log:
        assert log is not None
        await until(lambda: log.trouble, "it has ended")
    assert (list(log.watts), log.trouble) == ([5.5], "it ended, exit status 0")


@pytest.mark.parametrize("lines", [with_times, at_reception])
async def test_a_meter_that_held_its_tongue_for_most_of_it_is_unsure(
    lines: Lines, tmp_path: Path
) -> None:
    kept = [n for n, at in enumerate(MOMENTS) if not 10 < at < 75]
    told = [line for n, line in enumerate(lines(CONSTANT)) if n in kept]
    log = await heard(tmp_path, told, clock([MOMENTS[n] for n in kept]))
    with pytest.raises(EnergyUnknownError, match=r"meter: its readings tell it to ±\d+% only"):
        used(log)


async def test_lines_that_a_pipe_holds_back_are_not_believed(tmp_path: Path) -> None:
    """All come at once at the end: with own times they are late, without they tell of nothing."""
    burst = [MOMENTS[-1] + n * 1e-5 for n in range(50)]
    log = await heard(tmp_path, at_reception(BURSTS)[400:450], clock(burst))
    with pytest.raises(EnergyUnknownError, match="0 readings"):
        used(log)
    late = await heard(tmp_path, with_times(CONSTANT)[:50], clock(burst))
    with pytest.raises(EnergyUnknownError, match="late by this host's clock"):
        used(late)


async def test_a_reading_that_never_moves_is_not_believed(tmp_path: Path) -> None:
    log = await heard(tmp_path, ["- 6.0"] * len(MOMENTS), clock(MOMENTS))
    with pytest.raises(EnergyUnknownError, match="its reading stood at 6 W all the time"):
        used(log)


async def test_a_meter_that_says_too_much_is_not_listened_to(tmp_path: Path) -> None:
    crowded = [at / 1000 for at in range(1000)]
    log = await heard(tmp_path, ["- 5.0"] * 1000, clock(crowded))
    assert len(log.at_s) < 4 * MOST_LINES_A_SECOND
    with pytest.raises(EnergyUnknownError, match="more than 100 lines a second"):
        used(log)


async def test_one_that_cannot_be_started_or_says_nothing_holds_up_no_run() -> None:
    async with Meter(("/nowhere/meter",), "owner").running("cpu-1", "1") as log:
        assert log is not None
        assert log.trouble == "/nowhere/meter: No such file or directory"
    async with Meter(("sleep", "1000"), "owner", first_line_s=0.1).running("cpu-1", "1") as silent:
        assert silent is not None
        assert silent.trouble == "it told nothing in 0.1 s"


async def test_a_device_without_a_meter_is_said_by_a_status_of_its_own() -> None:
    async with Meter(("sh", "-c", f"exit {NO_METER}"), "owner").running("P1", "1") as log:
        assert log is None


async def test_it_is_told_the_device_without_a_shell_and_with_few_of_the_callers_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    said = tmp_path / "said"
    code = f"import os, sys; open({str(said)!r}, 'w').write('|'.join((*sys.argv[1:],"
    code += "os.environ['BENCHFARM_DEVICE'], str('AWS_SECRET_ACCESS_KEY' in os.environ))))"
    command = (sys.executable, "-c", code, "-d={device}", "$HOME *")
    async with Meter(command, "owner").running("A;$(B)", "1"):
        assert said.read_text() == "-d=A;$(B)|$HOME *|A;$(B)|False"


@pytest.mark.parametrize("cancelled", [False, True])
async def test_all_it_has_started_is_killed_after_the_run(tmp_path: Path, cancelled: bool) -> None:
    pids = tmp_path / "pids"
    # One in its group, one that has left it.
    script = f"sleep 1000 & a=$!; setsid sleep 1001 & echo $a $! $$ >{pids}; echo - 5.0; wait"
    meter, begun = Meter(("sh", "-c", script), "owner"), asyncio.Event()

    async def run() -> None:
        async with meter.running("cpu-1", str(tmp_path)):
            begun.set()
            if cancelled:
                await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await begun.wait()
    if cancelled:
        task.cancel()
    await asyncio.wait({task})
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) == 3
    eventually(lambda: not any(map(is_alive, started)), "all have been killed")


def is_alive(pid: int) -> bool:
    try:
        return not is_dead(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize(
    ("command", "device", "measures"),
    [
        (("meter",), builders.cpu(), True),
        (("meter",), builders.phone(), False),
        (("meter", "-d={device}"), builders.phone(), True),
        (("meter", "-d={device}"), builders.cpu(), True),
    ],
)
def test_a_meter_that_is_not_told_the_device_is_its_hosts(
    command: tuple[str, ...], device: Device, measures: bool
) -> None:
    """Else a server's power would stand as a phone's."""
    assert Meter(command, "owner").measures(device) is measures
