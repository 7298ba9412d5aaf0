from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

from agents.backends.torch_eager.backend import TorchEager
from controller.contracts.base import Scalar
from controller.contracts.catalog import load_catalog
from models.bert import BertTraining
from models.language import MASK, EncoderTraining, LanguageTraining, LstmTraining
from tests.support.knobs import workload_arguments
from tests.support.workloads import losses_on_one_batch

WORKLOADS: dict[str, Callable[..., LanguageTraining]] = {
    "lstm": LstmTraining,
    "transformer_encoder": EncoderTraining,
    "bert": BertTraining,
}
SMALL: dict[str, Scalar] = {
    "layers": 2,
    "hidden_size": 64,
    "sequence_length": 12,
    "vocabulary_size": 50,
    "batch_size": 4,
    "optimizer": "adam",
}


def small(name: str, **given: Scalar) -> LanguageTraining:
    return WORKLOADS[name](**workload_arguments(name, **{**SMALL, **given}))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # Embedding, decoder with bias, and 2 layers of 4 gates with two matrices and two biases.
        ("lstm", 10_000 * 650 + 10_000 * 651 + 2 * 4 * 650 * (650 + 650 + 2)),
        # Embeddings of tokens and places, decoder with bias, and 6 layers of 12 d² + 13 d.
        ("transformer_encoder", 10_128 * 512 + 10_000 * 513 + 6 * (12 * 512**2 + 13 * 512)),
        # Embeddings of tokens, places and sentences, a norm, 12 layers, the head and its bias.
        ("bert", 30_654 * 768 + 12 * (12 * 768**2 + 13 * 768) + 768**2 + 3 * 768 + 30_522),
    ],
)
def test_size_is_the_papers(name: str, parameters: int) -> None:
    with torch.device("meta"):
        model = WORKLOADS[name](**workload_arguments(name)).build_model()
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("fused", [False, True])
def test_steps_are_repeatable_and_lower_the_loss(name: str, fused: bool) -> None:
    workload = small(name, fused_optimizer=fused)
    losses = losses_on_one_batch(workload, workload.build_model(), steps=25)
    assert losses[-1] < 0.9 * losses[0]
    assert losses_on_one_batch(workload, workload.build_model(), steps=2) == losses[:2]


@pytest.mark.parametrize("name", WORKLOADS)
def test_bf16_trains_as_fp32_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))
    losses = {precision: trained(name, precision) for precision in ("fp32", "bf16")}
    # A rounding of bf16 is 2⁻⁹ of a value; a dozen in a row of them are in each logit.
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=2**-6)
    assert losses["bf16"] != losses["fp32"]


def trained(name: str, precision: str) -> list[float]:
    workload = small(name)
    backend = TorchEager({"precision": precision, "memory_format": "contiguous"})
    model, optimizer = backend.prepare(workload)
    return [backend.step(workload, model, optimizer, workload.batch(at)) for at in range(6)]


def test_the_lstm_predicts_the_next_token_of_each() -> None:
    workload = small("lstm")
    (tokens,), following = workload.batch(0)
    assert tokens.shape == following.shape == (4, 12)
    assert tokens[:, 1:].equal(following[:, :-1])
    assert workload.forward(workload.build_model(), workload.batch(0)).shape == (4, 12, 50)


def test_the_lstm_sees_no_later_token() -> None:
    model = small("lstm").build_model()
    tokens = small("lstm").batch(0)[0][0]
    changed = tokens.clone()
    changed[:, 6:] = 1
    assert model(tokens)[:, :6].equal(model(changed)[:, :6])


@pytest.mark.parametrize("name", ["transformer_encoder", "bert"])
@pytest.mark.parametrize(("length", "masked"), [(2, 1), (13, 2), (128, 19)])
def test_encoders_predict_masked_tokens_from_all_others(
    name: str, length: int, masked: int
) -> None:
    workload = small(name, sequence_length=length)
    (tokens, places), hidden = workload.batch(0)
    assert (tokens == MASK).sum(dim=1).tolist() == [masked] * 4
    assert bool((tokens.gather(1, places) == MASK).all())
    assert bool((hidden != MASK).all())
    logits = workload.forward(workload.build_model(), workload.batch(0))
    assert logits.shape == (4, masked, 50)


def test_bert_tells_sentences_apart() -> None:
    model: Any = small("bert", sequence_length=5).build_model()
    tokens, places = torch.full((1, 5), 7), torch.tensor([[2, 3]])
    with torch.no_grad():
        model.places.zero_()
        first, second = model(tokens, places)[0]
        assert not first.equal(second)  # the third token is of A, the fourth of B
        model.segments.zero_()
        first, second = model(tokens, places)[0]
        torch.testing.assert_close(first, second)


@pytest.mark.parametrize("name", ["transformer_encoder", "bert"])
def test_layers_of_the_encoder_differ(name: str) -> None:
    model: Any = small(name).build_model()
    first, second = (layer.linear1.weight for layer in model.encoder.layers)
    assert not first.equal(second)


@pytest.mark.parametrize("name", WORKLOADS)
def test_batches_are_the_seed_s_and_differ(name: str) -> None:
    one, again, other = small(name), small(name), small(name, seed=1)
    assert one.batch(1)[1].equal(again.batch(1)[1])
    assert one.batch(5)[1].equal(one.batch(1)[1])
    assert not one.batch(1)[1].equal(one.batch(2)[1])
    assert not one.batch(1)[1].equal(other.batch(1)[1])


@pytest.mark.parametrize("name", WORKLOADS)
def test_knobs_are_its_arguments(name: str) -> None:
    knobs = load_catalog().workloads[name].knobs
    arguments = inspect.signature(WORKLOADS[name]).parameters
    assert knobs.keys() == arguments.keys()
    assert all(a.default is inspect.Parameter.empty for a in arguments.values())
