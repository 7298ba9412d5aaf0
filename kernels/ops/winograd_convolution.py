"""A 3x3 convolution over the cells of several maps by Winograd's algorithm, with its gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from kernels.common.maps import call_on_maps, check_maps
from kernels.op import Op, TorchOp, call, once_differentiable, register, serves
from kernels.reference import map_convolution as reference

TILE = {torch.float32: 4, torch.bfloat16: 2}
"""Rows and columns of a tile: F(4x4, 3x3) takes 2.25 products a cell where a convolution takes 9,
F(2x2, 3x3) takes 4. The larger one's intermediate values are too large for bf16's rounding."""
MULTIPLE = {torch.float32: 1, torch.bfloat16: 32}
"""Products of a multiple of so many rows are quickest: AMX takes 32 terms of bf16 at once."""


def winograd_convolution(
    x: Tensor,
    sizes: Sequence[tuple[int, int]],
    weight: Tensor,
    bias: Tensor | None = None,
    relu: bool = False,
) -> Tensor:
    """Return the 3x3 convolution with padding 1 of several maps: [B, cells, out].

    Lavin and Gray, arXiv 1509.09308: an input's tiles and the weight are transformed, multiplied
    plane by plane, and the products transformed back, in x's dtype; so are the gradients, by the
    transforms' adjoints. Each result is rounded more often than a convolution's. x in fp32 or bf16
    on a CPU runs compiled; any other dtype is an ordinary convolution.

    Args:
        x: [B, cells, in]; cells run through one map after the other, each row by row.
        sizes: rows and columns of each map.
        weight: [out, in, 3, 3]; channels-last is quickest.
        bias: [out], or None.
        relu: whether negative results become 0.

    Raises:
        ValueError: shapes don't fit.
    """
    check_maps("x", x, sizes)
    outs = weight.shape[:1]
    if weight.shape != (*outs, x.shape[2], 3, 3) or (bias is not None and bias.shape != outs):
        raise ValueError(
            f"weight {list(weight.shape)}, bias {None if bias is None else list(bias.shape)}: "
            f"expected [out, {x.shape[2]}, 3, 3], [out]"
        )
    if not serves(x, weight, *([] if bias is None else [bias])):
        return reference.map_convolution(x, sizes, weight, bias, relu)
    flat = [n for size in sizes for n in size]
    result: Tensor = torch.ops.benchfarm.winograd_convolution(x, flat, weight, bias, relu)[0]
    return result


def _planes(x: Tensor, sizes: Sequence[int], channels: int) -> Tensor:
    """Return [planes, rows, channels]: rows of tiles, uninitialised, and some that stay 0."""
    m, multiple = TILE[x.dtype], MULTIPLE[x.dtype]
    maps = zip(sizes[::2], sizes[1::2], strict=True)
    tiles = len(x) * sum(-(-rows // m) * -(-columns // m) for rows, columns in maps)
    made = x.new_empty((m + 2) ** 2, -(-tiles // multiple) * multiple, channels)
    made[:, tiles:].zero_()
    return made


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Return the products of all planes, in their dtype: by it the next transform is chosen."""
    with torch.autocast("cpu", enabled=False):
        return torch.bmm(a, b)


