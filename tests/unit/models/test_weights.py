"""Checkpoints of torchvision and MLCommons in our models; what is none is refused in one line."""

from __future__ import annotations

import copy
import os
import pickle
import zipfile
from argparse import Namespace
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.resnet import Resnet18Training, Resnet50Training
from models.retinanet.frozen_norm import FrozenBatchNorm2d
from models.retinanet.model import RetinaNet
from models.retinanet.workload import RetinaNetTraining
from models.seeding import seeded
from models.weights.checkpoint import read_checkpoint
from models.weights.errors import WeightsUnusable
from models.weights.load import load_resnet, load_retinanet, summary
from tests.support.checkpoints import body_of, classifier, detections_of, detector, outputs_of
from tests.support.knobs import retinanet_arguments, workload_arguments

CLASSES, SIDE = 4, 96
State = dict[str, Tensor]


def saved(folder: Path, content: object, name: str = "weights.pth") -> Path:
    path = folder / name
    torch.save(content, path)
    return path


def retinanet(backbone: str = "resnext50_32x4d", classes: int = CLASSES) -> RetinaNet:
    """Return a copy; drawing all weights takes five times as long."""
    return copy.deepcopy(_drawn(backbone, classes))


@lru_cache(maxsize=2)
def _drawn(backbone: str, classes: int) -> RetinaNet:
    with seeded(0):
        return RetinaNet(classes, 3, backbone)


def workload(path: Path, **given: Any) -> RetinaNetTraining:  # noqa: ANN401 - a knob's value
    sizes = {"image_size": SIDE, "batch_size": 2, "num_classes": CLASSES}
    return RetinaNetTraining(**retinanet_arguments(**{**sizes, "weights": str(path), **given}))


@pytest.mark.parametrize("backbone", ["resnext50_32x4d", "resnet50"])
@pytest.mark.parametrize("old", [False, True])
def test_a_detector_s_checkpoint_is_every_tensor_of_ours(
    tmp_path: Path, backbone: str, old: bool
) -> None:
    state = detector(backbone, CLASSES, seed=1)
    model = retinanet(backbone)
    load_retinanet(model, saved(tmp_path, detector(backbone, CLASSES, seed=1, old=old)))
    loaded = model.state_dict()
    assert loaded.keys() == state.keys(), "torchvision's newer names are ours"
    assert all(torch.equal(loaded[name], state[name]) for name in state)


@pytest.mark.parametrize(
    ("backbone", "knobs", "eps"),
    [
        ("resnext50_32x4d", {}, 1e-5),
        ("resnet50", {"norm_eps": 0.0}, 0.0),
        ("resnext50_32x4d", {"frozen_bn": "folded", "packed_levels": True}, 1e-5),
    ],
)
@torch.no_grad()
def test_detections_are_those_of_torchvision_s_documented_steps(
    tmp_path: Path, backbone: str, knobs: dict[str, Any], eps: float
) -> None:
    state = detector(backbone, CLASSES, seed=2)
    mine = workload(saved(tmp_path, state), backbone=backbone, **knobs)
    images = mine.samples(2)
    found = mine.answers(mine.build_model().eval()(images))
    levels = outputs_of(state, backbone, images, eps)
    for number, rows in enumerate(found):
        expected = torch.tensor(detections_of(levels, number, SIDE))
        assert len(rows) == len(expected) > 5
        boxes, labels, scores = rows[:, (1, 0, 3, 2)], rows[:, 4], rows[:, 5]
        assert torch.equal(labels, expected[:, 4])
        # fp32 through sixteen blocks; boxes of up to 96 px.
        torch.testing.assert_close(scores, expected[:, 5], rtol=0, atol=1e-5)
        torch.testing.assert_close(boxes, expected[:, :4], rtol=0, atol=1e-2)


