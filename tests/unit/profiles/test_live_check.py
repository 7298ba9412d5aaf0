"""A log's projection beside a live profile: what is compared, what is refused, what is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from controller.cli import profile_project
from controller.cli.main import app
from controller.contracts.errors import UserError
from controller.contracts.profile import ProfileOrigin
from controller.contracts.projection_check import Agreement, ProjectionCheck
from controller.contracts.replay import REPLAY_LOG, LogReplayed, LogReplays, Replayed
from controller.profiles.files import write
from controller.profiles.importing import import_file
from controller.profiles.live_check import Named, checked, require_live, require_same
from controller.profiles.log_replays import planned_replays
from controller.profiles.marks import REPLAY
from controller.profiles.model import PrimitiveRow, Profile, Projection
from tests.unit.profiles.test_log_replays import CONVOLUTION, MATMUL

BACKWARD = CONVOLUTION.replace("forward_training", "backward_data")
TIMES: Mapping[str, float] = {CONVOLUTION: 4.0, BACKWARD: 5.0, MATMUL: 1.0}
"""Body → milliseconds of a call."""
ISA = "Intel AVX-512 with Intel DL Boost and bfloat16 support"
HEADER = (
    "onednn_verbose,v1,info,oneDNN v3.12.0 (commit 0)\n"
    "onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:2\n"
    f"onednn_verbose,v1,info,cpu,isa:{ISA}\n"
)
STEPS = 4


def log_text(times: Mapping[str, float] = TIMES, header: str = HEADER) -> str:
    lines = [f"onednn_verbose,v1,primitive,exec,{body},{ms}\n" for body, ms in times.items()]
    return header + "".join(lines * STEPS)


LOG_TEXT = log_text()


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., Path]:
    """Write a log; returns its path."""

    def written(text: str = LOG_TEXT) -> Path:
        (tmp_path / "it.log").write_text(text)
        return tmp_path / "it.log"

    return written


def replayed(profile: Profile, share: float, width: float = 0.02, **told: Any) -> Profile:  # noqa: ANN401 - fields of a summary
    """Return a profile whose every call took a share of its time when replayed."""
    rows = [
        replace(
            row,
            replay=Projection(
                seconds=(alone := share * row.seconds / row.calls),
                low=alone * (1 - width),
                high=alone * (1 + width),
                runs=11,
            ),
        )
        for row in profile.primitives
    ]
    bounds = {"efficiency_low": share * (1 - width), "efficiency_high": share * (1 + width)}
    update = {"efficiency": share, **bounds, **told}
    summary = profile.summary.model_copy(update=update)
    return replace(profile, summary=summary, primitives=tuple(rows))


def measured(file: Path, share: float = 0.9, **told: Any) -> Profile:  # noqa: ANN401 - as above
    """Return what a profile of the steps that wrote a log came to."""
    origin = ProfileOrigin(workload="net", stack="torch", threads=2)
    return replayed(import_file(file), share, **{"origin": origin, **told})


def named(profile: Profile, name: str = "DIR") -> Named:
    return Named(name, profile)


def compared(here: Named, live: Named) -> ProjectionCheck:
    """Compare with a live profile that takes the same time again as in its own run."""
    summary = live.profile.summary.model_copy(update={"notes": ()})
    return checked(here, live, replace(live.profile, summary=summary))


def refusal(here: Profile, live: Profile) -> str:
    with pytest.raises(UserError) as error:
        require_same(named(here, "LOG"), named(live))
    assert str(error.value).startswith("cannot compare LOG with profile DIR: ")
    return str(error.value)


@pytest.mark.parametrize(
    ("share", "width", "agreement"),
    [
        (0.9, 0.02, Agreement.WITHIN),
        (0.85, 0.02, Agreement.WITHIN),
        (0.9, 0.1, Agreement.NOT_RESOLVED),
        (0.78, 0.06, Agreement.NOT_RESOLVED),
        (0.7, 0.02, Agreement.BEYOND),
        (1.2, 0.02, Agreement.BEYOND),
    ],
)
def test_efficiencies_agree_by_their_interval(
    log: Callable[..., Path], share: float, width: float, agreement: Agreement
) -> None:
    file = log()
    here = replayed(import_file(file), share, width)
    found = compared(named(here, "LOG"), named(measured(file)))
    assert found.agreement is agreement
    assert found.whole.ratio == pytest.approx(share / 0.9)
    assert found.whole.low == pytest.approx(share * (1 - width) / (0.9 * 1.02))
    assert found.whole.high == pytest.approx(share * (1 + width) / (0.9 * 0.98))
    assert [found.whole.share, found.live_share] == pytest.approx([1.0, 1.0])
    kinds = [(kind.primitive, kind.direction) for kind in found.kinds]
    assert kinds == [("convolution", "BWD_D"), ("convolution", "FWD_D"), ("matmul", "")]
    assert [kind.share for kind in found.kinds] == pytest.approx([0.5, 0.4, 0.1])
    assert found.notes == ()


def test_a_log_of_inference_is_compared_with_the_same_work_in_training(
    log: Callable[..., Path],
) -> None:
    inferred = CONVOLUTION.replace("forward_training", "forward_inference")
    file = log(log_text({inferred: 4.0, BACKWARD: 5.0, MATMUL: 1.0}))
    here = named(replayed(import_file(file), 0.9), "LOG")
    live = named(measured(log()))
    require_same(here, live)
    found = compared(here, live)
    assert [(kind.primitive, kind.direction) for kind in found.kinds][:2] == [
        ("convolution", "BWD_D"),
        ("convolution", "FWD_I"),
    ]
    assert [kind.ratio for kind in found.kinds] == pytest.approx([1.0, 1.0, 1.0])


def test_steps_that_vary_widen_the_whole(log: Callable[..., Path]) -> None:
    file = log()
    here = named(replayed(import_file(file), 0.9), "LOG")
    found = compared(here, named(measured(file, efficiency_low=0.5, efficiency_high=1.5)))
    assert found.agreement is Agreement.NOT_RESOLVED
    assert found.whole.high == pytest.approx(0.9 * 1.02 / 0.5)
    assert found.kinds[0].high == pytest.approx(1.02 / 0.98)
    unknown = compared(here, named(measured(file, efficiency_low=None, efficiency_high=None)))
    assert unknown.agreement is Agreement.WITHIN
    assert unknown.notes == ("nothing tells how DIR's steps vary: the interval leaves them out",)


def test_a_profile_s_times_are_compared_as_they_were_watched(log: Callable[..., Path]) -> None:
    """It scales them to its plain step."""
    file = log()
    live = measured(file)
    rows = [replace(row, seconds=row.seconds * 0.8) for row in live.primitives]
    summary = live.summary.model_copy(update={"scale": 0.8, "efficiency": 1.125})
    found = compared(
        named(replayed(import_file(file), 0.9)),
        named(replace(live, primitives=tuple(rows), summary=summary)),
    )
    assert found.whole.ratio == pytest.approx(1.0)
    assert found.shown_efficiency == 1.125


def test_of_primitives_that_were_cut_off_as_much_of_their_replays_is_compared(
    log: Callable[..., Path],
) -> None:
    file = log()
    live = measured(file)
    rows = [replace(row, seconds=row.seconds * 0.25, kept=0.25) for row in live.primitives]
    found = compared(
        named(replayed(import_file(file), 0.9)), named(replace(live, primitives=tuple(rows)))
    )
    assert found.whole.ratio == pytest.approx(1.0)


def test_a_slow_watched_step_is_in_neither(log: Callable[..., Path]) -> None:
    """The log's times are of its median step, and so are the profile's, whose mean is more."""
    file = log()
    live = measured(file, step_s=0.8, verbose_step_s=1.0, scale=0.6)
    rows = tuple(replace(row, seconds=row.seconds * 0.8) for row in live.primitives)
    here = named(replayed(import_file(file), 0.9))
    assert compared(here, named(replace(live, primitives=rows))).whole.ratio == pytest.approx(1.0)


def test_a_step_that_is_slow_in_primitives_alone_is_in_neither(log: Callable[..., Path]) -> None:
    """In a small model they are a fifth of a step: its median tells nothing of them."""
    file = log()
    live = measured(file, step_s=1.0, verbose_step_s=1.0, scale=0.96, onednn_median=0.8)
    rows = tuple(replace(row, seconds=row.seconds * 0.96 / 0.8) for row in live.primitives)
    here = named(replayed(import_file(file), 0.9))
    assert compared(here, named(replace(live, primitives=rows))).whole.ratio == pytest.approx(1.0)


def test_only_what_was_replayed_for_both_is_compared(log: Callable[..., Path]) -> None:
    file = log()
    here, live = replayed(import_file(file), 0.9), measured(file)
    without = [replace(r, replay=None) if r.primitive == "matmul" else r for r in live.primitives]
    found = compared(named(here), named(replace(live, primitives=tuple(without))))
    assert [found.whole.share, found.live_share] == pytest.approx([0.9, 0.9])
    assert [kind.primitive for kind in found.kinds] == ["convolution", "convolution"]
    nothing = tuple(replace(row, replay=None) for row in live.primitives)
    with pytest.raises(UserError, match="no primitive was replayed for both"):
        compared(named(here), named(replace(live, primitives=nothing)))


@pytest.mark.parametrize(
    ("was", "is_", "told"),
    [
        (
            "bfloat16 support",
            "AMX",
            "instruction set Intel AVX-512 with Intel DL Boost and AMX in the log",
        ),
        ("v3.12.0", "v3.7.2", "oneDNN 3.7.2 in the log, 3.12.0 in the profile"),
        ("nthr:2", "nthr:8", "threads 8 in the log, 2 in the profile"),
    ],
)
def test_a_log_of_another_machine_is_refused(
    log: Callable[..., Path], was: str, is_: str, told: str
) -> None:
    live = measured(log())
    assert told in refusal(import_file(log(log_text().replace(was, is_))), live)


def test_so_is_one_that_hides_it(log: Callable[..., Path]) -> None:
    """Without oneDNN's first lines, implementations tell."""
    live = measured(log())
    bare = import_file(log(log_text(header="").replace(":avx2", ":avx512_core")))
    told = refusal(bare, live)
    assert "100% of LOG's time is by other implementations than DIR's for the same work" in told
    assert "such as brg_conv_fwd:avx512_core in place of brg_conv_fwd:avx2" in told
    require_same(named(import_file(log(log_text(header="")))), named(live))


