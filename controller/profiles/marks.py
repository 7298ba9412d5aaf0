"""What annotations in a trace begin with: ours, and those of torch.profiler."""

from __future__ import annotations

PHASE = "benchfarm.phase#"
MODULE = "benchfarm.module#"
STEP = "ProfilerStep#"
REPLAY = "benchfarm_replay,"
"""Begins a line of ours in a verbose log: what comes after it is the replay of that number."""
