"""Exports in the forms that other tools read, by what those tools document."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from controller.contracts.profile import ProfileSummary
from controller.profiles.benchdnn import DRIVERS, Batches, benchdnn_batches
from controller.profiles.exports import GRID_US, chrome_trace, collapsed_stacks
from controller.profiles.importing import import_file
from controller.profiles.model import KernelRow, Place, Profile
from controller.profiles.parts import UNEXPLAINED

LOGS = Path(__file__).with_name("logs")


def by_hand(profile: Profile) -> Profile:
    """Return a profile of a few kernels, with the summary of another."""
    convolving = Place("forward", "body.0", "aten::conv2d", "aten::mkldnn_convolution")
    kernels = (
        KernelRow(place=convolving, calls=1, self_s=0.004, total_s=0.004),
        KernelRow(place=replace(convolving, dims="[[1]]"), calls=1, self_s=0.001, total_s=0.001),
        KernelRow(place=Place("loss", "", "a;b", "a;b"), calls=1, self_s=0.002, total_s=0.002),
        KernelRow(place=Place("backward"), calls=1, self_s=0.003, total_s=0.01),
    )
    return Profile(profile.summary, kernels, ())


def seconds_of(profile: Profile) -> float:
    """Return the seconds of all stacks."""
    own = sum(max(0.0, row.self_s - row.primitive_s) for row in profile.kernels)
    return own + sum(row.seconds for row in profile.primitives)


def test_collapsed_stacks_are_frames_and_a_number(profile: Profile) -> None:
    assert collapsed_stacks(by_hand(profile)).splitlines() == [
        f"backward;{UNEXPLAINED} 3000",
        "forward;body;0;aten::conv2d;aten::mkldnn_convolution 5000",
        "loss;a:b 2000",
    ]


def test_collapsed_stacks_come_to_the_time_of_a_step(profile: Profile) -> None:
    lines = collapsed_stacks(profile).splitlines()
    assert all(re.fullmatch(r"[^;]+(;[^;]+)* \d+", line) for line in lines)
    total = sum(int(line.rpartition(" ")[2]) for line in lines) * 1e-6
    # Each line is rounded to a microsecond.
    assert total == pytest.approx(seconds_of(profile), abs=len(lines) * 1e-6)
    assert any(";brg" in line or "convolution FWD_D" in line for line in lines)


def test_chrome_trace_is_of_the_same_stacks(profile: Profile) -> None:
    """Read as viewers read it: an event lies in those that have begun before and not ended."""
    events = json.loads(chrome_trace(profile))["traceEvents"]
    assert all(event.keys() >= {"ph", "name", "ts", "dur", "pid", "tid"} for event in events)
    assert {event["ph"] for event in events} == {"X"}
    open_events: list[tuple[str, float]] = []
    own: dict[str, float] = {}
    for event in events:
        end = event["ts"] + event["dur"]
        while open_events and open_events[-1][1] < event["ts"]:
            open_events.pop()
        assert all(end <= outer for _, outer in open_events)
        outside = ";".join(name for name, _ in open_events)
        open_events.append((event["name"].replace(";", ":"), end))
        own[";".join(name for name, _ in open_events)] = event["dur"]
        if outside:
            own[outside] -= event["dur"] + GRID_US  # the gap to what follows
    stacks = {path: int(us) for path, us in map(_split, collapsed_stacks(profile).splitlines())}
    assert all(own[path] == pytest.approx(us, abs=1) for path, us in stacks.items() if us > 1)
    # Every event ends a grid's width early, and every stack is rounded to the grid.
    total_us = sum(own.values()) + len(own) * GRID_US
    rounded = len(profile.kernels) + len(profile.primitives)
    assert total_us == pytest.approx(seconds_of(profile) * 1e6, abs=rounded * GRID_US)


def test_phases_come_in_the_order_in_which_they_run() -> None:
    phases = ("optimizer", "", "backward", "loss", "forward", "load")
    rows = [KernelRow(place=Place(phase, "m"), calls=1, self_s=1, total_s=1) for phase in phases]
    trace = json.loads(chrome_trace(Profile(ProfileSummary(steps=1), tuple(rows), ())))
    outermost = [event["name"] for event in trace["traceEvents"][::3]]
    assert outermost == ["load", "forward", "loss", "backward", "optimizer", "step"]


def _split(line: str) -> tuple[str, str]:
    path, _, us = line.rpartition(" ")
    return path, us


TAG = r"(?:any|undef|[a-zA-Z]+(?:\d+[a-z])*)"
TYPE = r"(?:f64|f32|s32|f16|bf16|s8|u8)"
TAGS = rf"--stag={TAG} --wtag={TAG} --dtag={TAG}"
TYPES = rf"--dt={TYPE}:{TYPE}:{TYPE}"
DIRECTION = r"--dir=(?:FWD_B|FWD_D|FWD_I|BWD_D|BWD_W|BWD_WB)"
_AXIS = r"_?i[dhw]\d+o[dhw]\d+k[dhw]\d+s[dhw]\d+d[dhw]\d+p[dhw]-?\d+"
CONVOLUTION = rf"(?:g\d+)?mb\d+_ic\d+oc\d+(?:{_AXIS})+"
GRAMMARS = {
    # An option is --KEY=VALUE, a problem a word without dashes: benchdnn_general_info, driver_*.md.
    "conv": rf"--reset {DIRECTION} {TYPES} {TAGS} {CONVOLUTION}",
    "ip": rf"--reset {DIRECTION} {TYPES} {TAGS} mb\d+ic\d+(?:i[dhw]\d+)*oc\d+",
    "matmul": (
        rf"--reset {TYPES} {TAGS}(?: --bia_dt={TYPE} --bia_mask=\d+)? "
        r"(?:--runtime_dims_masks=\d+:\d+ )?\d+(?:x\d+)+:\d+(?:x\d+)+(?::\d+(?:x\d+)+)?"
    ),
    "reorder": (
        rf"--reset --sdt={TYPE} --ddt={TYPE} --stag={TAG} --dtag={TAG} "
        r"(?:--runtime-dim-mask=\d+ )?\d+(?:x\d+)*"
    ),
}
"""benchdnn's documented options and problems of each driver, as patterns."""


