"""Prefixes of annotations in a trace: ours, and those of torch.profiler."""

from __future__ import annotations

PHASE = "benchfarm.phase#"
MODULE = "benchfarm.module#"
STEP = "ProfilerStep#"
REPLAY = "benchfarm_replay,"
"""Start of our lines in a verbose log; the lines that follow belong to the replay with this
number."""
