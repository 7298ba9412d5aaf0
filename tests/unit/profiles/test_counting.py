"""What is counted in each phase of a step, and what a page and the tables say of it."""

from __future__ import annotations

import json
import mmap
from contextlib import suppress
from pathlib import Path

import pytest

from agents.backends.torch_eager.backend import TorchEager
from agents.profiling.counting import count
from agents.profiling.perf_stat import Perf, probe
from agents.profiling.software_counters import SoftwareCounters
from controller.contracts.counters import Counters
from controller.contracts.profile import ProfileSummary
from controller.contracts.topdown import TopDown
from controller.profiles.files import read
from controller.reports.counter_lines import counts_rows, why_no_topdown
from controller.reports.html.profile import profile_html
from controller.reports.profile_tables import summary_lines
from tests.support.fake_perf import SAPPHIRE_RAPIDS, fake_perf
from tests.support.profiled_model import KNOBS, Workload
from tests.support.profiling_workers import COUNTED, Timed, Watching, profiled_by, spec_in

STEPS = 2
PAGES = (64 << 20) // mmap.PAGESIZE
LEVEL_2 = "--topdown --td-level=2 --no-metric-only"
STEP = ["load", "forward", "loss", "backward", "optimizer", ""]


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set what a worker is launched with, which its environment tells."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")


def untouched(size: int) -> mmap.mmap:
    """Return memory of the kernel, so that no allocator had it before, in small pages."""
    memory = mmap.mmap(-1, size)
    with suppress(OSError):  # a kernel without large pages
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return memory


def counted(folder: Path, perf: Perf | str, brief_s: float = 0.0) -> Counters:
    given = (Workload(), TorchEager(KNOBS), KNOBS, folder, lambda _: None, lambda: perf)
    result = count(*given, brief_s=brief_s)
    return Counters.model_validate_json(Path(result.artefacts["counters"]).read_text())


def test_every_phase_is_counted_and_they_come_to_the_step(tmp_path: Path) -> None:
    found = counted(tmp_path, "perf is not installed")
    assert [told.phase for told in found.phases] == STEP
    assert all(told.seconds > 0 for told in found.phases)
    assert found.steps == STEPS
    assert found.no_topdown == "perf is not installed"
    assert found.whole is None


def test_the_machine_s_own_speed_is_known_beside_what_is_counted(tmp_path: Path) -> None:
    """By which the counted steps are judged, as all steps are."""
    given = (Workload(), TorchEager(KNOBS), KNOBS, tmp_path, lambda _: None, lambda: "no perf")
    speed = count(*given).environment["matmul_gflops"]
    assert isinstance(speed, float)
    assert speed > 0


def test_with_counters_each_phase_has_shares_and_so_has_the_step(tmp_path: Path) -> None:
    log = fake_perf(tmp_path, {LEVEL_2: (SAPPHIRE_RAPIDS, "", 0)})
    perf = probe(str(tmp_path))
    assert isinstance(perf, Perf)
    found = counted(tmp_path, perf)
    assert isinstance(found.whole, TopDown)
    assert [told.phase for told in found.phases if told.topdown] == STEP[:-1]
    orders = {name: rest for name, *rest in map(json.loads, log.read_text().splitlines())}
    assert orders["topdown-step"] == ["enable", "disable"] * STEPS, "not while a batch is made"
    assert orders["topdown-backward"] == ["enable", "disable"] * STEPS


def test_a_perf_that_ends_leaves_the_kernel_s_counts(tmp_path: Path) -> None:
    fake_perf(tmp_path, {}, ("", "cannot attach\n", 255))
    found = counted(tmp_path, Perf(str(tmp_path / "perf"), ("--topdown",)))
    assert [told.phase for told in found.phases] == STEP
    assert "perf stat --topdown failed" in str(found.no_topdown)


def perf_that(folder: Path, does: str) -> Perf:
    """Return a perf that counts a Sapphire Rapids, once it has done something in sh."""
    counts, nothing = (SAPPHIRE_RAPIDS, "", 0), ("<not counted>,,slots,0,100.00,,\n", "", 0)
    fake_perf(folder, {"--topdown": counts, "--nothing": nothing})
    (folder / "perf").rename(folder / "counts")
    program = folder / "perf"
    program.write_text(f'#!/bin/sh\n{does}\nexec "{folder}/counts" "$@"\n')
    program.chmod(0o755)
    return Perf(str(program), ("--topdown",))


def counts_nothing_in(folder: Path, name: str) -> str:
    nothing = f'shift 3; exec "{folder}/counts" stat -x, --nothing "$@"'
    return f'case "$*" in *topdown-{name}.csv*) {nothing};; esac'


WHY_NOTHING = "it has no top-down metric, and no counts of both slots and topdown-*"


def test_phases_that_fail_leave_the_whole_step_s_shares(tmp_path: Path) -> None:
    found = counted(tmp_path, perf_that(tmp_path, f'rm "{tmp_path}/perf"'))
    assert isinstance(found.whole, TopDown)
    assert not any(told.topdown for told in found.phases)
    why = "perf stat --topdown failed in load, forward, loss, backward, optimizer: No such file"
    assert str(found.no_topdown).startswith(why)
    (line,) = (line for line in lines_of(found) if "not of each phase" in line)
    assert line == f"top-down: not of each phase: {found.no_topdown}"


