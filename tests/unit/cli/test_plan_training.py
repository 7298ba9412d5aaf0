"""`benchfarm plan-training` on a store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.cli.main import app
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import NotFound, UserError
from controller.contracts.result import Measurement
from controller.contracts.sweep import Sweep
from controller.contracts.sweep_file import parse_sweep
from controller.contracts.units import Unit
from controller.runtime.home import Home
from tests.support import builders
from tests.support.farm import FarmBox


@pytest.fixture(autouse=True)
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarmBox]:
    """A farm whose server has trained RetinaNet in two batches, of small images."""
    monkeypatch.setenv("BENCHFARM_HOME", str(tmp_path))
    box = FarmBox(Home(tmp_path).store)
    box.catalog = load_catalog()
    box.restart()
    box.farm.register(builders.registration())
    knobs = {"batch_size": [2, 4], "image_size": 256}
    sweep = {"workload": "retinanet_resnext50", "stack": "torch", "scenario": "training"}
    box.submit(Sweep.model_validate({"name": "it", **sweep, "knobs": knobs}), again=True)
    for step_s in (0.5, 0.75):
        (job,) = box.ask().run
        box.clock.now += 1
        box.report(job.ref, builders.result(step_s))
    yield box
    box.close()


def said(*options: str) -> str:
    done = CliRunner().invoke(app, ["plan-training", *options])
    assert done.exit_code == 0, done.exception
    return done.stdout


def test_all_that_was_measured_shortest_first() -> None:
    found = json.loads(said("--json"))
    assert [(one["batch"], one["step_s"]["value"]) for one in found["planned"]] == [
        (4, 0.75),
        (2, 0.5),
    ]
    first, second = found["planned"]
    assert first["train_s"]["value"] == pytest.approx(
        first["epochs"]["value"] * 0.75 * 292_576  # a quarter of 1,170,301 samples
    )
    assert first["epochs"] == second["epochs"], "below the smallest published batch"
    assert first["unlike_published"] == ["image_size=256, not 800"]


def test_the_table_says_what_limits_it() -> None:
    shown = said("--batch", "4")
    assert "256 → 4, 512 → 5, 1024 → 6, 1280 → 6.65, 2048 → 7.9, 4096 → 15.13" in shown
    assert "extrapolated, and taken to be those at 256: published are 256 to 4096" in shown
    assert "image_size=256, not 800" in shown
    assert "days" in shown


def test_what_cannot_be_planned_is_one_line_with_what_to_do() -> None:
    def refused(*options: str) -> UserError:
        error = CliRunner().invoke(app, ["plan-training", *options]).exception
        assert isinstance(error, UserError)
        return error

    nothing = str(refused("--batch", "256"))
    assert "no VALID result of training with batch_size=256 is stored" in nothing
    command = nothing.split("`")[1]
    assert command.endswith("' | benchfarm sweep submit - --wait")
    sweep = parse_sweep(command.split("'")[1].encode(), "-")
    assert (sweep.knobs["batch_size"], sweep.knobs["image_size"]) == ((256,), (800,))
    assert "at most 256" in str(refused("--batch", "4096"))
    assert "its manifest has no convergence" in str(refused("resnet50"))
    assert "Workloads with one: retinanet_overfit, retinanet_resnext50." in str(
        refused("resnet500")
    )
    assert isinstance(refused("--device", "nobody"), NotFound)


@pytest.mark.parametrize("batch", ["0", "-1", "x"])
def test_a_batch_that_is_none_is_refused(batch: str) -> None:
    assert CliRunner().invoke(app, ["plan-training", "--batch", batch]).exit_code == 2


def test_the_page_has_points_rows_and_remarks(tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    assert f"page written to {page}" in said("-o", str(page)).replace("\n", "")
    text = page.read_text()
    for part in ("Epochs against batch", "batch 4096: 15.13 epochs, published", "are extrapolated"):
        assert part in text
    assert text.count('data-heading="time to train"') == 2


OVERFIT = "retinanet_overfit"


def trained(box: FarmBox, name: str, *batches: int) -> None:
    """Train to the target at some batches, each for 100 steps."""
    named = {"name": name, "workload": OVERFIT, "stack": "torch", "scenario": "training_quality"}
    sweep = {**named, "knobs": {"batch_size": list(batches)}}
    box.submit(Sweep.model_validate(sweep), again=True)
    for _ in batches:
        (job,) = box.ask().run
        box.clock.now += 1
        done = builders.result(0.5)
        took = {"time_to_target": Measurement(value=50.0, unit=Unit.SECONDS)}
        facts = {**done.environment, "steps_to_target": 100}
        update = {"metrics": {**done.metrics, **took}, "environment": facts}
        box.report(job.ref, done.model_copy(update=update))


def test_epochs_of_own_trainings_take_the_place_of_published_ones(
    box: FarmBox, tmp_path: Path
) -> None:
    trained(box, "epochs", 2, 4, 8)
    page = tmp_path / "plan.html"
    shown = " ".join(said(OVERFIT, "--epochs-of", "epochs", "-o", str(page)).split())
    assert "batch → epochs: 2 → 25, 4 → 50, 8 → 100 (own trainings, sweep epochs" in shown
    assert "no VALID result of training is stored: no times are planned" in shown
    assert "batch 8: 100 epochs, trained" in page.read_text()
    assert json.loads(said(OVERFIT, "--epochs-of", "epochs", "--json"))["own"] is True


def test_a_training_with_another_value_of_a_knob_left_out_is_not_beside(box: FarmBox) -> None:
    """Cells leave flush_denormals out at its default, which only the manifest of a stack tells."""
    trained(box, "learn", 2)
    cell = {"workload": OVERFIT, "stack": "torch", "scenario": "training"}
    for flush in (False, True):
        knobs = {"batch_size": 2, "flush_denormals": flush}
        sweep = Sweep.model_validate({"name": f"flush-{flush:d}", **cell, "knobs": knobs})
        box.submit(sweep, again=True)
        (job,) = box.ask().run
        box.clock.now += 1
        box.report(job.ref, builders.result(0.5))
    planned = json.loads(said(OVERFIT, "--json"))["planned"]
    took = {one["knobs"].get("flush_denormals", False): one["took_runs"] for one in planned}
    assert took == {False: 1, True: 0}


def test_own_trainings_at_one_batch_are_refused(box: FarmBox) -> None:
    trained(box, "one", 4)
    command = ["plan-training", OVERFIT, "--epochs-of", "one"]
    error = CliRunner().invoke(app, command).exception
    assert isinstance(error, UserError)
    assert "batches at which its trainings reached it: 4. Submit a sweep of scenario" in str(error)
    nobody = CliRunner().invoke(app, ["plan-training", OVERFIT, "--epochs-of", "nobody"]).exception
    assert isinstance(nobody, NotFound)