@pytest.mark.parametrize("cut", [6, 40, 100])
@pytest.mark.parametrize("in_the_middle", [True, False])
def test_a_truncated_line_changes_nothing_else(
    log: Callable[..., Path], cut: int, *, in_the_middle: bool
) -> None:
    live = measured(log())
    lines = log_text().splitlines(keepends=True)
    place = 7 if in_the_middle else -1
    lines[place] = lines[place][:-cut] + ("\n" if in_the_middle else "")
    torn = import_file(log("".join(lines)))
    require_same(named(torn), named(live))
    found = compared(named(replayed(torn, 0.9)), named(live))
    assert found.agreement is Agreement.WITHIN
    assert torn.summary.skipped or any("middle of a line" in note for note in torn.summary.notes)


def test_renamed_primitives_are_other_work(log: Callable[..., Path]) -> None:
    live = measured(log())
    renamed = import_file(log(log_text().replace(",convolution,", ",conv,")))
    told = refusal(renamed, live)
    assert "not of the same work: 90% of LOG's time is in primitives that DIR has not" in told
    assert "most in conv BWD_D g4mb2_ic32oc64" in told


def test_other_work_is_refused_from_either_side(log: Callable[..., Path]) -> None:
    file = log()
    live, here = measured(file), import_file(file)
    batch = import_file(log(log_text().replace("mb2", "mb4").replace("128x64:", "256x64:")))
    assert "100% of LOG's time is in primitives that DIR has not" in refusal(batch, live)
    part = import_file(log(log_text({CONVOLUTION: 4.0})))
    assert "60% of DIR's time is in primitives that LOG has not" in refusal(part, live)
    once = [
        replace(row, calls=row.calls / 2) if row.direction == "FWD_D" else row
        for row in here.primitives
    ]
    told = refusal(replace(here, primitives=tuple(once)), live)
    assert "40% of LOG's time were called more or less often" in told
    require_same(named(here), named(live))


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"origin": ProfileOrigin(file="it.log")}, "no workload ran for it: it was imported"),
        ({"origin": None}, "no workload ran for it"),
        ({"validity": "INVALID", "reasons": ("too loud",)}, "it is INVALID: too loud"),
        ({"efficiency": None}, "none of its primitives was replayed"),
    ],
)
def test_what_is_no_live_profile_is_refused(
    log: Callable[..., Path], told: Mapping[str, Any], why: str
) -> None:
    with pytest.raises(UserError) as error:
        require_live(named(measured(log(), **told)))
    assert f"cannot compare with profile DIR: {why}" in str(error.value)


