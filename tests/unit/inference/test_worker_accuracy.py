"""Accuracy beside speed in a worker, under the real LoadGen: what lowers it, and who has none."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from agents.inference.run_length import repeats
from agents.inference.worker_accuracy import modes_of, require_scorer, scored
from agents.inference.worker_run import run
from controller.contracts.audit import AUDIT
from controller.contracts.base import Scalar
from controller.contracts.errors import WorkerFault
from controller.contracts.facts import undeclared
from controller.contracts.manifests import QualityTarget
from controller.contracts.result import Blame, Result, Validity
from controller.contracts.wire import Job, TrainingProgram, WorkerSpec
from controller.loadgen.logs import ACCURACY
from tests.support import builders
from tests.support.detectors import SCENES, Seer
from tests.support.knobs import launch_knobs, scenario_knobs

STACK: Mapping[str, Scalar] = {"precision": "fp32", "memory_format": "contiguous"}


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))


def job_of(scenario: str, arguments: Mapping[str, Scalar], **knobs: Scalar) -> Job:
    program = TrainingProgram(
        builder="tests.support.detectors:Seer",
        arguments=dict(arguments),
        backend="agents.backends.torch_eager.backend:TorchEager",
        quality_target=QualityTarget(metric="mAP", value=0.5),
    )
    own: dict[str, Scalar] = {"weights": "learnt", **STACK}
    given = {**own, **launch_knobs(), **scenario_knobs(scenario, **knobs)}
    update = {"program": program, "scenario": scenario, "knobs": given}
    return builders.job().model_copy(update=update)


def ran(
    folder: Path,
    scenario: str = "offline",
    knobs: Mapping[str, Scalar] | None = None,
    seer: Mapping[str, Scalar] | None = None,
) -> Result:
    """Return what a worker measures of a Seer, by default its accuracy alone."""
    given: dict[str, Scalar] = {"mode": "accuracy", **(knobs or {})}
    job = job_of(scenario, seer or {}, **given)
    spec = WorkerSpec(job=job, device=builders.cpu(), artefact_dir=str(folder))
    return run(spec, lambda _: None)


def test_a_submission_has_accuracy_beside_speed(tmp_path: Path) -> None:
    result = ran(tmp_path, knobs={"mode": "submission"})
    assert result.validity is not Validity.INVALID, result.reasons
    assert result.metrics["mAP"].value == 1
    assert result.metrics["throughput"].value > 0
    facts = result.environment
    assert (facts["mode"], facts["data_images"]) == ("performance", len(SCENES))
    assert facts["quality_target"] == 0.5
    assert {"accuracy_loadgen_accuracy", "performance_latencies"} < result.artefacts.keys()
    missed = facts["run_rules_missed"]
    assert isinstance(missed, tuple)
    assert missed[0] == "data set not checked"
    assert not {"random weights", "made-up samples", "accuracy not known"} & {*missed}
    assert undeclared(facts, {}) == []


@pytest.mark.parametrize(
    ("scenario", "knobs"),
    [
        ("single_stream", {}),
        ("server", {}),
        *(("multi_stream", {"samples_per_query": each}) for each in (2, 3, 8)),
    ],
)
def test_each_sample_is_scored_once_in_every_scenario(
    scenario: str, knobs: dict[str, Scalar], tmp_path: Path
) -> None:
    result = ran(tmp_path, scenario, knobs)
    assert (result.validity, result.metrics["mAP"].value) == (Validity.VALID, 1)
    assert result.environment["mode"] == "accuracy"
    assert "throughput" not in result.metrics


@pytest.mark.parametrize(
    ("seer", "least", "most"),
    [
        ({"classes_off": 1}, 0.0, 0.1),  # a wrong map of classes
        ({"scale": 1.6}, 0.0, 0.2),  # boxes of another size of image
        ({"blind_to": 0}, 0.3, 0.9),  # of classes 0, 1 and 2: a half, a half, all
    ],
    ids=str,
)
def test_what_it_gets_wrong_lowers_its_accuracy(
    seer: dict[str, Scalar], least: float, most: float, tmp_path: Path
) -> None:
    result = ran(tmp_path, knobs={"quality_target": 0.95}, seer=seer)
    assert least <= result.metrics["mAP"].value <= most
    assert result.validity is Validity.INVALID
    (reason,) = result.reasons
    assert reason.startswith("mAP 0.")
    assert reason.endswith("is below the sweep's own quality target 0.9500")
    assert result.environment["own_quality_target"] == 0.95


def test_below_the_workloads_own_target_is_invalid(tmp_path: Path) -> None:
    result = ran(tmp_path, seer={"scale": 1.6})
    assert result.reasons[0].endswith("is below the quality target 0.5000")


def test_an_image_that_was_left_out_is_invalid(tmp_path: Path) -> None:
    whole = ran(tmp_path)
    log = tmp_path / "accuracy" / ACCURACY
    lines = log.read_text().splitlines()
    entry = next(number for number, line in enumerate(lines) if '"qsl_idx" : 2' in line)
    log.write_text("\n".join(line for number, line in enumerate(lines) if number != entry))
    plain = whole.model_copy(update={"metrics": {}})
    result = scored(plain, Seer(), log.parent)
    assert result.validity is Validity.INVALID
    assert result.reasons == (f"accuracy run answered 3 of {len(SCENES)} samples",)


def test_a_log_that_is_damaged_is_one_line(tmp_path: Path) -> None:
    whole = ran(tmp_path)
    log = tmp_path / "accuracy" / ACCURACY
    log.write_text(log.read_text().replace("qsl_idx", "number"))
    with pytest.raises(WorkerFault) as raised:
        scored(whole, Seer(), log.parent)
    failure = raised.value.failure
    assert (failure.blame, failure.kind) == (Blame.HARNESS, "accuracy_log")
    assert failure.message.startswith(f"cannot read {log}: KeyError")
    assert "\n" not in failure.message


def test_random_weights_made_up_samples_and_audits_have_no_accuracy() -> None:
    job = job_of("offline", {})
    untrained = job.model_copy(update={"knobs": {**job.knobs, "weights": "none"}})
    audit = job.model_copy(update={"knobs": {**job.knobs, AUDIT: "random-data"}})
    assert modes_of(job, 4) == ("performance", "accuracy")
    assert modes_of(job, 0) == modes_of(untrained, 4) == modes_of(audit, 4) == ("performance",)
    for refused, truths, why in (
        (untrained, 4, "its weights are random"),
        (job, 0, "its samples have no truths"),
    ):
        asked = refused.model_copy(update={"knobs": {**refused.knobs, "mode": "accuracy"}})
        with pytest.raises(WorkerFault) as raised:
            modes_of(asked, truths)
        failure = raised.value.failure
        assert failure.blame is Blame.USER
        assert failure.message == (
            f"cannot score the answers of resnet: {why}. Set mode to performance."
        )


def test_a_submission_of_random_weights_measures_the_data_sets_samples(tmp_path: Path) -> None:
    job = job_of("offline", {}, mode="submission")
    job = job.model_copy(update={"knobs": {**job.knobs, "weights": "none"}})
    spec = WorkerSpec(job=job, device=builders.cpu(), artefact_dir=str(tmp_path))
    result = run(spec, lambda _: None)
    assert "mAP" not in result.metrics
    assert result.environment["data_images"] == len(SCENES)
    missed = result.environment["run_rules_missed"]
    assert isinstance(missed, tuple)
    assert missed[:3] == ("random weights", "data set not checked", "accuracy not known")


def test_a_stack_that_cannot_score_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_of("offline", {})
    require_scorer(job, Seer().output)
    monkeypatch.setattr(
        "agents.inference.worker_accuracy.find_spec",
        lambda name: None if name == "pycocotools" else find_spec(name),
    )
    with pytest.raises(WorkerFault) as raised:
        require_scorer(job, Seer().output)
    failure = raised.value.failure
    assert failure.blame is Blame.USER
    assert failure.message == (
        "cannot score the answers of resnet: the environment of stack torch has no pycocotools. "
        "Set mode to performance, or use stack torch."
    )


def test_only_what_loadgen_fills_its_queries_with_may_be_answered_twice(tmp_path: Path) -> None:
    jobs = [job_of("multi_stream", {}, samples_per_query=each) for each in (1, 2, 3, 8)]
    assert [repeats(job, 4, 4) for job in jobs] == [0, 0, 2, 4]
    assert repeats(job_of("offline", {}), 130, 64) == 0
    assert repeats(jobs[3], 130, 64) == 6, "two sets of 64, and 2 samples in a query of 8"
    whole = ran(tmp_path, "multi_stream", {"samples_per_query": 3})
    plain = whole.model_copy(update={"metrics": {}})
    result = scored(plain, Seer(), tmp_path / "accuracy", repeated=1)
    assert result.reasons == ("accuracy run answered 2 samples twice",)