def test_norms_have_the_checkpoint_s_statistics_and_stay_frozen(tmp_path: Path) -> None:
    state = detector("resnext50_32x4d", CLASSES, seed=1)
    mine = workload(saved(tmp_path, state))
    model = mine.build_model()
    norms = {n: m for n, m in model.named_modules() if isinstance(m, FrozenBatchNorm2d)}
    assert len(norms) == 53
    for name, norm in norms.items():
        assert torch.equal(norm.running_mean, state[f"{name}.running_mean"])
        assert torch.equal(norm.running_var, state[f"{name}.running_var"])
        assert not list(norm.parameters())
    batch = mine.batch(0)
    torch.autograd.backward(mine.loss(mine.forward(model, batch), batch))
    assert model.backbone.body.get_submodule("layer1.0.conv1").get_parameter("weight").grad is None


@pytest.mark.parametrize("counters", [False, True])
def test_an_imagenet_classifier_becomes_the_backbone_and_the_rest_is_the_seed_s(
    tmp_path: Path, counters: bool
) -> None:
    state = classifier("resnext50_32x4d", 1000, seed=1, counters=counters)
    model, before = retinanet(), retinanet().state_dict()
    load_retinanet(model, saved(tmp_path, state))
    for name, tensor in model.state_dict().items():
        theirs = name.removeprefix("backbone.body.")
        assert torch.equal(tensor, state[theirs] if theirs != name else before[name]), name


@pytest.mark.parametrize("counters", [False, True])
@torch.no_grad()
def test_an_imagenet_classifier_is_resnet_50_with_its_last_layer(
    tmp_path: Path, counters: bool
) -> None:
    state = classifier("resnet50", 10, seed=3, counters=counters)
    given = workload_arguments(
        "resnet50", image_size=32, num_classes=10, weights=str(saved(tmp_path, state))
    )
    mine = Resnet50Training(**given)
    logits = mine.build_model().eval()(mine.samples(2))

    detecting = {f"backbone.body.{n}": t for n, t in state.items()}
    *_, c5 = body_of(detecting, "resnet50", mine.samples(2), 1e-5)
    expected = c5.mean((2, 3)) @ state["fc.weight"].T + state["fc.bias"]
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda state: {"model": state, "epoch": 5, "args": Namespace(lr=1e-4, data="x")},
        lambda state: {"state_dict": state, "best": 0.3},
        lambda state: {"model": {f"module.{n}": t for n, t in state.items()}},
        lambda state: {n: nn.Parameter(t, requires_grad=False) for n, t in state.items()},
        lambda state: {n: t.double() for n, t in state.items()},
    ],
    ids=["mlcommons", "lightning", "parallel", "parameters", "fp64"],
)
def test_a_training_program_s_checkpoint_has_the_model_inside(
    tmp_path: Path, wrapped: Callable[[State], object]
) -> None:
    state = detector("resnet50", CLASSES, seed=1)
    model = retinanet("resnet50")
    load_retinanet(model, saved(tmp_path, wrapped(state)))
    assert all(torch.equal(tensor, state[n]) for n, tensor in model.state_dict().items())
    assert {tensor.dtype for tensor in model.state_dict().values()} == {torch.float32}