def problems(profile: Profile) -> dict[str, list[str]]:
    """Return the lines of each driver that are no comments and not the common option."""
    found = {}
    for driver, text in benchdnn_batches(profile).texts.items():
        comment, common, *lines = text.splitlines()
        assert comment.startswith(f"# benchdnn --{driver} ")
        assert common == "--allow-enum-tags-only=false"
        found[driver] = [line for line in lines if not line.startswith("#")]
    return found


def test_batch_files_are_what_benchdnn_documents(profile: Profile) -> None:
    generations = [import_file(path) for path in sorted(LOGS.glob("*.log"))]
    seen = set()
    for one in (profile, *generations):
        for driver, lines in problems(one).items():
            seen.add(driver)
            assert lines
            assert [line for line in lines if not re.fullmatch(GRAMMARS[driver], line)] == []
    assert seen == {"conv", "ip", "matmul", "reorder"}


def test_every_distinct_problem_is_in_a_batch_or_told(profile: Profile) -> None:
    batches = benchdnn_batches(profile)
    bodies = {row.body for row in profile.primitives}
    in_files = sum(map(len, problems(profile).values()))
    assert in_files + sum(batches.left_out.values()) == len(bodies)
    assert not set(batches.left_out) & set(DRIVERS)


def test_what_a_batch_file_leaves_out_is_in_its_comment(tmp_path: Path) -> None:
    sides = "src:f32::blocked:ab:128x1:f0 wei:f32::blocked:ab::f0"
    told = "attr-scratchpad:user attr-fpmath:bf16 attr-scales:wei:2:f32 attr-post-ops:eltwise_relu"
    body = f"cpu,matmul,brg,undef,{sides} bia:f32::blocked:ab::f0_mask3 dst:f32::blocked:ab::f0"
    (file := tmp_path / "it.log").write_text(
        f"onednn_verbose,exec,{body},{told},,128x64:64x32,1\n"
        f"onednn_verbose,exec,{body},{told},,*x64:64x32,1\n"
    )
    batches = benchdnn_batches(import_file(file))
    *_, comment, line = batches.texts["matmul"].splitlines()
    assert comment == (
        "# brg, without its post-ops eltwise_relu, attr-scales:wei:2:f32, strides 128x1 of src"
    )
    assert line == (
        "--reset --attr-fpmath=bf16 --dt=f32:f32:f32 --stag=ab --wtag=ab --dtag=ab "
        "--bia_dt=f32 --bia_mask=3 128x64:64x32"
    )
    assert batches.left_out == {"matmul": 1}, "one has a size that is open"


PRODUCT = (
    "cpu,matmul,brg,undef,src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 "
    "dst:f32::blocked:ab::f0,,{},64x32:32x16"
)
REORDERED = "cpu,reorder,jit,undef,src:f32::blocked:ab::f0 dst:{},,{},32x16"
COMPENSATED = "s8:a:blocked:BA16a64b4a::f1:s8m2:zpm2"


