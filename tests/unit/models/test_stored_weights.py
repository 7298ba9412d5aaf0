"""Weights in the store of models: added, listed, verified, fetched, and found by a worker."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
import torch

from agents.stacks.weights import SHA256, require_unchanged, with_weights
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from controller.contracts.errors import SweepInvalid, UserError, WorkerFault
from controller.contracts.manifests import WorkloadManifest
from controller.contracts.models import FetchEvent, FetchRequest
from controller.contracts.result import Blame
from controller.contracts.sweep import Cell, Sweep
from controller.contracts.weights import Weights, misfit
from controller.contracts.wire import TrainingProgram, WorkerSpec
from controller.scheduling.expansion import cells_of
from controller.scheduling.model_files import hosts_without, needed_files
from controller.scheduling.program import program_of
from models.mobile import catalogue
from models.mobile.errors import ContentDiffers
from models.mobile.fetching.fetch import fetch
from models.mobile.store import Store
from models.weights.errors import WeightsUnusable
from tests.support import builders
from tests.support.checkpoints import classifier

CATALOG = load_catalog()
OWN = "resnet18/weights/mine"
"""Any checkpoint of a known kind can be added; whether it fits, the run finds out."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("BENCHFARM_MODELS", str(tmp_path / "store"))
    return Store(tmp_path / "store")


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "mine.pth"
    torch.save(classifier("resnet50", 10, seed=1), path)
    return path


def cell(workload: str = "resnet18", **knobs: Scalar) -> Cell:
    keys = {"name": "x", "workload": workload, "stack": "torch", "scenario": "training"}
    (found,) = cells_of(Sweep.model_validate({**keys, "knobs": knobs}), CATALOG)
    return found


def spec_of(cell: Cell) -> WorkerSpec:
    update = {"program": program_of(cell, CATALOG), "knobs": cell.knobs}
    job = builders.job().model_copy(update=update)
    return WorkerSpec(job=job, device=builders.cpu(), artefact_dir="")


def test_an_own_checkpoint_is_added_under_a_name_and_found_by_a_worker(
    store: Store, checkpoint: Path
) -> None:
    (added,) = catalogue.add(store, checkpoint, OWN)
    assert added.keys == (OWN,)
    assert added.note.startswith("mine.pth: a classifier of 10 classes, in ")
    (status,) = [s for s in catalogue.statuses(store) if s.key == OWN]
    digest = hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    assert (status.there, status.checksum) == (True, f"sha256:{digest}")

    spec, facts = with_weights(spec_of(cell(weights="mine")))
    assert facts == {SHA256: digest}
    program = spec.job.program
    assert isinstance(program, TrainingProgram)
    path = Path(str(program.arguments["weights"]))
    assert path.read_bytes() == checkpoint.read_bytes()
    assert with_weights(spec) == (spec, {}), "ranks get a job whose weights were found"


def test_without_weights_a_worker_s_job_stays_as_it_is(store: Store) -> None:
    spec = spec_of(cell())
    assert with_weights(spec) == (spec, {})


def test_the_plain_form_of_a_workload_begins_with_the_same_weights(
    store: Store, checkpoint: Path
) -> None:
    catalogue.add(store, checkpoint, OWN)
    given = spec_of(cell(weights="mine"))
    program = given.job.program
    assert isinstance(program, TrainingProgram)
    beside = program.model_copy(update={"plain": program.arguments})
    job = given.job.model_copy(update={"program": beside})
    found = with_weights(given.model_copy(update={"job": job}))[0].job.program
    assert isinstance(found, TrainingProgram)
    assert found.plain == found.arguments


def test_weights_that_are_not_there_or_changed_fail_with_blame_user(
    store: Store, checkpoint: Path
) -> None:
    spec = spec_of(cell(weights="mine"))
    with pytest.raises(
        WorkerFault, match=rf"find {OWN}: .* `benchfarm models add PATH --as {OWN}`"
    ):
        with_weights(spec)
    catalogue.add(store, checkpoint, OWN)
    found = with_weights(spec)[0].job.program
    assert isinstance(found, TrainingProgram)
    Path(str(found.arguments["weights"])).write_bytes(b"other")
    with pytest.raises(WorkerFault, match="its checksum is sha256:") as caught:
        with_weights(spec)
    assert caught.value.failure.blame is Blame.USER
    (status,) = [s for s in catalogue.verify(store) if s.key == OWN]
    assert "its checksum is sha256:" in str(status.trouble)


def test_weights_that_change_while_they_are_loaded_fail_the_run(
    store: Store, checkpoint: Path
) -> None:
    catalogue.add(store, checkpoint, OWN)
    spec, facts = with_weights(spec_of(cell(weights="mine")))
    require_unchanged(facts)
    require_unchanged({})
    program = spec.job.program
    assert isinstance(program, TrainingProgram)
    path = Path(str(program.arguments["weights"]))
    for change in (lambda: path.write_bytes(b"other"), path.unlink):
        change()
        with pytest.raises(WorkerFault, match=str(facts[SHA256])) as caught:
            require_unchanged(facts)
        assert caught.value.failure.blame is Blame.USER