def test_a_whole_step_that_is_not_counted_leaves_the_phases(tmp_path: Path) -> None:
    found = counted(tmp_path, perf_that(tmp_path, counts_nothing_in(tmp_path, "step")))
    assert found.whole is None
    assert [told.phase for told in found.phases if told.topdown] == STEP[:-1]
    why = f"perf stat --topdown counted nothing in the whole step: {WHY_NOTHING}"
    assert found.no_topdown == why
    assert f"top-down: none of the whole step: {why}" in lines_of(found)
    summary = ProfileSummary(steps=1, counters=found)
    assert why_no_topdown(summary).startswith(f"None of the whole step: {why}. Measure")


def test_a_phase_in_which_nothing_is_counted_is_told(tmp_path: Path) -> None:
    found = counted(tmp_path, perf_that(tmp_path, counts_nothing_in(tmp_path, "loss")))
    assert isinstance(found.whole, TopDown)
    assert [told.phase for told in found.phases if told.topdown] == [
        *("load", "forward", "backward", "optimizer")
    ]
    assert found.no_topdown == f"perf stat --topdown counted nothing in loss: {WHY_NOTHING}"
    assert f"top-down: not of each phase: {found.no_topdown}" in lines_of(found)


def lines_of(found: Counters) -> list[str]:
    return summary_lines(ProfileSummary(steps=1, counters=found, topdown=found.whole))


def test_shares_of_a_file_stand_in_for_those_that_were_not_counted() -> None:
    shares = dict.fromkeys(("retiring", "bad_speculation", "frontend_bound", "backend_bound"), 0.25)
    added = TopDown(source="PerfSpect, counted.csv", shares=shares)
    lines = summary_lines(ProfileSummary(steps=1, counters=COUNTED, topdown=added))
    assert not any(str(COUNTED.no_topdown) in line for line in lines)


def test_phases_of_an_earlier_release_are_no_reason_for_none() -> None:
    """It told none where phases were counted."""
    shares = dict.fromkeys(("retiring", "bad_speculation", "frontend_bound", "backend_bound"), 0.25)
    phase = COUNTED.phases[0].model_copy(update={"topdown": TopDown(source="perf", shares=shares)})
    found = Counters(steps=1, phases=(phase,))
    summary = ProfileSummary(steps=1, counters=found)
    assert why_no_topdown(summary).startswith("None of the whole step: perf counted nothing")
    assert "top-down: none of the whole step: perf counted nothing" in summary_lines(summary)


def test_page_faults_are_counted_in_their_phase_only() -> None:
    kernel = SoftwareCounters()
    kernel.start()
    kernel.enter("forward")
    fresh = untouched(PAGES * mmap.PAGESIZE)
    fresh[:: mmap.PAGESIZE] = bytes(PAGES)
    kernel.enter("loss")
    kernel.stop()
    forward, loss = (told for told in kernel.per_step(1) if told.phase)
    assert PAGES * 0.9 < forward.minor_faults < PAGES * 2
    assert loss.minor_faults < 100
    assert forward.system_s + forward.user_s > 0


@pytest.mark.parametrize(
    ("told", "expected"),
    [("se.nr_migrations  :   3\n", 0.0), ("se.vruntime : 1.5\n", None), (None, None)],
    ids=["told", "not told", "no file"],
)
def test_migrations_are_the_kernel_s_or_not_known(
    tmp_path: Path, told: str | None, expected: float | None
) -> None:
    if told:
        (tmp_path / "17").mkdir()
        (tmp_path / "17" / "sched").write_text(told)
    kernel = SoftwareCounters(tmp_path)
    kernel.start()
    kernel.enter("forward")
    kernel.stop()
    assert {found.migrations for found in kernel.per_step(1)} == {expected}


def test_a_thread_that_moves_is_counted_where_it_did(tmp_path: Path) -> None:
    file = tmp_path / "17" / "sched"
    file.parent.mkdir()
    file.write_text("se.nr_migrations : 3\n")
    kernel = SoftwareCounters(tmp_path)
    kernel.start()
    kernel.enter("forward")
    file.write_text("se.nr_migrations : 7\n")
    kernel.enter("loss")
    kernel.stop()
    assert {f.phase: f.migrations for f in kernel.per_step(2)} == {"forward": 2, "loss": 0, "": 0}


async def test_a_profile_keeps_and_shows_what_was_counted(profiled: Path, tmp_path: Path) -> None:
    workers = Watching(profiled)
    await profiled_by(Timed(), workers, tmp_path).run(spec_in(tmp_path), lambda _: None)
    kept = read(tmp_path / "profile")
    assert workers.parts.count("counters") == 1
    assert kept.summary.counters == COUNTED
    assert f"top-down: none: {COUNTED.no_topdown}" in summary_lines(kept.summary)
    page = profile_html(kept, "it")
    section = page.split('id="topdown"')[1].split("</section>")[0]
    assert f"None: {COUNTED.no_topdown}. Measure on the machine itself" in section
    counts = page.split('id="counts"')[1].split("</section>")[0]
    (row,) = counts_rows(COUNTED)
    assert row == ("forward", "125 ms", "1,500", "0", "12", "3", "1", "250 ms", "31.25 ms")
    assert f">{row[0]}</th>" in counts
    for text in row[1:]:
        assert f">{text}</td>" in counts


def test_nothing_in_a_brief_phase_is_not_told(tmp_path: Path) -> None:
    """perf takes turns where events are more than counters: a batch in memory may have none."""
    perf = perf_that(tmp_path, counts_nothing_in(tmp_path, "loss"))
    found = counted(tmp_path, perf, brief_s=3600.0)
    assert "loss" not in [told.phase for told in found.phases if told.topdown]
    assert found.no_topdown is None
