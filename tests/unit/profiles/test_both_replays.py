"""A live profile and the import of its own log replay the same primitives."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pydantic import TypeAdapter

from agents.profiling.replay import kernel_call
from controller.cli.profile_project import projected_here
from controller.contracts.replay import KernelReplay, Replayed
from controller.profiles.importing import import_file
from controller.profiles.log_replays import planned_replays
from controller.profiles.model import PrimitiveRow, Profile
from controller.profiles.projecting import (
    projected,
    refused_told,
    replay_key,
    replays_of,
    samples_of,
)
from tests.support.planted_profile import kernel, profile
from tests.support.recorded_profiles import recorded_profile
from tests.unit.profiles.conftest import run_module

_REPLAYED = TypeAdapter(list[Replayed])


@pytest.fixture(scope="module")
def lstm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny LSTM's watched steps."""
    folder = tmp_path_factory.mktemp("lstm")
    run_module("profiled_lstm", folder)
    return folder


def live(folder: Path, scratch: Path) -> Profile:
    """Return the profile with replays, as a profiled run makes them."""
    watched = recorded_profile(folder)
    tasks = [task.model_dump(mode="json") for task in replays_of(watched)]
    (scratch / "replays.json").write_text(json.dumps(tasks))
    run_module("replay_kernels", scratch)
    done = _REPLAYED.validate_json((scratch / "replay-times.json").read_bytes())
    with (scratch / "verbose.log").open("rb") as log:
        return projected(watched, samples_of(log, done))


def replayed(rows: Iterable[PrimitiveRow]) -> set[tuple[str, str, str, str]]:
    return {(row.primitive, row.direction, row.layout, row.problem) for row in rows if row.replay}


def test_an_lstm_is_replayed_whole_by_both(lstm: Path, tmp_path: Path) -> None:
    here = live(lstm, tmp_path)
    log = lstm / "verbose.log"
    imported = projected_here(import_file(log), log, 120.0).log
    assert {("rnn", "FWD_D"), ("rnn", "BWD_DW")} <= {
        (row.primitive, row.direction) for row in here.primitives
    }
    assert [row.body for row in here.primitives if row.replay is None] == []
    assert [row.body for row in imported.primitives if row.replay is None] == []
    assert replayed(here.primitives) == replayed(imported.primitives)
    assert here.summary.efficiency
    assert imported.summary.efficiency


def test_a_forward_pass_in_training_is_asked_to_train_by_both(lstm: Path) -> None:
    """Without gradients torch has oneDNN infer, by other weights and another implementation."""
    here = recorded_profile(lstm)
    tasks = [task for task in replays_of(here) if isinstance(task, KernelReplay)]
    assert {task.kernel: task.trains for task in tasks if "rnn" in task.kernel} == {
        "aten::mkldnn_rnn_layer": True,
        "aten::mkldnn_rnn_layer_backward": False,
    }
    planned = planned_replays(import_file(lstm / "verbose.log").primitives)
    trains = {
        (t.kernel, t.trains, t.gradients) for t in planned.tasks.values() if "rnn" in t.kernel
    }
    assert trains == {
        ("aten::mkldnn_rnn_layer", True, False),
        ("aten::mkldnn_rnn_layer", False, True),
    }


@pytest.mark.parametrize(("scale", "is_zero"), [("0", True), ("1", False)])
def test_inputs_that_torch_takes_only_by_name_are_handed_over(scale: str, *, is_zero: bool) -> None:
    """A trace lists them behind the others: a linear layer's addmm has beta and alpha."""
    task = KernelReplay(
        key="addmm",
        kernel="aten::addmm",
        dims="[[4], [2, 3], [3, 4], [], []]",
        strides="[[1], [3, 1], [4, 1], [], []]",
        dtypes='["float", "float", "float", "Scalar", "Scalar"]',
        values=json.dumps(["", "", "", scale, scale]),
    )
    found = kernel_call(task)()
    assert isinstance(found, torch.Tensor)
    assert found.shape == (2, 4)
    assert bool((found == 0).all()) is is_zero


def test_a_kernel_that_wrote_into_a_given_tensor_is_replayed_so() -> None:
    """A trace names `aten::mm` whichever overload was run."""
    task = KernelReplay(
        key="k",
        kernel="aten::mm",
        dims="[[2, 3], [3, 4], [2, 4]]",
        strides="[[3, 1], [4, 1], [1, 2]]",
        dtypes='["c10::BFloat16", "c10::BFloat16", "c10::BFloat16"]',
        values='["", "", ""]',
    )
    found = kernel_call(task)()
    assert isinstance(found, torch.Tensor)
    assert found.stride() == (1, 2)
    assert bool(found.any())


def test_what_torch_refuses_is_told_with_its_share_and_reason() -> None:
    rows = [kernel("aten::mm", 0.3), kernel("aten::addmm", 0.1), kernel("aten::relu", 0.6)]
    flops = [replace(row, flops=1.0) for row in rows[:2]]
    key = replay_key(rows[1].place)
    done = [Replayed(key=key, refused="RuntimeError: too few"), Replayed(key="other", refused="no")]
    assert list(refused_told(profile([*flops, rows[2]]), done)) == [
        "not replayed, 25.0% of the time: aten::addmm: RuntimeError: too few"
    ]
