"""Messages between agent and worker about kernels and layers that are run alone."""

from __future__ import annotations

from typing import Literal

from controller.contracts.base import Contract


class KernelReplay(Contract):
    """A kernel to run alone, with its inputs as in a trace."""

    key: str
    kernel: str
    dims: str
    strides: str
    dtypes: str
    values: str


class LayerReplay(Contract):
    """A layer to train alone on the stack, as in oneDNN's description of its primitives."""

    key: str
    kind: Literal["convolution", "inner_product"]
    parameters: dict[str, int]
    """Sizes by oneDNN's names: mb, g, ic, oc, ih, kh, sh, dh, ph …"""
    dtype: str
    """oneDNN's name of the input's data type."""
    channels_last: bool
    """Whether the input is channels-last; else its layout follows its sizes."""
    bias: bool
    learns: bool
    """Whether its weights have a gradient."""
    passes_back: bool
    """Whether its input has a gradient."""


Replay = KernelReplay | LayerReplay


class Replayed(Contract):
    """The result of a replay."""

    key: str
    samples: tuple[float, ...] = ()
    """Seconds of each call."""
    refused: str | None = None
    """Why it could not be run."""
