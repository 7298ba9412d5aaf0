"""What the kernel, and hardware counters where they can be read, counted in a step's phases."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from controller.contracts.base import Contract
from controller.contracts.topdown import TopDown


class PhaseCounts(Contract):
    """The counts of one phase, of all threads of the worker: means per step."""

    phase: str
    """Empty: between phases."""
    seconds: float
    minor_faults: float
    """Page faults that needed no disk."""
    major_faults: float
    voluntary_switches: float
    """Context switches of threads that waited."""
    involuntary_switches: float
    """Context switches of threads whose core the kernel gave to others."""
    migrations: float | None = None
    """Moves of threads to another core; None: the kernel does not tell."""
    user_s: float
    system_s: float
    """CPU seconds in the kernel."""
    topdown: TopDown | None = None


LEAST, MOST = 1e-60, 1e60
"""Of any number but 0: products and quotients of such are numbers still, and none is 0."""
Times = Annotated[float, Field(ge=LEAST, le=MOST)]


class OtherMalloc(Contract):
    """The same steps with another malloc, compared in turns."""

    malloc: str
    times: Times
    """How many times as long a step takes without it."""
    low: Times | None = None
    high: Times | None = None
    """The 95 % interval; None: too few pairs."""
    pairs: int
    notes: tuple[str, ...] = ()
    """Why the comparison is not VALID."""


def _in_turns(said: object) -> object:
    """Return a comparison; None of what earlier releases counted once, which decides nothing."""
    return None if isinstance(said, dict) and "times" not in said else said


class Counters(Contract):
    """Counts by phase, from steps that nothing else watched."""

    steps: int
    phases: tuple[PhaseCounts, ...]
    """In the order of a step."""
    whole: TopDown | None = None
    """Of whole steps."""
    no_topdown: str | None = None
    """Why the whole step or some of its phases have no shares of counters; None: all have."""
    notes: tuple[str, ...] = ()
    other_malloc: Annotated[OtherMalloc | None, BeforeValidator(_in_turns)] = None
    """Of a cell with glibc's untuned malloc, where another one is installed."""
