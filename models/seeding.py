"""Random weights from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let torch draw from a seed on the CPU; leave its global random state alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
