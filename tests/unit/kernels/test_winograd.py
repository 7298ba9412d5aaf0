"""Convolutions by Winograd's algorithm, every variant, against an ordinary one in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.library import opcheck

from kernels.bench.case import DTYPES as DTYPE
from kernels.bench.winograd_convolution import ERROR
from kernels.common.maps import call_on_maps
from kernels.op import call
from kernels.ops.winograd_convolution import winograd_convolution
from kernels.reference.map_convolution import map_convolution

# Beside whole tiles: maps of fewer cells than a tile, of one more, of one and of none.
MAPS = [
    [(8, 8), (4, 4), (2, 2)],
    [(5, 7), (3, 4), (1, 1), (2, 1)],
    [(1, 6)],
    [(2, 2), (0, 3), (1, 9)],
]
DTYPES = {DTYPE[name]: bound for name, bound in ERROR.items()}
Convolution = Callable[..., Tensor]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def cells(maps: list[tuple[int, int]]) -> int:
    return sum(rows * columns for rows, columns in maps)


def passes(
    convolve: Convolution, maps: list[tuple[int, int]], inputs: list[Tensor], upstream: Tensor
) -> list[Tensor]:
    """Return the output without a ReLU, then the gradients of x, weight and bias."""
    leaves = [t.detach().requires_grad_() for t in inputs]
    y = convolve(leaves[0], maps, leaves[1], leaves[2])
    return [y.detach(), *torch.autograd.grad(y, leaves, upstream)]


def test_rows_that_only_fill_up_add_nothing(variant: str) -> None:
    x, weight, bias = random(1, 20, 4).bfloat16(), random(6, 4, 3, 3), random(6)
    upstream = random(1, 20, 6, seed=1).bfloat16()
    torch.use_deterministic_algorithms(mode=True)  # new memory is NaN
    try:
        found = passes(winograd_convolution, [(4, 5)], [x, weight, bias], upstream)
    finally:
        torch.use_deterministic_algorithms(mode=False)
    assert all(t.isfinite().all() for t in found)


@pytest.mark.parametrize(("ins", "outs"), [(1, 1), (3, 16), (37, 5), (64, 40)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("maps", MAPS)
def test_outputs_and_gradients(
    variant: str, maps: list[tuple[int, int]], dtype: torch.dtype, ins: int, outs: int
) -> None:
    x, upstream = random(2, cells(maps), ins).to(dtype), random(2, cells(maps), outs, seed=1)
    weight, bias = random(outs, ins, 3, 3, seed=2), random(outs, seed=3)
    found = passes(winograd_convolution, maps, [x, weight, bias], upstream.to(dtype))
    exact = [t.double() for t in (x, weight, bias)]
    wanted = passes(map_convolution, maps, exact, upstream.to(dtype).double())
    assert [t.dtype for t in found] == [dtype, dtype, torch.float32, torch.float32]
    for mine, true in zip(found, wanted, strict=True):
        bound = DTYPES[dtype] * float(true.abs().max())
        torch.testing.assert_close(mine.double(), true, rtol=0, atol=bound)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
def test_a_relu_and_its_gradient(variant: str, dtype: torch.dtype) -> None:
    x, weight = random(1, 20, 4).to(dtype).requires_grad_(), random(6, 4, 3, 3).requires_grad_()
    bias = random(6).requires_grad_()
    y = winograd_convolution(x, [(4, 5)], weight, bias, relu=True)
    before = winograd_convolution(x, [(4, 5)], weight, bias)
    assert torch.equal(y, before.relu())
    assert 0 < (y == 0).sum() < y.numel()
    upstream = random(1, 20, 6, seed=1).to(dtype)
    found = torch.autograd.grad(y, (x, weight, bias), upstream)
    wanted = torch.autograd.grad(before, (x, weight, bias), upstream * (before > 0))
    assert all(torch.equal(mine, true) for mine, true in zip(found, wanted, strict=True))


def test_a_relu_keeps_nan(variant: str) -> None:
    x, bias = torch.full((1, 16, 1), torch.nan), torch.zeros(1, requires_grad=True)
    y = winograd_convolution(x, [(4, 4)], random(1, 1, 3, 3), bias, relu=True)
    assert y.isnan().all()
    (gradient,) = torch.autograd.grad(y.sum(), bias)
    assert gradient == 16, "as torch's own ReLU has it"


def test_a_bias_is_summed_in_fp32(variant: str) -> None:
    """In bf16, 256 and 1 are 256."""
    maps, bias = [(40, 40)], torch.zeros(3, requires_grad=True)
    x = torch.zeros(2, cells(maps), 1, dtype=torch.bfloat16)
    y = winograd_convolution(x, maps, random(3, 1, 3, 3), bias)
    (gradient,) = torch.autograd.grad(y.sum(), bias)
    assert gradient.tolist() == [2 * cells(maps)] * 3


def test_what_is_not_wanted_is_not_worked_out(variant: str) -> None:
    x, weight, bias = random(1, 6, 2), random(3, 2, 3, 3), random(3).requires_grad_()
    y = winograd_convolution(x, [(2, 3)], weight, bias)
    (gradient,) = torch.autograd.grad(y.sum(), bias)
    torch.testing.assert_close(gradient, torch.full((3,), 6.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("maps", [m for m in MAPS if m])
def test_no_images(variant: str, maps: list[tuple[int, int]], dtype: torch.dtype) -> None:
    x = random(0, cells(maps), 3).to(dtype).requires_grad_()
    weight = random(2, 3, 3, 3).requires_grad_()
    y = winograd_convolution(x, maps, weight, random(2))
    assert y.shape == (0, cells(maps), 2)
    of_x, of_weight = torch.autograd.grad(y.sum(), (x, weight))
    assert of_x.shape == x.shape
    assert torch.equal(of_weight, torch.zeros_like(weight))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_cells(variant: str, dtype: torch.dtype) -> None:
    for maps in ([], [(0, 3)]):
        x = random(2, 0, 3).to(dtype)
        assert winograd_convolution(x, maps, random(4, 3, 3, 3)).shape == (2, 0, 4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_autocast_changes_no_bit(variant: str, dtype: torch.dtype) -> None:
    """It would have the products in bf16, and a transform read them as what they are not."""
    x, weight = random(1, 36, 16).to(dtype), random(8, 16, 3, 3, seed=1)
    bias, upstream = random(8, seed=2), random(1, 36, 8, seed=3).to(dtype)
    wanted = passes(winograd_convolution, [(6, 6)], [x, weight, bias], upstream)
    for autocast in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", autocast):
            found = passes(winograd_convolution, [(6, 6)], [x, weight, bias], upstream)
        assert all(torch.equal(*each) for each in zip(found, wanted, strict=True))


def test_any_strides(variant: str) -> None:
    x, weight = random(6, 3, 2).permute(2, 0, 1), random(3, 3, 4, 3).permute(2, 1, 0, 3)
    bias, upstream = random(4, 2)[:, 0], random(2, 6, 1).expand(2, 6, 4)
    found = passes(winograd_convolution, [(2, 3)], [x, weight, bias], upstream)
    wanted = passes(map_convolution, [(2, 3)], [x, weight, bias], upstream)
    for mine, true in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, true, rtol=0, atol=2e-5 * float(true.abs().max()))


def test_opcheck() -> None:
    x, weight, bias = random(2, 7, 3), random(4, 3, 3, 3), random(4)
    leaves = [t.requires_grad_() for t in (x, weight, bias)]
    for relu in (False, True):
        given = (leaves[0], [2, 3, 1, 1], leaves[1], leaves[2], relu)
        opcheck(torch.ops.benchfarm.winograd_convolution.default, given)


def test_a_trace_tells_what_each_transform_reads_and_writes() -> None:
    """So that a profile knows its bytes, and with them its roof."""
    x, weight = random(1, 20, 3).requires_grad_(), random(5, 3, 3, 3).requires_grad_()
    with torch.profiler.profile(record_shapes=True) as trace:
        winograd_convolution(x, [(4, 5)], weight).sum().backward()  # type: ignore[no-untyped-call]
    told = {
        event.name.removeprefix("benchfarm::winograd_"): [*filter(None, event.input_shapes)]
        for event in trace.events()
        if event.name.startswith("benchfarm::winograd_") and "convolution" not in event.name
    }
    cells, tiles, products = [1, 20, 3], [36, 2, 3], [36, 2, 5]
    taps, planes, results = [5, 3, 3, 3], [36, 5, 3], [1, 20, 5]
    assert told == {
        "tiles": [cells, tiles],
        "tiles_adjoint": [tiles, cells],
        "output": [products, results],
        "output_adjoint": [results, products],
        "weight": [taps, planes],
        "weight_adjoint": [planes, taps],
    }


@pytest.mark.parametrize("relu", [False, True])
def test_the_gradient_of_a_gradient_is_refused(variant: str, relu: bool) -> None:
    """That of x depends on the weight, that of the weight on x."""
    x, weight = random(1, 6, 2).requires_grad_(), random(3, 2, 3, 3).requires_grad_()
    y = winograd_convolution(x, [(2, 3)], weight, relu=relu)
    gradients = torch.autograd.grad(y.sum(), (x, weight), create_graph=True)
    for gradient in gradients:
        with pytest.raises(NotImplementedError, match="can be differentiated once"):
            torch.autograd.grad(gradient.sum(), (x, weight), retain_graph=True)


def test_compiles_without_a_graph_break() -> None:
    def step(x: Tensor, weight: Tensor) -> Tensor:
        return winograd_convolution(x * 2, [(2, 3)], weight, relu=True) + 1

    x, weight = random(1, 6, 4), random(3, 4, 3, 3)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x, weight), step(x, weight))


def test_shapes_that_do_not_fit_are_refused(variant: str) -> None:
    weight = torch.zeros(2, 3, 3, 3)
    for x in (torch.zeros(1, 5, 3), torch.zeros(6, 3)):
        with pytest.raises(ValueError, match=r"expected \[B, 6, C\], 6 cells"):
            winograd_convolution(x, [(2, 3)], weight)
    x = torch.zeros(1, 6, 3)
    for wrong in (torch.zeros(2, 4, 3, 3), torch.zeros(2, 3, 1, 1), torch.zeros(())):
        with pytest.raises(ValueError, match=r"expected \[out, 3, 3, 3\], \[out\]"):
            winograd_convolution(x, [(2, 3)], wrong)
    with pytest.raises(ValueError, match=r"bias \[3\]: expected"):
        winograd_convolution(x, [(2, 3)], weight, torch.zeros(3))


def test_the_number_of_threads_changes_no_bit_of_a_transform(variant: str) -> None:
    """The products between them are torch's."""
    sizes, channels, tiles = [30, 30], 40, 2 * 8 * 8  # several chunks of them
    rows, planes = random(2, 900, channels), random(36, tiles, channels, seed=1)
    weight, of_weight = random(9, 3, 3, channels), random(36, 9, channels)
    usual = torch.get_num_threads()
    try:
        made: list[list[Tensor]] = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            like = planes, rows, rows, planes, of_weight, weight, random(channels)
            to = [torch.empty_like(t) for t in like]
            call_on_maps("winograd_tiles", rows, sizes, to[0], channels, before=[4, tiles])
            of_maps: dict[str, Any] = {"before": [4, tiles], "images": 2}
            call_on_maps("winograd_tiles_adjoint", planes, sizes, to[1], channels, **of_maps)
            of_maps["before"] = [4, tiles, None, True]
            call_on_maps("winograd_output", planes, sizes, to[2], channels, **of_maps)
            of_rows = [4, tiles, rows.relu(), to[6]]
            call_on_maps("winograd_output_adjoint", rows, sizes, to[3], channels, before=of_rows)
            call("winograd_weight", weight.dtype, weight, 9, channels, 4, to[4])
            call("winograd_weight_adjoint", weight.dtype, of_weight, 9, channels, 4, to[5])
            made.append(to)
    finally:
        torch.set_num_threads(usual)
    assert all(torch.equal(one, three) for one, three in zip(*made, strict=True))