def _forward(
    x: Tensor, sizes: list[int], weight: Tensor, bias: Tensor | None, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    x, transforms = x.contiguous(), torch.ops.benchfarm
    y, planes, tiles = _fake_forward(x, sizes, weight, bias, relu)
    transforms.winograd_weight(weight.permute(0, 2, 3, 1).float().contiguous(), planes)
    transforms.winograd_tiles(x, sizes, tiles)
    products = _product(tiles, planes.transpose(1, 2))
    added = None if bias is None else bias.to(x.dtype).contiguous()
    transforms.winograd_output(products, sizes, added, relu, y)
    return y, planes, tiles


def _backward(
    grad: Tensor,
    sizes: list[int],
    weight: Tensor,
    planes: Tensor,
    tiles: Tensor | None,
    y: Tensor | None,
    wanted: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    transforms = torch.ops.benchfarm
    grad, y = grad.to(planes.dtype).contiguous(), None if y is None else y.contiguous()
    of_x, of_weight, of_bias = _fake_backward(grad, sizes, weight, planes, tiles, y, wanted)
    of_products = _planes(grad, sizes, planes.shape[1])
    sums = of_bias if wanted[1] else None
    transforms.winograd_output_adjoint(grad, sizes, y, sums, of_products)
    if wanted[0]:
        transforms.winograd_tiles_adjoint(_product(of_products, planes), sizes, of_x)
    if tiles is not None:
        of_planes = _product(of_products.transpose(1, 2), tiles)
        transforms.winograd_weight_adjoint(of_planes, of_weight.permute(0, 2, 3, 1))
    return of_x, of_weight, of_bias


def _run_tiles(x: Tensor, sizes: list[int], tiles: Tensor) -> None:
    call_on_maps(
        "winograd_tiles", x, sizes, tiles, x.shape[2], before=[TILE[x.dtype], tiles.shape[1]]
    )


def _run_tiles_adjoint(tiles: Tensor, sizes: list[int], x: Tensor) -> None:
    before = [TILE[x.dtype], tiles.shape[1]]
    call_on_maps(
        "winograd_tiles_adjoint", tiles, sizes, x, x.shape[2], before=before, images=len(x)
    )


def _run_output(
    products: Tensor, sizes: list[int], bias: Tensor | None, relu: bool, y: Tensor
) -> None:
    before = [TILE[y.dtype], products.shape[1], bias, relu]
    call_on_maps("winograd_output", products, sizes, y, y.shape[2], before=before, images=len(y))


def _run_output_adjoint(
    grad: Tensor, sizes: list[int], y: Tensor | None, of_bias: Tensor | None, products: Tensor
) -> None:
    before = [TILE[grad.dtype], products.shape[1], y, of_bias]
    call_on_maps("winograd_output_adjoint", grad, sizes, products, grad.shape[2], before=before)


def _run_weight(taps: Tensor, planes: Tensor) -> None:
    dtype, shape = planes.dtype, planes.shape[1:]
    call("winograd_weight", dtype, taps, *shape, TILE[dtype], planes)


def _run_weight_adjoint(planes: Tensor, taps: Tensor) -> None:
    dtype, shape = planes.dtype, planes.shape[1:]
    call("winograd_weight_adjoint", dtype, planes, *shape, TILE[dtype], taps)


def _transform(schema: str, run: Callable[..., None]) -> TorchOp:
    """Return a transform, which writes its last argument: so a trace tells the bytes of both."""
    return TorchOp(f"{schema} -> ()", run, _nothing)


def _nothing(*given: object) -> None:
    """Return what a transform does: its result has its shape and dtype already."""


def _fake_forward(
    x: Tensor, sizes: list[int], weight: Tensor, bias: Tensor | None, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    y, tiles = x.new_empty(*x.shape[:2], len(weight)), _planes(x, sizes, x.shape[2])
    return y, x.new_empty(len(tiles), *weight.shape[:2]), tiles


def _fake_backward(
    grad: Tensor,
    sizes: list[int],
    weight: Tensor,
    planes: Tensor,
    tiles: Tensor | None,
    y: Tensor | None,
    wanted: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:
    outs, ins = planes.shape[1:]
    shape = (0, 3, 3, 0) if tiles is None else (outs, 3, 3, ins)
    taps = planes.new_empty(shape, dtype=torch.float32)
    return (
        planes.new_empty((*grad.shape[:2], ins) if wanted[0] else 0),
        taps.permute(0, 3, 1, 2),
        planes.new_empty(outs if wanted[1] else 0),
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:  # noqa: ANN401 - torch's
    _, ctx.sizes, weight, bias, relu = inputs
    y, planes, tiles = output
    ctx.mark_non_differentiable(planes, tiles)
    ctx.set_materialize_grads(False)  # the planes' would be as large as they are
    learns = ctx.needs_input_grad[2]
    # The weight itself tells autograd what the gradients depend on: they have none of their own.
    ctx.save_for_backward(weight, planes, tiles if learns else None, y if relu else None)
    ctx.bias_dtype = None if bias is None else bias.dtype


def _differentiate(ctx: Any, grad: Tensor | None, *_: object) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    if grad is None:
        return (None,) * 5
    weight, *kept = ctx.saved_tensors
    wanted = [ctx.needs_input_grad[i] for i in (0, 3)]
    of_x, of_weight, of_bias = torch.ops.benchfarm.winograd_convolution_backward(
        grad, ctx.sizes, weight, *kept, wanted
    )
    return (
        of_x if wanted[0] else None,
        None,
        of_weight.to(weight.dtype) if ctx.needs_input_grad[2] else None,
        of_bias.to(ctx.bias_dtype) if wanted[1] else None,
        None,
    )


OP = register(
    Op(
        dtypes=("fp32", "bf16"),
        reference=reference.map_convolution,
        torch_ops=(
            TorchOp(
                "winograd_convolution(Tensor x, int[] sizes, Tensor weight, Tensor? bias,"
                " bool relu) -> (Tensor, Tensor, Tensor)",
                _forward,
                _fake_forward,
                _differentiate,
                _save,
            ),
            TorchOp(
                "winograd_convolution_backward(Tensor grad, int[] sizes, Tensor weight,"
                " Tensor planes, Tensor? tiles, Tensor? y, bool[] wanted)"
                " -> (Tensor, Tensor, Tensor)",
                _backward,
                _fake_backward,
                once_differentiable,
            ),
            _transform("winograd_tiles(Tensor x, int[] sizes, Tensor(a!) tiles)", _run_tiles),
            _transform(
                "winograd_tiles_adjoint(Tensor tiles, int[] sizes, Tensor(a!) x)",
                _run_tiles_adjoint,
            ),
            _transform(
                "winograd_output(Tensor products, int[] sizes, Tensor? bias, bool relu,"
                " Tensor(a!) y)",
                _run_output,
            ),
            _transform(
                "winograd_output_adjoint(Tensor grad, int[] sizes, Tensor? y,"
                " Tensor(a!)? of_bias, Tensor(b!) products)",
                _run_output_adjoint,
            ),
            _transform("winograd_weight(Tensor taps, Tensor(a!) planes)", _run_weight),
            _transform(
                "winograd_weight_adjoint(Tensor planes, Tensor(a!) taps)", _run_weight_adjoint
            ),
        ),
    )
)