def replays_of(
    file: Path, share: float, header: str = HEADER
) -> Callable[[LogReplays], LogReplayed]:
    """Return what stands in for the agents' side: each call takes a share of the log's time."""
    bodies = {task.key: body for body, task in planned_replays(rows_of(file)).tasks.items()}

    def run(wanted: LogReplays) -> LogReplayed:
        text = header
        for number, task in enumerate(wanted.tasks):
            body = bodies[task.key]
            line = f"onednn_verbose,v1,primitive,exec,{body},{TIMES[body] * share}\n"
            text += f"{REPLAY}{number}\n{line * 11}{REPLAY}\n"
        (Path(wanted.folder) / REPLAY_LOG).write_text(text)
        done = tuple(Replayed(key=task.key, samples=(1.0,) * 11) for task in wanted.tasks)
        return LogReplayed(replayed=done, threads=2)

    return run


def rows_of(file: Path) -> Iterable[PrimitiveRow]:
    return import_file(file).primitives


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    exit_code: int
    stdout: str
    exception: BaseException | None


@pytest.fixture
def against(
    log: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Done]:
    """Call the command on a log whose replays take a share, and a profile with 90 %."""

    def run(share: float, *options: str, header: str = HEADER, text: str = LOG_TEXT) -> Done:
        file = log()
        write(measured(file), tmp_path / "live")
        monkeypatch.setattr(profile_project, "run_log_replays", replays_of(file, share, header))
        given = ("--project", "--against", str(tmp_path / "live"), *options)
        done = CliRunner().invoke(app, ["profile", "import", str(log(text)), *given])
        return Done(done.exit_code, done.stdout, done.exception)

    return run


