"""A live profile's kernels, replayed again in turns with a log's primitives."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.cli import profile_project
from controller.cli.main import app
from controller.contracts.replay import (
    REPLAY_LOG,
    KernelReplay,
    LogReplayed,
    LogReplays,
    Replayed,
)
from controller.profiles.files import write
from controller.profiles.importing import import_file
from controller.profiles.live_replays import (
    Interleaved,
    interleaved,
    replayed_again,
    trusted_bytes,
)
from controller.profiles.log_replays import planned_replays
from controller.profiles.marks import REPLAY
from controller.profiles.model import Place, Profile
from controller.profiles.projecting import replay_key
from controller.profiles.replay_arguments import NotReplayable
from controller.profiles.replay_work import ATTENTION, most_flops
from tests.unit.profiles.test_live_check import BACKWARD, HEADER, TIMES, log_text, measured
from tests.unit.profiles.test_log_replays import CONVOLUTION, MATMUL

KERNELS = {CONVOLUTION: "mkldnn_convolution", BACKWARD: "convolution_backward", MATMUL: "mm"}
FORWARD = {"kernel": "aten::mkldnn_convolution"}


def place_of(body: str) -> Place:
    return Place(
        kernel=f"aten::{KERNELS[body]}",
        dims="[[2, 3, 8, 8], [4, 3, 3, 3], [4, 3, 3, 3], []]",
        strides="[[192, 64, 8, 1], [27, 9, 3, 1], [27, 9, 3, 1], []]",
        dtypes='["float", "float", "float", ""]',
        values='["", "", "", "[1, 1]"]',
    )


def key_of(body: str) -> str:
    return replay_key(place_of(body), trains=body == CONVOLUTION)


def traced(profile: Profile) -> Profile:
    """Return a live profile whose trace tells the inputs of each kernel."""
    rows = [replace(row, place=place_of(row.body)) for row in profile.primitives]
    return replace(profile, primitives=tuple(rows))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "it.log").write_text(log_text())
    return tmp_path / "it.log"


def interleaved_of(file: Path, live: Profile | None) -> Interleaved:
    rows = sorted(import_file(file).primitives, key=lambda row: -row.seconds)
    return interleaved(planned_replays(rows), live)


def test_each_of_the_log_s_is_followed_by_what_does_the_same_live(log: Path) -> None:
    live = traced(measured(log))
    more = replace(
        live.primitives[0], place=replace(place_of(MATMUL), values='["", "", "", "[0, 0]"]')
    )
    odd = replace(more, body="shuffle", primitive="shuffle", place=place_of(MATMUL))
    odd = replace(odd, place=replace(odd.place, kernel="aten::gelu"))
    both = interleaved_of(log, replace(live, primitives=(odd, *live.primitives, more)))
    live_keys = [t.key for t, live in zip(both.tasks, both.are_live, strict=True) if live]
    assert [*map(int, both.are_live)] == [0, 1, 1, 0, 1, 0, 1, 1]
    assert live_keys == [
        *(key_of(BACKWARD), replay_key(more.place), key_of(CONVOLUTION), key_of(MATMUL)),
        replay_key(odd.place),
    ]
    assert both.refused == ()
    alone = interleaved_of(log, None)
    assert alone.are_live == (False,) * 3
    assert alone.tasks == tuple(
        task for task, live in zip(both.tasks, both.are_live, strict=True) if not live
    )


def interleaved_replays(
    file: Path, log_share: float, live_share: float
) -> Callable[[LogReplays], LogReplayed]:
    """Return what stands in for the agents' side: a call takes a share of what the log tells."""
    planned = planned_replays(import_file(file).primitives)
    bodies = {task.key: body for body, task in planned.tasks.items()}
    live_bodies = {key_of(body): body for body in TIMES}

    def run(wanted: LogReplays) -> LogReplayed:
        text = HEADER
        for number, task in enumerate(wanted.tasks):
            body = bodies.get(task.key) or live_bodies[task.key]
            ms = TIMES[body] * (log_share if task.key in bodies else live_share)
            line = f"onednn_verbose,v1,primitive,exec,{body},{ms}\n"
            text += f"{REPLAY}{number}\n{line * 11}{REPLAY}\n"
        (Path(wanted.folder) / REPLAY_LOG).write_text(text)
        done = tuple(Replayed(key=task.key, samples=(1.0,) * 11) for task in wanted.tasks)
        return LogReplayed(replayed=done, threads=2)

    return run


