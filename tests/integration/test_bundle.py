"""The bundle, built from the package registries, runs the runner with nothing of the host's."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from agents.inference.bundle.build import Bundle, build_bundle
from agents.inference.bundle.files import content_sha256
from agents.inference.bundle.recipe import BundleUnbuildable, load_recipe
from agents.inference.image_spec import image_spec
from agents.inference.on_device_result import with_host_use
from agents.inference.runner.spec import EXECUTORS
from agents.remotes.tree import Tree
from controller.contracts.catalog import load_catalog
from controller.contracts.mobile import Top1
from controller.contracts.policy import load_policy
from controller.contracts.result import Failure, Result, Validity
from controller.contracts.wire import MESSAGE, Progress, StepBatch
from models.mobile.classifier import shapes
from models.mobile.metrics import read_answers, score
from models.mobile.samples import write_samples
from tests.support.image_kinds import of_every_kind, of_folder, pushed, wanted
from tests.support.resize_model import resize_model
from tests.support.validity import MET_RULES
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

RECIPE = load_recipe("litert", "x86_64")
MODEL = Path(shapes.__file__).parent / "shapes_int8.tflite"
IMAGES = 64
"""Enough to see that it is the classifier that answers."""

Message = Progress | StepBatch | Result | Failure


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return build_bundle(tmp_path_factory.mktemp("bundles"), RECIPE)


@pytest.fixture(scope="module")
def unpacked(built: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The bundle from its tar, elsewhere than where it was built, in a read-only folder."""
    folder = tmp_path_factory.mktemp("a device") / "bundle"
    Tree.of(built.archive, folder).unpack(folder)
    _set_writable(folder, writable=False)
    yield folder
    _set_writable(folder, writable=True)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_samples(evaluation_set(), folder / "inputs", folder / "truths")
    return folder / "inputs"


@cache
def evaluation_set() -> shapes.Shapes:
    """Return the images; drawing them takes seconds."""
    return shapes.evaluation_set()


def _set_writable(folder: Path, *, writable: bool) -> None:
    for path in (folder, *folder.rglob("*")):
        mode = path.stat().st_mode
        path.chmod(mode | stat.S_IWUSR if writable else mode & ~0o222)


def _spec(folder: Path, dataset: Path | str, **settings: object) -> Path:
    spec = {
        "model": str(MODEL),
        "dataset": str(dataset),
        "log_dir": str(folder / "logs"),
        "scenario": "single_stream",
        "mode": "performance",
        "threads": 1,
        "delegate": "xnnpack",
        "batch_size": 1,
        "min_query_count": 64,
        "min_duration_ms": 0,
        "performance_sample_count": 1024,
        "answer": "top1",
    }
    path = folder / "spec.json"
    path.write_text(json.dumps(spec | settings))
    return path


