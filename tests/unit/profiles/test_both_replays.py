"""A live profile and the import of its own log replay the same primitives."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from controller.cli.profile_project import projected_here
from controller.contracts.replay import KernelReplay, Replayed
from controller.profiles.importing import import_file
from controller.profiles.log_replays import planned_replays
from controller.profiles.model import PrimitiveRow, Profile
from controller.profiles.projecting import projected, replays_of, samples_of
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
    profile = recorded_profile(folder)
    tasks = [task.model_dump(mode="json") for task in replays_of(profile)]
    (scratch / "replays.json").write_text(json.dumps(tasks))
    run_module("replay_kernels", scratch)
    done = _REPLAYED.validate_json((scratch / "replay-times.json").read_bytes())
    with (scratch / "verbose.log").open("rb") as log:
        return projected(profile, samples_of(log, done))


def replayed(rows: Iterable[PrimitiveRow]) -> set[tuple[str, str, str, str]]:
    return {(row.primitive, row.direction, row.layout, row.problem) for row in rows if row.replay}


def test_an_lstm_is_replayed_whole_by_both(lstm: Path, tmp_path: Path) -> None:
    here = live(lstm, tmp_path)
    log = lstm / "verbose.log"
    imported = projected_here(import_file(log), log, 120.0)
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