@pytest.mark.parametrize(
    ("log_share", "live_share", "ratio", "status"),
    [(0.45, 0.44, 0.45 / 0.44, 0), (1.1, 1.1, 1.0, 0), (0.9, 0.45, 2.0, 1), (0.45, 0.9, 0.5, 1)],
)
def test_the_machine_s_own_speed_is_no_difference(
    log: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    log_share: float,
    live_share: float,
    ratio: float,
    status: int,
) -> None:
    """The live run came to 90 %, whatever the machine's speed is as both are replayed."""
    write(traced(measured(log)), tmp_path / "live")
    stand_in = interleaved_replays(log, log_share, live_share)
    monkeypatch.setattr(profile_project, "run_log_replays", stand_in)
    command = ["profile", "import", str(log), "--project", "--against", str(tmp_path / "live")]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == status, done.exception
    found = json.loads(done.stdout)
    assert found["whole"]["ratio"] == pytest.approx(ratio)
    assert found["whole"]["live"] == pytest.approx(live_share)
    assert found["shown_efficiency"] == pytest.approx(0.9)
    assert [found["whole"]["share"], found["live_share"]] == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"kernel": "os::system"}, "'os::system' is no kernel of torch"),
        ({"kernel": "aten::mm; x"}, "'aten::mm; x' is no kernel of torch"),
        ({"kernel": "aten::linalg_svd"}, "is no kernel of torch whose work is known"),
        ({"kernel": "aten::matmul"}, "is no kernel of torch whose work is known"),
        ({"kernel": "aten::linear"}, "is no kernel of torch whose work is known"),
        ({"kernel": "aten::avg_pool2d"}, "is no kernel of torch whose work is known"),
        ({"values": '["", "", "", "\'made\'"]'}, "it is given a text"),
        ({"values": '["", "", "", "\\"made\\""]'}, "it is given a text"),
        ({"values": "{"}, "its sizes are not known"),
        ({**FORWARD, "values": '["", "", "", " (255, 255)"]'}, "its work is not known"),
        ({**FORWARD, "values": '["", "", ""]'}, "its work is not known"),
        ({"dims": "[[2, 3, 8], [], [], []]"}, "its work is not known"),
        ({"dims": "[[200000, 200000], [], [], []]"}, "its tensors have 149 GiB"),
        ({"strides": "[[3, 1000000000000], [], [], []]"}, "its tensors have"),
        ({"dims": "[[2, -3], [], [], []]"}, "its sizes are not known"),
        ({"dims": '[["2", "x"], [], [], []]'}, "its sizes are not known"),
        ({"dims": "[[2, 3]]"}, "its sizes are not known"),
        ({"dims": "7"}, "its sizes are not known"),
        ({"dims": "[[Infinity, 3], [], [], []]"}, "its sizes are not known"),
        ({"dims": "[[1e200, 1e200], [], [], []]"}, "its sizes are not known"),
        ({"dims": "[" * 100_000}, "its sizes are not known"),
    ],
)
def test_a_profile_of_others_is_not_trusted(log: Path, told: dict[str, str], why: str) -> None:
    """What it would have run is told, and the rest is compared."""
    live = traced(measured(log))
    rows = list(live.primitives)
    hostile = replace(rows[0].place, **told)
    rows[0] = replace(rows[0], place=hostile)
    planted = replace(live, primitives=tuple(rows))
    both = interleaved_of(log, planted)
    assert [one.key for one in both.refused] == [replay_key(hostile)]
    assert why in str(both.refused[0].refused)
    assert [*both.are_live].count(True) == len(TIMES) - 1
    done = LogReplayed(replayed=tuple(Replayed(key=t.key) for t in both.tasks), threads=2)
    again = replayed_again(planted, both, done, BytesIO(HEADER.encode()))
    (note,) = again.summary.notes
    assert note.startswith("again, not replayed, ")
    assert why in note


