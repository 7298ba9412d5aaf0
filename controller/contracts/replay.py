"""Messages between agent and worker about kernels and layers that are run alone."""

from __future__ import annotations

from typing import Final, Literal

from controller.contracts.base import Contract

OPAQUE: Final = "mkldnn"
CHOSEN: Final = "convolved"


class KernelReplay(Contract):
    """A kernel to run alone, with its inputs as in a trace."""

    key: str
    kernel: str
    dims: str
    strides: str
    dtypes: str
    """Names as in traces; OPAQUE before one: the tensor is given to oneDNN first.
    CHOSEN: so, and laid out as oneDNN chooses for a convolution."""
    values: str
    trains: bool = False
    """Whether gradients are on as it is called: torch then has oneDNN train (FWD_D)."""
    gradients: bool = False
    """Whether each call computes the gradients of its tensors, too."""
    bytes: float = 0.0
    """Bytes of its tensors, those it returns as well; 0 if not known."""


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
    largest: dict[str, int] = {}
    """Sizes (mb, id, ih, iw) of the layer's largest input in the model, by which a stack may pack
    its weights; empty if this input is the largest."""


Replay = KernelReplay | LayerReplay


class Replayed(Contract):
    """The result of a replay."""

    key: str
    samples: tuple[float, ...] = ()
    """Seconds of each call."""
    refused: str | None = None
    """Why it could not be run."""


class LogReplays(Contract):
    """Kernels to run alone for the primitives of a log."""

    tasks: tuple[KernelReplay, ...]
    folder: str
    """Where oneDNN's log of the replays is written, as REPLAY_LOG."""
    threads: int
    """0: as many as there are cores."""
    time_limit_s: float
    """No kernel is begun after so long."""
    rounds: int = 1
    """How often each kernel is replayed: all of them in a round, in the order of the one before
    turned round."""


class LogReplayed(Contract):
    """The results of LogReplays."""

    replayed: tuple[Replayed, ...]
    """One for each task, in their order."""
    disturbed: tuple[str, ...] = ()
    """Why the machine was not quiet."""
    threads: int


REPLAY_LOG: Final = "verbose.log"