def batches_of(folder: Path, body: str) -> Batches:
    (file := folder / "it.log").write_text(f"onednn_verbose,exec,{body},1\n")
    return benchdnn_batches(import_file(file))


@pytest.mark.parametrize(
    ("body", "driver", "option"),
    [
        (
            PRODUCT.format("runtime_dims_masks:1:0"),
            "matmul",
            "--runtime_dims_masks=1:0 64x32:32x16",
        ),
        (
            REORDERED.format("f32::blocked:ba::f0", "runtime-dim-mask:3"),
            "reorder",
            "--runtime-dim-mask=3 32x16",
        ),
    ],
)
def test_sizes_that_are_known_only_when_it_runs_are_so_in_a_batch_file(
    tmp_path: Path, body: str, driver: str, option: str
) -> None:
    *_, line = batches_of(tmp_path, body).texts[driver].splitlines()
    assert re.fullmatch(GRAMMARS[driver], line)
    assert line.endswith(option)


@pytest.mark.parametrize(
    ("body", "driver"),
    [
        (PRODUCT.replace("wei:f32::blocked:ab::f0", f"wei:{COMPENSATED}").format(""), "matmul"),
        (REORDERED.format(COMPENSATED, ""), "reorder"),
    ],
)
def test_compensation_for_int8_is_told_as_left_out(tmp_path: Path, body: str, driver: str) -> None:
    *_, comment, _ = batches_of(tmp_path, body).texts[driver].splitlines()
    role = {"matmul": "wei", "reorder": "dst"}[driver]
    assert comment.endswith(f", without its compensation s8m2:zpm2 of {role}")


def test_each_engine_has_a_batch_file_of_its_own(tmp_path: Path) -> None:
    """A process of benchdnn has the engine of its first problem to the end."""
    product = PRODUCT.format("")
    bodies = [product.replace("cpu", engine, 1) for engine in ("cpu", "gpu", "gpu:1", "gpu/../a")]
    (file := tmp_path / "it.log").write_text(
        "".join(f"onednn_verbose,exec,{body},1\n" for body in bodies)
    )
    imported = import_file(file)
    batches = benchdnn_batches(imported)
    options = {name: text.splitlines()[:-2] for name, text in batches.texts.items()}
    begun = "# benchdnn --matmul --mode=P --batch="
    common = "--allow-enum-tags-only=false"
    assert options == {
        "matmul": [f"{begun}matmul.batch", common],
        "matmul-gpu": [f"{begun}matmul-gpu.batch", common, "--engine=gpu"],
        "matmul-gpu-1": [f"{begun}matmul-gpu-1.batch", common, "--engine=gpu:1"],
    }
    assert batches.left_out == {"matmul": 1}, "one has an engine that there is not"
    assert imported.summary.notes[0] == (
        "its primitives ran on several engines (cpu, gpu, gpu/../a, gpu:1); sums are of all of "
        "these together"
    )


@pytest.mark.parametrize("side", ["wei:f32::sparse:csr::f0", "wei:f32::blocked:*::f0"])
def test_what_has_no_layout_by_a_tag_is_left_out(tmp_path: Path, side: str) -> None:
    body = PRODUCT.replace("wei:f32::blocked:ab::f0", side).format("")
    assert batches_of(tmp_path, body) == Batches({}, {"matmul": 1})


def test_a_damaged_reorder_is_skipped(tmp_path: Path) -> None:
    damaged = REORDERED.replace("ab::f0 dst:", "abdst:").format("f32::blocked:ba::f0", "")
    good = REORDERED.format("f32::blocked:ba::f0", "")
    (file := tmp_path / "it.log").write_text(
        "".join(f"onednn_verbose,exec,{body},1\n" for body in (good, damaged))
    )
    profile = import_file(file)
    assert profile.summary.skipped == 1
    assert len(problems(profile)["reorder"]) == 1
    (row,) = profile.primitives
    kept = replace(profile, primitives=(replace(row, body=damaged),))  # by an earlier release
    assert benchdnn_batches(kept) == Batches({}, {"reorder": 1})


def test_a_convolution_with_bias_has_the_direction_that_says_so(profile: Profile) -> None:
    lines = problems(profile)["conv"]
    stem = [line for line in lines if "mb2_ic3oc16_" in line]
    assert {line.split()[1] for line in stem} == {"--dir=FWD_B", "--dir=BWD_WB"}
