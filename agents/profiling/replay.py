"""Replay of a profile's kernels alone, with inputs of the same sizes, layouts and types, and of
layers rebuilt from oneDNN's description where a trace has no inputs.

The times of the kernels' primitives are in oneDNN's log, between marker lines that number the
replays; whole kernels are timed here.
"""

from __future__ import annotations

import ast
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter

from agents.backends.protocol import TrainingBackend
from agents.host.disturbance import CpuWatch, environment_of, objections, validity_of
from agents.profiling.capture import flush
from agents.profiling.layers import layer_call
from agents.profiling.names import TASKS, TIMES
from controller.contracts.policy import Policy
from controller.contracts.replay import CHOSEN, OPAQUE, KernelReplay, LayerReplay, Replay, Replayed
from controller.contracts.result import Result
from controller.profiles.marks import REPLAY
from controller.stats.order_statistics import is_known, samples_outside

WIDTH = 0.05
"""A kernel is measured until the interval of its median is narrower than this fraction."""
LEAST_RUNS, MOST_RUNS = 11, 400
LONGEST_S = 1.5
TOTAL_S = 60.0
"""Time limit of all replays together; each runs LEAST_RUNS in any case."""
WARMUP = 2
_DTYPES = {
    "float": torch.float32,
    "double": torch.float64,
    "c10::BFloat16": torch.bfloat16,
    "c10::Half": torch.float16,
    "long int": torch.int64,
    "int": torch.int32,
    "bool": torch.bool,
    "unsigned char": torch.uint8,
    "signed char": torch.int8,
}
_REFUSALS = (
    *(AttributeError, LookupError, MemoryError, RuntimeError),
    *(SyntaxError, TypeError, ValueError),
)
"""What a call of a kernel raises that torch has not, of arguments that are none, or too large."""
_LIST: TypeAdapter[list[Replay]] = TypeAdapter(list[Replay])


def run(
    backend: TrainingBackend,
    folder: Path,
    log: Path,
    policy: Policy,
    longest_s: float = LONGEST_S,
) -> Result:
    """Do every replay that `replays.json` in the folder asks for, and write what each took.

    longest_s: how long one may take that is not known well before.
    """
    tasks = _LIST.validate_json((folder / TASKS).read_bytes())
    limit_s = min(longest_s, TOTAL_S / max(1, len(tasks)))
    samples_outside(LEAST_RUNS)  # loads SciPy before anything is timed
    watch = CpuWatch()
    with watch.timing():
        done = [
            replayed(number, task.key, partial(_call_of, task, backend), limit_s)
            for number, task in enumerate(tasks)
        ]
    disturbed = objections(watch.timed, policy)
    flush()
    times = folder / TIMES
    times.write_text(json.dumps([one.model_dump(mode="json") for one in done]))
    return Result(
        validity=validity_of((), disturbed, policy),
        reasons=disturbed,
        metrics={},
        environment={**backend.environment(), **environment_of(watch.timed)},
        artefacts={"replay_times": str(times), "verbose": str(log)},
    )


def replayed(
    number: int, key: str, call_of: Callable[[], Callable[[], object]], longest_s: float
) -> Replayed:
    """Run what `call_of` returns alone; oneDNN's log has it between two lines with REPLAY.

    The first has the number. What cannot be run is refused.
    """
    try:
        call = call_of()
        for _ in range(1 + WARMUP):
            call()
        with _marked(number):
            samples = _timed(call, longest_s)
    except _REFUSALS as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        return Replayed(key=key, refused=reason)
    return Replayed(key=key, samples=tuple(samples))


@contextmanager
def _marked(number: int) -> Iterator[None]:
    """Have oneDNN's log tell what belongs to a replay."""
    flush()
    os.write(1, f"{REPLAY}{number}\n".encode())
    try:
        yield
    finally:
        flush()
        os.write(1, f"{REPLAY}\n".encode())


def _timed(call: Callable[[], object], longest_s: float) -> list[float]:
    samples: list[float] = []
    ends = time.perf_counter() + longest_s
    while len(samples) < MOST_RUNS:
        started = time.perf_counter()
        call()
        samples.append(time.perf_counter() - started)
        enough = len(samples) >= LEAST_RUNS and is_known(samples, WIDTH)
        if enough or (time.perf_counter() > ends and len(samples) >= LEAST_RUNS):
            break
    return samples


def _call_of(task: Replay, backend: TrainingBackend) -> Callable[[], object]:
    if isinstance(task, LayerReplay):
        return layer_call(task, backend)
    return kernel_call(task)


