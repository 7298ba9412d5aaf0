from __future__ import annotations

import inspect

import pytest
import torch

from agents.backends.torch_eager.backend import TorchEager
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from models.dlrm import DENSE, DlrmTraining
from tests.support.knobs import workload_arguments
from tests.support.workloads import losses_on_one_batch

SMALL: dict[str, Scalar] = {"tables": 3, "table_rows": 20, "embedding_size": 8, "batch_size": 32}


def small(**given: Scalar) -> DlrmTraining:
    return DlrmTraining(**workload_arguments("dlrm", **{**SMALL, **given}))


def test_size_is_that_of_mlperfs_layers() -> None:
    with torch.device("meta"):
        model = DlrmTraining(**workload_arguments("dlrm")).build_model()
    bottom = 13 * 512 + 512 + 512 * 256 + 256 + 256 * 128 + 128
    width = 128 + 27 * 26 // 2
    top = width * 1024 + 1024 + 1024 * 1024 + 1024 + 1024 * 512 + 512 + 512 * 256 + 256 + 256 + 1
    assert sum(p.numel() for p in model.parameters()) == 26 * 10_000 * 128 + bottom + top


@pytest.mark.parametrize("fused", [False, True])
def test_steps_are_repeatable_and_lower_the_loss(fused: bool) -> None:
    workload = small(fused_optimizer=fused, optimizer="adam")
    losses = losses_on_one_batch(workload, workload.build_model(), steps=25)
    assert losses[-1] < 0.9 * losses[0]
    assert losses_on_one_batch(workload, workload.build_model(), steps=2) == losses[:2]


def test_bf16_trains_as_fp32_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))
    losses = {precision: trained(precision) for precision in ("fp32", "bf16")}
    # A rounding of bf16 is 2⁻⁹ of a value; a dozen in a row of them are in each logit.
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=2**-6)
    assert losses["bf16"] != losses["fp32"]


def trained(precision: str) -> list[float]:
    workload = small()
    backend = TorchEager({"precision": precision, "memory_format": "contiguous"})
    model, optimizer = backend.prepare(workload)
    return [backend.step(workload, model, optimizer, workload.batch(at)) for at in range(6)]


def test_every_pair_of_vectors_is_multiplied_once() -> None:
    """What the last layers are given, by the definition of section 2.1.4."""
    model = small().build_model()
    numbers, categories, _ = small().batch(0)
    given: list[torch.Tensor] = []
    model.top.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    model(numbers, categories)
    vectors = [model.bottom(numbers)]
    vectors += [table(categories[:, i : i + 1]) for i, table in enumerate(model.tables)]
    pairs = [(vectors[i] * vectors[j]).sum(dim=1) for i in range(4) for j in range(i)]
    torch.testing.assert_close(given[0], torch.cat([vectors[0], torch.stack(pairs, 1)], 1))


def test_batches_are_the_seed_s_and_differ() -> None:
    one, again, other = small(), small(), small(seed=1)
    for part in range(3):
        assert one.batch(5)[part].equal(again.batch(1)[part])
        assert not one.batch(1)[part].equal(one.batch(2)[part])
        assert not one.batch(1)[part].equal(other.batch(1)[part])
    numbers, categories, clicked = one.batch(0)
    assert (numbers.shape, categories.shape, clicked.shape) == ((32, DENSE), (32, 3), (32,))
    assert 0 < clicked.mean() < 1


def test_knobs_are_its_arguments() -> None:
    knobs = load_catalog().workloads["dlrm"].knobs
    arguments = inspect.signature(DlrmTraining).parameters
    assert knobs.keys() == arguments.keys()
    assert all(a.default is inspect.Parameter.empty for a in arguments.values())