def _start(bundle: Path, spec: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [bundle / "run", spec],
        env={},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _run(bundle: Path, spec: Path) -> tuple[list[Message], int]:
    with _start(bundle, spec) as process:
        said, complaints = process.communicate(timeout=PATIENCE_S)
    assert said, complaints
    return [MESSAGE.validate_json(line) for line in said.splitlines()], process.returncode


def _result(bundle: Path, spec: Path) -> Result:
    messages, status = _run(bundle, spec)
    assert isinstance(messages[-1], Result), messages[-1]
    assert all(isinstance(message, Progress) for message in messages[:-1])
    assert status == 0
    return messages[-1]


def _failure(bundle: Path, spec: Path) -> Failure:
    messages, status = _run(bundle, spec)
    assert isinstance(messages[-1], Failure)
    assert status == 1
    return messages[-1]


def _summary(result: Result) -> Mapping[str, str]:
    """LoadGen's own summary, label → value."""
    text = Path(result.artefacts["loadgen_summary"]).read_text()
    return dict(re.findall(r"^ *(.+?) *: *(.+)$", text, re.MULTILINE))


def _mapped_files(pid: int) -> set[str]:
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {fields[5] for line in lines if len(fields := line.split(maxsplit=5)) == 6}


def test_single_stream_in_a_bare_environment(unpacked: Path, dataset: Path, tmp_path: Path) -> None:
    result = _result(unpacked, _spec(tmp_path, dataset, min_duration_ms=6000))
    said = _summary(result)
    assert (result.validity, said["Result is"]) == (Validity.VALID, "VALID")
    assert result.metrics["latency_p90"].value == int(said["90.0th percentile latency (ns)"]) / 1e9
    assert result.metrics["latency_mean"].value == int(said["Mean latency (ns)"]) / 1e9
    assert result.metrics["duration"].value >= 6.0
    raw = np.load(result.artefacts["latencies"])
    assert len(raw) == result.environment["samples"]
    assert len(raw) >= 64
    # The runner's own clock starts after LoadGen has dispatched and stops before it returns.
    assert np.median(raw) / 1e9 == pytest.approx(result.metrics["latency_p50"].value, rel=0.1)


@pytest.mark.parametrize("delegate", ["xnnpack", "none"])
def test_offline(unpacked: Path, dataset: Path, tmp_path: Path, delegate: str) -> None:
    told = {"scenario": "offline", "delegate": delegate, "watch_host": True}
    result = _result(unpacked, _spec(tmp_path, dataset, **told))
    assert result.environment["delegate"] == delegate
    said = _summary(result)
    assert (result.validity, said["Result is"]) == (Validity.VALID, "VALID")
    # LoadGen prints six significant digits in both places.
    assert result.metrics["throughput"].value == float(said["Samples per second"])
    assert result.environment["samples"] == int(said["samples_per_query"]) == 64
    watched = with_host_use(result, load_policy("ci"), Path(result.artefacts["host_use"]).parent)
    assert watched.validity in MET_RULES
    timed_s, own_cores = (watched.environment[f"timed_{name}"] for name in ("s", "own_cores"))
    assert isinstance(timed_s, float)
    assert isinstance(own_cores, float)
    assert result.metrics["duration"].value <= timed_s + 1e-3  # it is rounded
    assert own_cores > 0


def test_accuracy_is_the_cards(unpacked: Path, dataset: Path, tmp_path: Path) -> None:
    result = _result(unpacked, _spec(tmp_path, dataset, mode="accuracy"))
    target = load_catalog().workloads["shapes_classifier"].quality_target
    assert target is not None
    assert result.validity is Validity.VALID
    assert result.environment["samples"] == shapes.EVALUATION_IMAGES
    answers = read_answers(Path(result.artefacts["loadgen_accuracy"]), shapes.EVALUATION_IMAGES)
    assert answers.objections == ()
    labels = evaluation_set().labels.tolist()
    top1 = score(Top1(), answers.by_sample, labels)["top1"].value
    # Other CPUs round int8 sums the same way; a few images lie on an edge of float arithmetic.
    assert top1 == pytest.approx(0.8359, abs=0.005)
    assert top1 >= target.value


@pytest.mark.parametrize("option", EXECUTORS[1:])
def test_xnnpack_s_options_are_in_the_bundle(
    unpacked: Path, dataset: Path, option: str, tmp_path: Path
) -> None:
    told: dict[str, object] = {"model": str(MODEL.with_name("shapes_float32.tflite"))}
    told |= {"mode": "accuracy", "first_samples": IMAGES, "executor": option}
    result = _result(unpacked, _spec(tmp_path, dataset, **told))
    answers = read_answers(Path(result.artefacts["loadgen_accuracy"]), IMAGES)
    labels = evaluation_set().labels[:IMAGES].tolist()
    assert score(Top1(), answers.by_sample, labels)["top1"].value > 0.75
    facts = result.environment
    assert facts["delegated_nodes"] == facts["graph_nodes"] == 12
    assert ("xnnpack_cache_bytes" in facts) == (option == "cache")


@pytest.mark.parametrize("fit", ["center_crop", "resize_then_crop", "pad"])
def test_images_are_decoded_to_the_bits_of_the_host_s(
    unpacked: Path, fit: str, tmp_path: Path
) -> None:
    """A model that answers with its input; seven images are in memory at once."""
    for name, content in of_every_kind():
        (tmp_path / name).write_bytes(content)
    how = wanted(fit)
    samples = of_folder(tmp_path, how)
    model = tmp_path / "echo.tflite"
    model.write_bytes(resize_model((how.height, how.width), (how.height, how.width), kind="uint8"))
    told: dict[str, object] = {"model": str(model), "mode": "accuracy", "answer": "raw"}
    told |= {"delegate": "none", "performance_sample_count": 7, **image_spec(how)}
    result = _result(unpacked, _spec(tmp_path, pushed(samples, tmp_path), **told))
    assert result.environment["performance_samples"] == 7
    answers = read_answers(Path(result.artefacts["loadgen_accuracy"]), len(samples))
    assert answers.objections == ()
    found = [answers.by_sample[index] for index in range(len(samples))]
    assert found == [samples.inputs(index)[0].tobytes() for index in range(len(samples))]


def test_a_run_against_the_rules_is_invalid_with_its_reason(
    unpacked: Path, dataset: Path, tmp_path: Path
) -> None:
    result = _result(unpacked, _spec(tmp_path, dataset, min_query_count=20))
    assert (result.validity, _summary(result)["Result is"]) == (Validity.INVALID, "INVALID")
    assert "Only processed 20 queries" in result.reasons[0]


def test_only_the_bundles_own_libraries_are_loaded(
    unpacked: Path, dataset: Path, tmp_path: Path
) -> None:
    spec = _spec(tmp_path, dataset, min_duration_ms=60_000, die_with_stdin=True)
    with _start(unpacked, spec) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        while json.loads(process.stdout.readline())["phase"] != "single_stream":
            pass
        mapped = _mapped_files(process.pid)
        process.stdin.close()  # long before its minute is over
        assert process.wait(PATIENCE_S) == 1
    own = str(unpacked)
    assert str(unpacked / "lib/libc.so.6") in mapped
    strangers = {name for name in mapped if not name.startswith((own, "[", "/dev/zero", "/memfd"))}
    assert strangers <= {str(MODEL), str(dataset / "input_0.npy")}


def test_every_library_finds_those_it_needs_inside(unpacked: Path) -> None:
    libraries = [p for p in unpacked.rglob("*.so*") if p.name != RECIPE.loader]
    assert len(libraries) > 30
    script = 'for f; do "$0" --inhibit-cache --library-path "$LIB" --list "$f"; done'
    listing = subprocess.run(
        ["sh", "-c", script, str(unpacked / "lib" / RECIPE.loader), *map(str, libraries)],
        env={"LIB": str(unpacked / "lib"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"(\S+) => (.+?)(?: \(0x|$)", listing.stdout, re.MULTILINE)
    assert found
    assert [pair for pair in found if not pair[1].startswith(str(unpacked))] == []


def test_nothing_is_written_into_the_bundle(built: Bundle, unpacked: Path) -> None:
    assert content_sha256(unpacked) == built.content_sha256


def test_every_source_has_its_bytecode(unpacked: Path) -> None:
    compiled = {p.name.split(".")[0]: p for p in (unpacked / "app").rglob("*.pyc")}
    assert set(compiled) == {p.stem for p in (unpacked / "app").rglob("*.py")}
    assert len(list(unpacked.rglob("*.pyc"))) == len(list(unpacked.rglob("*.py")))


@pytest.mark.parametrize(
    ("settings", "kind", "words"),
    [
        ({"scenario": "training"}, "spec_invalid", "scenario must be one of"),
        ({"model": "/nowhere.tflite"}, "model_unusable", "/nowhere.tflite"),
        ({"model": __file__}, "model_unusable", "test_bundle.py"),
        ({"dataset": "/nowhere"}, "dataset_unusable", "/nowhere"),
    ],
)
def test_what_cant_be_run_is_a_failure(
    unpacked: Path, dataset: Path, tmp_path: Path, settings: dict[str, str], kind: str, words: str
) -> None:
    changed: dict[str, str] = {"dataset": str(dataset)} | settings
    failure = _failure(unpacked, _spec(tmp_path, changed.pop("dataset"), **changed))
    assert (failure.kind, words in failure.message) == (kind, True)


def test_images_of_another_shape_are_a_failure(unpacked: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    np.save(small / "input_0.npy", np.zeros((2, 8, 8, 3), np.uint8))
    failure = _failure(unpacked, _spec(tmp_path, small))
    assert failure.kind == "model_unusable"
    assert "(1, 96, 96, 3)" in failure.message


def test_the_same_packages_make_the_same_bundle(built: Bundle) -> None:
    out_dir = built.folder.parent
    made_at = built.archive.stat().st_mtime_ns
    assert build_bundle(out_dir, RECIPE) == built
    assert built.archive.stat().st_mtime_ns == made_at, "it was whole, and was built again"
    shutil.rmtree(built.folder)
    assert build_bundle(out_dir, RECIPE) == built
    assert content_sha256(built.folder) == built.content_sha256
    assert built.archive.stat().st_mtime_ns != made_at


def test_a_tar_says_nothing_of_who_made_it(built: Bundle) -> None:
    with tarfile.open(built.archive) as tar:
        entries = tar.getmembers()
    assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)
    assert {(e.uid, e.gid, e.uname, e.gname, e.mtime) for e in entries} == {(0, 0, "", "", 0)}
    assert all(entry.isfile() for entry in entries)


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(BundleUnbuildable, match=r"litert-vax.*Choose one of .*litert-x86_64"):
        load_recipe("litert", "vax")


def test_packages_out_of_reach_are_named_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "apt.conf"
    config.write_text('Dir::Etc::SourceList "/dev/null";\nDir::Etc::SourceParts "/dev/null";\n')
    monkeypatch.setenv("APT_CONFIG", str(config))
    with pytest.raises(BundleUnbuildable, match=r"apt-get download: .*\. Give apt package sources"):
        build_bundle(tmp_path / "bundles", RECIPE)


def test_a_host_without_apt_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BundleUnbuildable, match="apt-get does not start: No such file"):
        build_bundle(tmp_path / "bundles", RECIPE)