def called(kernel: str, dims: list[list[int]], values: list[str]) -> str:
    """Return why a call of a kernel is not run; empty if it is."""
    task = KernelReplay(
        key="k",
        kernel=kernel,
        dims=json.dumps(dims),
        strides=json.dumps([[] for _ in dims]),
        dtypes=json.dumps(["float" for _ in dims]),
        values=json.dumps(values),
    )
    try:
        trusted_bytes(task)
    except NotReplayable as why:
        return str(why)
    return ""


SQUARE = [16000, 16000]
IMAGES, AS_LARGE, SMALL = [8, 256, 512, 512], [1, 256, 511, 511], [64, 256, 3, 3]
HALF = [4, *IMAGES[1:]]
WIDE, USUAL = "[255, 255]", "[1, 1]"
HEADS, LONG_HEADS = [8, 12, 384, 64], [8, 12, 30000, 64]
TEXT, LONG_TEXT, GATES = [50, 64, 512], [5000, 640, 64], [4096, 1024]


@pytest.mark.parametrize(
    ("kernel", "dims", "values", "flops"),
    [
        ("aten::mm", [SQUARE, SQUARE], [], "8.2e+12"),
        ("aten::addmm", [[16000], SQUARE, SQUARE], [], "8.2e+12"),
        ("aten::convolution", [IMAGES, AS_LARGE, [], [], []], ["", "", "", USUAL, WIDE], "1.1e+15"),
        (
            "aten::_convolution",
            [IMAGES, AS_LARGE, [], [], []],
            ["", "", "", "", "[255]"],
            "1.1e+15",
        ),
        (
            "aten::mkldnn_convolution",
            [IMAGES, AS_LARGE, [], []],
            ["", "", "", WIDE, USUAL],
            "1.1e+15",
        ),
        ("aten::convolution_backward", [HALF, HALF, AS_LARGE], [], "2.8e+14"),
        (f"{ATTENTION}", [LONG_HEADS] * 3, [], "5.5e+13"),
        (f"{ATTENTION}_backward", [HEADS, LONG_HEADS, HEADS], [], "5.5e+13"),
        ("aten::mkldnn_rnn_layer", [LONG_TEXT, GATES, GATES], [], "1.6e+14"),
        ("aten::mm", [[4096, 1024], [1024, 4096]], [], ""),
        ("aten::bmm", [[96, 384, 64], [96, 64, 384]], [], ""),
        ("aten::mkldnn_convolution", [IMAGES, SMALL, [], []], ["", "", "", USUAL, USUAL], ""),
        ("aten::convolution_backward", [[4, 64, 512, 512], HALF, SMALL], ["[True]"], ""),
        (f"{ATTENTION}", [HEADS] * 3, [], ""),
        ("aten::mkldnn_rnn_layer_backward", [TEXT, [2048, 512], [2048, 512]], [], ""),
        ("aten::gelu_backward", [HALF, HALF], [], ""),
    ],
)
def test_what_may_take_hours_is_not_run(
    kernel: str, dims: list[list[int]], values: list[str], flops: str
) -> None:
    """Whatever a profile says: only sizes and a convolution's padding tell how long it may take."""
    why = called(kernel, dims, values)
    assert why.startswith(f"a call has {flops}") if flops else not why


def test_a_text_that_is_nested_too_deeply_has_no_work() -> None:
    """Such as a trace may carry inside a string."""
    deep = json.dumps(["", "", "", "[" * 100_000])
    dims = "[[2, 3, 8, 8], [4, 3, 3, 3], [4]]"
    assert most_flops("aten::mkldnn_convolution", dims, deep) is None


def test_a_rebuilt_layer_keeps_the_time_of_its_own_run(log: Path) -> None:
    """Of a stack whose kernels leave no record; and only that."""
    live = traced(measured(log))
    rows = [replace(live.primitives[0], place=Place()), *live.primitives[1:]]
    mixed = replace(live, primitives=tuple(rows))
    both = interleaved_of(log, mixed)
    done = LogReplayed(replayed=tuple(Replayed(key=t.key) for t in both.tasks), threads=2)
    again = replayed_again(mixed, both, done, BytesIO(HEADER.encode()))
    assert [row.replay for row in again.primitives] == [rows[0].replay, None, None]
    assert again.summary.notes == ("50.0% of its time keeps the replays of its own run",)