def kernel_call(task: KernelReplay) -> Callable[[], object]:
    """Return a call of the kernel; raises torch's error if there is no such kernel."""
    namespace, _, name = task.kernel.partition("::")
    name, _, overload = name.partition(".")
    packet = getattr(getattr(torch.ops, namespace), name)
    inputs = [json.loads(text or "[]") for text in (task.dims, task.strides, task.dtypes)]
    values = json.loads(task.values or "[]")
    arguments = [
        _argument(dims, strides, dtype, values[index] if index < len(values) else "")
        for index, (dims, strides, dtype) in enumerate(zip(*inputs, strict=True))
    ]

    op = getattr(packet, overload) if overload else _overload_for(packet, arguments)
    run = _handed_over(op, arguments)

    def call() -> object:
        with torch.set_grad_enabled(task.trains):
            return run()

    return _with_gradients(run, arguments) if task.gradients else call


def _overload_for(packet: Any, arguments: list[Any]) -> Any:  # noqa: ANN401 - an operator
    """Return the overload that was run: a trace names none, not even where a result goes to `out`.

    The default where all arguments have a place, else the one with as many, tensors where theirs
    were.
    """
    default = getattr(packet, "default", packet)
    if not hasattr(default, "_schema") or len(arguments) <= len(default._schema.arguments):
        return default
    overloads = (getattr(packet, name) for name in packet.overloads())
    return next((one for one in overloads if _takes(one, arguments)), default)


def _takes(op: Any, arguments: list[Any]) -> bool:  # noqa: ANN401 - an operator
    declared = op._schema.arguments
    return len(declared) == len(arguments) and all(
        isinstance(one.type, torch.TensorType) == isinstance(value, torch.Tensor)
        for one, value in zip(declared, arguments, strict=True)
    )


def _handed_over(op: Any, arguments: list[Any]) -> Callable[[], Any]:  # noqa: ANN401 - an operator
    """Return a call with the arguments, which traces list in order, also those only by name."""
    declared = op._schema.arguments if hasattr(op, "_schema") else []
    first = next((n for n, one in enumerate(declared) if one.kwarg_only), len(arguments))
    by_name = zip(declared[first:], arguments[first:], strict=False)
    named = {one.name: value for one, value in by_name if value is not None}
    return partial(op, *arguments[:first], **named)


def _with_gradients(run: Callable[[], Any], arguments: list[Any]) -> Callable[[], object]:
    """Return a call of a kernel and of the gradients of its tensors, by its first output."""
    learned = [one for one in arguments if isinstance(one, torch.Tensor)]
    for one in learned:
        one.requires_grad_()

    def call() -> object:
        found = run()
        first = found if isinstance(found, torch.Tensor) else found[0]
        dense = first.to_dense() if first.is_mkldnn else first
        gradient = torch.full_like(dense, 1e-3)
        return torch.autograd.grad(dense, learned, gradient, allow_unused=True)

    return call


def _argument(dims: list[int], strides: list[int], dtype: str, value: str) -> Any:  # noqa: ANN401
    """Return an input like the recorded one; None if it was not given."""
    if dtype.startswith(f"{CHOSEN} "):
        return _convolved(_argument(dims, strides, dtype.removeprefix(f"{CHOSEN} "), value))
    if dtype.startswith(f"{OPAQUE} "):
        return _argument(dims, strides, dtype.removeprefix(f"{OPAQUE} "), value).to_mkldnn()
    if dtype in _DTYPES and (dims or not value):
        return _tensor(dims, strides, _DTYPES[dtype])
    return ast.literal_eval(value) if value else None


def _convolved(images: torch.Tensor) -> torch.Tensor:
    """Return images, or volumes, as oneDNN lays them out behind a convolution of each channel."""
    channels, spatial = images.shape[1], images.dim() - 2
    each = torch.ones([channels, 1, *[1] * spatial], dtype=images.dtype).to_mkldnn()
    convolve = torch.conv2d if spatial == 2 else torch.conv3d
    return convolve(images.to_mkldnn(), each, groups=channels)


def _tensor(dims: list[int], strides: list[int], dtype: torch.dtype) -> torch.Tensor:
    reach = 1 + sum((size - 1) * stride for size, stride in zip(dims, strides, strict=True))
    if dtype.is_floating_point:
        data = torch.randn(reach).mul_(0.1).to(dtype)
    else:
        data = torch.zeros(reach, dtype=dtype)
    return data.as_strided(dims, strides)
