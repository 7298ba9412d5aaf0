"""Training data on a real farm: what is wrong with a set of images fails its own runs, in one line
and with blame user, and the sweep goes on; loading processes work in a worker."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from controller.contracts.run import RunState
from tests.integration.farm import TestFarm
from tests.support.image_sets import Document, write
from tests.support.validity import MET_RULES
from tests.support.waiting import PATIENCE_S

pytestmark = [pytest.mark.integration, pytest.mark.farm]

LATE_S = 0.5
RECIPES = {
    "corrupt": {"data": "corrupt"},
    "elsewhere": {"data": "nowhere"},
    "empty": {"data": "empty"},
    "class": {"data": "class"},
    "slow": {"data": "slow", "batch_size": 1, "load_timeout": 0.1},
    "whole": {"data": "whole", "loader_workers": 2, "cache": "files"},
}
SWEEP = {
    "name": "damaged-data",
    "workload": "retinanet_images",
    "stack": "torch",
    "scenario": "data_loading",
    "knobs": {
        "image_size": 96,
        "num_classes": 2,
        "threads": 1,
        "warmup_steps": 0,
        "steps": 2,  # an epoch of four images
    },
    "recipes": RECIPES,
    "deadline_s": 200,
}


def write_sets(data: Path) -> Path:
    """Write a set for each recipe into a farm's folder of data; return the image that is slow."""
    write(data, "whole")
    damaged = write(data, "corrupt") / "images" / "3.jpg"
    damaged.write_bytes(damaged.read_bytes()[:300])
    write(data, "empty", change=lambda told: told.update(annotations=[]))
    write(data, "class", change=beyond_the_classes)
    slow = write(data, "slow", images=1) / "images" / "0.jpg"
    slow.unlink()
    os.mkfifo(slow)
    return slow


def beyond_the_classes(told: Document) -> None:
    told["categories"].append({"id": 2, "name": "bird"})
    told["annotations"][2]["category_id"] = 2


@contextmanager
def answered_late(pipe: Path) -> Iterator[None]:
    """Be a disk that takes LATE_S for a file, which has to be read meanwhile."""

    def answer() -> None:
        with pipe.open("wb"):  # waits for who reads it
            time.sleep(LATE_S)

    disk = Thread(target=answer, daemon=True)
    disk.start()
    yield
    disk.join(PATIENCE_S)
    assert not disk.is_alive(), "nobody has read it"


def test_each_damaged_set_fails_its_run_in_one_line_and_the_sweep_goes_on(farm: TestFarm) -> None:
    data = farm.home.path / "data"
    with answered_late(write_sets(data)):
        sweep_id = farm.submit(SWEEP)
        assert farm.cli("sweep", "watch", sweep_id).status == 1
    runs = farm.runs(sweep_id)
    failed = {run.cell.knobs["data"] for run in runs if run.state is RunState.FAILED}
    assert failed == {"corrupt", "nowhere", "empty", "class", "slow"}
    assert [len(run.attempts) for run in runs] == [1] * len(RECIPES), "none is tried again"

    failures = farm.cli("results", "list", "--sweep", sweep_id, "--failures", "--json").json
    assert {failure["blame"] for failure in failures} == {"user"}
    lines = {failure["knobs"]["data"]: failure["message"] for failure in failures}
    for name, start in {
        "corrupt": "corrupt/images/3.jpg: images[3].file_name of annotations.json: decoder pillow",
        "nowhere": "nowhere: knob data: there is no such folder. ",
        "empty": "empty/annotations.json: annotations: it is no list, or empty. ",
        "class": "class/annotations.json: annotations[2].category_id: 2 is not one of 0 to 1. ",
        "slow": "slow/images/0.jpg: knob load_timeout: reading it took ",
    }.items():
        assert lines[name].startswith(f"cannot read {data}/{start}")
        assert "\n" not in lines[name]

    (done,) = farm.cli("results", "list", "--sweep", sweep_id, "--json").json
    assert done["knobs"]["data"] == "whole"
    assert done["validity"] in MET_RULES
    assert done["metrics"]["throughput"]["unit"] == "images/s"
    assert done["environment"]["data_images"] == 4