@pytest.mark.parametrize("key", [OWN, None])
def test_a_fifo_is_refused_and_not_waited_for(
    store: Store, tmp_path: Path, key: str | None
) -> None:
    os.mkfifo(tmp_path / "fifo.pth")
    with pytest.raises(UserError, match=r"add .*/fifo\.pth: it is no regular file"):
        catalogue.add(store, tmp_path / "fifo.pth", key)


def test_what_is_no_checkpoint_is_not_added(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "page.pth"
    path.write_text("<html>not found</html>")
    with pytest.raises(WeightsUnusable, match="it is damaged, or no checkpoint"):
        catalogue.add(store, path, OWN)
    assert store.contents() == []


@pytest.mark.parametrize(
    "key",
    [
        *("lstm/weights/mine", "resnet18/weights/none", "resnet18/weights/a/b"),
        *("resnet18/weights/../../x", "resnet18/weight/mine", "nothing/weights/mine"),
    ],
)
def test_a_key_that_no_weights_can_have_is_refused(
    store: Store, checkpoint: Path, key: str
) -> None:
    with pytest.raises(UserError, match="no manifest has that key"):
        catalogue.add(store, checkpoint, key)


def test_a_file_that_is_not_the_published_one_is_refused(store: Store, checkpoint: Path) -> None:
    with pytest.raises(ContentDiffers, match=r"not sha256:0676ba61b6"):
        catalogue.add(store, checkpoint, "resnet50/weights/imagenet_v1")
    # No whole checksum is published of this one, but its name has the beginning.
    with pytest.raises(ContentDiffers, match=r"has the checksum sha256:f37072fd…, and it has"):
        catalogue.add(store, checkpoint, "resnet18/weights/imagenet_v1")


def test_every_published_file_says_where_it_is_and_what_it_is_of() -> None:
    told = {n: w for n, w in CATALOG.workloads.items() if w.weights is not None}
    assert {"resnet18", "resnet50", "retinanet_resnext50"} <= told.keys()
    for workload in told.values():
        for weights in (workload.weights or {}).values():
            assert weights.knobs or "backbone" not in workload.knobs
            assert weights.source
            begins = weights.checksum_begins
            assert begins is None or (weights.checksum or begins).startswith(begins)


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"weights": "coco_v1"}, "are of backbone=resnet50, num_classes=91, norm_eps=0.0. Set ba"),
        ({"weights": "coco_v1", "backbone": "resnet50", "norm_eps": 0}, "of num_classes=91. Set"),
        ({"weights": "../../etc/passwd"}, "'../../etc/passwd' is no name of weights"),
        ({"weights": "/tmp/x.pth"}, "'/tmp/x.pth' is no name of weights"),
        ({"weights": ""}, "'' is no name of weights"),
    ],
)
def test_a_sweep_with_weights_of_other_knobs_or_a_path_is_refused(
    knobs: dict[str, Scalar], said: str
) -> None:
    with pytest.raises(SweepInvalid, match=r"key knobs\.weights: ") as caught:
        program_of(cell("retinanet_resnext50", **knobs), CATALOG)
    assert said in str(caught.value)


def test_a_plan_names_the_hosts_that_lack_weights() -> None:
    given = cell("resnet50", weights="imagenet_v2")
    needed = needed_files(given, CATALOG)
    assert needed == {"resnet50/weights/imagenet_v2": None}
    (host,) = hosts_without([("host-1", needed)], {}, {"host-1": ()})
    assert "run `benchfarm models fetch resnet50 --weights imagenet_v2`" in host.line
    assert hosts_without([("host-1", needed)], {}, {"host-1": tuple(needed)}) == []


def test_weights_are_fetched_from_a_mirror_and_checked(
    store: Store, tmp_path: Path, checkpoint: Path
) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "resnet50-11ad3fa6.pth").write_bytes(checkpoint.read_bytes())
    said: list[FetchEvent] = []
    request = FetchRequest(tasks=("resnet50",), weights=("imagenet_v2",), mirror=str(mirror))
    with pytest.raises(ContentDiffers, match=r"has the checksum sha256:11ad3fa6…"):
        fetch(request, store, said.append)
    assert [event.state for event in said][-1] == "failed"
    assert not [key for key in store.contents() if "/" in key]


def test_a_manifest_s_weights_and_truths_need_their_knobs() -> None:
    manifest = CATALOG.workloads["resnet50"].model_dump()
    for planted, said in (
        ({**manifest, "knobs": {}, "switches": ()}, "knobs.weights must be any name"),
        ({**manifest, "weights": {"x": {"knobs": {"depth": 9}}}}, "unknown knobs: depth"),
        ({**manifest, "truths": {"not_with": {"data": ("made",)}}}, "truths are told of unknown"),
    ):
        with pytest.raises(ValueError, match=said):
            WorkloadManifest.model_validate(planted)


def test_a_whole_number_fits_where_a_knob_is_a_float() -> None:
    assert misfit(Weights(knobs={"norm_eps": 0}), {"norm_eps": 0.0}) is None
    assert misfit(Weights(knobs={"norm_eps": 0.0}), {"norm_eps": 1e-5}) == "norm_eps=0.0"
