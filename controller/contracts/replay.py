"""What agent and worker say of kernels and layers that are run alone."""

from __future__ import annotations

from typing import Literal

from controller.contracts.base import Contract


class KernelReplay(Contract):
    """A kernel to run alone, with its inputs as a trace describes them."""

    key: str
    kernel: str
    dims: str
    strides: str
    dtypes: str
    values: str


class LayerReplay(Contract):
    """A layer to train alone, on the stack, as oneDNN describes its primitives."""

    key: str
    kind: Literal["convolution", "inner_product"]
    parameters: dict[str, int]
    """The problem's numbers by oneDNN's names: mb, g, ic, oc, ih, kh, sh, dh, ph …"""
    dtype: str
    """oneDNN's name of the input's data type."""
    channels_last: bool
    """The input's layout; else as the sizes have it."""
    bias: bool
    learns: bool
    """Its weights have a gradient."""
    passes_back: bool
    """Its input has one."""


Replay = KernelReplay | LayerReplay


class Replayed(Contract):
    """What came of it."""

    key: str
    samples: tuple[float, ...] = ()
    """Seconds of each call."""
    refused: str | None = None
    """Why it could not be run."""
