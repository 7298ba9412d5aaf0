"""The compiled step of Adam, every variant of it, against float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.library import opcheck

from kernels.ops.adam_step import adam_step
from kernels.reference import adam_step as reference

SHAPES = [(), (0, 3), (7,), (33, 5), (3, 20_011)]  # the last takes several chunks
KINDS = [torch.float32, torch.bfloat16]
Lists = tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor], list[Tensor]]


def some(kinds: list[torch.dtype]) -> Lists:
    """Return weights, gradients, masters and moments: one of each kind and shape."""
    generator = torch.Generator().manual_seed(5)
    made: Lists = ([], [], [], [], [])
    for kind in kinds:
        for shape in SHAPES:
            master, gradient = (torch.randn(shape, generator=generator) for _ in range(2))
            weight = master if kind == torch.float32 else master.to(kind)
            moments = torch.zeros(shape), torch.zeros(shape)
            for to, tensor in zip(made, (weight, gradient.to(kind), master, *moments), strict=True):
                to.append(tensor)
    return made


@pytest.mark.parametrize("kinds", [*([kind] for kind in KINDS), KINDS, []], ids=str)
def test_a_step_is_adams(variant: str, kinds: list[torch.dtype]) -> None:
    mine = some(kinds)
    exact = [[t.double() for t in tensors] for tensors in mine]
    for step in range(1, 6):
        adam_step(*mine, step=step, learning_rate=0.01)
        masters, gradients = exact[2], exact[1]
        reference.adam_step(masters, gradients, masters, *exact[3:], step=step, learning_rate=0.01)
    for found, truths in zip(mine[2:], exact[2:], strict=True):
        # Some roundings of fp32 a step, five steps; where terms cancel, of their size. In squares
        # none do.
        atol = 0.0 if found is mine[4] else 2e-7
        for tensor, truth in zip(found, truths, strict=True):
            torch.testing.assert_close(tensor.double(), truth, rtol=2e-6, atol=atol)
    for weight, master in zip(mine[0], mine[2], strict=True):
        assert torch.equal(weight, master.to(weight.dtype))


def test_it_is_torchs_own_adam(variant: str) -> None:
    mine = some([torch.float32])
    theirs = [m.clone().requires_grad_() for m in mine[2]]
    adam = torch.optim.Adam(theirs, lr=0.01, betas=(0.8, 0.99), eps=1e-6)
    for step in (1, 2, 3):
        adam_step(*mine, step=step, learning_rate=0.01, betas=(0.8, 0.99), eps=1e-6)
        for parameter, gradient in zip(theirs, mine[1], strict=True):
            parameter.grad = gradient
        adam.step()
    for tensor, parameter in zip(mine[2], theirs, strict=True):
        torch.testing.assert_close(tensor, parameter.detach(), rtol=2e-6, atol=2e-7)


def test_a_weight_that_is_not_aligned_is_written_as_well(variant: str) -> None:
    whole = torch.zeros(101, dtype=torch.bfloat16)
    master = torch.ones(100)
    adam_step(
        *([whole[1:]], [torch.ones(100, dtype=torch.bfloat16)], [master]),
        *([torch.zeros(100)], [torch.zeros(100)]),
        step=1,
        learning_rate=0.5,
    )
    assert whole.tolist() == [0.0, *[0.5] * 100]


@pytest.mark.parametrize("kind", KINDS)
def test_nan_and_infinities_stay_where_they_are(variant: str, kind: torch.dtype) -> None:
    gradient = torch.tensor([1.0, float("nan"), float("inf"), 2.0] * 11).to(kind)
    master = torch.zeros(44)
    weight = master if kind == torch.float32 else master.to(kind)
    moments = torch.zeros(44), torch.zeros(44)
    lists = ([weight], [gradient], [master], [moments[0]], [moments[1]])
    adam_step(*lists, step=1, learning_rate=1.0)
    assert master.isnan().tolist() == [False, True, True, False] * 11
    assert torch.equal(weight.isnan(), master.isnan())


@pytest.mark.parametrize("size", [1e20, 1e25])
@pytest.mark.parametrize("kind", KINDS)
def test_a_huge_gradient_does_what_it_does_in_torch(
    variant: str, kind: torch.dtype, size: float
) -> None:
    """The square of one overflows, or even its share of the mean; the step after made it NaN."""
    masters = [torch.ones(44), torch.ones(44)]
    moments = [[torch.zeros(44) for _ in range(2)] for _ in masters]
    for step, scale in ((1, size), (2, 1.0), (3, -1.0)):
        gradient = torch.full((44,), scale).to(kind)
        weight = masters[0] if kind == torch.float32 else masters[0].to(kind)
        rest = [[moment] for moment in moments[0]]
        adam_step(*([weight], [gradient], [masters[0]], *rest), step=step, learning_rate=0.1)
        mine = [masters[1]], [gradient.float()], [masters[1]]
        rest = [[moment] for moment in moments[1]]
        reference.adam_step(*mine, *rest, step=step, learning_rate=0.1)
        for found, truth in zip(masters[:1] + moments[0], masters[1:] + moments[1], strict=True):
            torch.testing.assert_close(found, truth, rtol=2e-6, atol=0.0)
    assert masters[0].isfinite().all()
    assert moments[0][1].isinf().all() == (size > 1e20)


@pytest.mark.parametrize("kinds", [*([kind] for kind in KINDS), KINDS], ids=str)
def test_what_fits_runs_compiled(
    variant: str, kinds: list[torch.dtype], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*given: object, **named: object) -> None:
        raise AssertionError("plain torch ran")

    monkeypatch.setattr(reference, "adam_step", refused)
    adam_step(*some(kinds), step=1, learning_rate=0.01)


@pytest.mark.parametrize("kind", KINDS)
def test_what_changed_has_another_version(variant: str, kind: torch.dtype) -> None:
    lists = some([kind])
    before = [[t._version for t in tensors] for tensors in lists]
    adam_step(*lists, step=1, learning_rate=0.01)
    after = [[t._version for t in tensors] for tensors in lists]
    for k, (old, new) in enumerate(zip(before, after, strict=True)):
        grown = [now > then for then, now in zip(old, new, strict=True)]
        assert grown == [k != 1] * len(SHAPES), "all but gradients"


def test_a_graph_that_kept_a_weight_says_that_it_changed() -> None:
    lists = some([torch.float32])
    weight = lists[0][2].requires_grad_()
    kept = weight.square().sum()
    with torch.no_grad():
        adam_step(*lists, step=1, learning_rate=0.01)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.backward(kept)


def test_other_types_are_plain_torch() -> None:
    double = [[t.double() for t in tensors] for tensors in some([torch.float32])]
    double[0] = double[2]
    mine = [[t.clone() for t in tensors] for tensors in double]
    mine[0] = mine[2]
    adam_step(*mine, step=1, learning_rate=0.1)
    reference.adam_step(*double, step=1, learning_rate=0.1)
    assert all(torch.equal(a, b) for a, b in zip(mine[2], double[2], strict=True))


@pytest.mark.parametrize("wrong", [torch.zeros(3), torch.zeros(2, 4).t()], ids=["shape", "order"])
def test_tensors_that_do_not_fit_are_refused(wrong: Tensor) -> None:
    lists = [[torch.zeros(4, 2)] for _ in range(4)] + [[wrong]]
    with pytest.raises(ValueError, match="expected contiguous tensors of one shape"):
        adam_step(*lists, step=1, learning_rate=0.1)


def test_torch_is_told_what_it_changes() -> None:
    lists = some([torch.bfloat16])
    numbers = torch.tensor([0.1, 0.001, 0.01, 0.5, 1e-8], dtype=torch.float64)
    opcheck(torch.ops.benchfarm.adam_step.default, (*lists, numbers))