def test_the_command_says_how_they_agree(against: Callable[..., Done]) -> None:
    done = against(0.88)
    assert done.exit_code == 0, done.exception
    told = " ".join(done.stdout.split())
    assert "efficiency of the log 88%, live 90%: ratio 0.98 [0.96, 1.00], within 10%" in told
    assert "│ all │ │ 100.0% │ 88% │ 90% │ 0.98 [0.96, 1.00] │" in told
    assert "compared: 100.0% of the log's time in primitives, 100.0% of the profile's" in told
    found = json.loads(against(0.88, "--json").stdout)
    assert found["agreement"] == "within"
    assert found["whole"]["ratio"] == pytest.approx(0.88 / 0.9)


def test_those_further_apart_have_exit_status_1(against: Callable[..., Done]) -> None:
    done = against(0.5)
    assert done.exit_code == 1
    assert "further apart than 10%" in done.stdout


def test_replays_on_another_machine_are_refused(against: Callable[..., Done]) -> None:
    done = against(0.9, header=HEADER.replace("AVX-512", "AVX2"))
    assert isinstance(done.exception, UserError)
    assert "its machine has Intel AVX-512 with" in str(done.exception)
    assert "and the replays ran on Intel AVX2 with" in str(done.exception)


def test_other_work_is_refused_before_anything_is_replayed(
    against: Callable[..., Done], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = against(0.9, "-o", str(out), text=log_text().replace("mb2", "mb4"))
    assert isinstance(done.exception, UserError)
    assert "not of the same work" in str(done.exception)
    assert not out.exists()


def test_what_compares_needs_replays(log: Callable[..., Path], tmp_path: Path) -> None:
    command = ["profile", "import", str(log()), "--against", str(tmp_path)]
    error = CliRunner().invoke(app, command).exception
    assert isinstance(error, UserError)
    assert str(error).startswith("cannot use --against: it is about replays. Add --project")
