"""Neighbourhoods and transposition, every variant, against plain torch and float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.library import opcheck
from torch.nn import functional

from kernels.ops.fold_maps import fold_maps
from kernels.ops.transpose import transpose
from kernels.ops.unfold_maps import unfold_maps
from kernels.reference import unfold as reference

DTYPES = [torch.float32, torch.bfloat16]
MAPS = [
    [(5, 7), (3, 4), (1, 1), (2, 1)],
    [(1, 6)],
    [(2, 2), (0, 3), (1, 2)],
    [],
]


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def cells(maps: list[tuple[int, int]]) -> int:
    return sum(rows * columns for rows, columns in maps)


@pytest.mark.parametrize("channels", [1, 3, 16, 37])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("maps", [m for m in MAPS if m])
def test_neighbours_and_gradients(
    variant: str, maps: list[tuple[int, int]], dtype: torch.dtype, channels: int
) -> None:
    x = random(2, cells(maps), channels, dtype=dtype).requires_grad_()
    upstream = random(2, cells(maps), 9, channels, dtype=dtype, seed=1)
    found = unfold_maps(x, maps)
    exact = x.detach().double().requires_grad_()
    expected = reference.unfold_maps(exact, maps)
    assert torch.equal(found.double(), expected)  # nothing but moved
    (gradient,) = torch.autograd.grad(found, x, upstream)
    (wanted,) = torch.autograd.grad(expected, exact, upstream.double())
    # Sums of nine in fp32, rounded once.
    rtol = 2**-8 if dtype == torch.bfloat16 else 0
    torch.testing.assert_close(gradient.double(), wanted, rtol=rtol, atol=3e-6)


def test_a_product_with_neighbours_is_a_convolution(variant: str) -> None:
    maps = [(6, 5), (3, 3)]
    x, weight = random(2, cells(maps), 4), random(7, 4, 3, 3, seed=1)
    rows = unfold_maps(x, maps).flatten(2) @ weight.permute(2, 3, 1, 0).flatten(0, 2)
    parts = [x[:, :30].view(2, 6, 5, 4), x[:, 30:].view(2, 3, 3, 4)]
    wanted = [functional.conv2d(p.permute(0, 3, 1, 2), weight, padding=1) for p in parts]
    flat = torch.cat([w.flatten(2).transpose(1, 2) for w in wanted], dim=1)
    torch.testing.assert_close(rows, flat, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
def test_fold_is_the_adjoint(variant: str, dtype: torch.dtype) -> None:
    neighbours = random(1, 6, 9, 2, dtype=dtype)
    x = torch.zeros(1, 6, 2, dtype=torch.float64, requires_grad=True)
    unfolded = reference.unfold_maps(x, [(2, 3)])
    (wanted,) = torch.autograd.grad(unfolded, x, neighbours.double())
    rtol = 2**-8 if dtype == torch.bfloat16 else 0
    for fold in (fold_maps, reference.fold_maps):
        found = fold(neighbours, [(2, 3)])
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), wanted, rtol=rtol, atol=3e-6)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
def test_the_definition_of_fold_is_nine_sums_and_no_forward_pass(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A baseline that makes neighbours, only to differentiate them, does the work twice."""

    def fails(*_: object) -> Tensor:
        raise AssertionError("it makes neighbours")

    x = torch.zeros(2, 21, 3, dtype=torch.float64, requires_grad=True)
    maps = [(3, 5), (1, 4), (2, 1)]
    neighbours = random(2, 21, 9, 3, dtype=dtype)
    unfolded = reference.unfold_maps(x, maps)
    (wanted,) = torch.autograd.grad(unfolded, x, neighbours.double())
    monkeypatch.setattr(reference, "unfold_maps", fails)
    found = reference.fold_maps(neighbours, maps)
    rtol = 2**-8 if dtype == torch.bfloat16 else 0
    torch.testing.assert_close(found.double(), wanted, rtol=rtol, atol=3e-6)


@pytest.mark.parametrize("maps", MAPS)
def test_no_images_and_no_cells(variant: str, maps: list[tuple[int, int]]) -> None:
    for images, channels in ((0, 3), (2, 0)):
        x = random(images, cells(maps), channels).requires_grad_()
        y = unfold_maps(x, maps)
        assert y.shape == (images, cells(maps), 9, channels)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        assert gradient.shape == x.shape


def test_any_strides(variant: str) -> None:
    x, upstream = random(6, 3, 2).permute(2, 0, 1), random(2, 6, 9, 1).expand(2, 6, 9, 3)
    given = x.requires_grad_()
    y, expected = unfold_maps(given, [(2, 3)]), reference.unfold_maps(given, [(2, 3)])
    assert torch.equal(y, expected)
    torch.testing.assert_close(
        *(torch.autograd.grad(result, given, upstream)[0] for result in (y, expected))
    )


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (8, 8), (33, 7), (300, 70), (64, 256)])
def test_transposition(variant: str, shape: tuple[int, int], dtype: torch.dtype) -> None:
    x = random(*shape, dtype=dtype)
    for given in (x, x.t(), random(shape[0], shape[1] * 2, dtype=dtype)[:, ::2]):
        found = transpose(given)
        assert found.is_contiguous()
        assert torch.equal(found, given.t())
    with_gradient = x.requires_grad_()
    (gradient,) = torch.autograd.grad(transpose(with_gradient), with_gradient, x.detach().t())
    assert torch.equal(gradient, x)


def test_opcheck() -> None:
    x = random(2, 7, 3).requires_grad_()
    opcheck(torch.ops.benchfarm.unfold_maps.default, (x, [2, 3, 1, 1]))
    neighbours = random(2, 7, 9, 3).requires_grad_()
    opcheck(torch.ops.benchfarm.fold_maps.default, (neighbours, [2, 3, 1, 1]))
    opcheck(torch.ops.benchfarm.transpose.default, (random(3, 4).requires_grad_(),))


def test_compiles_without_a_graph_break() -> None:
    def step(x: Tensor) -> Tensor:
        return transpose(unfold_maps(x, [(2, 3)]).flatten(0, 2) * 2)

    x = random(1, 6, 4)
    assert torch.equal(torch.compile(step, fullgraph=True, backend="aot_eager")(x), step(x))


def test_shapes_that_do_not_fit_are_refused(variant: str) -> None:
    for x in (torch.zeros(1, 5, 3), torch.zeros(6, 3), torch.zeros(1, 5, 3, dtype=torch.float64)):
        with pytest.raises(ValueError, match=r"expected \[B, 6, C\], 6 cells"):
            unfold_maps(x, [(2, 3)])
    with pytest.raises(ValueError, match="no side below 0"):
        unfold_maps(torch.zeros(1, 6, 3), [(-2, -3)])
    with pytest.raises(ValueError, match="no side below 0"):
        fold_maps(torch.zeros(1, 6, 9, 3), [(-2, -3)])
    for sizes in ([(2, 3)], [(1, 1)]):
        with pytest.raises(ValueError, match=r"expected \[B, \d, 9, C\]"):
            fold_maps(torch.zeros(1, 5, 9, 3), sizes)


def test_the_number_of_threads_changes_no_bit(variant: str) -> None:
    neighbours, matrix = random(2, 900, 9, 40), random(700, 300)
    usual = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = fold_maps(neighbours, [(30, 30)]), transpose(matrix)
        torch.set_num_threads(3)
        assert torch.equal(fold_maps(neighbours, [(30, 30)]), alone[0])
        assert torch.equal(transpose(matrix), alone[1])
    finally:
        torch.set_num_threads(usual)
