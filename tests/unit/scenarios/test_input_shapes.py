"""The shapes of inputs by which stack ipex lays weights out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, distributed, nn

from agents.backends.ipex.input_shapes import NOTED, note_input_shapes


class Net(nn.Module):
    """One convolution on two sizes of image, with norms that keep statistics, and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.dropout, self.linear = nn.Dropout(), nn.Linear(4, 2)
        self.unused = nn.Linear(5, 5)

    def forward(self, images: Tensor) -> Tensor:
        small = self.norm(self.conv(images[..., ::2, ::2]))
        large = self.norm(self.conv(images))
        smaller = self.norm(self.conv(images[..., ::4, ::4]))
        pooled = sum(found.mean((2, 3)) for found in (small, large, smaller))
        result: Tensor = self.linear(self.dropout(pooled))
        return result


class Work:
    """A TrainingWorkload, as far as it is asked here; its batches are images."""

    batch_size = 2

    def __init__(self) -> None:
        self.asked: list[int] = []

    def batch(self, step: int) -> Tensor:
        self.asked.append(step)
        return torch.ones(2, 3, 16, 16)

    def share(self, batch: Tensor, rank: int, ranks: int) -> Tensor:
        return batch[rank::ranks]

    def forward(self, model: nn.Module, batch: Tensor) -> Tensor:
        assert model.training, "a model may compute something else in eval mode"
        assert not torch.is_grad_enabled()
        result: Tensor = model(batch)
        return result


def test_a_rank_notes_the_shape_of_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"is_initialized": True, "get_rank": 1, "get_world_size": 2}.items():
        monkeypatch.setattr(distributed, name, lambda value=value: value)
    model = Net().train()
    note_input_shapes(Work(), model)  # type: ignore[arg-type] # see Work
    assert getattr(model.conv, NOTED) == (1, 3, 16, 16)


def test_each_layer_has_the_shape_of_its_largest_input_and_nothing_else_changes() -> None:
    model, work = Net().train(), Work()
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    random_state = torch.get_rng_state()
    note_input_shapes(work, model)  # type: ignore[arg-type] # see Work
    assert getattr(model.conv, NOTED) == (2, 3, 16, 16)
    assert getattr(model.linear, NOTED) == (2, 4)
    assert not hasattr(model.unused, NOTED), "ipex guesses for what a step doesn't call"
    assert work.asked == [0]
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, buffers[name]), name
    assert torch.equal(torch.get_rng_state(), random_state)
    assert not any(layer._forward_pre_hooks for layer in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
