"""What a profile advises to change, and what that is predicted to save."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import model_validator

from controller.contracts.base import Contract, Scalar, scalar_text


class Rule(StrEnum):
    """What a piece of advice is about."""

    LAYOUT = "layout"
    """Activations converted from the plain layout and back, which channels-last avoids."""
    REORDERS = "reorders"
    """Other conversions of a layout or type."""
    PACKED_WEIGHTS = "packed weights"
    """Weights that are packed in one layout, and converted to another in each call."""
    FALLBACK = "dtype fallback"
    """Work in fp32 in a run of bf16."""
    PRECISION = "bf16 unused"
    HIDDEN_ISA = "instruction set hidden"
    """By a limit of oneDNN's, or by a hypervisor that keeps AMX's tiles to itself."""
    AMX_UNUSED = "AMX unused"
    """Products in bf16 by implementations without AMX, on a CPU that has it."""
    DENORMALS = "denormals"
    """Numbers so small that many CPUs compute with them far slower."""
    FROZEN = "frozen work"
    """Gradients of stages that don't learn."""
    NORMS = "unfused norms"
    RELU = "ReLU"
    OPTIMIZER = "optimizer"
    LOSS = "loss"
    TINY = "tiny primitives"
    DIRECT = "direct convolutions"
    """Those that another algorithm computes with fewer products."""
    MALLOC = "malloc"
    PAGE_FAULTS = "page faults"
    """Memory that the kernel hands out and clears again in every step."""
    FRAGMENTATION = "fragmentation"
    THREADS = "threads"
    IDLE_THREADS = "idle threads"
    """Threads that sleep while others work."""
    WAITING = "waiting"
    LOADING = "data loading"


class Remedy(Contract):
    """What to change: a knob or the stack, which a comparison can change, or something in words."""

    kind: Literal["knob", "stack", "setting"]
    name: str = ""
    """Of the knob; empty if it is none."""
    value: Scalar = ""
    """New value of the knob, name of the stack, or what to do, in words."""

    def __str__(self) -> str:
        """Return it as a command line has it."""
        match self.kind:
            case "knob":
                return f"{self.name}={scalar_text(self.value)}"
            case "stack":
                return f"stack {self.value}"
            case _:
                return str(self.value)


class Advice(Contract):
    """One change, why, and the seconds that it is predicted to save, of a step if steps are known.

    What several pieces of advice would save is counted once, in the one that saves most.
    """

    rule: Rule
    evidence: str
    remedy: Remedy
    low_s: float
    high_s: float
    share: float
    """Share of the step, with loading, that the prediction is."""

    @property
    def predicted_s(self) -> float:
        """The middle of the interval."""
        return (self.low_s + self.high_s) / 2

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not 0 <= self.low_s <= self.high_s:
            raise ValueError("an interval of seconds saved goes from at least 0 upwards")
        return self


class Advised(Contract):
    """All advice that a profile gives, that which saves most first."""

    per_step: bool
    whole_s: float
    """The step, and loading a batch where that is beside it; in all, if steps aren't known."""
    validity: Literal["VALID", "DISTURBED", "INVALID"]
    notes: tuple[str, ...] = ()
    """Why the advice may not hold."""
    advice: tuple[Advice, ...] = ()
