"""The compiled frozen batch norm, every variant of it, against float64."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import Tensor
from torch.library import opcheck

from kernels.ops.frozen_batch_norm import frozen_batch_norm
from kernels.reference import frozen_batch_norm as reference

DTYPES = [torch.float32, torch.bfloat16]
FORMATS = [torch.contiguous_format, torch.channels_last]
RTOL = {torch.float32: 3e-7, torch.bfloat16: 2**-8}
"""One rounding to the dtype, and in fp32 those of two operations before it."""

SHAPES = [(2, 3, 5, 7), (1, 37, 4, 4), (3, 64, 1, 1), (2, 1, 9, 5), (0, 4, 3, 3), (2, 5, 0, 3)]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_result_and_gradients(
    variant: str, dtype: torch.dtype, memory_format: torch.memory_format
) -> None:
    for shape, relu, with_residual in product(SHAPES, (False, True), (False, True)):
        x = random(*shape).to(dtype).contiguous(memory_format=memory_format).requires_grad_()
        scale, shift = random(shape[1], seed=1), random(shape[1], seed=2)
        residual = random(*shape, seed=3).to(dtype).requires_grad_() if with_residual else None
        inputs = [x] if residual is None else [x, residual]
        y = frozen_batch_norm(x, scale, shift, residual, relu)
        upstream = random(*shape, seed=4).to(dtype)
        found = torch.autograd.grad(y, inputs, upstream)

        doubled = [t.detach().double().requires_grad_() for t in inputs]
        rest = doubled[1] if with_residual else None
        expected = reference.frozen_batch_norm(
            doubled[0], scale.double(), shift.double(), rest, relu
        )
        wanted = torch.autograd.grad(expected, doubled, upstream.double())
        assert (y.dtype, y.stride()) == (dtype, x.stride())
        # What is left where terms cancel is a matter of their size, here about 1.
        close(y.detach(), expected.detach(), RTOL[dtype], RTOL[dtype])
        for ours, theirs in zip(found, wanted, strict=True):
            close(ours, theirs, RTOL[dtype], 0)


def close(found: Tensor, expected: Tensor, rtol: float, atol: float) -> None:
    torch.testing.assert_close(found.double(), expected, rtol=rtol, atol=atol)


def test_nan_and_infinities_pass_as_in_torch(variant: str) -> None:
    x = torch.tensor([[float("nan")], [float("inf")], [-float("inf")], [-0.0]]).requires_grad_()
    one, zero = torch.ones(1), torch.zeros(1)
    found = frozen_batch_norm(x, one, zero, relu=True)
    expected = reference.frozen_batch_norm(x, one, zero, relu=True)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    upstream = torch.ones(4, 1)
    assert torch.equal(
        *(torch.autograd.grad(y, x, upstream)[0] for y in (found, expected)),
    )


@pytest.mark.parametrize("shape", [(4, 6), (2, 6, 5), (2, 6, 3, 2, 2)])
def test_any_number_of_dimensions(variant: str, shape: tuple[int, ...]) -> None:
    x, scale, shift = random(*shape), random(6, seed=1), random(6, seed=2)
    found = frozen_batch_norm(x, scale, shift, relu=True)
    expected = reference.frozen_batch_norm(x, scale, shift, relu=True)
    torch.testing.assert_close(found, expected, rtol=3e-7, atol=3e-7)


def test_any_strides(variant: str) -> None:
    x = random(6, 4, 5, 8)[::2, :, :, ::3].requires_grad_()
    scale, shift = random(8, seed=1)[::2], random(4, seed=2)
    residual = random(3, 5, 3, 4, seed=3).permute(0, 3, 1, 2)
    y = frozen_batch_norm(x, scale, shift, residual)
    expected = reference.frozen_batch_norm(x, scale, shift, residual)
    torch.testing.assert_close(y, expected, rtol=3e-7, atol=3e-7)
    upstream = random(3, 1, 1, 1, seed=4).expand(3, 4, 5, 3)
    torch.testing.assert_close(
        *(torch.autograd.grad(result, x, upstream)[0] for result in (y, expected))
    )


def test_a_residual_alone_may_want_a_gradient(variant: str) -> None:
    residual = random(2, 3, 2, 2).requires_grad_()
    y = frozen_batch_norm(torch.zeros(2, 3, 2, 2), torch.ones(3), torch.zeros(3), residual, True)
    (found,) = torch.autograd.grad(y.sum(), residual)
    assert torch.equal(found, (residual > 0).float())


def test_the_backward_pass_takes_any_strides(variant: str) -> None:
    grad, y = random(2, 3, 4, 5), torch.ones(3, 1, 1).expand(2, 3, 4, 5)
    backward = torch.ops.benchfarm.frozen_batch_norm_backward
    for some in (y, random(5, 4, 3, 2).relu().permute(3, 2, 1, 0)):
        found, _ = backward(grad, some, torch.ones(3), False)
        assert torch.equal(found, grad * (some > 0))


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("memory_format", FORMATS)
def test_opcheck(memory_format: torch.memory_format, relu: bool) -> None:
    x = random(2, 3, 4, 5).contiguous(memory_format=memory_format).requires_grad_()
    residual = random(2, 3, 4, 5, seed=1).requires_grad_()
    for given in (None, residual):
        arguments = (x, torch.rand(3), torch.rand(3), given, relu)
        opcheck(torch.ops.benchfarm.frozen_batch_norm.default, arguments)


def test_compiles_without_a_graph_break_and_under_autocast() -> None:
    convolution = torch.nn.Conv2d(3, 4, 1)

    def block(x: Tensor) -> Tensor:
        y: Tensor = convolution(x)
        return frozen_batch_norm(y, torch.ones(4), torch.zeros(4), y, relu=True)

    x = random(2, 3, 4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = torch.compile(block, fullgraph=True, backend="aot_eager")(x)
        assert found.dtype == torch.bfloat16
        assert torch.equal(found, block(x))
    torch.autograd.backward(found.sum())
    assert convolution.weight.grad is not None


def test_a_scale_that_learns_runs_in_plain_torch() -> None:
    scale = torch.ones(3, requires_grad=True)
    torch.autograd.backward(frozen_batch_norm(random(2, 3), scale, torch.zeros(3)).sum())
    assert scale.grad is not None


@pytest.mark.parametrize("side", ["scale", "shift"])
def test_channels_of_another_device_are_never_read(variant: str, side: str) -> None:
    x, devices = random(2, 3), ("meta", "cpu") if side == "scale" else ("cpu", "meta")
    scale, shift = (torch.ones(3, device=device) for device in devices)
    try:
        y = frozen_batch_norm(x, scale, shift)
    except RuntimeError:  # what torch says of two devices is torch's
        return
    assert y.device.type == "meta"


@pytest.mark.parametrize("dtypes", [DTYPES, DTYPES[::-1]])
def test_mixed_dtypes_are_added_in_fp32_and_keep_the_dtype_of_x(
    variant: str, dtypes: list[torch.dtype]
) -> None:
    x, residual = random(2, 3, 40).to(dtypes[0]), random(2, 3, 40, seed=3).to(dtypes[1])
    scale, shift = random(3, seed=1), random(3, seed=2)
    exact = x.double() * scale.double()[:, None] + shift.double()[:, None] + residual.double()
    for norm in (frozen_batch_norm, reference.frozen_batch_norm):
        y = norm(x, scale, shift, residual)
        assert y.dtype == x.dtype
        # One rounding to x's dtype; what is left where terms cancel is a matter of their size.
        close(y, exact, 2**-8 if x.dtype == torch.bfloat16 else 3e-7, 1e-6)


def test_shapes_that_do_not_fit_are_refused() -> None:
    x, of_channels = torch.zeros(2, 3, 4, 4), torch.zeros(3)
    for other in (2, 1):
        for dtype in (torch.float32, torch.float64):  # compiled, and in plain torch
            with pytest.raises(ValueError, match=r"expected \[N, C, …\]"):
                frozen_batch_norm(x.to(dtype), torch.zeros(other), of_channels)
            with pytest.raises(ValueError, match=r"expected \[N, C, …\]"):
                frozen_batch_norm(x.to(dtype), of_channels, torch.zeros(other))
    with pytest.raises(ValueError, match=r"residual \[2, 3\]: must agree"):
        frozen_batch_norm(x, of_channels, of_channels, torch.zeros(2, 3))


def test_the_number_of_threads_changes_no_bit(variant: str) -> None:
    x, scale, shift = random(4, 33, 40, 40), random(33, seed=1), random(33, seed=2)
    usual = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = frozen_batch_norm(x, scale, shift, x, relu=True)
        torch.set_num_threads(3)
        assert torch.equal(frozen_batch_norm(x, scale, shift, x, relu=True), alone)
    finally:
        torch.set_num_threads(usual)