class Hostile:
    """Would make a file if it were unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.path}",)


def cut(path: Path, size: int) -> Path:
    path.write_bytes(path.read_bytes()[:size])
    return path


def text(path: Path, content: bytes) -> Path:
    file = path / "text.pth"
    file.write_bytes(content)
    return file


def packed(folder: Path) -> Path:
    """Return a checkpoint of a few KiB whose tensor would fill 40 MB."""
    path = saved(folder, {"a": torch.zeros(10_000_000)})
    with zipfile.ZipFile(path) as plain:
        records = {name: plain.read(name) for name in plain.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as small:
        for name, content in records.items():
            small.writestr(name, content)
    return path


def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "fifo.pth")
    return folder / "fifo.pth"


def shadowed(folder: Path, name: str) -> Path:
    """Return a checkpoint with a dictionary one of whose methods is a number."""
    state = OrderedDict(a=torch.ones(1))
    state.__dict__[name] = 1
    return saved(folder, {"model": state} if name == "items" else state)


def unusual(folder: Path, dtype: torch.dtype) -> Path:
    return saved(folder, {"a": torch.empty(2, dtype=dtype)})


WRONG: dict[str, tuple[Callable[[Path], Path], str]] = {
    "text": (lambda f: text(f, b"<html>not found</html>"), "it is damaged, or no checkpoint"),
    "empty": (lambda f: text(f, b""), "it is damaged, or no checkpoint"),
    "pickle": (lambda f: text(f, pickle.dumps([1, 2])), "it is damaged, or no checkpoint"),
    "cut": (lambda f: cut(saved(f, {"a": torch.ones(999)}), 900), "it is damaged, or no checkp"),
    "missing": (lambda f: f / "none.pth", "No such file or directory. Make the file readable."),
    "folder": (lambda f: f, "Is a directory"),
    "list": (lambda f: saved(f, [torch.ones(1)]), "it holds a list, not a dictionary of tensors"),
    "nothing": (lambda f: saved(f, {}), "it holds no tensor"),
    "number": (lambda f: saved(f, {"a": 1}), "a is of type int, not a tensor"),
    "key": (lambda f: saved(f, {1: torch.ones(1)}), "a key of type int is no name of a"),
    "name": (lambda f: saved(f, {"a\nb": torch.ones(1)}), r"'a\nb' is no name of a tensor"),
    "sparse": (lambda f: saved(f, {"a": torch.ones(2, 2).to_sparse()}), "a has no plain numbers"),
    "meta": (lambda f: saved(f, {"a": torch.ones(2, device="meta")}), "a has no plain numbers"),
    "compressed": (packed, "its records are compressed or overlap, which torch.save never does"),
    "fifo": (fifo, "it is no regular file"),
    "bits": (lambda f: unusual(f, torch.bits8), "a has no plain numbers"),
    "fp8": (lambda f: unusual(f, torch.float8_e4m3fn), "a has no plain numbers"),
    "complex": (lambda f: unusual(f, torch.complex64), "a has no plain numbers"),
    "bool": (lambda f: unusual(f, torch.bool), "a has no plain numbers"),
    "module": (lambda f: saved(f, nn.Linear(1, 1)), "would run torch.nn.modules.linear.Linear"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_checkpoint_is_refused_in_one_line(tmp_path: Path, what: str) -> None:
    make, said = WRONG[what]
    path = make(tmp_path)
    with pytest.raises(WeightsUnusable) as caught:
        read_checkpoint(path)
    message = str(caught.value)
    assert message.startswith(f"cannot read weights {path}: ")
    assert said in message
    assert "\n" not in message
    assert "weights_only" not in message, "torch's advice would be to run its code"


@pytest.mark.parametrize("name", ["get", "keys", "values", "__len__"])
def test_a_dictionary_s_attributes_replace_none_of_its_methods(tmp_path: Path, name: str) -> None:
    assert read_checkpoint(shadowed(tmp_path, name))["a"].tolist() == [1]


def test_a_tensor_s_attributes_are_left_behind(tmp_path: Path) -> None:
    given = torch.ones(2)
    given.dim = given.is_complex = 1  # type: ignore[assignment,method-assign]
    read = read_checkpoint(saved(tmp_path, {"a": given}))["a"]
    assert read.dim() == 1
    assert not read.is_complex()


def test_too_little_memory_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object, **_given: object) -> None:
        raise RuntimeError(
            "[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"
        )

    path = saved(tmp_path, {"a": torch.ones(1)})
    monkeypatch.setattr(torch, "load", full)
    with pytest.raises(WeightsUnusable, match="it needs more memory than there is"):
        read_checkpoint(path)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_hostile_file_runs_nothing(tmp_path: Path, legacy: bool) -> None:
    mark = tmp_path / "mark"
    path = tmp_path / "weights.pth"
    content = {"model": {"a": torch.ones(1)}, "args": Hostile(mark)}
    torch.save(content, path, _use_new_zipfile_serialization=not legacy)
    with pytest.raises(WeightsUnusable, match=r"it would run posix\.system, which is code") as told:
        read_checkpoint(path)
    assert not mark.exists()
    assert "\n" not in str(told.value)


def without(state: State, name: str) -> State:
    return {n: t for n, t in state.items() if n != name}


BIAS = "head.regression_head.bbox_reg.bias"
VARIANCE = "backbone.body.bn1.running_var"
DIFFERENT: dict[str, tuple[Callable[[State], State], str]] = {
    "missing": (lambda s: without(s, BIAS), f"it lacks {BIAS}. Give weights of this workload"),
    "unexpected": (lambda s: s | {"neck.bias": torch.ones(1)}, "the model has no neck.bias"),
    "shape": (lambda s: s | {BIAS: torch.ones(7)}, f"{BIAS} is 7, not 36"),
    "classes": (
        lambda s: detector("resnext50_32x4d", 91, seed=1),
        "it tells 91 classes apart, not 4. Set the knob num_classes to 91",
    ),
    "backbone": (
        lambda s: detector("resnet50", CLASSES, seed=1),
        "or choose the backbone that they are of",
    ),
    "nan": (lambda s: s | {BIAS: torch.full((36,), float("nan"))}, "bbox_reg.bias has values that"),
    "infinite in fp32": (
        lambda s: s | {BIAS: torch.full((36,), 1e300, dtype=torch.float64)},
        "bbox_reg.bias has values that are no finite numbers",
    ),
    "whole numbers": (
        lambda s: s | {BIAS: torch.ones(36, dtype=torch.int8)},
        f"{BIAS} has whole numbers (int8)",
    ),
    "negative variance": (
        lambda s: s | {VARIANCE: -torch.ones(64)},
        f"{VARIANCE} has variances below 0",
    ),
    "twice": (
        lambda s: s | {"backbone.fpn.inner_blocks.0.bias": torch.zeros(256)},
        "it has backbone.fpn.inner_blocks.0.0.bias twice, also as backbone.fpn.inner_blocks.0.bias",
    ),
    "huge": (
        lambda s: s | {BIAS: torch.ones(1).expand(10**12)},
        f"{BIAS} is 1000000000000, not 36",
    ),
    "classifier": (lambda s: {"fc.weight": torch.ones(1)}, "it lacks backbone.body.bn1.bias, "),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_every_kind_of_difference_is_named_and_nothing_is_loaded(tmp_path: Path, what: str) -> None:
    plant, said = DIFFERENT[what]
    model = retinanet()
    before = {n: t.clone() for n, t in model.state_dict().items()}
    path = saved(tmp_path, plant(detector("resnext50_32x4d", CLASSES, seed=1)))
    with pytest.raises(WeightsUnusable) as caught:
        load_retinanet(model, path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert all(torch.equal(tensor, before[n]) for n, tensor in model.state_dict().items())


def test_a_classifier_of_other_classes_or_depth_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, classifier("resnet50", 10, seed=1))
    model = Resnet50Training(**workload_arguments("resnet50", num_classes=12)).build_model()
    with pytest.raises(WeightsUnusable, match=r"10 classes apart, not 12\. Set the knob num_cl"):
        load_resnet(model, path)
    other = Resnet18Training(**workload_arguments("resnet18", num_classes=10)).build_model()
    with pytest.raises(WeightsUnusable, match=r"layer\S+ is \S+, not \S+"):
        load_resnet(other, path)


def test_a_checkpoint_is_described_when_it_is_added(tmp_path: Path) -> None:
    told = summary(saved(tmp_path, detector("resnet50", 91, seed=1, old=True)))
    assert told.startswith("a detector of 91 classes, in ")
    state = classifier("resnet50", 1000, seed=1)
    assert summary(saved(tmp_path, state)).startswith("a classifier of 1000 classes, in ")
    headless = {n: t for n, t in state.items() if not n.startswith("fc.")}
    assert summary(saved(tmp_path, headless)).startswith("a backbone, in ")
    with pytest.raises(WeightsUnusable, match=r"neither fc\.bias nor conv1\.weight"):
        summary(saved(tmp_path, {"a": torch.ones(1)}))
